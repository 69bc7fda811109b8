//! Transfers over a network that does nothing wrong.

use core::time::Duration;

use nile_abi::{CoreId, Status};

use super::network::{JUMBO, Network, STANDARD, link, node, settings};
use crate::{Event, IncomingId, Link, Transfer, Why};

const SECOND: Duration = Duration::from_secs(1);

/// Bytes of data in a frame of 1514.
const BLOCK: u64 = 1456;

#[test]
fn buffers_of_all_sizes_arrive() {
    for bytes in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK, 1_000_003] {
        let mut network = Network::new(2);
        let id = network.send(0, 1, bytes, Some(bytes));
        network.run(SECOND / 10);
        network.assert_arrived(0, 1, id, bytes);
        assert_eq!(network.nodes[0].endpoint.transfers(), [0, 0]);
        assert_eq!(network.nodes[1].endpoint.transfers(), [0, 0]);
        assert_eq!(network.nodes[0].endpoint.counters().repeated, 0);
        assert_eq!(network.nodes[1].endpoint.counters().duplicate, 0);
    }
}

#[test]
fn an_announcement_says_what_its_sender_said() {
    let mut network = Network::new(3);
    network.send(0, 2, 99, Some(5));
    network.run(SECOND);
    let Event::Announced { transfer, source_core, core, tag, label, total } =
        network.nodes[2].events[0]
    else {
        panic!("{:?}", network.nodes[2].events);
    };
    assert_eq!((source_core, core, total), (CoreId(1), CoreId(2), Some(5)));
    assert_eq!((tag, label), (99, !99));
    assert_eq!(transfer.from.0, 0);
    // The first frame went to all, because nobody had heard of node 2.
    assert_eq!(network.nodes[1].endpoint.counters().elsewhere, 1);
    assert!(network.nodes[1].events.is_empty());
}

#[test]
fn transfers_go_in_both_directions_at_once() {
    let mut network = Network::new(2);
    let there: [_; 8] = core::array::from_fn(|at| network.send(0, 1, at as u64, Some(100_000)));
    let back: [_; 8] = core::array::from_fn(|at| network.send(1, 0, 50 + at as u64, Some(77_777)));
    network.run(SECOND);
    there.into_iter().for_each(|id| network.assert_arrived(0, 1, id, 100_000));
    back.into_iter().for_each(|id| network.assert_arrived(1, 0, id, 77_777));
}

#[test]
fn the_smaller_frames_of_two_links_are_agreed_on() {
    for frames in [[STANDARD, JUMBO], [JUMBO, STANDARD], [JUMBO, JUMBO], [200, JUMBO]] {
        let nodes = (0..2).map(|at| node(settings(at, 1, link(frames[at]))));
        let mut network = Network::of(nodes.collect());
        let id = network.send(0, 1, 3, Some(300_000));
        network.run(SECOND);
        network.assert_arrived(0, 1, id, 300_000);
        let largest = network.log.iter().map(|(_, frame)| frame.len()).max();
        assert_eq!(largest, frames.into_iter().min());
    }
}

#[test]
fn a_stream_goes_on_as_it_is_offered() {
    let mut network = Network::new(2);
    let id = network.send(0, 1, 4, None);
    network.run(SECOND / 10);
    let mut offered = 0;
    for step in [10, BLOCK, 3 * BLOCK, 100 * BLOCK, 7] {
        offered += step;
        network.nodes[0].endpoint.offer(id, offered);
        network.settle(0);
        // The round trip is 40 us: it takes no timer to go on.
        network.run(Duration::from_micros(300));
        let arrived = network.nodes[1].endpoint.counters().delivered_bytes;
        assert_eq!(arrived, offered / BLOCK * BLOCK);
    }
    assert!(!network.nodes[0].endpoint.finish(id, offered - 1), "more was offered");
    assert!(network.nodes[0].endpoint.finish(id, offered));
    network.settle(0);
    network.run(SECOND / 10);
    network.assert_arrived(0, 1, id, offered);
    assert!(!network.nodes[0].endpoint.finish(id, offered));
}

#[test]
fn a_stream_may_end_with_a_full_block_or_with_nothing() {
    for bytes in [0, BLOCK, 2 * BLOCK] {
        let mut network = Network::new(2);
        let id = network.send(0, 1, 4, None);
        network.nodes[0].endpoint.offer(id, bytes);
        network.settle(0);
        network.run(SECOND);
        assert_eq!(network.end(0, id), None);
        network.nodes[0].endpoint.finish(id, bytes);
        network.settle(0);
        network.run(SECOND / 100);
        network.assert_arrived(0, 1, id, bytes);
    }
}

#[test]
fn a_stream_keeps_within_its_receiver_s_room() {
    let mut network = Network::new(2);
    network.nodes[1].room = Some(0);
    let id = network.send(0, 1, 5, Some(100 * BLOCK + 5));
    let incoming = Network::incoming(0, id);
    let mut room = 0;
    while room < 100 * BLOCK + 5 {
        network.run(SECOND / 20);
        let arrived = network.nodes[1].endpoint.counters().delivered_bytes;
        assert_eq!(arrived, room / BLOCK * BLOCK);
        room += 20 * BLOCK + 1;
        let now = network.now;
        network.nodes[1].endpoint.accept(now, incoming, room);
        network.settle(1);
    }
    network.run(SECOND / 100);
    network.assert_arrived(0, 1, id, 100 * BLOCK + 5);
    assert_eq!(network.nodes[1].endpoint.counters().beyond, 0);
}

