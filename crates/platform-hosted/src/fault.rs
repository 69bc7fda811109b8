//! How a core's incarnation ends badly, put into words for its record and the log.
//!
//! In a worker process a fault is a signal of Linux's. A handler writes what happened into the
//! worker's own record and lets the process die of the signal; the node then knows more than the
//! signal's number. A fault of a package's code is the package's alone and goes to its kernel
//! (`package`). A fault in a system core ends the node: its threads share an address space,
//! and after a stray write there nothing in it can be trusted.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::os::unix::process::ExitStatusExt;
use std::panic;
use std::process::ExitStatus;
use std::sync::OnceLock;
use std::thread;

use nile_abi::CoreId;
use nile_platform::{Cause, Fault};

use crate::node::{Node, log};
use crate::{context, dispatch, package, signals};

/// The exit status of a worker process that panicked; the one that Rust itself uses.
pub(crate) const PANICKED: u8 = 101;

/// The core that this process is, in a worker.
static WORKER: OnceLock<CoreId> = OnceLock::new();

/// The signals that Linux makes of faults.
const FAULTS: [libc::c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS];

/// Reports faults of this process, which is `core`, in its record before it dies of them.
pub(crate) fn record_faults_of(core: CoreId) {
    if WORKER.set(core).is_ok() {
        for signal in FAULTS {
            // SAFETY: the handler only writes atomics in mapped memory and resets the signal; or
            // it leaves a package's code, where nothing is the kernel's.
            unsafe { signals::handle(signal, record) };
        }
    }
}

/// Ends the package if the fault is its; else writes the fault into the record and ends the
/// process by the same signal.
extern "C" fn record(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // First of all: until then Linux would take our own calls for the package's.
    let in_package = dispatch::leave_package();
    // SAFETY: Linux gives a handler that asked for it valid information about the signal; the
    // signals handled here carry an address unless a process sent them.
    let (why, address) = unsafe { ((*info).si_code, (*info).si_addr().addr() as u64) };
    let sent = why <= 0;
    let touched = kind_of(signal) == Fault::PAGE && !sent && why != libc::SI_KERNEL;
    let fault = Fault {
        kind: kind_of(signal),
        code: signal as u64,
        at: context::instruction(context),
        address: if touched { address } else { 0 },
    };
    // A segmentation fault without an address is an instruction that only Linux itself may use.
    let kind = if touched { Fault::PAGE } else { Fault::EXCEPTION };
    if !sent && package::take_fault(Fault { kind, ..fault }, in_package, context) {
        return;
    }
    if let (Some(core), Some(node)) = (WORKER.get(), Node::get()) {
        node.board.record(*core).set_fault(fault);
    }
    // SAFETY: both calls may be made in a handler. The signal is blocked until this one returns
    // and then has its default action: the process ends, with the right status for its parent.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Counts an interrupt of this worker. May be called in a signal handler.
pub(crate) fn count_interrupt(cause: Cause) {
    if let (Some(core), Some(node)) = (WORKER.get(), Node::get()) {
        node.board.record(*core).count_interrupt(cause);
    }
}

fn kind_of(signal: libc::c_int) -> u64 {
    match signal {
        libc::SIGSEGV | libc::SIGBUS => Fault::PAGE,
        libc::SIGILL | libc::SIGFPE | libc::SIGABRT | libc::SIGTRAP | libc::SIGSYS => {
            Fault::EXCEPTION
        }
        _ => Fault::KILLED,
    }
}

/// What the end of a worker process says; `recorded` is what it wrote into its record last.
pub(crate) fn of_process(status: ExitStatus, recorded: Option<Fault>) -> Fault {
    let seen = match status.signal() {
        Some(signal) => fault(kind_of(signal), signal),
        None => {
            let code = status.code().unwrap_or_default();
            if code == i32::from(PANICKED) { of_panic() } else { fault(Fault::EXCEPTION, code) }
        }
    };
    // The record may still tell about an earlier incarnation: it counts only where it agrees.
    recorded.filter(|fault| (fault.kind, fault.code) == (seen.kind, seen.code)).unwrap_or(seen)
}

/// The end of a core that panicked.
pub(crate) fn of_panic() -> Fault {
    fault(Fault::PANIC, 0)
}

fn fault(kind: u64, code: i32) -> Fault {
    Fault { kind, code: code as u64, at: 0, address: 0 }
}

/// Makes panics lines of the node's log, with the core that panicked; and with a backtrace when
/// the environment asks for one, as for any Rust program.
pub(crate) fn log_panics() {
    panic::set_hook(Box::new(|info| {
        let who = match WORKER.get() {
            Some(core) => core.to_string(),
            None => thread::current().name().unwrap_or("node").to_owned(),
        };
        let backtrace = Backtrace::capture();
        match backtrace.status() {
            BacktraceStatus::Captured => log(&who, format_args!("{info}\n{backtrace}")),
            _ => log(&who, format_args!("{info}")),
        }
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_process_says_what_happened() {
        let segv = of_process(ExitStatus::from_raw(libc::SIGSEGV), None);
        assert_eq!((segv.kind_name(), segv.code), ("page fault", libc::SIGSEGV as u64));
        let killed = of_process(ExitStatus::from_raw(libc::SIGKILL), None);
        assert_eq!((killed.kind_name(), killed.code), ("killed", libc::SIGKILL as u64));
        let panicked = of_process(ExitStatus::from_raw(101 << 8), None);
        assert_eq!((panicked.kind_name(), panicked.code), ("panic", 0));
        let exited = of_process(ExitStatus::from_raw(3 << 8), None);
        assert_eq!((exited.kind_name(), exited.code), ("exception", 3));
    }

    #[test]
    fn a_recorded_fault_counts_only_where_it_agrees() {
        let told = Fault { kind: Fault::PAGE, code: 11, at: 0x1000, address: 0x2000 };
        assert_eq!(of_process(ExitStatus::from_raw(libc::SIGSEGV), Some(told)), told);
        let killed = of_process(ExitStatus::from_raw(libc::SIGKILL), Some(told));
        assert_eq!((killed.kind, killed.address), (Fault::KILLED, 0));
    }
}
