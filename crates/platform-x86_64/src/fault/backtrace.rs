//! The calls that led to a fault, by frame pointers: each frame begins with the address of its
//! caller's frame and the address to return to.
//!
//! The chain is read from a stack that something has gone wrong on, so nothing of it is believed:
//! a frame must be aligned, lie in one of the core's own stacks and above the last one, a return
//! address must be code, and there is a limit to their number.

use core::ops::Range;

use nile_abi::VirtAddr;

/// Frames that are followed at most.
pub const MAX_FRAMES: usize = 64;

/// Bytes at the start of a frame: the caller's frame and the return address.
const LINK_BYTES: u64 = 16;

/// The way from a frame to its callers.
pub struct Backtrace<'a, R> {
    frame: u64,
    code: Range<VirtAddr>,
    stacks: &'a [Range<VirtAddr>],
    read: R,
    left: usize,
}

impl<'a, R: Fn(VirtAddr) -> u64> Backtrace<'a, R> {
    /// From the frame at `frame` on. `read` gives the word at an address, which is aligned and
    /// wholly within one of `stacks`; only addresses in `code` are returned to.
    pub fn new(
        frame: VirtAddr,
        code: Range<VirtAddr>,
        stacks: &'a [Range<VirtAddr>],
        read: R,
    ) -> Backtrace<'a, R> {
        Backtrace { frame: frame.0, code, stacks, read, left: MAX_FRAMES }
    }

    fn is_frame(&self, at: u64) -> bool {
        let Some(end) = VirtAddr(at).checked_add(LINK_BYTES) else { return false };
        let inside = |stack: &Range<VirtAddr>| stack.start.0 <= at && end <= stack.end;
        at.is_multiple_of(8) && self.stacks.iter().any(inside)
    }
}

impl<R: Fn(VirtAddr) -> u64> Iterator for Backtrace<'_, R> {
    type Item = VirtAddr;

    /// The next address to return to.
    fn next(&mut self) -> Option<VirtAddr> {
        if self.left == 0 || !self.is_frame(self.frame) {
            return None;
        }
        let caller = (self.read)(VirtAddr(self.frame));
        let address = VirtAddr((self.read)(VirtAddr(self.frame + 8)));
        self.left -= 1;
        // A caller's frame is further up; anything else ends the chain.
        self.frame = if caller > self.frame { caller } else { 0 };
        self.code.contains(&address).then_some(address)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const CODE: Range<VirtAddr> = VirtAddr(0x8000)..VirtAddr(0x9000);
    const STACK: Range<VirtAddr> = VirtAddr(0x1000)..VirtAddr(0x1100);

    /// The addresses found from `frame` on in a stack with these words at its start.
    fn walk(frame: u64, words: &[u64]) -> Vec<u64> {
        let read = |at: VirtAddr| {
            assert!(STACK.contains(&at) && at.0 + 8 <= STACK.end.0 && at.0.is_multiple_of(8));
            words.get(((at.0 - STACK.start.0) / 8) as usize).copied().unwrap_or(0)
        };
        Backtrace::new(VirtAddr(frame), CODE, &[STACK], read).map(|at| at.0).collect()
    }

    #[test]
    fn a_chain_is_followed_to_its_end() {
        assert_eq!(walk(0x1000, &[0x1020, 0x8001, 0, 0, 0, 0x8002]), [0x8001, 0x8002]);
    }

    #[test]
    fn a_frame_outside_the_stacks_is_not_read() {
        for frame in [0, 0xfff, 0x10f8, 0x1100, 0x1004, u64::MAX, u64::MAX - 7] {
            assert_eq!(walk(frame, &[]), [], "{frame:#x}");
        }
        assert_eq!(walk(0x1000, &[0xdead_0000, 0x8001]), [0x8001]);
    }

    #[test]
    fn a_loop_ends() {
        assert_eq!(walk(0x1000, &[0x1000, 0x8001]), [0x8001]);
        assert_eq!(walk(0x1010, &[0, 0, 0x1000, 0x8001]), [0x8001]);
    }

    #[test]
    fn what_is_not_code_ends_the_chain() {
        assert_eq!(walk(0x1000, &[0x1010, 0x9000, 0, 0x8001]), []);
    }

    #[test]
    fn any_stack_content_ends() {
        let mut seed = 1u64;
        for _ in 0..1000 {
            let words: Vec<u64> = (0..32)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    0x0f00 + (seed >> 33) % 0x300
                })
                .collect();
            assert!(walk(0x1000, &words).len() <= MAX_FRAMES);
        }
    }
}
