//! Calls to instances on other nodes, and the messages of gossip.

use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};
use nile_bosml::{Blob, Bytes};
use nile_stl::{CallResult, Caller, Record, service};

/// A node in one of its incarnations.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Which node: 3 is n3.
    pub node: u32,
    /// Its incarnation.
    pub generation: u32,
}

/// Which method of another node is called, and for whom.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Called {
    /// The core of that node.
    pub core: u16,
    /// The number by which the node exports the instance.
    pub number: u16,
    /// The method's place in its schema.
    pub method: u16,
    /// Whether a package of this node has asked its kernel for it.
    pub for_package: bool,
}

/// Something that came over the network for the management core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Heard {
    /// From whom.
    pub from: Identity,
    /// What.
    pub what: News,
}

/// What can come for the management core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// A message of gossip.
    Gossip(Blob),
    /// One that went to all.
    Announced(Blob),
    /// One that went to all from another node with this one's number.
    Namesake {
        /// The six bytes of its address.
        address: Blob,
        /// The message.
        message: Blob,
    },
    /// The node was met.
    Met,
    /// The node was talked to.
    Talked,
    /// This node has to begin anew with a generation above this one.
    Outdated,
}

/// How often something happened.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Counter {
    /// What.
    pub name: String,
    /// How often.
    pub count: u64,
}

impl Identity {
    /// A node in an incarnation.
    pub fn new(node: NodeId, generation: Generation) -> Identity {
        Identity { node: node.0, generation: generation.0 }
    }
}

impl From<(&'static str, u64)> for Counter {
    fn from((name, count): (&'static str, u64)) -> Counter {
        Counter { name: String::from(name), count }
    }
}

/// This node as other nodes have met it, and what is new of the others.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// This node.
    pub own: Identity,
    /// What tells its boot from every other.
    pub nonce: Blob,
    /// Say this to be told what comes after.
    pub seen: u64,
    /// The others.
    pub peers: Vec<Peer>,
}

/// Another node in its last incarnation.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Which.
    pub identity: Identity,
    /// What tells its boot from every other.
    pub nonce: Blob,
    /// Whether it is gone; those before it always are.
    pub dead: bool,
}

/// Calls between nodes, and gossip's messages.
#[service(subsystem = "network", capability = "calls", layer = micro)]
pub trait Network {
    /// Which node this is, in which incarnation.
    #[stl_k(reply = "identity", allow(operator, peer))]
    fn identity(&self) -> CallResult<Identity>;

    /// Calls a method of an instance that another node exports; the arguments and the reply are
    /// encoded. None: the instance was not there, and nothing was done. (As the end of this
    /// service's own call it would say that this service is gone.)
    #[stl_k(reply = "reply")]
    async fn call(
        &self,
        caller: &Caller,
        to: Identity,
        called: Called,
        arguments: Bytes<'_>,
    ) -> CallResult<Option<Blob>>;

    /// The number by which other nodes call an instance here.
    #[stl_k(reply = "exported")]
    fn export(&self, caller: &Caller, core: u16, generation: u32, number: u16) -> CallResult<u16>;

    /// Ends an export.
    #[stl_k]
    fn withdraw(&self, caller: &Caller, exported: u16) -> CallResult<()>;

    /// Sends a message of gossip to a node, or to all that hear it when that is 0.
    #[stl_k]
    fn gossip(&self, caller: &Caller, to: u32, message: Bytes<'_>) -> CallResult<()>;

    /// What came for the management core since the last time; waits until something has.
    #[stl_k(reply = "heard")]
    async fn hear(&self, caller: &Caller) -> CallResult<Vec<Heard>>;

    /// Gossip holds an incarnation of a node for dead: calls to it end so.
    #[stl_k]
    fn peer_down(&self, caller: &Caller, gone: Identity) -> CallResult<()>;

    /// Gossip knows that an incarnation of a node lives, which it may have held for dead: what ran
    /// between the two before the way was cut, may again.
    #[stl_k]
    fn peer_up(&self, caller: &Caller, back: Identity) -> CallResult<()>;

    /// What the protocol has counted, and how many frames of which protocol this core's interface
    /// has carried.
    #[stl_k(reply = "counters", allow(operator, peer))]
    fn counters(&self) -> CallResult<Vec<Counter>>;

    /// A core is about to send to a node by another protocol: gossip has it hear what it has not,
    /// and it is met if it was not.
    #[stl_k]
    fn talk(&self, caller: &Caller, node: u32) -> CallResult<()>;

    /// What bulk transfer on the calling core has to know of this node and of all others: at once
    /// if this node is not in `generation`, else as soon as more than `seen` has happened. `Busy`
    /// if another incarnation of a core had it in this one of the node, which then begins anew.
    #[stl_k(reply = "standing")]
    async fn standing(&self, caller: &Caller, generation: u32, seen: u64) -> CallResult<Standing>;

    /// Begins anew with the generation after one that another node knows as this one's: nothing
    /// is exported any more, and calls that wait end as `Dead`.
    #[stl_k(reply = "identity")]
    fn renew(&self, caller: &Caller, above: u32) -> CallResult<Identity>;

    /// Leaves the network for good: another node has this one's number.
    #[stl_k]
    fn retire(&self, caller: &Caller) -> CallResult<()>;
}
