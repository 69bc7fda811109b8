//! Pieces of a loop, distributed among cores without a lock: what is left of FLsched where no
//! core takes tasks from another (FENCE, section 3).
//!
//! ```text
//! line 0             word 0   the loop's mark: 0 24 | pieces 24 | epoch 16
//! a line a worker    word 0   what it has: begin 24 | end 24 | epoch 16
//!                    word 1   what it is about: the same
//! then               words    which pieces are done: 48 bits | epoch 16
//! ```
//!
//! A worker takes pieces from the front of its range. When that is empty it takes the rear half of
//! another's. Before either it notes in its second word what it is about, so that what a core held
//! when it died can be done by another: without a death each piece is given out once, after one
//! perhaps twice. The epoch makes ranges of an earlier loop worthless; it returns after 65,536
//! loops. A loop is done when all of its pieces are, so the order of looking at words of different
//! workers does not matter.

use nile_ring::{LINE_BYTES, Region, Word};

use crate::seat::{Seat, Seats};
use crate::words::{exchange, load, store};

/// The most pieces of a loop.
pub const MOST_PIECES: u32 = (1 << 24) - 1;

/// Pieces whose ends one word tells.
const DONE_BITS: u32 = 48;

/// Why a loop cannot begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotBegun {
    /// The last loop has pieces that are not done.
    Unfinished,
    /// The region has room for fewer pieces.
    TooMany,
}

/// A piece of a loop, which somebody has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "the loop ends when every piece is finished"]
pub struct Piece {
    /// Which of the loop's.
    pub number: u32,
    epoch: u16,
}

/// Pieces, from one up to another, of the loop with an epoch.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    begin: u32,
    end: u32,
    epoch: u16,
}

impl Range {
    fn pack(self) -> u64 {
        u64::from(self.begin) << 40 | u64::from(self.end) << 16 | u64::from(self.epoch)
    }

    fn load(word: &Word) -> Range {
        let value = load(word);
        Range {
            begin: (value >> 40) as u32,
            end: (value >> 16) as u32 & MOST_PIECES,
            epoch: value as u16,
        }
    }

    fn is_empty(self) -> bool {
        self.begin >= self.end
    }
}

/// One loop after the other, for the workers who have seats. Clones name the same.
#[derive(Clone, Debug)]
pub struct Spread {
    region: Region,
    seats: Seats,
}

impl Spread {
    /// Bytes of the region for so many workers and pieces.
    pub const fn region_len(workers: usize, pieces: u32) -> usize {
        let words = pieces.div_ceil(DONE_BITS) as usize;
        (1 + workers) * LINE_BYTES + (words * 8).next_multiple_of(LINE_BYTES)
    }

    /// The loop in `region`, which is zeroed memory or holds one; `None` if it is too small for
    /// a worker for each seat.
    pub fn attach(region: Region, seats: Seats) -> Option<Spread> {
        let has_room = region.lines().len() > seats.len() && seats.len() <= usize::from(u16::MAX);
        has_room.then_some(Spread { region, seats })
    }

    fn mark(&self) -> &Word {
        &self.region.lines()[0][0]
    }

    /// The words of a worker: what it has, and what it is about.
    fn worker(&self, number: u16) -> (&Word, &Word) {
        let line = &self.region.lines()[1 + usize::from(number)];
        (&line[0], &line[1])
    }

    fn done(&self) -> &[Word] {
        self.region.lines()[1 + self.seats.len()..].as_flattened()
    }

    fn workers(&self) -> impl Iterator<Item = u16> {
        0..self.seats.len() as u16
    }

    /// Begins a loop of so many pieces, divided evenly among those who are there. One core calls
    /// this at a time; one that died in it is followed by another that does.
    pub fn begin(&self, pieces: u32) -> Result<(), NotBegun> {
        if pieces > MOST_PIECES || pieces.div_ceil(DONE_BITS) as usize > self.done().len() {
            return Err(NotBegun::TooMany);
        }
        if !self.is_done() {
            return Err(NotBegun::Unfinished);
        }
        let epoch = Range::load(self.mark()).epoch.wrapping_add(1);
        let present = self.workers().filter(|number| !self.seats.is_vacant(*number)).count();
        let mut place = 0;
        for number in self.workers() {
            let (has, about) = self.worker(number);
            let mut mine = Range { begin: 0, end: 0, epoch };
            if !self.seats.is_vacant(number) || present == 0 && number == 0 {
                let of = present.max(1) as u64;
                mine.begin = (u64::from(pieces) * place / of) as u32;
                place += 1;
                mine.end = (u64::from(pieces) * place / of) as u32;
            }
            store(about, 0);
            store(has, mine.pack());
        }
        store(self.mark(), Range { begin: 0, end: pieces, epoch }.pack());
        Ok(())
    }

