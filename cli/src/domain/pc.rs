//! Domains of a PC: the service `domains` of the supervisor's node has the ledger and does what
//! commands say. The cluster's record says which nodes they are, and is written before a domain is
//! made and after it has ended.

use std::fs;
use std::time::{Duration, Instant};

use nile_abi::{NodeId, Status};
use nile_domain::{Account, Carried, Create, Limit, LimitChange, Limits, Name, UNIT, Way};
use nile_interfaces::domains::{
    DomainChange, DomainEntry, DomainWanted, DomainsClient, DomainsOfMachine, LentEntry,
    SharedEntry, TollEntry,
};
use nile_stl::{CallError, CallResult, Client};

use super::args::{Change, MemoryChange};
use super::carry::{self, START, node_of_place};
use super::sharing::Shared;
use super::show::{self, Seen};
use super::usage::Charged;
use crate::cluster::args::Kind;
use crate::cluster::folder::{self, Claim, Disk, Folder, Node, Record};
use crate::cluster::node;
use crate::cluster::ready::Waiting;
use crate::failure::Failure;
use crate::peer::{Peer, known};
use crate::size::Bytes;

/// The node of the supervisor.
const SUPERVISOR: NodeId = NodeId(1);

/// How long that may take to be heard, and to do what it is told to.
const ANSWER: Duration = Duration::from_secs(5);
const LIMIT: Duration = Duration::from_secs(30);

/// Whether the machine that a cluster shares is a PC.
pub fn is_one(record: &Record) -> bool {
    record.shared.is_some() && record.nodes.iter().any(|node| node.machine == Kind::Qemu)
}

/// Asks the supervisor for something.
fn ask<T>(
    folder: &Folder,
    record: &Record,
    what: impl AsyncFnOnce(DomainsClient) -> CallResult<T>,
) -> Result<T, Failure> {
    let mut peer = Peer::join(folder, record)?;
    let name = DomainsClient::INTERFACE.name;
    let mut target = None;
    peer.until(ANSWER, |peer| {
        target = known::on_node(peer.known(), SUPERVISOR, name);
        target.is_some()
    })?;
    let none = || Failure::failed(format!("{SUPERVISOR}, the supervisor, does not answer"));
    let target = target.ok_or_else(none)?;
    let done = peer.work(LIMIT, async |clients| what(clients.at(target)).await)?;
    done.map_err(|CallError { status, message }| match status {
        Status::Invalid | Status::Busy => Failure::request(message),
        _ if message.is_empty() => Failure::failed(format!("{SUPERVISOR}: {name}: {status}")),
        _ => Failure::failed(message),
    })
}

/// The right to change the cluster, and what it consists of.
pub fn claim(folder: &Folder) -> Result<(Claim, Record), Failure> {
    let gone = || Failure::request("the cluster has just gone");
    let claim = folder.claim()?.ok_or_else(gone)?;
    Ok((claim, folder.record()?))
}

/// Refuses a disk that no domain of this machine can have.
pub fn check_disk(record: &Record, wanted: &Disk) -> Result<(), Failure> {
    let disks = record.shared.as_ref().and_then(|shared| shared.disks.as_ref());
    let Some(disks) = disks else {
        return Err(Failure::request(
            "--disk: this machine has no disks for domains; `up --machine qemu --supervisor --disk \
             64M --disks 2` gives it some",
        ));
    };
    let bytes = Bytes(disks.bytes);
    if wanted.count > 1 {
        return Err(Failure::request("--disks: a domain of a PC has one disk"));
    }
    if wanted.bytes > disks.bytes {
        let why = format!("--disk {}: a disk of this machine has {bytes}", Bytes(wanted.bytes));
        return Err(Failure::request(why));
    }
    Ok(())
}

