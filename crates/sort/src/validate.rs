//! Whether records are in order, how many they are, and their checksum: TeraValidate's step.

use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::checksum::Checksum;
use crate::layout::Layout;

/// What is known of a stretch of records. Stretches that follow each other are put together by
/// [`Summary::then`], in any grouping.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// How many records there are.
    pub records: u64,
    /// Their checksum.
    pub checksum: Checksum,
    /// Records whose key is that of the record before them.
    pub duplicates: u64,
    /// Records whose key is less than that of the record before them.
    pub unordered: u64,
    /// The first of those, counted from the stretch's first record.
    pub first_unordered: Option<u64>,
    /// The keys of the first and the last record, as [`Layout::key`] gives them.
    pub keys: Option<(u128, u128)>,
}

impl Summary {
    /// Whether every record's key is at least that of the record before it.
    pub fn in_order(&self) -> bool {
        self.unordered == 0
    }

    /// The summary of this stretch and of the one that follows it.
    pub fn then(self, next: Summary) -> Summary {
        let (Some((first, before)), Some((after, last))) = (self.keys, next.keys) else {
            return if self.keys.is_some() { self } else { next };
        };
        let at_border = (after < before).then_some(self.records);
        let inside = next.first_unordered.map(|record| self.records.saturating_add(record));
        let add =
            |here: u64, there, border| here.saturating_add(there).saturating_add(border as u64);
        Summary {
            records: self.records.saturating_add(next.records),
            checksum: self.checksum + next.checksum,
            duplicates: add(self.duplicates, next.duplicates, after == before),
            unordered: add(self.unordered, next.unordered, at_border.is_some()),
            first_unordered: self.first_unordered.or(at_border).or(inside),
            keys: Some((first, last)),
        }
    }
}

/// Looks at a stretch of records that comes in pieces, which may cut records anywhere.
pub struct Validator<L> {
    summary: Summary,
    /// The beginning of a record of which the rest has not come yet.
    begun: Vec<u8>,
    layout: PhantomData<L>,
}

impl<L: Layout> Default for Validator<L> {
    fn default() -> Validator<L> {
        Validator::new()
    }
}

impl<L: Layout> Validator<L> {
    /// Nothing looked at yet.
    pub fn new() -> Validator<L> {
        Validator { summary: Summary::default(), begun: Vec::new(), layout: PhantomData }
    }

    /// Looks at the bytes that come next.
    pub fn push(&mut self, mut bytes: &[u8]) {
        if !self.begun.is_empty() {
            let missing = L::LENGTH - self.begun.len();
            let (rest, after) = bytes.split_at(missing.min(bytes.len()));
            self.begun.extend_from_slice(rest);
            if self.begun.len() < L::LENGTH {
                return;
            }
            let record = core::mem::take(&mut self.begun);
            self.record(&record);
            bytes = after;
        }
        let records = bytes.chunks_exact(L::LENGTH);
        self.begun.extend_from_slice(records.remainder());
        records.for_each(|record| self.record(record));
    }

    /// What is known of all that has come; an error, with the bytes of it that did come, if the
    /// last record is not whole.
    pub fn finish(self) -> Result<Summary, Cut> {
        match self.begun.len() {
            0 => Ok(self.summary),
            bytes => Err(Cut { records: self.summary.records, bytes }),
        }
    }

    #[inline]
    fn record(&mut self, record: &[u8]) {
        let key = L::key(record);
        let summary = &mut self.summary;
        let (first, before) = *summary.keys.get_or_insert((key, 0));
        if summary.records > 0 {
            summary.duplicates += u64::from(key == before);
            if key < before {
                summary.unordered += 1;
                summary.first_unordered.get_or_insert(summary.records);
            }
        }
        summary.records += 1;
        summary.checksum += Checksum::of(record);
        summary.keys = Some((first, key));
    }
}

/// Records end in the middle of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Whole records before it.
    pub records: u64,
    /// Bytes of it that are there.
    pub bytes: usize,
}

impl core::fmt::Display for Cut {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Cut { records, bytes } = self;
        write!(f, "after {records} whole records, {bytes} bytes are left of one that was cut off")
    }
}
