//! How nodes meet, restart, disappear and come back.

use std::boxed::Box;
use std::vec;
use std::vec::Vec;

use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};

use super::network::*;
use crate::{End, Endpoint, Event, Refused};

const KEYS: [Option<u8>; 2] = [None, Some(1)];

fn restarted(event: &Event) -> Option<(NodeId, u32, u32)> {
    match event {
        Event::Restarted { node, old, new } => Some((*node, old.0, new.0)),
        _ => None,
    }
}

fn met(event: &Event) -> Option<NodeId> {
    match event {
        Event::Met { node, .. } => Some(*node),
        _ => None,
    }
}

#[test]
fn a_start_broadcast_makes_nodes_meet() {
    for key in KEYS {
        let mut network = Network::new(nodes(3, key));
        network.nodes[0].broadcast(true, b"I have services".to_vec()).expect("fits");
        for node in [1, 2] {
            assert_eq!(network.wait(node, 10, met), NodeId(1));
            let data = network.wait(node, 10, |event| match event {
                Event::Broadcast { from: NodeId(1), generation: Generation(1), data, .. } => {
                    Some(data.clone())
                }
                _ => None,
            });
            assert_eq!(data, b"I have services");
            assert_eq!(network.wait(0, 10, met), NodeId(node as u32 + 1));
        }
        // Everybody was met on the way: gossip goes straight, large and small.
        for size in [10, 5000] {
            let now = network.now;
            let data = vec![size as u8; size];
            network.nodes[1].gossip(now, NodeId(1), CoreId(2), true, data.clone()).expect("room");
            let came = network.wait(0, 10, |event| match event {
                Event::Gossip { from: NodeId(2), core: CoreId(2), data, .. } => Some(data.clone()),
                _ => None,
            });
            assert_eq!(came, data);
        }
        network.run(3000);
        assert!(network.nodes.iter().all(|node| node.usage().bytes == 0));
        assert!(network.nodes.iter().all(|node| node.next_due().is_none()));
    }
}

#[test]
fn gossip_waits_until_a_node_is_met_and_not_for_ever() {
    let mut network = Network::new(nodes(2, Some(1)));
    let now = network.now;
    network.nodes[0].gossip(now, NodeId(2), CoreId(0), false, vec![1; 4000]).expect("room");
    network.nodes[0].gossip(now, NodeId(9), CoreId(0), false, vec![1; 4000]).expect("room");
    network.wait(1, 10, |event| matches!(event, Event::Gossip { .. }).then_some(()));
    network.run(5000);
    assert_eq!(network.nodes[0].usage().bytes, 0);
    assert_eq!(network.nodes[0].next_due(), None, "nobody waits for the ninth node any more");
}

#[test]
fn calls_to_an_incarnation_that_is_gone_end_as_dead() {
    for key in KEYS {
        for says_so in [true, false] {
            let mut network = Network::new(nodes(2, key));
            network.call(b"", b"");
            let deadline = network.later(5000);
            let now = network.now;
            network.nodes[0].call(now, request(2, deadline), b"lost".to_vec()).expect("room");
            network.wait_request(1);
            network.nodes[1] = Endpoint::new(settings(2, 2, key));
            if says_so {
                network.nodes[1].broadcast(false, vec![]).expect("fits");
            }
            let start = network.now;
            assert_eq!(network.wait_end(0), End::Dead);
            let took = network.now - start;
            assert!(took < Duration::from_millis(if says_so { 1 } else { 600 }), "{took:?}");
            assert_eq!(network.wait(0, 1, restarted), (NodeId(2), 1, 2));
            // The next call finds the new one; one that names the old one does not.
            assert_eq!(network.call(b"a", b"b"), b"b");
            let old = crate::Request {
                generation: Some(Generation(1)),
                ..request(2, network.later(1000))
            };
            network.nodes[0].call(network.now, old, vec![]).expect("room");
            assert_eq!(network.wait_end(0), End::Dead);
        }
    }
}

#[test]
fn a_proof_of_life_does_not_keep() {
    for (millis, is_met) in [(1000, true), (10_000, false)] {
        let mut network = Network::new(nodes(2, Some(1)));
        network.fate = Box::new(|from, _| if from == 1 { vec![] } else { vec![DELAY] });
        let deadline = network.later(10);
        network.nodes[0].call(network.now, request(2, deadline), vec![]).expect("room");
        network.run(10);
        // Somebody holds the answer back that proves that the second node lives.
        let proof = network.captured.last().cloned().expect("its hello");
        network.run(millis);
        network.nodes[0].receive(network.now, &proof);
        network.flush();
        assert_eq!(network.events[0].iter().any(|event| met(event).is_some()), is_met);
    }
}

#[test]
fn what_is_sent_to_a_restarted_peer_is_new_to_it() {
    // The proof that we live tells the peer from which sequence on to accept frames, before we
    // know that we shall have a session with it.
    let mut network = Network::new(nodes(2, Some(1)));
    for _ in 0..100 {
        network.call(b"", b"");
    }
    network.nodes[1] = Endpoint::new(settings(2, 2, Some(1)));
    network.nodes[1].broadcast(false, vec![]).expect("fits");
    network.run(1);
    network.call(b"", b"");
    let counters = network.nodes[1].counters();
    assert_eq!((counters.replayed, network.nodes[0].counters().retransmitted), (0, 0));
}

