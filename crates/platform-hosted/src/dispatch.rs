//! Whether a package's code runs in this process, and Linux's system calls kept from it.
//!
//! One byte says both: our signal handlers look at it to tell a package's fault from the kernel's
//! own, and Linux looks at it before every system call of this thread (its "syscall user
//! dispatch"). While a package runs, a `syscall` instruction is no call but the signal SIGSYS.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

// Numbers of prctl that the C library's crate lacks.
const DISPATCH: libc::c_int = 59;
const DISPATCH_OFF: libc::c_ulong = 0;
const DISPATCH_ON: libc::c_ulong = 1;

/// The kernel runs. Linux's SYSCALL_DISPATCH_FILTER_ALLOW.
const KERNEL: u8 = 0;

/// A package's code runs. Linux's SYSCALL_DISPATCH_FILTER_BLOCK.
const PACKAGE: u8 = 1;

/// One is enough for a process: only worker processes run packages, and a worker is one thread.
static MODE: AtomicU8 = AtomicU8::new(KERNEL);

/// Bytes of the code that ends a signal handler: a load of a number, `syscall`, and the address
/// behind it, which is the one that Linux compares.
const RESTORER_BYTES: usize = 10;

/// From here on a package's code runs.
pub(crate) fn enter_package() {
    MODE.store(PACKAGE, Ordering::SeqCst);
}

/// From here on the kernel runs. Says whether a package's code was running.
pub(crate) fn leave_package() -> bool {
    MODE.swap(KERNEL, Ordering::SeqCst) == PACKAGE
}

/// Whether a package's code runs.
pub(crate) fn is_in_package() -> bool {
    MODE.load(Ordering::SeqCst) == PACKAGE
}

/// Keeps Linux's system calls from packages of this thread, and says whether this Linux can. They
/// go on reaching the code that ends signal handlers, which is Linux's way back into a package.
pub(crate) fn begin() -> bool {
    restorer().is_some_and(|restorer| {
        // SAFETY: the byte lives as long as the process; the kernel's own calls pass while it
        // says so, and only the code that ends handlers passes always.
        let done =
            unsafe { libc::prctl(DISPATCH, DISPATCH_ON, restorer, RESTORER_BYTES, MODE.as_ptr()) };
        done == 0
    })
}

/// Ends what [`begin`] began. Without it Linux looks at the byte for every call of the kernel's,
/// too, which makes each a little slower.
pub(crate) fn end() {
    const NONE: libc::c_ulong = 0;
    // SAFETY: this gives the thread back what every thread has. It cannot fail.
    unsafe {
        libc::prctl(DISPATCH, DISPATCH_OFF, NONE, NONE, NONE);
    }
}

/// Whether Linux's system calls can be kept from packages, as a line for the boot report.
pub(crate) fn describe() -> String {
    let can = begin();
    if can {
        end();
        "packages: Linux's system calls are faults (syscall user dispatch)".into()
    } else {
        "packages: this Linux cannot keep its system calls from them".into()
    }
}

/// A signal's action as Linux keeps it, on the machines that have a restorer.
#[repr(C)]
struct Action {
    handler: usize,
    flags: libc::c_ulong,
    restorer: usize,
    mask: u64,
}

/// Where the C library's code is that ends a signal handler: it gives Linux the address with
/// every action. `None` on machines where there is none.
fn restorer() -> Option<usize> {
    if !cfg!(target_arch = "x86_64") {
        return None;
    }
    // Rust's library handles this signal in every process, and `fault` does in a worker.
    let mut action = MaybeUninit::<Action>::zeroed();
    // SAFETY: Linux writes one action of this layout and is told the bytes of its mask; no new
    // action is given.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            libc::SIGSEGV,
            ptr::null::<Action>(),
            action.as_mut_ptr(),
            size_of::<u64>(),
        )
    };
    // SAFETY: all zeros is an action, too.
    let restorer = unsafe { action.assume_init() }.restorer;
    (asked == 0 && restorer != 0).then_some(restorer)
}
