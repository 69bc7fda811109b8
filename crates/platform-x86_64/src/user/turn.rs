//! The way into ring 3 and back.
//!
//! A turn begins in one of two ways, in assembly: by IRETQ with every register, where the package
//! was interrupted or has not run yet; by SYSRETQ where it waits for an answer. The second needs
//! only what the C calling convention has a function keep; all other registers are zeroed.
//!
//! It ends in one of two ways, too. SYSCALL goes back to the kernel's stack by itself. An
//! interrupt that ends the turn ([`end`]) keeps the state that the stub has made on the interrupt
//! stack, and changes it there: so the stub returns to the kernel instead of the package.
//!
//! SYSRETQ is given no address that the package makes up: the one after a SYSCALL, which was
//! mapped for it and so lies far below the end of the lower half. (Elsewhere it would fault in
//! ring 0.)

use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, Ordering};

use nile_abi::VirtAddr;
use nile_abi::call::{Answer, UserSlot};
use nile_platform::Fault;
use nile_platform::user::Ask;

use crate::gdt;
use crate::interrupts::{Frame, State, Vectors};
use crate::private::Private;
use crate::privileged;
use crate::vector::Vector;

/// Interrupts, single steps, string direction, I/O privilege, nested task, and the flag that lets
/// the kernel touch user pages: none of them crosses from the package to the kernel.
const CLEARED_AT_ENTRY: u64 = 0x4_7700;

/// The flags that are a package's own to set: arithmetic, single step, direction, and the ones
/// that only ring 3 notices.
const OWN_FLAGS: u64 = 0x25_4dd5;

/// What the flags of ring 3 always have: interrupts come in.
const USER_FLAGS: u64 = 0x202;

/// The kernel's flags when it comes back: interrupts are masked, as they were when it left.
const KERNEL_FLAGS: u64 = 0x2;

#[cfg(freestanding)]
core::arch::global_asm!(
    include_str!("turn.s"),
    turn = sym TURN,
    kernel_stack = const offset_of!(Turn, kernel_stack),
    mxcsr = const offset_of!(Turn, state.vectors) + Vectors::MXCSR,
    kernel_mxcsr = const Vectors::INITIAL_MXCSR,
    user_flags = const USER_FLAGS,
    called = const Left::Called as u64,
    r15 = const offset_of!(Turn, state.frame.r15),
    r14 = const offset_of!(Turn, state.frame.r14),
    r13 = const offset_of!(Turn, state.frame.r13),
    r12 = const offset_of!(Turn, state.frame.r12),
    r10 = const offset_of!(Turn, state.frame.r10),
    r9 = const offset_of!(Turn, state.frame.r9),
    r8 = const offset_of!(Turn, state.frame.r8),
    rbp = const offset_of!(Turn, state.frame.rbp),
    rdi = const offset_of!(Turn, state.frame.rdi),
    rsi = const offset_of!(Turn, state.frame.rsi),
    rdx = const offset_of!(Turn, state.frame.rdx),
    rbx = const offset_of!(Turn, state.frame.rbx),
    rax = const offset_of!(Turn, state.frame.rax),
    rip = const offset_of!(Turn, state.frame.rip),
    rsp = const offset_of!(Turn, state.frame.rsp),
);

const _: () = assert!(offset_of!(Turn, state) == 0, "user_resume finds the state there");

unsafe extern "C" {
    /// Enters ring 3 with every register. Returns when the turn ends.
    fn user_resume() -> u64;
    /// Enters ring 3 with an answer. Returns when the turn ends.
    fn user_answer() -> u64;
    /// Where SYSCALL goes.
    static user_call: u8;
    /// Where the kernel goes on.
    static user_left: u8;
}

/// Why a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub(crate) enum Left {
    /// SYSCALL: see [`ask`].
    Called = 0,
    /// A signal came.
    Interrupted = 1,
    /// An exception: see [`fault`].
    Faulted = 2,
}

