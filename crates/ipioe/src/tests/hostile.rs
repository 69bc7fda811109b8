//! Replayed, forged, random and foreign frames change counters and nothing else.

use std::vec;
use std::vec::Vec;

use nile_abi::{CoreId, NodeId, Status};
use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::network::*;
use crate::checksum::portable;
use crate::wire::{TAG_BYTES, set_crc};
use crate::{Counters, Endpoint, Event};

/// Everything that an endpoint shows but its counters.
fn shown(node: &Endpoint) -> std::string::String {
    let peers: Vec<_> = node.peers().collect();
    std::format!("{:?} {:?} {:?} {}", peers, node.usage(), node.next_due(), node.has_frames())
}

/// Two nodes that have talked in every way, among them calls that are not yet answered.
fn talked(key: Option<u8>) -> Network {
    let mut network = Network::new(nodes(2, key));
    network.nodes[0].broadcast(true, b"start".to_vec()).expect("fits");
    network.run(1);
    network.call(b"small", b"small");
    network.call(&[1; 5000], &[2; 5000]);
    let now = network.now;
    network.nodes[0].gossip(now, NodeId(2), CoreId(1), true, vec![3; 4000]).expect("room");
    network.nodes[1].gossip(now, NodeId(1), CoreId(1), true, vec![3; 40]).expect("room");
    network.run(100);
    for size in [10, 5000] {
        let deadline = network.later(60_000);
        network.nodes[0].call(network.now, request(2, deadline), vec![4; size]).expect("room");
    }
    network.run(1);
    network
}

/// Gives a frame to both nodes; nothing but counters may change. The counters that did.
fn give(network: &mut Network, frame: &[u8]) -> [Counters; 2] {
    let now = network.now;
    let before: Vec<_> = network.nodes.iter().map(shown).collect();
    let counters = [0, 1].map(|node: usize| {
        let node = &mut network.nodes[node];
        let old = *node.counters();
        node.receive(now, frame);
        let new = *node.counters();
        let forged = new.forged - old.forged;
        let replayed = new.replayed - old.replayed;
        Counters { forged, replayed, ..new }
    });
    network.flush();
    assert!(network.events.iter().all(|events| events.is_empty()), "{:?}", network.events);
    let after: Vec<_> = network.nodes.iter().map(shown).collect();
    assert_eq!(before, after);
    counters
}

#[test]
fn every_frame_that_was_ever_sent_is_refused_the_second_time() {
    let mut network = talked(Some(1));
    network.events.iter_mut().for_each(|events| events.clear());
    let frames = network.captured.clone();
    assert!(frames.len() > 20);
    for frame in &frames {
        let sent = network.captured.len();
        let counters = give(&mut network, frame);
        assert_eq!(counters.iter().map(|it| it.replayed).sum::<u64>(), 1);
        assert_eq!(network.captured.len(), sent, "it was answered");
    }
}

#[test]
fn every_bit_is_sealed() {
    let mut network = talked(Some(1));
    network.events.iter_mut().for_each(|events| events.clear());
    // Frames that nobody has had yet: otherwise they are refused for that.
    let now = network.now;
    let mut frames = Vec::new();
    for from in [0, 1] {
        let to = NodeId(2 - from as u32);
        let deadline = network.later(60_000);
        let node = &mut network.nodes[from];
        node.broadcast(false, vec![6; 20]).expect("fits");
        node.probe(to);
        node.call(now, request(to.0, deadline), vec![7; 1500]).expect("room");
        node.gossip(now, to, CoreId(0), false, vec![8; 10]).expect("room");
        let mut buffer = [0; 1514];
        while let Some(bytes) = node.transmit(now, &mut buffer) {
            frames.push(buffer[..bytes].to_vec());
        }
    }
    assert_eq!(frames.len(), 10);
    for frame in &frames {
        for bit in 6 * 8..frame.len() * 8 {
            let mut forged = frame.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let end = forged.len() - TAG_BYTES;
            set_crc(&mut forged[..end], portable);
            if forged != *frame {
                give(&mut network, &forged);
            }
        }
    }
    // They were good but for that bit.
    let now = network.now;
    for frame in &frames {
        network.nodes.iter_mut().for_each(|node| node.receive(now, frame));
    }
    network.flush();
    // A broadcast and a gossip each, and one call each when its second segment comes.
    assert!(network.events.iter().all(|events| events.len() == 3), "{:?}", network.events);
}