/// Makes a domain and waits until it is up, or says what it would get.
pub fn create(
    folder: &Folder,
    create: &Create,
    has_disk: bool,
    is_guarded: bool,
    dry_run: bool,
) -> Result<DomainEntry, Failure> {
    let (_claim, mut record) = claim(folder)?;
    let Limits { cores: (least_cores, most_cores), units: (_, most_units), priority } =
        create.limits;
    let wanted = DomainWanted {
        name: create.name.to_string(),
        cores: create.cores,
        units: create.units,
        least_cores,
        most_cores,
        most_units,
        priority,
        disk: has_disk,
    };
    let planned = wanted.clone();
    let plan = ask(folder, &record, async |domains| domains.plan(planned).await)?;
    if dry_run {
        return Ok(plan);
    }
    let disks = record.shared.as_ref().and_then(|shared| shared.disks.as_ref());
    let disk = disks.filter(|_| has_disk);
    let own = folder::Domain {
        name: wanted.name.clone(),
        cores: plan.cores.clone(),
        bounds: (least_cores, most_cores),
        memory: u64::from(plan.units) * UNIT,
        most_memory: u64::from(most_units) * UNIT,
        is_guarded,
        disk: disk.map(|it| Disk::passing(it.bytes, 1)),
    };
    let node = Node {
        id: node_of_place(plan.place),
        machine: Kind::Qemu,
        generation: node::next_generation(0),
        domain: Some(own),
    };
    // One of that name, or of that place, has ended by itself.
    let is_other = |it: &Node| it.domain.as_ref().is_none_or(|it| it.name != wanted.name);
    record.nodes.retain(|it| it.id != node.id && is_other(it));
    record.nodes.push(node.clone());
    record.nodes.sort_by_key(|it| it.id);
    let file = node::write_config(folder, &record, &node)?;
    let config = fs::read_to_string(&file)
        .map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
    folder.set_record(&record)?;
    let made =
        ask(folder, &record, async |domains| domains.create(wanted, plan.place, config).await);
    let up = made.and_then(|made| wait(folder, &record, &node).map(|()| made));
    if up.is_ok() {
        note(folder, &mut record)?;
    } else {
        let name = create.name.to_string();
        let undone = ask(folder, &record, async |domains| domains.destroy(name, true).await);
        // One that was not made is not there.
        drop(undone);
        forget(folder, &mut record, node.id)?;
    }
    up
}

/// Waits until a domain is heard, with all that it has.
fn wait(folder: &Folder, record: &Record, node: &Node) -> Result<(), Failure> {
    let mut alone = record.clone();
    alone.nodes.retain(|it| it.id == node.id);
    let mut waiting = Waiting::new(folder, &alone)?;
    let deadline = Instant::now() + START;
    while !waiting.look()? {
        if Instant::now() >= deadline {
            let (reason, log) = (waiting.reason(), folder.log_path(&SUPERVISOR.to_string()));
            let why = format!("the domain is not up ({reason}); see {}", log.display());
            return Err(Failure::failed(why));
        }
    }
    Ok(())
}

/// Gives a domain that runs cores and memory, or takes some, and waits until it has what it is to
/// have.
pub fn resize(
    folder: &Folder,
    name: Name,
    cores: Option<Change>,
    memory: Option<MemoryChange>,
    force: bool,
) -> Result<(), Failure> {
    let (_claim, mut record) = claim(folder)?;
    let machine = ask(folder, &record, async |domains| domains.list().await)?;
    let entry = machine.domains.iter().find(|it| it.name == name.as_str());
    let own = |it: &DomainEntry| it.cores.len() - lent(&machine, |loan| loan.borrower == it.place);
    let change = DomainChange {
        cores: cores.map(|it| it.of(entry.map_or(0, own))),
        units: memory.map(|it| it.of(entry.map_or(0, |it| it.units))),
        force,
        ..DomainChange::default()
    };
    let text = name.to_string();
    ask(folder, &record, async |domains| domains.resize(text, change).await)?;
    note(folder, &mut record)
}

/// Limits what a domain sends. Does nothing if nothing is to change.
pub fn limit(folder: &Folder, name: Name, way: Way, limit: LimitChange) -> Result<(), Failure> {
    if limit == LimitChange::default() {
        return Ok(());
    }
    let LimitChange { rate, burst, weight } = limit;
    let of_disk = way == Way::Disk;
    let change = DomainChange { of_disk, rate, burst, weight, ..DomainChange::default() };
    let name = name.to_string();
    ask(folder, &folder.record()?, async |domains| domains.resize(name, change).await).map(|_| ())
}

