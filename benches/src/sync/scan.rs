//! What a writer does while somebody reads all of 10,000 keys, again and again, as of one moment,
//! for 100 ms: beside RLU, whose writers wait for such a reader, and a map behind one lock.
//!
//! The log of `mvrlu` has room for what is written meanwhile, as no version can be written back
//! while the snapshot lasts; the control's has room for two writes, after which the writer is told
//! *busy* until the snapshot ends.

use std::hint::spin_loop;
use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Client, Value, keys};
use super::maps;
use super::rlu::{self, Waiting};
use super::versions::{self, Layout};
use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::{Cpu, Stay, two_cpus};
use crate::rounds::{Times, median, order};

/// Keys of the map.
const KEYS: u32 = 10_000;

/// How long a snapshot is held.
const HELD: Duration = Duration::from_millis(100);

/// A client that can read all as of one moment.
pub trait Scanner: Client {
    /// Runs a scan within one section.
    fn scan(&mut self, scan: &mut Scan<'_>);
}

/// Reading all keys again and again.
pub struct Scan<'a> {
    keys: Vec<u64>,
    has_begun: &'a AtomicBool,
    /// How often all were read.
    passes: u64,
    /// Whether each pass found what the first has found, and each value was whole.
    is_right: bool,
}

impl Scan<'_> {
    /// Reads until the time is over, and all keys once at least.
    pub fn run(&mut self, read: impl Fn(u64) -> Value) {
        let begin = Instant::now();
        let mut first = None;
        while self.passes == 0 || begin.elapsed() < HELD {
            let mut sum = 0;
            for key in &self.keys {
                let value = read(*key);
                self.has_begun.store(true, Ordering::Release);
                self.is_right &= value.is_whole(*key);
                sum += value.count;
            }
            self.is_right &= *first.get_or_insert(sum) == sum;
            self.passes += 1;
        }
    }
}

/// A map, its writer and its reader.
struct Pair {
    name: &'static str,
    writer: Box<dyn Scanner>,
    reader: Box<dyn Scanner>,
    adds: u64,
}

impl Pair {
    fn new(name: &'static str, clients: impl Iterator<Item = impl Scanner + 'static>) -> Pair {
        let mut clients = clients.map(|client| Box::new(client) as Box<dyn Scanner>);
        let mut next = || clients.next().expect("two clients");
        Pair { name, writer: next(), reader: next(), adds: 0 }
    }

    /// Whether the map has each addition, now that nobody adds.
    fn check(&mut self) -> Result<(), Failure> {
        let sum: u64 = keys(KEYS).map(|key| self.reader.get(key).count).sum();
        let what = || format!("{}: {sum} additions of {}", self.name, self.adds);
        match sum == self.adds {
            true => Ok(()),
            false => Err(Failure::System(io::Error::other(what()))),
        }
    }
}

/// What a writer and a reader have done in a turn.
struct Turn {
    ns_a_write: f64,
    passes: u64,
}

impl Pair {
    /// Writes on one CPU while somebody scans on the other, or does not.
    fn turn(&mut self, [cpu, other]: [Cpu; 2], is_scanned: bool) -> Result<Turn, Failure> {
        let (ready, has_begun, is_over) =
            (Barrier::new(2), AtomicBool::new(false), AtomicBool::new(false));
        let mut scan =
            Scan { keys: keys(KEYS).collect(), has_begun: &has_begun, passes: 0, is_right: true };
        let (writer, reader) = (&mut self.writer, &mut self.reader);
        let (writes, took) = thread::scope(|scope| {
            let write = || -> io::Result<(u64, Duration)> {
                let stay = Stay::on(cpu);
                ready.wait();
                let _stay = stay?;
                while !has_begun.load(Ordering::Acquire) {
                    spin_loop();
                }
                let (begin, mut writes) = (Instant::now(), 0);
                for key in keys(KEYS).cycle() {
                    writer.add(key);
                    writes += 1;
                    if is_over.load(Ordering::Acquire) {
                        break;
                    }
                }
                Ok((writes, begin.elapsed()))
            };
            let writing = scope.spawn(write);
            let stay = Stay::on(other);
            ready.wait();
            if is_scanned {
                reader.scan(&mut scan);
            } else {
                has_begun.store(true, Ordering::Release);
                thread::sleep(HELD);
            }
            is_over.store(true, Ordering::Release);
            stay?;
            writing.join().expect("a writer does not panic")
        })?;
        self.adds += writes;
        if !scan.is_right {
            let what = format!("{}: a scan is not as of one moment", self.name);
            return Err(Failure::System(io::Error::other(what)));
        }
        Ok(Turn { ns_a_write: took.as_nanos() as f64 / writes as f64, passes: scan.passes })
    }
}

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let cpus = two_cpus()?;
    let rounds = if mode == Mode::Control { 2 } else { 12 };
    let log = if mode == Mode::Control { 4 } else { 1 << 21 };
    let layout = Layout { keys: KEYS, keys_per_object: 1, log, takes_snapshots: false };
    let mut pairs = [
        (Pair::new("mvrlu", versions::clients(layout, 2)), true),
        (Pair::new("RLU", rlu::clients(KEYS, 2, Waiting::Spin)), true),
        (Pair::new("RwLock<HashMap>", maps::locked(KEYS, 2)), true),
        (Pair::new("mvrlu, nobody scans", versions::clients(layout, 2)), false),
    ];
    let (mut times, mut passes) = (Times::of(pairs.len()), vec![Vec::new(); pairs.len()]);
    for round in 0..rounds {
        for place in order(round, pairs.len()) {
            let (pair, is_scanned) = &mut pairs[place];
            let turn = pair.turn(cpus, *is_scanned)?;
            times.0[place].push(turn.ns_a_write);
            passes[place].push(turn.passes as f64);
        }
    }
    eprintln!("  a writer on {}, a snapshot of {HELD:?} on {}:", cpus[0], cpus[1]);
    for (place, (pair, _)) in pairs.iter_mut().enumerate() {
        pair.check()?;
        let (writes, reads) = (1e9 / times.median(place), median(&passes[place]) * f64::from(KEYS));
        let reads = reads / HELD.as_secs_f64() / 1e6;
        eprintln!("  {:<22}{writes:>12.0} writes/s {reads:>8.2} M reads/s", pair.name);
    }
    let thousands = |place| 1e6 / times.median(place);
    let peer = Peer { name: pairs[1].0.name.into(), value: thousands(1) };
    let (ratio, target) = (times.ratio(1, 0), Target::AtLeast(10.0));
    Ok(vec![Figure::with_ratio("sync-scan", "thousand/s", thousands(0), peer, ratio, target)])
}
