//! Transfers whose bytes are read where their sender has them.

use core::time::Duration;

use alloc::vec::Vec;

use super::frames::{announce, frame, header};
use super::network::{Faults, Network, link, node, settings, shown};
use crate::wire::{Body, Frame, Malformed};
use crate::{Event, MOST_PARTS, Shown};

const SECOND: Duration = Duration::from_secs(1);

/// Two nodes, of which these share their memory.
fn nodes(sharing: [bool; 2]) -> Network {
    let mut network = Network::new(2);
    network.nodes.iter_mut().zip(sharing).for_each(|(node, shares)| node.shares = shares);
    network
}

#[test]
fn what_is_shown_is_not_sent() {
    for bytes in [1, 1000, 5_000_000] {
        let mut network = nodes([true, true]);
        let id = network.send(0, 1, bytes, Some(bytes));
        network.run(SECOND / 100);
        network.assert_arrived(0, 1, id, bytes);
        let counters = network.nodes[1].endpoint.counters();
        assert_eq!((counters.fetched_bytes, counters.delivered_bytes), (bytes, 0));
        assert_eq!(network.log.len(), 2, "one announcement, one answer");
        assert_eq!(network.nodes.iter().map(|it| it.endpoint.transfers()).max(), Some([0, 0]));
    }
}

#[test]
fn who_cannot_read_there_is_sent_it() {
    for sharing in [[true, false], [false, true]] {
        let mut network = nodes(sharing);
        let id = network.send(0, 1, 4, Some(100_000));
        network.run(SECOND / 10);
        network.assert_arrived(0, 1, id, 100_000);
        let counters = network.nodes[1].endpoint.counters();
        assert_eq!((counters.fetched_bytes, counters.delivered_bytes), (0, 100_000));
    }
}

#[test]
fn it_may_be_read_after_the_sender_was_asked_to_wait() {
    let mut network = nodes([true, false]);
    network.nodes[1].room = None;
    let id = network.send(0, 1, 4, Some(100_000));
    network.run(SECOND);
    assert_eq!(network.end(0, id), None, "it waits, and is announced again and again");
    let incoming = Network::incoming(0, id);
    assert_eq!(network.nodes[1].endpoint.shown(incoming), Some(&shown(4, 100_000)));
    network.nodes[1].endpoint.fetched(incoming);
    network.settle(1);
    network.run(SECOND / 10);
    assert_eq!(network.end(0, id), Some(Ok(100_000)));
    assert_eq!(network.end(1, incoming), Some(Ok(100_000)));
    network.nodes[1].endpoint.fetched(incoming);
    network.settle(1);
    assert_eq!(network.end(1, incoming), Some(Ok(100_000)), "it ends once");
}

#[test]
fn whatever_the_network_does_it_is_read_once() {
    let faults = Faults { loss: 300, duplicate: 200, reorder: 300, corrupt: 50 };
    for seed in 0..200 {
        let mut network = nodes([true, seed % 2 == 0]).with_faults(seed, faults);
        let ids: [_; 5] = core::array::from_fn(|at| network.send(0, 1, at as u64, Some(20_000)));
        network.run(5 * SECOND);
        ids.into_iter().for_each(|id| network.assert_arrived(0, 1, id, 20_000));
    }
}

#[test]
fn what_frames_have_no_room_for_is_not_shown() {
    let mut network = Network::of((0..2).map(|at| node(settings(at, 1, link(150)))).collect());
    network.nodes.iter_mut().for_each(|node| node.shares = true);
    let id = network.send(0, 1, 9, Some(5_000));
    network.run(SECOND);
    network.assert_arrived(0, 1, id, 5_000);
    assert_eq!(network.nodes[1].endpoint.counters().fetched_bytes, 0);
    assert!(network.log.iter().all(|(_, frame)| frame.len() <= 150));
}

#[test]
fn parts_that_are_not_all_of_it_are_no_use() {
    for (bytes, is_use) in [(999, false), (1000, true), (1001, false)] {
        let mut network = nodes([false, false]);
        network.nodes[1].room = None;
        let body = Body::Announce(announce(1000));
        network.deliver(1, &frame(&header(9, body), false, &shown(5, bytes).write()));
        let Some(Event::Announced { transfer, .. }) = network.nodes[1].events.first() else {
            panic!("{:?}", network.nodes[1].events);
        };
        assert_eq!(network.nodes[1].endpoint.shown(*transfer).is_some(), is_use, "{bytes}");
    }
}

#[test]
fn an_announcement_has_whole_parts_and_not_too_many() {
    let parse = |bytes: usize| {
        let data: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut out = alloc::vec![0; 8000];
        let header = header(6, Body::Announce(announce(100)));
        let macs = [nile_abi::MacAddress::local(nile_abi::NodeId(1), 0); 2];
        let start = header.write(macs, false, bytes, &mut out).unwrap();
        out[start..start + bytes].copy_from_slice(&data);
        out.truncate(start + bytes);
        Frame::parse(&out).map(|frame| Shown::parse(frame.data()))
    };
    assert_eq!(parse(0), Ok(None));
    for wrong in [1, 8, 9, 23, 25, 8 + 16 * (MOST_PARTS + 1)] {
        assert_eq!(parse(wrong), Err(Malformed::Length), "{wrong}");
    }
    for parts in [1, 2, MOST_PARTS] {
        let shown = parse(8 + 16 * parts).unwrap().unwrap();
        assert_eq!((shown.memory, shown.parts.len()), (0x0001_0203_0405_0607, parts));
        assert_eq!(shown.parts[0].index, 0x0809_0a0b);
        assert_eq!(Shown::parse(&shown.write()), Some(shown));
    }
    assert!(Shown { memory: 1, parts: Vec::new() }.write().is_empty());
}
