//! What is known of every node, one row each, and digests of the living: a sum of hashes, so that
//! it is the same in every order and is kept up to date with one subtraction and one addition.

use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};
use rand_xoshiro::Xoshiro128PlusPlus;
use rand_xoshiro::rand_core::Rng;

use crate::wire::Row;

/// A node as its peers see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Its generation.
    pub generation: Generation,
    /// Whether it lives.
    pub state: State,
    /// The version of its directory that is held here.
    pub version: u32,
}

/// Whether a node lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It does.
    Alive,
    /// It does not answer this node, and has not yet denied its death.
    Suspect,
    /// It has left or died.
    Down,
}

/// The rows, in buckets by the first bits of the nodes' places: a range of places is some buckets
/// or a part of one, and no bucket is long.
pub(crate) struct Table {
    buckets: Vec<Bucket>,
    /// All nodes, as they came.
    nodes: Vec<NodeId>,
    live: usize,
    digest: u64,
}

#[derive(Clone, Default)]
struct Bucket {
    /// By place.
    rows: Vec<Row>,
    live: usize,
    digest: u64,
}

/// The bits of a place that name a bucket.
const BUCKET_BITS: u8 = 8;

/// The nodes whose place begins with some bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prefix {
    pub value: u32,
    pub bits: u8,
}

impl Prefix {
    /// Every node.
    pub const ALL: Prefix = Prefix { value: 0, bits: 0 };

    /// The parts that a range is split into.
    pub const PARTS: u32 = 1 << Prefix::STEP;

    const STEP: u8 = 4;

    /// The range of a message, unless it is none.
    pub fn new(value: u32, bits: u8) -> Option<Prefix> {
        let prefix = Prefix { value, bits };
        (bits <= 32 && value & !prefix.mask() == 0).then_some(prefix)
    }

    fn mask(self) -> u32 {
        u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0)
    }

    pub fn has(self, node: u32) -> bool {
        place(node) & self.mask() == self.value
    }

    /// Where its nodes are.
    fn buckets(self) -> core::ops::RangeInclusive<usize> {
        bucket(self.value)..=bucket(self.value | !self.mask())
    }

    /// One of the parts; `None` if it is a single place.
    pub fn part(self, number: u32) -> Option<Prefix> {
        let bits = self.bits + Prefix::STEP;
        let value = self.value | number.checked_shl(32_u32.checked_sub(bits.into())?)?;
        Prefix::new(value, bits)
    }
}

impl Default for Table {
    fn default() -> Table {
        let buckets = alloc::vec![Bucket::default(); 1 << BUCKET_BITS];
        Table { buckets, nodes: Vec::new(), live: 0, digest: 0 }
    }
}

impl Table {
    /// How many nodes there are, living and dead.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many live.
    pub fn live(&self) -> usize {
        self.live
    }

    /// The sum of the hashes of all living nodes' rows.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// All rows, by place.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.buckets.iter().flat_map(|bucket| &bucket.rows)
    }

    pub fn get(&self, node: NodeId) -> Option<&Row> {
        let place = place(node.0);
        let bucket = &self.buckets[bucket(place)];
        bucket.find(place).ok().map(|at| &bucket.rows[at])
    }

    /// Puts a row in place of the node's former one, and gives that.
    pub fn set(&mut self, row: Row) -> Option<Row> {
        let place = place(row.node);
        let bucket = &mut self.buckets[bucket(place)];
        let (was_live, before) = (bucket.live, bucket.digest);
        bucket.count(&row);
        let old = match bucket.find(place) {
            Ok(at) => Some(core::mem::replace(&mut bucket.rows[at], row)),
            Err(at) => {
                self.nodes.push(NodeId(row.node));
                bucket.rows.insert(at, row);
                None
            }
        };
        if let Some(old) = &old {
            bucket.uncount(old);
        }
        self.live = self.live - was_live + bucket.live;
        self.digest = self.digest.wrapping_sub(before).wrapping_add(bucket.digest);
        old
    }

    /// Forgets a node that does not live.
    pub fn remove(&mut self, node: NodeId) {
        let place = place(node.0);
        let bucket = &mut self.buckets[bucket(place)];
        if let Ok(at) = bucket.find(place)
            && !bucket.rows[at].live
        {
            bucket.rows.remove(at);
            self.nodes.retain(|other| *other != node);
        }
    }

    /// The living of a range.
    pub fn within(&self, prefix: Prefix) -> impl Iterator<Item = &Row> {
        let rows = self.buckets[prefix.buckets()].iter().flat_map(|bucket| &bucket.rows);
        rows.filter(move |row| row.live && prefix.has(row.node))
    }

    /// How many live in a range, and their digest.
    pub fn summary(&self, prefix: Prefix) -> (usize, u64) {
        let sum = |(count, digest): (usize, u64), (more, hash): (usize, u64)| {
            (count + more, digest.wrapping_add(hash))
        };
        if prefix.bits > BUCKET_BITS {
            return self.within(prefix).map(|row| (1, hash(row))).fold((0, 0), sum);
        }
        let buckets = self.buckets[prefix.buckets()].iter();
        buckets.map(|bucket| (bucket.live, bucket.digest)).fold((0, 0), sum)
    }

    /// A node, living or dead as wanted, that is not `except`; each as probable as another, or
    /// nearly so if few nodes are what is wanted. `None` if there is none.
    pub fn any(
        &self,
        random: &mut Xoshiro128PlusPlus,
        live: bool,
        except: &[NodeId],
    ) -> Option<NodeId> {
        let fits = |node: &NodeId| {
            !except.contains(node) && self.get(*node).is_some_and(|row| row.live == live)
        };
        let mut start = 0;
        for _ in 0..TRIES.min(self.nodes.len()) {
            start = below(random, self.nodes.len());
            if fits(&self.nodes[start]) {
                return Some(self.nodes[start]);
            }
        }
        let (before, after) = self.nodes.split_at(start);
        after.iter().chain(before).copied().find(fits)
    }
}

impl Bucket {
    fn find(&self, place: u32) -> Result<usize, usize> {
        self.rows.binary_search_by_key(&place, |row| self::place(row.node))
    }

    fn count(&mut self, row: &Row) {
        if row.live {
            self.digest = self.digest.wrapping_add(hash(row));
            self.live += 1;
        }
    }

    fn uncount(&mut self, row: &Row) {
        if row.live {
            self.digest = self.digest.wrapping_sub(hash(row));
            self.live -= 1;
        }
    }
}

fn bucket(place: u32) -> usize {
    (place >> (32 - BUCKET_BITS)) as usize
}

/// Draws before all nodes are looked at in turn.
const TRIES: usize = 16;

/// A number below `count`, which is not 0.
pub(crate) fn below(random: &mut Xoshiro128PlusPlus, count: usize) -> usize {
    ((u64::from(random.next_u32()) * count as u64) >> 32) as usize
}

/// Where a node stands among all: its number well mixed, because numbers come in order.
pub(crate) fn place(node: u32) -> u32 {
    let mut mixed = node ^ node >> 16;
    mixed = mixed.wrapping_mul(0x85eb_ca6b);
    mixed ^= mixed >> 13;
    mixed = mixed.wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

fn mix(word: u64) -> u64 {
    let mut mixed = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// What a row adds to a digest.
pub(crate) fn hash(row: &Row) -> u64 {
    let who = u64::from(row.node) << 32 | u64::from(row.generation);
    let what = u64::from(row.version) << 16 | u64::from(row.renewal);
    mix(mix(who).wrapping_add(what))
}

#[cfg(test)]
mod tests;
