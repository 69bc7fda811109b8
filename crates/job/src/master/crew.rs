//! The workers of a master: what each is doing, and the session with each.

use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_order::{SortedMap, SortedSet};

use crate::id::{AttemptId, Epoch, JobId, Session, TaskId, WorkerId};
use crate::lane::Lane;
use crate::message::{Order, ToWorker};
use crate::settings::Settings;

/// A worker, as the master sees it.
#[derive(Debug)]
pub struct Mate {
    pub id: WorkerId,
    pub session: Session,
    /// Which of its machines was heard in this session; 0 if none was.
    pub machine: u32,
    pub state: State,
    /// What it does after that.
    pub ahead: Option<Ahead>,
    pub lane: Lane<Order>,
    /// When it was heard last.
    pub heard: Instant,
    /// When it is asked whether it is there.
    pub ask: Instant,
    /// How many entries of the list of outputs it has been told for its reduce attempt.
    pub told: usize,
    /// Whether it was told of the job and the plan.
    pub briefed: [bool; 2],
    /// Tasks whose output it has.
    pub has: SortedSet<TaskId>,
    /// Bytes that its attempt has read.
    pub read: u64,
    /// The place of its attempt among the spans, if that is kept.
    pub span: Option<usize>,
    timer: Option<Instant>,
}

/// An attempt that a worker begins when it has ended the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahead {
    pub attempt: AttemptId,
    /// It was told not to, and has not said that it will not.
    pub is_off: bool,
}

/// What a worker does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// It has not said yet what it has.
    Joining,
    Idle,
    Busy(AttemptId),
    /// It was told to end an attempt and has not said that it did.
    Stopping(AttemptId),
    /// It knows that the job is over.
    Over,
    /// This incarnation is no more.
    Gone,
}

/// All workers that a master ever had; each has a slot.
#[derive(Debug, Default)]
pub struct Crew {
    pub mates: Vec<Mate>,
    slots: SortedMap<WorkerId, usize>,
    timers: SortedSet<(Instant, usize)>,
    /// Slots with something to say, or whose timer may have changed.
    touched: SortedSet<usize>,
    /// How many join, know that the job is over, and are gone.
    counts: [usize; 3],
}

/// What is the same in all messages of a master.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    pub job: JobId,
    pub epoch: Epoch,
    pub master: NodeId,
}

impl Crew {
    /// The slot of a worker.
    pub fn slot(&self, id: &WorkerId) -> Option<usize> {
        self.slots.get(id).copied()
    }

    /// The slots of a node's workers.
    pub fn on(&self, node: NodeId) -> Vec<usize> {
        let first = |node| WorkerId {
            node,
            life: nile_abi::Generation(0),
            core: nile_abi::CoreId(0),
            generation: nile_abi::Generation(0),
        };
        let mut slots = Vec::new();
        for (id, slot) in self.slots.range(first(node)..) {
            if id.node != node {
                break;
            }
            slots.push(*slot);
        }
        slots
    }

    /// Notes what a worker does now.
    pub fn set_state(&mut self, slot: usize, state: State) {
        let before = core::mem::replace(&mut self.mates[slot].state, state);
        let place = |state| match state {
            State::Joining => Some(0),
            State::Over => Some(1),
            State::Gone => Some(2),
            _ => None,
        };
        place(before).into_iter().for_each(|place| self.counts[place] -= 1);
        place(state).into_iter().for_each(|place| self.counts[place] += 1);
    }

    /// Whether some have still to say what they have.
    pub fn are_joining(&self) -> bool {
        self.counts[0] > 0
    }

    /// Whether nobody is left who has to be told that the job is over.
    pub fn all_know(&self) -> bool {
        self.counts[1] + self.counts[2] == self.mates.len()
    }

    /// How many workers can be given something, now or later.
    pub fn at_hand(&self) -> usize {
        self.mates.len() - self.counts[1] - self.counts[2]
    }

    /// Whether nobody is left at all.
    pub fn all_gone(&self) -> bool {
        self.counts[2] == self.mates.len()
    }

    /// Adds a worker that is new; gives its slot.
    pub fn add(&mut self, now: Instant, id: WorkerId) -> usize {
        let slot = self.mates.len();
        self.slots.insert(id, slot);
        self.mates.push(Mate {
            id,
            session: Session(1),
            machine: 0,
            state: State::Joining,
            ahead: None,
            lane: Lane::default(),
            heard: now,
            ask: now,
            told: 0,
            briefed: [false; 2],
            has: SortedSet::new(),
            read: 0,
            span: None,
            timer: None,
        });
        self.counts[0] += 1;
        self.touched.insert(slot);
        slot
    }

    /// Begins a new session with a worker that was silent.
    pub fn begin(&mut self, now: Instant, slot: usize) {
        self.set_state(slot, State::Joining);
        let mate = &mut self.mates[slot];
        mate.session = Session(mate.session.0 + 1);
        mate.machine = 0;
        mate.lane = Lane::default();
        (mate.ask, mate.told, mate.briefed) = (now, 0, [false; 2]);
        self.touched.insert(slot);
    }

    /// Says something to a worker.
    pub fn order(&mut self, slot: usize, order: Order) {
        self.mates[slot].lane.push(order);
        self.touched.insert(slot);
    }

    /// Looks after a worker's lane and timer at the next chance.
    pub fn touch(&mut self, slot: usize) {
        self.touched.insert(slot);
    }

    /// When the first timer is due.
    pub fn due(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A slot whose timer is due, if there is one.
    pub fn expired(&mut self, now: Instant) -> Option<usize> {
        let (at, slot) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.timers.pop_first();
        self.mates[slot].timer = None;
        self.touched.insert(slot);
        Some(slot)
    }

    /// The slots that were touched since the last call.
    pub fn take_touched(&mut self) -> SortedSet<usize> {
        core::mem::take(&mut self.touched)
    }

    /// What is to be said to a worker now, if anything; sets its timer.
    pub fn message(
        &mut self,
        now: Instant,
        slot: usize,
        header: Header,
        settings: &Settings,
    ) -> Option<ToWorker> {
        let mate = &mut self.mates[slot];
        let is_there = !matches!(mate.state, State::Gone | State::Over);
        let asks = is_there && mate.ask <= now;
        if asks {
            mate.lane.answer();
            mate.ask = now + settings.silence;
        }
        let orders = match mate.state {
            State::Gone => None,
            _ => mate.lane.fill(now, settings.patience),
        };
        let timer = is_there.then(|| mate.lane.due().map_or(mate.ask, |due| due.min(mate.ask)));
        if mate.timer != timer {
            mate.timer.map(|at| self.timers.remove(&(at, slot)));
            timer.map(|at| self.timers.insert((at, slot)));
            mate.timer = timer;
        }
        let Header { job, epoch, master } = header;
        let (session, machine) = (mate.session, mate.machine);
        orders.map(|orders| ToWorker { job, epoch, session, machine, master, ask: asks, orders })
    }
}
