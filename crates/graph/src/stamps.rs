//! Stamps in a row, packed: each is told by what differs from the one before it. Most edges come
//! from the same source as their neighbours, and where a source's clock goes with its events a
//! stamp takes five bytes in place of twenty-four.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::bytes::{Reader, put, put_step};
use crate::event::Stamp;

/// Stamps of a block, whose first one is told by itself, and blocks of a chunk.
const BLOCK: usize = 32;
const BLOCKS: usize = 32;
const CHUNK: usize = BLOCK * BLOCKS;

/// What a stamp may have of the one before it: the source; the time that its source's clock shows
/// beyond the event's number.
const SAME_SOURCE: u8 = 1;
const SAME_CLOCK: u8 = 2;

const NOTHING: Stamp = Stamp { time: 0, source: 0, sequence: 0 };

/// Blocks in a row, and where each begins. A stamp has 31 bytes at most.
struct Chunk {
    starts: [u16; BLOCKS],
    bytes: Box<[u8]>,
}

impl Chunk {
    fn of(stamps: &[Stamp]) -> Chunk {
        let (mut starts, mut bytes) = ([0; BLOCKS], Vec::new());
        for (block, start) in stamps.chunks(BLOCK).zip(&mut starts) {
            *start = bytes.len() as u16;
            let mut before = NOTHING;
            for stamp in block {
                put_after(&mut bytes, before, *stamp);
                before = *stamp;
            }
        }
        Chunk { starts, bytes: bytes.into() }
    }

    fn block(&self, block: usize) -> Block<'_> {
        let bytes = &self.bytes[usize::from(self.starts[block])..];
        Block { bytes: Reader(bytes), before: NOTHING, left: BLOCK }
    }
}

fn put_after(bytes: &mut Vec<u8>, before: Stamp, stamp: Stamp) {
    let is_source = stamp.source == before.source;
    let is_clock = stamp.clock() == before.clock();
    let source = if is_source { SAME_SOURCE } else { 0 };
    bytes.push(source | if is_clock { SAME_CLOCK } else { 0 });
    put_step(bytes, before.sequence, stamp.sequence);
    if !is_source {
        put(bytes, stamp.source);
    }
    if !is_clock {
        put_step(bytes, before.clock(), stamp.clock());
    }
}

/// What is left of a block.
struct Block<'a> {
    bytes: Reader<'a>,
    before: Stamp,
    left: usize,
}

impl Iterator for Block<'_> {
    type Item = Stamp;

    fn next(&mut self) -> Option<Stamp> {
        self.left = self.left.checked_sub(1)?;
        let (bytes, before) = (&mut self.bytes, self.before);
        let same = bytes.bytes(1).ok()?[0];
        let sequence = bytes.step(before.sequence).ok()?;
        let source = match same & SAME_SOURCE {
            0 => bytes.number().ok()?,
            _ => before.source,
        };
        let clock = match same & SAME_CLOCK {
            0 => bytes.step(before.clock()).ok()?,
            _ => before.clock(),
        };
        self.before = Stamp { time: clock.wrapping_add(sequence), source, sequence };
        Some(self.before)
    }
}

impl Stamp {
    /// What its time is beyond its number.
    fn clock(&self) -> u64 {
        self.time.wrapping_sub(self.sequence)
    }
}

/// Stamps in a row.
#[derive(Default)]
pub struct Stamps {
    full: Vec<Chunk>,
    /// Those behind them, fewer than a chunk has.
    last: Vec<Stamp>,
}

impl Stamps {
    /// How many are in chunks.
    fn full(&self) -> usize {
        self.full.len() * CHUNK
    }

    /// Adds one behind the last.
    pub fn push(&mut self, stamp: Stamp) {
        self.last.push(stamp);
        if self.last.len() == CHUNK {
            self.full.push(Chunk::of(&self.last));
            self.last.clear();
        }
    }

    /// The one at this place.
    pub fn get(&self, at: usize) -> Option<Stamp> {
        self.from(at).next()
    }

    /// Those from this place on.
    pub fn from(&self, at: usize) -> impl Iterator<Item = Stamp> {
        let full = self.full();
        let blocks = (at / BLOCK)..(full / BLOCK);
        let blocks = blocks.flat_map(|it| self.full[it / BLOCKS].block(it % BLOCKS));
        let (skipped, last) = if at < full { (at % BLOCK, 0) } else { (0, at - full) };
        blocks.skip(skipped).chain(self.last.iter().skip(last).copied())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stamps_come_back_from_any_place(
            drawn in prop::collection::vec(
                (0_u64..4, any::<u64>(), any::<u64>(), 0_u32..64),
                0..40,
            ),
            times in 1_usize..120,
        ) {
            let (mut all, mut packed) = (Vec::new(), Stamps::default());
            for time in 0..times as u64 {
                for (source, clock, sequence, shift) in &drawn {
                    let sequence = (sequence >> shift).wrapping_add(time);
                    let time = (clock >> shift).wrapping_add(sequence * (clock & 1));
                    all.push(Stamp { time, source: source << shift, sequence });
                }
            }
            all.iter().for_each(|stamp| packed.push(*stamp));
            for at in (0..all.len() + 2).step_by(1 + all.len() / 50) {
                prop_assert_eq!(packed.get(at), all.get(at).copied());
                let behind: Vec<Stamp> = packed.from(at).take(100).collect();
                let end = all.len().min(at + 100);
                prop_assert_eq!(&behind[..], all.get(at..end).unwrap_or(&[]));
            }
            prop_assert_eq!(packed.from(0).count(), all.len());
        }
    }

    #[test]
    fn a_source_whose_clock_goes_with_its_events_takes_five_bytes_each() {
        let mut packed = Stamps::default();
        for number in 0..CHUNK as u64 {
            let sequence = number * 1_000_003 % 4_000_000;
            packed.push(Stamp { time: 1_764_000_000_000_000 + sequence, source: 9, sequence });
        }
        let bytes = packed.full[0].bytes.len();
        assert!((4 * CHUNK..6 * CHUNK).contains(&bytes), "{bytes}");
    }
}
