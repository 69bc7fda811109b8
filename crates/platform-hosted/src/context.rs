//! The registers of interrupted code, as Linux gives them to a signal handler.

use std::ffi::c_void;

use corosensei::trap::CoroutineTrapHandler;
use nile_platform::Fault;

/// Whether packages run on this machine: this file can send them back to their kernel.
pub(crate) const CAN_LEAVE: bool = cfg!(target_arch = "x86_64");

/// The registers in a handler's third argument.
#[cfg(target_arch = "x86_64")]
fn registers(context: *mut c_void) -> *mut libc::mcontext_t {
    // SAFETY: Linux gives a handler that asked for it the interrupted thread's context; this
    // only computes the address of one of its fields.
    unsafe { &raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext }
}

/// The address of the instruction that was interrupted, zero where we cannot tell.
#[cfg(target_arch = "x86_64")]
pub(crate) fn instruction(context: *mut c_void) -> u64 {
    // SAFETY: see `registers`.
    unsafe { (*registers(context)).gregs[libc::REG_RIP as usize] as u64 }
}

/// The stack pointer of what was interrupted, zero where we cannot tell.
#[cfg(target_arch = "x86_64")]
pub(crate) fn stack_pointer(context: *mut c_void) -> usize {
    // SAFETY: see `registers`.
    unsafe { (*registers(context)).gregs[libc::REG_RSP as usize] as usize }
}

/// Lets the handler return into the kernel, with `fault`, and never again into the package.
///
/// # Safety
///
/// `trap` belongs to the coroutine that runs, and the interrupted code runs on its behalf.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn leave(context: *mut c_void, trap: &CoroutineTrapHandler<Fault>, fault: Fault) {
    /// Interrupts on, and nothing else that a package may have set: no trap, no direction.
    const FLAGS: i64 = 0x202;
    // The control words of the floating-point units as a program starts with them.
    const X87: u16 = 0x37f;
    const MXCSR: u32 = 0x1f80;
    // SAFETY: the caller vouches for the coroutine.
    let to = unsafe { trap.setup_trap_handler(move || fault) };
    // SAFETY: see `registers`; the floating-point state lies beside them, if Linux saved one.
    unsafe {
        let registers = registers(context);
        for (register, value) in [
            (libc::REG_RIP, to.rip),
            (libc::REG_RSP, to.rsp),
            (libc::REG_RBP, to.rbp),
            (libc::REG_RDI, to.rdi),
            (libc::REG_RSI, to.rsi),
        ] {
            (*registers).gregs[register as usize] = value as i64;
        }
        (*registers).gregs[libc::REG_EFL as usize] = FLAGS;
        if let Some(floats) = (*registers).fpregs.as_mut() {
            (floats.cwd, floats.mxcsr) = (X87, MXCSR);
        }
    }
}

/// The address of the instruction that was interrupted, zero where we cannot tell.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn instruction(_: *mut c_void) -> u64 {
    0
}

/// The stack pointer of what was interrupted, zero where we cannot tell.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn stack_pointer(_: *mut c_void) -> usize {
    0
}

/// Never called: no package runs on this machine.
///
/// # Safety
///
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn leave(_: *mut c_void, _: &CoroutineTrapHandler<Fault>, _: Fault) {}
