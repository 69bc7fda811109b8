//! What is still to be told. A rumour is not a message but a node of which there is news: what is
//! told is what is known at the time, so that later news replaces earlier by itself.

use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_order::SortedMap;

/// The rumours.
#[derive(Default)]
pub(crate) struct Rumours {
    about: SortedMap<NodeId, Rumour>,
}

struct Rumour {
    /// How often it is still told.
    left: u16,
    /// The version of the node's directory before the news.
    base: u32,
}

/// Rumours at one time. What is beyond is found by comparing digests.
const MOST: usize = 1_024;

/// How often one node tells a rumour in a cluster of so many: with n nodes that all tell it c
/// times, n · e^-c of them do not hear it, which for c = ln n + 6 is one in 400 rumours, and a few
/// more where messages are lost. ln n is 0.69 log2 n.
pub(crate) fn times(nodes: usize) -> u16 {
    (nodes.max(1).ilog2() * 7 / 10 + 6) as u16
}

impl Rumours {
    pub fn is_empty(&self) -> bool {
        self.about.is_empty()
    }

    /// There is news of `node`, whose directory had the version `base` before.
    pub fn add(&mut self, node: NodeId, base: u32, nodes: usize) {
        if self.about.len() >= MOST && !self.about.contains_key(&node) {
            return;
        }
        let rumour = self.about.entry(node).or_insert(Rumour { left: 0, base });
        rumour.left = times(nodes);
        rumour.base = rumour.base.min(base);
    }

    /// Stops telling of those nodes that are not `wanted`.
    pub fn keep(&mut self, mut wanted: impl FnMut(NodeId) -> bool) {
        self.about.retain(|node, _| wanted(*node));
    }

    /// The nodes of which there is news, with the versions before it: what was told least first.
    pub fn all(&self) -> Vec<(NodeId, u32)> {
        let mut all: Vec<_> = self.about.iter().collect();
        nile_order::sort_by_key(&mut all, |(_, rumour)| core::cmp::Reverse(rumour.left));
        all.into_iter().map(|(node, rumour)| (*node, rumour.base)).collect()
    }

    /// The news of `node` was told to so many.
    pub fn told(&mut self, node: NodeId, to: u16) {
        if let Some(rumour) = self.about.get_mut(&node) {
            rumour.left = rumour.left.saturating_sub(to);
            if rumour.left == 0 {
                self.about.remove(&node);
            }
        }
    }
}
