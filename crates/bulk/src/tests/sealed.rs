//! Sealed frames, most with a seal that is no secret: what the endpoint does with any other.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Generation, NodeId};
use nile_ipioe::keys::{Incarnation, Keys};
use nile_ipioe::{BootNonce, ClusterKey, Purpose};

use super::network::{Faults, Network, Node, STANDARD, link, node, settings};
use crate::wire::{Frame, TAG_BYTES, write_checksum};
use crate::{OpenError, Sealer, Sessions, Settings, checksum};

const SECOND: Duration = Duration::from_secs(1);

/// Adds a key to each byte; the tag is a checksum of everything and the key.
#[derive(Default)]
struct Fake {
    key: u8,
    sequence: u64,
    /// A sequence number of each peer is accepted once.
    seen: BTreeSet<(NodeId, Generation, u64)>,
    /// Nobody has a key before so many frames were to be sealed.
    missing: u32,
}

impl Fake {
    fn tag(&self, header: &[u8], data: &[u8]) -> [u8; TAG_BYTES] {
        let sum = checksum::portable(checksum::portable(u32::from(self.key), header), data);
        let mut tag = [self.key; TAG_BYTES];
        tag[..4].copy_from_slice(&sum.to_be_bytes());
        tag
    }
}

impl Sealer for Fake {
    fn seal(
        &mut self,
        _to: NodeId,
        _generation: Generation,
        header: &mut [u8],
        data: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        if self.missing > 0 {
            self.missing -= 1;
            return None;
        }
        self.sequence += 1;
        let field = header.last_chunk_mut::<8>().unwrap();
        assert_eq!(*field, [0; 8]);
        *field = self.sequence.to_be_bytes();
        data.iter_mut().for_each(|byte| *byte = byte.wrapping_add(self.key));
        Some(self.tag(header, data))
    }

    fn open(
        &mut self,
        from: NodeId,
        generation: Generation,
        header: &[u8],
        data: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), OpenError> {
        if self.tag(header, data) != *tag {
            return Err(OpenError::Forged);
        }
        let sequence = u64::from_be_bytes(*header.last_chunk().unwrap());
        if !self.seen.insert((from, generation, sequence)) {
            return Err(OpenError::Replayed);
        }
        data.iter_mut().for_each(|byte| *byte = byte.wrapping_sub(self.key));
        Ok(())
    }
}

fn sealed(at: usize, key: u8) -> Node {
    let settings = Settings { sealed: true, ..settings(at, 1, link(STANDARD)) };
    Node { sealer: Box::new(Fake { key, ..Fake::default() }), ..node(settings) }
}

#[test]
fn sealed_transfers_arrive_whatever_the_network_does() {
    let faults = Faults { loss: 50, duplicate: 100, reorder: 100, corrupt: 50 };
    let mut network = Network::of(Vec::from([sealed(0, 9), sealed(1, 9)])).with_faults(5, faults);
    let id = network.send(0, 1, 7, Some(500_000));
    network.run(SECOND);
    network.assert_arrived(0, 1, id, 500_000);
    let counters = network.nodes[1].endpoint.counters();
    assert!(counters.replayed > 0 && counters.corrupt > 0);
    assert_eq!(counters.duplicate, counters.duplicate.min(50), "copies are opened once");
    let longest = network.log.iter().map(|(_, frame)| frame.len()).max();
    assert_eq!(longest, Some(STANDARD));
}

#[test]
fn nothing_of_the_data_goes_in_the_clear() {
    let mut network = Network::of(Vec::from([sealed(0, 9), sealed(1, 9)]));
    let id = network.send(0, 1, 7, Some(5000));
    network.run(SECOND);
    network.assert_arrived(0, 1, id, 5000);
    for (_, bytes) in &network.log {
        let frame = Frame::parse(bytes).unwrap();
        assert!(frame.sealed);
        let clear = (0..16).map(|at| super::network::byte(7, at)).collect::<Vec<u8>>();
        assert!(!bytes.windows(16).any(|window| window == clear));
    }
}

