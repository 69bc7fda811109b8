//! Subjects that work and wait, on one core whose time passes only as they work.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;

use crate::policies::{EarliestDeadline, Fair, Fifo, RealTime};
use crate::{ClassId, Next, Scheduler, Stop, Subject};

pub fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// The four policies that a node has.
pub fn scheduler<T>() -> (Scheduler<T>, [ClassId; 4]) {
    let mut it = Scheduler::default();
    let all = [
        it.install("fifo", Fifo::PRIORITY, Box::<Fifo>::default()),
        it.install("fair", Fair::PRIORITY, Box::<Fair>::default()),
        it.install(
            "earliest_deadline",
            EarliestDeadline::PRIORITY,
            Box::<EarliestDeadline>::default(),
        ),
        it.install("real_time", RealTime::PRIORITY, Box::<RealTime>::default()),
    ];
    (it, all)
}

/// One core: each subject has one task that is ready whenever it is not running.
pub struct Bench {
    pub scheduler: Scheduler<Subject>,
    pub now: Instant,
    /// How long each subject has run.
    pub had: Vec<Duration>,
    /// The longest that each has waited.
    pub waited: Vec<Duration>,
    since: Vec<Instant>,
}

impl Bench {
    pub fn new(scheduler: Scheduler<Subject>, subjects: u32) -> Bench {
        let count = subjects as usize;
        let mut bench = Bench {
            scheduler,
            now: Instant::START,
            had: alloc::vec![Duration::ZERO; count],
            waited: alloc::vec![Duration::ZERO; count],
            since: alloc::vec![Instant::START; count],
        };
        for subject in 0..subjects {
            bench.scheduler.enqueue(Subject(subject), Subject(subject), bench.now);
        }
        bench
    }

    /// Runs what is next, each turn so long, until then.
    pub fn run(&mut self, turn: Duration, until: Instant) {
        while self.now < until {
            match self.scheduler.next(self.now) {
                Next::Run(picked) => {
                    let subject = picked.task;
                    let index = subject.0 as usize;
                    assert_eq!(picked.turn.subject, subject, "a task has run as another's");
                    let waited = self.now.since(self.since[index]);
                    self.waited[index] = self.waited[index].max(waited);
                    let span = picked.slice.min(turn);
                    let start = self.now;
                    self.now = self.now + span;
                    self.had[index] += span;
                    self.scheduler.ran(picked.turn, start, self.now, Stop::Yields);
                    self.since[index] = self.now;
                    self.scheduler.enqueue(subject, subject, self.now);
                }
                Next::Wait(until) => self.now = until,
                Next::Nothing => panic!("everybody is ready"),
            }
        }
    }
}
