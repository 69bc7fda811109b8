//! The acts, really done. None of this is sound, and that is its purpose: whatever happens must
//! stay within the package.

extern crate alloc;

use alloc::vec::Vec;
use core::arch::asm;
use core::hint::black_box;
use core::mem;
use core::ptr;

use nile_abi::call::{Answer, System, UserSlot};
use nile_unruly::{Act, Acts, NOT_STOPPED, Span};

/// Where the kernel is on x86_64; hosted, nothing is there.
const KERNEL: usize = 0xffff_ffff_8000_0000;

/// In the package's part of the address space, and nothing is there.
const NOWHERE: usize = nile_abi::call::USER_BASE as usize + 0x3fff_f000;

/// What the package exits with.
pub fn main(_: &dyn System, argument: &[u8]) -> u64 {
    nile_unruly::run(argument, &Real)
}

struct Real;

impl Acts for Real {
    fn perform(&self, act: Act) -> u64 {
        // SAFETY: none. Each of these must end the package.
        unsafe {
            match act {
                Act::Loop => asm!("2: jmp 2b"),
                Act::WriteNull => black_box(ptr::null_mut::<u64>()).write_volatile(1),
                Act::ReadKernel => {
                    black_box(black_box(KERNEL as *const u64).read_volatile());
                }
                Act::ReadPool => {
                    black_box(black_box(UserSlot::FIRST.pool().0 as *const u64).read_volatile());
                }
                Act::WriteCode => black_box(main as *mut u8).write_volatile(0xc3),
                Act::RunData => jump(&raw const RETURN as usize),
                Act::Jump => jump(NOWHERE),
                Act::MaskInterrupts => asm!("cli"),
                Act::Halt => asm!("hlt"),
                Act::Output => asm!("out dx, al", in("dx") 0x80u16, in("al") 0u8),
                Act::Divide => asm!(
                    "div {zero:e}",
                    zero = in(reg) 0,
                    inout("eax") 1 => _,
                    inout("edx") 0 => _,
                ),
                Act::Overflow => overflow(0),
                Act::Exhaust => exhaust(),
                Act::Panic => panic!("as it was asked to"),
                Act::ReadAt(at) => {
                    black_box(black_box(at as *const u64).read_volatile());
                }
                Act::WriteAt(at) => black_box(at as *mut u64).write_volatile(1),
            }
        }
        NOT_STOPPED
    }

    fn call(&self, number: u64, word: u64, input: Span, output: Span) -> Option<Answer> {
        let gate = nile_user::entry::gate()?;
        // SAFETY: no output lies where something else does.
        Some(unsafe { gate.raw(number, word, (input.0.0, input.1), (output.0.0, output.1)) })
    }
}

/// The instruction `ret`, as data.
static mut RETURN: [u8; 16] = [0xc3; 16];

/// # Safety
/// As above.
unsafe fn jump(to: usize) {
    // SAFETY: none.
    unsafe { mem::transmute::<usize, extern "C" fn()>(black_box(to))() }
}

fn overflow(depth: u64) {
    if black_box(true) {
        let frame = black_box([depth; 64]);
        overflow(depth + 1);
        black_box(frame);
    }
}

fn exhaust() {
    let mut held = Vec::new();
    loop {
        held.push(black_box(Vec::<u8>::with_capacity(1 << 20)));
    }
}
