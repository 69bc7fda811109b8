//! What one keeper has of one name (the acceptor of Paxos).

use nile_stl_macros::Record;

use crate::ballot::Ballot;
use crate::entry::Entry;

/// One keeper's part of one name.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub struct Cell {
    /// It hears no ballot below this.
    pub promised: Ballot,
    /// The ballot of which it has accepted an entry.
    pub accepted: Ballot,
    /// That entry.
    pub entry: Entry,
}

impl Cell {
    /// That of a name of which nobody has spoken.
    pub const NEVER: Cell =
        Cell { promised: Ballot::NONE, accepted: Ballot::NONE, entry: Entry::NEVER };

    /// Promises to hear nothing below `ballot`. False if it has promised more than that.
    pub(crate) fn promise(&mut self, ballot: Ballot) -> bool {
        let is_heard = ballot >= self.promised;
        if is_heard {
            self.promised = ballot;
        }
        is_heard
    }

    /// Accepts an entry. False if it has promised not to.
    pub(crate) fn accept(&mut self, ballot: Ballot, entry: Entry) -> bool {
        let is_heard = self.promise(ballot);
        if is_heard && ballot > self.accepted {
            (self.accepted, self.entry) = (ballot, entry);
        }
        is_heard
    }

    /// Takes over what another keeper has promised and accepted.
    pub(crate) fn merge(&mut self, other: Cell) {
        self.promised = self.promised.max(other.promised);
        if other.accepted > self.accepted {
            (self.accepted, self.entry) = (other.accepted, other.entry);
        }
    }
}
