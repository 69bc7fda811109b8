//! Timers of Linux's whose signal goes to the thread that started them, and interrupts whatever it
//! does.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use nile_abi::CoreId;
use rustix::thread::gettid;

use crate::signals;

/// A running timer; dropping it stops it.
pub(crate) struct Timer {
    timer: libc::timer_t,
}

/// What a timer's signal says: the front of Linux's information about it.
#[repr(C)]
struct Told {
    signal: libc::c_int,
    error: libc::c_int,
    code: libc::c_int,
    unused: libc::c_int,
    timer: libc::c_int,
    overrun: libc::c_int,
}

/// A timer's signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expiry {
    /// The core whose timer it is.
    pub core: CoreId,
    /// How many periods have passed since the last one.
    pub periods: u64,
}

impl Timer {
    /// Sends `signal` to the calling thread, which is the one of `core`, every `period` of `clock`.
    pub fn start(
        clock: libc::clockid_t,
        signal: libc::c_int,
        core: CoreId,
        period: Duration,
    ) -> io::Result<Timer> {
        let timer = Timer::new(clock, signal, core)?;
        timer.set(period, period)?;
        Ok(timer)
    }

    /// A timer that is not set, whose `signal` goes to the calling thread, which is the one of
    /// `core`.
    pub fn new(clock: libc::clockid_t, signal: libc::c_int, core: CoreId) -> io::Result<Timer> {
        // SAFETY: all zeros is a valid sigevent; every field that matters is set below.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = gettid().as_raw_nonzero().get();
        event.sigev_value.sival_ptr = ptr::without_provenance_mut(core.index());
        let mut timer = MaybeUninit::uninit();
        // SAFETY: the event is complete, and the timer's name is read only if it was written.
        let timer = unsafe {
            succeeded(libc::timer_create(clock, &mut event, timer.as_mut_ptr()))?;
            timer.assume_init()
        };
        Ok(Timer { timer })
    }

    /// Sends its signal in `first`, or no more if that is zero, and then every `period`, or once.
    pub fn set(&self, first: Duration, period: Duration) -> io::Result<()> {
        self.arm(0, signals::timespec(first), signals::timespec(period))
    }

    /// Sets it to this moment of its clock, once, or to none.
    pub fn set_at(&self, moment: Option<libc::timespec>) -> io::Result<()> {
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        self.arm(libc::TIMER_ABSTIME, moment.unwrap_or(never), never)
    }

    fn arm(&self, flags: i32, first: libc::timespec, period: libc::timespec) -> io::Result<()> {
        let times = libc::itimerspec { it_interval: period, it_value: first };
        // SAFETY: the timer exists; the old setting is not asked for.
        succeeded(unsafe { libc::timer_settime(self.timer, flags, &times, ptr::null_mut()) })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer was made by `start` and nobody else deletes it.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// What a handler of a timer's signal was told; `None` if no timer has sent it: anyone may.
pub(crate) fn expiry(info: *const libc::siginfo_t) -> Option<Expiry> {
    // SAFETY: Linux gives a handler that asked for it valid information about the signal, which is
    // larger than what is read of it.
    let (info, told) = unsafe { (&*info, &*info.cast::<Told>()) };
    if info.si_code != libc::SI_TIMER {
        return None;
    }
    // SAFETY: a timer's signal carries the value that the timer was made with.
    let core = unsafe { info.si_value() }.sival_ptr.addr() as u16;
    Some(Expiry { core: CoreId(core), periods: 1 + u64::try_from(told.overrun).unwrap_or(0) })
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
