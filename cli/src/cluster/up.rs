//! `nile up`: starts a cluster and leaves it running. It is up when every cable is plugged in and
//! every node knows every other one with all that it has; if that does not come about, nothing is
//! left of it.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::json;

use super::args::{Kind, Up};
use super::folder::{Claim, Disk, Folder, KEY, Node, Record, Shared};
use super::ready::{self, Waiting};
use super::{down, identity, keepers, network, node, pin, process};
use crate::args::Program;
use crate::domain::ledger;
use crate::failure::Failure;
use crate::size::Bytes;
use crate::switch::forward::{self, Forward};
use crate::{boot, config, interrupt, table, write};

/// Lines of a node's log that are shown when it did not come up.
const SHOWN: usize = 20;

/// Refuses what no cluster could be, before anything is started.
pub fn check(options: &Up) -> Result<Vec<Kind>, Failure> {
    let kinds = options.kinds().map_err(Failure::request)?;
    if kinds.contains(&Kind::Qemu) {
        boot::qemu::check_cores(options.cores)?;
    }
    boot::check_memory(options.memory)?;
    if options.supervisor {
        check_supervisor(options, &kinds)?;
    }
    check_capture(options.capture.as_deref())?;
    let file = options.config.as_ref().map(config::File::path);
    let text = common_config(options)?;
    let config = config::parse(file, &text)?;
    config::addresses(file, &config, kinds.len())?;
    forward::check(&forward::all(&options.forward, file, &config.ip)?, kinds.len())?;
    config::roles(file, &config, options.own_cores())?;
    config::pool(file, &config, options.own_memory().0)?;
    Ok(kinds)
}

/// A PC has eight disks that are used, of which one is its supervisor's.
const MOST_FOR_DOMAINS: u16 = 7;

/// Refuses what cannot be shared by domains.
fn check_supervisor(options: &Up, kinds: &[Kind]) -> Result<(), Failure> {
    let refused = |why: String| Err(Failure::request(format!("--supervisor: {why}")));
    if kinds.len() != 1 {
        return refused(format!("one node shares a machine, not {}", kinds.len()));
    }
    if options.cores < 2 {
        return refused("it keeps a core; use --cores 2 or more".into());
    }
    if options.disk.is_some() && kinds.contains(&Kind::Hosted) {
        return refused("hosted domains get their disks by `domain create --disk`".into());
    }
    if let (Some(Bytes(bytes)), Some(_)) = (options.disk, options.disk_parts)
        && bytes % (2 << 20) != 0
    {
        return refused("parts of a disk are whole 2M".into());
    }
    if options.disk.is_some() && options.disks > MOST_FOR_DOMAINS {
        return refused(format!("a PC has {MOST_FOR_DOMAINS} disks for domains at most"));
    }
    let own = options.of_supervisor();
    let least = Bytes(2 * own.0);
    if options.memory < least {
        return refused(format!("it keeps {own}; use --memory {least} or more"));
    }
    Ok(())
}

/// Refuses what is another file for the switch, which writes the capture, than for this command.
fn check_capture(file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let ours = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
    match ours.iter().any(|it| Path::new(it) == file) {
        true => Err(Failure::request(format!(
            "--capture {}: it is written by a switch that outlives this command; name a file, or \
             a FIFO that somebody reads",
            file.display()
        ))),
        false => Ok(()),
    }
}

/// What the configurations of all nodes have in common.
fn common_config(options: &Up) -> Result<String, Failure> {
    let text = match &options.settings {
        Some(settings) => settings.clone(),
        None => node::common_config(options.config.as_ref())?,
    };
    let nodes = options.kinds().map_err(Failure::request)?.len();
    match options.pool {
        Some(pool) => node::with_own_pool(text, pool, nodes, options.cores),
        None if options.disk.is_some() && !options.supervisor => {
            Ok(node::with_pool(text, options.memory, nodes, options.cores))
        }
        None => Ok(text),
    }
}

/// Ports of this machine that lead to nodes.
fn forwards(options: &Up) -> Result<Vec<Forward>, Failure> {
    let file = options.config.as_ref().map(config::File::path);
    let ip = config::parse(file, &common_config(options)?)?.ip;
    forward::all(&options.forward, file, &ip)
}

