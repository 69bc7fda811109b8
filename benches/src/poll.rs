//! A round trip between two cores that poll: two channels beside the least that two cores can do,
//! one cache line that both write in turn.
//!
//! Two loops that do nothing but poll fall into step with each other, some into a lucky one, so
//! that an instruction more or less anywhere makes 20 ns. A core asks when it has something to
//! ask, which is at any moment of the other's polling; so here the asker waits before each request
//! for a time between none and several polls. What the waiting takes by itself is measured as a
//! third game and taken away. The figures of loops in step are in the log.

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nile_ring::Wake;

use crate::Mode;
use crate::duel::{Game, Length, duel};
use crate::ends::{End, Nobody, ends, number, numbered};
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::two_cpus;

/// Cells of a ring.
const CAPACITY: usize = 64;

/// The control: every message is answered before the next one is sent, and a request is three.
const CONTROL_MESSAGES: u32 = 3;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let messages = if mode == Mode::Control { CONTROL_MESSAGES } else { 1 };
    let rounds = if mode == Mode::Control { 300 } else { 1500 };
    let length = Length { rounds, warm_up: 50, timed: 250 };
    let cpus = two_cpus()?;
    let in_step = duel(length, cpus, vec![channels(messages, Wait::None), line(Wait::None)])?;
    eprintln!("  in step: {:.2} times", in_step.ratio(0, 1));
    let games = vec![channels(messages, Wait::Varied), line(Wait::Varied), waits()];
    let times = duel(length, cpus, games)?.without(2);
    let peer = Peer { name: "one cache line".into(), value: times.median(1) };
    let (ours, ratio) = (times.median(0), times.ratio(0, 1));
    Ok(vec![Figure::with_ratio("ring-poll", "ns", ours, peer, ratio, Target::AtMost(2.0))])
}

/// Whether an asker waits before it asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    None,
    Varied,
}

/// An asker's waits.
struct Waits {
    kind: Wait,
    state: u32,
}

impl Waits {
    /// The longest, in steps of about half a nanosecond.
    const LONGEST: u64 = 128;

    fn of(kind: Wait) -> Waits {
        Waits { kind, state: 0 }
    }

    /// Waits. The lengths are spread evenly, also over a few of them (a Weyl sequence).
    #[inline]
    fn wait(&mut self) {
        if self.kind == Wait::Varied {
            self.state = self.state.wrapping_add(0x9e37_79b9);
            for step in 0..(u64::from(self.state) * Self::LONGEST) >> 32 {
                black_box(step);
            }
        }
    }
}

/// The waits alone.
fn waits() -> Game {
    let mut waits = Waits::of(Wait::Varied);
    let alone = move |exchanges| (0..exchanges).for_each(|_| waits.wait());
    Game::new("waiting", alone, |_| {})
}

/// A request and its reply over two channels, whose receivers are woken as cores that poll are:
/// by a store.
fn channels(messages: u32, wait: Wait) -> Game {
    let mut waits = Waits::of(wait);
    let [mut here, mut there] = ends(CAPACITY, Wake::Quiet);
    Game::new(
        "two channels",
        move |exchanges| {
            for value in 0..u64::from(exchanges * messages) {
                waits.wait();
                send(&mut here, value);
                assert_eq!(receive(&mut here), value);
            }
        },
        move |exchanges| {
            for _ in 0..exchanges * messages {
                let value = receive(&mut there);
                send(&mut there, value);
            }
        },
    )
}

fn send(end: &mut End, value: u64) {
    let sent = end.sender.send(&numbered(value), &end.notifier, &Nobody);
    sent.expect("one message at a time fits");
}

fn receive(end: &mut End) -> u64 {
    loop {
        match end.receiver.try_recv().expect("the other end sends sound messages") {
            Some(message) => return number(&message),
            None => spin_loop(),
        }
    }
}

/// A line of its own.
#[repr(align(64))]
struct Line(AtomicU64);

fn line(wait: Wait) -> Game {
    let mut waits = Waits::of(wait);
    let line = Arc::new(Line(AtomicU64::new(0)));
    let shared = line.clone();
    // Even numbers go there, odd ones back.
    let (mut next, mut expected) = (1, 1);
    let until = |line: &Line, value| {
        while line.0.load(Ordering::Acquire) != value {
            spin_loop();
        }
    };
    Game::new(
        "one cache line",
        move |exchanges| {
            for _ in 0..exchanges {
                waits.wait();
                line.0.store(next, Ordering::Release);
                until(&line, next + 1);
                next += 2;
            }
        },
        move |exchanges| {
            for _ in 0..exchanges {
                until(&shared, expected);
                shared.0.store(expected + 1, Ordering::Release);
                expected += 2;
            }
        },
    )
}
