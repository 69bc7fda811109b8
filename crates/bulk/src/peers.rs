//! The other endpoints: which incarnation lives, where it is, and which of its transfers are over.

use nile_abi::{Generation, MacAddress, NodeId, Status};
use nile_order::SortedMap;

use crate::event::IncomingId;
use crate::wire::{Body, Credit};

/// All nodes that were ever heard of. A node that is gone keeps its line, so that frames of its
/// dead incarnations stay dead.
pub struct Peers {
    nodes: SortedMap<NodeId, Peer>,
    limit: usize,
}

struct Peer {
    generation: Generation,
    /// Whether that incarnation is gone, too.
    dead: bool,
    /// Where its last frame came from.
    mac: Option<MacAddress>,
    /// Its transfers before this one are over at their sender: their frames are old.
    oldest: Option<u32>,
    /// Its transfers that are over here, and perhaps not there.
    ended: SortedMap<u32, Ended>,
}

/// How a transfer ended, as its sender is told when it has not heard of it.
#[derive(Clone, Copy)]
pub enum Ended {
    Complete(Credit),
    Cancelled(Status),
}

impl Ended {
    pub fn body(self) -> Body {
        match self {
            Ended::Complete(credit) => Body::Credit(credit),
            Ended::Cancelled(status) => Body::Cancel { status, by_sender: false },
        }
    }
}

/// What an incarnation is to us.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The one that lives.
    Current,
    /// The successor of one that was known.
    Restarted,
    /// One that is gone.
    Stale,
    /// Not known, and there is no room to know more.
    NoRoom,
}

impl Peers {
    pub fn new(limit: usize) -> Peers {
        Peers { nodes: SortedMap::new(), limit }
    }

    /// A frame has come from an incarnation of a node, from the interface `mac`.
    pub fn hear(&mut self, node: NodeId, generation: Generation, mac: MacAddress) -> Standing {
        let room = self.nodes.len() < self.limit;
        let Some(peer) = self.nodes.get_mut(&node) else {
            if !room {
                return Standing::NoRoom;
            }
            self.nodes.insert(node, Peer::new(generation, Some(mac)));
            return Standing::Current;
        };
        if generation > peer.generation {
            *peer = Peer::new(generation, Some(mac));
            return Standing::Restarted;
        }
        if generation < peer.generation || peer.dead {
            return Standing::Stale;
        }
        peer.mac = Some(mac);
        Standing::Current
    }

    /// An incarnation of a node, and those before it, are gone. `false` if that is not news.
    pub fn bury(&mut self, node: NodeId, generation: Generation) -> bool {
        let known = self.nodes.contains_key(&node);
        if self.is_dead(node, generation) || (!known && self.nodes.len() >= self.limit) {
            return false;
        }
        match self.nodes.get_mut(&node).filter(|peer| peer.generation == generation) {
            // It may turn out to live; what it has sent must not come again then.
            Some(peer) => peer.dead = true,
            None => {
                self.nodes.insert(node, Peer { dead: true, ..Peer::new(generation, None) });
            }
        }
        true
    }

    /// An incarnation of a node lives: one that was held for gone, since the way to it was cut for
    /// a while, or one that was not known. Whether others are gone by that.
    pub fn revive(&mut self, node: NodeId, generation: Generation) -> bool {
        let room = self.nodes.len() < self.limit;
        match self.nodes.get_mut(&node) {
            Some(peer) if peer.generation == generation => peer.dead = false,
            Some(peer) if peer.generation < generation => {
                *peer = Peer::new(generation, None);
                return true;
            }
            None if room => drop(self.nodes.insert(node, Peer::new(generation, None))),
            _ => {}
        }
        false
    }

    /// Whether all incarnations of the node that are known are gone.
    pub fn is_gone(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(|peer| peer.dead)
    }

    /// Whether this incarnation is known to be gone.
    pub fn is_dead(&self, node: NodeId, generation: Generation) -> bool {
        self.nodes.get(&node).is_some_and(|peer| {
            generation < peer.generation || (generation == peer.generation && peer.dead)
        })
    }

    /// Where a node is; every interface if that is not known.
    pub fn mac(&self, node: NodeId) -> MacAddress {
        self.nodes.get(&node).and_then(|peer| peer.mac).unwrap_or(MacAddress::BROADCAST)
    }

    /// The sender says which of its transfers are the oldest; whether that is news.
    pub fn note_oldest(&mut self, node: NodeId, oldest: u32) -> bool {
        let Some(peer) = self.nodes.get_mut(&node) else { return false };
        if peer.oldest.is_some_and(|known| !is_before(known, oldest)) {
            return false;
        }
        peer.oldest = Some(oldest);
        peer.ended.retain(|number, _| !is_before(*number, oldest));
        true
    }

    /// Whether the sender has said that the transfer is over.
    pub fn is_old(&self, id: &IncomingId) -> bool {
        self.nodes.get(&id.from).is_some_and(|peer| peer.is_old(id.number))
    }

    /// How the transfer ended, if it did.
    pub fn ended(&self, id: &IncomingId) -> Option<Ended> {
        self.nodes.get(&id.from)?.ended.get(&id.number).copied()
    }

    /// How many ends of transfers from the node are remembered.
    pub fn ends(&self, node: NodeId) -> usize {
        self.nodes.get(&node).map_or(0, |peer| peer.ended.len())
    }

    /// A transfer that was received is over.
    pub fn end(&mut self, id: &IncomingId, ended: Ended) {
        let peer = self.nodes.get_mut(&id.from).filter(|it| it.generation == id.generation);
        if let Some(peer) = peer.filter(|peer| !peer.is_old(id.number)) {
            peer.ended.insert(id.number, ended);
        }
    }
}

impl Peer {
    fn new(generation: Generation, mac: Option<MacAddress>) -> Peer {
        Peer { generation, dead: false, mac, oldest: None, ended: SortedMap::new() }
    }

    fn is_old(&self, number: u32) -> bool {
        self.oldest.is_some_and(|oldest| is_before(number, oldest))
    }
}

/// Whether a transfer's number comes before another's; numbers begin again after the last.
pub fn is_before(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) >= 1 << 31
}
