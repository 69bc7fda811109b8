//! Maps of other crates, and the map of the standard library behind one lock.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::client::{Client, Mixes, Value, keys};
use super::scan::{Scan, Scanner};

/// A thread's way into a map that is read and added to by functions.
struct Shared<M, G, A> {
    map: Arc<M>,
    get: G,
    add: A,
}

impl<M, G, A> Client for Shared<M, G, A>
where
    M: Send + Sync,
    G: Fn(&M, u64) -> Option<Value> + Send,
    A: Fn(&M, u64) -> bool + Send,
{
    fn get(&mut self, key: u64) -> Value {
        (self.get)(&self.map, key).expect("the key is there")
    }

    fn add(&mut self, key: u64) {
        assert!((self.add)(&self.map, key), "the key is there");
    }
}

fn shared<M: Send + Sync + 'static>(
    map: M,
    threads: u16,
    get: impl Fn(&M, u64) -> Option<Value> + Copy + Send + 'static,
    add: impl Fn(&M, u64) -> bool + Copy + Send + 'static,
) -> impl Iterator<Item = impl Client + 'static> {
    let map = Arc::new(map);
    (0..threads).map(move |_| Shared { map: map.clone(), get, add })
}

fn entries(count: u32) -> impl Iterator<Item = (u64, Value)> {
    keys(count).map(|key| (key, Value::of(key, 0)))
}

/// Of the crate papaya: values are replaced, old ones are freed by hazards of their readers.
pub fn papaya(count: u32, threads: u16) -> impl Iterator<Item = impl Client + 'static> {
    let map: papaya::HashMap<u64, Value, Mixes> = entries(count).collect();
    let get = |map: &papaya::HashMap<_, Value, _>, key: u64| map.pin().get(&key).copied();
    shared(map, threads, get, |map, key| map.pin().update(key, |value| value.next(key)).is_some())
}

/// Of the crate scc: a lock for each bucket.
pub fn scc(count: u32, threads: u16) -> impl Iterator<Item = impl Client + 'static> {
    let map: scc::HashMap<u64, Value, Mixes> = entries(count).collect();
    let get = |map: &scc::HashMap<u64, Value, _>, key: u64| map.read_sync(&key, |_, value| *value);
    shared(map, threads, get, |map, key| {
        map.update_sync(&key, |_, value| *value = value.next(key)).is_some()
    })
}

/// Of the crate dashmap: a lock for each of a few shards.
pub fn dashmap(count: u32, threads: u16) -> impl Iterator<Item = impl Client + 'static> {
    let map: dashmap::DashMap<u64, Value, Mixes> = entries(count).collect();
    let get = |map: &dashmap::DashMap<u64, Value, _>, key: u64| map.get(&key).map(|value| *value);
    shared(map, threads, get, |map, key| {
        map.get_mut(&key).map(|mut value| *value = value.next(key)).is_some()
    })
}

/// A thread's way into a map behind one lock.
#[derive(Clone)]
pub struct Locked(Arc<RwLock<HashMap<u64, Value, Mixes>>>);

/// Clients of a map of all keys to which nothing was added.
pub fn locked(count: u32, threads: u16) -> impl Iterator<Item = Locked> {
    let map = Locked(Arc::new(RwLock::new(entries(count).collect())));
    (0..threads).map(move |_| map.clone())
}

impl Client for Locked {
    fn get(&mut self, key: u64) -> Value {
        self.0.read().unwrap_or_else(PoisonError::into_inner)[&key]
    }

    fn add(&mut self, key: u64) {
        let mut map = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let value = map.get_mut(&key).expect("the key is there");
        *value = value.next(key);
    }
}

impl Scanner for Locked {
    fn scan(&mut self, scan: &mut Scan<'_>) {
        let map = self.0.read().unwrap_or_else(PoisonError::into_inner);
        scan.run(|key| map[&key]);
    }
}