/// Starts the cluster. Blocks until it is up, or has failed.
pub fn run(options: &Up) -> Result<(), Failure> {
    let started = Instant::now();
    let mut cluster = Started::begin(options)?;
    if options.program.is_none() {
        let said = say(options, &cluster.folder, &cluster.record, started.elapsed());
        if said.is_err() {
            cluster.end()?;
        }
        return said;
    }
    let done = outcome(&cluster.folder, &mut cluster.children[1..], options.limit);
    cluster.end()?;
    done
}

/// A cluster that this command has started. It outlives the command unless it is ended.
pub struct Started {
    folder: Folder,
    record: Record,
    children: Children,
}

impl Started {
    /// Starts a cluster and waits until it is up. Nothing is left of one that does not come up.
    pub fn begin(options: &Up) -> Result<Started, Failure> {
        let kinds = check(options)?;
        if kinds.contains(&Kind::Qemu) {
            boot::qemu::program()?;
        }
        if kinds.contains(&Kind::Hosted) {
            node::hosted(options.program.is_some())?;
        }
        Failure::at_signals()?;
        let disk = disk(options)?;
        let stay = disk.as_ref().filter(|disk| !disk.goes).and_then(|it| it.folder.as_deref());
        let keepers = keepers::of(kinds.len(), stay)?;
        let identity = identity::of(stay)?;
        let stay = stay.map(Path::to_path_buf);
        let (folder, claim) = Folder::create(&options.which)?;
        let nodes = (1..).zip(kinds).map(|(id, machine)| Node {
            id,
            machine,
            generation: node::next_generation(0),
            domain: None,
        });
        let shared = options.supervisor.then(|| Shared {
            cores: options.cores,
            memory: options.memory.0,
            cpus: pin::allowed(),
            disks: options.disks_for_domains(),
            are_parts: options.disk_parts.is_some(),
        });
        let record = Record {
            cores: options.own_cores(),
            memory: options.own_memory().0,
            disk,
            sealed: !options.unsealed,
            direct: options.direct,
            sample_rate: options.sample_rate,
            interface: options.interface.as_ref().map(ToString::to_string),
            forwards: forwards(options)?.iter().map(ToString::to_string).collect(),
            keepers,
            identity,
            encrypted: stay.is_some() && !options.unsealed && !options.disk_plain,
            shared,
            nodes: nodes.collect(),
        };
        let mut cluster = Started { folder, record, children: Vec::new() };
        match start(options, &cluster.folder, &cluster.record, &mut cluster.children) {
            Ok(()) => Ok(cluster),
            Err(failure) => {
                cluster.end_with(claim)?;
                Err(failure)
            }
        }
    }

    /// Ends it and leaves nothing behind.
    pub fn end(self) -> Result<(), Failure> {
        match self.folder.claim()? {
            Some(claim) => self.end_with(claim),
            // Another command has ended it.
            None => Ok(()),
        }
    }

    fn end_with(mut self, claim: Claim) -> Result<(), Failure> {
        down::end_all(&self.folder);
        // They were this process's own: nobody else collects them.
        self.children.iter_mut().for_each(|(_, child)| drop(child.wait()));
        self.folder.remove(claim)
    }
}

/// Waits until the nodes have run their scenario to its end, and prints what n1 reports of it.
fn outcome(folder: &Folder, nodes: &mut [(String, Child)], limit: Duration) -> Result<(), Failure> {
    let deadline = Instant::now() + limit;
    for (name, node) in nodes {
        while let Ok(None) = node.try_wait() {
            if interrupt::requested() {
                return Err(Failure::Interrupted);
            }
            if Instant::now() >= deadline {
                show_log(folder, name);
                let limit = limit.as_secs();
                return Err(Failure::failed(format!("{name} did not end within {limit} s")));
            }
            std::thread::sleep(ready::LOOK);
        }
    }
    let report = super::logs::last_report(&folder.log_path("n1"));
    let failed = |message: &str| {
        show_log(folder, "n1");
        Err(Failure::failed(message))
    };
    let Some(report) = report else { return failed("n1 reported nothing") };
    let Ok(parsed) = serde_json::from_str::<serde_json::Value>(&report) else {
        return failed("n1 reported nonsense");
    };
    crate::print(&format!("{}\n", report.trim_end()))?;
    match parsed["program"]["passed"] == true {
        true => Ok(()),
        false => failed("not all held that the scenario checks"),
    }
}

