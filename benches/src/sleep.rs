//! A round trip between two cores that sleep: two channels beside a plain ping-pong of the same
//! two threads over two futexes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nile_abi::CoreId;
use nile_ring::{Doorbell, SLEEPING, Signal, Wake};
use rustix::thread::futex;

use crate::Mode;
use crate::duel::{Game, Length, duel};
use crate::ends::{CORES, End, ends, number, numbered};
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::two_cpus;

/// Cells of a ring.
const CAPACITY: usize = 64;

/// The control: a request is two messages, each answered before the next one is sent.
const CONTROL_MESSAGES: u32 = 2;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let messages = if mode == Mode::Control { CONTROL_MESSAGES } else { 1 };
    let rounds = if mode == Mode::Control { 100 } else { 500 };
    let length = Length { rounds, warm_up: 2, timed: 10 };
    let [cpu, other] = two_cpus()?;
    let times = duel(length, [cpu, other], vec![channels(messages), futexes()])?;
    // How much of it is the way between two CPUs: the same on one.
    duel(length, [cpu, cpu], vec![channels(messages), futexes()])?;
    let peer = Peer { name: "two futexes".into(), value: times.median(1) };
    let (ours, ratio) = (times.median(0), times.ratio(0, 1));
    Ok(vec![Figure::with_ratio("ring-sleep", "ns", ours, peer, ratio, Target::AtMost(1.2))])
}

fn channels(messages: u32) -> Game {
    let [mut here, mut there] = ends(CAPACITY, Wake::Signal);
    let waker = Futexes([&here.bell, &there.bell].map(state));
    Game::new(
        "two channels",
        move |exchanges| {
            for value in 0..u64::from(exchanges * messages) {
                send(&mut here, value, &waker);
                assert_eq!(receive(&mut here), value);
            }
        },
        move |exchanges| {
            for _ in 0..exchanges * messages {
                let value = receive(&mut there);
                send(&mut there, value, &waker);
            }
        },
    )
}

fn send(end: &mut End, value: u64, waker: &Futexes) {
    let sent = end.sender.send(&numbered(value), &end.notifier, waker);
    sent.expect("one message at a time fits");
}

/// Sleeps as a core does: says so, looks once more, waits.
fn receive(end: &mut End) -> u64 {
    loop {
        if let Some(message) = end.receiver.try_recv().expect("the other end sends sound ones") {
            return number(&message);
        }
        let sleep = end.bell.prepare();
        if !end.receiver.is_ready() {
            wait(sleep.state(), SLEEPING);
        }
    }
}

/// The platform's part: the word that each core sleeps on.
#[derive(Clone, Copy)]
struct Futexes([&'static AtomicU32; CORES.len()]);

impl Signal for Futexes {
    fn signal(&self, core: CoreId) {
        wake(self.0[core.index()]);
    }
}

/// The word that the core behind `bell` sleeps on. It is reached through a sleep alone, so this
/// makes one and keeps it: a first wake-up may find nobody asleep.
fn state(bell: &Doorbell) -> &'static AtomicU32 {
    let bell: &'static Doorbell = Box::leak(Box::new(bell.clone()));
    Box::leak(Box::new(bell.prepare())).state()
}

fn futexes() -> Game {
    let words = Arc::new(CORES.map(|_| Word(AtomicU32::new(0))));
    let shared = words.clone();
    Game::new(
        "two futexes",
        move |exchanges| {
            for _ in 0..exchanges {
                words[1].set();
                words[0].take();
            }
        },
        move |exchanges| {
            for _ in 0..exchanges {
                shared[1].take();
                shared[0].set();
            }
        },
    )
}

/// A flag that one thread sets and the other waits for.
#[repr(align(64))]
struct Word(AtomicU32);

impl Word {
    fn set(&self) {
        self.0.store(1, Ordering::Release);
        wake(&self.0);
    }

    fn take(&self) {
        while self.0.swap(0, Ordering::Acquire) == 0 {
            wait(&self.0, 0);
        }
    }
}

/// Waits while `word` is `value`. May return early; every caller looks again.
fn wait(word: &AtomicU32, value: u32) {
    let _ = futex::wait(word, futex::Flags::PRIVATE, value, None);
}

fn wake(word: &AtomicU32) {
    // It cannot fail: the word is mapped, and that nobody waits is no error.
    let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
}
