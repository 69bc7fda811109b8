//! `nile fault`: breaks a running cluster on purpose, and mends it.

use std::time::{Duration, Instant};

use nile_abi::{CoreId, Status};
use nile_interfaces::core_manager::CoreManagerClient;
use nile_stl::Client as _;
use rustix::process::Signal;
use serde_json::json;

use super::args::{Fault as Options, FaultAction, Kind, Place, Target};
use super::folder::{Folder, Node, Record};
use super::ready::Waiting;
use super::session::Session;
use super::{network, node, process};
use crate::failure::Failure;
use crate::interrupt;
use crate::peer::call::CallFailed;
use crate::peer::{Peer, known};
use crate::switch::control::{Client, ControlError, Request};
use crate::switch::fault::Fault;
use crate::{advice, domain};

/// How long what was started anew may take to be up.
const LIMIT: Duration = Duration::from_secs(30);

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The service that ends cores.
const MANAGER: &str = CoreManagerClient::INTERFACE.name;

/// How often it is looked for a core's next process.
const LOOK: Duration = Duration::from_millis(5);

/// Does what is asked for.
pub fn run(options: &Options) -> Result<(), Failure> {
    Failure::at_signals()?;
    let (folder, record) = Folder::open(&options.which)?;
    if record.direct
        && !matches!(options.action, FaultAction::Kill { .. } | FaultAction::Restart { .. })
    {
        return Err(Failure::request(
            "the hosted nodes of this cluster are linked past its switch, where no fault of links \
             applies: start it without --direct",
        ));
    }
    let done = match &options.action {
        FaultAction::Kill { target } => {
            kill(options, &folder, &record, target.on(&options.which)?)?
        }
        FaultAction::Restart { target: Target::Switch } => network::restart(&folder)?,
        FaultAction::Restart { target: Target::Place(target) } => {
            let target = target.on(&options.which)?;
            match target.core {
                None => restart(&folder, target)?,
                Some(core) => restart_core(options, &folder, &record, target, core)?,
            }
        }
        FaultAction::Partition { sides } => {
            let sides = parted(sides)?;
            let said = sides.iter().map(|side| side.join(",")).collect::<Vec<_>>().join(" | ");
            ask(&folder, &Request::Partition { sides })?;
            format!("parted: {said}")
        }
        FaultAction::Heal => {
            ask(&folder, &Request::Heal)?;
            "healed".into()
        }
        FaultAction::Delay(setting) => set(&folder, "delay", setting)?,
        FaultAction::Rate(setting) => set(&folder, "rate", setting)?,
        FaultAction::Loss(setting) => set(&folder, "loss", setting)?,
        FaultAction::Duplicate(setting) => set(&folder, "duplicate", setting)?,
        FaultAction::Reorder(setting) => set(&folder, "reorder", setting)?,
        FaultAction::Corrupt(setting) => set(&folder, "corrupt", setting)?,
    };
    match options.json {
        true => crate::print(&format!("{}\n", json!({ "done": done }))),
        false => crate::print(&format!("{done}\n")),
    }
}

/// What the launcher has to provide for starting the target anew, if it is a node that is known.
pub fn machine(options: &Options) -> Option<Kind> {
    let FaultAction::Restart { target: Target::Place(target) } = &options.action else {
        return None;
    };
    let place = target.on(&options.which).ok().filter(|place| place.core.is_none())?;
    let (_, record) = Folder::open(&options.which).ok()?;
    record.node(place.node).ok().map(|node| node.machine)
}

fn set(folder: &Folder, name: &str, setting: &super::args::Setting) -> Result<String, Failure> {
    let fault = Fault::parse(name, &setting.value).map_err(Failure::request)?;
    let link = setting.link.clone();
    ask(folder, &Request::Fault { fault, link })?;
    let whose = setting.link.as_deref().unwrap_or("all links");
    Ok(format!("{whose}: {fault}"))
}

