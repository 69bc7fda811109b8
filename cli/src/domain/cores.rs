//! The cores of a hosted domain that runs. Its node has as many as it can ever have, of which the
//! first are in use, one for each hardware core that the ledger gives it; the others are away. Each
//! runs on the CPU of a hardware core: the first on the lowest, and so on.

use std::time::{Duration, Instant};

use nile_interfaces::core_manager::{CoreManagerClient, CorePhase};
use nile_stl::{CallResult, Client};

use crate::cluster::folder::{Folder, Node, Record};
use crate::cluster::{pin, process};
use crate::failure::Failure;
use crate::peer::Peer;
use crate::peer::known::{self, Target};

/// How long a node may take to be heard, and to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// How long what a core works on may take that is to leave.
const PATIENCE: Duration = Duration::from_secs(5);

/// The manager waits so much longer for a core's next incarnation.
const LIMIT: Duration = Duration::from_secs(20);

/// Has a domain use as many cores as it has in the record, on their CPUs. Blocks until it does; a
/// core that does not leave in time stays, and this fails.
pub fn settle(
    peer: &mut Peer,
    folder: &Folder,
    record: &Record,
    node: &Node,
) -> Result<(), Failure> {
    let Some(domain) = &node.domain else { return Ok(()) };
    let (count, cpus) = (domain.cores.len() as u16, record.cpus_of(node));
    let target = find(peer, node, CoreManagerClient::INTERFACE.name)?;
    let settled = peer.work(LIMIT, async |clients| -> CallResult<()> {
        let manager = clients.at::<CoreManagerClient>(target);
        let cores = manager.list().await?;
        let is_away = |phase: &CorePhase| matches!(phase, CorePhase::Away);
        let patience_ms = PATIENCE.as_millis() as u32;
        for it in cores.iter().rev().filter(|it| it.core >= count && !is_away(&it.phase)) {
            manager.send_away(it.core, patience_ms).await?;
        }
        // What stays leaves the CPUs of what has left, before anybody else has them. What comes
        // back finds its own: it is started by what has been moved.
        pin::move_to(&cpus, &process::of(folder.path(), &node.name()));
        for it in cores.iter().filter(|it| it.core < count && is_away(&it.phase)) {
            manager.call_back(it.core).await?;
        }
        Ok(())
    })?;
    settled.map_err(|error| Failure::failed(format!("{}: {error}", domain.name)))
}

/// The instance of a service on a domain's node.
pub fn find(peer: &mut Peer, node: &Node, service: &str) -> Result<Target, Failure> {
    let mut target = None;
    peer.until(ANSWER, |peer| {
        target = known::on_node(peer.known(), node.node(), service);
        target.is_some()
    })?;
    let name = node.domain.as_ref().map_or("the domain", |it| &it.name);
    target.ok_or_else(|| Failure::failed(format!("{name} does not answer")))
}

/// Kills the processes of the cores that a domain is not to use, so that what they work on does not
/// keep them. Its node begins them anew, with nothing to do. Waits until it has.
pub fn break_off(folder: &Folder, node: &Node) {
    let count = node.domain.as_ref().map_or(0, |it| it.cores.len() as u16);
    let workers = || process::workers(&process::of(folder.path(), &node.name()));
    let before = workers();
    let meant = |pid: i32| before.iter().any(|(core, it)| *core >= count && *it == pid);
    let mut processes = process::of(folder.path(), &node.name());
    processes.retain(|it| meant(it.pid));
    processes.iter().for_each(|it| it.signal(rustix::process::Signal::KILL));
    let deadline = Instant::now() + ANSWER;
    let is_renewed = || {
        let now = workers();
        before
            .iter()
            .filter(|(core, _)| **core >= count)
            .all(|(core, old)| now.get(core).is_some_and(|new| new != old))
    };
    while !is_renewed() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}
