//! Sorting of short lists, in little code.
//!
//! The standard library makes four kilobytes of each type that is sorted, which is a twentieth of a
//! kernel's image for lists of a few nodes. Here the numbers of the places are sorted, by one piece
//! of code for all types, and then the list is put in their order. Equals stay as they were.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use core::cmp::Ordering;

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that repeat, each with its place.
    fn list(count: u32, seed: u32) -> Vec<(u32, u32)> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 24
        };
        (0..count).map(|place| (next() % 16, place)).collect()
    }

    #[test]
    fn lists_are_sorted_as_the_standard_library_sorts_them() {
        for count in 0..200 {
            let (mut own, mut other) = (list(count, count), list(count, count));
            sort_by_key(&mut own, |it| it.0);
            other.sort_by_key(|it| it.0);
            assert_eq!(own, other, "equals stay as they were");
            sort_by(&mut own, |one, other| other.cmp(one));
            other.sort_by(|one, other| other.cmp(one));
            assert_eq!(own, other);
            sort(&mut own);
            other.sort();
            assert_eq!(own, other);
        }
    }
}
