//! `nile domain`: nodes on parts of a machine. What each has, the ledger says.
//!
//! * [`args`]: what can be said; [`ledger`]: the ledger's file; [`carry`]: what a command does on a
//!   hosted machine; [`cores`], [`memory`] and [`disks`]: what a domain uses there; [`pc`]: what a
//!   command does on a PC; `show`: what is said of domains; `attack`: what a guard is for;
//!   [`sharing`]: memory that domains have at once; [`elastic`]: cores that go to a domain and back
//!   by what it has to do; [`usage`]: what domains have had and done.

pub mod args;
pub mod attack;
pub mod carry;
pub mod cores;
pub mod disks;
mod elastic;
pub mod ledger;
pub mod memory;
pub mod pc;
mod sharing;
mod show;
mod usage;

use std::fs;

use nile_abi::{Role, RoleSet};
use nile_domain::{Command, Create, Holding, LimitChange, Limits, Name, Resize, UNIT, Way};
use serde_json::json;

use crate::cluster::args::{Logs, Place, Said};
use crate::cluster::folder::{Disk, Folder, Record};
use crate::cluster::{fault, logs, node, process};
use crate::failure::Failure;
use crate::size::Bytes;
use crate::{boot, config};
use args::{Change, Domain, DomainAction, MemoryChange, Options, Policy};
use carry::Carrier;
use show::Seen;

/// Does what is asked for.
pub fn run(options: &Domain) -> Result<(), Failure> {
    match &options.action {
        DomainAction::Create {
            name,
            cores,
            memory,
            min_cores,
            max_cores,
            max_memory,
            disk,
            disks,
            priority,
            no_guard,
            dry_run,
            options,
        } => {
            let least = min_cores.unwrap_or((*cores).min(2));
            let most = max_cores.unwrap_or(*cores);
            let units = (1, units(max_memory.unwrap_or(*memory))?);
            let limits = Limits { cores: (least, most), units, priority: *priority };
            let wanted = Create { name: *name, cores: *cores, units: 0, limits, device: None };
            let disk = disk.map(|Bytes(bytes)| Disk::passing(bytes, *disks));
            let none = [LimitChange::default(); Way::ALL.len()];
            create(wanted, *memory, disk, !no_guard, none, *dry_run, options)
        }
        DomainAction::List(options) => {
            let (folder, record) = carry::folder_with_supervisor(&options.which)?;
            if pc::is_one(&record) {
                return pc::list(&folder, &record, options.json);
            }
            show::list(&folder, &record, &ledger::open(&folder)?, options.json)
        }
        DomainAction::Show { name, options } => show(*name, options),
        DomainAction::Resize { name, cores, memory, force, options } => {
            resize(*name, *cores, *memory, *force, options)
        }
        DomainAction::Limit { name, disk, rate, burst, weight, options } => {
            let [rate, burst] = [rate, burst].map(|it| it.map(|Bytes(bytes)| bytes));
            let way = if *disk { Way::Disk } else { Way::Network };
            limit(*name, way, LimitChange { rate, burst, weight: *weight }, options)
        }
        DomainAction::Lend { from, to, cores, span, options } => {
            let (folder, record) = supervised(options)?;
            let millis = span.as_millis() as u32;
            let lend = Command::Lend { from: *from, to: *to, cores: *cores, millis };
            match pc::is_one(&record) {
                true => pc::lend(&folder, [*from, *to], *cores, *span)?,
                false => Carrier::begin(folder)?.carry_out(&lend)?,
            }
            let document = json!({ "lender": from.as_str(), "borrower": to.as_str(),
                "cores": cores, "seconds": span.as_secs() });
            said(options, &document, &format!("lent: {cores} of {from} to {to}"))
        }
        DomainAction::Recall { name, options } => {
            let (folder, record) = supervised(options)?;
            match pc::is_one(&record) {
                true => pc::recall(&folder, *name)?,
                false => Carrier::begin(folder)?.carry_out(&Command::Recall { from: *name })?,
            }
            let what = format!("recalled: what {name} had from others");
            said(options, &json!({ "recalled": name.as_str() }), &what)
        }
        DomainAction::Share { name, memory, with, options } => {
            let shared = sharing::share(&options.which, *name, units(*memory)?, with)?;
            let names = shared["domains"].as_array().into_iter().flatten();
            let names: Vec<&str> = names.filter_map(|it| it.as_str()).collect();
            said(options, &shared, &format!("shared: {name}, {memory}, by {}", names.join(", ")))
        }
        DomainAction::Unshare { name, from, options } => {
            sharing::unshare(&options.which, *name, from)?;
            let from: Vec<&str> = from.iter().map(Name::as_str).collect();
            let whom = if from.is_empty() { "all".into() } else { from.join(", ") };
            let document = json!({ "unshared": name.as_str(), "from": from });
            said(options, &document, &format!("no longer shared: {name}, by {whom}"))
        }
        DomainAction::Destroy { name, force, options } => {
            let (folder, record) = supervised(options)?;
            disks::let_go(&folder, &record, &options.which, *name, *force)?;
            let destroy = Command::Destroy { name: *name, force: *force };
            match pc::is_one(&record) {
                true => pc::destroy(&folder, *name, *force)?,
                false => Carrier::begin(folder)?.carry_out(&destroy)?,
            }
            said(options, &json!({ "destroyed": name.as_str() }), &format!("destroyed: {name}"))
        }
        DomainAction::Restart { name, force, options } => restart(*name, *force, options),
        DomainAction::Account(options) => usage::account(options),
        DomainAction::Top(options) => usage::top(options),
        DomainAction::Policy { policy: Policy::Elastic(options) } => elastic::run(options),
        DomainAction::Attack(options) => attack::run(options),
        DomainAction::Logs { name, lines, follow, query } => {
            let (node, query) = (Said::Domain(*name, None), query.clone());
            logs::run(&Logs { node, lines: *lines, follow: *follow, query })
        }
    }
}