/// The disks that each node is to have; makes the folder that they stay in.
fn disk(options: &Up) -> Result<Option<Disk>, Failure> {
    let Some(bytes) = options.disk.filter(|_| !options.supervisor) else {
        return Ok(options.supervisor.then(|| options.disk_of_supervisor()).flatten());
    };
    let kept = |path: &std::path::PathBuf| {
        write::check_folder("--disk-folder", path)?;
        let made = std::fs::create_dir_all(path).and_then(|()| path.canonicalize());
        made.map_err(|error| Failure::request(format!("{}: {error}", path.display())))
    };
    let folder = options.disk_folder.as_ref().map(kept).transpose()?;
    let (bytes, count) = (bytes.0, options.disks);
    Ok(Some(Disk { bytes, count, folder, goes: options.disks_go }))
}

/// The processes that were started, each with its part's name.
type Children = Vec<(String, Child)>;

fn start(
    options: &Up,
    folder: &Folder,
    record: &Record,
    children: &mut Children,
) -> Result<(), Failure> {
    if record.sealed {
        let stays = record.disk.as_ref().filter(|disk| !disk.goes);
        let key = identity::key(stays.and_then(|disk| disk.folder.as_deref()))?;
        folder.write(KEY, &key)?;
    }
    node::keep_common_config(folder, &common_config(options)?)?;
    folder.set_record(record)?;
    if let Some(shared) = &record.shared
        && record.nodes.iter().all(|node| node.machine == Kind::Hosted)
    {
        ledger::found(folder, shared)?;
    }
    let switch = network::start(folder, record, options.capture.as_deref())?;
    children.push((process::SWITCH.into(), switch));
    network::wait(folder, || check_children(folder, children))?;
    for node in &record.nodes {
        let program = options.program.as_ref().map(Program::as_str);
        children.push((node.name(), node::prepare(folder, record, node, program)?.start(folder)?));
    }
    if options.program.is_some() {
        // Nodes that run a scenario find each other, and may end before anybody sees them.
        return Ok(());
    }
    let deadline = Instant::now() + options.limit;
    let mut waiting = Waiting::new(folder, record)?;
    loop {
        check_children(folder, children)?;
        if waiting.look()? {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let reason = waiting.reason();
            for node in waiting.missing() {
                show_log(folder, node);
            }
            let limit = options.limit.as_secs();
            return Err(Failure::failed(format!(
                "the cluster was not up within {limit} s ({reason}) and was taken down again"
            )));
        }
    }
}

/// Fails if one of the processes has ended, or someone presses Ctrl-C.
fn check_children(folder: &Folder, children: &mut Children) -> Result<(), Failure> {
    if interrupt::requested() {
        return Err(Failure::Interrupted);
    }
    for (part, child) in children {
        if let Ok(Some(status)) = child.try_wait() {
            let last = show_log(folder, part);
            // A wrong request is told by its last line, as of any command.
            return Err(match (part.as_str(), status.code()) {
                (process::SWITCH, Some(2)) => {
                    Failure::request(last.trim_start_matches("nile: ").to_string())
                }
                (_, Some(2)) => Failure::request(last),
                _ => Failure::failed(format!(
                    "{part} ended before the cluster was up ({status}); its log is above"
                )),
            });
        }
    }
    Ok(())
}

/// Shows the end of a part's log on standard error; gives its last line.
fn show_log(folder: &Folder, part: &str) -> String {
    let lines = super::logs::of_file(&folder.log_path(part)).unwrap_or_default();
    for line in &lines[lines.len().saturating_sub(SHOWN)..] {
        crate::say(format_args!("{part}: {line}"));
    }
    lines.into_iter().rfind(|line| !line.is_empty()).unwrap_or_default()
}

fn say(options: &Up, folder: &Folder, record: &Record, took: Duration) -> Result<(), Failure> {
    let log = |node: &Node| folder.log_path(&node.name()).display().to_string();
    if options.json {
        let node = |node: &Node| {
            json!({
                "name": node.name(),
                "machine": node.machine.name(),
                "generation": node.generation,
                "log": log(node),
            })
        };
        let document = json!({
            "folder": folder.path().display().to_string(),
            "sealed": record.sealed,
            "seconds": took.as_secs_f64(),
            "nodes": record.nodes.iter().map(node).collect::<Vec<_>>(),
        });
        return crate::print(&format!("{document}\n"));
    }
    let row = |node: &Node| {
        let machine = node.machine.name().to_string();
        vec![node.name(), "up".into(), machine, format!("g{}", node.generation), log(node)]
    };
    let rows: Vec<_> = record.nodes.iter().map(row).collect();
    crate::print(&table::columns("", &rows))
}
