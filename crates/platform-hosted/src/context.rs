//! The registers of interrupted code, as Linux gives them to a signal handler, and the modes of the
//! processor that a package may have changed when it calls.

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

/// The frame pointer of what was interrupted, if it has one there; zero where we cannot tell.
#[cfg(target_arch = "x86_64")]
pub(crate) fn frame_pointer(context: *mut c_void) -> usize {
    // SAFETY: see `registers`.
    unsafe { (*registers(context)).gregs[libc::REG_RBP as usize] as usize }
}

/// Sets the modes that compiled code expects, and gives what the package had of those that are any
/// program's to set: for [`give_modes`]. Nothing makes a package keep to a calling convention; with
/// its direction flag the kernel would copy backwards.
#[cfg(target_arch = "x86_64")]
pub(crate) fn take_modes() -> u32 {
    let mut package = 0u32;
    // SAFETY: only flags that no program needs are cleared; the control word goes to a local, and
    // becomes what every program starts with.
    unsafe {
        core::arch::asm!(
            "stmxcsr [{package}]",
            "ldmxcsr [{kernel}]",
            "push {flags}",
            "popfq",
            package = in(reg) &raw mut package,
            kernel = in(reg) &raw const MXCSR,
            flags = in(reg) FLAGS,
        );
    }
    package
}

/// Gives a package back what [`take_modes`] gave.
#[cfg(target_arch = "x86_64")]
pub(crate) fn give_modes(package: u32) {
    // SAFETY: the processor stored it, so it is one that can be loaded; from here on the package's
    // code runs.
    unsafe {
        core::arch::asm!("ldmxcsr [{}]", in(reg) &raw const package, options(nostack, readonly));
    }
}

/// Interrupts on, and nothing else that a package may have set: no trap, no direction.
#[cfg(target_arch = "x86_64")]
const FLAGS: i64 = 0x202;

/// The control word of vector arithmetic as a program starts with it.
#[cfg(target_arch = "x86_64")]
static MXCSR: u32 = 0x1f80;

/// Lets the handler return into the kernel, with `fault`, and never again into the package.
///
/// # Safety
///
/// `trap` belongs to the coroutine that runs, and the interrupted code runs on its behalf.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn leave(context: *mut c_void, trap: &CoroutineTrapHandler<Fault>, fault: Fault) {
    // The control word of the other floating-point unit as a program starts with it.
    const X87: u16 = 0x37f;
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

/// The frame pointer of what was interrupted, zero where we cannot tell.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn frame_pointer(_: *mut c_void) -> usize {
    0
}

/// Never called: no package runs on this machine.
///
/// # Safety
///
/// None is needed.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn leave(_: *mut c_void, _: &CoroutineTrapHandler<Fault>, _: Fault) {}

/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn take_modes() -> u32 {
    0
}

/// As above.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn give_modes(_: u32) {}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use core::arch::asm;

    /// Flushes results to zero, and lets a division by zero be a fault.
    const CHANGED: u32 = 0x9d80;

    const DIRECTION: u64 = 1 << 10;
    const ALIGNMENT_CHECK: u64 = 1 << 18;

    /// What the calling thread has, but for the sticky bits of what was computed.
    fn arithmetic() -> u32 {
        let mut stored = 0u32;
        // SAFETY: this only stores the control word.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut stored, options(nostack)) };
        stored & !0x3f
    }

    #[test]
    fn what_a_package_has_set_stays_with_the_package() {
        let flags: u64;
        give_modes(CHANGED);
        // SAFETY: the next call clears what is set; nothing is copied in between.
        unsafe {
            asm!("pushfq", "or qword ptr [rsp], {}", "popfq", in(reg) DIRECTION | ALIGNMENT_CHECK);
        }
        let package = take_modes();
        // SAFETY: this only reads the flags.
        unsafe { asm!("pushfq", "pop {}", out(reg) flags) };
        let kernel = arithmetic();
        give_modes(package);
        let again = arithmetic();
        give_modes(MXCSR);
        assert_eq!(flags & (DIRECTION | ALIGNMENT_CHECK), 0);
        assert_eq!((kernel, again), (MXCSR, CHANGED));
    }
}