    /// The next piece for this worker, which it ends with [`Spread::finish`] before it takes
    /// another. `None` if there is none to be had now: others may still be at theirs.
    #[inline]
    pub fn take(&self, me: Seat) -> Option<Piece> {
        let epoch = Range::load(self.mark()).epoch;
        let (has, about) = self.worker(me.number);
        // All of it is done, unless a former life left it.
        let held = Range::load(about);
        if held.epoch == epoch {
            let mut pieces = (held.begin..held.end).map(|number| Piece { number, epoch });
            if let Some(piece) = pieces.find(|piece| !self.is_piece_done(*piece)) {
                return Some(piece);
            }
        }
        loop {
            let mine = Range::load(has);
            if mine.epoch != epoch {
                return None;
            }
            if mine.is_empty() {
                if !self.fetch(me, mine) {
                    return None;
                }
                continue;
            }
            let next = Range { begin: mine.begin + 1, ..mine };
            let piece = Piece { number: mine.begin, epoch };
            store(about, Range { end: next.begin, ..mine }.pack());
            if exchange(has, mine.pack(), next.pack()).is_ok() && !self.is_piece_done(piece) {
                // The loop has not ended meanwhile, in which case the piece would be done.
                return (Range::load(self.mark()).epoch == epoch).then_some(piece);
            }
        }
    }

    /// A piece is done, by whoever took it.
    #[inline]
    pub fn finish(&self, piece: Piece) {
        let epoch = u64::from(piece.epoch);
        let Some(word) = self.done().get((piece.number / DONE_BITS) as usize) else { return };
        let bit = 1 << (16 + piece.number % DONE_BITS);
        let mut old = load(word);
        // The loop of a piece that was given out twice may have ended.
        while old & 0xffff == epoch || Range::load(self.mark()).epoch == piece.epoch {
            let bits = if old & 0xffff == epoch { old } else { epoch };
            match exchange(word, old, bits | bit) {
                Ok(_) => return,
                Err(now) => old = now,
            }
        }
    }

    fn is_piece_done(&self, piece: Piece) -> bool {
        let word = self.done().get((piece.number / DONE_BITS) as usize).map_or(0, load);
        let bit = word >> (16 + piece.number % DONE_BITS) & 1;
        word & 0xffff == u64::from(piece.epoch) && bit == 1
    }

    /// Whether every piece of the loop is done.
    pub fn is_done(&self) -> bool {
        let Range { end: pieces, epoch, .. } = Range::load(self.mark());
        self.done().iter().zip((0..pieces).step_by(DONE_BITS as usize)).all(|(word, first)| {
            let all = u64::MAX >> (64 - (pieces - first).min(DONE_BITS)) << 16;
            load(word) == all | u64::from(epoch)
        })
    }

    /// Gives a worker whose range is empty the rear half of another's, or what one who is gone was
    /// about. `false` if nobody has anything.
    #[cold]
    fn fetch(&self, me: Seat, empty: Range) -> bool {
        let (has, about) = self.worker(me.number);
        let others = || {
            let count = self.seats.len();
            (1..count).map(move |step| ((usize::from(me.number) + step) % count) as u16)
        };
        let takes_over = |from: &Word, old: Range, left: Range, taken: Range| {
            store(about, taken.pack());
            if exchange(from, old.pack(), left.pack()).is_err() {
                return false;
            }
            // A loop that has begun meanwhile has put another range here.
            let _ = exchange(has, empty.pack(), taken.pack());
            true
        };
        let mut is_contended = true;
        while is_contended {
            is_contended = false;
            for other in others() {
                let (its, its_about) = self.worker(other);
                let old = Range::load(its);
                if old.epoch == empty.epoch && !old.is_empty() {
                    let middle = old.begin + (old.end - old.begin) / 2;
                    let left = Range { end: middle, ..old };
                    if takes_over(its, old, left, Range { begin: middle, ..old }) {
                        return true;
                    }
                    is_contended = true;
                }
                let old = Range::load(its_about);
                if old.epoch == empty.epoch && !old.is_empty() && self.seats.is_vacant(other) {
                    if takes_over(its_about, old, empty, old) {
                        return true;
                    }
                    is_contended = true;
                }
            }
        }
        store(about, 0);
        false
    }
}

#[cfg(test)]
mod tests;
