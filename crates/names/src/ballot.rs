//! Numbers of attempts at a name; no two attempts have the same.

use nile_abi::NodeId;
use nile_stl_macros::Record;

/// One attempt of one proposer. A later one has a higher round.
#[derive(Record, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[record(crate = nile_bosml)]
pub struct Ballot {
    /// Above all rounds that its proposer has heard of.
    pub round: u64,
    /// Where the proposer runs.
    pub node: NodeId,
    /// Drawn for this attempt: the same node may make several at once.
    pub draw: u64,
}

impl Ballot {
    /// Below all attempts.
    pub const NONE: Ballot = Ballot { round: 0, node: NodeId(0), draw: 0 };
}
