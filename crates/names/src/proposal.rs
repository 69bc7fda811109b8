//! One operation on one name: what a majority of the keepers says is the name's entry, or a change
//! of it (the proposer of Paxos, which proposes what it makes of what it has learned).

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_store::Name;

use crate::ballot::Ballot;
use crate::cell::Cell;
use crate::entry::{Entry, Expect, What};
use crate::message::{Answer, Ask, Reply, Request};
use crate::random::Random;
use crate::settings::Settings;
use crate::view::{View, majority};

/// What is to be done with the name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Task {
    /// Say what it stands for.
    Read,
    /// Have it stand for something.
    Change {
        /// The change's number: drawn, so that no other change ever has it.
        id: u64,
        /// What must be true.
        expect: Expect,
        /// What it is to stand for.
        to: What,
    },
}

/// How an operation ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The name's entry, which was read or made.
    Done(Entry),
    /// What is expected does not hold of this, the name's entry. Nothing was changed, and will be.
    Refused(Entry),
    /// There was no majority in time. Nothing was changed, and will be.
    NoMajority(Lack),
    /// The change may have been made, may be made later, or never will.
    Unknown(Lack),
}

/// Which keepers were there when an operation gave up.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lack {
    /// They answered.
    pub answered: Vec<NodeId>,
    /// They answered that they are not in yet: their disks are new.
    pub fresh: Vec<NodeId>,
    /// They did not answer.
    pub missing: Vec<NodeId>,
}

/// What the proposer's owner has to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask the keeper on this node; what it answers goes to [`Proposal::receive`]. If it cannot be
    /// asked, nothing need be said: it is asked again.
    Send(NodeId, Ask),
    /// It is over; nothing comes after this.
    Done(Outcome),
}

/// One operation. Sans-IO: after each call, [`Proposal::poll`] gives what is to be done, until
/// there is nothing, and [`Proposal::next_due`] says when [`Proposal::tick`] is to be called.
#[derive(Debug)]
pub struct Proposal {
    node: NodeId,
    keepers: Vec<NodeId>,
    name: Name,
    task: Task,
    settings: Settings,
    random: Random,
    /// The view in which it asks for promises.
    view: View,
    step: Step,
    tag: u64,
    /// What the keepers have answered in this step.
    answers: Vec<Option<Answer>>,
    /// The highest round of which it has heard.
    round: u64,
    /// The lowest stamp of an entry of this change that a keeper may have accepted.
    proposed: Option<u64>,
    pauses: u32,
    due: Instant,
    end: Instant,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
enum Step {
    Look,
    Promise(Ballot),
    /// Accept the entry; with a majority this comes of it.
    Accept(Ballot, Entry, Outcome),
    /// Others were in the way.
    Pause,
    Over,
}

impl Proposal {
    /// An operation that begins, on `node`. `seed` is drawn anew for each.
    pub fn new(
        now: Instant,
        node: NodeId,
        keepers: &[NodeId],
        name: Name,
        task: Task,
        seed: u64,
        settings: Settings,
    ) -> Proposal {
        let mut proposal = Proposal {
            node,
            keepers: keepers.to_vec(),
            name,
            task,
            settings,
            random: Random::new(seed),
            view: View::default(),
            step: Step::Over,
            tag: 0,
            answers: Vec::new(),
            round: 0,
            proposed: None,
            pauses: 0,
            due: now,
            end: now + settings.patience,
            actions: VecDeque::new(),
        };
        proposal.begin(now, Step::Look);
        proposal
    }

    /// The name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When `tick` is to be called; none when it is over.
    pub fn next_due(&self) -> Option<Instant> {
        (!self.is_over()).then(|| self.due.min(self.end))
    }

