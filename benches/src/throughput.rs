//! How many messages a second go one way between two cores that poll: a channel beside the
//! queues of the best known crates, with items of the same size and rings of the same capacity,
//! one item at a time.

use std::hint::{black_box, spin_loop};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nile_ring::{LINE_BYTES, Message, PAYLOAD_BYTES, Wake};
use ringbuf::traits::{Consumer, Producer, Split};

use crate::Mode;
use crate::duel::{Game, Length, duel};
use crate::ends::{End, Nobody, ends};
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::two_cpus;

/// Items that a queue holds.
const CAPACITY: usize = 1024;

/// What the others carry: as many bytes as a cell.
type Item = [u64; LINE_BYTES / 8];

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let rounds = if mode == Mode::Control { 50 } else { 300 };
    let length = Length { rounds, warm_up: 2 * CAPACITY as u32, timed: 16 * CAPACITY as u32 };
    let games = vec![channel(mode), rtrb(), gil(), ringbuf(), crossbeam()];
    let names: Vec<_> = games.iter().map(|game| game.name).collect();
    let times = duel(length, two_cpus()?, games)?;
    let best = (1..names.len()).min_by(|a, b| times.median(*a).total_cmp(&times.median(*b)));
    let best = best.expect("there are peers");
    // Millions a second from nanoseconds each; less time is more throughput.
    let millions = |game| 1e3 / times.median(game);
    let peer = Peer { name: names[best].into(), value: millions(best) };
    let ratio = times.ratio(best, 0);
    let target = Target::AtLeast(0.9);
    Ok(vec![Figure::with_ratio("ring-throughput", "M/s", millions(0), peer, ratio, target)])
}

/// The game of sending `exchanges` items and waiting until the last has arrived. `push` says
/// whether there was room, and the receiver looks at every item.
fn game<T: Carries>(
    name: &'static str,
    mut push: impl FnMut(T) -> bool + Send + 'static,
    mut pop: impl FnMut() -> Option<T> + Send + 'static,
) -> Game {
    let arrived = Arc::new(Arrivals(AtomicU64::new(0)));
    let (seen, mut sent, mut received) = (arrived.clone(), 0, 0);
    Game::new(
        name,
        move |exchanges| {
            for _ in 0..exchanges {
                sent += 1;
                while !push(black_box(T::of(sent))) {
                    spin_loop();
                }
            }
            seen.wait_for(sent);
        },
        move |exchanges| {
            for _ in 0..exchanges {
                let item = loop {
                    match pop() {
                        Some(item) => break item,
                        None => spin_loop(),
                    }
                };
                received += 1;
                assert_eq!(black_box(item).number(), received);
            }
            arrived.announce(received);
        },
    )
}

/// What an item carries: a number, in all its words.
trait Carries: 'static {
    fn of(number: u64) -> Self;
    fn number(&self) -> u64;
}

impl Carries for Item {
    fn of(number: u64) -> Item {
        [number; _]
    }

    fn number(&self) -> u64 {
        self[self.len() - 1]
    }
}

impl Carries for Message {
    fn of(number: u64) -> Message {
        let words = [number.to_le_bytes(); PAYLOAD_BYTES / 8];
        Message::new(1, words.as_flattened()).expect("it is as long as a payload can be")
    }

    fn number(&self) -> u64 {
        u64::from_le_bytes(*self.payload().last_chunk().expect("the payload is full"))
    }
}

/// How many items have arrived, told once for many of them.
#[repr(align(64))]
struct Arrivals(AtomicU64);

impl Arrivals {
    fn announce(&self, count: u64) {
        self.0.store(count, Ordering::Release);
    }

    fn wait_for(&self, count: u64) {
        while self.0.load(Ordering::Acquire) != count {
            spin_loop();
        }
    }
}

/// A channel whose receiver polls: its sender announces each message as to any receiver. The
/// control has one cell, so each message waits until the one before has been received.
fn channel(mode: Mode) -> Game {
    let capacity = if mode == Mode::Control { 1 } else { CAPACITY };
    let [End { mut sender, notifier, .. }, End { mut receiver, .. }] = ends(capacity, Wake::Quiet);
    game(
        "nile-ring",
        move |message: Message| sender.send(&message, &notifier, &Nobody).is_ok(),
        move || receiver.try_recv().expect("the other end sends sound messages"),
    )
}

fn rtrb() -> Game {
    let (mut producer, mut consumer) = rtrb::RingBuffer::<Item>::new(CAPACITY);
    game("rtrb", move |item| producer.push(item).is_ok(), move || consumer.pop().ok())
}

fn gil() -> Game {
    let capacity = NonZero::new(CAPACITY).expect("it is not zero");
    let (mut sender, mut receiver) = gil::spsc::channel::<Item>(capacity);
    game("gil", move |item| sender.try_send(item).is_ok(), move || receiver.try_recv())
}

fn ringbuf() -> Game {
    let (mut producer, mut consumer) = ringbuf::HeapRb::<Item>::new(CAPACITY).split();
    game("ringbuf", move |item| producer.try_push(item).is_ok(), move || consumer.try_pop())
}

fn crossbeam() -> Game {
    let queue = Arc::new(crossbeam_queue::ArrayQueue::<Item>::new(CAPACITY));
    let other = queue.clone();
    game("crossbeam-queue", move |item| queue.push(item).is_ok(), move || other.pop())
}
