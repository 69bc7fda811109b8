//! What of a job outlives its masters: who masters it, and how it ended. It is kept with the
//! manifest of the job's output, durably, and every change is durable before it is answered.
//!
//! It is what makes a job end once: a master ends the job here or not at all, and only the last
//! master can.

use nile_abi::NodeId;

use crate::end::{End, Verdict};
use crate::id::Epoch;
use crate::job::Job;

/// The record of one job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    job: Job,
    epoch: Epoch,
    master: Option<NodeId>,
    end: Option<End>,
}

/// What the record says to a worker that has heard nothing for long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The job has this master.
    Open(Epoch),
    /// The job has ended, in this way.
    Ended(End),
    /// There is no record of the job.
    Unknown,
}

impl Record {
    /// The record of a job that has no master yet.
    pub fn new(job: Job) -> Record {
        Record { job, epoch: Epoch::NONE, master: None, end: None }
    }

    /// The job.
    pub fn job(&self) -> &Job {
        &self.job
    }

    /// The node of the last master, if there was one.
    pub fn master(&self) -> Option<NodeId> {
        self.master
    }

    /// How the job ended, if it did.
    pub fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// Makes `node` the job's master and gives its epoch. What earlier masters do comes too late
    /// from now on. None if the job has ended.
    pub fn appoint(&mut self, node: NodeId) -> Option<Epoch> {
        if self.end.is_some() {
            return None;
        }
        self.epoch = self.epoch.next();
        self.master = Some(node);
        Some(self.epoch)
    }

    /// The master of `epoch` ends the job with `end`. Gives how the job has ended, which is how it
    /// ended first; or the later master's epoch.
    pub fn decide(&mut self, epoch: Epoch, end: End) -> Verdict {
        match &self.end {
            Some(ended) => Verdict::Ended(ended.clone()),
            None if epoch != self.epoch => Verdict::Superseded(self.epoch),
            None => {
                self.end = Some(end.clone());
                Verdict::Ended(end)
            }
        }
    }

    /// What a worker is told that asks.
    pub fn standing(&self) -> Standing {
        self.end.clone().map_or(Standing::Open(self.epoch), Standing::Ended)
    }
}
