//! What a node's gossip is made with, and how much peers can make it keep.

use core::time::Duration;

use nile_abi::{Generation, Instant, NodeId};

/// What [`Gossip`](crate::Gossip) is made with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This node.
    pub node: NodeId,
    /// Its incarnation, which is higher than that of its former lives.
    pub generation: Generation,
    /// When this node began, in whichever generation: of two that have one number, the older one
    /// keeps it.
    pub born: Instant,
    /// The seed of its choices; another one in every life, by which lives of one generation are
    /// told apart.
    pub seed: u64,
    /// How many members a rumour is told in each period; at least 1. None are told with 0, which
    /// is for proving that rumours matter.
    pub fan_out: u8,
    /// How long a period, or round, is. A node probes one other in each.
    pub period: Duration,
    /// Bytes of the longest message: what fits one frame. At least [`Settings::LEAST_MESSAGE`].
    pub message_bytes: usize,
    /// Whether it only looks on, as tools do: it learns all, and nobody learns of it.
    pub observer: bool,
    /// How much peers can make it keep.
    pub limits: Limits,
}

/// How much peers can make a node keep. What is beyond is counted and ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Nodes, living and dead.
    pub nodes: usize,
    /// Cores and instances of one node, with ranges of former instances.
    pub entries: usize,
    /// Bytes of all directories in the binary form.
    pub bytes: usize,
}

impl Settings {
    /// The fewest bytes that messages may be bounded by.
    pub const LEAST_MESSAGE: usize = 512;

    /// The settings of a usual node: three told in each period of half a second, by messages that
    /// fit a frame of 1,500 bytes with its headers, sealed and routed.
    pub fn new(node: NodeId, generation: Generation, seed: u64) -> Settings {
        Settings {
            node,
            generation,
            born: Instant::START,
            seed,
            fan_out: 3,
            period: Duration::from_millis(500),
            message_bytes: 1_390,
            observer: false,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { nodes: 16_384, entries: 1_024, bytes: 8 << 20 }
    }
}
