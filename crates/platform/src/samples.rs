//! Samples of what a core does: a ring that the core writes in an interrupt handler, and whoever
//! wants to know reads meanwhile.
//!
//! A ring is [`SLOTS`] slots of 512 bytes behind one in which the writer counts. Sample `n` goes
//! into slot `n mod SLOTS`, whoever has read what is there or not: the writer waits for nobody, and
//! a reader that is late sees by the numbers how many it has lost.
//!
//! | word of a slot | what                                                       |
//! | -------------- | ---------------------------------------------------------- |
//! | 0              | the sample's number, from 1 on; 0 while it is written       |
//! | 1              | periods of the timer that it stands for                    |
//! | 2              | what was interrupted: 0 kernel, 1 Linux, 2 package         |
//! | 3              | frames that follow                                         |
//! | 4 to 63        | frames, innermost first: where in bytes 0 to 6, what in 7  |

use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, fence};

/// The most frames of a sample; what is further out is left away.
pub const DEPTH: usize = SLOT_WORDS - HEAD;

/// Samples that a ring holds.
pub const SLOTS: usize = 1024;

/// Bytes of a ring.
pub const RING_BYTES: usize = RING_WORDS * size_of::<u64>();

const SLOT_WORDS: usize = 64;
const HEAD: usize = 4;
const RING_WORDS: usize = (1 + SLOTS) * SLOT_WORDS;

/// What was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// The kernel, with its services.
    Kernel,
    /// A system call of Linux, which the kernel was making.
    Linux,
    /// A package.
    Package,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Frame {
    /// So many bytes behind the start of the node's program; where that is always at one place, the
    /// address, of which the upper byte is left out.
    Program(u64),
    /// So many bytes behind the package's entry point.
    Package(i64),
    /// In a library, or in what is no code.
    Elsewhere,
}

/// What a core did at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Periods of the timer that have passed since the one before.
    pub periods: u64,
    /// What was interrupted.
    pub mode: Mode,
    /// Where, innermost first. The others are where calls return to.
    pub frames: Vec<Frame>,
}

/// The ring of one core.
#[derive(Clone, Copy, Debug)]
pub struct Ring<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    /// The ring in the first [`RING_BYTES`] of `words`; none if there are fewer.
    pub fn of(words: &'a [AtomicU64]) -> Option<Ring<'a>> {
        Some(Ring { words: words.get(..RING_WORDS)? })
    }

    /// How many samples were ever written.
    pub fn written(&self) -> u64 {
        self.words[0].load(Acquire)
    }

    fn slot(&self, number: u64) -> &[AtomicU64] {
        let at = (1 + number as usize % SLOTS) * SLOT_WORDS;
        &self.words[at..at + SLOT_WORDS]
    }

    /// Writes a sample, with the first [`DEPTH`] of `frames`. One writer at a time.
    pub fn write(&self, periods: u64, mode: Mode, frames: impl Iterator<Item = Frame>) {
        let number = self.written().wrapping_add(1);
        let slot = self.slot(number);
        slot[0].store(0, Relaxed);
        // Whoever sees anything of what follows also sees that zero, or what comes after it.
        fence(Release);
        let mut count = 0;
        for (word, frame) in slot[HEAD..].iter().zip(frames) {
            word.store(frame.word(), Relaxed);
            count += 1;
        }
        slot[1].store(periods, Relaxed);
        slot[2].store(mode.word(), Relaxed);
        slot[3].store(count, Relaxed);
        slot[0].store(number, Release);
        self.words[0].store(number, Release);
    }

    /// Gives the samples from number `next` on to `each`, at most so many; says how many are
    /// missing between them.
    pub fn read(&self, next: &mut u64, most: usize, mut each: impl FnMut(Sample)) -> u64 {
        let written = self.written();
        let oldest = written.saturating_sub(SLOTS as u64 - 1).max(1);
        let first = (*next).max(oldest);
        let mut lost = first - *next;
        let end = written.saturating_add(1).min(first.saturating_add(most as u64));
        for number in first..end {
            match self.get(number) {
                Some(sample) => each(sample),
                None => lost = lost.saturating_add(1),
            }
        }
        *next = end.max(first);
        lost
    }

    /// The sample of this number, unless another one is written over it.
    fn get(&self, number: u64) -> Option<Sample> {
        let slot = self.slot(number);
        if slot[0].load(Acquire) != number {
            return None;
        }
        let [periods, mode, count] = [1, 2, 3].map(|word| slot[word].load(Relaxed));
        let frames = slot[HEAD..].iter().take(count as usize);
        let frames = frames.map(|word| Frame::of(word.load(Relaxed))).collect();
        fence(Acquire);
        let same = slot[0].load(Relaxed) == number;
        same.then_some(Sample { periods, mode: Mode::of(mode), frames })
    }
}

