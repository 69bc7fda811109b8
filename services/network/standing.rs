//! What this node knows of the others' incarnations, for whoever runs another protocol between
//! the same nodes: told in the order in which it was learned, the latest of each node. Nothing is
//! remembered of tools: they are no nodes, each is met once, and there is no end to them.

use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};
use nile_bosml::Blob;
use nile_ipioe::FIRST_TOOL;
use nile_ipioe::wire::BootNonce;

use nile_interfaces::network::{Identity, Peer};
use nile_order::SortedMap;

/// The most nodes that are remembered; what was learned first is forgotten first.
const MOST: usize = 4096;

/// How many are told at once.
const MOST_TOLD: usize = 256;

/// What was learned, by node.
#[derive(Default)]
pub struct Peers {
    nodes: SortedMap<NodeId, (u64, Peer)>,
    learned: u64,
}

impl Peers {
    /// An incarnation of a node was met.
    pub fn met(&mut self, node: NodeId, generation: Generation, nonce: BootNonce) {
        let nonce = Blob(nonce.0.into());
        self.learn(node, Peer { identity: Identity::new(node, generation), nonce, dead: false });
    }

    /// An incarnation of a node is gone, or so it seems.
    pub fn died(&mut self, node: NodeId, generation: Generation) {
        let identity = Identity::new(node, generation);
        let known = self.nodes.get(&node).map(|(_, peer)| peer);
        if known.is_none_or(|known| known.identity.generation <= generation.0) {
            // It may be back: calls then go on as they were, and do not meet it again.
            let met = known.filter(|known| known.identity == identity);
            let nonce = met.map_or(Blob(Vec::new()), |met| met.nonce.clone());
            self.learn(node, Peer { identity, nonce, dead: true });
        }
    }

    /// An incarnation of a node lives, though it may have been held for gone: the way to it was
    /// cut for a while.
    pub fn lives(&mut self, node: NodeId, generation: Generation) {
        let known = self.nodes.get(&node).map(|(_, peer)| peer);
        let back = known.filter(|it| it.dead && it.identity.generation == generation.0).cloned();
        back.into_iter().for_each(|it| self.learn(node, Peer { dead: false, ..it }));
    }

    /// Whether this incarnation of a node is gone, as far as is known.
    pub fn is_dead(&self, node: NodeId, generation: Generation) -> bool {
        self.nodes.get(&node).is_some_and(|(_, known)| {
            let latest = known.identity.generation;
            generation.0 < latest || (generation.0 == latest && known.dead)
        })
    }

    /// What was learned after the first `seen`, and how much that is; `None` if nothing was.
    pub fn since(&self, seen: u64) -> Option<(u64, Vec<Peer>)> {
        let mut news: Vec<&(u64, Peer)> = self.nodes.values().filter(|it| it.0 > seen).collect();
        nile_order::sort_by_key(&mut news, |it| it.0);
        news.truncate(MOST_TOLD);
        let last = news.last()?.0;
        Some((last, news.into_iter().map(|(_, peer)| peer.clone()).collect()))
    }

    fn learn(&mut self, node: NodeId, peer: Peer) {
        if node >= FIRST_TOOL {
            return;
        }
        self.learned += 1;
        self.nodes.insert(node, (self.learned, peer));
        if self.nodes.len() > MOST
            && let Some((&oldest, _)) = self.nodes.iter().min_by_key(|(_, it)| it.0)
        {
            self.nodes.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: BootNonce = BootNonce([7; 16]);

    fn nodes(told: Option<(u64, Vec<Peer>)>) -> Vec<(u32, u32, bool)> {
        let peers = told.map(|(_, peers)| peers).unwrap_or_default();
        let brief = |it: &Peer| (it.identity.node, it.identity.generation, it.dead);
        peers.iter().map(brief).collect()
    }

    #[test]
    fn the_latest_of_each_node_is_told_once_and_in_order() {
        let mut peers = Peers::default();
        assert_eq!(peers.since(0), None);
        peers.met(NodeId(2), Generation(5), NONCE);
        peers.met(NodeId(3), Generation(1), NONCE);
        let (seen, told) = peers.since(0).unwrap();
        assert_eq!((told[0].nonce.0.len(), told[0].dead), (16, false));
        assert_eq!(peers.since(seen), None);
        peers.died(NodeId(2), Generation(4));
        assert_eq!(peers.since(seen), None, "another is known already");
        peers.died(NodeId(2), Generation(5));
        peers.met(NodeId(3), Generation(9), NONCE);
        assert_eq!(nodes(peers.since(seen)), [(2, 5, true), (3, 9, false)]);
        peers.died(NodeId(4), Generation(1));
        assert_eq!(nodes(peers.since(0)), [(2, 5, true), (3, 9, false), (4, 1, true)]);
        let is_dead = |node, generation| peers.is_dead(NodeId(node), Generation(generation));
        assert!(is_dead(2, 5) && is_dead(2, 4) && is_dead(3, 8) && is_dead(4, 1));
        assert!(!is_dead(2, 6) && !is_dead(3, 9) && !is_dead(4, 2) && !is_dead(5, 1));
    }

    #[test]
    fn a_node_that_was_cut_off_and_is_back_is_told_of_as_it_was_met() {
        let mut peers = Peers::default();
        peers.met(NodeId(2), Generation(5), NONCE);
        peers.died(NodeId(2), Generation(5));
        let (seen, _) = peers.since(0).unwrap();
        peers.lives(NodeId(2), Generation(4));
        peers.lives(NodeId(3), Generation(1));
        assert_eq!(peers.since(seen), None, "neither was met, as far as is known");
        peers.lives(NodeId(2), Generation(5));
        assert!(!peers.is_dead(NodeId(2), Generation(5)));
        let (seen, told) = peers.since(seen).unwrap();
        let met = Peer {
            identity: Identity { node: 2, generation: 5 },
            nonce: Blob(NONCE.0.into()),
            dead: false,
        };
        assert_eq!(told, [met], "whoever asks first now has to agree on keys, too");
        peers.lives(NodeId(2), Generation(5));
        assert_eq!(peers.since(seen), None, "that is no news");
    }

    #[test]
    fn nothing_is_remembered_of_tools() {
        let mut peers = Peers::default();
        peers.met(NodeId(FIRST_TOOL.0 - 1), Generation(1), NONCE);
        let (seen, _) = peers.since(0).unwrap();
        for tool in 0..9 {
            peers.met(NodeId(FIRST_TOOL.0 + tool), Generation(1), NONCE);
            peers.died(NodeId(FIRST_TOOL.0 + tool), Generation(1));
        }
        assert_eq!((peers.since(seen), peers.nodes.len()), (None, 1));
    }

    #[test]
    fn there_is_an_end_to_what_is_remembered_and_to_what_is_told() {
        let mut peers = Peers::default();
        for node in 1..=MOST as u32 + 9 {
            peers.met(NodeId(node), Generation(1), NONCE);
        }
        assert_eq!(peers.nodes.len(), MOST);
        let (mut seen, mut told) = (0, 0);
        while let Some((last, some)) = peers.since(seen) {
            assert!(last > seen && some.len() <= MOST_TOLD);
            (seen, told) = (last, told + some.len());
        }
        assert_eq!(told, MOST);
    }
}
