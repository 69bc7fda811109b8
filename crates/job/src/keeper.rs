//! One keeper of a job's record: answers the others, sees to it that the job has a master, and
//! speaks for the master of its own node with the others.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_stl_macros::Record;

use crate::ballot::{Ballot, Outcome};
use crate::end::{End, Verdict};
use crate::id::{Epoch, JobId};
use crate::record::{Answer, Ask, Record};
use crate::settings::Settings;

/// A keeper to a keeper of the same job.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct ToKeeper {
    /// The job.
    pub job: JobId,
    /// The node of who says it.
    pub from: NodeId,
    /// The epoch of who asks.
    pub epoch: Epoch,
    /// What is said.
    pub word: Word,
}

/// What one keeper says to another.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Word {
    /// It asks.
    Ask(Ask),
    /// It answers what was asked in the message's epoch.
    Answer(Answer),
}

/// What the keeper's engine has to do, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Make the record durable, as it is now. Nothing that comes behind this may be done before;
    /// if it cannot be made durable, nothing of it may be done at all.
    Store,
    /// Send this to the keeper on this node.
    Send(NodeId, ToKeeper),
    /// Run the job's master of this epoch on this node.
    Appoint(Epoch),
    /// Say this to the master of this epoch ([`Master::decided`](crate::Master::decided)).
    Verdict(Epoch, Verdict),
    /// Most of the keepers have no record of the job: drop this one, and its master.
    Forget,
}

/// One keeper. Sans-IO: after each call, [`Keeper::poll`] gives what is to be done, until there is
/// nothing, and [`Keeper::next_due`] when [`Keeper::act`] is to be called.
#[derive(Debug)]
pub struct Keeper {
    record: Record,
    rank: usize,
    settings: Settings,
    ballot: Option<Ballot>,
    /// The latest epoch that was heard of.
    latest: Epoch,
    /// When the ballot's question is asked again, or else this keeper wants to be the master's.
    due: Instant,
    actions: VecDeque<Action>,
}

impl Keeper {
    /// The keeper on `node` of a job that begins: the record is durable already. None if the job
    /// names no such keeper.
    pub fn found(now: Instant, node: NodeId, record: Record, settings: Settings) -> Option<Keeper> {
        let mut keeper = Keeper::restore(now, node, record, settings)?;
        // The others may not know of it yet.
        keeper.due = now + settings.closing + settings.silence * keeper.distance();
        if keeper.rank == 0 {
            keeper.due = now;
            keeper.ballot = Some(Ballot::first(keeper.record.job.keepers.len()));
            keeper.actions.push_back(Action::Appoint(Epoch::FIRST));
        }
        Some(keeper)
    }

    /// The keeper on `node` of a record that was found on its disk. None if the job names no such
    /// keeper.
    pub fn restore(
        now: Instant,
        node: NodeId,
        record: Record,
        settings: Settings,
    ) -> Option<Keeper> {
        let rank = record.job.keepers.iter().position(|keeper| *keeper == node)?;
        let actions = VecDeque::new();
        let latest = record.epoch();
        let (ballot, due) = (None, now);
        let mut keeper = Keeper { record, rank, settings, ballot, latest, due, actions };
        if keeper.record.epoch().rank() != rank {
            keeper.wait(now);
        }
        Some(keeper)
    }

    /// The record, whose last changes may not be durable.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `act` is to be called.
    pub fn next_due(&self) -> Option<Instant> {
        self.record.end().is_none().then_some(self.due)
    }

    /// Does what is due.
    pub fn act(&mut self, now: Instant) {
        if self.record.end().is_some() || self.due > now {
            return;
        }
        if self.ballot.is_none() {
            let epoch = self.latest.after(self.rank);
            self.latest = epoch;
            self.ballot = Some(Ballot::open(epoch, self.record.job.keepers.len()));
        }
        self.ask(now);
    }

    /// The node is dead, by what gossip says: if it has the master, another is needed.
    pub fn is_dead(&mut self, now: Instant, node: NodeId) {
        if self.ballot.is_none() && self.record.master() == Some(node) {
            self.due = self.due.min(now + self.settings.silence * self.distance());
        }
    }

    /// The master of `epoch`, on this node, ends the job.
    pub fn decide(&mut self, now: Instant, epoch: Epoch, end: End) {
        let verdict = match (self.record.end(), &mut self.ballot) {
            (Some(end), _) => Verdict::Ended(end.clone()),
            (None, Some(ballot)) if ballot.epoch == epoch && ballot.has_master() => {
                ballot.propose(end);
                return self.ask(now);
            }
            _ => Verdict::Superseded(self.record.epoch()),
        };
        self.actions.push_back(Action::Verdict(epoch, verdict));
    }

