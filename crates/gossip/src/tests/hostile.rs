//! Messages that no node of ours sends.

use nile_bosml::{Blob, Encode, Writer};
use proptest::prelude::*;

use super::*;
use crate::records::Gone;
use crate::wire::{Changes, Message, Poll, Range, Row, START};

fn bytes(message: &Message) -> Vec<u8> {
    let mut out = Writer::new();
    message.encode(&mut out);
    out.into_bytes().unwrap()
}

fn row(node: u32) -> Row {
    Row { node, generation: 1, nonce: 5, renewal: 0, live: true, version: 0 }
}

fn running(limits: Limits) -> Gossip {
    let mut gossip = Gossip::new(Settings { limits, ..settings(1, 1) });
    gossip.start(Instant::START);
    gossip
}

#[test]
fn what_is_no_message_changes_only_a_counter() {
    let mut gossip = running(Limits::default());
    let digest = gossip.digest();
    while gossip.poll_transmit().is_some() {}
    let message = bytes(&Message::new(row(2), 0));
    for end in 0..message.len() {
        gossip.receive(Instant::START, NodeId(2), &message[..end], false);
    }
    gossip.receive(Instant::START, NodeId(3), &message, false);
    gossip.receive(Instant::START, NodeId(1), &bytes(&Message::new(row(1), 0)), false);
    gossip.receive(Instant::START, NodeId(2), &[0; 70_000], false);
    assert_eq!(
        (gossip.counters().malformed, gossip.counters().forged),
        (message.len() as u64 + 1, 2)
    );
    assert_eq!((gossip.digest(), gossip.poll_transmit()), (digest, None));
    gossip.receive(Instant::START, NodeId(2), &message, false);
    assert_ne!(gossip.digest(), digest);
}

#[test]
fn what_is_kept_is_bounded() {
    let limits = Limits { nodes: 10, entries: 20, bytes: 2_000 };
    let mut gossip = running(limits);
    for node in 2..100 {
        let mut message = Message::new(Row { version: 60, ..row(node) }, 0);
        message.news = (0..60).map(|other| row(1_000 + node * 60 + other)).collect();
        message.changes = vec![Changes {
            node,
            generation: 1,
            base: 0,
            version: 60,
            latest: 60,
            cores: Vec::new(),
            instances: (0..60)
                .map(|at| Instance { changed: at + 1, ..instance(at as u16) })
                .collect(),
            gone: (0..60).map(|at| Gone { first: at * 9, last: at * 9, changed: 1 }).collect(),
        }];
        gossip.receive(Instant::START, NodeId(node), &bytes(&message), false);
    }
    assert_eq!(gossip.members().count(), 10);
    assert!(gossip.directory_bytes <= 2_000, "{}", gossip.directory_bytes);
    assert!(gossip.directories.values().all(|it| it.instances().count() <= 20));
    assert!(gossip.counters().refused > 5_000);
}

#[test]
fn one_message_is_answered_by_a_few() {
    let mut gossip = running(Limits::default());
    for number in 0..500 {
        gossip.set_local(Update::Publish(instance(number))).unwrap();
    }
    let mut message = Message::new(row(2), 0);
    message.polls = vec![Poll { node: 1, generation: 1, have: 0 }; 4_000];
    while gossip.poll_transmit().is_some() {}
    gossip.receive(Instant::START, NodeId(2), &bytes(&message), false);
    assert!(core::iter::from_fn(|| gossip.poll_transmit()).count() <= 8);
}

prop_compose! {
    fn any_row()(
        node in 0..6_u32, generation in 0..4_u32, nonce in 4..7_u32, renewal in 0..3_u16,
        edge in 0..9_u8, live: bool, version in 0..5_u32,
    ) -> Row {
        let version = if edge == 1 { u32::MAX } else { version };
        let renewal = if edge == 2 { u16::MAX } else { renewal };
        Row { node, generation, nonce, renewal, live, version }
    }
}