/// What is kept of the package between its turns, and of the kernel during them.
#[repr(C)]
struct Turn {
    /// Every register of the package; of a package that waits for an answer, those that last.
    state: State,
    /// Where the kernel goes on, below the registers that a function keeps.
    kernel_stack: u64,
    /// Whether the last turn has ended by a call: of the state, the registers that last are there.
    called: bool,
    fault: Fault,
}

const NO_FAULT: Fault = Fault { kind: 0, code: 0, at: 0, address: 0 };

static TURN: Private<Turn> =
    Private::new(Turn { state: State::ZERO, kernel_stack: 0, called: false, fault: NO_FAULT });

/// What is kept of a package while another one is loaded.
#[derive(Clone, Copy)]
struct Unloaded {
    state: State,
    called: bool,
    /// The control word of the x87 unit: all that a call keeps of that.
    x87: u16,
}

static UNLOADED: Private<[Unloaded; UserSlot::COUNT]> =
    Private::new([Unloaded { state: State::ZERO, called: false, x87: 0 }; UserSlot::COUNT]);

/// Keeps the registers of the package that is loaded, if its slot `from` is one, and brings back
/// those of the one in slot `to`. Of a package that does not wait for an answer, all registers are
/// in its state.
pub(super) fn exchange(from: usize, to: usize) {
    // SAFETY: as in `with`.
    let all = unsafe { &mut *UNLOADED.as_ptr() };
    with(|turn| {
        if let Some(kept) = all.get_mut(from) {
            copy(&turn.state, &mut kept.state, turn.called);
            (kept.called, kept.x87) = (turn.called, privileged::x87_control());
        }
        let Unloaded { state, called, x87 } = &all[to];
        copy(state, &mut turn.state, *called);
        turn.called = *called;
        // What the last one has left there is none of this one's.
        // SAFETY: the kernel uses none of these.
        unsafe { privileged::clear_data_segments() }
        if *called {
            privileged::begin_x87(*x87);
        }
    });
}

/// Copies a state; of a package that has called the kernel, what `user_answer` takes from it.
fn copy(from: &State, to: &mut State, called: bool) {
    if !called {
        *to = *from;
        return;
    }
    to.vectors.copy_mxcsr(&from.vectors);
    let Frame { rbx, rbp, r12, r13, r14, r15, rip, rsp, rax, rdx, .. } = from.frame;
    let all = &mut to.frame;
    (all.rbx, all.rbp, all.rip, all.rsp) = (rbx, rbp, rip, rsp);
    (all.r12, all.r13, all.r14, all.r15) = (r12, r13, r14, r15);
    // It may have been answered, and then had no turn.
    (all.rax, all.rdx) = (rax, rdx);
}

/// Set by a signal that finds the kernel running, so that the next turn does not begin without
/// the kernel's having looked what it was about.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Notes a signal that came while no package was running.
pub(crate) fn note_signal() {
    SIGNALLED.store(true, Ordering::Relaxed);
}

/// Forgets the signals that came up to now, because the kernel is about to look around anyhow;
/// whether there was one.
pub(crate) fn forget_signal() -> bool {
    // Seldom; so the swap, which is slow, is not always made.
    SIGNALLED.load(Ordering::Relaxed) && SIGNALLED.swap(false, Ordering::Relaxed)
}

/// Says where SYSCALL goes, and that nothing else leads there.
///
/// # Safety
/// [`gdt::install`] was run on this core.
pub(super) unsafe fn install() {
    const SYSENTER_CS: u32 = 0x174;
    const EFER: u32 = 0xc000_0080;
    const STAR: u32 = 0xc000_0081;
    const LSTAR: u32 = 0xc000_0082;
    const FMASK: u32 = 0xc000_0084;
    const SYSCALL_ENABLED: u64 = 1;
    let selectors = u64::from(gdt::KERNEL_CODE) << 32 | u64::from(gdt::SYSRET_BASE) << 48;
    // SAFETY: every processor with long mode has these; the selectors are those of the loaded
    // descriptors, the target is the kernel's entry.
    unsafe {
        privileged::write_msr(SYSENTER_CS, 0);
        privileged::write_msr(STAR, selectors);
        privileged::write_msr(LSTAR, (&raw const user_call).addr() as u64);
        privileged::write_msr(FMASK, CLEARED_AT_ENTRY);
        privileged::write_msr(EFER, privileged::read_msr(EFER) | SYSCALL_ENABLED);
    }
}

