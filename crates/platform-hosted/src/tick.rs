//! The periodic timer of a core, which interrupts a system call too. The handler counts, and does
//! nothing else.

use std::io;
use std::sync::Once;
use std::time::Duration;

use nile_abi::CoreId;
use nile_platform::Cause;

use crate::node::Node;
use crate::signals;
use crate::timer::{self, Timer};

/// The shortest period: below it a core would do nothing but count.
const MIN_PERIOD: Duration = Duration::from_micros(100);

/// A running timer; dropping it stops it.
pub(crate) struct Tick {
    _timer: Timer,
}

impl Tick {
    /// Ticks the calling thread, which is the one of `core`, every `period`.
    pub fn start(core: CoreId, period: Duration) -> io::Result<Tick> {
        static HANDLER: Once = Once::new();
        // SAFETY: the handler only reads and writes atomics in memory that stays mapped.
        HANDLER.call_once(|| unsafe { signals::handle(signal(), count) });
        let period = period.max(MIN_PERIOD);
        Ok(Tick { _timer: Timer::start(libc::CLOCK_MONOTONIC, signal(), core, period)? })
    }
}

/// The signal that ticks: the first that the C library leaves to programs.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

/// Counts one tick of the core that the timer names.
extern "C" fn count(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if let (Some(expiry), Some(node)) = (timer::expiry(info), Node::get())
        && expiry.core.index() < node.board.cores()
    {
        node.board.record(expiry.core).count_interrupt(Cause::Tick);
    }
}
