//! A map that is a row of pairs, sorted by their keys. What is not said is as in `BTreeMap`.

use alloc::vec::{self, Vec};
use core::borrow::Borrow;
use core::fmt;
use core::mem;
use core::ops::RangeBounds;
use core::slice;

use crate::{sort_by, within};

/// A map in the order of its keys, for few entries or for such as seldom come and go.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortedMap<K, V>(Vec<(K, V)>);

/// The place of a key in a map, with or without a value: see [`SortedMap::entry`].
pub struct Entry<'a, K, V> {
    rows: &'a mut Vec<(K, V)>,
    key: K,
    place: Result<usize, usize>,
}

impl<K, V> SortedMap<K, V> {
    /// An empty map, which takes no memory.
    pub const fn new() -> Self {
        SortedMap(Vec::new())
    }

    /// How many entries there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all entries; keeps the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The entry with the lowest key.
    pub fn first_key_value(&self) -> Option<(&K, &V)> {
        self.0.first().map(pair)
    }

    /// The entry with the highest key.
    pub fn last_key_value(&self) -> Option<(&K, &V)> {
        self.0.last().map(pair)
    }

    /// Removes the entry with the lowest key.
    pub fn pop_first(&mut self) -> Option<(K, V)> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// The entries in the order of their keys.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter(self.0.iter())
    }

    /// The same, with values that can be changed.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut(self.0.iter_mut())
    }

    /// The keys in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + ExactSizeIterator + Clone {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values in the order of their keys.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> + ExactSizeIterator + Clone {
        self.0.iter().map(|(_, value)| value)
    }

    /// The same, to be changed.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut V> + ExactSizeIterator {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// All keys in order.
    pub fn into_keys(self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator {
        self.0.into_iter().map(|(key, _)| key)
    }

    /// All values in the order of their keys.
    pub fn into_values(self) -> impl DoubleEndedIterator<Item = V> + ExactSizeIterator {
        self.0.into_iter().map(|(_, value)| value)
    }

    /// Keeps the entries that `keeps` says so of.
    pub fn retain(&mut self, mut keeps: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| keeps(key, value));
    }

    /// Removes the entries that `leaves` says so of, and gives them.
    pub fn extract(&mut self, mut leaves: impl FnMut(&K, &mut V) -> bool) -> Vec<(K, V)> {
        self.0.extract_if(.., |(key, value)| leaves(key, value)).collect()
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    /// Where a key is, or where it would be.
    fn place<Q: Ord + ?Sized>(&self, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.0.binary_search_by(|(it, _)| it.borrow().cmp(key))
    }

    /// Whether the key has a value.
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_ok()
    }

    /// The key's value.
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// The key's value, to be changed.
    pub fn get_mut<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Gives the key this value, and returns the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => Some(mem::replace(&mut self.0[at].1, value)),
            Err(at) => {
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    /// Removes the key, and returns the value that it had.
    pub fn remove<Q: Ord + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key).ok()?;
        Some(self.0.remove(at).1)
    }

    /// The place of a key, to be filled if it is empty.
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let place = self.place(&key);
        Entry { rows: &mut self.0, key, place }
    }

    /// The entries whose keys are within these bounds, in order. None if the bounds are the wrong
    /// way round, where `BTreeMap` panics.
    pub fn range<Q: Ord + ?Sized>(&self, bounds: impl RangeBounds<Q>) -> Iter<'_, K, V>
    where
        K: Borrow<Q>,
    {
        let range = within(&bounds, self.0.len(), |key| self.place(key));
        Iter(self.0[range].iter())
    }
}

impl<'a, K, V> Entry<'a, K, V> {
    /// The key's value, which is made first if it has none.
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> &'a mut V {
        let at = self.place.unwrap_or_else(|at| {
            self.rows.insert(at, (self.key, make()));
            at
        });
        &mut self.rows[at].1
    }

    /// The key's value, `value` if it has none.
    pub fn or_insert(self, value: V) -> &'a mut V {
        self.or_insert_with(|| value)
    }

    /// The key's value, the default if it has none.
    pub fn or_default(self) -> &'a mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        SortedMap::new()
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for SortedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: Ord, V> FromIterator<(K, V)> for SortedMap<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut rows: Vec<(K, V)> = pairs.into_iter().collect();
        sort_by(&mut rows, |(one, _), (other, _)| one.cmp(other));
        rows.dedup_by(|later, first| {
            let is_same = later.0 == first.0;
            if is_same {
                mem::swap(later, first);
            }
            is_same
        });
        SortedMap(rows)
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for SortedMap<K, V> {
    fn from(pairs: [(K, V); N]) -> Self {
        pairs.into_iter().collect()
    }
}

impl<K: Ord, V> Extend<(K, V)> for SortedMap<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value);
        }
    }
}

impl<K, V> IntoIterator for SortedMap<K, V> {
    type Item = (K, V);
    type IntoIter = vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, K, V> IntoIterator for &'a SortedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, K, V> IntoIterator for &'a mut SortedMap<K, V> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

fn pair<K, V>((key, value): &(K, V)) -> (&K, &V) {
    (key, value)
}

fn pair_mut<K, V>((key, value): &mut (K, V)) -> (&K, &mut V) {
    (key, value)
}

/// The entries of a [`SortedMap`].
pub struct Iter<'a, K, V>(slice::Iter<'a, (K, V)>);

/// The entries of a [`SortedMap`], with values that can be changed.
pub struct IterMut<'a, K, V>(slice::IterMut<'a, (K, V)>);

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Iter(self.0.clone())
    }
}

macro_rules! iterates {
    ($iter:ident, $item:ty, $pair:ident) => {
        impl<'a, K, V> Iterator for $iter<'a, K, V> {
            type Item = $item;

            fn next(&mut self) -> Option<Self::Item> {
                self.0.next().map($pair)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<K, V> DoubleEndedIterator for $iter<'_, K, V> {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.0.next_back().map($pair)
            }
        }

        impl<K, V> ExactSizeIterator for $iter<'_, K, V> {}
    };
}

iterates!(Iter, (&'a K, &'a V), pair);
iterates!(IterMut, (&'a K, &'a mut V), pair_mut);
