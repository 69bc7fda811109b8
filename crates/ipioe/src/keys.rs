//! Keys: HKDF-SHA256 from the cluster's key, for seals over the frames and for disks.
//!
//! The cluster's key itself seals nothing. Each boot of a node has an announcement key, known to
//! all who have the cluster's; each pair of boots has two keys for each purpose, one a direction.
//! A sequence is never used twice under a key: whoever holds a [`Seal`] sees to it.

use core::fmt;

use hkdf::Hkdf;
use nile_abi::{Generation, NodeId};
use nile_seal::Seal;
use nile_seal::disk::Cipher;
use sha2::Sha256;

use crate::wire::BootNonce;

/// What the cluster's nodes share.
#[derive(Clone)]
pub struct ClusterKey(pub [u8; 32]);

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(..)")
    }
}

/// One boot of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incarnation {
    /// Which node.
    pub node: NodeId,
    /// Its generation.
    pub generation: Generation,
    /// What tells this boot from every other, even one that claims the same generation.
    pub nonce: BootNonce,
}

impl Incarnation {
    fn bytes(&self) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..4].copy_from_slice(&self.node.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.generation.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.nonce.0);
        bytes
    }
}

/// The cluster's key, ready for deriving others.
pub struct Keys(Hkdf<Sha256>);

/// The first input of every derivation: the protocol and its version.
const SALT: &[u8] = b"NileOS IPIoE 1";

impl Keys {
    /// Extracts what all other keys come from.
    pub fn new(key: &ClusterKey) -> Keys {
        Keys(Hkdf::new(Some(SALT), &key.0))
    }

    fn expand<const N: usize>(&self, info: &[&[u8]]) -> [u8; N] {
        let mut key = [0; N];
        let expanded = self.0.expand_multi_info(info, &mut key);
        expanded.expect("HKDF gives up to 8160 bytes, and no key has more than 64");
        key
    }

    /// The seal of what a boot says to all: broadcasts and hellos.
    pub fn announcement(&self, by: &Incarnation) -> Seal {
        Seal::new(self.expand(&[b"announce", &by.bytes()]))
    }

    /// The cipher of a node's disk, and a number that tells whether a key is the same.
    pub fn disk(&self, node: NodeId) -> (Cipher, u64) {
        let node = node.0.to_be_bytes();
        let check = self.expand(&[b"disk check", &node]);
        (Cipher::new(&self.expand(&[b"disk", &node])), u64::from_le_bytes(check))
    }

    /// The seals between two boots: what `us` seals for `them`, and what comes from there.
    pub fn pair(&self, purpose: Purpose, us: &Incarnation, them: &Incarnation) -> (Seal, Seal) {
        let (low, high) = if us.node < them.node { (us, them) } else { (them, us) };
        let label = match purpose {
            Purpose::Calls => b"calls".as_slice(),
            Purpose::Bulk => b"bulk",
        };
        let keys: [u8; 64] = self.expand(&[label, &low.bytes(), &high.bytes()]);
        let [upward, downward] = [0, 32].map(|at| {
            let mut key = [0; 32];
            key.copy_from_slice(&keys[at..at + 32]);
            Seal::new(key)
        });
        if us.node < them.node { (upward, downward) } else { (downward, upward) }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

/// What a pair's keys are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// The frames of this protocol.
    Calls,
    /// The frames of bulk transfers.
    Bulk,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(node: u32, nonce: u8) -> Incarnation {
        let nonce = BootNonce([nonce; 16]);
        Incarnation { node: NodeId(node), generation: Generation(1), nonce }
    }

    #[test]
    fn a_pair_has_one_key_a_direction_and_purpose() {
        let keys = Keys::new(&ClusterKey([7; 32]));
        let (a, b) = (boot(1, 1), boot(2, 2));
        let mut data = *b"sixteen bytes...";
        let tag = keys.pair(Purpose::Calls, &a, &b).0.seal(5, b"header", &mut data);
        let open = |seal: Seal, sequence, header: &[u8]| {
            let mut data = data;
            seal.open(sequence, header, &mut data, &tag) && &data == b"sixteen bytes..."
        };
        let receiver = || keys.pair(Purpose::Calls, &b, &a);
        assert!(open(receiver().1, 5, b"header"));
        assert!(!open(receiver().0, 5, b"header"), "the other direction's key");
        assert!(!open(receiver().1, 6, b"header"), "another sequence");
        assert!(!open(receiver().1, 5, b"Header"), "another header");
        assert!(!open(keys.pair(Purpose::Bulk, &b, &a).1, 5, b"header"), "another purpose");
        assert!(!open(keys.pair(Purpose::Calls, &b, &boot(1, 3)).1, 5, b"header"), "a later boot");
        let other = Keys::new(&ClusterKey([8; 32]));
        assert!(!open(other.pair(Purpose::Calls, &b, &a).1, 5, b"header"), "another cluster");
        assert!(!open(keys.announcement(&a), 5, b"header"));
    }
}