#[test]
fn frames_wait_for_a_key() {
    let mut late = sealed(0, 9);
    late.sealer = Box::new(Fake { key: 9, missing: 6, ..Fake::default() });
    let mut network = Network::of(Vec::from([late, sealed(1, 9)]));
    let id = network.send(0, 1, 7, Some(5000));
    network.run(SECOND);
    network.assert_arrived(0, 1, id, 5000);
    assert_eq!(network.nodes[0].endpoint.counters().no_key, 6);
}

#[test]
fn frames_of_another_key_and_unsealed_frames_change_counters_only() {
    let mut network =
        Network::of(Vec::from([sealed(0, 9), sealed(1, 8), node(settings(2, 1, link(STANDARD)))]));
    network.send(0, 1, 7, Some(5000));
    network.send(2, 1, 7, Some(5000));
    network.run(SECOND);
    let counters = *network.nodes[1].endpoint.counters();
    assert!(counters.forged > 0 && counters.unsealed > 0);
    let counted = crate::Counters {
        forged: counters.forged,
        unsealed: counters.unsealed,
        ..crate::Counters::default()
    };
    assert_eq!(counters, counted);
    assert!(network.nodes[1].events.is_empty());
    // And an endpoint without a key believes no sealed frame.
    network.send(0, 2, 7, Some(5000));
    network.run(SECOND);
    assert!(network.nodes[2].endpoint.counters().unsealed > 0);
    assert!(network.nodes[2].events.is_empty());
}

#[test]
fn a_replay_of_everything_changes_counters_only() {
    let mut network = Network::of(Vec::from([sealed(0, 9), sealed(1, 9)]));
    let id = network.send(0, 1, 7, Some(50_000));
    network.run(Duration::from_micros(150));
    for _ in 0..2 {
        let log = network.log.clone();
        let sent = network.log.len();
        for (from, frame) in &log {
            network.deliver(1 - from, frame);
        }
        let replayed: u64 =
            network.nodes.iter().map(|node| node.endpoint.counters().replayed).sum();
        // What is still on its way is no replay when it comes early; what is replayed is not
        // answered.
        assert!(replayed > 0 && network.log.len() - sent < log.len());
        network.run(SECOND);
    }
    network.assert_arrived(0, 1, id, 50_000);
    assert_eq!(network.nodes[1].endpoint.counters().duplicate, 0);
}

/// With the seals of IPI over Ethernet.
#[test]
fn real_seals_carry_transfers() {
    let keys = Keys::new(&ClusterKey([5; 32]));
    let boot = |node: usize| Incarnation {
        node: NodeId(node as u32),
        generation: Generation(1),
        nonce: BootNonce([node as u8; 16]),
    };
    let with = |us: usize| {
        let mut sessions = Sessions::new();
        let pair = keys.pair(Purpose::Bulk, &boot(us), &boot(1 - us));
        sessions.agree(NodeId(1 - us as u32), Generation(1), pair);
        let settings = Settings { sealed: true, ..settings(us, 1, link(STANDARD)) };
        Node { sealer: Box::new(sessions), ..node(settings) }
    };
    let faults = Faults { loss: 50, duplicate: 100, reorder: 100, corrupt: 50 };
    let mut network = Network::of(Vec::from([with(0), with(1)])).with_faults(5, faults);
    let id = network.send(0, 1, 7, Some(500_000));
    network.run(SECOND);
    network.assert_arrived(0, 1, id, 500_000);
    let counters = network.nodes[1].endpoint.counters();
    assert!(counters.replayed > 0 && counters.corrupt > 0 && counters.forged == 0);
    // A bit that is changed where the checksum is corrected afterwards.
    let (_, mut bytes) = network.log.last().unwrap().clone();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    bytes[26..30].fill(0);
    write_checksum(&mut bytes, checksum::portable);
    let to = usize::from(network.log.last().unwrap().0 == 0);
    let before = *network.nodes[to].endpoint.counters();
    network.deliver(to, &bytes);
    let after = *network.nodes[to].endpoint.counters();
    assert_eq!(after.forged + after.replayed, before.forged + before.replayed + 1);
}
