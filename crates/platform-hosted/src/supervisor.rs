//! The node's main thread, which is no core: it starts the cores, each as what its roles ask for,
//! restarts workers that die and cores that are called back, and sees to it that at the end nothing
//! is left.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nile_abi::CoreId;
use nile_platform::{NodePhase, Outcome};

use crate::machine::is_isolated;
use crate::manager::HostedManager;
use crate::node::{Node, log};
use crate::restart::Lives;
use crate::signals::{self, Event};
use crate::start::{CoreMain, End};
use crate::system::Thread;
use crate::worker::Worker;

/// How long cores may take to end their loops once the node stops. A worker that computes does
/// not look at the board; its process is ended then.
const STOPPING_LIMIT: Duration = Duration::from_secs(2);

/// How often a stopping node looks whether its cores have ended.
const STOPPING_LOOK: Duration = Duration::from_millis(2);

/// What runs a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A process of its own: a worker and nothing else.
    Process,
    /// A thread of the node's process.
    Thread,
}

impl Kind {
    /// What its roles ask for.
    fn of(node: &Node, core: CoreId) -> Kind {
        let is_process = is_isolated(node.board.record(core).roles());
        if is_process { Kind::Process } else { Kind::Thread }
    }
}

/// Who runs a core now.
enum Runner {
    Process(Worker),
    Thread(Thread),
    /// Nobody: it is away.
    Away(Lives),
    /// Nobody: it has stopped for good.
    Stopped,
}

/// What starts cores and looks after them.
pub(crate) struct Supervisor {
    node: &'static Node,
    cpus: Arc<[usize]>,
    core_main: CoreMain,
    manager: Option<HostedManager>,
    cores: Vec<(CoreId, Runner)>,
}

impl Supervisor {
    /// One that has started none.
    pub fn new(node: &'static Node, cpus: Arc<[usize]>, core_main: CoreMain) -> Supervisor {
        Supervisor { node, cpus, core_main, manager: None, cores: Vec::new() }
    }

    /// What the core that manages the node is given.
    pub fn manage(&mut self, manager: HostedManager) {
        self.manager = Some(manager);
    }

    /// Starts all cores of a kind.
    pub fn start(&mut self, kind: Kind) -> io::Result<()> {
        for core in self.node.board.core_ids() {
            if Kind::of(self.node, core) == kind {
                let runner = self.run(Lives::first(core))?;
                self.cores.push((core, runner));
            }
        }
        Ok(())
    }

    /// Starts the present incarnation of a core.
    fn run(&self, lives: Lives) -> io::Result<Runner> {
        let (node, core) = (self.node, lives.core());
        match Kind::of(node, core) {
            Kind::Process => Worker::start(node, lives).map(Runner::Process),
            Kind::Thread => {
                // One core at a time can hold the node's memory.
                let manager = self.manager.clone().filter(|_| core == CoreId::BOOT);
                let (cpus, core_main) = (self.cpus.clone(), self.core_main);
                Thread::start(node, lives, manager, cpus, core_main).map(Runner::Thread)
            }
        }
    }

    /// Looks whether cores have ended, have gone away or were called back.
    fn look_after_all(&mut self) {
        for (core, mut runner) in std::mem::take(&mut self.cores) {
            let left = match &mut runner {
                Runner::Process(worker) => worker.look_after(self.node),
                Runner::Thread(thread) => thread.take_lives(),
                Runner::Away(_) | Runner::Stopped => None,
            };
            runner = left.map_or(runner, Runner::Away);
            let is_away = || self.node.board.record(CoreId::BOOT).is_away(core);
            if let Runner::Away(lives) = &mut runner
                && !is_away()
                && self.node.board.phase() != NodePhase::Stopping
            {
                self.node.board.begin(core);
                let lives = lives.clone().begun();
                runner = self.run(lives.clone()).unwrap_or_else(|error| {
                    let who = core.to_string();
                    log(&who, format_args!("stays stopped: Linux does not start it: {error}"));
                    lives.stop(self.node);
                    Runner::Stopped
                });
            }
            self.cores.push((core, runner));
        }
    }

    /// Looks after the node until it ends, and leaves no process behind.
    pub fn supervise(mut self) -> End {
        let node = self.node;
        let mut interrupted = false;
        while node.board.phase() != NodePhase::Stopping {
            if signals::wait(None) == Event::Interrupt {
                interrupted = true;
                node.stop();
            }
            self.look_after_all();
        }
        let limit = Instant::now() + STOPPING_LIMIT;
        let left = loop {
            self.look_after_all();
            let left = self.still_running();
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
        let finished = |(_, it): &(CoreId, Runner)| match it {
            Runner::Thread(thread) => thread.is_finished(),
            _ => true,
        };
        let are_finished = self.cores.iter().all(finished);
        // This ends the workers' processes. A thread that runs on ends with this process.
        drop(self.cores);
        match node.outcome() {
            _ if interrupted => End::Interrupted,
            Some(outcome) if are_finished => End::Finished(outcome),
            _ => End::Finished(Outcome::Failure),
        }
    }

    /// The names of the cores whose loops have not ended.
    fn still_running(&self) -> Vec<String> {
        let runs = |it: &Runner| match it {
            Runner::Process(worker) => !worker.has_stopped(),
            Runner::Thread(thread) => !thread.is_finished(),
            Runner::Away(_) | Runner::Stopped => false,
        };
        let running = self.cores.iter().filter(|(_, it)| runs(it));
        running.map(|(core, _)| core.to_string()).collect()
    }
}
