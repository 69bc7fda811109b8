//! The agent in memory: which command comes when, and what becomes of what tasks make.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use nile_bosml::Blob;
use nile_interfaces::task::records::{Command, CommandKind, Far, Range};
use nile_ring::Buffer;

use super::pool::Buffers;
use super::{Local, Made};
use crate::outcome::Done;

/// What a package is to do, in the order in which it is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Work {
    Sample(usize),
    Cut,
    Map(usize),
    Reduce(u32),
}

/// The package's kernel, with an agent behind it.
pub struct Agent<'j> {
    pub job: &'j Local,
    pub buffers: Buffers,
    pub state: RefCell<State>,
    /// Nanoseconds: every look at the clock takes one more.
    pub now: Cell<u64>,
}

/// Consecutive blocks of a dataset.
#[derive(Clone, Copy, Debug)]
pub struct Split {
    pub dataset: usize,
    pub first: usize,
    pub blocks: usize,
}

/// What a map task has left.
#[derive(Default)]
pub struct Left {
    pub kept: Vec<Stored>,
    /// The blocks of each partition's run.
    pub runs: BTreeMap<u32, Vec<Vec<u8>>>,
}

/// An output that was kept.
pub struct Stored {
    pub buffers: Vec<Buffer>,
    pub pieces: Vec<Range>,
    pub note: Blob,
    pub far: Far,
}

impl Stored {
    /// Whether another node gets this one and the next as one, as the worker service says it.
    fn joins(&self, next: &Stored) -> bool {
        [self.far, next.far] == [Far::Joined; 2] && self.note == next.note
    }
}

/// An attempt.
pub struct Attempt {
    pub ticket: u64,
    pub work: Work,
    breaths: u64,
    pub left: Left,
    pub part: Vec<Vec<u8>>,
    /// Of a reduce attempt: what it has not taken yet, slice by slice.
    pub sources: VecDeque<VecDeque<Piece>>,
}

/// One slice's share of a map task's output, or one partition's run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    Shared {
        map: usize,
        output: usize,
        piece: u32,
    },
    /// Outputs of a map task on another node that come as one.
    Far {
        map: usize,
        outputs: Vec<usize>,
        piece: u32,
    },
    Run {
        map: usize,
    },
}

#[derive(Default)]
pub struct State {
    queue: VecDeque<Work>,
    tickets: u64,
    pub splits: Vec<Split>,
    pub attempt: Option<Attempt>,
    was_stopped: BTreeSet<Work>,
    pub samples: Vec<Vec<u8>>,
    pub bounds: Vec<u8>,
    pub slices: u32,
    pub maps: Vec<Left>,
    pub parts: Vec<Vec<Vec<u8>>>,
    mapped: Done,
    reduced: Done,
    pub spilled: u64,
    pub kept: u64,
    pub far: u64,
    stopped: u64,
    pub error: Option<String>,
}

fn add(sum: &mut Done, done: Done) {
    sum.records = sum.records.wrapping_add(done.records);
    sum.checksum = sum.checksum.wrapping_add(done.checksum);
}