/// The sides of a partition: names with commas between, sides with bars.
fn parted(sides: &[String]) -> Result<Vec<Vec<String>>, Failure> {
    let text = sides.join("|");
    let names = |side: &str| -> Vec<String> {
        side.split(',').map(|name| name.trim().to_string()).filter(|it| !it.is_empty()).collect()
    };
    let sides: Vec<Vec<String>> = text.split('|').map(names).collect();
    match sides.len() < 2 || sides.iter().any(Vec::is_empty) {
        true => Err(Failure::request(format!(
            "`{text}` has not two sides; write partition \"n1,n2|n3\""
        ))),
        false => Ok(sides),
    }
}

fn ask(folder: &Folder, request: &Request) -> Result<(), Failure> {
    let asked =
        Client::connect(folder.path(), Duration::ZERO).and_then(|mut client| client.ask(request));
    asked.map_err(|error| match error {
        ControlError::Refused(reason) => Failure::request(reason),
        error => Failure::failed(error.to_string()),
    })
}

fn kill(
    options: &Options,
    folder: &Folder,
    record: &Record,
    target: Place,
) -> Result<String, Failure> {
    let node = record.node(target.node)?;
    let name = node.name();
    if let Some(core) = target.core {
        kill_core(options, folder, &record.part_of(node), target, core)?;
        return Ok(format!("killed: {target}; {name} starts its next generation"));
    }
    check_own_process(folder, record, node)?;
    if process::of(folder.path(), &name).is_empty() {
        return Err(Failure::request(format!("{name} does not run")));
    }
    process::kill(|| process::of(folder.path(), &name));
    Ok(format!("killed: {name}"))
}

/// Ends a core's incarnation. A worker core of a hosted node is a process, which is killed; any
/// other core is ended by the node's core manager, and its next incarnation is waited for.
fn kill_core(
    options: &Options,
    folder: &Folder,
    part: &str,
    target: Place,
    core: CoreId,
) -> Result<Option<i32>, Failure> {
    let processes = process::of(folder.path(), part);
    if processes.is_empty() {
        return Err(Failure::request(format!("{} does not run", target.node)));
    }
    let worker = process::workers(&processes).get(&core.0).copied();
    let Some(process) = processes.iter().find(|process| Some(process.pid) == worker) else {
        return end_core(options, target, core).map(|()| None);
    };
    process.signal(Signal::KILL);
    process.wait(LIMIT);
    Ok(Some(process.pid))
}

/// Has the core manager of a node end a core, and waits until the next incarnation is known.
fn end_core(options: &Options, target: Place, core: CoreId) -> Result<(), Failure> {
    let mut session = Session::open(&options.which, PATIENCE)?;
    let node = target.node;
    let incarnation = |peer: &Peer| {
        let gossip = peer.known();
        let entry = known::cores(gossip, node).into_iter().find(|it| it.core == core.0)?;
        Some((gossip.member(node)?.generation, entry.generation))
    };
    let cannot = |why: &str| Failure::failed(format!("{target} cannot be ended: {why}"));
    let manager = known::on_node(session.peer.known(), node, MANAGER);
    let manager = manager.ok_or_else(|| cannot("its node cannot be reached"))?;
    let before = incarnation(&session.peer).ok_or_else(|| {
        let status = advice::named(&options.which, "status", &[]);
        Failure::request(format!("no core `{target}`; look at `{status}`"))
    })?;
    let patience = session.patience;
    for checked in session.peer.check::<CoreManagerClient>(&[manager], patience)? {
        checked.map_err(|failed| cannot(&failed.to_string()))?;
    }
    let ended = session.peer.work(patience, async |clients| {
        clients.at::<CoreManagerClient>(manager).end_core(core.0).await
    })?;
    match ended.map_err(CallFailed::from) {
        Ok(_) => {}
        // It was the core that should have answered, or that the answer should have come by.
        Err(CallFailed { status: Status::Dead | Status::Panicked | Status::Timeout, .. }) => {}
        Err(failed) => return Err(cannot(&failed.to_string())),
    }
    let is_over = |peer: &mut Peer| incarnation(peer).is_some_and(|now| now > before);
    match session.peer.until(LIMIT, is_over)? {
        true => Ok(()),
        false => Err(Failure::failed(format!(
            "{target} does not begin anew; look at `{}`",
            advice::named(&options.which, "logs", &[&node.to_string()])
        ))),
    }
}

