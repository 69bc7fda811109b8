//! A loop of 1,000 uneven pieces, distributed among two workers: beside the best that two can do.
//! For that each does all pieces at the same time; of two that take as long it is half of it, and
//! of two of which one is disturbed as long as both would need together at their speeds.
//!
//! How long a piece takes falls with its number (Zipf): the first takes an eighth of all, the last
//! some microseconds. The control divides the pieces in two halves beforehand.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nile_ring::Region;
use nile_sync::spread::Spread;
use nile_sync::{Seat, Seats};

use crate::Mode;
use crate::duel::{Game, Length, duel};
use crate::figure::{Failure, Figure, Peer, Target};
use crate::place::two_cpus;

/// Pieces of the loop.
const PIECES: u32 = 1000;

/// Steps of the first piece.
const STEPS: u64 = 1_500_000;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let rounds = if mode == Mode::Control { 7 } else { 60 };
    let length = Length { rounds, warm_up: 1, timed: 1 };
    let all = |_, each: &mut dyn FnMut(u32)| (0..PIECES).for_each(each);
    let halves = |side, each: &mut dyn FnMut(u32)| {
        let half = PIECES / 2;
        (side as u32 * half..(side as u32 + 1) * half).for_each(each);
    };
    let next = Arc::new(AtomicU64::new(0));
    let begin = next.clone();
    let counter = move |_, each: &mut dyn FnMut(u32)| {
        loop {
            let piece = next.fetch_add(1, Ordering::Relaxed);
            if piece >= PIECES.into() {
                break;
            }
            each(piece as u32);
        }
    };
    let best = Arc::new(Mutex::new(Vec::new()));
    let games = vec![
        match mode {
            Mode::Real => spread(),
            Mode::Control => game("halves", 1, || (), halves, |_| ()),
        },
        {
            let best = best.clone();
            let tell = move |[a, b]: [f64; 2]| lock(&best).push(1.0 / (1.0 / a + 1.0 / b));
            game("all pieces on each", 2, || (), all, tell)
        },
        game("a shared counter", 1, move || begin.store(0, Ordering::Relaxed), counter, |_| ()),
        game("two halves", 1, || (), halves, |_| ()),
    ];
    let mut times = duel(length, two_cpus()?, games)?;
    // Of each round there is one that warms up, and one that counts.
    times.0[1] = lock(&best).iter().copied().skip(1).step_by(2).collect();
    eprintln!("  {:<28} {:>10.1} ns", "the best that two can do", times.median(1));
    let ms = |game| times.median(game) / 1e6;
    let peer = Peer { name: "the best of two".into(), value: ms(1) };
    let target = Target::AtMost(1.05);
    Ok(vec![Figure::with_ratio("sync-spread", "ms", ms(0), peer, times.ratio(0, 1), target)])
}

/// Does a piece; something that only who has done it knows. It is the same code for all.
#[inline(never)]
fn work(piece: u32) -> u64 {
    let step = |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (0..STEPS / u64::from(piece + 1)).fold(piece.into(), |state, _| black_box(step(state)))
}

/// The loop by `nile_sync::spread`.
fn spread() -> Game {
    let seats = Seats::attach(Region::owned(Seats::region_len(2)));
    let region = Region::owned(Spread::region_len(2, PIECES));
    let spread = Spread::attach(region, seats.clone()).expect("it has its size");
    let sides: [Seat; 2] = [0, 1].map(|side| seats.enter(side).expect("there are two"));
    let first = spread.clone();
    let begin = move || first.begin(PIECES).expect("the last loop is done");
    let part = move |side: usize, each: &mut dyn FnMut(u32)| {
        loop {
            while let Some(piece) = spread.take(sides[side]) {
                each(piece.number);
                spread.finish(piece);
            }
            if spread.is_done() {
                break;
            }
            spin_loop();
        }
    };
    game("spread", 1, begin, part, |_| ())
}

fn lock(best: &Mutex<Vec<f64>>) -> MutexGuard<'_, Vec<f64>> {
    best.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where both sides are, and what they have found.
#[derive(Default)]
struct Score {
    begun: AtomicU64,
    ended: AtomicU64,
    sum: AtomicU64,
    /// Nanoseconds that the other side has taken.
    took: AtomicU64,
}

/// Loops, one after the other. `begin` begins one; `part` calls what it is given with each piece
/// that a side gets, and returns when it gets no more. Every piece is done so many `times`. `tell`
/// is told how many nanoseconds each side was at its part.
fn game(
    name: &'static str,
    times: u64,
    begin: impl Fn() + Send + 'static,
    part: impl Fn(usize, &mut dyn FnMut(u32)) + Clone + Send + 'static,
    tell: impl Fn([f64; 2]) + Send + 'static,
) -> Game {
    let score = Arc::new(Score::default());
    let expected = (0..PIECES).map(work).fold(0, u64::wrapping_add).wrapping_mul(times);
    let (here, there, told) = (part.clone(), part, score.clone());
    let (mut loops, mut others) = (0, 0);
    Game::new(
        name,
        move |exchanges| {
            for _ in 0..exchanges {
                loops += 1;
                begin();
                score.begun.store(loops, Ordering::Release);
                let (mut sum, start) = (0u64, Instant::now());
                here(0, &mut |piece| sum = sum.wrapping_add(work(piece)));
                let took = start.elapsed().as_nanos() as f64;
                while score.ended.load(Ordering::Acquire) < loops {
                    spin_loop();
                }
                let other = score.sum.load(Ordering::Relaxed);
                assert_eq!(sum.wrapping_add(other), expected, "{name}: a piece is not done once");
                tell([took, score.took.load(Ordering::Relaxed) as f64]);
            }
        },
        move |exchanges| {
            for _ in 0..exchanges {
                others += 1;
                while told.begun.load(Ordering::Acquire) < others {
                    spin_loop();
                }
                let (mut sum, start) = (0u64, Instant::now());
                there(1, &mut |piece| sum = sum.wrapping_add(work(piece)));
                told.took.store(start.elapsed().as_nanos() as u64, Ordering::Relaxed);
                told.sum.store(sum, Ordering::Relaxed);
                told.ended.store(others, Ordering::Release);
            }
        },
    )
}