/// This core's turn, while no package runs on it.
fn with<R>(work: impl FnOnce(&mut Turn) -> R) -> R {
    // SAFETY: this core's own. Its handlers touch it only while a package runs, which is inside
    // `enter`; and no `work` below comes back here.
    work(unsafe { &mut *TURN.as_ptr() })
}

/// The next turn begins afresh: at `entry`, with this stack pointer and this argument, all other
/// registers zero.
pub(super) fn begin(entry: VirtAddr, stack: VirtAddr, argument: VirtAddr) {
    const FS_BASE: u32 = 0xc000_0100;
    const GS_BASE: u32 = 0xc000_0101;
    // No instruction of ring 3 sets the bases, as long as CR4 does not allow it.
    // SAFETY: the kernel uses none of these; every processor with long mode has the two bases.
    unsafe {
        privileged::clear_data_segments();
        privileged::write_msr(FS_BASE, 0);
        privileged::write_msr(GS_BASE, 0);
    }
    with(|turn| {
        turn.called = false;
        turn.state = State {
            vectors: Vectors::INITIAL,
            frame: Frame {
                rdi: argument.0,
                rip: entry.0,
                cs: u64::from(gdt::USER_CODE),
                rflags: USER_FLAGS,
                rsp: stack.0,
                ss: u64::from(gdt::USER_DATA),
                ..Frame::ZERO
            },
        };
    });
}

/// What the package asks, whose turn ended so.
pub(super) fn ask() -> Ask {
    with(|turn| {
        let Frame { rdi, rsi, rdx, r10, r8, r9, .. } = turn.state.frame;
        Ask { number: rdi, word: rsi, input: (VirtAddr(rdx), r10), output: (VirtAddr(r8), r9) }
    })
}

/// What the package did, whose turn ended so.
pub(super) fn fault() -> Fault {
    with(|turn| turn.fault)
}

/// The next turn begins with this answer.
pub(super) fn answer(answer: Answer) {
    with(|turn| (turn.state.frame.rax, turn.state.frame.rdx) = (answer.status, answer.value));
}

/// One turn, with an answer if `by_call`.
///
/// # Safety
/// Interrupts are masked. The last turn ended with a call if `by_call`, else the state is whole.
pub(super) unsafe fn enter(by_call: bool) -> Left {
    // SAFETY: the caller's promise. Both keep to the C calling convention: what the package does
    // to registers is undone, and it reaches no memory of the kernel's.
    let left = unsafe { if by_call { user_answer() } else { user_resume() } };
    let left = match left {
        0 => Left::Called,
        1 => Left::Interrupted,
        _ => Left::Faulted,
    };
    with(|turn| turn.called = left == Left::Called);
    left
}

/// Whether an exception in ring 3 is the package's. The others mean that the machine failed, or
/// that the kernel did.
pub(crate) fn is_fault_of_package(vector: Vector) -> bool {
    let machine = [Vector::DOUBLE_FAULT, Vector::MACHINE_CHECK, Vector::NMI];
    vector <= Vector::LAST_EXCEPTION && !machine.contains(&vector)
}

