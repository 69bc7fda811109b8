//! What is asked of keepers, by proposers and by each other, what they answer, and what they make
//! durable before they do.

use alloc::vec::Vec;

use nile_stl_macros::Record;
use nile_store::Name;

use crate::ballot::Ballot;
use crate::cell::Cell;
use crate::entry::Entry;
use crate::view::{Charter, View};

/// The most bytes of cells in one answer, about: no answer grows with the number of names.
pub const PAGE_BYTES: usize = 24 << 10;

/// To a keeper.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Ask {
    /// Tells the answer from answers to other questions: drawn by who asks.
    pub tag: u64,
    /// The keepers that the asker believes in. Who only looks may leave it empty.
    pub view: View,
    /// What is asked.
    pub request: Request,
}

/// A question.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Request {
    /// Which entry of this name was accepted? Promises nothing.
    Look(Name),
    /// Promise to hear no earlier ballot about this name. Only in the asker's view.
    Promise {
        /// The name.
        name: Name,
        /// The ballot.
        ballot: Ballot,
    },
    /// Accept this entry. Only in the asker's view.
    Accept {
        /// The name.
        name: Name,
        /// The ballot.
        ballot: Ballot,
        /// The entry.
        entry: Entry,
    },
    /// The cells of the next names, in the order of their bytes.
    Page {
        /// The name before them; none begins with the first.
        after: Option<Name>,
        /// At most so many.
        most: u32,
    },
    /// Who are you? From the keeper of this seat, which is not in yet.
    Hello {
        /// The asker's seat.
        seat: u32,
    },
    /// From now on this is the store of this seat. Only in the asker's view.
    Adopt {
        /// The asker's seat.
        seat: u32,
        /// Its identity.
        identity: u64,
    },
    /// The keeper of this seat begins a life.
    Begin {
        /// The asker's seat.
        seat: u32,
        /// Its identity.
        identity: u64,
        /// The life before.
        before: u64,
        /// The life.
        life: u64,
    },
}

/// From a keeper.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Answer {
    /// The question's.
    pub tag: u64,
    /// The keepers that this one believes in; empty if it is not in.
    pub view: View,
    /// What it says.
    pub reply: Reply,
}

/// An answer.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Reply {
    /// Of `Look`.
    Looked(Cell),
    /// It has promised, and has accepted this entry of this ballot before.
    Promised {
        /// The ballot of which it has accepted an entry.
        accepted: Ballot,
        /// That entry.
        entry: Entry,
    },
    /// It has accepted the entry.
    Accepted,
    /// It has promised to hear nothing below this ballot, which is above the asker's; or it is not
    /// in, and answers nothing of names.
    Refused(Ballot),
    /// Of `Page`.
    Page {
        /// The cells.
        cells: Vec<NamedCell>,
        /// Whether there are no more behind them.
        is_last: bool,
    },
    /// Its identity: of `Hello` and `Adopt`, and of all else if it believes in other keepers than
    /// the asker, or is not in.
    Standing {
        /// The identity.
        identity: u64,
    },
    /// Of `Begin`: it has heard of that life, and knows of no later one.
    Begun {
        /// Whether it is in itself.
        is_in: bool,
    },
    /// Of `Begin`: the asker has lived later than it knows, or, as the view has it, another store
    /// has the asker's seat.
    Behind {
        /// Whether it is in itself.
        is_in: bool,
    },
}

/// What a keeper has of a name.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct NamedCell {
    /// The name.
    pub name: Name,
    /// What it has.
    pub cell: Cell,
}

/// Something that a keeper keeps durably, in place of what it had of the same name before.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Durable {
    /// What it knows of itself.
    Charter(Charter),
    /// What it has of a name.
    Cell(NamedCell),
}
