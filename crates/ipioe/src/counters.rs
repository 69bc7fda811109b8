//! What happened, counted: all that a bad frame changes.

/// Counts since the endpoint's start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Frames that came, whatever became of them.
    pub received: u64,
    /// Those that were found genuine and new, of an incarnation that lives.
    pub accepted: u64,
    /// Frames that were written.
    pub sent: u64,
    /// Frames for another node or interface.
    pub elsewhere: u64,
    /// No frame of this protocol.
    pub malformed: u64,
    /// Longer than the link's frames.
    pub oversized: u64,
    /// Changed on the way, by its CRC.
    pub corrupt: u64,
    /// Not sealed, in a cluster with a key.
    pub unsealed: u64,
    /// Sealed, at a node without a key.
    pub sealed: u64,
    /// The seal is not right: forged, or of another cluster.
    pub forged: u64,
    /// Came before, or so long after others that nobody can tell.
    pub replayed: u64,
    /// Of an incarnation that is gone, for one that is gone, or a proof of life that is too old.
    pub stale: u64,
    /// Of a node that has not been met.
    pub unmet: u64,
    /// It claims to come from this very node.
    pub own: u64,
    /// For a gateway.
    pub routed: u64,
    /// Requests that had come before.
    pub duplicates: u64,
    /// Requests and replies that were sent again.
    pub retransmitted: u64,
    /// Requests that were answered Busy, because memory was full.
    pub busy: u64,
    /// Requests whose caller does not wait any more, and replies to calls that have ended.
    pub late: u64,
    /// Replies, acknowledgements and segments that do not fit what they belong to.
    pub unexpected: u64,
    /// What had no room: segments, gossip, acknowledgements, peers.
    pub dropped: u64,
}
