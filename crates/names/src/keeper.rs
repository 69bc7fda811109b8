//! One keeper: answers what it is asked. How it becomes one is in `joining`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use nile_abi::{Instant, NodeId};
use nile_store::Name;

use crate::cell::Cell;
use crate::entry::What;
use crate::joining::{Joining, Step};
use crate::message::{Answer, Ask, Durable, PAGE_BYTES, Reply, Request};
use crate::random::Random;
use crate::settings::Settings;
use crate::view::{Charter, View};

/// What the keeper's engine has to do, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Make this durable, before all that comes behind it.
    Store(Durable),
    /// Ask the keeper on this node; what it answers goes to [`Keeper::receive`].
    Send(NodeId, Ask),
}

/// How a keeper stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It keeps names.
    In,
    /// It is new, and these keepers have to be there, too, before it is in.
    Waiting(Vec<NodeId>),
    /// It takes the place of a lost disk, and is being given what the others have.
    Taking,
    /// It takes the place of a lost disk, and so do these: no majority is left to give it anything.
    Lost(Vec<NodeId>),
}

/// Why a node cannot be a keeper.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misfit {
    /// The configuration does not name the node as a keeper.
    NoKeeper(NodeId),
    /// Its disk is of a cluster with so many keepers.
    Number(usize),
    /// Its disk has another place among the keepers.
    Order(NodeId),
}

/// One keeper. Sans-IO: after each call, [`Keeper::poll`] gives what is to be done, until there is
/// nothing. Things are to be made durable in the order in which they are given out, by
/// [`Keeper::handle`] and [`Action::Store`], and nothing that the keeper says may leave before all
/// is durable that was given out until then. Many things may be made durable at once.
#[derive(Debug)]
pub struct Keeper {
    keepers: Vec<NodeId>,
    seat: usize,
    charter: Charter,
    cells: BTreeMap<Name, Cell>,
    /// If it is not in.
    joining: Option<Joining>,
    settings: Settings,
    due: Instant,
    actions: VecDeque<Action>,
}

impl Keeper {
    /// The keeper on `node`, one of `keepers`, whose store has no charter. It gets this `identity`,
    /// which has to be a number that nobody has ever drawn; so has `seed`. The charter is the first
    /// thing to be made durable.
    pub fn fresh(
        now: Instant,
        node: NodeId,
        keepers: &[NodeId],
        identity: u64,
        seed: u64,
        settings: Settings,
    ) -> Result<Keeper, Misfit> {
        let view = (keepers.len() == 1).then(|| View::founded([identity].into_iter()));
        let charter = Charter { identity, view };
        let mut keeper = Keeper::restore(now, node, keepers, charter.clone(), [], seed, settings)?;
        keeper.actions.push_back(Action::Store(Durable::Charter(charter)));
        Ok(keeper)
    }

    /// The keeper on `node`, one of `keepers`, with what its store has. `seed` is drawn anew each
    /// time.
    pub fn restore(
        now: Instant,
        node: NodeId,
        keepers: &[NodeId],
        charter: Charter,
        cells: impl IntoIterator<Item = (Name, Cell)>,
        seed: u64,
        settings: Settings,
    ) -> Result<Keeper, Misfit> {
        let seat = keepers.iter().position(|it| *it == node).ok_or(Misfit::NoKeeper(node))?;
        if let Some(view) = &charter.view {
            if view.seats.len() != keepers.len() {
                return Err(Misfit::Number(view.seats.len()));
            }
            if !view.names(seat, charter.identity) {
                return Err(Misfit::Order(node));
            }
        }
        let joining = charter.view.is_none();
        let joining = joining.then(|| Joining::new(seat, keepers.len(), Random::new(seed)));
        let (keepers, cells) = (keepers.to_vec(), cells.into_iter().collect());
        let actions = VecDeque::new();
        Ok(Keeper { keepers, seat, charter, cells, joining, settings, due: now, actions })
    }

    /// What it knows of itself; it may not be durable yet.
    pub fn charter(&self) -> &Charter {
        &self.charter
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let nodes = |seats: Vec<usize>| seats.into_iter().map(|it| self.keepers[it]).collect();
        match &self.joining {
            None => Standing::In,
            Some(joining) if joining.is_taking() => Standing::Taking,
            Some(joining) => match joining.lost() {
                Some(seats) => Standing::Lost(nodes(seats)),
                None => Standing::Waiting(nodes(joining.missing())),
            },
        }
    }

    /// What it has of each name. What a name stands for only a majority can say.
    pub fn cells(&self) -> impl Iterator<Item = (&Name, &Cell)> {
        self.cells.iter()
    }

    /// How many names stand for something, as far as this one knows.
    pub fn names(&self) -> usize {
        self.cells.values().filter(|cell| cell.entry.what != What::Absent).count()
    }

    /// Answers a question, and says what is to be made durable before the answer leaves.
    pub fn handle(&mut self, ask: Ask) -> (Answer, Option<Durable>) {
        let (reply, durable) = match &self.charter.view {
            Some(view) => self.answer(view.clone(), ask.view, ask.request),
            None => {
                if let (Request::Hello { seat: 0 }, Some(joining)) =
                    (&ask.request, &mut self.joining)
                {
                    joining.has_said_that_it_is_fresh();
                }
                (self.introduce(), None)
            }
        };
        let view = self.charter.view.clone().unwrap_or_default();
        (Answer { tag: ask.tag, view, reply }, durable)
    }

