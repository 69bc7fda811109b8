//! The attempts of a job as its master saw them: which worker had which one, from when to when, and
//! what came of it. Times are the master's: an attempt begins when it is given to its worker and
//! ends when its master hears of that, so no two of one worker ever overlap.

use alloc::vec::Vec;

use nile_abi::Instant;

use crate::id::{AttemptId, WorkerId};

/// Attempts that are kept of a job. Later ones are only counted.
pub const MOST_SPANS: usize = 512;

/// An attempt in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// Who had it.
    pub worker: WorkerId,
    /// Which it is.
    pub attempt: AttemptId,
    /// When it was given to the worker.
    pub begun: Instant,
    /// When it was over, and how it ended; none while it runs. What still runs when the job ends
    /// stays without.
    pub over: Option<(Instant, Outcome)>,
    /// Bytes that it has read, as far as its worker has said.
    pub read: u64,
}

/// What came of an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was done, whether it counts or another one of the task does.
    Done,
    /// It came to nothing.
    Failed,
    /// It was called off, and has stopped.
    Stopped,
    /// Its worker was silent for too long, or is no more.
    Lost,
}

/// The first attempts of a job, in the order in which they began.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    kept: Vec<Span>,
    lost: u32,
}

impl Spans {
    /// A worker is given an attempt; the span's place, unless there is no room for it.
    pub fn begin(&mut self, now: Instant, worker: WorkerId, attempt: AttemptId) -> Option<usize> {
        if self.kept.len() == MOST_SPANS {
            self.lost = self.lost.saturating_add(1);
            return None;
        }
        self.kept.push(Span { worker, attempt, begun: now, over: None, read: 0 });
        Some(self.kept.len() - 1)
    }

    /// The attempt at `place` is over.
    pub fn end(&mut self, now: Instant, place: usize, outcome: Outcome, read: u64) {
        if let Some(span) = self.kept.get_mut(place).filter(|span| span.over.is_none()) {
            (span.over, span.read) = (Some((now, outcome)), read);
        }
    }

    /// Those that are kept.
    pub fn kept(&self) -> &[Span] {
        &self.kept
    }

    /// How many attempts there was no room for.
    pub fn lost(&self) -> u32 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use nile_abi::{CoreId, Generation, NodeId};

    use super::*;
    use crate::{Epoch, Kind, TaskId};

    #[test]
    fn what_there_is_no_room_for_is_counted() {
        let worker = WorkerId {
            node: NodeId(1),
            life: Generation(1),
            core: CoreId(2),
            generation: Generation(1),
        };
        let attempt = |index| AttemptId {
            epoch: Epoch::FIRST,
            task: TaskId { kind: Kind::Map, index },
            number: 1,
        };
        let at = Instant::from_nanos;
        let mut spans = Spans::default();
        for index in 0..MOST_SPANS as u32 {
            let now = at(10 * u64::from(index));
            let place = spans.begin(now, worker, attempt(index)).expect("there is room");
            spans.end(at(now.as_nanos() + 10), place, Outcome::Done, 7);
            spans.end(at(now.as_nanos() + 99), place, Outcome::Lost, 8);
        }
        assert_eq!(spans.begin(at(1), worker, attempt(0)), None);
        assert_eq!((spans.kept().len(), spans.lost()), (MOST_SPANS, 1));
        let third = spans.kept()[2];
        assert_eq!((third.attempt, third.begun), (attempt(2), at(20)));
        assert_eq!((third.over, third.read), (Some((at(30), Outcome::Done)), 7), "it ends once");
    }
}
