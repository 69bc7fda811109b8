//! Transfers over networks that fail in every way, until both ends agree that all has arrived.

use alloc::vec::Vec;
use core::time::Duration;

use proptest::prelude::*;

use super::network::{Faults, Network, STANDARD, link, node, settings};
use crate::{Link, Why};

const SECOND: Duration = Duration::from_secs(1);

fn faults() -> impl Strategy<Value = Faults> {
    let chance = || prop_oneof![Just(0), 0_u32..200];
    (chance(), chance(), chance(), chance()).prop_map(|(loss, duplicate, reorder, corrupt)| {
        Faults { loss, duplicate, reorder, corrupt }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_arrives_once(
        seed: u64,
        faults in faults(),
        sizes in prop::collection::vec((0_usize..2, 0_u64..100_000), 1..6),
        frames in prop::sample::select(&[256_usize, STANDARD, 9014][..]),
        window in 3_000_u64..200_000,
    ) {
        let link = Link { window, ..link(frames) };
        let nodes = (0..2).map(|at| node(settings(at, 1, link))).collect();
        let mut network = Network::of(nodes).with_faults(seed, faults);
        let sent: Vec<_> = sizes
            .iter()
            .map(|&(from, bytes)| {
                (from, network.send(from, 1 - from, bytes, Some(bytes)), bytes)
            })
            .collect();
        network.run(9 * SECOND);
        for (from, id, bytes) in sent {
            network.assert_arrived(from, 1 - from, id, bytes);
        }
        prop_assert_eq!(network.nodes[0].endpoint.transfers(), [0, 0]);
        prop_assert_eq!(network.nodes[1].endpoint.transfers(), [0, 0]);
        let nonsense = network.nodes.iter().map(|node| node.endpoint.counters().nonsense);
        prop_assert_eq!(nonsense.sum::<u64>(), 0);
    }

    #[test]
    fn every_byte_of_a_stream_arrives_once(
        seed: u64,
        faults in faults(),
        steps in prop::collection::vec((0_u64..20_000, 0_u64..30_000), 1..20),
    ) {
        let mut network = Network::new(2).with_faults(seed, faults);
        network.nodes[1].room = Some(0);
        let id = network.send(0, 1, 77, None);
        let (mut offered, mut room) = (0, 0);
        for (more, more_room) in steps {
            (offered, room) = (offered + more, room + more_room);
            network.nodes[0].endpoint.offer(id, offered);
            network.settle(0);
            let now = network.now;
            network.nodes[1].endpoint.accept(now, Network::incoming(0, id), room);
            network.settle(1);
            network.run(Duration::from_micros(more_room));
            prop_assert!(network.nodes[1].endpoint.counters().delivered_bytes <= room.min(offered));
        }
        network.nodes[0].endpoint.finish(id, offered);
        network.settle(0);
        // The announcement itself may have been late.
        for _ in 0..50 {
            let now = network.now;
            network.nodes[1].endpoint.accept(now, Network::incoming(0, id), u64::MAX);
            network.settle(1);
            network.run(SECOND / 10);
        }
        network.assert_arrived(0, 1, id, offered);
    }
}

#[test]
fn little_loss_is_repaired_without_waiting() {
    let loss = Faults { loss: 1, ..Faults::default() };
    let mut network = Network::new(2).with_faults(1, loss);
    let id = network.send(0, 1, 8, Some(20_000_000));
    // 125 kB each 40 us are 320 round trips of 20 MB; each wait for a timer would be five more.
    network.run(Duration::from_micros(40 * 175));
    network.assert_arrived(0, 1, id, 20_000_000);
    let counters = network.nodes[0].endpoint.counters();
    assert!(counters.repeated > 5, "nothing was lost");
    let duplicates = network.nodes[1].endpoint.counters().duplicate;
    assert!(duplicates * 10 < counters.repeated, "{duplicates} of {}", counters.repeated);
}

#[test]
fn only_what_was_lost_is_sent_again() {
    let loss = Faults { loss: 200, ..Faults::default() };
    let mut network = Network::new(2).with_faults(3, loss);
    let id = network.send(0, 1, 8, Some(3_000_000));
    network.run(SECOND);
    network.assert_arrived(0, 1, id, 3_000_000);
    let sent = network.nodes[0].endpoint.counters().sent_bytes;
    // One in five is lost, so 3.75 MB are the least.
    assert!((3_600_000..4_000_000).contains(&sent), "{sent}");
}

#[test]
fn a_partition_that_heals_delays_and_nothing_else() {
    let mut network = Network::new(3);
    let ids = [network.send(0, 2, 1, Some(5_000_000)), network.send(1, 2, 2, Some(5_000_000))];
    network.run(Duration::from_micros(300));
    network.cut = Some(0);
    network.run(3 * SECOND);
    // The other sender got all of the window meanwhile.
    network.assert_arrived(1, 2, ids[1], 5_000_000);
    assert_eq!(network.end(0, ids[0]), None);
    network.cut = None;
    network.run(SECOND / 2);
    network.assert_arrived(0, 2, ids[0], 5_000_000);
}

#[test]
fn a_cut_sender_holds_nobody_up() {
    let mut network = Network::new(3);
    network.send(0, 2, 1, Some(5_000_000));
    network.run(Duration::from_micros(100));
    network.cut = Some(0);
    let other = network.send(1, 2, 2, Some(5_000_000));
    // 40 round trips, and the time after which the credit of the first counts as lost.
    network.run(Duration::from_micros(40 * 60 + 600));
    network.assert_arrived(1, 2, other, 5_000_000);
}

#[test]
fn a_partition_that_lasts_ends_both_ends() {
    let mut network = Network::new(2);
    let id = network.send(0, 1, 1, Some(5_000_000));
    network.run(Duration::from_micros(300));
    network.cut = Some(0);
    network.run(11 * SECOND);
    assert_eq!(network.end(0, id), Some(Err(Why::Timeout)));
    assert_eq!(network.end(1, Network::incoming(0, id)), Some(Err(Why::Timeout)));
    network.cut = None;
    network.run(SECOND);
    assert_eq!(network.nodes[0].endpoint.transfers(), [0, 0]);
    assert_eq!(network.nodes[0].endpoint.next_due(), None);
    assert_eq!(network.nodes[1].endpoint.next_due(), None);
}
