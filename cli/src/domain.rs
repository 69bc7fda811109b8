//! `nile domain`: nodes on parts of a machine. What each has, the ledger says.
//!
//! * [`args`]: what can be said; [`ledger`]: the ledger's file; `carry`: what a command does;
//!   `show`: what is said of domains.

pub mod args;
mod carry;
pub mod ledger;
mod show;

use nile_domain::{Command, Create, Limits, Name, UNIT};
use serde_json::json;

use crate::cluster::args::{Logs, Said};
use crate::cluster::{logs, node};
use crate::failure::Failure;
use crate::size::Bytes;
use crate::{boot, config};
use args::{Domain, DomainAction, Options};
use carry::Carrier;
use show::Seen;

/// Does what is asked for.
pub fn run(options: &Domain) -> Result<(), Failure> {
    match &options.action {
        DomainAction::Create { name, cores, memory, dry_run, options } => {
            create(*name, *cores, *memory, *dry_run, options)
        }
        DomainAction::List(options) => {
            let (folder, record) = carry::folder_with_supervisor(&options.which)?;
            show::list(&folder, &record, &ledger::open(&folder)?, options.json)
        }
        DomainAction::Show { name, options } => show(*name, options),
        DomainAction::Destroy { name, force, options } => {
            let (folder, _) = carry::folder_with_supervisor(&options.which)?;
            Failure::at_signals()?;
            let mut carrier = Carrier::begin(folder)?;
            carrier.carry_out(&Command::Destroy { name: *name, force: *force })?;
            match options.json {
                true => crate::print(&format!("{}\n", json!({ "destroyed": name.as_str() }))),
                false => crate::print(&format!("destroyed: {name}\n")),
            }
        }
        DomainAction::Logs { name, lines, follow, query } => {
            let (node, query) = (Said::Domain(*name, None), query.clone());
            logs::run(&Logs { node, lines: *lines, follow: *follow, query })
        }
    }
}

fn create(
    name: Name,
    cores: u16,
    memory: Bytes,
    dry_run: bool,
    options: &Options,
) -> Result<(), Failure> {
    if !memory.0.is_multiple_of(UNIT) {
        return Err(Failure::request(format!("--memory {memory}: memory is given in whole 2M")));
    }
    boot::check_memory(memory)?;
    let (folder, record) = carry::folder_with_supervisor(&options.which)?;
    if !dry_run {
        node::hosted(false)?;
    }
    let file = folder.file(node::COMMON);
    let config = config::read(Some(&file.clone().into_os_string().into()))?;
    config::roles(Some(&file), &config, cores)?;
    Failure::at_signals()?;
    let units = (memory.0 / UNIT) as u32;
    let most = record.shared.as_ref().map_or(cores, |shared| shared.cores);
    let limits = Limits { cores: (1, most.max(cores)), units: (1, u32::MAX), priority: 0 };
    let command = Command::Create(Create { name, cores, units, limits, device: None });
    let mut carrier = Carrier::begin(folder.clone())?;
    let plan = carrier.plan(&command)?;
    if dry_run {
        let cores: Vec<u16> = plan.cores.iter().map(|(core, _)| *core).collect();
        let node = format!("n{}", carry::node_of(plan.domain));
        return match options.json {
            true => crate::print(&format!(
                "{}\n",
                json!({
                    "dry_run": true,
                    "name": name.as_str(),
                    "node": node,
                    "cores": cores,
                    "memory": memory.0,
                })
            )),
            false => crate::print(&format!(
                "{name} would be {node}, with cores {} and {memory}\n",
                show::numbers(&cores)
            )),
        };
    }
    carrier.carry_out(&command)?;
    let (ledger, record) = (carrier.ledger(), carrier.record());
    match ledger.named(name) {
        Some(domain) => Seen::of(&folder, record, ledger, &domain).print(options.json),
        None => Err(Failure::failed(format!("domain {name} has just gone"))),
    }
}

fn show(name: Name, options: &Options) -> Result<(), Failure> {
    let (folder, record) = carry::folder_with_supervisor(&options.which)?;
    let ledger = ledger::open(&folder)?;
    // The record knows the nearest name if there is no such domain.
    record.domain(name.as_str())?;
    match ledger.named(name) {
        Some(domain) => Seen::of(&folder, &record, &ledger, &domain).print(options.json),
        None => Err(Failure::request(format!("domain {name} has just gone"))),
    }
}