    fn is_over(&self) -> bool {
        matches!(self.step, Step::Over)
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Instant) {
        if self.is_over() {
            return;
        }
        if self.end <= now {
            let lack = self.lack();
            return self.finish(match self.proposed {
                Some(_) => Outcome::Unknown(lack),
                None => Outcome::NoMajority(lack),
            });
        }
        if self.due > now {
            return;
        }
        match self.step {
            Step::Pause => self.begin(now, Step::Look),
            Step::Look => {
                // Who was not in, or believed in others, may do better now.
                self.answers.fill(None);
                self.ask(now);
            }
            // Who has refused this ballot, or has another view by now, never votes for it; and who
            // is silent may be so for long. The others may be a majority of another ballot.
            Step::Promise(_) | Step::Accept(..) if self.votes_against() > 0 => {
                self.begin(now, Step::Look);
            }
            _ => self.ask(now),
        }
    }

    /// The answer of the keeper on node `from`.
    pub fn receive(&mut self, now: Instant, from: NodeId, answer: Answer) {
        let Some(from) = self.keepers.iter().position(|it| *it == from) else { return };
        if self.is_over() || answer.tag != self.tag {
            return;
        }
        if let Reply::Refused(ballot) = &answer.reply {
            self.round = self.round.max(ballot.round);
        }
        self.answers[from] = Some(answer);
        match &self.step {
            Step::Look => self.look(now),
            Step::Promise(ballot) => self.promise(now, *ballot),
            Step::Accept(..) => self.accept(now),
            Step::Pause | Step::Over => {}
        }
    }

    fn begin(&mut self, now: Instant, step: Step) {
        self.step = step;
        self.tag = self.random.next();
        self.answers = vec![None; self.keepers.len()];
        self.ask(now);
    }

    /// Asks those who have not answered.
    fn ask(&mut self, now: Instant) {
        self.due = now + self.settings.silence;
        let name = || self.name.clone();
        let (view, request) = match &self.step {
            Step::Look => (View::default(), Request::Look(name())),
            Step::Promise(ballot) => {
                (self.view.clone(), Request::Promise { name: name(), ballot: *ballot })
            }
            Step::Accept(ballot, entry, _) => {
                let (ballot, entry) = (*ballot, entry.clone());
                (self.view.clone(), Request::Accept { name: name(), ballot, entry })
            }
            Step::Pause | Step::Over => return,
        };
        for (keeper, answer) in self.keepers.iter().zip(&self.answers) {
            if answer.is_none() {
                let ask = Ask { tag: self.tag, view: view.clone(), request: request.clone() };
                self.actions.push_back(Action::Send(*keeper, ask));
            }
        }
    }

    /// Whether what most have accepted is known.
    fn look(&mut self, now: Instant) {
        let needed = majority(self.keepers.len());
        let looked = |answer: &Option<Answer>| match answer {
            Some(Answer { view, reply: Reply::Looked(cell), .. }) => {
                Some((view.clone(), cell.clone()))
            }
            _ => None,
        };
        let looked: Vec<(View, Cell)> = self.answers.iter().filter_map(looked).collect();
        let of_view = |view: &View| looked.iter().filter(|(it, _)| it == view).count();
        let Some((view, _)) = looked.iter().find(|(view, _)| of_view(view) >= needed) else {
            return;
        };
        let cells = || looked.iter().filter(|(it, _)| it == view).map(|(_, cell)| cell);
        let highest = cells().map(|cell| cell.promised.round).max();
        let same = |cell: &Cell| cells().filter(|it| it.accepted == cell.accepted).count();
        let agreed = cells().find(|cell| same(cell) >= needed).map(|cell| cell.entry.clone());
        self.round = self.round.max(highest.unwrap_or(0));
        self.view = view.clone();
        // What was proposed before may lie at a keeper with a higher ballot than what others agree
        // on: only a still higher one makes sure that it is not made after all.
        let agreed = agreed.filter(|_| self.proposed.is_none());
        if let Some(Err(outcome)) = agreed.map(|entry| self.judge(&entry)) {
            return self.finish(outcome);
        }
        let round = self.round.saturating_add(1);
        let ballot = Ballot { round, node: self.node, draw: self.random.next() };
        self.begin(now, Step::Promise(ballot));
    }

