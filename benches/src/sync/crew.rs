//! Threads that work with one map for a time.

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::client::{Batch, Client, batches, keys};
use crate::figure::Failure;
use crate::place::{Cpu, Stay};

/// A map and its clients.
pub struct Contestant {
    /// Who it is.
    pub name: &'static str,
    /// One for each thread.
    pub clients: Vec<Box<dyn Client>>,
    /// Additions so far.
    pub adds: u64,
}

impl Contestant {
    /// A map that nobody has added to.
    pub fn new(
        name: &'static str,
        clients: impl Iterator<Item = impl Client + 'static>,
    ) -> Contestant {
        let clients = clients.map(|client| Box::new(client) as Box<dyn Client>).collect();
        Contestant { name, clients, adds: 0 }
    }

    /// That a value was read which nobody wrote, or an addition was lost, is no figure.
    pub fn failure(&self, what: &str) -> Failure {
        Failure::System(io::Error::other(format!("{}: {what}", self.name)))
    }

    /// Whether the map has each addition, now that nobody adds.
    pub fn check(&mut self, count: u32) -> Result<(), Failure> {
        let mut sum = 0;
        for key in keys(count) {
            let value = self.clients[0].get(key);
            if !value.is_whole(key) {
                return Err(self.failure("a value is not whole"));
            }
            sum += value.count;
        }
        match sum == self.adds {
            true => Ok(()),
            false => Err(self.failure(&format!("{sum} additions of {}", self.adds))),
        }
    }
}

/// What each of so many threads does, for a map of so many keys.
pub fn plans(count: u32, threads: usize) -> Vec<Vec<Batch>> {
    (1..=threads as u64).map(|seed| batches(count, seed)).collect()
}

/// What a thread has done.
#[derive(Default)]
struct Done {
    batches: u64,
    adds: u64,
    torn: u64,
}

/// Has each client work by its plan on its CPU, one CPU after the other, until the time is over;
/// the nanoseconds of an operation, as if there were one thread.
pub fn turn(
    cpus: [Cpu; 2],
    contestant: &mut Contestant,
    plans: &[Vec<Batch>],
    time: Duration,
) -> Result<f64, Failure> {
    let (ready, is_over) = (Barrier::new(plans.len() + 1), AtomicBool::new(false));
    let work = |client: &mut dyn Client, plan: &[Batch], cpu| -> io::Result<Done> {
        let stay = Stay::on(cpu);
        ready.wait();
        let _stay = stay?;
        let mut done = Done::default();
        for batch in plan.iter().cycle() {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            done.torn += client.batch(batch);
            done.adds += batch.adds;
            done.batches += 1;
        }
        Ok(done)
    };
    let mut begin = Instant::now();
    let all: io::Result<Vec<Done>> = thread::scope(|scope| {
        let each = contestant.clients.iter_mut().zip(plans);
        let mut threads = Vec::new();
        for ((client, plan), cpu) in each.zip(cpus.into_iter().cycle()) {
            let work = &work;
            threads.push(scope.spawn(move || work(client.as_mut(), plan, cpu)));
        }
        ready.wait();
        begin = Instant::now();
        thread::sleep(time);
        is_over.store(true, Ordering::Relaxed);
        threads.into_iter().map(|it| it.join().expect("a client does not panic")).collect()
    });
    let took = begin.elapsed().as_nanos() as f64;
    let all = all?;
    contestant.adds += all.iter().map(|done| done.adds).sum::<u64>();
    if all.iter().any(|done| done.torn > 0) {
        return Err(contestant.failure("a value was read that nobody wrote"));
    }
    let batches: u64 = all.iter().map(|done| done.batches).sum();
    Ok(took / (batches.max(1) * super::client::BATCH as u64) as f64)
}