prop_compose! {
    fn any_changes()(
        node in 0..6_u32, generation in 0..4_u32, base in 0..5_u32, version in 0..9_u32,
        latest in 0..9_u32, changed in prop::collection::vec((0..40_u16, 0..9_u32, 0..4_u8), 0..6),
    ) -> Changes {
        let of = |kind: u8| changed.iter().filter(move |it| it.2 == kind);
        let instances =
            of(0).map(|it| Instance { changed: it.1, ..instance(it.0) }).collect();
        let gone = of(1).map(|it| Gone { first: it.0, last: it.0 / 2 + 9, changed: it.1 });
        let cores = of(2).map(|it| Core { core: it.0, generation: 1, roles: 1, changed: it.1 });
        let (gone, cores) = (gone.collect(), cores.collect());
        Changes { node, generation, base, version, latest, cores, instances, gone }
    }
}

prop_compose! {
    fn any_message()(
        sender in any_row(), flags: u8,
        swim in prop::collection::vec(any::<u8>(), 0..60),
        news in prop::collection::vec(any_row(), 0..4),
        rows in prop::collection::vec(any_row(), 0..4),
        ranges in prop::collection::vec((any::<u32>(), 0..40_u8, any::<bool>(), 0..3_u64), 0..4),
        polls in prop::collection::vec((0..6_u32, 0..4_u32, 0..9_u32), 0..4),
        changes in prop::collection::vec(any_changes(), 0..4),
    ) -> Message {
        let ranges = ranges.into_iter().map(|(prefix, bits, listed, hash)| {
            let prefix = prefix.checked_shl(32 - u32::from(bits).min(32)).unwrap_or(0);
            Range { prefix, bits, listed, hash }
        });
        let poll = |(node, generation, have)| Poll { node, generation, have };
        let polls = polls.into_iter().map(poll);
        let flags = flags & if swim.len() > 30 { START } else { 0xff };
        let (ranges, polls, swim) = (ranges.collect(), polls.collect(), Blob(swim));
        Message { sender, flags, swim, news, rows, ranges, polls, changes }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_messages_leave_it_sound(
        messages in prop::collection::vec((any_message(), any::<bool>(), 0..900_u64), 1..30),
    ) {
        let mut gossip = running(Limits { nodes: 5, entries: 9, bytes: 1_000 });
        let mut now = Instant::START;
        for (message, is_broadcast, millis) in messages {
            now = now + Duration::from_millis(millis);
            gossip.on_time(now);
            let from = NodeId(message.sender.node);
            gossip.receive(now, from, &bytes(&message), is_broadcast);
            gossip.talked(from);
            while let Some((_, payload)) = gossip.poll_transmit() {
                prop_assert!(payload.len() <= 1_390);
                prop_assert!(Message::parse(&payload).is_ok());
            }
            while gossip.poll_event().is_some() {}
            sound(&gossip);
        }
    }
}

/// What is counted and summed up is what is there.
fn sound(gossip: &Gossip) {
    let rows: Vec<&Row> = gossip.table.rows().collect();
    let live: Vec<&&Row> = rows.iter().filter(|row| row.live).collect();
    assert!(rows.len() <= 5 && live.len() == gossip.live());
    let digest = live.iter().fold(0_u64, |sum, row| sum.wrapping_add(crate::table::hash(row)));
    assert_eq!(digest, gossip.digest());
    let bytes: usize = gossip.directories.values().map(Directory::bytes).sum();
    assert!(bytes == gossip.directory_bytes && bytes <= 1_000);
    for row in rows {
        let held = gossip.directory(NodeId(row.node)).map_or(0, Directory::version);
        assert_eq!(held, row.version);
        assert!(row.live || held == 0);
    }
    assert!(gossip.dead.keys().all(|node| gossip.table.get(*node).is_some_and(|row| !row.live)));
    let own = gossip.table.get(NodeId(1)).unwrap();
    assert!(own.live && own.generation == 1);
}
