//! Sampling: each tick notes what it interrupts in a ring ([`nile_platform::samples`]). Of a
//! package all frames, by their pointers; of the kernel, which is compiled without, the instruction
//! alone.

use core::ops::Range;

use nile_abi::VirtAddr;
use nile_platform::samples::{DEPTH, Frame, Mode, Ring, walk};
use nile_ring::Region;

use crate::interrupts;
use crate::layout::KERNEL_BASE;
use crate::private::Private;
use crate::user::{self, memory};

/// The package of this core, as far as samples have to know it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code {
    /// Where it begins.
    pub entry: VirtAddr,
    /// The memory of its stack, all of which is mapped.
    pub stack: (VirtAddr, VirtAddr),
}

static RING: Private<Option<&'static Region>> = Private::new(None);
static CODE: Private<Option<Code>> = Private::new(None);

/// Where samples go from now on, if anywhere.
pub(crate) fn note_in(ring: Option<&'static Region>) {
    RING.set(ring);
}

/// Which package runs in the turns from now on, if any.
pub(crate) fn set_code(code: Option<Code>) {
    CODE.set(code);
}

/// Notes what was interrupted, if that is wanted. Called by the tick's handler, unless the core
/// sleeps.
pub(crate) fn take(interrupted: &interrupts::Frame) {
    let Some(ring) = RING.get().and_then(|ring| Ring::of(ring.words())) else { return };
    let mut addresses = [0; DEPTH];
    addresses[0] = interrupted.rip as usize;
    let code = CODE.get().filter(|_| interrupted.is_users());
    let found = code.map_or(0, |code| {
        let stack = stack(&code, interrupted.rsp);
        walk(interrupted.rbp as usize, stack, &mut addresses[1..], |frame| {
            // SAFETY: both words lie on the package's stack, all of which is mapped, and no
            // reference is to that.
            unsafe { memory::pair(frame) }
        })
    });
    let mode = if interrupted.is_users() { Mode::Package } else { Mode::Kernel };
    ring.write(1, mode, addresses[..=found].iter().map(|it| frame_at(*it as u64, code)));
}

/// What of the package's stack is in use, if `pointer` is on it; else nothing.
fn stack(code: &Code, pointer: u64) -> Range<usize> {
    let (low, high) = code.stack;
    if (low.0..high.0).contains(&pointer) { pointer as usize..high.0 as usize } else { 0..0 }
}

/// What an address is to whoever does not know where code is.
fn frame_at(address: u64, code: Option<Code>) -> Frame {
    if address >= KERNEL_BASE.0 {
        Frame::Program(address)
    } else if let Some(code) = code.filter(|_| user::SPAN.contains(&VirtAddr(address))) {
        Frame::Package(address.wrapping_sub(code.entry.0) as i64)
    } else {
        Frame::Elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: Code = Code {
        entry: VirtAddr(user::SPAN.start.0 + 0x100),
        stack: (VirtAddr(0x8000), VirtAddr(0x9000)),
    };

    #[test]
    fn only_the_packages_stack_is_walked() {
        assert_eq!(stack(&CODE, 0x8008), 0x8008..0x9000);
        for pointer in [0, 0x7fff, 0x9000, u64::MAX] {
            assert!(stack(&CODE, pointer).is_empty(), "{pointer:#x}");
        }
    }

    #[test]
    fn code_is_the_kernels_the_packages_or_nobodys() {
        let kernel = KERNEL_BASE.0 + 5;
        let package = user::SPAN.start.0 + 0x90;
        assert_eq!(frame_at(kernel, Some(CODE)), Frame::Program(kernel));
        assert_eq!(frame_at(package, Some(CODE)), Frame::Package(-0x70));
        assert_eq!(frame_at(package, None), Frame::Elsewhere);
        assert_eq!(frame_at(0, Some(CODE)), Frame::Elsewhere);
    }
}
