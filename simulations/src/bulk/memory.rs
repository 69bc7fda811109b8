//! What transfers send and receive. A byte's value follows from its transfer and its place, so
//! that nothing has to be kept, and everything that is written can be checked at once.

use std::collections::BTreeMap;

use nile_bulk::{Gone, IncomingId, Memory, OutgoingId};

/// The memory of one node's incarnation.
#[derive(Default)]
pub struct Pattern {
    /// What it sends: the seed of each transfer's bytes.
    pub sent: BTreeMap<OutgoingId, u64>,
    /// What it receives.
    pub received: BTreeMap<IncomingId, Received>,
    /// The first thing that was wrong.
    pub wrong: Option<String>,
}

/// A transfer that is being received.
#[derive(Default)]
pub struct Received {
    /// The seed of its bytes.
    pub seed: u64,
    /// The bytes it has, if that is known.
    pub total: Option<u64>,
    /// The ranges that were written, by their starts.
    ranges: BTreeMap<u64, u64>,
    /// Bytes that were written.
    pub bytes: u64,
}

impl Received {
    /// A transfer of which nothing has come.
    pub fn new(seed: u64, total: Option<u64>) -> Received {
        Received { seed, total, ..Received::default() }
    }

    /// Notes that a range was written; `false` if some of it was written before.
    fn note(&mut self, start: u64, end: u64) -> bool {
        let before = self.ranges.range(..end).next_back().map(|(start, end)| (*start, *end));
        if before.is_some_and(|(_, last)| last > start) {
            return false;
        }
        self.bytes += end - start;
        // Neighbours are joined, so that little is kept.
        let after = self.ranges.remove(&end).unwrap_or(end);
        match before.filter(|(_, last)| *last == start) {
            Some((first, _)) => self.ranges.insert(first, after),
            None => self.ranges.insert(start, after),
        };
        true
    }
}

impl Memory for Pattern {
    fn read(&mut self, transfer: OutgoingId, offset: u64, into: &mut [u8]) -> Result<(), Gone> {
        let seed = *self.sent.get(&transfer).ok_or(Gone)?;
        for (word, at) in into.chunks_mut(8).zip((offset..).step_by(8)) {
            word.copy_from_slice(&pattern(seed, at)[..word.len()]);
        }
        Ok(())
    }

    fn write(&mut self, transfer: IncomingId, offset: u64, bytes: &[u8]) -> Result<(), Gone> {
        let Some(received) = self.received.get_mut(&transfer) else {
            self.wrong.get_or_insert(format!("{transfer:?} was written and never accepted"));
            return Err(Gone);
        };
        let end = offset + bytes.len() as u64;
        if received.total.is_some_and(|total| end > total) {
            self.wrong.get_or_insert(format!("{transfer:?} was written beyond its end: {end}"));
        }
        if !received.note(offset, end) {
            self.wrong.get_or_insert(format!("bytes of {transfer:?} at {offset} came twice"));
        }
        let mut words = bytes.chunks(8).zip((offset..).step_by(8));
        if !words.all(|(word, at)| *word == pattern(received.seed, at)[..word.len()]) {
            self.wrong.get_or_insert(format!("bytes of {transfer:?} at {offset} are wrong"));
        }
        Ok(())
    }
}

/// The eight bytes at a place. Blocks of all sizes begin at a word of their own: the place is
/// that of the first byte, whatever it is.
fn pattern(seed: u64, at: u64) -> [u8; 8] {
    let word = seed.wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (word ^ word >> 31).to_le_bytes()
}