#[test]
fn progress_is_told_at_both_ends_and_never_goes_back() {
    let mut network = Network::new(2);
    let id = network.send(0, 1, 5, Some(1_000_000));
    network.run(SECOND);
    for (at, wanted) in [(0, Transfer::Out(id)), (1, Transfer::In(Network::incoming(0, id)))] {
        let progress: alloc::vec::Vec<u64> = network.nodes[at]
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Progress { transfer, bytes } if *transfer == wanted => Some(*bytes),
                _ => None,
            })
            .collect();
        assert!(progress.len() > 10 && progress.is_sorted(), "{progress:?}");
    }
}

#[test]
fn a_refusal_is_told_with_its_reason() {
    let mut network = Network::new(2);
    network.nodes[1].room = None;
    let id = network.send(0, 1, 6, Some(10));
    // The owner may take its time: a sender that is answered does not give up.
    network.run(30 * SECOND);
    assert_eq!(network.end(0, id), None);
    network.nodes[1].endpoint.cancel(Network::incoming(0, id), Status::Denied);
    network.settle(1);
    network.run(SECOND);
    assert_eq!(network.end(0, id), Some(Err(Why::Cancelled(Status::Denied))));
    let here = network.end(1, Network::incoming(0, id));
    assert_eq!(here, Some(Err(Why::CancelledHere(Status::Denied))));
}

#[test]
fn what_is_on_the_way_stays_below_the_window() {
    const SENDERS: usize = 20;
    let mut network = Network::new(SENDERS + 1);
    let ids: [_; SENDERS] =
        core::array::from_fn(|from| network.send(from, SENDERS, from as u64, Some(200_000)));
    network.run(SECOND);
    for (from, id) in ids.into_iter().enumerate() {
        network.assert_arrived(from, SENDERS, id, 200_000);
    }
    let most = network.most_on_the_way[SENDERS];
    assert!((100_000..=125_000).contains(&most), "{most} bytes were on their way");
}

#[test]
fn credit_keeps_to_the_link_s_rate() {
    let rated = Link { rate: Some(1_000_000_000), ..link(STANDARD) };
    let mut network = Network::of((0..2).map(|at| node(settings(at, 1, rated))).collect());
    let id = network.send(0, 1, 0, Some(2_000_000));
    network.run(Duration::from_millis(8));
    // A megabyte takes 8 ms; half a window of 125 kB may be ahead of that.
    let arrived = network.nodes[1].endpoint.counters().delivered_bytes;
    assert!((900_000..=1_070_000).contains(&arrived), "{arrived}");
    network.run(SECOND);
    network.assert_arrived(0, 1, id, 2_000_000);
}

#[test]
fn a_transfer_that_is_over_is_not_begun_again() {
    let mut network = Network::new(2);
    let first = network.send(0, 1, 1, Some(5000));
    network.run(SECOND);
    let log = network.log.clone();
    for (from, frame) in log.iter().chain(&log) {
        network.deliver(1 - from, frame);
    }
    network.run(SECOND);
    network.assert_arrived(0, 1, first, 5000);
    let announced = |event: &&Event| matches!(event, Event::Announced { .. });
    assert_eq!(network.nodes[1].events.iter().filter(announced).count(), 1);
    // The same when the sender has said that it is long over.
    let second = network.send(0, 1, 2, Some(5000));
    network.run(SECOND);
    for (from, frame) in &log {
        network.deliver(1 - from, frame);
    }
    network.run(SECOND);
    network.assert_arrived(0, 1, second, 5000);
    assert_eq!(network.nodes[1].events.iter().filter(announced).count(), 2);
    assert!(network.nodes[1].endpoint.counters().stale > 0);
}

#[test]
fn numbers_begin_again_after_the_last() {
    let mut network = Network::new(2);
    network.nodes[0].endpoint.number = u32::MAX - 2;
    // The receiver believes all that, because it knows of nothing older.
    for round in 0..6 {
        let id = network.send(0, 1, round, Some(3000));
        network.run(SECOND);
        network.assert_arrived(0, 1, id, 3000);
    }
    let numbers: alloc::vec::Vec<IncomingId> =
        network.nodes[1].heap.arrived.keys().copied().collect();
    assert_eq!(numbers.len(), 6);
}

#[test]
fn the_oldest_transfer_is_the_one_before_the_others() {
    let mut network = Network::new(2);
    network.nodes[0].endpoint.number = u32::MAX - 1;
    let ids: [_; 4] = core::array::from_fn(|at| network.send(0, 1, at as u64, Some(30_000)));
    assert_eq!(ids.map(|id| id.number()), [u32::MAX - 1, u32::MAX, 0, 1]);
    network.run(SECOND);
    ids.into_iter().for_each(|id| network.assert_arrived(0, 1, id, 30_000));
    assert_eq!(network.nodes[1].endpoint.counters().nonsense, 0);
}
