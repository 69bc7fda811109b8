//! `nile_sync::mvrlu`: an object for each key.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use nile_ring::Region;
use nile_sync::Seats;
use nile_sync::mvrlu::{Member, Mvrlu, Refused, Section, Shape};

use super::client::{Client, Mixes, Value, keys};
use super::scan::{Scan, Scanner};

/// Words of a value.
const WORDS: u32 = 2;

/// Additions between two reclaims.
const RECLAIM_EVERY: u32 = 64;

/// How a map is laid out.
#[derive(Clone, Copy)]
pub struct Layout {
    /// How many keys there are.
    pub keys: u32,
    /// Keys of an object: one, or all of them in a control.
    pub keys_per_object: u32,
    /// Slots of a thread's log.
    pub log: u32,
    /// Whether each operation takes a snapshot, which it does not need.
    pub takes_snapshots: bool,
}

/// Clients of a map of all keys to which nothing was added.
pub fn clients(layout: Layout, threads: u16) -> impl Iterator<Item = Versions> {
    let shape = Shape {
        objects: layout.keys.div_ceil(layout.keys_per_object),
        words: (layout.keys_per_object * WORDS) as usize,
        log: layout.log,
    };
    let seats = Seats::attach(Region::owned(Seats::region_len(threads.into())));
    let region = Region::owned(Mvrlu::region_len(shape, threads.into()));
    let all = Mvrlu::attach(region, seats.clone(), shape).expect("it has its size");
    let per_object = layout.keys_per_object;
    let place = |number| (number / per_object, number % per_object * WORDS);
    let index: Arc<Index> = Arc::new(keys(layout.keys).zip((0..).map(place)).collect());
    (0..threads).map(move |thread| {
        let seat = seats.enter(thread).expect("there is a seat for each thread");
        let member = all.join(seat).expect("there is a seat for each thread");
        let mut client = Versions { index: index.clone(), member, layout, unreclaimed: 0 };
        if thread == 0 {
            keys(layout.keys).for_each(|key| client.change(key, |_| Value::of(key, 0)));
        }
        client
    })
}

/// The object of a key, and which word of it is the first of the value.
type Index = HashMap<u64, (u32, u32), Mixes>;

/// A thread's way in.
pub struct Versions {
    index: Arc<Index>,
    member: Member,
    layout: Layout,
    /// Additions since the last reclaim.
    unreclaimed: u32,
}

fn read(section: &Section<'_>, (object, at): (u32, u32)) -> Value {
    let word = |at| section.word(object, at as usize).expect("the object is there");
    Value { count: word(at), seal: word(at + 1) }
}

impl Versions {
    fn begin(&mut self) -> Section<'_> {
        match self.layout.takes_snapshots {
            true => self.member.begin(),
            false => self.member.begin_newest(),
        }
    }

    fn change(&mut self, key: u64, change: impl Fn(Value) -> Value) {
        let (object, at) = self.index[&key];
        let at = at as usize;
        loop {
            let mut section = self.begin();
            let written = section.write(object, |words| {
                let value = change(Value { count: words.word(at), seal: words.word(at + 1) });
                words.set(at, value.count);
                words.set(at + 1, value.seal);
            });
            match written.and_then(|()| section.commit()) {
                Ok(_) => break,
                Err(Refused::Busy) => {
                    self.member.reclaim();
                    thread::yield_now();
                }
                Err(_) => thread::yield_now(),
            }
        }
        self.unreclaimed += 1;
        if self.unreclaimed >= RECLAIM_EVERY {
            self.member.reclaim();
            self.unreclaimed = 0;
        }
    }
}

impl Client for Versions {
    fn get(&mut self, key: u64) -> Value {
        let (object, at) = self.index[&key];
        if self.layout.keys_per_object > 1 {
            return read(&self.member.begin(), (object, at));
        }
        // One read, and so of one version.
        let mut words = [0; WORDS as usize];
        self.begin().read(object, &mut words).expect("the object is there");
        Value { count: words[0], seal: words[1] }
    }

    fn add(&mut self, key: u64) {
        self.change(key, |value| value.next(key));
    }
}

impl Scanner for Versions {
    fn scan(&mut self, scan: &mut Scan<'_>) {
        let index = &self.index;
        let section = self.member.begin();
        scan.run(|key| read(&section, index[&key]));
    }
}
