//! Which parts of a set of address ranges are free. The bookkeeping is elsewhere, not in the
//! ranges: it needs no access to them, and what is written there cannot damage it.

use alloc::collections::{BTreeMap, BTreeSet};

/// Lengths and addresses are multiples of this, so that small pieces do not shatter the rest.
pub const UNIT: u64 = 16;

/// What a request can fail with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeError {
    /// No free piece is long enough.
    Full,
    /// The alignment is not a power of two.
    Align,
    /// Nothing is allocated there.
    NotAllocated,
    /// A range to be added is in the set already.
    Overlap,
    /// A range to be added has no whole unit, or ends beyond all addresses.
    NoRange,
}

/// A set of ranges, each piece of it free or allocated. Pieces are told apart by where they begin;
/// free neighbours are one piece.
#[derive(Default, Debug)]
pub struct Ranges {
    /// Free pieces: where each begins, and its length.
    free: BTreeMap<u64, u64>,
    /// The same by length, to find the shortest that will do.
    by_length: BTreeSet<(u64, u64)>,
    used: BTreeMap<u64, u64>,
    total: u64,
    free_bytes: u64,
}

impl Ranges {
    /// Adds a range, free. Only whole units of it count.
    pub fn add(&mut self, start: u64, bytes: u64) -> Result<(), RangeError> {
        let end = start.checked_add(bytes).ok_or(RangeError::NoRange)? / UNIT * UNIT;
        let start = start.checked_next_multiple_of(UNIT).ok_or(RangeError::NoRange)?;
        let bytes = end.checked_sub(start).filter(|bytes| *bytes > 0).ok_or(RangeError::NoRange)?;
        for pieces in [&self.free, &self.used] {
            let before = pieces.range(..end).next_back();
            if before.is_some_and(|(at, length)| at + length > start) {
                return Err(RangeError::Overlap);
            }
        }
        self.total += bytes;
        self.put(start, bytes);
        Ok(())
    }