/// Whether the domains that are meant are processes of this machine: as far as can be known.
pub fn is_hosted(options: &Options) -> bool {
    !carry::folder_with_supervisor(&options.which).is_ok_and(|(_, record)| pc::is_one(&record))
}

/// The cluster whose supervisor is meant, of which something is about to change.
fn supervised(options: &Options) -> Result<(Folder, Record), Failure> {
    Failure::at_signals()?;
    carry::folder_with_supervisor(&options.which)
}

fn said(options: &Options, document: &serde_json::Value, line: &str) -> Result<(), Failure> {
    match options.json {
        true => crate::print(&format!("{document}\n")),
        false => crate::print(&format!("{line}\n")),
    }
}

fn create(
    mut create: Create,
    memory: Bytes,
    disk: Option<Disk>,
    is_guarded: bool,
    may: [LimitChange; Way::ALL.len()],
    dry_run: bool,
    options: &Options,
) -> Result<(), Failure> {
    let Create { name, limits, .. } = create;
    create.units = units(memory)?;
    boot::check_memory(memory)?;
    let (folder, record) = carry::folder_with_supervisor(&options.which)?;
    let is_pc = pc::is_one(&record);
    if !is_pc && !is_guarded {
        return Err(Failure::request("--no-guard: a hosted domain has no guard but Linux"));
    }
    if let (true, Some(disk)) = (is_pc, &disk) {
        pc::check_disk(&record, disk)?;
    }
    if !dry_run && !is_pc {
        node::hosted(false)?;
    }
    let file = folder.file(node::COMMON);
    let config = config::read(Some(&file.clone().into_os_string().into()))?;
    let roles = config::roles(Some(&file), &config, limits.cores.1)?;
    if node::says_roles(&fs::read_to_string(&file).unwrap_or_default()) {
        check_bounds(&roles, limits.cores)?;
    }
    Failure::at_signals()?;
    if is_pc {
        let made = pc::create(&folder, &create, disk.is_some(), is_guarded, dry_run)?;
        return match dry_run {
            true => would_be(name, made.place, &made.cores, memory, options),
            false => {
                for (way, limit) in Way::ALL.into_iter().zip(may) {
                    pc::limit(&folder, name, way, limit)?;
                }
                pc::tell(&folder, name, options.json)
            }
        };
    }
    let command = Command::Create(create);
    let mut carrier = Carrier::begin(folder.clone())?;
    carrier.give_disk(disk);
    let plan = carrier.plan(&command)?;
    if dry_run {
        let cores: Vec<u16> = plan.cores.iter().map(|(core, _)| *core).collect();
        return would_be(name, plan.domain.slot, &cores, memory, options);
    }
    carrier.carry_out(&command)?;
    tell(&carrier, name, options)
}

/// How many units of memory that is.
fn units(memory: Bytes) -> Result<u32, Failure> {
    let whole = (memory.0 / UNIT).try_into().ok().filter(|_| memory.0.is_multiple_of(UNIT));
    whole.ok_or_else(|| Failure::request(format!("--memory {memory}: memory is given in whole 2M")))
}

/// Says what a domain would get.
fn would_be(
    name: Name,
    place: u8,
    cores: &[u16],
    memory: Bytes,
    options: &Options,
) -> Result<(), Failure> {
    let node = format!("n{}", carry::node_of_place(place));
    let document = json!({
        "dry_run": true,
        "name": name.as_str(),
        "node": node,
        "cores": cores,
        "memory": memory.0,
    });
    let cores = show::numbers(cores);
    said(options, &document, &format!("{name} would be {node}, with cores {cores} and {memory}"))
}

/// Ends a domain and makes it anew. A hosted one stays in its place, with what its disks have; the
/// disk of another is as new.
fn restart(name: Name, force: bool, options: &Options) -> Result<(), Failure> {
    let (folder, record) = carry::folder_with_supervisor(&options.which)?;
    if !pc::is_one(&record) {
        Failure::at_signals()?;
        let node = record.domain(name.as_str())?;
        if !force {
            process::end(folder.path(), |part| part == node.name(), carry::STOP);
        }
        fault::restart(&folder, Place { node: node.node(), core: None })?;
        return show(name, options);
    }
    let pc::Again { create: again, disk, is_guarded, may } = pc::wanted(&folder, name)?;
    disks::let_go(&folder, &record, &options.which, name, force)?;
    pc::destroy(&folder, name, force)?;
    let memory = show::memory(again.units);
    create(again, memory, disk, is_guarded, may, false, options)
}

