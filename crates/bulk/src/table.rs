//! A map of few entries: a sorted row of them. Its code is a tenth of that of a B-tree, of which
//! the kernel would have one for each type; large values are boxed by whoever keeps them here.

use alloc::vec::Vec;

pub struct Table<K, V> {
    rows: Vec<(K, V)>,
}

impl<K: Ord + Copy, V> Table<K, V> {
    pub fn new() -> Table<K, V> {
        Table { rows: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        // What was added last is asked for most.
        match self.rows.last() {
            Some((last, _)) if last < key => Err(self.rows.len()),
            _ => self.rows.binary_search_by(|(known, _)| known.cmp(key)),
        }
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.rows[at].1)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.rows[at].1)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    /// Adds an entry, in place of one with the same key.
    pub fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.rows[at].1 = value,
            Err(at) => self.rows.insert(at, (key, value)),
        }
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.find(key).ok().map(|at| self.rows.remove(at).1)
    }

    pub fn retain(&mut self, mut keeps: impl FnMut(&K) -> bool) {
        self.rows.retain(|(key, _)| keeps(key));
    }

    /// All entries, by their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter().map(|(key, value)| (key, value))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.rows.iter_mut().map(|(key, value)| (&*key, value))
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0_u8..5, 0_u8..20, any::<u16>()), 0..200)) {
            let (mut table, mut map) = (Table::new(), BTreeMap::new());
            for (step, key, value) in steps {
                match step {
                    0 | 1 => {
                        table.insert(key, value);
                        map.insert(key, value);
                    }
                    2 => prop_assert_eq!(table.remove(&key), map.remove(&key)),
                    3 => prop_assert_eq!(table.get_mut(&key), map.get_mut(&key)),
                    _ => {
                        table.retain(|it| it % 7 != key % 7);
                        map.retain(|it, _| it % 7 != key % 7);
                    }
                }
                prop_assert_eq!(table.get(&key), map.get(&key));
                prop_assert_eq!(table.contains(&key), map.contains_key(&key));
                prop_assert_eq!(table.len(), map.len());
                prop_assert_eq!(table.iter().collect::<Vec<_>>(), map.iter().collect::<Vec<_>>());
            }
            let mutable = table.iter_mut().map(|(key, value)| (*key, *value));
            prop_assert_eq!(mutable.collect::<Vec<_>>(), map.into_iter().collect::<Vec<_>>());
        }
    }
}