    /// The beginning of a piece of at least `bytes` bytes, at a multiple of `align`: from the
    /// shortest free piece that has one.
    pub fn allocate(&mut self, bytes: u64, align: u64) -> Result<u64, RangeError> {
        if !align.is_power_of_two() {
            return Err(RangeError::Align);
        }
        let align = align.max(UNIT);
        let bytes = bytes.max(1).checked_next_multiple_of(UNIT).ok_or(RangeError::Full)?;
        let fits = |&(length, start): &(u64, u64)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(bytes)? <= start + length).then_some((length, start, at))
        };
        let found = self.by_length.range((bytes, 0)..).find_map(fits);
        let (length, start, at) = found.ok_or(RangeError::Full)?;
        self.take(start, length);
        if at > start {
            self.put(start, at - start);
        }
        if at + bytes < start + length {
            self.put(at + bytes, start + length - at - bytes);
        }
        self.used.insert(at, bytes);
        Ok(at)
    }

    /// Frees the piece that begins at `at`.
    pub fn free(&mut self, at: u64) -> Result<(), RangeError> {
        let bytes = self.used.remove(&at).ok_or(RangeError::NotAllocated)?;
        self.put(at, bytes);
        Ok(())
    }

    /// Makes a piece free, as one with its free neighbours.
    fn put(&mut self, start: u64, bytes: u64) {
        let (mut start, mut length) = (start, bytes);
        if let Some((&next, &more)) = self.free.range(start..).next()
            && next == start + length
        {
            self.take(next, more);
            length += more;
        }
        if let Some((&before, &more)) = self.free.range(..start).next_back()
            && before + more == start
        {
            self.take(before, more);
            (start, length) = (before, more + length);
        }
        self.free.insert(start, length);
        self.by_length.insert((length, start));
        self.free_bytes += length;
    }

    fn take(&mut self, start: u64, length: u64) {
        self.free.remove(&start);
        self.by_length.remove(&(length, start));
        self.free_bytes -= length;
    }

    /// Bytes of all pieces.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Bytes of the free pieces.
    pub fn free_bytes(&self) -> u64 {
        self.free_bytes
    }

    /// Bytes of the longest free piece.
    pub fn largest_free(&self) -> u64 {
        self.by_length.last().map_or(0, |(length, _)| *length)
    }

    /// Pieces that are allocated.
    pub fn allocations(&self) -> usize {
        self.used.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn neighbours_become_one_piece_again() {
        let mut ranges = Ranges::default();
        ranges.add(0x1000, 0x1000).unwrap();
        let pieces: Vec<u64> = (0..4).map(|_| ranges.allocate(0x400, 1).unwrap()).collect();
        assert_eq!(pieces, [0x1000, 0x1400, 0x1800, 0x1c00]);
        assert_eq!(ranges.allocate(1, 1), Err(RangeError::Full));
        for piece in [0x1000, 0x1800, 0x1c00] {
            ranges.free(piece).unwrap();
        }
        assert_eq!((ranges.largest_free(), ranges.free_bytes()), (0x800, 0xc00));
        ranges.free(0x1400).unwrap();
        assert_eq!((ranges.largest_free(), ranges.allocations()), (0x1000, 0));
        assert_eq!(ranges.free(0x1400), Err(RangeError::NotAllocated));
        assert_eq!(ranges.free(0x1008), Err(RangeError::NotAllocated));
    }

    #[test]
    fn the_shortest_piece_that_will_do_is_taken() {
        let mut ranges = Ranges::default();
        ranges.add(0x1000, 0x100).unwrap();
        ranges.add(0x2000, 0x40).unwrap();
        assert_eq!(ranges.allocate(0x40, 16), Ok(0x2000));
        assert_eq!(ranges.allocate(0x40, 16), Ok(0x1000));
        // What alignment leaves before a piece stays free.
        assert_eq!(ranges.allocate(16, 0x80), Ok(0x1080));
        assert_eq!(ranges.allocate(0x40, 16), Ok(0x1040));
    }

    #[test]
    fn wrong_ranges_and_requests_are_refused() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.add(u64::MAX - 100, 200), Err(RangeError::NoRange));
        assert_eq!(ranges.add(u64::MAX, 0), Err(RangeError::NoRange));
        assert_eq!(ranges.add(1, 15), Err(RangeError::NoRange));
        ranges.add(0x1001, 0xfff).unwrap();
        assert_eq!(ranges.total_bytes(), 0xff0);
        for (start, bytes) in [(0x1ff0, 16), (0, 0x2000), (0x1000, 0x20), (0x1100, 16)] {
            assert_eq!(ranges.add(start, bytes), Err(RangeError::Overlap), "{start:#x}");
        }
        assert_eq!(ranges.allocate(1, 3), Err(RangeError::Align));
        assert_eq!(ranges.allocate(1, 0), Err(RangeError::Align));
        assert_eq!(ranges.allocate(u64::MAX, 1), Err(RangeError::Full));
        assert_eq!(ranges.allocate(1, 1 << 63), Err(RangeError::Full));
        ranges.add(0x2000, 0x1000).unwrap();
        assert_eq!(ranges.largest_free(), 0x1ff0);
    }

    /// What a test does: allocates, frees one of what it has, or adds a range.
    #[derive(Clone, Debug)]
    enum Step {
        Allocate { bytes: u64, align: u64 },
        Free { which: usize },
        Add { start: u64, bytes: u64 },
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..5000u64, 0..13u32)
                .prop_map(|(bytes, power)| Step::Allocate { bytes, align: 1 << power }),
            3 => any::<usize>().prop_map(|which| Step::Free { which }),
            1 => (0..1u64 << 18, 0..20_000u64)
                .prop_map(|(start, bytes)| Step::Add { start, bytes }),
        ]
    }

    proptest! {
        #[test]
        fn pieces_are_apart_and_aligned_and_all_come_back(
            steps in prop::collection::vec(step(), 1..200),
        ) {
            let mut ranges = Ranges::default();
            let mut added: Vec<(u64, u64)> = Vec::new();
            let mut held: Vec<(u64, u64)> = Vec::new();
            for step in steps {
                match step {
                    Step::Allocate { bytes, align } => {
                        let free = ranges.free_bytes();
                        match ranges.allocate(bytes, align) {
                            Ok(at) => {
                                prop_assert_eq!(at % align, 0);
                                let inside = |(from, to): &(u64, u64)| {
                                    *from <= at && at + bytes <= *to
                                };
                                prop_assert!(merged(&added).iter().any(inside));
                                let apart = |(other, length): &(u64, u64)| {
                                    at + bytes <= *other || other + length <= at
                                };
                                prop_assert!(held.iter().all(apart));
                                held.push((at, bytes));
                            }
                            Err(error) => {
                                prop_assert_eq!(error, RangeError::Full);
                                prop_assert_eq!(ranges.free_bytes(), free);
                                let plenty = bytes.next_multiple_of(UNIT) + align.max(UNIT);
                                prop_assert!(ranges.largest_free() < plenty);
                            }
                        }
                    }
                    Step::Free { which } if !held.is_empty() => {
                        let (at, _) = held.swap_remove(which % held.len());
                        prop_assert_eq!(ranges.free(at), Ok(()));
                        prop_assert_eq!(ranges.free(at), Err(RangeError::NotAllocated));
                    }
                    Step::Free { .. } => {}
                    Step::Add { start, bytes } => {
                        let end = (start + bytes) / UNIT * UNIT;
                        let (from, to) = (start.next_multiple_of(UNIT), end);
                        let clear = added.iter().all(|(low, high)| to <= *low || *high <= from);
                        let result = ranges.add(start, bytes);
                        prop_assert_eq!(result.is_ok(), from < to && clear);
                        if result.is_ok() {
                            added.push((from, to));
                        }
                    }
                }
            }
            for (at, _) in held {
                prop_assert_eq!(ranges.free(at), Ok(()));
            }
            // Everything has come back, and nothing is in more pieces than need be.
            let whole = merged(&added);
            let bytes: u64 = whole.iter().map(|(from, to)| to - from).sum();
            prop_assert_eq!((ranges.free_bytes(), ranges.total_bytes()), (bytes, bytes));
            let pieces = ranges.free.iter().map(|(at, length)| (*at, at + length));
            let pieces: Vec<_> = pieces.collect();
            prop_assert_eq!(pieces, whole);
            prop_assert_eq!(ranges.free.len(), ranges.by_length.len());
        }
    }

    /// Ranges, in order, those that touch as one.
    fn merged(ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, to) in sorted {
            match merged.last_mut() {
                Some((_, end)) if *end == from => *end = to,
                _ => merged.push((from, to)),
            }
        }
        merged
    }
}
