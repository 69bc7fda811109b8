//! What sources say about edges.

/// An edge is there from now on, or is not. It is the same event if it comes again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Which event of its source it is, from 0, without gaps.
    pub sequence: u64,
    /// When it happened, by its source's clock, in any unit that all sources share.
    pub time: u64,
    /// From which vertex, by any number.
    pub from: u64,
    /// To which vertex.
    pub to: u64,
    /// Whether the edge goes.
    pub removes: bool,
}

/// Which of two events about an edge holds: the one with the higher stamp, whichever came first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stamp {
    /// When it happened.
    pub time: u64,
    /// Of two that happened at one time, the one of the source with the higher number.
    pub source: u64,
    /// Of two of one source, the later one.
    pub sequence: u64,
}

impl Event {
    /// The stamp of the event, which is of this source.
    pub fn stamp(&self, source: u64) -> Stamp {
        Stamp { time: self.time, source, sequence: self.sequence }
    }
}
