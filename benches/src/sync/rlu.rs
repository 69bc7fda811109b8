//! Read-log-update (Matveev et al., SOSP 2015, algorithms 1 and 2), which MV-RLU extends: each
//! object has two versions at most, so that who writes waits for all who read.
//!
//! A writer locks the objects that it changes and changes copies of them in its log. To commit, it
//! tells the clock at which the copies begin to hold, advances the clock, waits for everybody who
//! began to read before that, writes the copies back and unlocks. Who reads from then on takes the
//! copies in the log meanwhile. There are two logs in turn, since some may still read the last.
//!
//! Nothing is deferred: each writer waits at once. Objects are numbers in an array of words, as
//! those of `nile_sync::mvrlu`.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::thread;

use super::client::{Client, Index, Value, index, keys};
use super::scan::{Scan, Scanner};

/// Objects of one set.
const MOST: usize = 4;

/// The clock of a writer that does not commit.
const NEVER: u64 = u64::MAX;

/// What a thread does that waits for another.
#[derive(Clone, Copy)]
pub enum Waiting {
    /// It looks again at once, as the paper's does.
    Spin,
    /// It gives its processor away, as the paper's does not.
    Yield,
}

impl Waiting {
    fn wait(self) {
        match self {
            Waiting::Spin => spin_loop(),
            Waiting::Yield => thread::yield_now(),
        }
    }
}

/// The words of a value.
#[derive(Default)]
struct Words {
    count: AtomicU64,
    seal: AtomicU64,
}

impl Words {
    fn get(&self) -> Value {
        let [count, seal] = [&self.count, &self.seal].map(|word| word.load(Ordering::Relaxed));
        Value { count, seal }
    }

    fn set(&self, value: Value) {
        self.count.store(value.count, Ordering::Relaxed);
        self.seal.store(value.seal, Ordering::Relaxed);
    }
}

/// The master.
#[derive(Default)]
struct Object {
    /// Zero, or where the copy is.
    lock: AtomicU64,
    words: Words,
}

/// Where a copy is: a place in a log of a thread.
#[derive(Clone, Copy)]
struct Place {
    thread: usize,
    log: usize,
    at: usize,
}

impl Place {
    fn pack(self) -> u64 {
        (self.thread as u64 + 1) << 32 | (self.log as u64) << 16 | self.at as u64
    }

    fn of(word: u64) -> Option<Place> {
        let thread = (word >> 32).checked_sub(1)? as usize;
        Some(Place { thread, log: (word >> 16 & 1) as usize, at: (word & 0xffff) as usize })
    }
}

/// What others see of a thread, in lines of its own.
#[repr(align(128))]
struct Thread {
    /// Odd while it reads.
    sections: AtomicU64,
    /// The clock when it began to read.
    began: AtomicU64,
    /// From which clock on its copies hold.
    holds_from: AtomicU64,
    logs: [[Words; MOST]; 2],
}

/// What all threads share.
struct Rlu {
    clock: AtomicU64,
    threads: Vec<Thread>,
    objects: Vec<Object>,
}

/// A thread of it.
struct Member {
    rlu: Arc<Rlu>,
    me: usize,
    began: u64,
    log: usize,
    /// The objects of the set.
    locked: Vec<usize>,
    waiting: Waiting,
}

impl Member {
    fn mine(&self) -> &Thread {
        &self.rlu.threads[self.me]
    }

