//! The seals of IPI over Ethernet, used for bulk frames: one pair for each node that was met.

use alloc::boxed::Box;

use nile_abi::{Generation, NodeId};
use nile_ipioe::Seal;
use nile_ipioe::window::Window;
use nile_order::SortedMap;

use crate::seal::{OpenError, Sealer};
use crate::wire::{SEAL_BYTES, TAG_BYTES};

/// A sequence number that no frame has, because no window accepts it.
const NO_FRAME: u64 = u64::MAX;

/// The seals that were agreed on with other nodes (`nile_ipioe::keys::Keys::pair`, purpose bulk).
pub struct Sessions {
    nodes: SortedMap<NodeId, Box<Session>>,
}

struct Session {
    generation: Generation,
    to: Seal,
    from: Seal,
    /// What tells this key from others: the tag of nothing.
    print: [u8; TAG_BYTES],
    /// The next sequence that is sealed with.
    sequence: u64,
    /// The sequences that have come.
    window: Window,
}

impl Default for Sessions {
    fn default() -> Sessions {
        Sessions::new()
    }
}

impl Sessions {
    /// Nobody was met.
    pub fn new() -> Sessions {
        Sessions { nodes: SortedMap::new() }
    }

    /// An incarnation of a node was met: `to` seals for it, `from` opens what it has sealed. To
    /// agree on the same seals again changes nothing, so that no sequence is used twice.
    pub fn agree(&mut self, node: NodeId, generation: Generation, (to, from): (Seal, Seal)) {
        let print = from.seal(NO_FRAME, &[], &mut []);
        if self.nodes.get(&node).is_some_and(|known| known.print == print) {
            return;
        }
        let window = Window::starting_at(0);
        let session = Session { generation, to, from, print, sequence: 0, window };
        self.nodes.insert(node, Box::new(session));
    }

    fn session(&mut self, node: NodeId, generation: Generation) -> Option<&mut Session> {
        let any = generation.0 == 0;
        self.nodes
            .get_mut(&node)
            .map(Box::as_mut)
            .filter(|known| any || known.generation == generation)
    }
}

impl Sealer for Sessions {
    fn seal(
        &mut self,
        to: NodeId,
        generation: Generation,
        header: &mut [u8],
        data: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        let session = self.session(to, generation)?;
        let sequence = session.sequence;
        if sequence == NO_FRAME {
            return None;
        }
        *header.last_chunk_mut::<SEAL_BYTES>()? = sequence.to_be_bytes();
        session.sequence += 1;
        Some(session.to.seal(sequence, header, data))
    }

    fn open(
        &mut self,
        from: NodeId,
        generation: Generation,
        header: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), OpenError> {
        let session = self.session(from, generation).ok_or(OpenError::NoKey)?;
        let sequence = header.last_chunk::<SEAL_BYTES>().ok_or(OpenError::Forged)?;
        let sequence = u64::from_be_bytes(*sequence);
        if !session.window.is_new(sequence) {
            return Err(OpenError::Replayed);
        }
        if !session.from.open(sequence, header, data, tag) {
            return Err(OpenError::Forged);
        }
        session.window.note(sequence);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use nile_ipioe::keys::{Incarnation, Keys};
    use nile_ipioe::{BootNonce, ClusterKey, Purpose};

    use super::*;

    fn boot(node: u32, nonce: u8) -> Incarnation {
        let nonce = BootNonce([nonce; 16]);
        Incarnation { node: NodeId(node), generation: Generation(1), nonce }
    }

    /// The sessions of node 1 and node 2 with each other.
    pub fn pair() -> [Sessions; 2] {
        let keys = Keys::new(&ClusterKey([5; 32]));
        [(boot(1, 1), boot(2, 2)), (boot(2, 2), boot(1, 1))].map(|(us, them)| {
            let mut sessions = Sessions::new();
            sessions.agree(them.node, Generation(1), keys.pair(Purpose::Bulk, &us, &them));
            sessions
        })
    }

    fn seal(by: &mut Sessions, generation: u32) -> Option<([u8; 20], [u8; 5], [u8; TAG_BYTES])> {
        let (mut header, mut data) = ([0; 20], *b"hello");
        let tag = by.seal(NodeId(2), Generation(generation), &mut header, &mut data)?;
        Some((header, data, tag))
    }

    #[test]
    fn each_frame_is_opened_once_by_whom_it_is_for() {
        let [mut one, mut two] = pair();
        let (header, sealed, tag) = seal(&mut one, 1).unwrap();
        assert_ne!(&sealed, b"hello");
        let open = |two: &mut Sessions, from, header: [u8; 20], tag| {
            let mut data = sealed;
            two.open(NodeId(from), Generation(1), &header, &mut data, &tag).map(|()| data)
        };
        assert_eq!(open(&mut two, 3, header, tag), Err(OpenError::NoKey));
        assert_eq!(open(&mut two, 1, [7; 20], tag), Err(OpenError::Forged));
        assert_eq!(open(&mut two, 1, header, [7; TAG_BYTES]), Err(OpenError::Forged));
        assert_eq!(open(&mut two, 1, header, tag), Ok(*b"hello"));
        assert_eq!(open(&mut two, 1, header, tag), Err(OpenError::Replayed));
        let from_itself = one.open(NodeId(2), Generation(1), &header, &mut sealed.clone(), &tag);
        assert_eq!(from_itself, Err(OpenError::Forged));
    }

    #[test]
    fn any_generation_is_the_one_that_was_met() {
        let [mut one, _] = pair();
        assert!(seal(&mut one, 0).is_some() && seal(&mut one, 1).is_some());
        assert!(seal(&mut one, 2).is_none());
    }

    #[test]
    fn no_sequence_is_used_twice_with_a_key() {
        let [mut one, _] = pair();
        let keys = Keys::new(&ClusterKey([5; 32]));
        let first = seal(&mut one, 1).unwrap();
        let again = keys.pair(Purpose::Bulk, &boot(1, 1), &boot(2, 2));
        one.agree(NodeId(2), Generation(1), again);
        let second = seal(&mut one, 1).unwrap();
        assert!(first.0 != second.0 && first.1 != second.1);
        // Another boot has another key, and may begin anew.
        let other = keys.pair(Purpose::Bulk, &boot(1, 1), &boot(2, 3));
        one.agree(NodeId(2), Generation(1), other);
        let third = seal(&mut one, 1).unwrap();
        assert!(third.0 == first.0 && third.1 != first.1);
    }
}
