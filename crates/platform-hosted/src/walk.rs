//! The walk from one stack frame to the next, by frame pointers. It is done in a signal handler,
//! and what was interrupted may be anything: nothing that it left in a register or on its stack is
//! believed, and nothing outside that stack is read.

use std::ops::Range;

/// Bytes of what a frame pointer points to: the caller's frame pointer and the return address.
const PAIR: usize = 2 * size_of::<usize>();

/// The return addresses from the frame at `frame` outward, as many as `into` has room for; gives
/// how many there are. Each frame has to lie on `stack` further out than the one before, so that
/// it ends whatever is there.
///
/// # Safety
///
/// The whole of `stack` is memory that can be read.
pub(crate) unsafe fn walk(frame: usize, stack: Range<usize>, into: &mut [usize]) -> usize {
    let (mut frame, mut lowest, mut found) = (frame, stack.start, 0);
    while found < into.len()
        && frame.is_multiple_of(align_of::<usize>())
        && frame >= lowest
        && frame.checked_add(PAIR).is_some_and(|end| end <= stack.end)
    {
        let pair: *const usize = std::ptr::with_exposed_provenance(frame);
        // SAFETY: both words lie on the stack, which can be read, and are aligned.
        let (caller, address) = unsafe { (pair.read_volatile(), pair.add(1).read_volatile()) };
        if address == 0 {
            break;
        }
        into[found] = address;
        found += 1;
        (lowest, frame) = (frame + PAIR, caller);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks a stack whose frame pointers are numbers of its words, from word `first` on.
    fn walked(words: &[usize], first: usize, room: usize) -> Vec<usize> {
        let mut stack = words.to_vec();
        let start = stack.as_mut_ptr().expose_provenance();
        for pair in stack.chunks_exact_mut(2) {
            pair[0] = start + pair[0] * size_of::<usize>();
        }
        let mut into = vec![0; room];
        let range = start..start + size_of_val(stack.as_slice());
        // SAFETY: the stack is a vector that lives.
        let found = unsafe {
            walk(start.wrapping_add(first.wrapping_mul(size_of::<usize>())), range, &mut into)
        };
        into.truncate(found);
        into
    }

    #[test]
    fn frames_follow_each_other_to_the_end_of_the_stack() {
        let stack = [2, 11, 6, 12, 0, 99, 8, 13];
        assert_eq!(walked(&stack, 0, 9), [11, 12, 13]);
        assert_eq!(walked(&stack, 0, 2), [11, 12], "no further than there is room");
        assert_eq!(walked(&stack, 0, 0), []);
        assert_eq!(walked(&[2, 11, 4, 0, 6, 12], 0, 9), [11], "no return address is the end");
    }

    #[test]
    fn a_bad_frame_pointer_ends_the_walk() {
        for first in [8, 7, 100, usize::MAX / 8, usize::MAX / 16] {
            assert_eq!(walked(&[2, 11, 4, 12, 6, 13, 8, 14], first, 9), [], "{first}");
        }
        // Back, onto itself, into itself, and round in a circle.
        assert_eq!(walked(&[2, 11, 0, 12], 0, 9), [11, 12]);
        assert_eq!(walked(&[0, 11, 0, 12], 0, 9), [11]);
        assert_eq!(walked(&[1, 11, 0, 12], 0, 9), [11]);
        assert_eq!(walked(&[4, 11, 0, 12, 2, 13], 0, 9), [11, 13]);
    }

    #[test]
    fn a_frame_pointer_that_is_not_aligned_ends_the_walk() {
        let stack = [0usize; 8];
        let start = stack.as_ptr().expose_provenance();
        let end = start + size_of_val(&stack);
        for frame in [start + 1, start + 4, end - 8, end - 15, start - 8, 0, usize::MAX - 7] {
            // SAFETY: the stack is an array that lives.
            assert_eq!(unsafe { walk(frame, start..end, &mut [0; 4]) }, 0, "{frame:#x}");
        }
    }
}
