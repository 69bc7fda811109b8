//! What workers say, and what the master makes of it.

use alloc::format;
use alloc::vec::Vec;

use nile_abi::Instant;

use super::crew::{Mate, State};
use super::tasks::Done;
use super::{Action, Master, Stage};
use crate::end::{Failure, Fault, JobError, Summary};
use crate::id::{AttemptId, Epoch, Kind, TaskId};
use crate::message::{Lack, Location, Note, Order, Plan, RunningAttempt, ToMaster};
use crate::spans::Outcome;

impl Master {
    /// A message of a worker.
    pub fn receive(&mut self, now: Instant, message: ToMaster) {
        if message.job != self.job.id || self.stage == Stage::Over {
            return;
        }
        if message.epoch > self.epoch {
            return self.retire(Action::Superseded(message.epoch));
        }
        let Some(slot) = self.crew.slot(&message.worker) else { return };
        let mate = &mut self.crew.mates[slot];
        let is_current = message.epoch == self.epoch && message.session == mate.session;
        if !is_current || mate.state == State::Gone || message.machine < mate.machine {
            return;
        }
        if mate.machine == 0 {
            mate.machine = message.machine;
        }
        if message.machine > mate.machine {
            // The machine that was heard before is no more.
            self.release(now, slot);
            self.crew.begin(now, slot);
            return self.turn(now);
        }
        mate.heard = now;
        mate.ask = now + self.settings.silence;
        if let Some(RunningAttempt { attempt, bytes }) = message.running
            && mate.state == State::Busy(attempt)
        {
            mate.read = mate.read.max(bytes);
        }
        let notes = mate.lane.receive(message.notes);
        self.crew.touch(slot);
        for note in notes {
            self.hear(now, slot, note);
            if self.stage == Stage::Over {
                return;
            }
        }
        self.turn(now);
    }

    fn hear(&mut self, now: Instant, slot: usize, note: Note) {
        match note {
            Note::Plan(plan) => self.hear_plan(plan),
            Note::Held { attempt, plan, summary } => self.hear_held(slot, attempt, plan, summary),
            Note::Ready => self.hear_ready(now, slot),
            Note::Done { attempt, summary } => {
                let mate = &mut self.crew.mates[slot];
                mate.read = mate.read.max(summary.read);
                self.free(now, slot, attempt, Outcome::Done);
                self.complete(now, slot, attempt, summary);
            }
            Note::Failed { attempt, failure } => {
                self.free(now, slot, attempt, Outcome::Failed);
                self.fail_attempt(now, slot, attempt, failure);
            }
            Note::Stopped(attempt) => {
                self.free(now, slot, attempt, Outcome::Stopped);
                // It stopped by itself: it gave way to another job.
                if self.drop_attempt(attempt).is_some() {
                    self.queue_if_open(attempt.task);
                }
            }
            Note::Gathered(attempt) => self.hear_gathered(attempt),
            Note::Missing { location, lack } => self.hear_missing(now, slot, location, lack),
            Note::Over => self.crew.set_state(slot, State::Over),
        }
    }

    fn hear_plan(&mut self, plan: Plan) {
        let is_later = self.plan.as_ref().is_none_or(|known| known.epoch < plan.epoch);
        if matches!(self.stage, Stage::Inheriting(_)) && is_later {
            self.plan = Some(plan);
        }
    }

    fn hear_held(&mut self, slot: usize, attempt: AttemptId, plan: Epoch, summary: Summary) {
        match self.stage {
            Stage::Inheriting(_) => self.heirlooms.push((slot, attempt, plan, summary)),
            // The end tells what of it is kept.
            Stage::Deciding(..) | Stage::Closing(..) => {}
            _ => self.adopt(slot, attempt, plan, summary),
        }
    }

    fn hear_ready(&mut self, now: Instant, slot: usize) {
        if self.crew.mates[slot].state != State::Joining {
            return;
        }
        self.rest(now, slot);
        if let Stage::Closing(end, _) = &self.stage {
            let order = Self::farewell(end, &self.crew.mates[slot].id);
            self.crew.order(slot, order);
        } else if self.is_cutting() {
            self.brief(now, slot);
        }
    }

    /// A worker's attempt has ended in some way.
    fn free(&mut self, now: Instant, slot: usize, attempt: AttemptId, outcome: Outcome) {
        let mate = &mut self.crew.mates[slot];
        if mate.state == State::Busy(attempt) || mate.state == State::Stopping(attempt) {
            self.end_span(now, slot, outcome);
            self.go_on(now, slot);
        } else if mate.ahead.is_some_and(|ahead| ahead.attempt == attempt) {
            // It was called off before it began.
            mate.ahead = None;
        }
    }

    /// What a worker has from before this session is used, if it fits.
    pub(super) fn adopt(&mut self, slot: usize, attempt: AttemptId, plan: Epoch, summary: Summary) {
        let ours = self.plan.as_ref().map_or(Epoch::NONE, |plan| plan.epoch);
        // Without bounds there is one plan, and before they are known there is none.
        let is_planned = self.plan.is_some() || !self.job.is_sampled();
        let is_known = attempt.task.kind != Kind::Sample && self.tasks.has(attempt.task);
        let fits = is_known && is_planned && plan == ours;
        if fits && self.tasks.get(attempt.task).done.is_none() {
            self.counters.inherited += 1;
            self.accept(slot, attempt, summary);
        } else {
            self.crew.order(slot, Order::Drop(attempt));
        }
    }