impl Mode {
    /// As it is in a ring.
    pub fn word(self) -> u64 {
        match self {
            Mode::Kernel => 0,
            Mode::Linux => 1,
            Mode::Package => 2,
        }
    }

    /// What a word in a ring says.
    pub fn of(word: u64) -> Mode {
        match word {
            1 => Mode::Linux,
            2 => Mode::Package,
            _ => Mode::Kernel,
        }
    }
}

impl Frame {
    const KIND: u32 = 56;

    /// As it is in a ring.
    pub fn word(self) -> u64 {
        let (kind, at) = match self {
            Frame::Elsewhere => (0, 0),
            Frame::Program(at) => (1, at),
            Frame::Package(at) => (2, at as u64),
        };
        kind << Frame::KIND | at & ((1 << Frame::KIND) - 1)
    }

    /// What a word in a ring says.
    pub fn of(word: u64) -> Frame {
        let bits = u64::BITS - Frame::KIND;
        match word >> Frame::KIND {
            1 => Frame::Program(word << bits >> bits),
            2 => Frame::Package((word << bits) as i64 >> bits),
            _ => Frame::Elsewhere,
        }
    }
}

/// Bytes of what a frame pointer points to: the caller's frame pointer and the return address.
const PAIR: usize = 2 * size_of::<usize>();

/// The walk from one stack frame to the next, by frame pointers: the return addresses from the
/// frame at `frame` outward, as many as `into` has room for; gives how many there are. What was
/// interrupted may be anything: nothing that it left in a register or on its stack is believed, and
/// `pair` is asked for nothing that does not lie on `stack`, aligned. Each frame has to lie further
/// out than the one before, so that the walk ends whatever is there.
pub fn walk(
    frame: usize,
    stack: Range<usize>,
    into: &mut [usize],
    pair: impl Fn(usize) -> [usize; 2],
) -> usize {
    let (mut frame, mut lowest, mut found) = (frame, stack.start, 0);
    while found < into.len()
        && frame.is_multiple_of(align_of::<usize>())
        && frame >= lowest
        && frame.checked_add(PAIR).is_some_and(|end| end <= stack.end)
    {
        let [caller, address] = pair(frame);
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

    /// Where the stack of the tests is.
    const START: usize = 0x1000;

    /// Walks a stack whose frame pointers are numbers of its words, from word `first` on.
    fn walked(words: &[usize], first: usize, room: usize) -> Vec<usize> {
        let at = |word: usize| START.wrapping_add(word.wrapping_mul(size_of::<usize>()));
        let mut into = alloc::vec![0; room];
        let found = walk(at(first), START..at(words.len()), &mut into, |frame| {
            let word = (frame - START) / size_of::<usize>();
            [at(words[word]), words[word + 1]]
        });
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
        let end = START + 64;
        for frame in [START + 1, START + 4, end - 8, end - 15, START - 8, 0, usize::MAX - 7] {
            let found = walk(frame, START..end, &mut [0; 4], |_| panic!("{frame:#x} is read"));
            assert_eq!(found, 0, "{frame:#x}");
        }
    }
}
