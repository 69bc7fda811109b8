//! What follows the map tasks' step: one part's entries of many blocks, in order, a bucket at a
//! time. A reduce task puts out its part so, and a map task runs of its own blocks.
//!
//! Each block's entries of the part are grouped by ascending buckets ([`index`](crate::index)). A
//! cursor goes through each block: a bucket's entries are those before the first one that is of a
//! later bucket.

use alloc::vec::Vec;
use core::fmt;

use crate::entry::Entry;
use crate::gather::{MOST, Missing, Place, gather};
use crate::layout::Layout;
use crate::order::Sorter;

/// Of a bucket that is too large to be sorted at once, entries that are looked at for each piece
/// that it is cut into.
const LOOKS: usize = 32;

/// Blocks whose entries are on their way while those of one are taken.
const AHEAD: usize = 16;

/// Bytes of a cache line.
const LINE: usize = 64;

/// One part's records of a block.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// The block's records, of this part and others.
    pub records: &'a [u8],
    /// The entries of those of this part, grouped by bucket.
    pub entries: &'a [u8],
}

/// The records of one part, in order.
pub struct Sorted<'a> {
    /// The records of each block, and what comes next of its entries.
    records: Vec<&'a [u8]>,
    cursors: Vec<Cursor<'a>>,
    /// The least first eight bytes of a key of each bucket that is left, the next one last.
    starts: Vec<u64>,
    /// Where the bucket that is taken begins.
    start: u64,
    /// Where the remaining ranges of a large bucket end, the next one last, where that one begins,
    /// and how many entries each block has of the bucket.
    ends: Vec<Entry>,
    from: Entry,
    counts: Vec<u32>,
    /// What is sorted, and how much of it [`Sorted::fill`] has copied.
    run: Vec<Entry>,
    copied: usize,
    sorter: Sorter,
    most: usize,
}

/// What comes next of a block's entries.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    entries: &'a [[u8; Entry::PACKED]],
    block: usize,
}

/// Why a part cannot be put out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// There are more blocks, or more entries in one, than places can name.
    TooMany,
    /// The entries are not what a map task leaves.
    Damaged,
    /// A record that an entry names is not there.
    Missing(Missing),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::TooMany => write!(f, "more than {MOST} blocks, or records in one"),
            Failure::Damaged => {
                f.write_str("entries from a map task are damaged: run the task again")
            }
            Failure::Missing(missing) => missing.fmt(f),
        }
    }
}

impl<'a> Sorted<'a> {
    /// What blocks have of some buckets, which begin at `starts` ([`Plan::starts`]) by the plan of
    /// their entries. It takes memory for about twice `most` entries, at least 64: buckets with
    /// more are sorted in several runs, each of which goes through the whole bucket. Of records
    /// with equal keys, those of the earlier block come first, and of one block those of the lower
    /// positions.
    ///
    /// [`Plan::starts`]: crate::Plan::starts
    pub fn new(
        blocks: Vec<Block<'a>>,
        starts: impl Iterator<Item = u64>,
        most: usize,
    ) -> Result<Sorted<'a>, Failure> {
        if blocks.len() > MOST || blocks.iter().any(|it| it.entries.len() / Entry::PACKED > MOST) {
            return Err(Failure::TooMany);
        }
        let cursor =
            |(block, it): (usize, &Block<'a>)| Cursor { entries: it.entries.as_chunks().0, block };
        let mut starts: Vec<u64> = starts.collect();
        starts.reverse();
        Ok(Sorted {
            cursors: blocks.iter().enumerate().map(cursor).collect(),
            records: blocks.iter().map(|block| block.records).collect(),
            starts,
            start: 0,
            ends: Vec::new(),
            from: Entry::LEAST,
            counts: Vec::new(),
            run: Vec::new(),
            copied: 0,
            sorter: Sorter::default(),
            most: most.max(64),
        })
    }

    /// Copies the records that come next into `out`, as many as fit, and gives how many these
    /// are: none after the last, or if not one fits.
    pub fn fill<L: Layout>(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        let mut filled = 0;
        loop {
            let rest = &mut out[filled * L::LENGTH..];
            let copied = gather::<L>(&self.run[self.copied..], &self.records, rest)
                .map_err(Failure::Missing)?;
            filled += copied;
            self.copied += copied;
            if self.copied < self.run.len() {
                return Ok(filled);
            }
            self.advance::<L>()?;
            if self.run.is_empty() {
                return Ok(filled);
            }
        }
    }

