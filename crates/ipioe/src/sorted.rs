//! A map for few rows, or for rows that seldom come and go: a sorted row of pairs. Each kind of
//! `BTreeMap` would add several kibibytes of code to the kernel.

use alloc::vec::Vec;

/// A map in the order of its keys. Inserting and removing move what comes after.
#[derive(Debug)]
pub(crate) struct Sorted<K, V>(Vec<(K, V)>);

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Sorted(Vec::new())
    }
}

impl<K: Ord + Copy, V> Sorted<K, V> {
    fn place(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by_key(&key, |(key, _)| *key)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn contains_key(&self, key: &K) -> bool {
        self.place(*key).is_ok()
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.place(*key).ok().map(|at| &self.0[at].1)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.place(*key).ok().map(|at| &mut self.0[at].1)
    }

    /// Puts a pair in the place of the one with its key, if there is one.
    pub fn insert(&mut self, key: K, value: V) {
        match self.place(key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.place(*key).ok().map(|at| self.0.remove(at).1)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(K, V)> {
        self.0.iter()
    }

    pub fn into_pairs(self) -> Vec<(K, V)> {
        self.0
    }
}
