//! Who does what next.

use alloc::boxed::Box;
use core::time::Duration;

use nile_abi::{Instant, NodeId};

use super::crew::{Ahead, State};
use super::queue::Match;
use super::tasks::Try;
use super::{Master, Stage};
use crate::id::{AttemptId, Kind, TaskId};
use crate::message::{Order, Work};
use crate::share::Share;

/// Old attempts that are looked at when a worker has nothing to do.
const LOOKED_AT: usize = 8;

impl Master {
    /// Gives tasks to workers, as long as there are both.
    pub(super) fn schedule(&mut self, now: Instant) {
        if !self.is_at_work() {
            return;
        }
        while let Some(found) = self.queue.next(now, self.locality(), &self.tasks) {
            self.queue.withdraw(&mut self.tasks, found.task);
            if found.task.kind != Kind::Reduce && self.holders(found.task).is_empty() {
                // Its nodes died while it waited.
                self.park(now, found.task);
                self.rest(now, found.slot);
            } else {
                self.assign(now, found);
                self.look_ahead(now, found.slot);
            }
        }
        self.make_room();
        self.second_tries(now);
    }

    /// Gives a worker that has begun a task the next one as well, so that it need not wait for it
    /// then: as long as that leaves one for every worker, and its node has the input.
    fn look_ahead(&mut self, now: Instant, slot: usize) {
        let mate = &self.crew.mates[slot];
        let begins = matches!(mate.state, State::Busy(it) if it.task.kind != Kind::Reduce);
        if !begins || mate.ahead.is_some() || self.queue.pending() <= self.crew.at_hand() {
            return;
        }
        let Some(task) = self.queue.take_local(mate.id.node, &self.tasks) else { return };
        self.queue.withdraw(&mut self.tasks, task);
        let attempt = self.order(now, Match { task, slot, is_local: true });
        self.crew.mates[slot].ahead = Some(Ahead { attempt, is_off: false });
    }

    /// A worker has ended what it did: it begins what it was told to do then, if there is that.
    pub(super) fn go_on(&mut self, now: Instant, slot: usize) {
        let Some(Ahead { attempt, is_off }) = self.crew.mates[slot].ahead.take() else {
            return self.rest(now, slot);
        };
        self.begins(now, slot, attempt);
        if is_off {
            self.crew.set_state(slot, State::Stopping(attempt));
            self.stopping.insert(slot);
            return;
        }
        self.stopping.remove(&slot);
        let started = self.tasks.change(attempt.task, |task| {
            let it = task.running.iter_mut().find(|it| it.attempt == attempt)?;
            Some(core::mem::replace(&mut it.started, now))
        });
        if let Some(started) = started {
            self.running.remove(&(started, attempt));
            self.running.insert((now, attempt));
        }
        self.look_ahead(now, slot);
    }

    fn assign(&mut self, now: Instant, found: Match) {
        let attempt = self.order(now, found);
        self.begins(now, found.slot, attempt);
        if attempt.task.kind == Kind::Reduce {
            self.reducing.insert(attempt, found.slot);
        }
    }

    /// A worker begins an attempt.
    fn begins(&mut self, now: Instant, slot: usize, attempt: AttemptId) {
        let mate = &mut self.crew.mates[slot];
        (mate.told, mate.read) = (0, 0);
        mate.span = self.spans.begin(now, mate.id, attempt);
        self.crew.set_state(slot, State::Busy(attempt));
    }

    /// Tells a worker to do a task, when it has ended what it does.
    fn order(&mut self, now: Instant, found: Match) -> AttemptId {
        let Match { task: id, slot, is_local } = found;
        let (number, again) = self.tasks.change(id, |task| {
            task.numbers += 1;
            (task.numbers, task.numbers > 1 && task.running.is_empty())
        });
        let attempt = AttemptId { epoch: self.epoch, task: id, number };
        self.tasks.change(id, |task| {
            task.running.push(Try { attempt, slot, started: now, gathered: false });
        });
        self.running.insert((now, attempt));
        self.mapping += usize::from(id.kind == Kind::Map);
        self.counters.attempts += 1;
        self.counters.retries += u32::from(again);
        self.counters.local += u32::from(is_local && id.kind == Kind::Map);
        self.brief(now, slot);
        let knows_plan = self.crew.mates[slot].briefed[1];
        let needs_plan = id.kind != Kind::Sample && !knows_plan;
        if let Some(plan) = self.plan.as_ref().filter(|_| needs_plan) {
            self.crew.order(slot, Order::Plan(plan.clone()));
        }
        let work = match id.kind {
            Kind::Reduce => Work::Pieces(self.splits.len() as u32),
            _ => {
                let mut split = self.splits[id.place()].clone();
                split.nodes.retain(|node| !self.dead.contains(node));
                Work::Split(split)
            }
        };
        self.crew.order(slot, Order::Assign { attempt, work });
        self.crew.mates[slot].briefed = [true, knows_plan || needs_plan];
        attempt
    }

    /// Tells a worker what the job is, once it hears orders.
    pub(super) fn brief(&mut self, now: Instant, slot: usize) {
        let mate = &mut self.crew.mates[slot];
        let hears = !matches!(mate.state, State::Joining | State::Over | State::Gone);
        if hears && !core::mem::replace(&mut mate.briefed[0], true) {
            let mut job = self.job.clone();
            if let Share::EarliestDeadline { deadline_ms } = &mut job.share {
                // Clocks of nodes have nothing in common: it is told how long there is left.
                let passed = now.since(self.since).as_millis() as u64;
                *deadline_ms = deadline_ms.saturating_sub(passed).max(1);
            }
            self.crew.order(slot, Order::Job(Box::new(job)));
        }
    }

