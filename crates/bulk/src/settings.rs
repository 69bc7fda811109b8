//! What an endpoint is told about itself, its link and its limits.

use core::time::Duration;

use nile_abi::{Generation, MacAddress, NodeId};
use nile_ipioe::checksum::{self, Checksum};

/// What an endpoint is told when it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The node.
    pub node: NodeId,
    /// The incarnation of the core that runs the endpoint: one endpoint has it, its successor has
    /// the next.
    pub generation: Generation,
    /// The address of the interface.
    pub mac: MacAddress,
    /// What is behind the interface.
    pub link: Link,
    /// Whether the cluster has a key. Then every frame is sealed, and one that is not is dropped.
    pub sealed: bool,
    /// What computes CRC-32C here: a processor with an instruction for it is forty times as quick
    /// as the portable function.
    pub checksum: Checksum,
    /// What may be kept.
    pub limits: Limits,
    /// For how long nothing may be heard of a transfer before it ends with
    /// [`Why::Timeout`](crate::Why::Timeout).
    pub idle: Duration,
    /// Where the spreading of repetitions starts.
    pub seed: u64,
}

impl Settings {
    /// Settings for an unsealed link with the usual limits, the portable checksum, and ten
    /// seconds of patience.
    pub fn new(node: NodeId, generation: Generation, mac: MacAddress, link: Link) -> Settings {
        Settings {
            node,
            generation,
            mac,
            link,
            sealed: false,
            checksum: checksum::portable,
            limits: Limits::default(),
            idle: Duration::from_secs(10),
            seed: u64::from(node.0) << 32 | u64::from(generation.0),
        }
    }
}

/// The properties of the link, as far as this protocol uses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Bytes of the largest frame, Ethernet header included.
    pub max_frame: usize,
    /// Bits per second in each direction, if it has such a limit. Credits are given at this rate.
    pub rate: Option<u64>,
    /// The most bytes that may be on their way to this endpoint, from all senders together. More
    /// than rate × round trip, so that the link is never idle; not much more, because what exceeds
    /// it waits in a queue of the network.
    pub window: u64,
    /// Whether this is checked memory between two nodes of one machine. Then frames go without
    /// CRC (the field is zero), and one without it is accepted.
    pub trusted: bool,
}

impl Link {
    /// A network of `rate` bits per second, whose round trip through idle queues takes at most
    /// `round_trip`. The window is twice their product and a few frames.
    pub fn network(max_frame: usize, rate: u64, round_trip: Duration) -> Link {
        let nanos = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
        let bits = u128::from(rate) * u128::from(nanos) / 1_000_000_000;
        let product = u64::try_from(bits / 8).unwrap_or(u64::MAX);
        let window = product.saturating_mul(2).saturating_add(4 * max_frame as u64);
        Link { max_frame, rate: Some(rate), window, trusted: false }
    }

    /// Memory that two nodes of one machine share, with room for `window` bytes of frames.
    pub fn shared_memory(max_frame: usize, window: u64) -> Link {
        Link { max_frame, rate: None, window, trusted: true }
    }
}

/// How much an endpoint keeps at most. What would exceed it is refused with
/// [`Status::Busy`](nile_abi::Status::Busy), nothing is forgotten early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Transfers that this endpoint sends at once.
    pub outgoing: usize,
    /// Transfers that this endpoint receives at once, or has been offered.
    pub incoming: usize,
    /// Nodes that this endpoint has ever heard of.
    pub peers: usize,
    /// Transfers from one node that are over, but of which old frames may still come.
    pub ended: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { outgoing: 1024, incoming: 1024, peers: 4096, ended: 4096 }
    }
}
