//! What ends a core's sleep at its deadline: the futex's own timeout, which Linux may round up by
//! the thread's slack (`placement` makes that small), or a POSIX timer, which it does not. Setting
//! and stopping that are two system calls more.

use std::cell::RefCell;
use std::io;
use std::sync::Once;
use std::time::Duration;

use nile_abi::{CoreId, Status};
use nile_platform::TimerSource;
use nile_ring::Signal;
use rustix::thread::current_timer_slack;
use rustix::thread::futex::Timespec;

use crate::node::Node;
use crate::signals;
use crate::timer::{self, Timer};

/// Linux's own value, where it does not tell.
const USUAL_SLACK: u64 = 50_000;

/// The POSIX timer of a core that has taken that, and none as long as it has the futex.
#[derive(Default)]
pub(crate) struct Alarm(RefCell<Option<Timer>>);

impl Alarm {
    /// Both, the futex first.
    pub fn sources() -> [TimerSource; 2] {
        let slack = Duration::from_nanos(current_timer_slack().unwrap_or(USUAL_SLACK).max(1));
        let futex = TimerSource {
            name: "futex",
            resolution: slack,
            longest: Duration::MAX,
            cost: 100,
            shared: false,
        };
        let resolution = Duration::from_nanos(1);
        [futex, TimerSource { name: "posix", resolution, cost: 2_000, ..futex }]
    }

    /// Which of them the core has.
    pub fn place(&self) -> usize {
        usize::from(self.0.borrow().is_some())
    }

    /// Takes one for the calling thread, which is the one of `core`.
    pub fn take(&self, place: usize, core: CoreId) -> Result<(), Status> {
        static HANDLER: Once = Once::new();
        let timer = match place {
            0 => None,
            1 => {
                // SAFETY: the handler only touches atomics in memory that stays mapped.
                HANDLER.call_once(|| unsafe { signals::handle(signal(), ring) });
                let timer = Timer::new(libc::CLOCK_MONOTONIC, signal(), core);
                Some(timer.map_err(|_| Status::Failed)?)
            }
            _ => return Err(Status::NotFound),
        };
        self.0.replace(timer);
        Ok(())
    }

    /// Sets the POSIX timer, or stops it; what the futex has to do by itself.
    pub fn set(&self, until: Option<Timespec>) -> Option<Timespec> {
        let alarm = self.0.borrow();
        let Some(timer) = alarm.as_ref() else { return until };
        let moment = until.map(|it| libc::timespec { tv_sec: it.tv_sec, tv_nsec: it.tv_nsec });
        let set: io::Result<()> = timer.set_at(moment);
        // What Linux refuses, the futex does.
        until.filter(|_| set.is_err())
    }
}

/// The next signal after those that tick and sample.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 2
}

/// Ends the sleep of the core that the timer names, or that it is about to begin. A wait that it
/// interrupts ends anyway.
extern "C" fn ring(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if let (Some(expiry), Some(node)) = (timer::expiry(info), Node::get()) {
        node.board.notifier().doorbells().wake(expiry.core, &Here);
    }
}

/// The signal of a core to itself.
struct Here;

impl Signal for Here {
    fn signal(&self, _: CoreId) {}
}