fn restart_core(
    options: &Options,
    folder: &Folder,
    record: &Record,
    target: Place,
    core: CoreId,
) -> Result<String, Failure> {
    let node = record.node(target.node)?;
    let killed = kill_core(options, folder, &record.part_of(node), target, core)?;
    let deadline = Instant::now() + LIMIT;
    while let Some(killed) = killed {
        let workers = process::workers(&process::of(folder.path(), &node.name()));
        if workers.get(&core.0).is_some_and(|pid| *pid != killed) {
            break;
        }
        if interrupt::requested() {
            return Err(Failure::Interrupted);
        }
        if Instant::now() >= deadline {
            let name = node.name();
            return Err(Failure::failed(format!(
                "{name} does not start {target} anew; look at `{}`",
                advice::on(folder, "logs", &[&name])
            )));
        }
        std::thread::sleep(LOOK);
    }
    Ok(format!("started anew: {target}"))
}

/// Refuses to end the machine of a domain that has it with others.
fn check_own_process(folder: &Folder, record: &Record, node: &Node) -> Result<(), Failure> {
    match &node.domain {
        Some(domain) if record.is_in_pc(node) => Err(Failure::request(format!(
            "{} has no process of its own; use `{}`",
            domain.name,
            advice::on(folder, "domain restart", &[&domain.name])
        ))),
        _ => Ok(()),
    }
}

/// Kills a node, if it runs, and starts it with its next generation.
pub fn restart(folder: &Folder, target: Place) -> Result<String, Failure> {
    let gone = || Failure::request("the cluster has just gone");
    let _claim = folder.claim()?.ok_or_else(gone)?;
    // Another command may have changed it before.
    let mut record = folder.record()?;
    check_own_process(folder, &record, record.node(target.node)?)?;
    let mut nodes = record.nodes.iter_mut();
    let started = nodes.find(|node| node.node() == target.node).ok_or_else(gone)?;
    let name = started.name();
    started.generation = node::next_generation(started.generation);
    let started = started.clone();
    // Nothing is killed that cannot be started, or would not be seen to come up.
    network::check(folder)?;
    let prepared = node::prepare(folder, &record, &started, None)?;
    process::kill(|| process::of(folder.path(), &name));
    folder.set_record(&record)?;
    let mut child = prepared.start(folder)?;
    // The others are as they are; only of this one must all be known.
    let alone = Record { nodes: vec![started.clone()], ..record };
    let mut waiting = Waiting::new(folder, &alone)?;
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            let logs = advice::on(folder, "logs", &[&name]);
            let message = format!("{name} ended ({status}); look at `{logs}`");
            return Err(Failure::failed(message));
        }
        match waiting.look() {
            Ok(true) => {
                if started.has_cores_away() {
                    let peer = &mut Peer::join(folder, &alone)?;
                    domain::cores::settle(peer, folder, &alone, &started)?;
                }
                return Ok(format!("started anew: {name} g{}", started.generation));
            }
            Ok(false) => {}
            Err(failure) => {
                // What this command has started ends with it.
                process::kill(|| process::of(folder.path(), &name));
                return Err(failure);
            }
        }
        if Instant::now() >= deadline {
            let reason = waiting.reason();
            return Err(Failure::failed(format!("{name} is not up yet: {reason}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_are_lists_with_bars_between() {
        let sides =
            |given: &[&str]| parted(&given.iter().map(|it| it.to_string()).collect::<Vec<_>>());
        let expected = vec![vec!["n1".to_string(), "n2".into()], vec!["n3".into()]];
        assert_eq!(sides(&["n1,n2|n3"]).unwrap(), expected);
        assert_eq!(sides(&["n1, n2", "n3"]).unwrap(), expected);
        for wrong in ["n1", "n1|", "|", "n1,n2"] {
            assert!(sides(&[wrong]).is_err(), "{wrong}");
        }
    }
}
