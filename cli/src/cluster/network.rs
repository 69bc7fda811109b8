//! The switch of a cluster as a process: started, started anew, and asked whether it does its work.
//! Nodes plug in again by themselves when it is back.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nile_abi::ip::Wide;

use super::args::Kind;
use super::folder::{Folder, Record};
use super::{node, process, ready};
use crate::advice;
use crate::failure::Failure;
use crate::switch::control::Client;

/// How long the switch may take to listen.
const LIMIT: Duration = Duration::from_secs(10);

/// How long it may take to answer: it does nothing that takes long.
const PATIENCE: Duration = Duration::from_secs(3);

fn cannot(error: &dyn std::fmt::Display) -> Failure {
    Failure::failed(format!("no switch can be started: {error}"))
}

/// Starts the switch of a cluster; it may not listen yet.
pub fn start(folder: &Folder, record: &Record, capture: Option<&Path>) -> Result<Child, Failure> {
    let program = std::env::current_exe().map_err(|error| cannot(&error))?;
    let mut command = Command::new(program);
    command.arg("switch").arg(folder.path());
    for node in record.nodes.iter().filter(|node| node.machine == Kind::Qemu) {
        for cable in node::cables(folder, record, node)? {
            command.args(["--dial", &cable]);
        }
    }
    if let Some(capture) = capture {
        command.arg("--capture").arg(capture);
    }
    // A network outside has a gateway of its own.
    if record.interface.is_none() || !record.forwards.is_empty() {
        let ip = node::kept_config(folder)?.ip;
        let addresses = ip.addresses;
        let first = format!("{}/{}", addresses.first(), addresses.prefix());
        command.args(["--first", &first, "--gateway", &addresses.gateway().to_string()]);
        if let Wide::From(all) = ip.wide {
            command.args(["--first6", &format!("{}/{}", all.first(), all.prefix())]);
        }
    }
    for forward in &record.forwards {
        command.args(["--forward", forward]);
    }
    if let Some(interface) = &record.interface {
        command.args(["--interface", interface]);
    }
    let log = folder.log(process::SWITCH)?;
    let switch = process::start(folder.path(), process::SWITCH, &command, &log);
    switch.map_err(|error| cannot(&error))
}

/// Waits until it listens; `look` is done meanwhile, and may give up.
pub fn wait(folder: &Folder, mut look: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    let deadline = Instant::now() + LIMIT;
    loop {
        match Client::connect(folder.path(), ready::LOOK) {
            Ok(_) => return Ok(()),
            Err(error) if Instant::now() >= deadline => return Err(cannot(&error)),
            Err(_) => look()?,
        }
    }
}

/// Ends the switch, if it runs, and starts it anew. What was set on its links is forgotten, and so
/// is a capture.
pub fn restart(folder: &Folder) -> Result<String, Failure> {
    let gone = || Failure::request("the cluster has just gone");
    let _claim = folder.claim()?.ok_or_else(gone)?;
    let record = folder.record()?;
    process::kill(|| process::of(folder.path(), process::SWITCH));
    let mut child = start(folder, &record, None)?;
    wait(folder, || match child.try_wait() {
        Ok(Some(status)) => {
            let log = folder.log_path(process::SWITCH);
            Err(cannot(&format!("it ended ({status}); look at {}", log.display())))
        }
        _ => Ok(()),
    })?;
    Ok("started anew: switch".into())
}

/// Fails if the switch does not answer, and says what to do.
pub fn check(folder: &Folder) -> Result<(), Failure> {
    let asked = Client::connect(folder.path(), Duration::ZERO)
        .and_then(|client| client.within(PATIENCE))
        .and_then(|mut client| client.links());
    asked.map(|_| ()).map_err(|error| silent(folder, &error))
}

/// The switch does not do its work, and why.
pub fn silent(folder: &Folder, error: &dyn std::fmt::Display) -> Failure {
    // Its nodes go before its switch, and what it has in files after that.
    if process::all(folder.path()).is_empty() {
        return Failure::failed(format!("the cluster was ended meanwhile ({error})"));
    }
    let restart = advice::on(folder, "fault", &["restart", "switch"]);
    let what = match process::of(folder.path(), process::SWITCH).is_empty() {
        true => "the switch of the cluster is gone",
        false => "the switch of the cluster does not answer",
    };
    Failure::failed(format!("{what} ({error}); start it anew with `{restart}`"))
}