    /// Puts what comes next into `run`: nothing after the last.
    fn advance<L: Layout>(&mut self) -> Result<(), Failure> {
        self.run.clear();
        self.copied = 0;
        while self.run.is_empty() {
            match self.ends.pop() {
                Some(end) => self.take_range(end),
                None if self.starts.is_empty() => return Ok(()),
                None => self.take_bucket::<L>(),
            }
        }
        self.sorter.sort(&mut self.run);
        // The first bucket of a part has what comes before it, too.
        let is_late = self.run.first().is_some_and(|first| first.prefix() < self.start);
        if is_late { Err(Failure::Damaged) } else { Ok(()) }
    }

    /// Takes the next bucket, or, of a large one, decides on its ranges.
    fn take_bucket<L: Layout>(&mut self) {
        self.start = self.starts.pop().unwrap_or(0);
        let next = self.starts.last().copied();
        self.counts.clear();
        let mut total = 0;
        for (at, cursor) in self.cursors.iter().enumerate() {
            if let Some(later) = self.cursors.get(at + AHEAD) {
                later.fetch::<L>();
            }
            let count = cursor.before(next);
            self.counts.push(count as u32);
            total += count;
        }
        if total > self.most {
            return self.divide(total);
        }
        self.run.reserve(total);
        for (cursor, count) in self.cursors.iter_mut().zip(&self.counts) {
            self.run.extend(cursor.next(*count));
            cursor.skip(*count);
        }
    }

    /// Divides a bucket of `count` entries into ranges of about half of what may be sorted at
    /// once.
    fn divide(&mut self, count: usize) {
        let ranges = count.div_ceil(self.most / 2);
        let step = (count / (ranges * LOOKS)).max(1);
        let entries = self.cursors.iter().zip(&self.counts);
        let entries = entries.flat_map(|(cursor, count)| cursor.next(*count));
        let mut looked: Vec<Entry> = entries.step_by(step).collect();
        looked.sort_unstable();
        self.ends = (1..ranges).rev().map(|end| looked[end * looked.len() / ranges]).collect();
        self.ends.insert(0, Entry::GREATEST);
        self.from = Entry::LEAST;
    }

    /// Takes the entries of a large bucket up to `end`.
    fn take_range(&mut self, end: Entry) {
        // The last range has the greatest of all, too.
        let is_last = self.ends.is_empty();
        let from = self.from;
        for (cursor, count) in self.cursors.iter_mut().zip(&self.counts) {
            let is_in = |entry: &Entry| from <= *entry && (is_last || *entry < end);
            self.run.extend(cursor.next(*count).filter(is_in));
            if is_last {
                cursor.skip(*count);
            }
        }
        self.from = end;
    }
}

impl<'a> Cursor<'a> {
    /// Has the lines brought that the next bucket's entries are in, most of the time.
    #[inline(always)]
    fn fetch<L: Layout>(&self) {
        const LINES: usize = 3;
        let lines = self.entries.chunks(LINE / Entry::PACKED).take(LINES);
        lines.flat_map(|line| line.first()?.first()).for_each(L::prefetch);
    }

    /// How many entries come before the first one that is of the bucket at `next`, or of one
    /// behind that; all if there is no such bucket.
    #[inline(always)]
    fn before(&self, next: Option<u64>) -> usize {
        let Some(next) = next else { return self.entries.len() };
        let is_later = |bytes: &[u8; Entry::PACKED]| Entry::packed_prefix(bytes) >= next;
        self.entries.iter().position(is_later).unwrap_or(self.entries.len())
    }

    /// The next entries, with places for positions.
    #[inline(always)]
    fn next(&self, count: u32) -> impl Iterator<Item = Entry> + use<'a> {
        let block = self.block;
        let entries = &self.entries[..(count as usize).min(self.entries.len())];
        entries.iter().map(move |bytes| {
            let entry = Entry::unpack(bytes);
            let record = entry.position().0 as usize;
            entry.at(Place { block, record }.position())
        })
    }

    fn skip(&mut self, count: u32) {
        self.entries = &self.entries[(count as usize).min(self.entries.len())..];
    }
}