impl<'j> Agent<'j> {
    pub fn new(job: &'j Local) -> Result<Agent<'j>, String> {
        let buffers = Buffers::new(job.buffers, job.buffer)?;
        let mut state = State::default();
        for (dataset, input) in job.inputs.iter().enumerate() {
            let blocks = input.len().div_ceil(job.block.min(job.buffer));
            for first in (0..blocks).step_by(job.blocks) {
                let blocks = job.blocks.min(blocks - first);
                state.splits.push(Split { dataset, first, blocks });
            }
        }
        let maps = state.splits.len();
        if job.samples {
            state.queue.extend((0..maps).map(Work::Sample));
            state.queue.push_back(Work::Cut);
        }
        state.queue.extend((0..maps).map(Work::Map));
        state.queue.extend((0..job.partitions).map(Work::Reduce));
        state.maps.resize_with(maps, Left::default);
        state.parts.resize(job.partitions as usize, Vec::new());
        Ok(Agent { job, buffers, state: RefCell::new(state), now: Cell::new(0) })
    }

    /// What the job has made, now that the package has ended.
    pub fn end(self) -> Result<Made, String> {
        let mut state = self.state.into_inner();
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        if let Some(attempt) = &state.attempt {
            return Err(format!("the package ended in the midst of {:?}", attempt.work));
        }
        if let Some(work) = state.queue.front() {
            return Err(format!("the package ended before {work:?}"));
        }
        state.maps.clear();
        let used = self.buffers.used();
        if used > 0 || !self.buffers.holds_none() {
            return Err(format!("the package has left {used} buffers"));
        }
        let State { parts, mapped, reduced, spilled, kept, far, stopped, .. } = state;
        let most_buffers = self.buffers.most();
        Ok(Made { parts, mapped, reduced, spilled, kept, far, stopped, most_buffers })
    }

    /// The bytes of a split's blocks, from the one of this place in it on, as they lie in its
    /// dataset: where they begin, and one block's length.
    pub fn block(&self, split: Split, index: usize) -> Option<(usize, usize)> {
        let bytes = self.job.block.min(self.job.buffer);
        let start = (split.first + index).checked_mul(bytes)?;
        let left = self.job.inputs[split.dataset].len().checked_sub(start).filter(|it| *it > 0)?;
        Some((start, left.min(bytes)))
    }

    /// Whether this partition of this map task's output goes to another node.
    pub fn is_far(&self, map: usize, partition: u32) -> bool {
        self.job.far && (map + partition as usize) % 2 == 1
    }

    /// The next command.
    pub fn next(&self, wait: bool) -> Command {
        let state = &mut *self.state.borrow_mut();
        if !wait {
            return self.in_between(state);
        }
        if let Some(attempt) = state.attempt.take() {
            state.error = Some(format!("the package has lost {:?}", attempt.work));
        }
        let work = state.queue.pop_front().filter(|_| state.error.is_none());
        let Some(work) = work else {
            state.queue.clear();
            return self.command(state, CommandKind::End, 0);
        };
        state.tickets += 1;
        let (ticket, sources) = (state.tickets, self.sources(state, work));
        let (left, part) = Default::default();
        state.attempt = Some(Attempt { ticket, work, breaths: 0, left, part, sources });
        let split = |map: usize, kind, state: &State| {
            let Split { dataset, first, blocks } = state.splits[map];
            Command {
                index: map as u32,
                dataset: dataset as u32,
                first_block: first as u32,
                blocks: blocks as u32,
                spill: self.job.spills && kind == CommandKind::Map && map.is_multiple_of(2),
                // A node may know late that there are others.
                shared: self.job.far && kind == CommandKind::Map && map % 3 != 2,
                ..self.command(state, kind, ticket)
            }
        };
        match work {
            Work::Sample(map) => split(map, CommandKind::Sample, state),
            Work::Map(map) => split(map, CommandKind::Map, state),
            Work::Cut => Command {
                blocks: state.samples.len() as u32,
                shared: self.job.far,
                ..self.command(state, CommandKind::Cut, ticket)
            },
            Work::Reduce(partition) => {
                let maps = state.maps.len() as u32;
                Command {
                    index: partition,
                    maps,
                    ..self.command(state, CommandKind::Reduce, ticket)
                }
            }
        }
    }

    /// What comes in the midst of other work.
    fn in_between(&self, state: &mut State) -> Command {
        if let Some(mut attempt) = state.attempt.take() {
            attempt.breaths += 1;
            // Some sooner, some later.
            let is_due = self.job.stops && attempt.breaths > attempt.ticket % 2;
            let Attempt { ticket, work, .. } = attempt;
            let may_stop = matches!(work, Work::Map(_) | Work::Reduce(_));
            if state.error.is_some() {
                return self.command(state, CommandKind::Stop, ticket);
            }
            if is_due && may_stop && state.was_stopped.insert(work) {
                state.queue.push_front(work);
                state.stopped += 1;
                return self.command(state, CommandKind::Stop, ticket);
            }
            state.attempt = Some(attempt);
        }
        self.command(state, CommandKind::Nothing, 0)
    }

    fn command(&self, state: &State, kind: CommandKind, ticket: u64) -> Command {
        // What is said of other kinds only is left out, as on a node.
        let has_bounds = [CommandKind::Map, CommandKind::Reduce].contains(&kind);
        let bounds = if has_bounds { state.bounds.clone() } else { Vec::new() };
        Command {
            kind,
            ticket,
            arguments: self.job.arguments.clone(),
            index: 0,
            maps: 0,
            reducers: self.job.partitions,
            slices: state.slices.max(1),
            inputs: self.job.inputs.len() as u32,
            dataset: 0,
            first_block: 0,
            blocks: 0,
            bounds: Blob(bounds),
            spill: false,
            keeps: if kind == CommandKind::Map { self.job.keeps } else { 0 },
            outputs: u32::MAX,
            shared: false,
            memory: Some((self.job.buffers * self.job.buffer) as u64),
        }
    }

    /// All that a reduce task takes of each slice; the last first, since no order is promised.
    fn sources(&self, state: &State, work: Work) -> VecDeque<VecDeque<Piece>> {
        let Work::Reduce(partition) = work else { return VecDeque::new() };
        let slices = state.slices.max(1);
        (0..slices).map(|slice| self.sources_of(state, partition * slices, slice)).collect()
    }

    fn sources_of(&self, state: &State, first: u32, slice: u32) -> VecDeque<Piece> {
        let mut sources = VecDeque::new();
        let partition = first / state.slices.max(1);
        for (map, left) in state.maps.iter().enumerate() {
            let piece = first + slice;
            let has_any = |it: &&usize| !of_partition(&left.kept[**it].pieces, piece).is_empty();
            let outputs: Vec<usize> = (0..left.kept.len()).filter(|it| has_any(&it)).collect();
            if self.is_far(map, partition) {
                let joins = |one: &usize, next: &usize| left.kept[*one].joins(&left.kept[*next]);
                for outputs in outputs.chunk_by(joins).map(Vec::from) {
                    sources.push_front(Piece::Far { map, outputs, piece });
                }
            } else {
                for output in outputs {
                    sources.push_front(Piece::Shared { map, output, piece });
                }
            }
            if slice == 0 && left.runs.contains_key(&partition) {
                sources.push_front(Piece::Run { map });
            }
        }
        sources
    }

    /// The attempt of this ticket is done.
    pub fn done(&self, state: &mut State, done: Done) {
        let Some(attempt) = state.attempt.take() else { return };
        match attempt.work {
            Work::Sample(_) | Work::Cut => {}
            Work::Map(map) => {
                add(&mut state.mapped, done);
                state.maps[map] = attempt.left;
            }
            Work::Reduce(partition) => {
                add(&mut state.reduced, done);
                state.parts[partition as usize] = attempt.part;
            }
        }
    }
}

/// The ranges of one partition.
pub fn of_partition(pieces: &[Range], partition: u32) -> Vec<Range> {
    pieces.iter().filter(|it| it.partition == partition && it.bytes > 0).copied().collect()
}
