//! An attempt that this core runs.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use nile_abi::NodeId;
use nile_job::{AttemptId, Job, JobId, Kind, Split};
use nile_stl::node::Buffer;

use super::desk::Ticket;
use super::drafts::Writer;
use super::gather::Gather;
use super::loads::Loads;
use super::outputs::Made;
use super::stores::Named;

/// How far an attempt is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The package has it, or is to get it.
    Working,
    /// The package has said that it is done; what it has made is not durable yet.
    Finishing,
    /// Its end was told.
    Over,
}

/// An attempt.
pub struct Attempt {
    /// Of which job.
    pub job_id: JobId,
    /// The job.
    pub job: Rc<Job>,
    /// Which attempt.
    pub id: AttemptId,
    /// How the package names it.
    pub ticket: Ticket,
    /// How far it is.
    pub phase: Cell<Phase>,
    /// It is not wanted any more.
    pub is_off: Cell<bool>,
    /// Bytes that it has read.
    pub read: Cell<u64>,
    /// The split, unless it is a reduce attempt.
    pub input: Option<Input>,
    /// What a map attempt has made.
    pub made: RefCell<Made>,
    /// What a sample attempt has found.
    pub sample: RefCell<Vec<u8>>,
    /// The pieces of a reduce attempt.
    pub gather: RefCell<Gather>,
    /// The runs that a reduce attempt reads, by their numbers.
    pub runs: RefCell<Vec<Rc<RefCell<Loads>>>>,
    /// Whether there is room for their blocks, and buffers that are held for the first of them.
    pub has_room: Cell<bool>,
    pub room: RefCell<Vec<Buffer>>,
    /// The draft of a part, or of a map attempt's runs, once there is one.
    pub writer: RefCell<Option<Rc<Writer>>>,
    /// How many map tasks there are.
    pub maps: u32,
}

/// A split that is read.
pub struct Input {
    /// The split.
    pub split: Split,
    /// The dataset.
    pub named: Named,
    /// Its blocks.
    pub loads: Rc<RefCell<Loads>>,
}

impl Attempt {
    /// Whether anybody wants it.
    pub fn is_wanted(&self) -> bool {
        !self.is_off.get() && self.phase.get() != Phase::Over
    }

    /// Whether the package may work on it.
    pub fn is_working(&self) -> bool {
        !self.is_off.get() && self.phase.get() == Phase::Working
    }

    /// What sort of attempt it is.
    pub fn kind(&self) -> Kind {
        self.id.task.kind
    }

    /// It is over: what it has read or made and nobody else has is free.
    pub fn clear(&self) {
        if let Some(input) = &self.input {
            input.loads.borrow_mut().close();
        }
        for run in self.runs.borrow().iter() {
            run.borrow_mut().close();
        }
        self.room.borrow_mut().clear();
        self.gather.borrow_mut().clear();
        *self.made.borrow_mut() = Made::default();
        if let Some(writer) = self.writer.borrow_mut().take() {
            writer.abort();
        }
    }
}

/// What a map attempt has made, and is kept for reduce attempts.
pub struct Held {
    /// What it is.
    pub made: Made,
    /// The draft with its runs, if it has any.
    pub writer: Option<Rc<Writer>>,
    /// Whether packages of this node may look at its buffers.
    pub is_shared: Cell<bool>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer {
            writer.abort();
        }
    }
}

/// A durable part of the job's output.
#[derive(Clone)]
pub struct Part {
    /// Its dataset.
    pub named: Named,
    /// The nodes that have it.
    pub nodes: Vec<NodeId>,
}
