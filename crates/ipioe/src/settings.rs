//! What an endpoint is told at its start, and the protocol's constants.

use core::time::Duration;

use nile_abi::{Generation, MacAddress, NodeId};

use crate::checksum::{self, Checksum};
use crate::keys::{ClusterKey, Incarnation};
use crate::wire::BootNonce;

/// The most a caller waits: deadlines beyond are moved here.
pub const MAX_PATIENCE: Duration = Duration::from_secs(600);

/// How long a hello or broadcast proves, by its echo, that a peer lives.
pub const CHALLENGE_LIFE: Duration = Duration::from_secs(2);

/// A request is sent again after this at first, while no round trip has been measured.
pub const FIRST_RETRY: Duration = Duration::from_millis(20);

/// A request is never sent again sooner than this.
pub const LEAST_RETRY: Duration = Duration::from_millis(2);

/// The back-off of requests that nobody acknowledged ends here.
pub const MOST_RETRY: Duration = Duration::from_millis(100);

/// The back-off of questions after a reply, while the callee works, ends here.
pub const MOST_QUESTION: Duration = Duration::from_millis(250);

/// An unanswered hello is sent again after this at first, then after twice as long each time.
pub const FIRST_HELLO: Duration = Duration::from_millis(20);

/// The back-off of hellos ends here.
pub const MOST_HELLO: Duration = Duration::from_millis(500);

/// A peer that was sent to and has said nothing for so long is asked whether it is still the same;
/// sooner if it never said anything under the pair's key.
pub const PROBE: Duration = Duration::from_millis(250);

/// The same while it has never said anything under the pair's key.
pub const FIRST_PROBE: Duration = Duration::from_millis(10);

/// The end of a call is told to its callee after this, unless a request tells it sooner.
pub const TELL: Duration = Duration::from_millis(20);

/// How long a part of a segmented gossip message waits for the rest, and how long messages wait
/// for a peer that has not been met.
pub const HOLD: Duration = Duration::from_secs(2);

/// Boots of a node that are refused are answered at most this often.
pub const LEAST_REFUSAL: Duration = Duration::from_millis(20);

/// The lowest number of a tool: a peer that asks and is no node. There are so many that two tools
/// do not draw the same one.
pub const FIRST_TOOL: NodeId = NodeId(0x8000_0000);

/// How long a tool may be silent before another one may have its place.
pub const TOOL_SILENCE: Duration = Duration::from_secs(2);

/// Bounds on what an endpoint remembers, all peers together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Nodes that it knows.
    pub peers: usize,
    /// Tools that it knows besides: one that is killed says no good-bye, and there may be very
    /// many.
    pub tools: usize,
    /// Its own calls that have not ended.
    pub calls: usize,
    /// Calls of others that it has to remember so that none is done twice.
    pub remembered: usize,
    /// Bytes of messages that are being put together, of replies that may have to be repeated,
    /// and of gossip that waits to be sent.
    pub bytes: usize,
    /// Frames without an owner that wait to be sent, and messages that wait to be polled.
    pub queue: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            peers: 1024,
            tools: 256,
            calls: 4096,
            remembered: 8192,
            bytes: 16 << 20,
            queue: 4096,
        }
    }
}

/// What an endpoint is told at its start.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which node it speaks for; not zero.
    pub node: NodeId,
    /// The node's incarnation; not zero, and above all that it had before.
    pub generation: Generation,
    /// The interface's address.
    pub mac: MacAddress,
    /// Bytes of the largest frame of the link, Ethernet header included: at least
    /// [`Settings::LEAST_FRAME`].
    pub max_frame: usize,
    /// The cluster's key; without one frames go unsealed.
    pub key: Option<ClusterKey>,
    /// Never had by a boot of any node before: from the machine's entropy.
    pub nonce: BootNonce,
    /// Bounds on what it remembers.
    pub limits: Limits,
    /// Of the jitter of retransmissions and the first call's number.
    pub seed: u64,
    /// The machine's CRC-32C.
    pub checksum: Checksum,
}

impl Settings {
    /// The shortest `max_frame` in which any message fits its segments.
    pub const LEAST_FRAME: usize = 1200;

    /// Settings of a node on a link with standard frames, without a key, with the usual limits.
    pub fn new(
        node: NodeId,
        generation: Generation,
        mac: MacAddress,
        nonce: BootNonce,
    ) -> Settings {
        Settings {
            node,
            generation,
            mac,
            max_frame: nile_abi::ethernet::STANDARD_FRAME,
            key: None,
            nonce,
            limits: Limits::default(),
            seed: u64::from(node.0) << 32 | u64::from(generation.0),
            checksum: checksum::portable,
        }
    }

    pub(crate) fn incarnation(&self) -> Incarnation {
        Incarnation { node: self.node, generation: self.generation, nonce: self.nonce }
    }
}