/// How many cores a domain has, and can have.
pub fn cores_of(folder: &Folder, name: Name) -> Result<(usize, u16), Failure> {
    let machine = ask(folder, &folder.record()?, async |domains| domains.list().await)?;
    let none = || Failure::request(format!("domain {name} has just gone"));
    let entry = machine.domains.iter().find(|it| it.name == name.as_str()).ok_or_else(none)?;
    Ok((entry.cores.len(), entry.most_cores))
}

/// What each domain has, and has had.
pub fn charged(folder: &Folder, record: &Record) -> Result<Vec<Charged>, Failure> {
    let machine = ask(folder, record, async |domains| domains.list().await)?;
    let of = |entry: DomainEntry| Charged {
        name: entry.name,
        place: entry.place,
        state: entry.state,
        cores: entry.cores,
        units: entry.units,
        account: Account {
            age: Duration::from_micros(entry.age_us),
            core_micros: entry.core_us,
            unit_micros: entry.unit_us,
        },
        sent: Some(carried(&entry.sent)),
        disk: Some(carried(&entry.disk)),
    };
    Ok(machine.domains.into_iter().map(of).collect())
}

fn carried(toll: &TollEntry) -> Carried {
    let TollEntry { passed, bytes, dropped, busy_us, .. } = *toll;
    Carried { passed, bytes, dropped, time: Duration::from_micros(busy_us) }
}

/// Notes what each domain has now: one may have got what was another's.
fn note(folder: &Folder, record: &mut Record) -> Result<(), Failure> {
    let machine = ask(folder, record, async |domains| domains.list().await)?;
    for entry in machine.domains {
        let id = node_of_place(entry.place);
        let node = record.nodes.iter_mut().find(|node| node.id == id);
        if let Some(domain) = node.and_then(|node| node.domain.as_mut()) {
            domain.cores = entry.cores;
            domain.memory = u64::from(entry.units) * UNIT;
        }
    }
    folder.set_record(record)
}

/// How many cores are lent so.
fn lent(machine: &DomainsOfMachine, is_so: impl Fn(&LentEntry) -> bool) -> usize {
    machine.lent.iter().filter(|it| is_so(it)).count()
}

/// Has one domain lend another cores for so long.
pub fn lend(
    folder: &Folder,
    [from, to]: [Name; 2],
    cores: u16,
    span: Duration,
) -> Result<(), Failure> {
    let (_claim, mut record) = claim(folder)?;
    let ([from, to], millis) = ([from, to].map(|it| it.to_string()), span.as_millis() as u32);
    ask(folder, &record, async |domains| domains.lend(from, to, cores, millis).await)?;
    note(folder, &mut record)
}

/// Gives back what a domain has from others.
pub fn recall(folder: &Folder, name: Name) -> Result<(), Failure> {
    let (_claim, mut record) = claim(folder)?;
    ask(folder, &record, async |domains| domains.recall(name.to_string()).await)?;
    note(folder, &mut record)
}

/// Ends a domain. Of one that has ended by itself, nothing is left then either.
pub fn destroy(folder: &Folder, name: Name, force: bool) -> Result<(), Failure> {
    let (_claim, mut record) = claim(folder)?;
    let machine = ask(folder, &record, async |domains| domains.list().await)?;
    let is_there = machine.domains.iter().any(|it| it.name == name.as_str());
    let node = record.domain(name.as_str()).map(|node| node.id);
    if is_there || node.is_err() {
        let name = name.to_string();
        ask(folder, &record, async |domains| domains.destroy(name, force).await)?;
    }
    forget(folder, &mut record, node?)
}

/// Has domains share memory.
pub fn share(
    folder: &Folder,
    record: &Record,
    name: Name,
    units: u32,
    with: &[Name],
) -> Result<SharedEntry, Failure> {
    let (name, with) = (name.to_string(), with.iter().map(Name::to_string).collect());
    ask(folder, record, async |domains| domains.share(name, units, with).await)
}

/// These domains, or all, share it no more.
pub fn unshare(folder: &Folder, record: &Record, name: Name, from: &[Name]) -> Result<(), Failure> {
    let (name, from) = (name.to_string(), from.iter().map(Name::to_string).collect());
    ask(folder, record, async |domains| domains.unshare(name, from).await)
}

/// What domains share.
pub fn shared(folder: &Folder, record: &Record) -> Result<Vec<SharedEntry>, Failure> {
    Ok(ask(folder, record, async |domains| domains.list().await)?.shared)
}

