//! What is lost, and how it is made again.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use nile_abi::Instant;
use nile_order::SortedSet;

use super::crew::State;
use super::{Master, Stage};
use crate::end::{End, JobError, Lost, MOST_LOST};
use crate::id::{Kind, TaskId};
use crate::job::Split;
use crate::spans::Outcome;

/// After how long it is looked again whether a split can be read.
const RECHECK: Duration = Duration::from_millis(250);

impl Master {
    /// A worker's incarnation has ended.
    pub(super) fn dismiss(&mut self, now: Instant, slot: usize) {
        if matches!(self.crew.mates[slot].state, State::Gone) {
            return;
        }
        self.counters.gone_workers += 1;
        self.release(now, slot);
        self.crew.set_state(slot, State::Gone);
        self.crew.touch(slot);
        self.idle_since = self.crew.all_gone().then_some(now);
    }

    /// What a worker did and had is lost to the job.
    pub(super) fn release(&mut self, now: Instant, slot: usize) {
        self.end_span(now, slot, Outcome::Lost);
        let mate = &mut self.crew.mates[slot];
        let (node, state) = (mate.id.node, mate.state);
        let has = mem::take(&mut mate.has);
        let ahead = mate.ahead.take().map(|ahead| ahead.attempt);
        self.stopping.remove(&slot);
        self.heirlooms.retain(|(owner, ..)| *owner != slot);
        let busy = match state {
            State::Idle => {
                self.queue.remove_worker(node, slot);
                None
            }
            State::Busy(attempt) => Some(attempt),
            _ => None,
        };
        for attempt in busy.into_iter().chain(ahead) {
            if let Some(it) = self.tasks.change(attempt.task, |task| task.remove(attempt)) {
                self.forget(it);
            }
            self.queue_if_open(attempt.task);
        }
        for task in has {
            self.lose_output(task);
            if task.kind == Kind::Reduce {
                self.queue_if_open(task);
            }
        }
    }

    /// The output of a task is not there any more. That of a map task is made again when a reduce
    /// task needs it.
    pub(super) fn lose_output(&mut self, task: TaskId) {
        self.tasks.change(task, |it| it.done = None);
        if task.kind == Kind::Map {
            self.lost.insert(task.index);
        }
    }

    /// A task is to be done again, unless it is done or under way.
    pub(super) fn queue_if_open(&mut self, task: TaskId) {
        if self.tasks.get(task).is_open() {
            self.requeue(task);
        }
    }

    /// A task that came to nothing is to be done again.
    pub(super) fn requeue(&mut self, task: TaskId) {
        match task.kind {
            Kind::Map => drop(self.lost.insert(task.index)),
            Kind::Sample | Kind::Reduce => drop(self.unplaced.insert(task)),
        }
    }

    /// Puts everything in its queue that has to be done and can be done now.
    pub(super) fn place(&mut self, now: Instant) {
        if !self.is_at_work() {
            return;
        }
        for task in mem::take(&mut self.unplaced) {
            match task.kind {
                _ if !self.tasks.get(task).is_open() => {}
                Kind::Reduce => self.queue.add_reduce(now, &mut self.tasks, task),
                _ => self.place_input(now, task),
            }
        }
        let sums_are_needed = self.job.conserves && self.tasks.unsummed() > 0;
        if self.stage == Stage::Sampling || (self.tasks.hungry() == 0 && !sums_are_needed) {
            return;
        }
        for index in mem::take(&mut self.lost) {
            let task = TaskId { kind: Kind::Map, index };
            if self.tasks.get(task).is_open() && !self.parked.contains(&task) {
                self.place_input(now, task);
            }
        }
    }

    fn place_input(&mut self, now: Instant, task: TaskId) {
        let holders = self.holders(task);
        if holders.is_empty() {
            self.park(now, task);
        } else {
            self.queue.add_input(now, &mut self.tasks, task, &holders);
        }
    }

    /// A split cannot be read now.
    pub(super) fn park(&mut self, now: Instant, task: TaskId) {
        // What could not be read long ago, and was not tried since, is another story.
        let spell = self.settings.block_patience / 2;
        self.tasks.change(task, |it| {
            let since = it.unread.filter(|(_, last)| *last + spell > now).map(|(since, _)| since);
            it.unread = Some((since.unwrap_or(now), now));
        });
        self.parked.insert(task);
        self.recheck = Some(self.recheck.unwrap_or(now + RECHECK));
    }

    /// Looks again at splits that could not be read.
    pub(super) fn recheck(&mut self, now: Instant) {
        if self.recheck.is_none_or(|at| at > now) {
            return;
        }
        self.recheck = None;
        if !self.is_at_work() {
            return;
        }
        let parked: SortedSet<TaskId> = mem::take(&mut self.parked);
        let is_lost = |task: &TaskId| {
            let unread = self.tasks.get(*task).unread;
            unread.is_some_and(|(since, _)| since + self.settings.block_patience <= now)
        };
        let lost: Vec<u32> =
            parked.iter().filter(|task| is_lost(task)).map(|task| task.index).collect();
        if !lost.is_empty() {
            let error = JobError::LostBlocks(self.blocks_of(&lost));
            return self.decide(now, End::Failed(error));
        }
        for task in parked {
            if self.tasks.get(task).is_open() {
                self.place_input(now, task);
            }
        }
    }

    /// The blocks of some splits, in their order; those of neighbours together.
    fn blocks_of(&self, splits: &[u32]) -> Vec<Lost> {
        let mut lost: Vec<Lost> = Vec::new();
        for index in splits {
            let Split { dataset, block, blocks, .. } = self.splits[*index as usize];
            let follows = |last: &&mut Lost| {
                last.dataset == dataset && last.block.checked_add(last.blocks) == Some(block)
            };
            if let Some(last) = lost.last_mut().filter(follows) {
                last.blocks = last.blocks.saturating_add(blocks);
            } else if lost.len() < MOST_LOST {
                lost.push(Lost { dataset, block, blocks });
            }
        }
        lost
    }
}
