//! Tasks that wait for workers, and workers that wait for tasks. A task with input is in the queue
//! of every node that has a copy, and in one queue of all; what is taken from one is found stale
//! in the others. So no step looks at all tasks or at all workers.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, NodeId};
use nile_order::{SortedMap, SortedSet};

use super::tasks::Tasks;
use crate::id::{Kind, TaskId};

/// What waits.
#[derive(Debug, Default)]
pub struct Queue {
    nodes: SortedMap<NodeId, Local>,
    /// Nodes with idle workers, by how many.
    crowd: SortedSet<(usize, NodeId)>,
    /// Idle workers, in the order in which they began to be.
    rested: SortedSet<(Instant, usize)>,
    /// Tasks with input, in the order in which they began to wait.
    waiting: VecDeque<(Instant, TaskId)>,
    /// Partitions that wait.
    reduces: VecDeque<u32>,
    /// Nodes that have gained a task or a worker.
    fresh: SortedSet<NodeId>,
    /// Tasks with input that wait.
    pending: usize,
    /// Entries that were looked at.
    pub steps: u64,
}

/// What waits on one node.
#[derive(Debug, Default)]
struct Local {
    /// Idle workers, and since when they are.
    idle: Vec<(Instant, usize)>,
    tasks: VecDeque<(Instant, TaskId)>,
}

/// A task for a worker.
#[derive(Clone, Copy, Debug)]
pub struct Match {
    pub task: TaskId,
    pub slot: usize,
    /// Whether the worker's node has the input.
    pub is_local: bool,
}

impl Queue {
    /// How many tasks with input wait.
    pub fn pending(&self) -> usize {
        self.pending
    }

    /// How many workers wait.
    pub fn idle(&self) -> usize {
        self.rested.len()
    }

    /// How many partitions wait, stale entries included.
    pub fn reduces(&self) -> usize {
        self.reduces.len()
    }

    /// A worker of a node has nothing to do.
    pub fn add_worker(&mut self, now: Instant, node: NodeId, slot: usize) {
        self.change(node, |local| local.idle.push((now, slot)));
        self.rested.insert((now, slot));
        self.fresh.insert(node);
    }

    /// A worker is not to be given anything.
    pub fn remove_worker(&mut self, node: NodeId, slot: usize) {
        let former = self.change(node, |local| {
            let place = local.idle.iter().position(|(_, it)| *it == slot);
            place.map(|place| local.idle.remove(place))
        });
        self.leave(former);
    }

    /// A worker is not idle any more.
    fn leave(&mut self, worker: Option<(Instant, usize)>) -> Option<usize> {
        let worker = worker?;
        self.rested.remove(&worker);
        Some(worker.1)
    }

    fn change<T>(&mut self, node: NodeId, change: impl FnOnce(&mut Local) -> T) -> T {
        let local = self.nodes.entry(node).or_default();
        let before = local.idle.len();
        let result = change(local);
        let after = local.idle.len();
        if before != after {
            self.crowd.remove(&(before, node));
            if after > 0 {
                self.crowd.insert((after, node));
            }
        }
        result
    }

    /// A task begins to wait, whose input these nodes have.
    pub fn add_input(&mut self, now: Instant, tasks: &mut Tasks, id: TaskId, nodes: &[NodeId]) {
        tasks.change(id, |task| task.pending = Some(now));
        self.pending += 1;
        self.waiting.push_back((now, id));
        for node in nodes {
            self.nodes.entry(*node).or_default().tasks.push_back((now, id));
            self.fresh.insert(*node);
        }
    }

    /// A partition begins to wait.
    pub fn add_reduce(&mut self, now: Instant, tasks: &mut Tasks, id: TaskId) {
        tasks.change(id, |task| task.pending = Some(now));
        self.reduces.push_back(id.index);
    }

    /// A task waits no more.
    pub fn withdraw(&mut self, tasks: &mut Tasks, id: TaskId) {
        let was_pending = tasks.change(id, |task| task.pending.take()).is_some();
        if was_pending && id.kind != Kind::Reduce {
            self.pending -= 1;
        }
    }

