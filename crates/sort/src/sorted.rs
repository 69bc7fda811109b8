//! A reduce task's step: its part of every map task's entries, in order, a bucket at a time.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use crate::entry::Entry;
use crate::gather::{Missing, Records, gather};
use crate::layout::Layout;
use crate::order;
use crate::scatter::{Damaged, Part};

/// Of a bucket that is too large to be sorted at once, entries that are looked at for each piece
/// that it is cut into.
const LOOKS: usize = 32;

/// The entries of one part, in order.
pub struct Sorted<P> {
    parts: Vec<Part<P>>,
    buckets: usize,
    /// The bucket that comes next, or whose ranges are not all done.
    bucket: usize,
    /// Where the remaining ranges of a large bucket end, the next one last.
    ends: Vec<Entry>,
    /// Where that range begins.
    start: Entry,
    /// What is sorted, and how much of it [`Sorted::fill`] has copied.
    run: Vec<Entry>,
    copied: usize,
    /// Memory for sorting.
    spare: Vec<Entry>,
    most: usize,
}

/// Why a part cannot be put out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Its entries are not what a map task leaves.
    Damaged(Damaged),
    /// A record that an entry names is not there.
    Missing(Missing),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Damaged(damaged) => damaged.fmt(f),
            Failure::Missing(missing) => missing.fmt(f),
        }
    }
}

impl<P: Deref<Target = [u8]>> Sorted<P> {
    /// The part that `parts` are, one from each map task, all by one plan. It takes memory for
    /// about twice `most` entries, at least 64: buckets with more are sorted in several runs,
    /// each of which goes through the whole bucket.
    pub fn new(parts: Vec<Part<P>>, most: usize) -> Sorted<P> {
        let buckets = parts.iter().map(Part::buckets).max().unwrap_or(0);
        Sorted {
            parts,
            buckets,
            bucket: 0,
            ends: Vec::new(),
            start: Entry::LEAST,
            run: Vec::new(),
            copied: 0,
            spare: Vec::new(),
            most: most.max(64),
        }
    }

    /// The entries that come next, in order; `None` after the last.
    pub fn run(&mut self) -> Result<Option<&[Entry]>, Damaged> {
        self.advance()?;
        self.copied = self.run.len();
        Ok((!self.run.is_empty()).then_some(&self.run))
    }

    /// Copies the records that come next into `out`, as many as fit, and gives how many these
    /// are: none after the last, or if not one fits.
    pub fn fill<L: Layout>(
        &mut self,
        records: &impl Records,
        out: &mut [u8],
    ) -> Result<usize, Failure> {
        let mut filled = 0;
        loop {
            let rest = &mut out[filled * L::LENGTH..];
            let copied = gather::<L, _>(&self.run[self.copied..], records, rest)
                .map_err(Failure::Missing)?;
            filled += copied;
            self.copied += copied;
            if self.copied < self.run.len() {
                return Ok(filled);
            }
            self.advance().map_err(Failure::Damaged)?;
            if self.run.is_empty() {
                return Ok(filled);
            }
        }
    }

    /// Gives the memory of its entries back.
    pub fn into_parts(self) -> Vec<Part<P>> {
        self.parts
    }

    /// Puts what comes next into `run`: nothing after the last.
    fn advance(&mut self) -> Result<(), Damaged> {
        self.run.clear();
        self.copied = 0;
        while self.run.is_empty() && self.bucket < self.buckets {
            match self.ends.pop() {
                Some(end) => self.take_range(end)?,
                None => self.take_bucket()?,
            }
        }
        order::sort(&mut self.run, &mut self.spare);
        Ok(())
    }

    /// Takes the next bucket, or, of a large one, decides on its ranges.
    fn take_bucket(&mut self) -> Result<(), Damaged> {
        let mut count = 0;
        for part in &self.parts {
            count += part.count(self.bucket)?;
        }
        if count > self.most {
            return self.divide(count);
        }
        self.run.reserve(count);
        for part in &self.parts {
            part.bucket(self.bucket, |entries| {
                self.run.extend(entries.iter().map(|bytes| Entry::from_bytes(*bytes)));
            })?;
        }
        self.bucket += 1;
        Ok(())
    }

    /// Divides a bucket of `count` entries into ranges of about half of what may be sorted at
    /// once.
    fn divide(&mut self, count: usize) -> Result<(), Damaged> {
        let ranges = count.div_ceil(self.most / 2);
        let step = (count / (ranges * LOOKS)).max(1);
        let mut looked = Vec::new();
        let mut index = 0;
        for part in &self.parts {
            part.bucket(self.bucket, |entries| {
                let ahead = (step - index % step) % step;
                let chosen = entries.iter().skip(ahead).step_by(step);
                looked.extend(chosen.map(|bytes| Entry::from_bytes(*bytes)));
                index += entries.len();
            })?;
        }
        looked.sort_unstable();
        self.ends = (1..ranges).rev().map(|end| looked[end * looked.len() / ranges]).collect();
        self.ends.insert(0, Entry::GREATEST);
        self.start = Entry::LEAST;
        Ok(())
    }

    /// Takes the entries of a large bucket up to `end`.
    fn take_range(&mut self, end: Entry) -> Result<(), Damaged> {
        // No key is as great as the last end: its position would be above all that there are.
        let range = self.start..end;
        for part in &self.parts {
            part.bucket(self.bucket, |entries| {
                let entries = entries.iter().map(|bytes| Entry::from_bytes(*bytes));
                self.run.extend(entries.filter(|entry| range.contains(entry)));
            })?;
        }
        self.start = end;
        if self.ends.is_empty() {
            self.bucket += 1;
        }
        Ok(())
    }
}