/// Refuses a range of cores that a configuration which says roles does not allow: a core that comes
/// and goes is a worker and nothing else, and the others have a worker among them.
fn check_bounds(roles: &[RoleSet], (least, most): (u16, u16)) -> Result<(), Failure> {
    let worker = RoleSet::EMPTY.with(Role::Worker);
    let always = usize::from(least).min(roles.len());
    let comes_and_goes = roles[always..].iter().all(|roles| *roles == worker);
    let works = roles[..always].iter().any(|roles| roles.contains(Role::Worker));
    if least == most || comes_and_goes && works {
        return Ok(());
    }
    Err(Failure::request(format!(
        "--min-cores {least}: in the cluster's [roles] the cores of a domain from c{least} on are \
         not workers alone, or no other is a worker; give more"
    )))
}

fn resize(
    name: Name,
    cores: Option<Change>,
    memory: Option<MemoryChange>,
    force: bool,
    options: &Options,
) -> Result<(), Failure> {
    if cores.is_none() && memory.is_none() {
        return Err(Failure::request("nothing is to change; say --cores or --memory"));
    }
    let (folder, record) = supervised(options)?;
    if pc::is_one(&record) {
        pc::resize(&folder, name, cores, memory, force)?;
        return pc::tell(&folder, name, options.json);
    }
    let mut carrier = Carrier::begin(folder)?;
    change(&mut carrier, name, cores, memory, force)?;
    tell(&carrier, name, options)
}

/// Limits what a domain sends.
fn limit(name: Name, way: Way, limit: LimitChange, options: &Options) -> Result<(), Failure> {
    if limit == LimitChange::default() {
        return Err(Failure::request("nothing is to change; say --rate, --burst or --weight"));
    }
    let (folder, record) = carry::folder_with_supervisor(&options.which)?;
    if !pc::is_one(&record) {
        return Err(Failure::request(
            "hosted domains send frames to each other, and have disks of Linux, with nobody in \
             between who could limit them",
        ));
    }
    pc::limit(&folder, name, way, limit)?;
    pc::tell(&folder, name, options.json)
}

/// Gives a hosted domain more or less.
fn change(
    carrier: &mut Carrier,
    name: Name,
    cores: Option<Change>,
    memory: Option<MemoryChange>,
    force: bool,
) -> Result<(), Failure> {
    let ledger = carrier.ledger();
    let slot = ledger.named(name).map_or(0, |domain| domain.id.slot);
    let has = |it: &Holding| it.is_own(slot);
    let cores = cores.map(|change| change.of(ledger.cores_with(has).len()));
    let units = memory.map(|change| change.of(ledger.units_with(has)));
    carrier.carry_out(&Command::Resize(Resize { name, cores, units, force }))
}

/// Gives a domain more or fewer cores of its own.
fn change_cores(folder: &Folder, name: Name, cores: Change) -> Result<(), Failure> {
    if pc::is_one(&folder.record()?) {
        return pc::resize(folder, name, Some(cores), None, false);
    }
    change(&mut Carrier::begin(folder.clone())?, name, Some(cores), None, false)
}

/// How many cores a domain has, and can have.
fn cores_of(folder: &Folder, name: Name) -> Result<(usize, u16), Failure> {
    if pc::is_one(&folder.record()?) {
        return pc::cores_of(folder, name);
    }
    let ledger = ledger::open(folder)?;
    let none = || Failure::request(format!("domain {name} has just gone"));
    let domain = ledger.named(name).ok_or_else(none)?;
    let has = ledger.cores_with(|it| it.is_of(domain.id.slot)).len();
    Ok((has, domain.limits.cores.1))
}

/// Says what a domain has now.
fn tell(carrier: &Carrier, name: Name, options: &Options) -> Result<(), Failure> {
    let (folder, record, ledger) = (carrier.folder(), carrier.record(), carrier.ledger());
    match ledger.named(name) {
        Some(domain) => Seen::of(folder, record, ledger, &domain).print(options.json),
        None => Err(Failure::failed(format!("domain {name} has just gone"))),
    }
}

fn show(name: Name, options: &Options) -> Result<(), Failure> {
    let (folder, record) = carry::folder_with_supervisor(&options.which)?;
    if pc::is_one(&record) {
        return pc::tell(&folder, name, options.json);
    }
    let ledger = ledger::open(&folder)?;
    // The record knows the nearest name if there is no such domain.
    record.domain(name.as_str())?;
    match ledger.named(name) {
        Some(domain) => Seen::of(&folder, &record, &ledger, &domain).print(options.json),
        None => Err(Failure::request(format!("domain {name} has just gone"))),
    }
}