    /// The nodes that have a task's input and live.
    pub(super) fn holders(&self, id: TaskId) -> alloc::vec::Vec<NodeId> {
        let nodes = self.splits[id.place()].nodes.iter();
        nodes.filter(|node| !self.dead.contains(node)).copied().collect()
    }

    /// A worker has nothing to do.
    pub(super) fn rest(&mut self, now: Instant, slot: usize) {
        self.crew.set_state(slot, State::Idle);
        self.stopping.remove(&slot);
        self.queue.add_worker(now, self.crew.mates[slot].id.node, slot);
    }

    /// How long a worker without input on its node lets others have a task: about as long as one
    /// takes. Workers near the input would have taken it by then, if they were not behind. What a
    /// node does for another it has in its memory besides its own.
    pub(super) fn locality(&self) -> Duration {
        let kind = if self.stage == Stage::Sampling { Kind::Sample } else { Kind::Map };
        let mean = Duration::from_nanos(self.tasks.mean(kind).unwrap_or(0));
        mean.clamp(self.settings.locality, self.settings.locality_most)
    }

    /// If map tasks have to run again while reduce tasks hold all workers and wait for them, some
    /// of these give way.
    fn make_room(&mut self) {
        if self.stage != Stage::Reducing || self.queue.pending() == 0 || self.queue.idle() > 0 {
            return;
        }
        let soon = self.mapping > 0 || !self.stopping.is_empty();
        // One is enough to go on; the youngest has the least to lose.
        let youngest = self.reducing.iter().rev().find(|(attempt, _)| {
            let task = self.tasks.get(attempt.task);
            task.running.iter().any(|it| it.attempt == **attempt && !it.gathered)
        });
        if let (false, Some((attempt, _))) = (soon, youngest) {
            let attempt = *attempt;
            self.call_off(attempt);
            self.requeue(attempt.task);
        }
    }

    /// Ends an attempt that runs: it counts for nothing any more.
    pub(super) fn call_off(&mut self, attempt: AttemptId) {
        let Some(it) = self.tasks.change(attempt.task, |task| task.remove(attempt)) else { return };
        self.forget(it);
        let mate = &mut self.crew.mates[it.slot];
        if mate.state == State::Busy(attempt) {
            self.crew.set_state(it.slot, State::Stopping(attempt));
            self.stopping.insert(it.slot);
        } else if let Some(ahead) = mate.ahead.as_mut().filter(|ahead| ahead.attempt == attempt) {
            ahead.is_off = true;
        } else {
            return;
        }
        self.crew.order(it.slot, Order::Cancel(attempt));
    }

    /// An attempt is not among those that run any more.
    pub(super) fn forget(&mut self, it: Try) {
        self.running.remove(&(it.started, it.attempt));
        self.mapping -= usize::from(it.attempt.task.kind == Kind::Map);
        self.reducing.remove(&it.attempt);
    }

    /// Workers that have nothing to do try what has been running for long a second time.
    fn second_tries(&mut self, now: Instant) {
        if self.queue.idle() == 0 || self.queue.pending() > 0 || self.queue.reduces() > 0 {
            return;
        }
        let slow: alloc::vec::Vec<TaskId> = self
            .running
            .iter()
            .take(LOOKED_AT)
            .filter(|(started, it)| self.is_slow(now, *started, it.task))
            .map(|(_, it)| it.task)
            .collect();
        for task in slow {
            let node = self.tasks.get(task).running.first();
            let node = node.map(|it| self.crew.mates[it.slot].id.node);
            let Some(slot) = self.queue.take_worker(node) else { return };
            self.counters.second_tries += 1;
            self.assign(now, Match { task, slot, is_local: false });
        }
    }

    fn is_slow(&self, now: Instant, started: Instant, task: TaskId) -> bool {
        self.tasks.get(task).running.len() == 1
            && self.slow_from(started, task).is_some_and(|from| from <= now)
    }

    /// From when on an attempt is slow. That another beside it came to nothing says that its input
    /// is hard to have: the next one waits as long as that one did.
    fn slow_from(&self, started: Instant, task: TaskId) -> Option<Instant> {
        let since = started.max(self.tasks.get(task).failed_beside.unwrap_or(started));
        Some(since + self.slow_after(task.kind)?)
    }

    /// After how long an attempt is slow.
    fn slow_after(&self, kind: Kind) -> Option<Duration> {
        let mean = self.tasks.mean(kind).filter(|_| self.settings.straggler > 0)?;
        let long = mean.saturating_mul(u64::from(self.settings.straggler));
        Some(Duration::from_nanos(long) + self.settings.second_try)
    }

    /// When an attempt begins to be slow while a worker has nothing to do.
    pub(super) fn straggler_due(&self) -> Option<Instant> {
        let is_busy = self.queue.pending() > 0 || self.queue.reduces() > 0;
        if !self.is_at_work() || self.queue.idle() == 0 || is_busy {
            return None;
        }
        let oldest = self.running.iter().take(LOOKED_AT);
        let alone = oldest.filter(|(_, it)| self.tasks.get(it.task).running.len() == 1);
        let due = |(started, it): &(Instant, AttemptId)| self.slow_from(*started, it.task);
        alone.filter_map(due).min()
    }
}