    /// The answer of one that is in.
    fn answer(&mut self, own: View, view: View, request: Request) -> (Reply, Option<Durable>) {
        let is_same = own == view;
        match request {
            Request::Look(name) => {
                (Reply::Looked(self.cells.get(&name).cloned().unwrap_or(Cell::NEVER)), None)
            }
            Request::Page { after, most } => (self.page(after, most), None),
            Request::Promise(name, ballot) if is_same => {
                let old = self.cells.get(&name).unwrap_or(&Cell::NEVER);
                let reply = Reply::Promised(old.accepted, old.entry.clone());
                self.change(name, reply, |cell| cell.promise(ballot))
            }
            Request::Accept(name, ballot, entry) if is_same => {
                self.change(name, Reply::Accepted, |cell| cell.accept(ballot, entry))
            }
            Request::Adopt { seat, identity } if is_same && seat as usize != self.seat => {
                let durable = own.with(seat as usize, identity).map(|view| {
                    self.charter.view = Some(view);
                    Durable::Charter(self.charter.clone())
                });
                (self.introduce(), durable)
            }
            _ => (self.introduce(), None),
        }
    }

    /// Changes a cell, which says whether it did.
    fn change(
        &mut self,
        name: Name,
        reply: Reply,
        change: impl FnOnce(&mut Cell) -> bool,
    ) -> (Reply, Option<Durable>) {
        let old = self.cells.get(&name).unwrap_or(&Cell::NEVER);
        let mut new = old.clone();
        if !change(&mut new) {
            return (Reply::Refused(old.promised), None);
        }
        // What is asked twice is durable once it was answered the first time.
        let durable = (new != *old).then(|| Durable::Cell(name.clone(), new.clone()));
        if durable.is_some() {
            self.cells.insert(name, new);
        }
        (reply, durable)
    }

    fn introduce(&self) -> Reply {
        Reply::Standing { identity: self.charter.identity }
    }

    fn page(&self, after: Option<Name>, most: u32) -> Reply {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rest = self.cells.range((from, Bound::Unbounded)).peekable();
        let (mut cells, mut bytes) = (Vec::new(), 0);
        // One at least, or who asks would never come to an end.
        while let Some((name, cell)) = rest.next_if(|(name, cell)| {
            cells.is_empty()
                || cells.len() < most as usize && bytes + cell_bytes(name, cell) <= PAGE_BYTES
        }) {
            bytes += cell_bytes(name, cell);
            cells.push((name.clone(), cell.clone()));
        }
        Reply::Page { cells, is_last: rest.peek().is_none() }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Keeper::tick`] is to be called.
    pub fn next_due(&self) -> Option<Instant> {
        self.joining.is_some().then_some(self.due)
    }

    /// Asks the others again, if it is time, as long as it is not in.
    pub fn tick(&mut self, now: Instant) {
        if let Some(joining) = self.joining.as_mut().filter(|_| self.due <= now) {
            let asks = joining.ask(self.charter.identity);
            // Not in step with the others.
            self.due = now + self.settings.silence + joining.random.span(self.settings.silence);
            self.send(asks);
        }
    }

    /// The answer of the keeper on node `from` to something that this one has asked.
    pub fn receive(&mut self, from: NodeId, answer: Answer) {
        let Some(from) = self.keepers.iter().position(|it| *it == from) else { return };
        let Some(joining) = &mut self.joining else { return };
        match joining.receive(self.charter.identity, from, answer) {
            Step::Nothing => {}
            Step::Ask(asks) => self.send(asks),
            Step::Take(cells, asks) => {
                for (name, cell) in cells {
                    self.take(name, cell);
                }
                self.send(asks);
            }
            Step::Enter(cells, view) => {
                for (name, cell) in cells {
                    self.take(name, cell);
                }
                self.charter.view = Some(view);
                self.joining = None;
                let charter = Durable::Charter(self.charter.clone());
                self.actions.push_back(Action::Store(charter));
            }
        }
    }

    fn take(&mut self, name: Name, cell: Cell) {
        let old = self.cells.get(&name).unwrap_or(&Cell::NEVER);
        let mut new = old.clone();
        new.merge(cell);
        if new != *old {
            let durable = Durable::Cell(name.clone(), new.clone());
            self.actions.push_back(Action::Store(durable));
            self.cells.insert(name, new);
        }
    }

    fn send(&mut self, asks: Vec<(usize, Ask)>) {
        let sent = asks.into_iter().map(|(seat, ask)| Action::Send(self.keepers[seat], ask));
        self.actions.extend(sent);
    }
}

/// How long a cell is in a message, about.
fn cell_bytes(name: &Name, cell: &Cell) -> usize {
    let nodes = match &cell.entry.what {
        What::Dataset(_, facts) | What::Output { facts, .. } => facts.nodes.len(),
        What::Absent | What::Making { .. } => 0,
    };
    128 + name.as_str().len() + 4 * nodes
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Misfit::NoKeeper(node) => {
                write!(f, "node {node} is none of the keepers that the configuration names")
            }
            Misfit::Number(keepers) => write!(
                f,
                "this disk is of a cluster with {keepers} keepers of names; have the configuration \
                 name as many"
            ),
            Misfit::Order(node) => write!(
                f,
                "the disk of node {node} has another place among the keepers of names; have the \
                 configuration name them in the order that they had"
            ),
        }
    }
}
