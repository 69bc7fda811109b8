//! Against the standard library: lists are as it sorts them, maps and sets answer as its trees.

use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use proptest::prelude::*;

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

/// What is done to a map and to its model. Keys are few, so that they meet.
#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u8, u16),
    Remove(u8),
    Add(u8, u16),
    PopFirst,
    KeepNot(u8),
    Extract(u8),
    Clear,
}

fn any_step() -> impl Strategy<Value = Step> {
    let key = 0..24_u8;
    prop_oneof![
        8 => (key.clone(), any::<u16>()).prop_map(|(key, value)| Step::Insert(key, value)),
        4 => key.clone().prop_map(Step::Remove),
        4 => (key.clone(), any::<u16>()).prop_map(|(key, more)| Step::Add(key, more)),
        1 => Just(Step::PopFirst),
        1 => (2..5_u8).prop_map(Step::KeepNot),
        1 => (2..5_u8).prop_map(Step::Extract),
        1 => Just(Step::Clear),
    ]
}

fn list_of<T>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    items.into_iter().collect()
}

proptest! {
    #[test]
    fn a_map_answers_as_a_tree(steps in prop::collection::vec(any_step(), 0..80)) {
        let (mut own, mut tree) = (SortedMap::new(), BTreeMap::new());
        for step in steps {
            match step {
                Step::Insert(key, value) => {
                    prop_assert_eq!(own.insert(key, value), tree.insert(key, value));
                }
                Step::Remove(key) => prop_assert_eq!(own.remove(&key), tree.remove(&key)),
                Step::Add(key, more) => {
                    let (one, other) = (own.entry(key).or_default(), tree.entry(key).or_default());
                    *one = u16::wrapping_add(*one, more);
                    *other = u16::wrapping_add(*other, more);
                    prop_assert_eq!(one, other);
                }
                Step::PopFirst => prop_assert_eq!(own.pop_first(), tree.pop_first()),
                Step::KeepNot(by) => {
                    own.retain(|key, _| key % by != 0);
                    tree.retain(|key, _| key % by != 0);
                }
                Step::Extract(by) => prop_assert_eq!(
                    own.extract(|key, _| key % by == 0),
                    list_of(tree.extract_if(.., |key, _| key % by == 0)),
                ),
                Step::Clear => {
                    own.clear();
                    tree.clear();
                }
            }
            prop_assert_eq!(list_of(&own), list_of(&tree));
            prop_assert_eq!((own.len(), own.is_empty()), (tree.len(), tree.is_empty()));
            prop_assert_eq!(own.first_key_value(), tree.first_key_value());
            prop_assert_eq!(own.last_key_value(), tree.last_key_value());
            for key in 0..25 {
                prop_assert_eq!(own.get(&key), tree.get(&key));
                prop_assert_eq!(own.get_mut(&key), tree.get_mut(&key));
                prop_assert_eq!(own.contains_key(&key), tree.contains_key(&key));
            }
        }
        own.values_mut().chain(tree.values_mut()).for_each(|it| *it /= 2);
        own.iter_mut().chain(tree.iter_mut()).for_each(|(key, it)| *it ^= u16::from(*key));
        prop_assert_eq!(list_of(own.keys()), list_of(tree.keys()));
        prop_assert_eq!(list_of(own.values()), list_of(tree.values()));
        prop_assert_eq!(list_of(own.iter().rev()), list_of(tree.iter().rev()));
        prop_assert_eq!(list_of(own.clone().into_values()), list_of(tree.clone().into_values()));
        prop_assert_eq!(list_of(own.clone().into_keys()), list_of(tree.clone().into_keys()));
        prop_assert_eq!(list_of(own), list_of(tree));
    }

    #[test]
    fn of_equal_keys_the_last_stays(
        pairs in prop::collection::vec((0..24_u8, any::<u16>()), 0..60),
        more in prop::collection::vec((0..24_u8, any::<u16>()), 0..60),
    ) {
        let mut own: SortedMap<_, _> = pairs.iter().copied().collect();
        let mut tree: BTreeMap<_, _> = pairs.iter().copied().collect();
        prop_assert_eq!(list_of(&own), list_of(&tree));
        own.extend(more.iter().copied());
        tree.extend(more.iter().copied());
        prop_assert_eq!(list_of(own), list_of(tree));
    }

    #[test]
    fn ranges_are_those_of_a_tree(
        keys in prop::collection::btree_set(0..24_u8, 0..24),
        (start, end) in (0..24_u8, 0..24_u8).prop_map(|(a, b)| (a.min(b), a.max(b))),
    ) {
        let own: SortedSet<u8> = keys.iter().copied().collect();
        let map: SortedMap<u8, ()> = keys.iter().map(|key| (*key, ())).collect();
        let mut bounds = Vec::from([
            (Bound::Included(start), Bound::Included(end)),
            (Bound::Included(start), Bound::Excluded(end)),
            (Bound::Excluded(start), Bound::Included(end)),
            (Bound::Excluded(start), Bound::Unbounded),
            (Bound::Unbounded, Bound::Excluded(end)),
            (Bound::Unbounded, Bound::Unbounded),
        ]);
        if start < end {
            bounds.push((Bound::Excluded(start), Bound::Excluded(end)));
        }
        for bounds in bounds {
            let there = list_of(keys.range(bounds));
            prop_assert_eq!(list_of(own.range(bounds)), there.clone());
            prop_assert_eq!(list_of(map.range(bounds).map(|(key, ())| key)), there);
        }
        prop_assert_eq!(own.range(end + 1..start).count(), 0);
    }

    #[test]
    fn a_set_answers_as_a_tree(
        steps in prop::collection::vec(any_step(), 0..80),
        other in prop::collection::btree_set(0..24_u8, 0..24),
    ) {
        let (mut own, mut tree) = (SortedSet::new(), BTreeSet::new());
        for step in steps {
            match step {
                Step::Insert(key, _) => prop_assert_eq!(own.insert(key), tree.insert(key)),
                Step::Remove(key) => prop_assert_eq!(own.remove(&key), tree.remove(&key)),
                Step::Add(key, _) => {
                    own.extend([key, key + 1]);
                    tree.extend([key, key + 1]);
                }
                Step::PopFirst => prop_assert_eq!(own.pop_first(), tree.pop_first()),
                Step::KeepNot(by) | Step::Extract(by) => {
                    own.retain(|key| key % by != 0);
                    tree.retain(|key| key % by != 0);
                }
                Step::Clear => {
                    own.clear();
                    tree.clear();
                }
            }
            prop_assert_eq!(list_of(&own), list_of(&tree));
            prop_assert_eq!((own.len(), own.is_empty()), (tree.len(), tree.is_empty()));
            prop_assert_eq!((own.first(), own.last()), (tree.first(), tree.last()));
            for key in 0..26 {
                prop_assert_eq!(own.contains(&key), tree.contains(&key));
            }
        }
        let others: SortedSet<u8> = other.iter().copied().collect();
        prop_assert_eq!(list_of(own.difference(&others)), list_of(tree.difference(&other)));
        prop_assert_eq!(list_of(own), list_of(tree));
    }
}
