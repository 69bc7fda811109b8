//! The node's main thread, which is no core: it starts the cores, restarts workers that die, and
//! sees to it that at the end nothing is left.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nile_abi::CoreId;
use nile_platform::{NodePhase, Outcome};

use crate::machine::is_isolated;
use crate::manager::HostedManager;
use crate::node::{Node, log};
use crate::signals::{self, Event};
use crate::start::{CoreMain, End};
use crate::system;
use crate::worker::Worker;

/// How long cores may take to end their loops once the node stops. A worker that computes does
/// not look at the board; its process is ended then.
const STOPPING_LIMIT: Duration = Duration::from_secs(2);

/// How often a stopping node looks whether its cores have ended.
const STOPPING_LOOK: Duration = Duration::from_millis(2);

/// Starts the worker cores.
pub(crate) fn start_workers(node: &Node) -> io::Result<Vec<Worker>> {
    let isolated = |core: &CoreId| is_isolated(node.board.record(*core).roles());
    node.board.core_ids().filter(isolated).map(|core| Worker::start(node, core)).collect()
}

/// Starts the system cores.
pub(crate) fn start_system(
    node: &'static Node,
    manager: &HostedManager,
    cpus: &Arc<[usize]>,
    core_main: CoreMain,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    for core in node.board.core_ids() {
        if !is_isolated(node.board.record(core).roles()) {
            // One core at a time can hold the node's memory.
            let manager = (core == CoreId::BOOT).then(|| manager.clone());
            threads.push(system::start(node, core, manager, cpus.clone(), core_main)?);
        }
    }
    Ok(threads)
}

/// Looks after the node until it ends, and leaves no process behind.
pub(crate) fn supervise(
    node: &Node,
    mut workers: Vec<Worker>,
    threads: Vec<JoinHandle<()>>,
) -> End {
    let mut interrupted = false;
    while node.board.phase() != NodePhase::Stopping {
        if signals::wait(None) == Event::Interrupt {
            interrupted = true;
            node.stop();
        }
        for worker in &mut workers {
            worker.look_after(node);
        }
    }
    let limit = Instant::now() + STOPPING_LIMIT;
    let left = loop {
        for worker in &mut workers {
            worker.look_after(node);
        }
        let left = still_running(&workers, &threads);
        if left.is_empty() || Instant::now() > limit {
            break left;
        }
        interrupted |= signals::wait(Some(STOPPING_LOOK)) == Event::Interrupt;
        // A management core that was just starting may have declared the node up in between.
        if node.board.phase() != NodePhase::Stopping {
            node.stop();
        }
    };
    if !left.is_empty() {
        log("node", format_args!("ends {}, which did not stop by itself", left.join(", ")));
    }
    // This ends the workers' processes. A thread that runs on ends with this process.
    drop(workers);
    match node.outcome() {
        _ if interrupted => End::Interrupted,
        Some(outcome) if threads.iter().all(JoinHandle::is_finished) => End::Finished(outcome),
        _ => End::Finished(Outcome::Failure),
    }
}

/// The names of the cores whose loops have not ended.
fn still_running(workers: &[Worker], threads: &[JoinHandle<()>]) -> Vec<String> {
    let threads = threads.iter().filter(|thread| !thread.is_finished());
    let threads = threads.map(|thread| thread.thread().name().unwrap_or_default().to_owned());
    let workers = workers.iter().filter(|worker| !worker.has_stopped());
    threads.chain(workers.map(|worker| worker.core().to_string())).collect()
}
