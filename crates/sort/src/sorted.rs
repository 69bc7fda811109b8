//! What follows the map tasks' step: one part's records of many blocks, in order, a bucket at a
//! time. A reduce task puts out its part so, and a map task runs of its own blocks.
//!
//! Each block's records of the part are grouped by ascending buckets ([`group`](crate::group)).
//! Blocks that follow one another and whose buckets ascend from one to the next are a *chain*, as
//! those are that were grouped together. A cursor goes through each chain: a bucket's records are
//! those before the first one that is of a later bucket. Their entries are sorted, and the records,
//! which have come into the cache with their keys, are copied in that order.

use alloc::vec::Vec;
use core::fmt;
use core::mem;

use crate::entry::{Entry, Position};
use crate::gather::{MOST, Place, gather};
use crate::layout::Layout;
use crate::order::Sorter;

/// Of a bucket that is too large to be sorted at once, entries that are looked at for each piece
/// that it is cut into.
const LOOKS: usize = 32;

/// Chains whose records are on their way while those of one are taken.
const AHEAD: usize = 16;

/// The most records of a chain that are brought ahead of time, and how many more these are than
/// buckets have on average: most buckets have no more.
const MOST_FETCHED: usize = 24;
const MORE_FETCHED: usize = 3;

/// The records of one part, in order.
pub struct Sorted<'a> {
    /// What each block has of the part.
    blocks: Vec<&'a [u8]>,
    /// For each chain, the block behind its last one, where the bucket that is taken begins, and
    /// where the next one does.
    chains: Vec<u32>,
    taken: Vec<Cursor>,
    next: Vec<Cursor>,
    /// Bytes of a chain that are brought ahead of time.
    fetched: usize,
    /// The least first eight bytes of a key of each bucket that is left, the next one last.
    starts: Vec<u64>,
    /// Where the bucket that is taken begins.
    start: u64,
    /// Where the remaining ranges of a large bucket end, the next one last, and where that one
    /// begins.
    ends: Vec<Entry>,
    from: Entry,
    /// What is sorted, and how much of it [`Sorted::fill`] has copied.
    run: Vec<Entry>,
    copied: usize,
    sorter: Sorter,
    most: usize,
}

/// A place in a chain: a block, and a record's first byte in it or the block's end.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    block: u32,
    at: u32,
}

/// Why a part cannot be put out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// There are more blocks, or more records in one, than places can name.
    TooMany,
    /// The records are not grouped as a map task leaves them.
    Damaged,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::TooMany => write!(f, "more than {MOST} blocks, or records in one"),
            Failure::Damaged => {
                f.write_str("records from a map task are damaged: run the task again")
            }
        }
    }
}

