//! System cores: pinned threads of the node's process. A panic ends an incarnation, not the
//! thread: the next one starts in the same thread, from the beginning.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use nile_abi::CoreId;
use nile_platform::CorePhase;
use rustix::thread::gettid;

use crate::machine::{Hosted, Left};
use crate::manager::HostedManager;
use crate::node::Node;
use crate::restart::Lives;
use crate::sampler::Sampler;
use crate::start::CoreMain;
use crate::{fault, placement, signals};

/// Starts the thread of `core`; `manager` if it manages the node.
pub(crate) fn start(
    node: &'static Node,
    core: CoreId,
    manager: Option<HostedManager>,
    cpus: Arc<[usize]>,
    core_main: CoreMain,
) -> io::Result<JoinHandle<()>> {
    Builder::new().name(core.to_string()).spawn(move || {
        placement::settle(core, &node.board, &cpus);
        node.board.record(core).set_hardware_id(gettid().as_raw_nonzero().get() as u64);
        let _sampler = Sampler::start(node, core);
        live(node, core, manager, core_main);
        signals::tell_main_thread();
    })
}

/// Runs one incarnation after another, until the core's loop ends or it has died too often.
fn live(node: &'static Node, core: CoreId, manager: Option<HostedManager>, core_main: CoreMain) {
    let record = node.board.record(core);
    let mut lives = Lives::first(core);
    loop {
        record.set_phase(CorePhase::Starting);
        let machine = Hosted::new(node, core, lives.generation(), manager.clone());
        let life = AssertUnwindSafe(|| core_main(machine, &node.record.boot));
        match panic::catch_unwind(life) {
            Ok(outcome) => {
                record.set_phase(CorePhase::Stopped);
                if manager.is_some() {
                    node.finish(outcome);
                }
                return;
            }
            // Only workers can be away.
            Err(end) if end.is::<Left>() => {
                node.board.record(CoreId::BOOT).set_away(core, false);
                lives.leave(node);
            }
            Err(_) if lives.end(node, fault::of_panic()) => {}
            Err(_) => return,
        }
    }
}
