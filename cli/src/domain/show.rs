//! What is said of domains.

use std::path::PathBuf;

use nile_domain::{Domain, Ledger, Lifecycle, Limit, Limits, Phase, UNIT, Way, Words};
use nile_interfaces::domains::{DomainEntry, DomainsOfMachine, TollEntry};
use serde_json::{Value, json};

use super::carry::{last_line, node_of_place, part};
use super::pc;
use super::sharing::Shared;
use crate::cluster::folder::{self, Folder, Node, Record};
use crate::cluster::node;
use crate::failure::Failure;
use crate::size::Bytes;
use crate::table;

/// A domain as it is now.
pub struct Seen {
    name: String,
    node: String,
    /// As the ledger has it, or `gone` if its process is.
    state: String,
    generation: u32,
    cores: Vec<u16>,
    cpus: Vec<usize>,
    memory: Bytes,
    /// Its disks: the file and the bytes of each.
    disks: Vec<(String, u64)>,
    /// Whether these reach its memory alone, as far as that is known, and from how many accesses to
    /// other memory they were kept.
    isolated: Option<bool>,
    kept_off: u64,
    limits: Limits,
    /// What it may have done by each way; not known of a hosted one.
    may: Option<[Limit; Way::ALL.len()]>,
    /// Its cores that others have, and those that it has from others.
    lent: Cores,
    borrowed: Cores,
    log: String,
    /// The last line of its log, if it is gone.
    last: Option<String>,
}

impl Seen {
    /// Looks at a domain.
    pub fn of<W: Words>(
        folder: &Folder,
        record: &Record,
        ledger: &Ledger<W>,
        domain: &Domain,
    ) -> Seen {
        let Domain { id, name, limits, .. } = *domain;
        let named = |slot| ledger.in_slot(slot).map(|it| it.name.to_string());
        let loans = ledger.cores().filter_map(|(core, it)| Some((core, it.loan()?)));
        let (lent, borrowed) = parted(id.slot, loans, named);
        let part = part(id);
        let node = record.nodes.iter().find(|node| node.name() == part);
        let runs = node.is_some_and(|it| node::listens(folder, it.node()));
        let is_gone = domain.state == Lifecycle::Running && !runs;
        Seen {
            name: name.to_string(),
            log: folder.log_path(&part).display().to_string(),
            node: part,
            state: if is_gone { "gone" } else { domain.state.name() }.into(),
            generation: id.generation.0,
            cores: ledger.cores_with(|it| it.is_of(id.slot)),
            cpus: node.map(|node| record.cpus_of(node)).unwrap_or_default(),
            memory: memory(ledger.units_with(|it| it.is_of(id.slot))),
            disks: node.map(|node| disks(folder, record, node)).unwrap_or_default(),
            isolated: None,
            kept_off: 0,
            limits,
            may: None,
            lent,
            borrowed,
            last: is_gone.then(|| last_line(folder, id)),
        }
    }

    /// A domain of a PC, as its supervisor tells it, whose machine has these `disks` for domains.
    pub fn told(
        entry: &DomainEntry,
        machine: &DomainsOfMachine,
        disks: &[(String, u64)],
        log: &str,
    ) -> Seen {
        let named = |place| {
            let domain = machine.domains.iter().find(|it| it.place == place);
            domain.map(|it| it.name.clone())
        };
        let loans = machine.lent.iter().map(|it| (it.core, (it.lender, it.borrower)));
        let (lent, borrowed) = parted(entry.place, loans, named);
        let own = entry.disks.iter().filter_map(|disk| disks.get(usize::from(*disk)));
        let last = &entry.last_words;
        Seen {
            name: entry.name.clone(),
            node: format!("n{}", node_of_place(entry.place)),
            state: entry.state.clone(),
            generation: entry.generation,
            cores: entry.cores.clone(),
            cpus: Vec::new(),
            memory: memory(entry.units),
            disks: own.cloned().collect(),
            isolated: (!entry.disks.is_empty()).then_some(entry.isolated),
            kept_off: entry.kept_off,
            limits: Limits {
                cores: (entry.least_cores, entry.most_cores),
                units: (1, entry.most_units),
                priority: entry.priority,
            },
            may: Some(Way::ALL.map(|way| limit(pc::toll(entry, way)))),
            lent,
            borrowed,
            log: log.into(),
            last: (!last.is_empty()).then(|| last.clone()),
        }
    }