    /// Nothing waits any more but workers.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.reduces.clear();
        self.nodes.values_mut().for_each(|local| local.tasks.clear());
        self.pending = 0;
    }

    /// A task and a worker for it, if any go together now. A worker is given a task whose input is
    /// elsewhere only when both have waited for so long.
    pub fn next(&mut self, now: Instant, locality: Duration, tasks: &Tasks) -> Option<Match> {
        let found = self
            .next_local(tasks)
            .or_else(|| self.next_anywhere(now, locality, tasks))
            .or_else(|| self.next_reduce(tasks))?;
        Some(found)
    }

    /// A task whose input is on a node, for one of its workers that is not idle yet.
    pub fn take_local(&mut self, node: NodeId, tasks: &Tasks) -> Option<TaskId> {
        let local = self.nodes.get_mut(&node)?;
        while let Some((since, task)) = local.tasks.pop_front() {
            self.steps += 1;
            let it = tasks.get(task);
            if it.pending == Some(since) && it.avoid != Some(node) {
                return Some(task);
            }
        }
        None
    }

    fn next_local(&mut self, tasks: &Tasks) -> Option<Match> {
        while let Some(node) = self.fresh.first().copied() {
            let mut steps = 0;
            let found = self.change(node, |local| {
                while !local.idle.is_empty()
                    && let Some((since, task)) = local.tasks.pop_front()
                {
                    steps += 1;
                    let it = tasks.get(task);
                    // Where it failed it is not tried first; it waits in the queue of all, too.
                    if it.pending == Some(since) && it.avoid != Some(node) {
                        return Some((task, local.idle.pop()?));
                    }
                }
                None
            });
            self.steps += 1 + steps;
            if let Some((task, worker)) = found {
                let slot = self.leave(Some(worker))?;
                return Some(Match { task, slot, is_local: true });
            }
            self.fresh.remove(&node);
        }
        None
    }

    /// The task that has waited longest for a worker near its input, if it has waited long enough,
    /// and a worker has.
    fn next_anywhere(&mut self, now: Instant, locality: Duration, tasks: &Tasks) -> Option<Match> {
        while let Some((since, task)) = self.waiting.front().copied() {
            self.steps += 1;
            if tasks.get(task).pending != Some(since) {
                self.waiting.pop_front();
                continue;
            }
            if self.rested_since()?.max(since) + locality > now {
                return None;
            }
            let slot = self.take_worker(tasks.get(task).avoid)?;
            self.waiting.pop_front();
            return Some(Match { task, slot, is_local: false });
        }
        None
    }

    fn next_reduce(&mut self, tasks: &Tasks) -> Option<Match> {
        // Reduce tasks need the map tasks before them, and would only hold their workers.
        if self.pending > 0 {
            return None;
        }
        while let Some(index) = self.reduces.front().copied() {
            self.steps += 1;
            let task = TaskId { kind: Kind::Reduce, index };
            if tasks.get(task).pending.is_none() {
                self.reduces.pop_front();
                continue;
            }
            let slot = self.take_worker(tasks.get(task).avoid)?;
            self.reduces.pop_front();
            return Some(Match { task, slot, is_local: true });
        }
        None
    }

    /// A worker of the node that has most to spare, and not of `avoid` if there is another.
    pub fn take_worker(&mut self, avoid: Option<NodeId>) -> Option<usize> {
        let best = self.crowd.iter().rev().find(|(_, node)| Some(*node) != avoid);
        let (_, node) = *best.or(self.crowd.last())?;
        let worker = self.change(node, |local| local.idle.pop());
        self.leave(worker)
    }

    /// Since when a worker has had nothing to do.
    fn rested_since(&self) -> Option<Instant> {
        self.rested.first().map(|(since, _)| *since)
    }

    /// When a task and a worker have waited long enough for each other.
    pub fn due(&self, locality: Duration) -> Option<Instant> {
        let (since, _) = self.waiting.front()?;
        Some(self.rested_since()?.max(*since) + locality)
    }
}
