//! The course of a job: what workers have from before, samples, bounds, map tasks, reduce tasks,
//! the end.

use alloc::vec::Vec;
use core::mem;

use nile_abi::Instant;

use super::crew::State;
use super::{Action, Master, Stage};
use crate::end::{End, JobError, Part, Sums, Verdict};
use crate::id::{Kind, TaskId, WorkerId};
use crate::message::Order;

impl Master {
    /// Whether tasks are given out.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.stage, Stage::Sampling | Stage::Mapping | Stage::Reducing)
    }

    /// Goes on to what can be done now.
    pub(super) fn advance(&mut self, now: Instant) {
        match &self.stage {
            Stage::Inheriting(until) => {
                let all_said = !self.crew.are_joining() && !self.crew.all_gone();
                if *until <= now || all_said {
                    self.inherit(now);
                }
            }
            Stage::Sampling if self.tasks.left(Kind::Sample) == 0 => {
                self.have_bounds_cut(now);
            }
            Stage::Deciding(end, again) if *again <= now => {
                let end = end.clone();
                self.ask_record(now, end);
            }
            Stage::Closing(end, until) if *until <= now || self.crew.all_know() => {
                let end = end.clone();
                self.retire(Action::Over(end));
            }
            _ => {}
        }
        let patience = self.settings.block_patience;
        let needs_workers = self.is_at_work() || self.is_cutting();
        if needs_workers && self.idle_since.is_some_and(|since| since + patience <= now) {
            self.decide(now, End::Failed(JobError::NoWorkers));
        }
        self.place(now);
        let maps_are_done = self.tasks.left(Kind::Map) == 0 || self.tasks.hungry() == 0;
        if self.stage == Stage::Mapping && maps_are_done {
            self.stage = Stage::Reducing;
            self.unplaced.extend(ids(Kind::Reduce, self.tasks.count(Kind::Reduce)));
            self.place(now);
        }
        let sums_are_known = !self.job.conserves || self.tasks.unsummed() == 0;
        if self.stage == Stage::Reducing && self.tasks.left(Kind::Reduce) == 0 && sums_are_known {
            self.finish(now);
        }
    }

    /// Takes what workers have from former masters' time, and begins.
    pub(super) fn inherit(&mut self, now: Instant) {
        if self.plan.is_some() || !self.job.is_sampled() {
            self.stage = Stage::Mapping;
            for (slot, attempt, plan, summary) in mem::take(&mut self.heirlooms) {
                self.adopt(slot, attempt, plan, summary);
            }
            return self.start_mapping(now);
        }
        self.stage = Stage::Sampling;
        for (slot, attempt, ..) in mem::take(&mut self.heirlooms) {
            self.crew.order(slot, Order::Drop(attempt));
        }
        if self.splits.is_empty() {
            // The code that has bounds cut relies on them, also where there is nothing to divide.
            return self.have_bounds_cut(now);
        }
        // Evenly over the input.
        let samples = (self.job.samples as usize).min(self.splits.len());
        let chosen = (0..samples).map(|place| place * self.splits.len() / samples);
        let id = |place: usize| TaskId { kind: Kind::Sample, index: place as u32 };
        self.unplaced.extend(chosen.map(id));
        self.place(now);
    }

    fn have_bounds_cut(&mut self, now: Instant) {
        self.stage = Stage::Cutting;
        let samples = mem::take(&mut self.samples);
        self.actions.push_back(Action::Cut(samples));
        // Whoever has taken samples may be gone: each of the others can cut as well.
        (0..self.crew.mates.len()).for_each(|slot| self.brief(now, slot));
    }

    pub(super) fn start_mapping(&mut self, now: Instant) {
        self.stage = Stage::Mapping;
        let open = |id: &TaskId| self.tasks.get(*id).is_open();
        let maps = ids(Kind::Map, self.splits.len());
        self.lost = maps.filter(open).map(|id| id.index).collect();
        self.place(now);
    }

    /// Every part is there: the job ends, if no record was lost on the way.
    fn finish(&mut self, now: Instant) {
        let sums = |kind| {
            let sums = self.tasks.of(kind).iter().filter_map(|task| task.sums);
            sums.fold((0u64, 0u64), |(records, checksum), it| {
                (records.wrapping_add(it.0), checksum.wrapping_add(it.1))
            })
        };
        let (read, written) = (sums(Kind::Map), sums(Kind::Reduce));
        if self.job.conserves && read != written {
            let sums = |(records, checksum)| Sums { records, checksum };
            let (read, written) = (sums(read), sums(written));
            return self.decide(now, End::Failed(JobError::Invalid { read, written }));
        }
        let part = |task: &super::tasks::Task| {
            let done = task.done.as_ref()?;
            Some(Part {
                attempt: done.attempt,
                at: self.crew.mates[done.slot].id,
                bytes: done.summary.written,
                records: done.summary.records,
                checksum: done.summary.checksum,
            })
        };
        let parts: Vec<Part> = self.tasks.of(Kind::Reduce).iter().filter_map(part).collect();
        let total: u64 = parts.iter().map(|part| part.bytes).sum();
        let longest = parts.iter().map(|part| part.bytes).max().unwrap_or(0);
        let thousandths = longest.saturating_mul(1000).saturating_mul(parts.len() as u64);
        self.counters.imbalance = thousandths.checked_div(total).unwrap_or(1000) as u32;
        self.decide(now, End::Published(parts));
    }

    /// The job is to end, unless it is already to end.
    pub(super) fn decide(&mut self, now: Instant, end: End) {
        if !matches!(self.stage, Stage::Deciding(..) | Stage::Closing(..) | Stage::Over) {
            self.queue.clear();
            self.ask_record(now, end);
        }
    }

    fn ask_record(&mut self, now: Instant, end: End) {
        self.actions.push_back(Action::Decide(end.clone()));
        self.stage = Stage::Deciding(end, now + self.settings.silence);
    }

    /// What the job's record says, as [`Action::Decide`] asked.
    pub fn decided(&mut self, now: Instant, verdict: Verdict) {
        match verdict {
            Verdict::Superseded(epoch) if self.stage != Stage::Over => {
                self.retire(Action::Superseded(epoch));
            }
            Verdict::Ended(end) if matches!(self.stage, Stage::Deciding(..)) => {
                for slot in 0..self.crew.mates.len() {
                    let mate = &self.crew.mates[slot];
                    if !matches!(mate.state, State::Gone | State::Joining | State::Over) {
                        let order = Self::farewell(&end, &mate.id);
                        self.crew.order(slot, order);
                    }
                }
                self.stage = Stage::Closing(end, now + self.settings.closing);
            }
            _ => {}
        }
        self.turn(now);
    }

    /// What a worker is told when the job has ended.
    pub(super) fn farewell(end: &End, worker: &WorkerId) -> Order {
        let parts = match end {
            End::Published(parts) => parts.as_slice(),
            End::Failed(_) => &[],
        };
        let mine = parts.iter().filter(|part| part.at == *worker);
        Order::End(mine.map(|part| part.attempt).collect())
    }
}

/// The tasks of a sort.
fn ids(kind: Kind, count: usize) -> impl Iterator<Item = TaskId> {
    (0..count as u32).map(move |index| TaskId { kind, index })
}
