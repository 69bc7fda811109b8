//! Worker cores: processes of their own. Here are both ends, how the node starts one and looks
//! after it, and what the started process does.
//!
//! A worker is this same program, or [another image](crate::images), started with an internal
//! argument and the node's memory as its standard input. It dies with the node, however the node
//! dies: Linux kills it when its parent is gone.

use std::env;
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::{CommandExt, parent_id};
use std::panic::{self, AssertUnwindSafe};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};

use nile_abi::{CoreId, Generation};
use nile_platform::{CorePhase, Machine, NodePhase};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::machine::{Hosted, Left, give_buffers_back};
use crate::node::{Node, log};
use crate::restart::Lives;
use crate::sampler::Sampler;
use crate::start::CoreMain;
use crate::{fault, placement, signals};

/// The exit status of a worker that has left as planned.
const LEFT: u8 = 102;

/// The first argument of a worker process; its core and its generation follow.
const ARGUMENT: &str = "--worker-of-a-node";

/// A worker core as the node sees it. Dropping it ends its process.
pub(crate) struct Worker {
    lives: Lives,
    /// Its process; none once it stays stopped.
    child: Option<Child>,
}

impl Worker {
    /// Starts an incarnation. The calling thread must live as long as the node: Linux takes it for
    /// the parent that the worker dies with.
    pub fn start(node: &Node, lives: Lives) -> io::Result<Worker> {
        let child = spawn(node, &lives).or_else(|error| again(node, &lives, &error))?;
        Ok(Worker { lives, child: Some(child) })
    }

    /// If the process has ended, starts the next incarnation, or not, as the core deserves. If it
    /// is away: gives that incarnation.
    pub fn look_after(&mut self, node: &Node) -> Option<Lives> {
        let status = self.ended()?;
        let core = self.lives.core();
        node.set_package_process(core, 0);
        if status.success() && node.board.phase() == NodePhase::Stopping {
            self.lives.stop(node);
            return None;
        }
        if status.code() == Some(LEFT.into()) && node.board.phase() != NodePhase::Stopping {
            if !self.lives.leave(node) {
                return Some(self.lives.clone());
            }
            self.start_again(node);
            return None;
        }
        if node.board.phase() != NodePhase::Stopping {
            take_back(node, core, format_args!("ended"));
        }
        let record = node.board.record(core);
        if self.lives.end(node, fault::of_process(status, record.fault())) {
            self.start_again(node);
        }
        None
    }

    fn start_again(&mut self, node: &Node) {
        let core = self.lives.core();
        node.board.begin(core);
        let spawned = spawn(node, &self.lives);
        match spawned.or_else(|error| again(node, &self.lives, &error)) {
            Ok(child) => self.child = Some(child),
            Err(error) => {
                let who = core.to_string();
                log(&who, format_args!("stays stopped: Linux starts no process: {error}"));
                self.lives.stop(node);
            }
        }
    }

    /// Whether there is no process any more.
    pub fn has_stopped(&self) -> bool {
        self.child.is_none()
    }

    /// How the process ended, told once.
    fn ended(&mut self) -> Option<ExitStatus> {
        // Waiting for one's own child can fail only if it was waited for; then it is gone.
        let status = self.child.as_mut()?.try_wait().unwrap_or_default()?;
        self.child = None;
        Some(status)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            // Both fail only if the process is gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What the core ran before its image, if that is on trial, and Linux has refused it.
fn again(node: &Node, lives: &Lives, error: &io::Error) -> io::Result<Child> {
    match take_back(node, lives.core(), format_args!("is not started by Linux: {error}")) {
        true => spawn(node, lives),
        false => Err(io::Error::new(error.kind(), error.to_string())),
    }
}

/// Has the core run what it ran before, if the image that failed was on trial; whether it was.
fn take_back(node: &Node, core: CoreId, why: fmt::Arguments<'_>) -> bool {
    let failed = node.images().failed(core, node.record.clock.now());
    if let Some(name) = failed {
        let what = "on trial; the core runs its former image again";
        log(&core.to_string(), format_args!("image {name:016x} {why} while it was {what}"));
    }
    failed.is_some()
}

fn spawn(node: &Node, lives: &Lives) -> io::Result<Child> {
    let image = node.images().begin(lives.core(), node.record.clock.now());
    let opened = image.as_ref().map(|it| format!("/proc/self/fd/{}", it.body.as_raw_fd()));
    Command::new(opened.as_deref().unwrap_or("/proc/self/exe"))
        .arg0("nile-worker")
        .arg(ARGUMENT)
        .args([lives.core().0.to_string(), lives.generation().0.to_string()])
        .stdin(node.arena.file().try_clone()?)
        // The node's standard output is for its report alone.
        .stdout(Stdio::from(io::stderr()))
        .spawn()
}

/// If this process was started as a worker of a node, is that worker until the end and gives the
/// status to exit with; `None` in every other process. A program that runs nodes calls this
/// first.
pub fn be_worker(core_main: CoreMain) -> Option<ExitCode> {
    let mut arguments = env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let mut number = || arguments.next()?.to_str()?.parse().ok();
    let core = number().and_then(|core: u32| u16::try_from(core).ok()).map(CoreId);
    let (Some(core), Some(generation)) = (core, number().map(Generation)) else {
        log("node", format_args!("a worker process is started by its node, not by hand"));
        return Some(ExitCode::from(2));
    };
    Some(match join(core, generation) {
        Ok((node, machine)) => live(node, machine, core_main),
        Err(error) => {
            log(&core.to_string(), format_args!("cannot join its node: {error}"));
            ExitCode::FAILURE
        }
    })
}

/// Makes this process `core` of the node that started it.
fn join(core: CoreId, generation: Generation) -> io::Result<(&'static Node, Hosted)> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let file = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let node = Node::join(file, core)?.install().ok_or(io::ErrorKind::AlreadyExists)?;
    if node.record.node != parent_id() {
        // The node died before this process asked to die with it.
        return Err(io::ErrorKind::NotConnected.into());
    }
    signals::unblock_for_worker();
    fault::log_panics();
    fault::record_faults_of(core);
    placement::settle(core, &node.board, &placement::allowed());
    let record = node.board.record(core);
    record.set_hardware_id(std::process::id().into());
    record.set_phase(CorePhase::Starting);
    Ok((node, Hosted::new(node, core, generation, None)))
}

/// Runs the core's main function. Its outcome matters to no one: the management core's does.
fn live(node: &'static Node, machine: Hosted, core_main: CoreMain) -> ExitCode {
    let _sampler = Sampler::start(node, machine.core());
    let core = machine.core();
    match panic::catch_unwind(AssertUnwindSafe(|| core_main(machine, &node.record.boot))) {
        Ok(_) => ExitCode::SUCCESS,
        Err(end) if end.is::<Left>() => {
            give_buffers_back(node, core);
            ExitCode::from(LEFT)
        }
        Err(_) => ExitCode::from(fault::PANICKED),
    }
}