impl<'a> Sorted<'a> {
    /// What blocks have of some buckets, which begin at `starts` ([`Plan::starts`]) by the plan
    /// that they are grouped by; what follows a block's last whole record is not looked at. It
    /// takes memory for about twice `most` entries, at least 64: buckets with more are sorted in
    /// several runs, each of which goes through the whole bucket. Of records with equal keys,
    /// those of the earlier block come first, and of one block those that come first there.
    ///
    /// [`Plan::starts`]: crate::Plan::starts
    pub fn new<L: Layout>(
        blocks: Vec<&'a [u8]>,
        starts: impl Iterator<Item = u64>,
        most: usize,
    ) -> Result<Sorted<'a>, Failure> {
        let too_many =
            |block: &&[u8]| block.len() / L::LENGTH > MOST || u32::try_from(block.len()).is_err();
        if blocks.len() > MOST || blocks.iter().any(too_many) {
            return Err(Failure::TooMany);
        }
        let mut starts: Vec<u64> = starts.collect();
        let (mut chains, mut taken) = (Vec::new(), Vec::new());
        let mut before: &[u8] = &[];
        for (block, bytes) in (0..).zip(&blocks) {
            if bytes.len() >= L::LENGTH {
                if before.is_empty() || !ascend::<L>(before, bytes, &starts) {
                    taken.push(Cursor { block, at: 0 });
                    chains.push(block);
                }
                before = bytes;
            }
            // Blocks without records are of the chain before them.
            if let Some(end) = chains.last_mut() {
                *end = block + 1;
            }
        }
        starts.reverse();
        let bytes: usize = blocks.iter().map(|block| block.len()).sum();
        let average = bytes / (chains.len() * starts.len()).max(1) / L::LENGTH;
        Ok(Sorted {
            fetched: (average + MORE_FETCHED).min(MOST_FETCHED) * L::LENGTH,
            next: taken.clone(),
            taken,
            chains,
            blocks,
            starts,
            start: 0,
            ends: Vec::new(),
            from: Entry::LEAST,
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
            let copied = gather::<L>(&self.run[self.copied..], &self.blocks, rest);
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
                Some(end) => self.take_range::<L>(end),
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
        // No key is less than the first bucket's.
        let last = self.starts.last().map_or(u64::MAX, |next| next.saturating_sub(1));
        mem::swap(&mut self.taken, &mut self.next);
        let mut total = 0;
        for (chain, end) in self.chains.iter().enumerate() {
            if let Some(later) = self.taken.get(chain + AHEAD) {
                let bytes = self.blocks[later.block as usize];
                let from = later.at as usize;
                let to = bytes.len().min(from + self.fetched);
                L::prefetch_all(&bytes[from..to]);
            }
            let mut cursor = self.taken[chain];
            loop {
                let block = cursor.block as usize;
                let mut is_later = false;
                for record in self.blocks[block][cursor.at as usize..].chunks_exact(L::LENGTH) {
                    let place = Place { block, record: cursor.at as usize / L::LENGTH };
                    let entry = Entry::new::<L>(record, place.position());
                    if entry.prefix() > last {
                        is_later = true;
                        break;
                    }
                    cursor.at += L::LENGTH as u32;
                    total += 1;
                    if total <= self.most {
                        self.run.push(entry);
                    }
                }
                if is_later || cursor.block + 1 == *end {
                    break;
                }
                cursor = Cursor { block: cursor.block + 1, at: 0 };
            }
            self.next[chain] = cursor;
        }
        if total > self.most {
            self.run.clear();
            self.divide::<L>(total);
        }
    }

    /// Divides a bucket of `count` entries into ranges of about half of what may be sorted at
    /// once.
    fn divide<L: Layout>(&mut self, count: usize) {
        let ranges = count.div_ceil(self.most / 2);
        let step = (count / (ranges * LOOKS)).max(1);
        let mut looked: Vec<Entry> = self.bucket::<L>().step_by(step).collect();
        looked.sort_unstable();
        self.ends = (1..ranges).rev().map(|end| looked[end * looked.len() / ranges]).collect();
        self.ends.insert(0, Entry::GREATEST);
        self.from = Entry::LEAST;
    }

    /// Takes the entries of a large bucket up to `end`.
    fn take_range<L: Layout>(&mut self, end: Entry) {
        // The last range has the greatest of all, too.
        let (from, is_last) = (self.from, self.ends.is_empty());
        let is_in = |entry: &Entry| from <= *entry && (is_last || *entry < end);
        let mut run = mem::take(&mut self.run);
        run.extend(self.bucket::<L>().filter(is_in));
        self.run = run;
        self.from = end;
    }

    /// The entries of the bucket that is taken.
    fn bucket<L: Layout>(&self) -> impl Iterator<Item = Entry> {
        self.taken.iter().zip(&self.next).flat_map(move |(from, to)| {
            (from.block..=to.block).flat_map(move |block| {
                let bytes = self.blocks[block as usize];
                let start = if block == from.block { from.at as usize } else { 0 };
                let end = if block == to.block { to.at as usize } else { bytes.len() };
                let records = (start / L::LENGTH..).zip(bytes[start..end].chunks_exact(L::LENGTH));
                records.map(move |(record, bytes)| {
                    Entry::new::<L>(bytes, Place { block: block as usize, record }.position())
                })
            })
        })
    }
}

/// Whether the first record of a block is of the last one's bucket in the block before it, or of a
/// later one. `starts` ascend. Both blocks have a record.
fn ascend<L: Layout>(before: &[u8], bytes: &[u8], starts: &[u64]) -> bool {
    let bucket = |record: &[u8]| {
        let prefix = Entry::new::<L>(record, Position(0)).prefix();
        starts.partition_point(|start| *start <= prefix)
    };
    let last = (before.len() / L::LENGTH - 1) * L::LENGTH;
    bucket(&before[last..]) <= bucket(bytes)
}
