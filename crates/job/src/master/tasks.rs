//! The tasks of a job, and what has become of each.

use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};

use crate::end::Summary;
use crate::id::{AttemptId, Kind, TaskId};

/// A task.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// How many attempts were started.
    pub numbers: u32,
    /// How many of them failed by themselves.
    pub failures: u32,
    /// The node on which one failed last.
    pub avoid: Option<NodeId>,
    /// Since when it waits for a worker.
    pub pending: Option<Instant>,
    /// Since when its input cannot be read, and when that was found last.
    pub unread: Option<(Instant, Instant)>,
    /// How often a piece of its output was missing.
    pub missing: u32,
    /// When one of its attempts came to nothing while another ran.
    pub failed_beside: Option<Instant>,
    /// Its attempts that run: two at most.
    pub running: Vec<Try>,
    /// The attempt whose output counts.
    pub done: Option<Done>,
    /// Records of it, and the sum of their checksums. They stay known if the output is lost.
    pub sums: Option<(u64, u64)>,
}

/// An attempt that runs.
#[derive(Clone, Copy, Debug)]
pub struct Try {
    pub attempt: AttemptId,
    pub slot: usize,
    pub started: Instant,
    /// Whether it has all its pieces.
    pub gathered: bool,
}

/// An attempt whose output counts.
#[derive(Clone, Debug)]
pub struct Done {
    pub attempt: AttemptId,
    pub slot: usize,
    pub summary: Summary,
}

impl Task {
    /// Whether it is a reduce task that still needs pieces.
    pub fn wants_pieces(&self) -> bool {
        self.done.is_none() && !self.running.iter().any(|it| it.gathered)
    }

    /// Whether nothing has become of it and nothing is on its way.
    pub fn is_open(&self) -> bool {
        self.done.is_none() && self.pending.is_none() && self.running.is_empty()
    }

    /// Removes an attempt that runs no more.
    pub fn remove(&mut self, attempt: AttemptId) -> Option<Try> {
        let place = self.running.iter().position(|it| it.attempt == attempt)?;
        Some(self.running.remove(place))
    }
}

/// All tasks of a job.
#[derive(Debug)]
pub struct Tasks {
    tasks: [Vec<Task>; 3],
    /// How many of each sort are to be done.
    left: [usize; 3],
    /// How many reduce tasks still need pieces.
    hungry: usize,
    /// How many map tasks have never been done.
    unsummed: usize,
    /// How many attempts of each sort have ended well, and how long they ran in all.
    spent: [(u32, u64); 3],
}

impl Tasks {
    pub fn new(samples: usize, maps: usize, reducers: u32) -> Tasks {
        let of = |count: usize| alloc::vec![Task::default(); count];
        let reducers = reducers as usize;
        Tasks {
            tasks: [of(if samples == 0 { 0 } else { maps }), of(maps), of(reducers)],
            left: [samples.min(maps), maps, reducers],
            hungry: reducers,
            unsummed: maps,
            spent: [(0, 0); 3],
        }
    }

    /// How many tasks of a sort are to be done.
    pub fn left(&self, kind: Kind) -> usize {
        self.left[kind as usize]
    }

    /// How many tasks of a sort there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.tasks[kind as usize].len()
    }

    /// How many reduce tasks still need pieces.
    pub fn hungry(&self) -> usize {
        self.hungry
    }

    /// How many map tasks have never been done.
    pub fn unsummed(&self) -> usize {
        self.unsummed
    }

    pub fn of(&self, kind: Kind) -> &[Task] {
        &self.tasks[kind as usize]
    }

    pub fn get(&self, id: TaskId) -> &Task {
        &self.tasks[id.kind as usize][id.place()]
    }

    /// Whether there is such a task. What workers name may be anything.
    pub fn has(&self, id: TaskId) -> bool {
        id.place() < self.count(id.kind)
    }

    /// Changes a task and keeps the counts right.
    pub fn change<T>(&mut self, id: TaskId, change: impl FnOnce(&mut Task) -> T) -> T {
        let task = &mut self.tasks[id.kind as usize][id.place()];
        let count = |task: &Task| {
            let hungry = id.kind == Kind::Reduce && task.wants_pieces();
            let unsummed = id.kind == Kind::Map && task.sums.is_none();
            [task.done.is_none(), hungry, unsummed].map(usize::from)
        };
        let before = count(task);
        let result = change(task);
        let after = count(task);
        let counts = [&mut self.left[id.kind as usize], &mut self.hungry, &mut self.unsummed];
        for (at, count) in counts.into_iter().enumerate() {
            *count = *count + after[at] - before[at];
        }
        result
    }

    /// Notes how long an attempt took that has ended well.
    pub fn spend(&mut self, kind: Kind, nanos: u64) {
        let (count, total) = &mut self.spent[kind as usize];
        *count += 1;
        *total = total.saturating_add(nanos);
    }

    /// Nanoseconds that attempts of a sort take in the mean, if any has ended.
    pub fn mean(&self, kind: Kind) -> Option<u64> {
        let (count, total) = self.spent[kind as usize];
        total.checked_div(u64::from(count))
    }
}