    /// What a node answers that has no record of the job, if it is asked.
    pub fn stranger(node: NodeId, message: &ToKeeper) -> Option<ToKeeper> {
        let word = Word::Answer(Answer::Unknown);
        let answer = ToKeeper { from: node, word, ..message.clone() };
        matches!(message.word, Word::Ask(_)).then_some(answer)
    }

    /// A message of another keeper.
    pub fn receive(&mut self, now: Instant, message: ToKeeper) {
        let ToKeeper { job, from, epoch, word } = message;
        let rank = self.record.job.keepers.iter().position(|keeper| *keeper == from);
        let Some(rank) = rank.filter(|rank| job == self.record.job.id && *rank != self.rank) else {
            return;
        };
        match word {
            Word::Ask(ask) => {
                let answer = self.accept(&ask);
                let is_heard = matches!(answer, Answer::Promised { .. } | Answer::Follows);
                if is_heard || answer == Answer::Accepted {
                    self.give_way(now, epoch);
                }
                self.say(rank, epoch, Word::Answer(answer));
                self.conclude();
            }
            Word::Answer(answer) => self.hear(now, epoch, rank, answer),
        }
    }

    /// What this keeper says to a question; it is durable before anything that follows.
    fn accept(&mut self, ask: &Ask) -> Answer {
        let before = self.record.acceptor.clone();
        let answer = self.record.acceptor.hear(ask);
        if self.record.acceptor != before {
            self.actions.push_back(Action::Store);
        }
        answer
    }

    /// Says something to another keeper; what is for itself it knows.
    fn say(&mut self, rank: usize, epoch: Epoch, word: Word) {
        if rank == self.rank {
            return;
        }
        let keepers = &self.record.job.keepers;
        let (from, to) = (keepers[self.rank], keepers[rank]);
        let message = ToKeeper { job: self.record.job.id, from, epoch, word };
        self.actions.push_back(Action::Send(to, message));
    }

    /// Asks all who have not agreed, itself first.
    fn ask(&mut self, now: Instant) {
        self.due = now + self.settings.silence;
        let Some(ballot) = &self.ballot else { return };
        let (epoch, ask) = (ballot.epoch, ballot.ask());
        let own = self.accept(&ask);
        self.hear(now, epoch, self.rank, own);
        // By its own answer it may have all that it needs, and ask something else.
        let Some(ballot) = self.ballot.as_ref().filter(|it| it.ask() == ask) else { return };
        let awaited: Vec<usize> = ballot.awaited().collect();
        for rank in awaited {
            self.say(rank, epoch, Word::Ask(ask.clone()));
        }
    }

    fn hear(&mut self, now: Instant, epoch: Epoch, rank: usize, answer: Answer) {
        let Some(ballot) = self.ballot.as_mut().filter(|ballot| ballot.epoch == epoch) else {
            return;
        };
        match ballot.hear(rank, answer) {
            None => {}
            Some(Outcome::Appointed) => self.actions.push_back(Action::Appoint(epoch)),
            Some(Outcome::Free) => self.ask(now),
            Some(Outcome::Inherited(end)) => {
                ballot.propose(end);
                self.ask(now);
            }
            Some(Outcome::Superseded(later)) => self.give_way(now, later),
            Some(Outcome::Unknown) => {
                self.ballot = None;
                self.actions.push_back(Action::Forget);
            }
            Some(Outcome::Ended(end)) => {
                let learn = Ask::Learn(end);
                self.accept(&learn);
                for rank in 0..self.record.job.keepers.len() {
                    self.say(rank, epoch, Word::Ask(learn.clone()));
                }
                self.conclude();
            }
        }
    }

    /// There is a master of `epoch`, on another node; this one's is none any more.
    fn give_way(&mut self, now: Instant, epoch: Epoch) {
        self.latest = self.latest.max(epoch);
        if let Some(ballot) = self.ballot.take_if(|ballot| ballot.epoch < epoch)
            && ballot.has_master()
        {
            let verdict = Verdict::Superseded(epoch);
            self.actions.push_back(Action::Verdict(ballot.epoch, verdict));
        }
        self.wait(now);
    }

    /// If the job has ended, this node's master hears of it.
    fn conclude(&mut self) {
        if let Some(end) = self.record.end()
            && let Some(ballot) = self.ballot.take()
            && ballot.has_master()
        {
            let verdict = Verdict::Ended(end.clone());
            self.actions.push_back(Action::Verdict(ballot.epoch, verdict));
        }
    }

    /// Waits for a sign of the master. Who comes after it in rank waits the shortest.
    fn wait(&mut self, now: Instant) {
        self.due = now + self.settings.lost + self.settings.silence * self.distance();
    }

    /// How many keepers come between the master's and this one.
    fn distance(&self) -> u32 {
        let count = self.record.job.keepers.len();
        let master = self.record.epoch().rank() % count;
        ((self.rank + count - master - 1) % count) as u32
    }
}