    /// An attempt that runs is done.
    fn complete(&mut self, now: Instant, slot: usize, attempt: AttemptId, summary: Summary) {
        let was = self.drop_attempt(attempt);
        if let Some(it) = was {
            self.tasks.spend(attempt.task.kind, now.since(it.started).as_nanos() as u64);
        }
        let is_wanted = was.is_some() && self.tasks.get(attempt.task).done.is_none();
        if is_wanted && attempt.task.kind == Kind::Sample {
            self.samples.push(summary.sample.0.clone());
        }
        if is_wanted {
            self.accept(slot, attempt, summary);
        } else if attempt.task.kind != Kind::Sample {
            self.crew.order(slot, Order::Drop(attempt));
        }
    }

    /// The output of this attempt is the one that counts.
    fn accept(&mut self, slot: usize, attempt: AttemptId, summary: Summary) {
        let task = attempt.task;
        self.counters.read += summary.read;
        self.counters.written += summary.written;
        self.counters.spilled += summary.spilled;
        self.queue.withdraw(&mut self.tasks, task);
        let others = self.tasks.change(task, |it| {
            it.sums = Some((summary.records, summary.checksum));
            it.unread = None;
            it.done = Some(Done { attempt, slot, summary });
            it.running.iter().map(|other| other.attempt).collect::<Vec<_>>()
        });
        self.parked.remove(&task);
        others.into_iter().for_each(|other| self.call_off(other));
        if task.kind == Kind::Sample {
            return;
        }
        self.crew.mates[slot].has.insert(task);
        if task.kind == Kind::Map {
            self.lost.remove(&task.index);
            self.outputs.push(Location { output: attempt, at: self.crew.mates[slot].id });
            for slot in self.reducing.values() {
                self.crew.touch(*slot);
            }
        }
    }

    /// Takes an attempt from those that run.
    fn drop_attempt(&mut self, attempt: AttemptId) -> Option<super::tasks::Try> {
        if !self.tasks.has(attempt.task) {
            return None;
        }
        let it = self.tasks.change(attempt.task, |task| task.remove(attempt))?;
        self.forget(it);
        Some(it)
    }

    fn fail_attempt(&mut self, now: Instant, slot: usize, attempt: AttemptId, failure: Failure) {
        if self.drop_attempt(attempt).is_none() {
            return;
        }
        let (node, kind) = (self.crew.mates[slot].id.node, attempt.task.kind);
        let (failures, is_open) = self.tasks.change(attempt.task, |task| {
            if failure.fault != Fault::Input {
                task.failures += 1;
                task.avoid = Some(node);
            }
            if !task.running.is_empty() {
                task.failed_beside = Some(now);
            }
            (task.failures, task.is_open())
        });
        if failures >= self.settings.attempts {
            let error = JobError::Task { task: attempt.task, failure };
            self.decide(now, crate::End::Failed(error));
        } else if is_open && failure.fault == Fault::Input && kind != Kind::Reduce {
            self.park(now, attempt.task);
        } else if is_open {
            self.requeue(attempt.task);
        }
    }

    fn hear_gathered(&mut self, attempt: AttemptId) {
        if attempt.task.kind != Kind::Reduce || !self.tasks.has(attempt.task) {
            return;
        }
        self.tasks.change(attempt.task, |task| {
            if let Some(it) = task.running.iter_mut().find(|it| it.attempt == attempt) {
                it.gathered = true;
            }
        });
    }

    /// An output cannot be had from who made it. It is made again; but if that happens again and
    /// again, the job ends, as it would go on so for ever.
    fn hear_missing(&mut self, now: Instant, slot: usize, location: Location, lack: Lack) {
        let Location { output, at } = location;
        let task: TaskId = output.task;
        if task.kind != Kind::Map || !self.tasks.has(task) {
            return;
        }
        let done = &self.tasks.get(task).done;
        let Some(owner) = done.as_ref().filter(|it| it.attempt == output) else { return };
        let owner = owner.slot;
        self.crew.order(owner, Order::Drop(output));
        self.crew.mates[owner].has.remove(&task);
        self.lose_output(task);
        let times = self.tasks.change(task, |it| {
            it.missing += 1;
            it.missing
        });
        let Mate { id: by, state, .. } = &self.crew.mates[slot];
        if times >= self.settings.missing
            && let State::Busy(reduce) = state
        {
            let cause = match lack {
                Lack::Late => "it did not come, however often it was asked for",
                Lack::Gone => "it is not there any more",
            };
            let text = format!(
                "the piece of {output} on {at} cannot be had by {by}: {cause}; {task} was made \
                 {times} times"
            );
            let failure = Failure { fault: Fault::Input, text };
            let error = JobError::Task { task: reduce.task, failure };
            self.decide(now, crate::End::Failed(error));
        }
    }
}
