//! How transfers end early, and that each ends once, at both ends, with the right reason.

use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};

use super::network::{Network, STANDARD, link, node, settings};
use crate::{Endpoint, Limits, Link, Refused, Send, Settings, Why};

const SECOND: Duration = Duration::from_secs(1);
const BYTES: u64 = 5_000_000;

/// A transfer from node 0 to node 1, a part of which has arrived.
fn under_way() -> (Network, crate::OutgoingId) {
    let mut network = Network::new(2);
    let id = network.send(0, 1, 1, Some(BYTES));
    network.run(Duration::from_micros(300));
    assert!(network.nodes[1].endpoint.counters().delivered_bytes > 0);
    assert_eq!(network.end(0, id), None);
    (network, id)
}

/// The node's next incarnation.
fn restart(network: &mut Network, at: usize, generation: u32) {
    let events = core::mem::take(&mut network.nodes[at].events);
    network.nodes[at] = node(settings(at, generation, link(STANDARD)));
    network.nodes[at].events = events;
}

#[test]
fn a_sender_that_cancels_is_heard() {
    let (mut network, id) = under_way();
    network.nodes[0].endpoint.cancel(id, Status::Busy);
    network.settle(0);
    network.run(SECOND / 100);
    assert_eq!(network.end(0, id), Some(Err(Why::CancelledHere(Status::Busy))));
    let there = network.end(1, Network::incoming(0, id));
    assert_eq!(there, Some(Err(Why::Cancelled(Status::Busy))));
}

#[test]
fn a_receiver_that_cancels_is_heard() {
    let (mut network, id) = under_way();
    network.nodes[1].endpoint.cancel(Network::incoming(0, id), Status::NoMemory);
    network.settle(1);
    network.run(SECOND / 100);
    assert_eq!(network.end(0, id), Some(Err(Why::Cancelled(Status::NoMemory))));
    let there = network.end(1, Network::incoming(0, id));
    assert_eq!(there, Some(Err(Why::CancelledHere(Status::NoMemory))));
}

#[test]
fn a_cancellation_that_is_lost_is_found_out() {
    for at in [0, 1] {
        let (mut network, id) = under_way();
        network.cut = Some(at);
        match at {
            0 => network.nodes[0].endpoint.cancel(id, Status::Denied),
            _ => network.nodes[1].endpoint.cancel(Network::incoming(0, id), Status::Denied),
        }
        network.settle(at);
        network.run(SECOND / 100);
        network.cut = None;
        network.run(SECOND);
        let [here, there] = match at {
            0 => [network.end(0, id), network.end(1, Network::incoming(0, id))],
            _ => [network.end(1, Network::incoming(0, id)), network.end(0, id)],
        };
        assert_eq!(here, Some(Err(Why::CancelledHere(Status::Denied))));
        assert!(matches!(there, Some(Err(Why::Cancelled(_)))), "{there:?}");
    }
}

#[test]
fn a_receiver_that_restarts_is_dead() {
    let (mut network, id) = under_way();
    restart(&mut network, 1, 2);
    network.run(SECOND);
    assert_eq!(network.end(0, id), Some(Err(Why::Dead)));
    assert!(network.nodes[1].heap.arrived.is_empty(), "the successor got what was not for it");
    assert!(network.nodes[1].endpoint.counters().stale > 0);
    let next = network.send(0, 1, 2, Some(5000));
    network.run(SECOND);
    assert_eq!(network.end(0, next), Some(Ok(5000)));
}

#[test]
fn a_sender_that_restarts_is_dead() {
    let (mut network, id) = under_way();
    restart(&mut network, 0, 2);
    let next = network.send(0, 1, 2, Some(5000));
    network.run(SECOND);
    assert_eq!(network.end(1, Network::incoming(0, id)), Some(Err(Why::Dead)));
    assert_eq!(network.end(0, next), Some(Ok(5000)));
    // What the old incarnation sent changes nothing any more.
    let before = *network.nodes[1].endpoint.counters();
    let old = network.log.iter().filter(|(from, frame)| *from == 0 && frame[37] == 1);
    let old: alloc::vec::Vec<_> = old.map(|(_, frame)| frame.clone()).collect();
    assert!(old.len() > 10);
    old.iter().for_each(|frame| network.deliver(1, frame));
    let stale = before.stale + old.len() as u64;
    let after = *network.nodes[1].endpoint.counters();
    assert_eq!(after, crate::Counters { stale, ..before });
}

