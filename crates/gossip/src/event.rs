//! What gossip tells its owner, and what it counts.

use nile_abi::{Generation, NodeId};

use crate::records::{Core, Instance};

/// Something that the owner should know. A node that is down or restarted has lost all its
/// instances; they are not told one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A node is new, or lives after all.
    NodeUp {
        /// The node.
        node: NodeId,
        /// Its generation.
        generation: Generation,
    },
    /// A node does not answer. It stays a member until it is down.
    NodeSuspect {
        /// The node.
        node: NodeId,
        /// Its generation.
        generation: Generation,
    },
    /// A node that was suspect is so no more, and lives.
    NodeTrusted {
        /// The node.
        node: NodeId,
        /// Its generation.
        generation: Generation,
    },
    /// A node has left or died.
    NodeDown {
        /// The node.
        node: NodeId,
        /// Its generation.
        generation: Generation,
    },
    /// A node lives in a new generation.
    NodeRestarted {
        /// The node.
        node: NodeId,
        /// The generation that is over.
        old: Generation,
        /// The one that lives.
        generation: Generation,
    },
    /// A node says what one of its cores is for.
    CoreChanged {
        /// The node.
        node: NodeId,
        /// The core.
        core: Core,
    },
    /// A node has an instance that is new, or that it describes otherwise than before.
    Published {
        /// The node.
        node: NodeId,
        /// The instance.
        instance: Instance,
    },
    /// An instance of a node has ended.
    Unpublished {
        /// The node.
        node: NodeId,
        /// The instance as it was.
        instance: Instance,
    },
    /// An instance of a node is the same as before but for its core, or its core's incarnation.
    Moved {
        /// The node.
        node: NodeId,
        /// The instance as it is now.
        instance: Instance,
    },
    /// This node was held for dead, and has denied it.
    Denied,
    /// Members know this node by a generation that it must not use, because it is another life's
    /// or a later one: the owner has to begin anew with a higher one.
    GenerationTaken {
        /// The highest generation that a member has told of.
        generation: Generation,
    },
    /// Another node has this one's number.
    Namesake {
        /// Its generation.
        generation: Generation,
        /// Whether it keeps the number: this one has ended then. Else it will be told so, and
        /// this one has to begin anew with a higher generation than that.
        keeps: bool,
    },
}

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Destination {
    /// To one node.
    Node(NodeId),
    /// To every node of the network.
    Broadcast,
}

/// What has been counted since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Messages that were sent; a broadcast is one.
    pub sent: u64,
    /// Bytes of them.
    pub sent_bytes: u64,
    /// Messages that were received.
    pub received: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Payloads that are no messages, or contradict themselves.
    pub malformed: u64,
    /// Messages whose sender is not whom the network says, or is this node.
    pub forged: u64,
    /// Messages from lives that are over, or that are held for dead: they are only told so.
    pub stale: u64,
    /// Nodes, cores and instances that were beyond a limit.
    pub refused: u64,
    /// Rumours that were news here.
    pub news: u64,
    /// Rumours that were known.
    pub known: u64,
    /// Digests of all nodes that were found different.
    pub differences: u64,
}