#[test]
fn another_clusters_frames_and_unsealed_ones_are_refused() {
    for (ours, theirs) in [(Some(1), Some(2)), (Some(1), None), (None, Some(1))] {
        let mut strangers = Network::new(vec![
            Endpoint::new(settings(3, 1, theirs)),
            Endpoint::new(settings(2, 9, theirs)),
        ]);
        strangers.nodes[0].broadcast(false, vec![1; 9]).expect("fits");
        strangers.nodes[1].broadcast(false, vec![1; 9]).expect("fits");
        strangers.run(10);
        let mut network = talked(ours);
        network.events.iter_mut().for_each(|events| events.clear());
        assert!(strangers.captured.len() >= 5);
        let before = *network.nodes[0].counters();
        for frame in &strangers.captured {
            // Half of them are addressed to others: as if they were for everyone.
            let mut frame = frame.clone();
            frame[..6].fill(0xff);
            give(&mut network, &frame);
        }
        let after = network.nodes[0].counters();
        let refused = |it: &Counters| it.forged + it.unsealed + it.sealed;
        assert!(refused(after) - refused(&before) >= 2, "{after:?}");
    }
}

#[test]
fn a_dead_boots_frames_do_not_displace_the_living_one() {
    for key in [None, Some(1)] {
        let mut network = Network::new(nodes(2, key));
        network.call(b"", b"");
        for generation in 2..5 {
            for node in [1, 0] {
                let boot = settings(node as u32 + 1, generation, key);
                network.nodes[node] = Endpoint::new(boot);
                network.nodes[node].broadcast(false, vec![1]).expect("fits");
                network.run(10);
            }
            assert_eq!(network.call(&[1; 3000], b""), b"");
        }
        let peers = |network: &Network| {
            network.nodes.iter().map(|it| it.peers().next()).collect::<Vec<_>>()
        };
        let generations = |network: &Network| {
            peers(network).iter().map(|it| it.expect("met").generation.0).collect::<Vec<_>>()
        };
        assert_eq!(generations(&network), [4, 4]);
        let deadline = network.later(60_000);
        network.nodes[0].call(network.now, request(2, deadline), vec![5]).expect("room");
        let (serving, _) = network.wait_request(1);
        network.run(3000);
        network.events.iter_mut().for_each(|events| events.clear());
        for frame in network.captured.clone() {
            let now = network.now;
            network.nodes.iter_mut().for_each(|node| node.receive(now, &frame));
            network.run(1);
            // A node may hear of its own former lives.
            let is_new = |event: &Event| !matches!(event, Event::Namesake { .. });
            assert!(!network.events.iter().flatten().any(is_new), "{:?}", network.events);
        }
        assert_eq!(generations(&network), [4, 4]);
        // The call that went on all the time is not disturbed.
        network.nodes[1].reply(network.now, serving, Status::Ok, false, vec![]).expect("waits");
        network.wait_end(0);
    }
}

proptest! {
    /// Whatever comes, in a cluster with a key and in one without: no panic, bounded memory, and
    /// those who have met still talk.
    #[test]
    fn any_frames(
        key in proptest::option::of(Just(1)),
        changes in vec_of(any::<(u16, u16, u8, bool)>(), 1..300),
        noise in vec_of(vec_of(any::<u8>(), 0..80), 0..20),
    ) {
        let mut network = talked(key);
        let frames = network.captured.clone();
        for (which, at, byte, again) in changes {
            let mut frame = frames[usize::from(which) % frames.len()].clone();
            let at = 12 + usize::from(at) % (frame.len() - 12);
            frame[at] = byte;
            let tag = if key.is_some() { TAG_BYTES } else { 0 };
            let end = frame.len() - tag;
            if end > 30 && !again {
                set_crc(&mut frame[..end], portable);
            }
            let now = network.now;
            network.nodes.iter_mut().for_each(|node| node.receive(now, &frame));
            network.flush();
        }
        for bytes in noise {
            let header = [2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 9, 0, 0x88, 0xb5, 1];
            let now = network.now;
            for frame in [bytes.clone(), [&header[..], &bytes].concat()] {
                network.nodes.iter_mut().for_each(|node| node.receive(now, &frame));
            }
        }
        network.run(100);
        for node in &network.nodes {
            let usage = node.usage();
            prop_assert!(usage.remembered <= 2 * 8192 && usage.bytes <= 16 << 20, "{:?}", usage);
        }
        if key.is_some() {
            prop_assert_eq!(network.call(b"still", b"here"), b"here");
        }
    }
}
