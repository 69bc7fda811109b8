//! One direction of a channel: packets one after the other, in a ring of words.
//!
//! ```text
//! line 0   word 0   bytes that were put in, by the sender
//! line 1   word 0   bytes that were taken out, by the receiver
//! then     a power of two of bytes: of each packet its length in a word, and its bytes, in whole
//!          words
//! ```
//!
//! Both counts only rise, and are multiples of a word. The sender's is stored after what it counts.

use core::ops::Range;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nile_ring::{LINE_BYTES, Region, Word};

/// The most bytes of a packet.
pub const MOST_PACKET: usize = 64 << 10;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

/// A ring of packets.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    counts: Region,
    words: Region,
}

/// There is less room than the packet takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Full;

/// Why no packet was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotTaken {
    /// There is none.
    Empty,
    /// The next one has so many bytes, and there is not so much room.
    Longer(usize),
    /// What is there was not written by a sender.
    Broken,
}

impl Line {
    /// The ring in a region of zeros; `None` if that is too small for any.
    pub fn attach(region: &Region) -> Option<Line> {
        let room = region.len().checked_sub(2 * LINE_BYTES).filter(|room| *room >= LINE_BYTES)?;
        Some(Line {
            counts: region.slice(0, 2 * LINE_BYTES)?,
            words: region.slice(2 * LINE_BYTES, 1 << room.ilog2())?,
        })
    }

    /// The most bytes that a packet can have.
    pub fn most(&self) -> usize {
        (self.words.len() - WORD).min(MOST_PACKET)
    }

    /// Forgets all packets. Nobody uses it.
    pub fn clear(&self) {
        [self.put(), self.taken()].into_iter().for_each(|count| count.store(0, Relaxed));
    }

    /// Puts a packet in, of [`Line::most`] bytes at most.
    #[inline]
    pub fn write(&self, packet: &[u8]) -> Result<(), Full> {
        let put = self.put().load(Relaxed);
        let used = put.wrapping_sub(self.taken().load(Acquire));
        let needed = WORD + packet.len().next_multiple_of(WORD);
        // A receiver that has taken more than there was leaves no room.
        let room = (self.words.len() as u64).saturating_sub(used);
        if (needed as u64) > room {
            return Err(Full);
        }
        let at = put / WORD as u64;
        self.word(at).store(packet.len() as u64, Relaxed);
        let (whole, rest) = packet.as_chunks::<WORD>();
        let [(front, its), (back, others)] = self.places(at + 1, whole.len());
        // Two slices each, so that a word costs no look at where the ring ends.
        let parts = [(front, &whole[its]), (back, &whole[others])];
        for (places, bytes) in parts {
            for (place, bytes) in places.iter().zip(bytes) {
                place.store(u64::from_le_bytes(*bytes), Relaxed);
            }
        }
        if !rest.is_empty() {
            let mut last = [0; WORD];
            last[..rest.len()].copy_from_slice(rest);
            self.word(at + 1 + whole.len() as u64).store(u64::from_le_bytes(last), Relaxed);
        }
        self.put().store(put.wrapping_add(needed as u64), Release);
        Ok(())
    }

    /// Takes the next packet out; its length.
    #[inline]
    pub fn read(&self, into: &mut [u8]) -> Result<usize, NotTaken> {
        let taken = self.taken().load(Relaxed);
        let there = self.put().load(Acquire).wrapping_sub(taken);
        if there == 0 {
            return Err(NotTaken::Empty);
        }
        let is_sound = there <= self.words.len() as u64 && there.is_multiple_of(WORD as u64);
        if !is_sound || !taken.is_multiple_of(WORD as u64) {
            return Err(NotTaken::Broken);
        }
        let at = taken / WORD as u64;
        let length = self.word(at).load(Relaxed);
        let length = usize::try_from(length).ok().filter(|it| *it <= self.most());
        let length = length.ok_or(NotTaken::Broken)?;
        let needed = WORD + length.next_multiple_of(WORD);
        if needed as u64 > there {
            return Err(NotTaken::Broken);
        }
        let packet = into.get_mut(..length).ok_or(NotTaken::Longer(length))?;
        let (whole, rest) = packet.as_chunks_mut::<WORD>();
        let end = at + 1 + whole.len() as u64;
        let [(front, its), (back, others)] = self.places(at + 1, whole.len());
        for (places, part) in [(front, its), (back, others)] {
            for (place, bytes) in places.iter().zip(&mut whole[part]) {
                *bytes = place.load(Relaxed).to_le_bytes();
            }
        }
        if !rest.is_empty() {
            let last = self.word(end).load(Relaxed).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
        self.taken().store(taken.wrapping_add(needed as u64), Release);
        Ok(length)
    }

    /// Whether there is a packet.
    pub fn has_any(&self) -> bool {
        self.put().load(Acquire) != self.taken().load(Relaxed)
    }

    fn put(&self) -> &Word {
        &self.counts.lines()[0][0]
    }

    fn taken(&self) -> &Word {
        &self.counts.lines()[1][0]
    }

    /// The places of `count` words from `place` on, and which of these words each part has: up to
    /// where the ring ends, and from where it begins.
    fn places(&self, place: u64, count: usize) -> [(&[Word], Range<usize>); 2] {
        let words = self.words.words();
        let start = place as usize & (words.len() - 1);
        let front = count.min(words.len() - start);
        [(&words[start..], 0..front), (words, front..count)]
    }

    fn word(&self, place: u64) -> &Word {
        let words = self.words.words();
        &words[place as usize & (words.len() - 1)]
    }
}