/// The package ends its turn by an exception: see [`end`].
pub(crate) fn end_by_fault(state: &mut State) {
    let Frame { vector, error, rip, .. } = state.frame;
    let fault = match Vector(vector as u8) {
        Vector::PAGE_FAULT => {
            let address = privileged::page_fault_address();
            Fault { kind: Fault::PAGE, code: error, at: rip, address }
        }
        // Which exception says more than its error code, and most have none.
        _ => Fault { kind: Fault::EXCEPTION, code: vector, at: rip, address: 0 },
    };
    with(|turn| turn.fault = fault);
    end(state, Left::Faulted);
}

/// Ends the turn of the package that was interrupted with `state`: the state is kept, and becomes
/// the kernel's where it left. Called by the handler of an interrupt from ring 3.
pub(crate) fn end(state: &mut State, left: Left) {
    with(|turn| {
        let kernel = kernel_state(turn.kernel_stack, left);
        turn.state = core::mem::replace(state, kernel);
        // It is what the processor left of ring 3 anyway; the next return does not rely on that.
        turn.state.frame.rflags = turn.state.frame.rflags & OWN_FLAGS | USER_FLAGS;
    });
}

fn kernel_state(stack: u64, left: Left) -> State {
    let frame = Frame {
        rax: left as u64,
        rip: (&raw const user_left).addr() as u64,
        cs: u64::from(gdt::KERNEL_CODE),
        rflags: KERNEL_FLAGS,
        rsp: stack,
        ss: u64::from(gdt::KERNEL_DATA),
        ..Frame::ZERO
    };
    State { vectors: Vectors::INITIAL, frame }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    const INTERRUPT_FLAG: u64 = 1 << 9;
    const IO_PRIVILEGE: u64 = 3 << 12;

    #[test]
    fn no_flag_of_the_package_reaches_the_kernel_and_none_gives_it_privileges() {
        let single_step = 1 << 8;
        let direction = 1 << 10;
        let nested_task = 1 << 14;
        let alignment_check = 1 << 18;
        let cleared =
            [single_step, INTERRUPT_FLAG, direction, IO_PRIVILEGE, nested_task, alignment_check];
        assert_eq!(CLEARED_AT_ENTRY, cleared.iter().sum());
        assert_eq!(OWN_FLAGS & (IO_PRIVILEGE | INTERRUPT_FLAG), 0);
        // No virtual-8086 mode, no virtual interrupts.
        assert_eq!(OWN_FLAGS & (1 << 17 | 1 << 19 | 1 << 20), 0);
        assert_ne!(USER_FLAGS & INTERRUPT_FLAG, 0);
    }

    #[test]
    fn all_is_kept_of_who_was_interrupted_and_what_lasts_of_who_has_called() {
        let frame = |it| Frame {
            rbx: it,
            rbp: it + 1,
            r12: it + 2,
            r13: it + 3,
            r14: it + 4,
            r15: it + 5,
            rip: it + 6,
            rsp: it + 7,
            rax: it + 8,
            rdx: it + 9,
            ..Frame::ZERO
        };
        let from = State { vectors: Vectors::INITIAL, frame: Frame { rcx: 7, ..frame(100) } };
        let kept = |called| {
            let mut to = State::ZERO;
            copy(&from, &mut to, called);
            to
        };
        let (whole, lasting) = (kept(false), kept(true));
        assert_eq!(format!("{whole:?}"), format!("{from:?}"));
        assert_eq!(format!("{:?}", lasting.frame), format!("{:?}", frame(100)));
        let mut vectors = Vectors::ZERO;
        vectors.copy_mxcsr(&Vectors::INITIAL);
        assert_eq!(format!("{:?}", lasting.vectors), format!("{vectors:?}"));
        assert_ne!(format!("{vectors:?}"), format!("{:?}", Vectors::ZERO));
    }

    #[test]
    fn the_machines_failures_are_not_the_packages() {
        let own = |number| is_fault_of_package(Vector(number));
        assert!(own(0) && own(6) && own(13) && own(14) && own(19));
        assert!(!own(2) && !own(8) && !own(18) && !own(240) && !own(242));
    }
}