    /// A domain of a PC that has ended by itself: its supervisor has forgotten it.
    pub fn gone(node: &Node, domain: &folder::Domain, log: &str) -> Seen {
        Seen {
            name: domain.name.clone(),
            node: node.name(),
            state: "gone".into(),
            generation: 0,
            cores: Vec::new(),
            cpus: Vec::new(),
            memory: memory(0),
            disks: Vec::new(),
            isolated: None,
            kept_off: 0,
            limits: domain.limits(0),
            may: None,
            lent: Vec::new(),
            borrowed: Vec::new(),
            log: log.into(),
            last: None,
        }
    }

    /// Whether it is called so.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name
    }

    fn document(&self) -> Value {
        json!({
            "name": self.name,
            "node": self.node,
            "state": self.state,
            "generation": self.generation,
            "cores": self.cores,
            "cpus": self.cpus,
            "memory": self.memory.0,
            "disks": self.disks.iter().map(disk).collect::<Vec<_>>(),
            "isolated": self.isolated,
            "kept_off": self.kept_off,
            "min_cores": self.limits.cores.0,
            "max_cores": self.limits.cores.1,
            "max_memory": memory(self.limits.units.1).0,
            "priority": self.limits.priority,
            "limit": self.may.map(|[sends, _]| document(sends)),
            "disk_limit": self.may.map(|[_, disk]| document(disk)),
            "lent": parts(&self.lent),
            "borrowed": parts(&self.borrowed),
            "log": self.log,
            "last": self.last,
        })
    }

    fn row(&self) -> Vec<String> {
        let Seen { name, node, state, generation, cores, memory, disks, .. } = self;
        let generation = format!("g{generation}");
        vec![
            name.clone(),
            node.clone(),
            state.clone(),
            generation,
            numbers(cores),
            memory.to_string(),
            summed(disks),
        ]
    }

    /// Prints what there is to say of it.
    pub fn print(&self, as_json: bool) -> Result<(), Failure> {
        if as_json {
            return crate::print(&format!("{}\n", self.document()));
        }
        let Seen { name, node, state, generation, cores, cpus, memory, disks, log, last, .. } =
            self;
        let Limits { cores: (least, most), units: (_, units), priority } = self.limits;
        let most_memory = self::memory(units);
        let cpus = match &cpus[..] {
            [] => "any CPU".into(),
            cpus => format!("CPU {}", numbers(cpus)),
        };
        let mut text = format!(
            "{name}: {state}, {node}, generation {generation}\n\
             cores {} on {cpus}, {memory}\n{least} to {most} cores, at most {most_memory}, \
             priority {priority}\n",
            numbers(cores)
        );
        for (file, bytes) in disks {
            text += &format!(
                "disk {file}, {}
",
                Bytes(*bytes)
            );
        }
        text += match self.isolated {
            Some(true) => "isolated: yes, its disk reaches its own memory alone\n",
            Some(false) => "isolated: no, its disk reaches all memory: there is no IOMMU\n",
            None => "",
        };
        if self.kept_off > 0 {
            text += &format!("its disk was kept from other memory {} times\n", self.kept_off);
        }
        let does = ["sends", "its disk moves"];
        for (does, limit) in does.into_iter().zip(self.may.into_iter().flatten()) {
            match limit {
                Limit { rate: Some(rate), burst, weight } => {
                    let [rate, burst] = [Bytes(rate.get()), Bytes(burst)];
                    text += &format!("{does} {rate} a second, {burst} at once, weight {weight}\n");
                }
                Limit { weight, .. } if weight != Limit::default().weight => {
                    text += &format!("{does} without a limit, weight {weight}\n");
                }
                _ => {}
            }
        }
        for (core, other) in &self.lent {
            text += &format!("core {core} is lent to {other}\n");
        }
        for (core, other) in &self.borrowed {
            text += &format!("core {core} is borrowed from {other}\n");
        }
        text += &format!("log {log}\n");
        if let Some(last) = last {
            text += &match self.state == "gone" {
                true => format!("its processes are gone; its log ends: {last}\n"),
                false => format!("its managing core has failed last: {last}\n"),
            };
        }
        crate::print(&text)
    }
}

