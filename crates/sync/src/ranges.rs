//! Locks of ranges: of the bytes of a file, say, of which two cores may write disjoint ones at
//! once (FENCE, sections 5 and 6).
//!
//! * [`Ranges`] are one core's, who asks for others: an ordered list, no atomics.
//! * [`SharedRanges`] are words that several cores share. It is Lamport's bakery (1974) where only
//!   those wait for each other whose ranges overlap. A seat writes its own line alone, so what a
//!   core held when it died is nobody's to undo: a line of one who is gone counts for nothing.
//!
//! Both are fair: who asks waits for those who asked before, and for nobody else.

use alloc::collections::VecDeque;
use core::ops::Range;

use nile_ring::{LINE_BYTES, Line, Region};

use crate::seat::{Seat, Seats};
use crate::words::{fence, load, store};

/// Who else may have the same range at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Whoever wants it shared, too.
    Shared,
    /// Nobody.
    Exclusive,
}

fn conflict(a: (&Range<u64>, Sharing), b: (&Range<u64>, Sharing)) -> bool {
    let is_exclusive = a.1 == Sharing::Exclusive || b.1 == Sharing::Exclusive;
    is_exclusive && a.0.start < b.0.end && b.0.start < a.0.end
}

/// Names what was asked of [`Ranges`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ask(u64);

/// The ranges that the tasks of one core have, and wait for.
#[derive(Default, Debug)]
pub struct Ranges {
    /// In the order in which they were asked for.
    asked: VecDeque<(Ask, Range<u64>, Sharing)>,
    next: u64,
}

impl Ranges {
    /// Asks for a range, which is had as soon as [`Ranges::has`] says so.
    pub fn ask(&mut self, range: Range<u64>, sharing: Sharing) -> Ask {
        let ask = Ask(self.next);
        self.next += 1;
        self.asked.push_back((ask, range, sharing));
        ask
    }

    /// Whether this range is had: nobody who asked before, and has not ended it, is in its way.
    pub fn has(&self, ask: Ask) -> bool {
        let Ok(place) = self.place(ask) else { return false };
        let (_, range, sharing) = &self.asked[place];
        let mut before = self.asked.range(..place);
        !before.any(|(_, other, its)| conflict((range, *sharing), (other, *its)))
    }

    /// The range is had or waited for no more.
    pub fn end(&mut self, ask: Ask) {
        if let Ok(place) = self.place(ask) {
            self.asked.remove(place);
        }
    }

    fn place(&self, ask: Ask) -> Result<usize, usize> {
        self.asked.binary_search_by_key(&ask, |(it, ..)| *it)
    }
}

/// The ranges that seats have, one each at a time. Clones name the same.
///
/// ```text
/// a line a seat   word 0      chooses 1 | exclusive 1 | 0 30 | seat 32; zero for who has nothing
///                 words 1, 2  the range
///                 word 3      ticket
/// ```
#[derive(Clone, Debug)]
pub struct SharedRanges {
    region: Region,
    seats: Seats,
}

const CHOOSES: u64 = 1 << 63;
const EXCLUSIVE: u64 = 1 << 62;

impl SharedRanges {
    /// Bytes of the region for this many seats.
    pub const fn region_len(seats: usize) -> usize {
        seats * LINE_BYTES
    }

    /// The ranges in `region`, which is zeroed memory or holds ranges; `None` if it is too small
    /// for the seats.
    pub fn attach(region: Region, seats: Seats) -> Option<SharedRanges> {
        (region.lines().len() >= seats.len()).then_some(SharedRanges { region, seats })
    }

    fn line(&self, seat: Seat) -> &Line {
        &self.region.lines()[usize::from(seat.number)]
    }

    /// The words of the others who are there and want something.
    fn others(&self, me: Seat) -> impl Iterator<Item = (&Line, u64)> {
        let lines = self.region.lines().iter().enumerate();
        lines.filter(move |(number, _)| *number != usize::from(me.number)).filter_map(
            |(_, line)| {
                let word = load(&line[0]);
                let seat = Seat::of(word)?;
                (!self.seats.is_gone(seat)).then_some((line, word))
            },
        )
    }

    /// Asks for a range, which is had as soon as [`SharedRanges::has`] says so. A seat that asks
    /// again has no longer what it had.
    pub fn ask(&self, me: Seat, range: Range<u64>, sharing: Sharing) {
        let line = self.line(me);
        let mode = if sharing == Sharing::Exclusive { EXCLUSIVE } else { 0 };
        store(&line[0], CHOOSES | me.bits());
        store(&line[1], range.start);
        store(&line[2], range.end);
        fence();
        let latest = self.others(me).map(|(line, _)| load(&line[3])).max();
        store(&line[3], latest.unwrap_or(0) + 1);
        store(&line[0], mode | me.bits());
        fence();
    }

    /// Whether the range that was asked for is had. Never blocks.
    pub fn has(&self, me: Seat) -> bool {
        let mine = self.line(me);
        let wanted = |line: &Line, word| {
            let exclusive = word & EXCLUSIVE != 0;
            let sharing = if exclusive { Sharing::Exclusive } else { Sharing::Shared };
            (load(&line[3]), load(&line[1])..load(&line[2]), sharing)
        };
        let (ticket, range, sharing) = wanted(mine, load(&mine[0]));
        self.others(me).all(|(line, word)| {
            if word & CHOOSES != 0 {
                return false;
            }
            let (its, other, how) = wanted(line, word);
            // One that changes meanwhile has ended what it had, and what it asks for comes after.
            let is_before = (its, word as u32) < (ticket, me.bits() as u32);
            !is_before || !conflict((&range, sharing), (&other, how)) || load(&line[0]) != word
        })
    }

    /// The range is had no more.
    pub fn end(&self, me: Seat) {
        store(&self.line(me)[0], 0);
    }
}

#[cfg(test)]
mod tests;
