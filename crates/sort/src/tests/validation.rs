//! What is said of records does not depend on how they come.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{LENGTH, generated, with_keys};
use crate::checksum::Checksum;
use crate::generator::Format;
use crate::layout::Tera;
use crate::validate::{Cut, Summary, Validator};

fn summary(records: &[u8]) -> Summary {
    let mut validator = Validator::<Tera>::new();
    validator.push(records);
    validator.finish().unwrap()
}

#[test]
fn order_and_duplicates_are_counted() {
    let good = summary(&with_keys(&[1, 2, 2, 2, 3]));
    assert!(good.in_order());
    assert_eq!((good.records, good.duplicates, good.first_unordered), (5, 2, None));
    let bad = summary(&with_keys(&[1, 3, 2, 2, 1]));
    assert!(!bad.in_order());
    assert_eq!((bad.unordered, bad.duplicates, bad.first_unordered), (2, 1, Some(2)));
}

#[test]
fn nothing_is_in_order() {
    assert_eq!(summary(&[]), Summary::default());
    assert!(Summary::default().in_order());
}

#[test]
fn a_changed_byte_changes_the_checksum_and_the_order_does_not() {
    let records = generated(Format::Binary, 20);
    let mut swapped = records[LENGTH..].to_vec();
    swapped.extend_from_slice(&records[..LENGTH]);
    assert_eq!(summary(&swapped).checksum, summary(&records).checksum);
    let mut changed = records.clone();
    changed[1234] ^= 1;
    assert_ne!(summary(&changed).checksum, summary(&records).checksum);
    assert_eq!(Checksum::of(b"123456789").0, 0xcbf4_3926, "the polynomial is zlib's");
}

#[test]
fn a_record_that_is_cut_off_is_an_error() {
    let mut validator = Validator::<Tera>::new();
    validator.push(&generated(Format::Binary, 3)[..250]);
    assert_eq!(validator.finish(), Err(Cut { records: 2, bytes: 50 }));
}

proptest! {
    #[test]
    fn pieces_and_stretches_say_what_the_whole_says(
        keys in prop::collection::vec(0u64..4, 0..40),
        mut cuts in prop::collection::vec(0usize..4000, 0..8),
        mut borders in prop::collection::vec(0usize..40, 2),
    ) {
        let records = with_keys(&keys);
        let whole = summary(&records);
        // Pieces that cut records anywhere.
        cuts.extend([0, records.len()]);
        cuts.iter_mut().for_each(|cut| *cut = (*cut).min(records.len()));
        cuts.sort_unstable();
        let mut validator = Validator::<Tera>::new();
        cuts.windows(2).for_each(|ends| validator.push(&records[ends[0]..ends[1]]));
        prop_assert_eq!(validator.finish().unwrap(), whole);
        // Stretches, in both groupings.
        borders.iter_mut().for_each(|border| *border = (*border).min(keys.len()) * LENGTH);
        borders.sort_unstable();
        let stretches = [0..borders[0], borders[0]..borders[1], borders[1]..records.len()];
        let [a, b, c] = stretches.map(|stretch| summary(&records[stretch]));
        prop_assert_eq!(a.then(b).then(c), whole);
        prop_assert_eq!(a.then(b.then(c)), whole);
        let descents = keys.windows(2).filter(|pair| pair[1] < pair[0]).count();
        prop_assert_eq!(whole.unordered, descents as u64);
        let equal: Vec<_> = keys.windows(2).filter(|pair| pair[1] == pair[0]).collect();
        prop_assert_eq!(whole.duplicates, equal.len() as u64);
    }
}
