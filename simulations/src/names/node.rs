//! A node, its disk, and its keeper if it has one. What the keeper says waits until all is durable
//! that it gave out before; what was not flushed goes with the power.

use std::collections::{BTreeMap, VecDeque};

use nile_abi::{Instant, NodeId};
use nile_names::{Answer, Ask, Cell, Charter, Durable, Keeper, Name, Standing};

/// Who has asked a keeper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    /// The keeper of a node in this life.
    Keeper(NodeId, u32),
    /// An operation of a client.
    Operation(u64),
}

/// What is said between nodes.
#[derive(Clone, Debug)]
pub enum Letter {
    Ask(Party, Ask),
    Answer(Party, Answer),
}

/// What a keeper has given out.
#[derive(Debug)]
enum Output {
    Store(Durable),
    Say(NodeId, Letter),
}

/// What survives.
#[derive(Clone, Default, Debug)]
pub struct Disk {
    pub charter: Option<Charter>,
    pub cells: BTreeMap<Name, Cell>,
}

/// Why a node has no disk that it can use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Without {
    /// Another's is in its place.
    Foreign,
    /// It is damaged.
    Damaged,
}

pub struct Node {
    pub id: NodeId,
    /// How often it has begun.
    pub life: u32,
    pub is_up: bool,
    pub disk: Disk,
    /// Its disk as it was when it had no power.
    pub copy: Option<Disk>,
    /// Its disk was lost or is an old copy, and it was not in since.
    pub is_lost: bool,
    /// The disk that it has now is not its own, or damaged: it goes on without a keeper.
    pub is_without: Option<Without>,
    /// Until when its disk is full, and until when it is slow.
    pub full_until: Instant,
    pub slow_until: Instant,
    /// Until when it stands still.
    pub stands_until: Instant,
    pub keeper: Option<Keeper>,
    outputs: VecDeque<Output>,
    /// So many of these are on their way to the disk.
    flushing: usize,
}

impl Disk {
    fn store(&mut self, durable: Durable) {
        match durable {
            Durable::Charter(charter) => self.charter = Some(charter),
            Durable::Cell(it) => drop(self.cells.insert(it.name, it.cell)),
        }
    }
}

impl Node {
    pub fn new(id: NodeId) -> Node {
        Node {
            id,
            life: 0,
            is_up: false,
            disk: Disk::default(),
            copy: None,
            is_lost: false,
            is_without: None,
            full_until: Instant::START,
            slow_until: Instant::START,
            stands_until: Instant::START,
            keeper: None,
            outputs: VecDeque::new(),
            flushing: 0,
        }
    }

    /// Whether its keeper is in, as its disk has it, too.
    pub fn is_in(&self) -> bool {
        let charter = self.disk.charter.as_ref();
        let is_in = |keeper: &Keeper| keeper.standing() == Standing::In;
        charter.is_some_and(|it| it.view.is_some()) && self.keeper.as_ref().is_some_and(is_in)
    }

    pub fn store(&mut self, durable: Durable) {
        self.outputs.push_back(Output::Store(durable));
    }

    pub fn say(&mut self, to: NodeId, letter: Letter) {
        self.outputs.push_back(Output::Say(to, letter));
    }

    /// What may be said, all before it being durable.
    pub fn said(&mut self) -> Option<(NodeId, Letter)> {
        if self.flushing > 0 || !matches!(self.outputs.front(), Some(Output::Say(..))) {
            return None;
        }
        match self.outputs.pop_front() {
            Some(Output::Say(to, letter)) => Some((to, letter)),
            _ => None,
        }
    }

    /// Begins to make durable what there is. False if there is nothing, or it has begun already.
    pub fn flush(&mut self) -> bool {
        let begins = self.flushing == 0 && !self.outputs.is_empty();
        if begins {
            self.flushing = self.outputs.len();
        }
        begins
    }

    /// That much is durable: `part` of what was on its way, or all of it. Gives back what may be
    /// said.
    pub fn flushed(&mut self, part: Option<usize>) -> Vec<(NodeId, Letter)> {
        let count = part.map_or(self.flushing, |part| part % (self.flushing + 1));
        let mut said = Vec::new();
        for output in self.outputs.drain(..count) {
            match output {
                Output::Store(durable) => self.disk.store(durable),
                Output::Say(to, letter) => said.push((to, letter)),
            }
        }
        self.flushing = 0;
        self.is_lost &= !self.is_in();
        said
    }

    /// The power is gone; of what was on its way to the disk `part` is there.
    pub fn fall(&mut self, part: usize) {
        self.flushed(Some(part));
        self.outputs.clear();
        (self.keeper, self.is_up) = (None, false);
    }
}