/// Prints all domains, and what is free.
pub fn list<W: Words>(
    folder: &Folder,
    record: &Record,
    ledger: &Ledger<W>,
    as_json: bool,
) -> Result<(), Failure> {
    let domains = ledger.domains().collect::<Vec<_>>();
    let domains: Vec<Seen> =
        domains.iter().map(|domain| Seen::of(folder, record, ledger, domain)).collect();
    let cores = ledger.cores_with(|it| it.phase == Phase::Free);
    let memory = memory(ledger.units_with(|it| it.phase == Phase::Free));
    let shared: Vec<Shared> = ledger.shares().map(Shared::from).collect();
    let free = Free { cores, memory, disks: Vec::new() };
    print_all(record, &domains, &shared, &free, as_json)
}

/// What nobody has: cores, memory, and the files of disks of a PC with the bytes of each.
pub struct Free {
    pub cores: Vec<u16>,
    pub memory: Bytes,
    pub disks: Vec<(String, u64)>,
}

/// The same of what was looked at already.
pub fn print_all(
    record: &Record,
    domains: &[Seen],
    shared: &[Shared],
    free: &Free,
    as_json: bool,
) -> Result<(), Failure> {
    let Free { cores, memory, disks } = free;
    if as_json {
        let domains: Vec<Value> = domains.iter().map(Seen::document).collect();
        let mut free = json!({ "cores": cores, "memory": memory.0 });
        if !disks.is_empty() {
            free["disks"] = disks.iter().map(disk).collect();
        }
        let shared: Vec<Value> = shared.iter().map(|it| it.document(record)).collect();
        let document = json!({ "domains": domains, "shared": shared, "free": free });
        return crate::print(&format!("{document}\n"));
    }
    let title = ["domain", "node", "state", "generation", "cores", "memory", "disks"];
    let mut rows = vec![title.map(String::from).to_vec()];
    rows.extend(domains.iter().map(Seen::row));
    rows.extend(shared.iter().map(|it| it.row(record)));
    let cores = if cores.is_empty() { "-".into() } else { numbers(cores) };
    let none = || String::from("-");
    let (memory, disks) = (memory.to_string(), summed(disks));
    rows.push(vec!["free".into(), none(), none(), none(), cores, memory, disks]);
    crate::print(&table::columns("", &rows))
}

/// Cores, each with the name of the domain that has it, or whose it is.
type Cores = Vec<(u16, String)>;

/// Of all loans, each with the places of lender and borrower: those of the domain in a place, and
/// those to it.
fn parted(
    slot: u8,
    loans: impl Iterator<Item = (u16, (u8, u8))>,
    named: impl Fn(u8) -> Option<String>,
) -> (Cores, Cores) {
    let (mut lent, mut borrowed) = (Cores::new(), Cores::new());
    for (core, (lender, borrower)) in loans {
        let (list, other) = match slot {
            _ if slot == lender => (&mut lent, borrower),
            _ if slot == borrower => (&mut borrowed, lender),
            _ => continue,
        };
        list.extend(named(other).map(|name| (core, name)));
    }
    (lent, borrowed)
}

/// Cores and whose they are, or who has them.
fn parts(cores: &[(u16, String)]) -> Value {
    cores.iter().map(|(core, other)| json!({ "core": core, "domain": other })).collect()
}

/// The disks of a node.
fn disks(folder: &Folder, record: &Record, node: &Node) -> Vec<(String, u64)> {
    named(node::disk_files(folder, record, node))
}

/// Disks with the names of their files.
fn named(files: Vec<(PathBuf, u64)>) -> Vec<(String, u64)> {
    files.into_iter().map(|(path, bytes)| (path.display().to_string(), bytes)).collect()
}

fn limit(toll: &TollEntry) -> Limit {
    Limit::from_words([toll.rate, toll.burst, toll.weight])
}

fn document(limit: Limit) -> Value {
    json!({ "rate": limit.rate, "burst": limit.burst, "weight": limit.weight })
}

fn disk((file, bytes): &(String, u64)) -> Value {
    json!({ "file": file, "bytes": bytes })
}

/// Disks in a row of a table, all of which are alike.
fn summed(disks: &[(String, u64)]) -> String {
    match disks {
        [] => "-".into(),
        [(_, bytes)] => Bytes(*bytes).to_string(),
        [(_, bytes), ..] => format!("{} x {}", disks.len(), Bytes(*bytes)),
    }
}

/// So many units of memory.
pub fn memory(units: u32) -> Bytes {
    Bytes(u64::from(units) * UNIT)
}

/// Numbers with commas between.
pub fn numbers<T: ToString>(all: &[T]) -> String {
    all.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}
