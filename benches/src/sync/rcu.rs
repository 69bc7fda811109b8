//! Read-copy-update with a lock for each bucket: who reads waits for nobody, and who writes puts a
//! new node in the old one's place, which is freed when all have ended who may read it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use sdd::{AtomicOwned, Guard, Owned, Tag};

use super::client::{Client, Index, Value, index, keys};

/// The bucket of one key.
struct Bucket {
    writer: Mutex<()>,
    node: AtomicOwned<Value>,
}

/// A thread's way in.
struct Rcu {
    index: Arc<Index>,
    buckets: Arc<[Bucket]>,
}

/// Clients of a map of all keys to which nothing was added.
pub fn clients(count: u32, threads: u16) -> impl Iterator<Item = impl Client + 'static> {
    let bucket = |key| Bucket { writer: Mutex::new(()), node: AtomicOwned::new(Value::of(key, 0)) };
    let (index, buckets) = (Arc::new(index(count)), keys(count).map(bucket).collect::<Arc<_>>());
    (0..threads).map(move |_| Rcu { index: index.clone(), buckets: buckets.clone() })
}

impl Rcu {
    fn bucket(&self, key: u64) -> &Bucket {
        &self.buckets[self.index[&key] as usize]
    }
}

/// What a bucket has now.
fn value(bucket: &Bucket) -> Value {
    let guard = Guard::new();
    *bucket.node.load(Ordering::Acquire, &guard).as_ref().expect("a bucket always has a node")
}

impl Client for Rcu {
    fn get(&mut self, key: u64) -> Value {
        value(self.bucket(key))
    }

    fn add(&mut self, key: u64) {
        let bucket = self.bucket(key);
        let _turn = bucket.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Owned::new(value(bucket).next(key));
        // The old node is freed, later, when it is dropped.
        drop(bucket.node.swap((Some(next), Tag::None), Ordering::AcqRel));
    }
}