#[test]
fn what_others_know_of_a_death_is_believed() {
    let (mut network, id) = under_way();
    network.nodes[0].endpoint.peer_dead(NodeId(1), Generation(1));
    network.nodes[1].endpoint.peer_dead(NodeId(0), Generation(1));
    network.settle(0);
    network.settle(1);
    assert_eq!(network.end(0, id), Some(Err(Why::Dead)));
    assert_eq!(network.end(1, Network::incoming(0, id)), Some(Err(Why::Dead)));
    network.run(SECOND);
    let send = send_to(1, Some(Generation(1)));
    assert_eq!(network.nodes[0].endpoint.send(network.now, send), Err(Refused::Dead));
    // Old news kill nobody.
    restart(&mut network, 1, 2);
    network.nodes[0].endpoint.peer_alive(NodeId(1), Generation(2));
    let next = network.send(0, 1, 2, Some(BYTES));
    network.run(Duration::from_micros(300));
    network.nodes[0].endpoint.peer_dead(NodeId(1), Generation(1));
    network.run(SECOND);
    assert_eq!(network.end(0, next), Some(Ok(BYTES)));
}

#[test]
fn who_waits_for_a_node_that_is_gone_hears_of_it_before_it_has_answered() {
    let mut network = Network::new(2);
    // Nothing gets there, nor comes from there.
    network.cut = Some(1);
    let waits = network.send(0, 1, 1, Some(BYTES));
    network.run(SECOND);
    assert_eq!(network.end(0, waits), None, "it is patient");
    network.nodes[0].endpoint.peer_dead(NodeId(1), Generation(1));
    network.settle(0);
    assert_eq!(network.end(0, waits), Some(Err(Why::Dead)));
    let any = network.nodes[0].endpoint.send(network.now, send_to(1, None));
    assert_eq!(any, Err(Refused::Dead), "whichever incarnation is meant");
    // That its successor lives ends nothing that was begun for that.
    network.nodes[0].endpoint.peer_alive(NodeId(1), Generation(2));
    let next = network.send(0, 1, 2, Some(BYTES));
    network.nodes[0].endpoint.peer_dead(NodeId(1), Generation(1));
    restart(&mut network, 1, 2);
    network.cut = None;
    network.run(SECOND);
    assert_eq!(network.end(0, next), Some(Ok(BYTES)));
}

#[test]
fn a_node_that_was_cut_off_is_sent_to_again() {
    let (mut network, id) = under_way();
    for (at, other) in [(0, 1), (1, 0)] {
        network.nodes[at].endpoint.peer_dead(NodeId(other), Generation(1));
        network.settle(at);
    }
    network.run(SECOND);
    // One side finds out before the other.
    network.nodes[0].endpoint.peer_alive(NodeId(1), Generation(1));
    let next = network.send(0, 1, 2, Some(BYTES));
    network.run(Duration::from_micros(300));
    network.nodes[1].endpoint.peer_alive(NodeId(0), Generation(1));
    network.run(SECOND);
    assert_eq!(network.end(0, id), Some(Err(Why::Dead)), "what had ended has");
    assert_eq!(network.end(1, Network::incoming(0, id)), Some(Err(Why::Dead)));
    assert_eq!(network.end(0, next), Some(Ok(BYTES)));
    // Of those before it nobody lives again.
    restart(&mut network, 1, 2);
    let last = network.send(0, 1, 2, Some(BYTES));
    network.nodes[0].endpoint.peer_alive(NodeId(1), Generation(1));
    network.run(SECOND);
    assert_eq!(network.end(0, last), Some(Ok(BYTES)));
}

fn send_to(to: u32, generation: Option<Generation>) -> Send {
    Send {
        to: NodeId(to),
        generation,
        source_core: CoreId(0),
        core: CoreId(0),
        tag: 0,
        label: 0,
        total: Some(10),
    }
}