    fn begin(&mut self) {
        let sections = &self.mine().sections;
        sections.store(sections.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // A writer that does not see this one read has advanced the clock for it.
        fence(Ordering::SeqCst);
        self.began = self.rlu.clock.load(Ordering::Acquire);
        self.mine().began.store(self.began, Ordering::Release);
    }

    fn leave(&self) {
        let sections = &self.mine().sections;
        sections.store(sections.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    fn copy(&self, place: Place) -> &Words {
        &self.rlu.threads[place.thread].logs[place.log][place.at]
    }

    fn read(&self, object: usize) -> Value {
        let object = &self.rlu.objects[object];
        let words = match Place::of(object.lock.load(Ordering::Acquire)) {
            Some(place) if place.thread == self.me => self.copy(place),
            Some(place) => {
                let from = self.rlu.threads[place.thread].holds_from.load(Ordering::Acquire);
                if from <= self.began { self.copy(place) } else { &object.words }
            }
            None => &object.words,
        };
        words.get()
    }

    /// Changes an object; `false` if another thread has it, upon which the set is aborted.
    fn write(&mut self, number: usize, change: impl FnOnce(Value) -> Value) -> bool {
        let object = &self.rlu.objects[number];
        let has = Place::of(object.lock.load(Ordering::Acquire));
        let place = match has {
            Some(place) if place.thread == self.me => place,
            Some(_) => return false,
            None => {
                let place = Place { thread: self.me, log: self.log, at: self.locked.len() };
                let lock = &object.lock;
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                if lock.compare_exchange(0, place.pack(), success, failure).is_err() {
                    return false;
                }
                self.copy(place).set(object.words.get());
                self.locked.push(number);
                place
            }
        };
        let copy = self.copy(place);
        copy.set(change(copy.get()));
        true
    }

    fn unlock(&mut self) {
        for number in self.locked.drain(..) {
            self.rlu.objects[number].lock.store(0, Ordering::Release);
        }
    }

    fn abort(&mut self) {
        self.leave();
        self.unlock();
    }

    /// Ends the section, and makes what it has changed what everybody reads.
    fn commit(&mut self) {
        self.leave();
        if self.locked.is_empty() {
            return;
        }
        let from = self.rlu.clock.load(Ordering::Acquire) + 1;
        self.mine().holds_from.store(from, Ordering::Release);
        self.rlu.clock.fetch_add(1, Ordering::AcqRel);
        self.wait_for_readers(from);
        for (at, number) in self.locked.iter().enumerate() {
            let copy = self.copy(Place { thread: self.me, log: self.log, at });
            self.rlu.objects[*number].words.set(copy.get());
        }
        self.unlock();
        self.mine().holds_from.store(NEVER, Ordering::Release);
        self.log = 1 - self.log;
    }

    /// Waits until all have ended who began to read before this clock.
    fn wait_for_readers(&self, from: u64) {
        fence(Ordering::SeqCst);
        let others = self.rlu.threads.iter().enumerate().filter(|(number, _)| *number != self.me);
        for (_, other) in others {
            let sections = other.sections.load(Ordering::Acquire);
            let is_reading = || other.sections.load(Ordering::Acquire) == sections;
            while sections % 2 == 1 && is_reading() && other.began.load(Ordering::Acquire) < from {
                self.waiting.wait();
            }
        }
    }
}

/// A thread's way into a map of an object for each key.
pub struct RluMap {
    index: Arc<Index>,
    member: Member,
}

/// Clients of a map of all keys to which nothing was added.
pub fn clients(count: u32, threads: u16, waiting: Waiting) -> impl Iterator<Item = RluMap> {
    let objects = keys(count).map(|key| {
        let object = Object::default();
        object.words.set(Value::of(key, 0));
        object
    });
    let thread = |_| Thread {
        sections: AtomicU64::new(0),
        began: AtomicU64::new(0),
        holds_from: AtomicU64::new(NEVER),
        logs: Default::default(),
    };
    let (objects, all) = (objects.collect(), (0..threads).map(thread).collect());
    let rlu = Arc::new(Rlu { clock: AtomicU64::new(0), threads: all, objects });
    let index = Arc::new(index(count));
    (0..threads).map(move |me| RluMap {
        index: index.clone(),
        member: Member {
            rlu: rlu.clone(),
            me: me.into(),
            began: 0,
            log: 0,
            locked: Vec::with_capacity(MOST),
            waiting,
        },
    })
}

impl Client for RluMap {
    fn get(&mut self, key: u64) -> Value {
        let object = self.index[&key] as usize;
        self.member.begin();
        let value = self.member.read(object);
        self.member.leave();
        value
    }

    fn add(&mut self, key: u64) {
        let object = self.index[&key] as usize;
        self.member.begin();
        while !self.member.write(object, |value| value.next(key)) {
            self.member.abort();
            self.member.waiting.wait();
            self.member.begin();
        }
        self.member.commit();
    }
}

impl Scanner for RluMap {
    fn scan(&mut self, scan: &mut Scan<'_>) {
        let (index, member) = (&self.index, &mut self.member);
        member.begin();
        scan.run(|key| member.read(index[&key] as usize));
        member.leave();
    }
}
