//! The Linux signals that a node is run by. The node's threads block them, and its main thread
//! takes them one at a time in [`wait`], as ordinary code: none of these runs a handler.
//!
//! | signal                            | says                                             |
//! | --------------------------------- | ------------------------------------------------ |
//! | SIGINT, SIGQUIT, SIGHUP, SIGTERM  | end the node                                     |
//! | SIGCHLD                           | a worker process has died                        |
//! | SIGUSR1                           | a core thread has ended, or the node's manager   |
//! |                                   | powers it off                                    |
//!
//! Handlers run for a timer's ticks (`tick`), for samples (`sampler`), for faults (`fault`), and in
//! a worker that has a package for the signals of other cores (`package`).

use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// What made [`wait`] return.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Somebody outside wants the node to end.
    Interrupt,
    /// A worker, a core thread or the manager has news: look at all of them.
    News,
    /// The limit has passed.
    Nothing,
}

const TAKEN: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM, libc::SIGCHLD, libc::SIGUSR1];

/// The first so many of them a terminal sends to every process that was started from it.
const OF_TERMINALS: usize = 3;

/// Blocks the node's signals in this thread and in all that it starts from here on. A parent may
/// have ignored some of them; they count here all the same.
pub(crate) fn block() {
    for signal in TAKEN {
        // SAFETY: the default action is no code of ours, and nobody else in the process handles
        // these signals.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    mask(libc::SIG_BLOCK, &set(&TAKEN));
}

/// In a worker process, which inherits the node's mask: what a terminal sends to every process
/// stays blocked, because the node answers it for all; the others act as usual.
pub(crate) fn unblock_for_worker() {
    mask(libc::SIG_UNBLOCK, &set(&TAKEN[OF_TERMINALS..]));
}

/// Lets `signal` arrive at this thread, whatever it has inherited.
pub(crate) fn unblock(signal: libc::c_int) {
    mask(libc::SIG_UNBLOCK, &set(&[signal]));
}

/// Waits until there is news, at most for `limit`. Main thread only.
pub(crate) fn wait(limit: Option<Duration>) -> Event {
    let set = set(&TAKEN);
    let limit = limit.map(timespec);
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the set and the limit, if there is one, live through the call; a null limit waits
    // without end, and null information is not stored.
    match unsafe { libc::sigtimedwait(&set, ptr::null_mut(), limit) } {
        libc::SIGINT | libc::SIGQUIT | libc::SIGHUP | libc::SIGTERM => Event::Interrupt,
        libc::SIGCHLD | libc::SIGUSR1 => Event::News,
        _ => Event::Nothing,
    }
}

/// Lets the main thread's [`wait`] return with [`Event::News`].
pub(crate) fn tell_main_thread() {
    // It cannot fail: the process exists, and a process may signal itself.
    let _ = kill_process(getpid(), Signal::USR1);
}

/// `span` as the C library takes it.
pub(crate) fn timespec(span: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: span.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

fn set(signals: &[libc::c_int]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set that it is given, and sigaddset adds to it signal
    // numbers that exist.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), *signal);
        }
        set.assume_init()
    }
}

fn mask(how: libc::c_int, set: &libc::sigset_t) {
    // SAFETY: the set is initialised, and the old mask is not asked for.
    unsafe { libc::pthread_sigmask(how, set, ptr::null_mut()) };
}

/// What handles a signal.
pub(crate) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// Runs `handler` in this process whenever `signal` arrives, on the alternative stack if the
/// thread has one. No other signal interrupts it.
///
/// # Safety
///
/// `handler` does only what may interrupt any other code: it takes no lock and does not allocate.
pub(crate) unsafe fn handle(signal: libc::c_int, handler: Handler) {
    // SAFETY: all zeros is a valid sigaction, and sigfillset makes its mask one of all signals.
    let mut action: libc::sigaction = unsafe {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        libc::sigfillset(&mut action.sa_mask);
        action
    };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the action is complete, and the caller vouches for its handler.
    unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
}