#[test]
fn a_restarted_caller_is_met_anew_and_its_old_calls_are_cancelled() {
    for key in KEYS {
        let mut network = Network::new(nodes(2, key));
        let deadline = network.later(5000);
        network.nodes[0].call(network.now, request(2, deadline), vec![]).expect("room");
        let (serving, _) = network.wait_request(1);
        network.nodes[0] = Endpoint::new(settings(1, 2, key));
        assert_eq!(network.call(b"a", b"b"), b"b");
        assert_eq!(network.wait(1, 1, restarted), (NodeId(1), 1, 2));
        let cancelled = network.wait(1, 1, |event| match event {
            Event::Cancelled { serving } => Some(*serving),
            _ => None,
        });
        assert_eq!(cancelled, serving);
        let late = network.nodes[1].reply(network.now, serving, Status::Ok, false, vec![]);
        assert_eq!(late, Err(crate::ReplyRefused::Gone));
    }
}

#[test]
fn a_node_that_cannot_be_reached_is_a_timeout_and_comes_back() {
    for key in KEYS {
        let mut network = Network::new(nodes(2, key));
        network.call(b"", b"");
        network.fate = Box::new(|_, _| vec![]);
        let deadline = network.later(700);
        network.nodes[0].call(network.now, request(2, deadline), vec![]).expect("room");
        assert_eq!(network.wait_end(0), End::TimedOut);
        assert_eq!(network.now, deadline);
        network.fate = Box::new(|_, _| vec![DELAY]);
        assert_eq!(network.call(b"a", b"b"), b"b");
        assert_eq!(network.events[0].iter().filter_map(restarted).count(), 0);
    }
}

#[test]
fn what_others_found_dead_ends_calls_but_not_the_peer() {
    let mut network = Network::new(nodes(2, Some(1)));
    network.call(b"", b"");
    let deadline = network.later(700);
    network.nodes[0].call(network.now, request(2, deadline), vec![]).expect("room");
    network.nodes[0].peer_dead(network.now, NodeId(2), Generation(2));
    network.wait_request(1);
    assert!(network.events[0].iter().all(|event| !matches!(event, Event::Ended { .. })));
    network.nodes[0].peer_dead(network.now, NodeId(2), Generation(1));
    assert_eq!(network.wait_end(0), End::Dead);
    assert_eq!(network.call(b"a", b"b"), b"b");
}

#[test]
fn a_generation_that_is_not_above_the_last_is_told_so() {
    for key in KEYS {
        let mut network = Network::new(nodes(2, key));
        network.nodes[1] = Endpoint::new(settings(2, 5, key));
        network.call(b"", b"");
        // Two boots claim the same generation, and one claims a lower one.
        for generation in [5, 3] {
            network.run(50);
            let nonce = crate::BootNonce([100 + generation as u8; 16]);
            let boot = crate::Settings { nonce, ..settings(2, generation, key) };
            network.nodes[1] = Endpoint::new(boot);
            network.nodes[1].broadcast(false, vec![]).expect("fits");
            let known = network.wait(1, 10, |event| match event {
                Event::Outdated { known } => Some(*known),
                _ => None,
            });
            assert_eq!(known, Generation(5));
            assert_eq!(network.nodes[0].peer(NodeId(2)).map(|it| it.generation), Some(known));
        }
        network.nodes[1] = Endpoint::new(settings(2, 6, key));
        network.nodes[1].broadcast(false, vec![]).expect("fits");
        assert_eq!(network.wait(0, 10, restarted), (NodeId(2), 5, 6));
        assert_eq!(network.call(b"a", b"b"), b"b");
    }
}

#[test]
fn a_peer_that_moves_to_another_interface_is_found() {
    for key in KEYS {
        let mut network = Network::new(nodes(2, key));
        network.call(b"", b"");
        let before = network.nodes[0].peer(NodeId(2)).map(|it| it.mac);
        network.nodes[1].mac = mac(77);
        assert_eq!(network.call(b"a", b"b"), b"b");
        assert_eq!(before, Some(mac(2)));
        assert_eq!(network.nodes[0].peer(NodeId(2)).map(|it| it.mac), Some(mac(77)));
    }
}

#[test]
fn peers_have_a_bound_and_idle_ones_make_room() {
    let mut nodes = nodes(6, Some(1));
    nodes[0].limits.peers = 3;
    let mut network = Network::new(nodes);
    let now = network.now;
    let deadline = network.later(500);
    for to in 2..5 {
        network.nodes[0].call(now, request(to, deadline), vec![]).expect("room");
    }
    let refused = network.nodes[0].call(now, request(5, deadline), vec![]);
    assert_eq!(refused, Err(Refused::TooManyPeers));
    network.run(700_000);
    // All are long silent; the second node is still known to the fifth when it returns.
    let events: Vec<_> = network.events[0].drain(..).collect();
    assert!(events.len() >= 6, "{events:?}");
    for to in [5, 6, 2, 3, 4, 5, 6, 2] {
        let deadline = network.later(5000);
        network.nodes[0].call(network.now, request(to, deadline), vec![to as u8]).expect("room");
        let (serving, _) = network.wait(to as usize - 1, 1000, |event| match event {
            Event::Request { serving, data, .. } if *data == [to as u8] => {
                Some((*serving, data.clone()))
            }
            _ => None,
        });
        let node = &mut network.nodes[to as usize - 1];
        node.reply(network.now, serving, Status::Ok, false, vec![]).expect("it waits");
        assert!(matches!(network.wait_end(0), End::Answered { status: Status::Ok, .. }));
        assert!(network.nodes[0].usage().peers <= 3);
        network.run(700_000);
    }
}