/// A node is none of the cluster's any more.
fn forget(folder: &Folder, record: &mut Record, node: u32) -> Result<(), Failure> {
    carry::tell_end(folder, record, node);
    record.nodes.retain(|it| it.id != node);
    folder.set_record(record)
}

/// What makes a domain anew as it is, or was.
pub struct Again {
    pub create: Create,
    pub disk: Option<Disk>,
    pub is_guarded: bool,
    pub may: [LimitChange; Way::ALL.len()],
}

/// What a domain may have done by a way, and had done.
pub fn toll(entry: &DomainEntry, way: Way) -> &TollEntry {
    match way {
        Way::Network => &entry.sent,
        Way::Disk => &entry.disk,
    }
}

/// That of a domain.
pub fn wanted(folder: &Folder, name: Name) -> Result<Again, Failure> {
    let record = folder.record()?;
    let node = record.domain(name.as_str())?;
    let none = || Failure::request(format!("no domain `{name}`"));
    let own = node.domain.as_ref().ok_or_else(none)?;
    let machine = ask(folder, &record, async |domains| domains.list().await)?;
    let entry = machine.domains.iter().find(|it| it.name == name.as_str());
    let priority = entry.map_or(0, |it| it.priority);
    let change = |it: &TollEntry| match Limit::from_words([it.rate, it.burst, it.weight]) {
        none if none == Limit::default() => LimitChange::default(),
        _ => LimitChange { rate: Some(it.rate), burst: Some(it.burst), weight: Some(it.weight) },
    };
    let changes = entry.map(|it| Way::ALL.map(|way| change(toll(it, way))));
    let limits = own.limits(priority);
    // What it has lent comes back when it ends, and what it has from others they have then.
    let cores = entry.map_or(own.cores.len(), |it| {
        it.cores.len() + lent(&machine, |loan| loan.lender == it.place)
            - lent(&machine, |loan| loan.borrower == it.place)
    });
    let (cores, units) = (cores as u16, (own.memory / UNIT) as u32);
    let create = Create { name, cores, units, limits, device: None };
    Ok(Again {
        create,
        disk: own.disk.clone(),
        is_guarded: own.is_guarded,
        may: changes.unwrap_or_default(),
    })
}

/// Says what a domain has.
pub fn tell(folder: &Folder, name: Name, as_json: bool) -> Result<(), Failure> {
    let record = folder.record()?;
    let machine = ask(folder, &record, async |domains| domains.list().await)?;
    let seen = all_seen(folder, &record, &machine);
    match seen.iter().find(|it| it.is_called(name.as_str())) {
        Some(seen) => seen.print(as_json),
        // The record knows the nearest name.
        None => record.domain(name.as_str()).map(|_| ()),
    }
}

/// Prints all domains, and what is free.
pub fn list(folder: &Folder, record: &Record, as_json: bool) -> Result<(), Failure> {
    let machine = ask(folder, record, async |domains| domains.list().await)?;
    let seen = all_seen(folder, record, &machine);
    let files = node::disks_for_domains(folder, record);
    let disks = machine.free_disks.iter().filter_map(|it| files.get(usize::from(*it)));
    let free = show::Free {
        cores: machine.free_cores,
        memory: show::memory(machine.free_units),
        disks: disks.cloned().collect(),
    };
    let shared: Vec<Shared> = machine.shared.into_iter().map(Shared::from).collect();
    show::print_all(record, &seen, &shared, &free, as_json)
}

/// The domains of the ledger, and those that have ended by themselves.
fn all_seen(folder: &Folder, record: &Record, machine: &DomainsOfMachine) -> Vec<Seen> {
    let log = folder.log_path(&SUPERVISOR.to_string()).display().to_string();
    let files = node::disks_for_domains(folder, record);
    let of = |entry: &DomainEntry| Seen::told(entry, machine, &files, &log);
    let mut all: Vec<Seen> = machine.domains.iter().map(of).collect();
    let is_known = |name: &str| machine.domains.iter().any(|it| it.name == name);
    let domains = record.nodes.iter().filter_map(|node| Some((node, node.domain.as_ref()?)));
    let gone = domains.filter(|(_, domain)| !is_known(&domain.name));
    all.extend(gone.map(|(node, domain)| Seen::gone(node, domain, &log)));
    all
}
