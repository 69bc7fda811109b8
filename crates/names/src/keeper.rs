//! One keeper: answers what it is asked. How it becomes one is in `joining`, how it goes on as one
//! in `announcing`.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

use nile_abi::{Instant, NodeId};
use nile_store::Name;

use crate::announcing::{Announcing, News, may_begin, next_life, no_lives};
use crate::ballot::Ballot;
use crate::cell::Cell;
use crate::entry::What;
use crate::joining::{Joining, Step};
use crate::message::{Answer, Ask, Durable, NamedCell, PAGE_BYTES, Reply, Request};
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
    /// It comes back, and one of these has to know its disk for the last that it had.
    Returning(Vec<NodeId>),
    /// Its disk is an old copy. It takes the place of a lost one when these are in.
    Behind(Vec<NodeId>),
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
    /// If it has a view, and others have to hear of its life.
    announcing: Option<Announcing>,
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
        let charter = Charter { identity, view, before: 0, life: 0, lives: Vec::new() };
        let mut keeper = Keeper::restore(now, node, keepers, charter, [], seed, settings)?;
        keeper.keep_charter();
        Ok(keeper)
    }

    /// The keeper on `node`, one of `keepers`, with what its store has. `seed` is drawn anew each
    /// time.
    pub fn restore(
        now: Instant,
        node: NodeId,
        keepers: &[NodeId],
        mut charter: Charter,
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
        charter.lives.resize(keepers.len(), 0);
        let (keepers, cells) = (keepers.to_vec(), cells.into_iter().collect());
        let (joining, announcing, actions) = (None, None, VecDeque::new());
        let mut keeper = Keeper {
            keepers,
            seat,
            charter,
            cells,
            joining,
            announcing,
            settings,
            due: now,
            actions,
        };
        let mut random = Random::new(seed);
        if keeper.charter.view.is_none() {
            keeper.joining = Some(Joining::new(seat, keeper.keepers.len(), random));
        } else if keeper.keepers.len() > 1 {
            // One of which nobody has heard goes on.
            if keeper.charter.before == keeper.charter.life {
                keeper.charter.life = next_life(keeper.charter.life, &mut random);
                keeper.keep_charter();
            }
            keeper.announcing = Some(Announcing::new(seat, keeper.keepers.len(), false, random));
        }
        Ok(keeper)
    }

    fn keep_charter(&mut self) {
        let charter = Durable::Charter(self.charter.clone());
        self.actions.push_back(Action::Store(charter));
    }

    /// Whether it answers questions about names.
    fn is_in(&self) -> bool {
        self.charter.view.is_some() && self.announcing.as_ref().is_none_or(|it| it.is_in)
    }

    /// What it knows of itself; it may not be durable yet.
    pub fn charter(&self) -> &Charter {
        &self.charter
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let nodes = |seats: Vec<usize>| seats.into_iter().map(|it| self.keepers[it]).collect();
        match (&self.joining, &self.announcing) {
            (None, Some(it)) if it.is_behind => Standing::Behind(nodes(it.missing())),
            (None, Some(it)) if !it.is_in => Standing::Returning(nodes(it.missing())),
            (None, _) => Standing::In,
            (Some(joining), _) if joining.is_taking() => Standing::Taking,
            (Some(joining), _) => match joining.lost() {
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
        let is_of_names = !matches!(
            ask.request,
            Request::Hello { .. } | Request::Adopt { .. } | Request::Begin { .. }
        );
        if self.charter.view.is_some() && !self.is_in() && is_of_names {
            let reply = Reply::Refused(Ballot::NONE);
            return (Answer { tag: ask.tag, view: View::default(), reply }, None);
        }
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
            Request::Promise { name, ballot } if is_same => {
                let old = self.cells.get(&name).unwrap_or(&Cell::NEVER);
                let reply = Reply::Promised { accepted: old.accepted, entry: old.entry.clone() };
                self.change(name, reply, |cell| cell.promise(ballot))
            }
            Request::Accept { name, ballot, entry } if is_same => {
                self.change(name, Reply::Accepted, |cell| cell.accept(ballot, entry))
            }
            Request::Adopt { seat, identity }
                if is_same && self.is_in() && seat as usize != self.seat =>
            {
                let durable = own.with(seat as usize, identity).map(|view| {
                    self.charter.view = Some(view);
                    self.charter.lives[seat as usize] = 0;
                    self.tell_anew(seat as usize);
                    Durable::Charter(self.charter.clone())
                });
                (self.introduce(), durable)
            }
            Request::Begin { seat, identity, before, life } => {
                let is_known = own.names(seat as usize, identity);
                self.hear(seat as usize, is_known, before, life)
            }
            _ => (self.introduce(), None),
        }
    }

    /// Another one begins a life; `is_known` tells whether its store has the seat.
    fn hear(
        &mut self,
        seat: usize,
        is_known: bool,
        before: u64,
        life: u64,
    ) -> (Reply, Option<Durable>) {
        let is_in = self.is_in();
        let Some(known) = self.charter.lives.get_mut(seat) else {
            return (self.introduce(), None);
        };
        if !is_known || !may_begin(*known, before, life) {
            return (Reply::Behind { is_in }, None);
        }
        let is_new = core::mem::replace(known, life) != life;
        (Reply::Begun { is_in }, is_new.then(|| Durable::Charter(self.charter.clone())))
    }

    /// One has come into this seat that has heard of no life of this one.
    fn tell_anew(&mut self, seat: usize) {
        let (own, keepers) = (self.seat, self.keepers.len());
        let seed = self.charter.identity ^ self.charter.life;
        let random = || Random::new(seed);
        let has_told = self.announcing.is_none();
        let announcing =
            self.announcing.get_or_insert_with(|| Announcing::new(own, keepers, true, random()));
        if has_told {
            announcing.has_told_all();
        }
        announcing.tell_anew(seat);
        self.due = Instant::START;
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
        let kept = || Durable::Cell(NamedCell { name: name.clone(), cell: new.clone() });
        let durable = (new != *old).then(kept);
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
            cells.push(NamedCell { name: name.clone(), cell: cell.clone() });
        }
        Reply::Page { cells, is_last: rest.peek().is_none() }
    }

    /// What is to be done next.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When [`Keeper::tick`] is to be called.
    pub fn next_due(&self) -> Option<Instant> {
        (self.joining.is_some() || self.announcing.is_some()).then_some(self.due)
    }

    /// Asks the others again, if it is time, as long as it is not in, or they have not heard of it.
    pub fn tick(&mut self, now: Instant) {
        if self.due > now {
            return;
        }
        let silence = self.settings.silence;
        // Not in step with the others.
        if let Some(joining) = &mut self.joining {
            let asks = joining.ask(self.charter.identity);
            self.due = now + silence + joining.random.span(silence);
            self.send(asks);
        } else if let Some(announcing) = &mut self.announcing {
            let asks = announcing.ask(&self.charter);
            let silence = silence * announcing.patience();
            self.due = now + silence + announcing.random.span(silence);
            self.send(asks);
        }
    }

    /// The answer of the keeper on node `from` to something that this one has asked.
    pub fn receive(&mut self, from: NodeId, answer: Answer) {
        let Some(from) = self.keepers.iter().position(|it| *it == from) else { return };
        let Some(joining) = &mut self.joining else { return self.hear_of(from, answer) };
        match joining.receive(self.charter.identity, from, answer) {
            Step::Nothing => {}
            Step::Ask(asks) => self.send(asks),
            Step::Take(cells, asks) => {
                for NamedCell { name, cell } in cells {
                    self.take(name, cell);
                }
                self.send(asks);
            }
            Step::Enter(cells, view) => {
                for NamedCell { name, cell } in cells {
                    self.take(name, cell);
                }
                self.charter.view = Some(view);
                self.joining = None;
                self.keep_charter();
            }
        }
    }

    /// What another one says of this one's life.
    fn hear_of(&mut self, from: usize, answer: Answer) {
        let Some(announcing) = &mut self.announcing else { return };
        let was_behind = announcing.is_behind;
        let news = announcing.receive(self.charter.identity, from, answer);
        if news == News::Lost || announcing.is_behind && !was_behind {
            self.due = Instant::START;
        }
        let is_told = self.charter.before == self.charter.life;
        match news {
            News::Nothing => return,
            News::Lost => {
                let identity = announcing.random.next();
                let random = announcing.random.clone();
                let lives = no_lives(self.keepers.len());
                self.charter = Charter { identity, view: None, before: 0, life: 0, lives };
                self.announcing = None;
                self.joining = Some(Joining::new(self.seat, self.keepers.len(), random));
                return self.keep_charter();
            }
            News::In => {}
            News::All => self.announcing = None,
        }
        if !is_told {
            self.charter.before = self.charter.life;
            self.keep_charter();
        }
    }

    fn take(&mut self, name: Name, cell: Cell) {
        let old = self.cells.get(&name).unwrap_or(&Cell::NEVER);
        let mut new = old.clone();
        new.merge(cell);
        if new != *old {
            let durable = Durable::Cell(NamedCell { name: name.clone(), cell: new.clone() });
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
        What::Dataset { facts, .. } | What::Output { facts, .. } => facts.nodes.len(),
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
