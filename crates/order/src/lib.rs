//! Order for short lists, in little code: sorting, and maps and sets that are sorted rows.
//!
//! The standard library makes four kilobytes of each type that is sorted, which is a twentieth of a
//! kernel's image for lists of a few nodes. Here the numbers of the places are sorted, by one piece
//! of code for all types, and then the list is put in their order. Equals stay as they were.
//!
//! It makes four to eight kilobytes of each type of `BTreeMap` and `BTreeSet`. [`SortedMap`] and
//! [`SortedSet`] make a tenth of that and answer as those do. Inserting and removing move what
//! comes after, so they are for some thousands of entries, or for many that seldom change. What
//! grows with the data of a cluster and changes with it belongs in a B-tree.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod map;
mod set;

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Bound, Range, RangeBounds};

pub use map::{Entry, SortedMap};
pub use set::SortedSet;

/// Sorts a list.
pub fn sort<T: Ord>(items: &mut [T]) {
    sort_by(items, Ord::cmp);
}

/// Sorts a list by what `key` gives of each.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// Sorts a list by `compare`, which must order all of it.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = places(items.len(), &|one, other| compare(&items[one], &items[other]));
    for place in 0..items.len() {
        // What was to come here may have been moved on before.
        let mut from = order[place];
        while from < place {
            from = order[from];
        }
        items.swap(place, from);
    }
}

/// The places of a list in the order of what is there.
fn places(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    places.sort_by(|one, other| compare(*one, *other));
    places
}

/// The places in a sorted row of what lies within `bounds`; none if they are the wrong way round.
/// `at(key)` gives the place of a key, or where it would be.
fn within<Q: ?Sized>(
    bounds: &impl RangeBounds<Q>,
    count: usize,
    at: impl Fn(&Q) -> Result<usize, usize>,
) -> Range<usize> {
    let past = |found: Result<usize, usize>| found.map_or_else(|at| at, |at| at + 1);
    let start = match bounds.start_bound() {
        Bound::Included(first) => at(first).unwrap_or_else(|at| at),
        Bound::Excluded(before) => past(at(before)),
        Bound::Unbounded => 0,
    };
    let end = match bounds.end_bound() {
        Bound::Included(last) => past(at(last)),
        Bound::Excluded(after) => at(after).unwrap_or_else(|at| at),
        Bound::Unbounded => count,
    };
    start..end.max(start)
}

#[cfg(test)]
mod tests;
