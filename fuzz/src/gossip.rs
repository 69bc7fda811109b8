//! What other nodes send of gossip: messages of any bytes, one after the other, to one node.

use std::time::Duration;

use nile_abi::{Generation, Instant, NodeId};
use nile_gossip::wire::Message;
use nile_gossip::{Gossip, Limits, Settings, State};

const LIMITS: Limits = Limits { nodes: 8, entries: 16, bytes: 2_000 };

/// A message is two bytes of length, one that says how it comes, one for the time before it, and
/// its own bytes. Accepted: some message was believed.
pub fn gossip(bytes: &[u8]) -> bool {
    let own = NodeId(1);
    let settings = Settings { limits: LIMITS, ..Settings::new(own, Generation(3), 7) };
    let most = settings.message_bytes;
    let mut gossip = Gossip::new(settings);
    let mut now = Instant::START;
    gossip.start(now);
    let mut rest = bytes;
    while let Some(([low, high, how, wait], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
        let (payload, next) = after.split_at(length);
        rest = next;
        now = now + Duration::from_millis(u64::from(*wait) * 8);
        gossip.on_time(now);
        let named = payload.first_chunk().map_or(NodeId(2), |it| NodeId(u32::from_le_bytes(*it)));
        let from = if how & 2 == 0 { named } else { NodeId(u32::from(how >> 2)) };
        gossip.receive(now, from, payload, how & 1 == 1);
        gossip.talked(from);
        while let Some((_, sent)) = gossip.poll_transmit() {
            assert!(sent.len() <= most, "{} bytes", sent.len());
            Message::parse(&sent).expect("what it sends can be read");
        }
        while gossip.poll_event().is_some() {}
        check(&gossip, own);
    }
    let counters = gossip.counters();
    counters.received > counters.malformed + counters.forged + counters.stale
}

fn check(gossip: &Gossip, own: NodeId) {
    assert!(gossip.members().count() <= LIMITS.nodes);
    let directories = gossip.members().filter_map(|it| gossip.directory(it.node));
    let bytes: usize = directories.map(|it| it.bytes()).sum();
    assert!(bytes <= LIMITS.bytes, "{bytes} bytes");
    let itself = gossip.member(own).expect("a node knows itself");
    assert_eq!((itself.generation, itself.state), (Generation(3), State::Alive));
}
