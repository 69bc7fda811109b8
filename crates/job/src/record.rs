//! What of a job outlives its masters. Some nodes keep it, a majority of which says what holds
//! (single-decree Paxos: Lamport, "Paxos made simple"): who may end the job, and how it ended.
//!
//! It is what makes a job end once: a master ends the job by a majority of the keepers or not at
//! all, and only while that majority has promised nothing to a later master. What is decided is
//! more than in the paper: first that a master is followed, then, of the same master, an end.

use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_stl_macros::Record;

use crate::end::End;
use crate::id::Epoch;
use crate::job::{Job, Split};

/// The record of one job, as one of its keepers has it. Every change is to be durable before
/// anybody hears of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The job, which names the keepers.
    pub job: Job,
    /// The splits of its input, the same for all its masters.
    pub splits: Vec<Split>,
    pub(crate) acceptor: Acceptor,
}

/// What a keeper has promised, and what it has accepted.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub(crate) struct Acceptor {
    pub promised: Epoch,
    /// The last master that it followed, and the end that it accepted of it.
    pub accepted: Accepted,
    pub end: Option<End>,
}

/// The last master that a keeper followed.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub(crate) struct Accepted {
    pub epoch: Epoch,
    pub end: Option<End>,
}

/// What one keeper asks of the others, and of itself.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Ask {
    /// To hear no earlier master than this one, which is this keeper's.
    Promise(Epoch),
    /// To follow this master: an end of an earlier one that most keepers have not accepted is
    /// void, as its parts may be dropped from now on. It is asked again and again, so that the
    /// others know that the master lives.
    Follow(Epoch),
    /// To accept this end, from the master of this epoch.
    Accept {
        /// The epoch of the master.
        epoch: Epoch,
        /// The end.
        end: End,
    },
    /// To know that the job has ended in this way.
    Learn(End),
}

/// What a keeper answers.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Answer {
    /// It promises; it follows this master, or did so last, and has accepted this end of it.
    Promised {
        /// The epoch of the master that it follows.
        epoch: Epoch,
        /// The end that it has accepted of it.
        end: Option<End>,
    },
    /// It follows.
    Follows,
    /// It has accepted the end.
    Accepted,
    /// It has promised the master of this epoch, a later one.
    Refused(Epoch),
    /// The job has ended in this way.
    Ended(End),
    /// It has no record of the job.
    Unknown,
}

/// What the record says to a worker that has heard nothing for long.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Standing {
    /// The job has this master.
    Open(Epoch),
    /// The job has ended, in this way.
    Ended(End),
    /// There is no record of the job.
    Unknown,
}

impl Record {
    /// The record of a job that begins: its first master is on the first keeper.
    pub fn new(job: Job, splits: Vec<Split>) -> Record {
        let accepted = Accepted { epoch: Epoch::FIRST, end: None };
        let acceptor = Acceptor { promised: Epoch::FIRST, accepted, end: None };
        Record { job, splits, acceptor }
    }

    /// The master that was promised to be heard.
    pub fn epoch(&self) -> Epoch {
        self.acceptor.promised
    }

    /// The node of that master.
    pub fn master(&self) -> Option<NodeId> {
        self.job.keepers.get(self.epoch().rank()).copied()
    }

    /// How the job ended, if this keeper knows that it did.
    pub fn end(&self) -> Option<&End> {
        self.acceptor.end.as_ref()
    }

    /// What a worker is told that asks.
    pub fn standing(&self) -> Standing {
        self.end().cloned().map_or(Standing::Open(self.epoch()), Standing::Ended)
    }
}

impl Acceptor {
    /// Hears a keeper, and gives the answer, which holds once this is durable.
    pub fn hear(&mut self, ask: &Ask) -> Answer {
        if let Some(end) = &self.end {
            return Answer::Ended(end.clone());
        }
        match ask {
            Ask::Promise(epoch) if *epoch >= self.promised => {
                self.promised = *epoch;
                let Accepted { epoch, end } = self.accepted.clone();
                Answer::Promised { epoch, end }
            }
            Ask::Follow(epoch) if *epoch >= self.promised => {
                self.promised = *epoch;
                // It may be late, and the end of this master be there already.
                if self.accepted.epoch < *epoch {
                    self.accepted = Accepted { epoch: *epoch, end: None };
                }
                Answer::Follows
            }
            Ask::Accept { epoch, end } if *epoch >= self.promised => {
                self.promised = *epoch;
                self.accepted = Accepted { epoch: *epoch, end: Some(end.clone()) };
                Answer::Accepted
            }
            Ask::Learn(end) => {
                (self.accepted.end, self.end) = (None, Some(end.clone()));
                Answer::Ended(end.clone())
            }
            Ask::Promise(_) | Ask::Follow(_) | Ask::Accept { .. } => Answer::Refused(self.promised),
        }
    }
}
