//! A graph, and what of it is not in the log yet. What comes is applied at once; it is *kept* when
//! the record that has it is in the log, and only then may its source forget it.
//!
//! Records are made one at a time: what comes while one is on its way makes the next (group
//! commit). If a record cannot be put, it is tried again, and nothing that was taken is forgotten
//! meanwhile; when too much waits, nothing more is taken.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::generation::Saving;
use crate::graph::{Graph, Offered};
use crate::segment::{Call, Segment};

/// About how many bytes may wait for the log.
pub const MOST_WAITING: usize = 1 << 20;

/// The most bytes of one record, about.
const RECORD: usize = 256 << 10;

/// The most parts of sources that are kept although they are no events.
pub const MOST_REJECTS: usize = 4096;

/// A graph whose events go to a log.
pub struct Live {
    /// The graph.
    pub graph: Graph,
    /// The number that no other graph ever had.
    number: u64,
    waiting: VecDeque<Call>,
    weight: usize,
    /// How many calls are under way to the log.
    under_way: usize,
    /// How many calls were taken, and how many of these are in the log.
    taken: u64,
    kept: u64,
    /// Bytes of the records since the last generation.
    logged: usize,
}

impl Live {
    /// Nothing waits.
    pub fn new(graph: Graph, number: u64) -> Live {
        let waiting = VecDeque::new();
        Live { graph, number, waiting, weight: 0, under_way: 0, taken: 0, kept: 0, logged: 0 }
    }

    /// The number that no other graph ever had.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes a call. Gives what became of it, and the mark at which it is kept. `None` if nothing
    /// was taken, since too much waits already.
    pub fn offer(&mut self, now: u64, mut call: Call) -> Option<(Offered, u64)> {
        let is_rejected = self.graph.rejected() + call.rejects.len() > MOST_REJECTS;
        if self.weight > MOST_WAITING || is_rejected && !call.rejects.is_empty() {
            return None;
        }
        let offered = self.graph.offer(now, &mut call);
        if offered.new > 0 || call.until > 0 || !call.covers.is_empty() {
            self.weight += call.weight();
            self.taken += 1;
            self.waiting.push_back(call);
        }
        Some((offered, self.taken))
    }

    /// Whether anything waits for the log.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether a record is under way to the log.
    pub fn is_putting(&self) -> bool {
        self.under_way > 0
    }

    /// What has been taken so far is kept when the log has come to this mark.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Up to which mark all is kept.
    pub fn kept(&self) -> u64 {
        self.kept
    }

    /// The record that is to be put next, if anything waits. It stays the same until it is
    /// [logged](Live::logged).
    pub fn record(&mut self, number: u64) -> Option<Segment> {
        if self.under_way == 0 {
            let mut weight = 0;
            let fits = |call: &&Call| {
                weight += call.weight();
                weight <= RECORD
            };
            let fit = self.waiting.iter().take_while(fits).count();
            self.under_way = fit.max(1).min(self.waiting.len());
        }
        let calls: Vec<Call> = self.waiting.iter().take(self.under_way).cloned().collect();
        (!calls.is_empty()).then_some(Segment { graph: self.number, number, calls })
    }

    /// The record is in the log, in so many bytes.
    pub fn logged(&mut self, bytes: usize) {
        for call in self.waiting.drain(..self.under_way) {
            self.weight -= call.weight();
            self.kept += 1;
        }
        self.under_way = 0;
        self.logged += bytes;
    }

    /// Nothing that waits is to be logged: the graph is in memory only.
    pub fn forget_waiting(&mut self) {
        self.kept += self.waiting.drain(..).count() as u64;
        (self.weight, self.under_way) = (0, 0);
    }

    /// How many bytes of records there are since the last generation.
    pub fn since_generation(&self) -> usize {
        self.logged
    }

    /// The generation that was wanted, once it has begun: what is logged from here on counts.
    pub fn begin_generation(&mut self) -> Option<Saving> {
        let saving = self.graph.take_generation()?;
        self.logged = 0;
        Some(saving)
    }
}
