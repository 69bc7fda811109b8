//! What a keeper that runs the master, or wants to, has from the others: promises first, then
//! their word that the job has ended (the proposer of Paxos).

use nile_order::SortedSet;

use crate::end::End;
use crate::id::Epoch;
use crate::record::{Answer, Ask};

/// One epoch's dealings with all keepers.
#[derive(Debug)]
pub(crate) struct Ballot {
    pub epoch: Epoch,
    keepers: usize,
    step: Step,
    /// Who has agreed in this step.
    votes: SortedSet<usize>,
    /// Who has no record of the job.
    strangers: SortedSet<usize>,
    /// The latest master that a keeper of these has followed, and its end if one has accepted it.
    inherited: (Epoch, Option<End>),
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Promising,
    /// A majority has promised, and no earlier master can have ended the job.
    Following,
    /// A majority follows; the master is at work.
    Master,
    /// It wants to end the job.
    Ending(End),
}

/// What comes of a ballot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A majority follows this master, and no earlier one.
    Appointed,
    /// An earlier master may have ended the job like this: that has to be said again.
    Inherited(End),
    /// No earlier master can have ended the job: it is to be asked who follows.
    Free,
    /// The job has ended.
    Ended(End),
    /// There is a later master.
    Superseded(Epoch),
    /// A majority has no record of the job.
    Unknown,
}

impl Ballot {
    /// Asks for promises.
    pub fn open(epoch: Epoch, keepers: usize) -> Ballot {
        let (votes, strangers) = (SortedSet::new(), SortedSet::new());
        let inherited = (Epoch::NONE, None);
        Ballot { epoch, keepers, step: Step::Promising, votes, strangers, inherited }
    }

    /// Of a job's first master: the record was made with the promise to hear it.
    pub fn first(keepers: usize) -> Ballot {
        Ballot { step: Step::Master, ..Ballot::open(Epoch::FIRST, keepers) }
    }

    /// Whether the master of this epoch was appointed.
    pub fn has_master(&self) -> bool {
        matches!(self.step, Step::Master | Step::Ending(_))
    }

    /// Proposes an end. The first one counts: an epoch has one.
    pub fn propose(&mut self, end: End) {
        if !matches!(self.step, Step::Ending(_)) {
            self.step = Step::Ending(end);
            self.votes.clear();
        }
    }

    /// What is asked now.
    pub fn ask(&self) -> Ask {
        match &self.step {
            Step::Promising => Ask::Promise(self.epoch),
            Step::Following | Step::Master => Ask::Follow(self.epoch),
            Step::Ending(end) => Ask::Accept { epoch: self.epoch, end: end.clone() },
        }
    }

    /// Who has not agreed to it.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        (0..self.keepers).filter(|rank| self.step == Step::Master || !self.votes.contains(rank))
    }

    /// A keeper's answer to what was asked in this epoch.
    pub fn hear(&mut self, rank: usize, answer: Answer) -> Option<Outcome> {
        if answer != Answer::Unknown {
            self.strangers.remove(&rank);
        }
        match answer {
            Answer::Promised { epoch, end } if self.step == Step::Promising => {
                self.votes.insert(rank);
                let known = &self.inherited;
                // One and the same master says first that it is followed, then an end.
                if epoch > known.0 || (epoch == known.0 && end.is_some()) {
                    self.inherited = (epoch, end);
                }
            }
            Answer::Follows if self.step == Step::Following => {
                self.votes.insert(rank);
            }
            Answer::Accepted if matches!(self.step, Step::Ending(_)) => {
                self.votes.insert(rank);
            }
            Answer::Refused(epoch) if epoch > self.epoch => {
                return Some(Outcome::Superseded(epoch));
            }
            Answer::Ended(end) => return Some(Outcome::Ended(end)),
            Answer::Unknown => {
                self.strangers.insert(rank);
                let is_unknown = self.is_majority(&self.strangers);
                return is_unknown.then_some(Outcome::Unknown);
            }
            _ => return None,
        }
        if !self.is_majority(&self.votes) {
            return None;
        }
        match (&self.step, self.inherited.1.take()) {
            (Step::Ending(end), _) => Some(Outcome::Ended(end.clone())),
            (Step::Promising, Some(end)) => Some(Outcome::Inherited(end)),
            (Step::Promising, None) => {
                self.step = Step::Following;
                self.votes.clear();
                Some(Outcome::Free)
            }
            (Step::Following | Step::Master, _) => {
                self.step = Step::Master;
                Some(Outcome::Appointed)
            }
        }
    }

    fn is_majority(&self, ranks: &SortedSet<usize>) -> bool {
        2 * ranks.len() > self.keepers
    }
}
