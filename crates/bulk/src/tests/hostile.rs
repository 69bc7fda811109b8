//! Frames from somebody who knows the protocol and means no good: well-formed, with a right
//! checksum, on a link without a key. They may end a transfer; they never panic, never write
//! where nothing was to be written, and never make anything grow without bound.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Generation, NodeId, Status};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::frames::{announce, frame, header};
use super::network::{Network, STANDARD, link, node, settings};
use crate::checksum::portable;
use crate::wire::{Announce, Body, Credit, Data, write_checksum};
use crate::{Counters, Event, IncomingId, Limits, Settings};

const SECOND: Duration = Duration::from_secs(1);

/// Numbers at which limits go wrong.
fn number(random: &mut Xoshiro256PlusPlus) -> u32 {
    let near = random.next_u32() % 8;
    match random.next_u32() % 8 {
        0 => u32::MAX - near,
        1 => (1 << 31) + near,
        2 => 4096 + near,
        3 => random.next_u32(),
        _ => near,
    }
}

fn body(random: &mut Xoshiro256PlusPlus) -> (Body, Vec<u8>) {
    let block = [1, 100, 1456, 1457, u16::MAX][random.next_u32() as usize % 5];
    match random.next_u32() % 8 {
        0 | 1 => {
            let bytes =
                u64::from(number(random)) * [1, 1456, 1 << 32][random.next_u32() as usize % 3];
            let total = [None, Some(bytes), Some(4000)][random.next_u32() as usize % 3];
            let ready = bytes.min(total.unwrap_or(bytes));
            let (oldest, next) = (number(random), number(random));
            (Body::Announce(Announce { block, total, ready, oldest, next, ..announce(0) }), vec![])
        }
        2..5 => {
            let [base, next, limit, end] = core::array::from_fn(|_| number(random));
            let complete = random.next_u32() < u32::MAX / 4;
            let bitmap = vec![random.next_u32() as u8; random.next_u32() as usize % 513];
            (Body::Credit(Credit { block, complete, base, next, limit, end }), bitmap)
        }
        5..7 => {
            let (index, sequence) = (number(random), number(random));
            let ready = number(random).max(index.saturating_add(1));
            let last = random.next_u32() < u32::MAX / 4;
            let length = [1, 100, 1088, 1456, 1457][random.next_u32() as usize % 5];
            (
                Body::Data(Data { index: index.min(ready - 1), sequence, ready, last }),
                vec![9; length],
            )
        }
        _ => {
            let status = Status::from_code(1 + random.next_u32() as u16 % 10).unwrap();
            (Body::Cancel { status, by_sender: random.next_u32() < u32::MAX / 2 }, vec![])
        }
    }
}

fn incarnation(random: &mut Xoshiro256PlusPlus) -> Generation {
    Generation([1, 1, 1, 1, 2, u32::MAX][random.next_u32() as usize % 6])
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_is_well_formed_does_harm(seed: u64) {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut network = Network::new(2);
        // Each is the other's victim: node 1 receives and sends, too.
        network.send(1, 0, 3, Some(4000));
        network.cut = Some(0);
        for _ in 0..200 {
            let (body, data) = body(&mut random);
            let mut header = header(random.next_u32() % 4, body);
            header.source_generation = incarnation(&mut random);
            header.destination_generation = Generation(1);
            let bytes = frame(&header, false, &data);
            network.deliver(1, &bytes);
            network.run(Duration::from_micros(u64::from(random.next_u32() % 400)));
            let [outgoing, incoming] = network.nodes[1].endpoint.transfers();
            prop_assert!(outgoing <= 1 && incoming <= 4);
        }
        check_writes(&network);
        network.run(20 * SECOND);
        prop_assert_eq!(network.nodes[1].endpoint.transfers(), [0, 0]);
        prop_assert_eq!(network.nodes[1].endpoint.next_due(), None);
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200), fix: bool) {
        let mut network = Network::new(2);
        let mut bytes = bytes;
        if fix && bytes.len() >= 30 {
            let opcode = bytes[16] % 5;
            bytes[12..18].copy_from_slice(&[0x88, 0xb6, 1, 72, opcode, 0]);
            write_checksum(&mut bytes, portable);
        }
        network.deliver(1, &bytes);
        let counters = *network.nodes[1].endpoint.counters();
        prop_assert_eq!(counters.received, 0);
    }
}

/// What was written lies within what the sender said there is, each byte once.
fn check_writes(network: &Network) {
    let mut totals: BTreeMap<IncomingId, u64> = BTreeMap::new();
    for event in &network.nodes[1].events {
        if let Event::Announced { transfer, total, .. } = event {
            assert!(!totals.contains_key(transfer), "{transfer:?} was announced twice");
            totals.insert(*transfer, total.unwrap_or(u64::MAX));
        }
    }
    for (transfer, (memory, written)) in &network.nodes[1].heap.arrived {
        assert!(memory.len() as u64 <= totals[transfer]);
        assert!(written.iter().all(|count| *count <= 1));
    }
}

#[test]
fn announcements_without_end_are_bounded() {
    let limits = Limits { incoming: 100, ended: 50, peers: 10, ..Limits::default() };
    let victim = Settings { limits, ..settings(1, 1, link(STANDARD)) };
    let mut network = Network::of(vec![node(settings(0, 1, link(STANDARD))), node(victim)]);
    network.nodes[1].room = None;
    for number in 0..10_000 {
        let body = Body::Announce(Announce { oldest: 0, ..announce(10) });
        let mut header = header(number, body);
        header.source = NodeId(2 + number % 20);
        let bytes = frame(&header, false, &[]);
        network.deliver(1, &bytes);
        assert!(network.nodes[1].endpoint.transfers()[1] <= 100);
    }
    let counters = network.nodes[1].endpoint.counters();
    assert_eq!(counters.busy, 10_000 - 100);
    let transfer = first(&network);
    network.nodes[1].endpoint.cancel(transfer, Status::Busy);
    assert_eq!(network.nodes[1].endpoint.transfers(), [0, 99]);
}

fn first(network: &Network) -> IncomingId {
    let mut announced = network.nodes[1].events.iter().filter_map(|event| match event {
        Event::Announced { transfer, .. } => Some(*transfer),
        _ => None,
    });
    announced.next().unwrap()
}

#[test]
fn credit_for_what_was_never_sent_is_nonsense() {
    let mut network = Network::new(2);
    let id = network.send(1, 0, 3, Some(400_000));
    network.run(Duration::from_micros(100));
    network.cut = Some(0);
    let good = Credit { block: 1456, complete: false, base: 0, next: 0, limit: 0, end: 0 };
    let bad = [
        Credit { base: 300, ..good },
        Credit { next: 300, ..good },
        Credit { limit: 100_000, ..good },
        Credit { block: 1000, ..good },
        Credit { complete: true, base: 3, ..good },
    ];
    for credit in bad {
        let before: Counters = *network.nodes[1].endpoint.counters();
        let bytes = frame(&header(id.number(), Body::Credit(credit)), false, &[]);
        network.deliver(1, &bytes);
        let after = *network.nodes[1].endpoint.counters();
        assert_eq!(after.nonsense, before.nonsense + 1, "{credit:?}");
        assert_eq!(network.end(1, id), None);
    }
    network.cut = None;
    network.run(SECOND);
    network.assert_arrived(1, 0, id, 400_000);
}