#[test]
fn a_transfer_to_another_incarnation_is_dead() {
    let mut network = Network::new(2);
    let now = network.now;
    let wrong = network.nodes[0].endpoint.send(now, send_to(1, Some(Generation(7)))).unwrap();
    let right = network.nodes[0].endpoint.send(now, send_to(1, Some(Generation(1)))).unwrap();
    network.nodes[0].heap.tags.insert(right, 0);
    network.settle(0);
    network.run(SECOND);
    assert_eq!(network.end(0, wrong), Some(Err(Why::Dead)));
    network.assert_arrived(0, 1, right, 10);
}

#[test]
fn memory_that_is_gone_ends_the_transfer() {
    for at in [0, 1] {
        let (mut network, id) = under_way();
        network.nodes[at].heap.gone = true;
        network.run(SECOND);
        let ends = [network.end(0, id), network.end(1, Network::incoming(0, id))];
        assert_eq!(ends[at], Some(Err(Why::MemoryGone)));
        assert_eq!(ends[1 - at], Some(Err(Why::Cancelled(Status::NotFound))));
    }
}

#[test]
fn limits_are_answered_with_busy() {
    let limits = Limits { outgoing: 3, incoming: 2, peers: 2, ended: 4 };
    let limited = |at| node(Settings { limits, ..settings(at, 1, link(STANDARD)) });
    let mut network = Network::of((0..4).map(limited).collect());
    network.nodes[1].room = None;
    let ids = [0, 1, 2].map(|tag| network.send(0, 1, tag, Some(10)));
    let fourth = network.nodes[0].endpoint.send(network.now, send_to(1, None));
    assert_eq!(fourth, Err(Refused::Busy));
    network.run(SECOND / 10);
    assert_eq!(network.end(0, ids[0]), None);
    assert_eq!(network.end(0, ids[2]), Some(Err(Why::Cancelled(Status::Busy))));
    assert_eq!(network.nodes[1].endpoint.counters().busy, 1);
    // Node 1 gets to know node 0 and node 2; there is no room for a third.
    network.send(2, 1, 0, Some(10));
    let third = network.send(3, 1, 0, Some(10));
    network.run(20 * SECOND);
    assert_eq!(network.end(3, third), Some(Err(Why::Timeout)));
}

#[test]
fn ends_are_never_forgotten_early() {
    let limits = Limits { ended: 4, ..Limits::default() };
    let limited = |at| node(Settings { limits, ..settings(at, 1, link(STANDARD)) });
    let mut network = Network::of((0..2).map(limited).collect());
    // As long as the first is under way the sender cannot say that the others are over.
    let first = network.send(0, 1, 0, None);
    let mut busy = 0;
    for tag in 1..10 {
        let id = network.send(0, 1, tag, Some(10));
        network.run(SECOND / 10);
        busy += usize::from(network.end(0, id) == Some(Err(Why::Cancelled(Status::Busy))));
    }
    assert_eq!(busy, 5);
    network.nodes[0].endpoint.cancel(first, Status::Busy);
    network.settle(0);
    let id = network.send(0, 1, 11, Some(10));
    network.run(SECOND / 10);
    network.assert_arrived(0, 1, id, 10);
}

#[test]
fn what_cannot_be_sent_is_refused_at_once() {
    let mut network = Network::new(1);
    assert_eq!(network.nodes[0].endpoint.send(network.now, send_to(0, None)), Err(Refused::Here));
    let mut small = Endpoint::new(settings(0, 1, Link { max_frame: 100, ..link(STANDARD) }));
    assert_eq!(small.send(network.now, send_to(1, None)), Err(Refused::SmallFrames));
}

#[test]
fn more_blocks_than_can_be_counted_are_refused() {
    let mut network = Network::new(2);
    for bytes in [u64::MAX - 1, 1456 * (u64::from(u32::MAX) + 1)] {
        let id = network.send(0, 1, 0, Some(bytes));
        network.run(SECOND / 10);
        let end = network.end(0, id);
        assert_eq!(end, Some(Err(Why::Cancelled(Status::Invalid))), "{bytes}");
    }
}
