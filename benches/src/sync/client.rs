//! What all maps are asked: keys, values, and the operations of a thread.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Multiplied by it, numbers that are near each other are far from each other.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Operations of a [`Batch`].
pub const BATCH: usize = 16;

/// Batches of a thread before it begins anew.
const BATCHES: usize = 512;

/// What a key has: how often it was added to, and a word that fits this key and number alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Value {
    pub count: u64,
    pub seal: u64,
}

impl Value {
    /// After so many additions.
    pub fn of(key: u64, count: u64) -> Value {
        Value { count, seal: (key ^ count).wrapping_mul(ODD) }
    }

    /// After one more addition.
    pub fn next(self, key: u64) -> Value {
        Value::of(key, self.count + 1)
    }

    /// Whether somebody has written just this.
    pub fn is_whole(self, key: u64) -> bool {
        self == Value::of(key, self.count)
    }
}

/// As many keys.
pub fn keys(count: u32) -> impl Iterator<Item = u64> + Clone {
    (1..=u64::from(count)).map(|number| number.wrapping_mul(ODD))
}

/// The hash of a key, the same for all maps. (Theirs by default is ten times as slow.)
#[derive(Clone, Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(ODD).rotate_left(26);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes [`Mix`].
pub type Mixes = BuildHasherDefault<Mix>;

/// A number for each key, for maps that are arrays: made once, and only read then.
pub type Index = HashMap<u64, u32, Mixes>;

/// The numbers of as many keys.
pub fn index(count: u32) -> Index {
    keys(count).zip(0..).collect()
}

/// A thread's way into a map.
pub trait Client: Send {
    /// What a key has.
    fn get(&mut self, key: u64) -> Value;

    /// Adds one to what a key has.
    fn add(&mut self, key: u64);

    /// Does all of a batch; how many of its values were not whole.
    fn batch(&mut self, batch: &Batch) -> u64 {
        let mut torn = 0;
        for Operation { key, is_add } in batch.operations {
            if is_add {
                self.add(key);
            } else {
                torn += u64::from(!self.get(key).is_whole(key));
            }
        }
        torn
    }
}

/// A read, or an addition.
#[derive(Clone, Copy)]
pub struct Operation {
    pub key: u64,
    pub is_add: bool,
}

/// Operations in their order.
pub struct Batch {
    pub operations: [Operation; BATCH],
    /// How many of them are additions.
    pub adds: u64,
}

/// What a thread does: every key equally often, half of it additions, in random order.
pub fn batches(count: u32, seed: u64) -> Vec<Batch> {
    let keys: Vec<u64> = keys(count).collect();
    let mut state = seed.wrapping_mul(ODD) | 1;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 20
    };
    let mut operation =
        || Operation { key: keys[draw() as usize % keys.len()], is_add: draw() % 2 == 0 };
    let mut batch = || {
        let operations = [(); BATCH].map(|()| operation());
        let adds = operations.iter().filter(|operation| operation.is_add).count() as u64;
        Batch { operations, adds }
    };
    (0..BATCHES).map(|_| batch()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_value_is_not_whole() {
        let [old, new] = [Value::of(3, 0), Value::of(3, 0).next(3)];
        assert!(old.is_whole(3) && new.is_whole(3) && !new.is_whole(4));
        assert!(!Value { count: old.count, seal: new.seal }.is_whole(3));
    }

    #[test]
    fn half_of_the_operations_are_additions() {
        let batches = batches(64, 1);
        let adds: u64 = batches.iter().map(|batch| batch.adds).sum();
        assert!((3_800..4_400).contains(&adds), "{adds} of {}", BATCHES * BATCH);
    }
}
