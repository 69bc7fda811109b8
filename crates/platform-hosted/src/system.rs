//! System cores: pinned threads of the node's process. A panic ends an incarnation, not the
//! thread: the next one starts in the same thread, from the beginning. A core that goes away ends
//! its thread.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use nile_platform::CorePhase;
use rustix::thread::gettid;

use crate::machine::{Hosted, Left, give_buffers_back};
use crate::manager::HostedManager;
use crate::node::Node;
use crate::restart::Lives;
use crate::sampler::Sampler;
use crate::start::CoreMain;
use crate::{fault, placement, signals};

/// A core that is a thread, as the main thread sees it.
pub(crate) struct Thread {
    handle: JoinHandle<()>,
    /// What the thread leaves here when its core goes away, before it tells the main thread. That
    /// may look before the thread counts as finished.
    left: Arc<Mutex<Option<Lives>>>,
}

impl Thread {
    /// Starts the thread of a core, from this incarnation on; `manager` if it manages the node.
    pub fn start(
        node: &'static Node,
        lives: Lives,
        manager: Option<HostedManager>,
        cpus: Arc<[usize]>,
        core_main: CoreMain,
    ) -> io::Result<Thread> {
        let core = lives.core();
        let left = Arc::new(Mutex::new(None));
        let leaves = left.clone();
        let handle = Builder::new().name(core.to_string()).spawn(move || {
            placement::settle(core, &node.board, &cpus);
            node.board.record(core).set_hardware_id(gettid().as_raw_nonzero().get() as u64);
            {
                let _sampler = Sampler::start(node, core);
                let lives = live(node, lives, manager, core_main);
                *leaves.lock().unwrap_or_else(PoisonError::into_inner) = lives;
            }
            signals::tell_main_thread();
        })?;
        Ok(Thread { handle, left })
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// If it has ended as the core has gone away, or is about to: the incarnation that is to come,
    /// told once.
    pub fn take_lives(&self) -> Option<Lives> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Runs one incarnation after another, until the core's loop ends, it has died too often, or is
/// away: then gives the next one.
fn live(
    node: &'static Node,
    mut lives: Lives,
    manager: Option<HostedManager>,
    core_main: CoreMain,
) -> Option<Lives> {
    let core = lives.core();
    let record = node.board.record(core);
    loop {
        node.board.begin(core);
        record.set_phase(CorePhase::Starting);
        let machine = Hosted::new(node, core, lives.generation(), manager.clone());
        let life = AssertUnwindSafe(|| core_main(machine, &node.record.boot));
        match panic::catch_unwind(life) {
            Ok(outcome) => {
                record.set_phase(CorePhase::Stopped);
                if manager.is_some() {
                    node.finish(outcome);
                }
                return None;
            }
            Err(end) if end.is::<Left>() => {
                if node.board.record(nile_abi::CoreId::BOOT).is_away(core) {
                    give_buffers_back(node, core);
                }
                if !lives.leave(node) {
                    return Some(lives);
                }
            }
            Err(_) if lives.end(node, fault::of_panic()) => {}
            Err(_) => return None,
        }
    }
}
