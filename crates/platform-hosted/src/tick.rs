//! The periodic timer of a core: a Linux timer whose signal goes to the core's own thread and
//! interrupts whatever it does, a system call too. The handler counts, and does nothing else.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::time::Duration;

use nile_abi::CoreId;
use nile_platform::Cause;
use rustix::thread::gettid;

use crate::node::Node;
use crate::signals;

/// The shortest period: below it a core would do nothing but count.
const MIN_PERIOD: Duration = Duration::from_micros(100);

/// A running timer; dropping it stops it.
pub(crate) struct Tick {
    timer: libc::timer_t,
}

impl Tick {
    /// Ticks the calling thread, which is the one of `core`, every `period`.
    pub fn start(core: CoreId, period: Duration) -> io::Result<Tick> {
        static HANDLER: Once = Once::new();
        // SAFETY: the handler only reads and writes atomics in memory that stays mapped.
        HANDLER.call_once(|| unsafe { signals::handle(signal(), count) });

        // SAFETY: all zeros is a valid sigevent; every field that matters is set below.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
        event.sigev_value.sival_ptr = ptr::without_provenance_mut(core.index());
        let mut timer = MaybeUninit::uninit();
        // SAFETY: the event is complete, and the timer's name is read only if it was written.
        let timer = unsafe {
            succeeded(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, timer.as_mut_ptr()))?;
            timer.assume_init()
        };
        let tick = Tick { timer };
        let period = signals::timespec(period.max(MIN_PERIOD));
        let times = libc::itimerspec { it_interval: period, it_value: period };
        // SAFETY: the timer exists; the old setting is not asked for.
        succeeded(unsafe { libc::timer_settime(tick.timer, 0, &times, ptr::null_mut()) })?;
        Ok(tick)
    }
}

impl Drop for Tick {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `start` and nobody else deletes it.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// The signal that ticks: the first that the C library leaves to programs.
fn signal() -> libc::c_int {
    libc::SIGRTMIN()
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Counts one tick of the core that the timer names. Anyone may send the signal; only a timer's
/// counts.
extern "C" fn count(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: Linux gives a handler that asked for it valid information about the signal.
    let info = unsafe { &*info };
    if info.si_code != libc::SI_TIMER {
        return;
    }
    // SAFETY: a timer's signal carries the value that the timer was made with.
    let core = unsafe { info.si_value() }.sival_ptr.addr();
    if let Some(node) = Node::get()
        && core < node.board.cores()
    {
        node.board.record(CoreId(core as u16)).count_interrupt(Cause::Tick);
    }
}
