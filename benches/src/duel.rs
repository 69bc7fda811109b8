//! Two threads on two CPUs that play several games with each other, in turns.
//!
//! Both sides of a game meet in it: neither finishes its share before the other has begun its
//! own. So both threads run through the same list of games without further agreement.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::figure::Failure;
use crate::place::{Cpu, Stay};
use crate::rounds::{Times, order};

/// Two sides that play with each other.
pub struct Game {
    /// Who it is.
    pub name: &'static str,
    here: Box<dyn Side>,
    there: Box<dyn Side>,
}

impl Game {
    /// The game `name` between `here`, whose time is taken, and `there`. Each is called with the
    /// number of exchanges to play.
    pub fn new(
        name: &'static str,
        here: impl FnMut(u32) + Send + 'static,
        there: impl FnMut(u32) + Send + 'static,
    ) -> Game {
        Game { name, here: Box::new(Alone(here)), there: Box::new(Alone(there)) }
    }
}

/// One thread's side of a game.
trait Side: Send {
    fn play(&mut self, exchanges: u32);
}

/// A side in cache lines of its own, also where lines are fetched in pairs: it would be slowed
/// down if the other side's state were in one of them.
#[repr(align(128))]
struct Alone<F>(F);

impl<F: FnMut(u32) + Send> Side for Alone<F> {
    fn play(&mut self, exchanges: u32) {
        (self.0)(exchanges);
    }
}

/// How long the games go on.
#[derive(Clone, Copy)]
pub struct Length {
    /// How often each is played.
    pub rounds: usize,
    /// Exchanges that are not timed before those that are, so that the other side has come and
    /// the caches hold what they will.
    pub warm_up: u32,
    /// Exchanges that are timed: few enough that most rounds fit between two interruptions.
    pub timed: u32,
}

/// Plays the games with `here` on the first CPU and `there` on the second, and gives the
/// nanoseconds that an exchange took. Each game has its place in the result as in `games`.
pub fn duel(length: Length, [cpu, other]: [Cpu; 2], games: Vec<Game>) -> Result<Times, Failure> {
    let names: Vec<_> = games.iter().map(|game| game.name).collect();
    let (mut here, mut there): (Vec<_>, Vec<_>) =
        games.into_iter().map(|game| (game.here, game.there)).unzip();
    // Both sides begin or none does: one alone would wait for ever.
    let (ready, refused) = (Barrier::new(2), AtomicBool::new(false));
    let enter = |cpu| -> io::Result<Stay> {
        let stay = Stay::on(cpu);
        refused.fetch_or(stay.is_err(), Ordering::Relaxed);
        ready.wait();
        match refused.load(Ordering::Relaxed) {
            true => Err(io::Error::other("a thread cannot be kept on its CPU")),
            false => stay,
        }
    };
    let mut times = Times::of(names.len());
    thread::scope(|scope| {
        scope.spawn(|| {
            let Ok(_stay) = enter(other) else { return };
            for round in 0..length.rounds {
                for game in order(round, there.len()) {
                    there[game].play(length.warm_up);
                    there[game].play(length.timed);
                }
            }
        });
        let _stay = enter(cpu)?;
        for round in 0..length.rounds {
            for game in order(round, here.len()) {
                here[game].play(length.warm_up);
                let start = Instant::now();
                here[game].play(length.timed);
                let took = start.elapsed().as_nanos() as f64;
                times.0[game].push(took / f64::from(length.timed));
            }
        }
        Ok::<_, io::Error>(())
    })?;
    eprintln!("  threads on {cpu} and {other}, {} rounds of {}", length.rounds, length.timed);
    for (game, name) in names.into_iter().enumerate() {
        eprintln!("  {name:<28} {:>10.1} ns", times.median(game));
    }
    Ok(times)
}