    /// What is to be accepted if this is the name's entry, or what comes of the operation then.
    fn judge(&self, entry: &Entry) -> Result<Entry, Outcome> {
        let Task::Change { id, expect, to } = &self.task else {
            return Err(Outcome::Done(entry.clone()));
        };
        if entry.change == *id {
            return Err(Outcome::Done(entry.clone()));
        }
        // There is one entry for each stamp. If there is a later one than that which was proposed,
        // nobody knows any more which one that was.
        if self.proposed.is_some_and(|stamp| stamp < entry.stamp) {
            return Err(Outcome::Unknown(Lack::default()));
        }
        match expect.holds(entry) {
            true => {
                Ok(Entry { stamp: entry.stamp.saturating_add(1), change: *id, what: to.clone() })
            }
            false => Err(Outcome::Refused(entry.clone())),
        }
    }

    /// Those who have answered as they should, and those who will not any more.
    fn votes(&self, is_yes: impl Fn(&Reply) -> bool) -> (usize, usize) {
        let answers = self.answers.iter().flatten();
        let (yes, no): (Vec<&Answer>, Vec<&Answer>) =
            answers.partition(|it| it.view == self.view && is_yes(&it.reply));
        (yes.len(), no.len())
    }

    /// How many keepers will not vote as this step wants it.
    fn votes_against(&self) -> usize {
        let is_accepting = matches!(self.step, Step::Accept(..));
        let (_, no) = self.votes(|reply| match reply {
            Reply::Promised { .. } => !is_accepting,
            Reply::Accepted => is_accepting,
            _ => false,
        });
        no
    }

    fn promise(&mut self, now: Instant, ballot: Ballot) {
        let (yes, no) = self.votes(|reply| matches!(reply, Reply::Promised { .. }));
        if yes < majority(self.keepers.len()) {
            return self.give_way(now, no);
        }
        let promised = self.answers.iter().flatten().filter_map(|answer| match &answer.reply {
            Reply::Promised { accepted, entry } if answer.view == self.view => {
                Some((accepted, entry))
            }
            _ => None,
        });
        let latest = promised.max_by_key(|(accepted, _)| **accepted);
        let Some((_, entry)) = latest.map(|(accepted, entry)| (*accepted, entry.clone())) else {
            return;
        };
        // Even what is only read is accepted once more: it may have been by a minority before.
        let step = match self.judge(&entry) {
            Err(outcome) => Step::Accept(ballot, entry, outcome),
            Ok(new) => {
                let stamp = new.stamp;
                self.proposed = Some(self.proposed.map_or(stamp, |it| it.min(stamp)));
                Step::Accept(ballot, new.clone(), Outcome::Done(new))
            }
        };
        self.begin(now, step);
    }

    fn accept(&mut self, now: Instant) {
        let (yes, no) = self.votes(|reply| matches!(reply, Reply::Accepted));
        match &self.step {
            Step::Accept(_, _, outcome) if yes >= majority(self.keepers.len()) => {
                let outcome = outcome.clone();
                self.finish(outcome);
            }
            _ => self.give_way(now, no),
        }
    }

    /// If so many refusals leave no majority, begins anew after a while.
    fn give_way(&mut self, now: Instant, refused: usize) {
        if refused > self.keepers.len() - majority(self.keepers.len()) {
            self.step = Step::Pause;
            let most = self.settings.pause * (1 << self.pauses.min(5));
            self.due = now + self.random.span(most);
            self.pauses += 1;
        }
    }

    fn lack(&self) -> Lack {
        let mut lack = Lack::default();
        for (keeper, answer) in self.keepers.iter().zip(&self.answers) {
            let nodes = match answer {
                Some(answer) if answer.view.seats.is_empty() => &mut lack.fresh,
                Some(_) => &mut lack.answered,
                None => &mut lack.missing,
            };
            nodes.push(*keeper);
        }
        lack
    }

    fn finish(&mut self, outcome: Outcome) {
        self.step = Step::Over;
        self.actions.push_back(Action::Done(outcome));
    }
}
