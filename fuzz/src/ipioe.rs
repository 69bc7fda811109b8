//! Frames of calls between nodes.

use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};
use nile_ipioe::wire::{self, Frame, MAX_MESSAGE};
use nile_ipioe::{
    Asker, BootNonce, ClusterKey, Endpoint, Event, Limits, Request, Settings, checksum,
};

use crate::input::Input;

/// The deadline of calls, and later than any deadline that a frame can set.
const WAIT: Duration = Duration::from_secs(3600);

const LIMITS: Limits =
    Limits { peers: 4, tools: 2, calls: 8, remembered: 16, bytes: 256 << 10, queue: 32 };

fn mac(node: u32) -> MacAddress {
    MacAddress::local(NodeId(node), 0)
}

fn endpoint(node: u32, key: Option<ClusterKey>) -> Endpoint {
    let nonce = BootNonce([node as u8; 16]);
    let limits = LIMITS;
    Endpoint::new(Settings {
        key,
        limits,
        ..Settings::new(NodeId(node), Generation(1), mac(node), nonce)
    })
}

/// Two endpoints that have met, and a call from the first to the second that is not answered.
fn met(key: Option<ClusterKey>, now: Instant) -> [Endpoint; 2] {
    let mut nodes = [endpoint(1, key.clone()), endpoint(2, key)];
    let request = Request {
        to: NodeId(2),
        generation: None,
        source_core: CoreId(1),
        core: CoreId(2),
        service: 3,
        method: 4,
        encoded: true,
        asker: Asker::Package,
        deadline: now + WAIT,
    };
    nodes[0].call(now, request, vec![5; 40]).expect("there is room");
    let mut buffer = [0; nile_abi::ethernet::STANDARD_FRAME];
    while nodes.iter().any(Endpoint::has_frames) {
        for from in [0, 1] {
            while let Some(bytes) = nodes[from].transmit(now, &mut buffer) {
                nodes[1 - from].receive(now, &buffer[..bytes]);
            }
        }
    }
    while nodes[0].poll().is_some() {}
    nodes
}

/// The first byte says whether the cluster has a key. Then come frames, each a length of two bytes
/// and what follows the Ethernet header; their CRCs are made right. They reach an endpoint that has
/// met the node from which they claim to come, and waits for its answer. Accepted: one of them was.
pub fn ipioe(bytes: &[u8]) -> bool {
    let mut input = Input::new(bytes);
    let key = input.byte().unwrap_or(0) % 4 == 3;
    let mut now = Instant::from_nanos(1_000_000_000);
    let [mut node, _] = met(key.then_some(ClusterKey([7; 32])), now);
    let before = node.counters().accepted;
    let mut buffer = [0; nile_abi::ethernet::STANDARD_FRAME];
    while let Some(length) = input.take().map(u16::from_le_bytes) {
        let mut frame = [&mac(1).0[..], &mac(2).0, &[0x88, 0xb5]].concat();
        frame.extend_from_slice(input.most(usize::from(length)));
        mend(&mut frame);
        node.receive(now, &frame);
        check(&mut node, now, key);
        now = now + Duration::from_micros(u64::from(length));
        node.on_time(now);
        while let Some(bytes) = node.transmit(now, &mut buffer) {
            let sent = Frame::parse(&buffer[..bytes]).expect("what is sent is valid");
            assert!(sent.is_intact(checksum::portable));
        }
    }
    let is_accepted = node.counters().accepted != before;
    assert!(!(key && is_accepted), "nobody can seal without the key");

    // Everything has an end, also the search for a node that does not answer.
    for _ in 0..20 {
        now = now + WAIT;
        node.on_time(now);
        while node.transmit(now, &mut buffer).is_some() {}
        check(&mut node, now, key);
    }
    let usage = node.usage();
    assert_eq!((usage.calls, usage.bytes), (0, 0));
    is_accepted
}

/// What an endpoint tells is possible, and what it remembers is bounded.
fn check(node: &mut Endpoint, now: Instant, key: bool) {
    while let Some(event) = node.poll() {
        match event {
            Event::Request { serving, data, deadline, .. } => {
                assert!(data.len() <= MAX_MESSAGE && deadline > now && !key);
                if data.len() % 2 == 0 {
                    let answer = vec![1; data.len()];
                    node.reply(now, serving, Status::Ok, false, answer).expect("it waits");
                }
            }
            Event::Gossip { data, .. }
            | Event::Broadcast { data, .. }
            | Event::Namesake { data, .. } => {
                assert!(data.len() <= MAX_MESSAGE && !key);
            }
            Event::Met { .. }
            | Event::Restarted { .. }
            | Event::Left { .. }
            | Event::Outdated { .. } => assert!(!key),
            Event::Cancelled { .. } | Event::Ended { .. } => {}
        }
    }
    let usage = node.usage();
    assert!(usage.peers <= LIMITS.peers && usage.bytes <= LIMITS.bytes);
    assert!(usage.remembered <= 2 * LIMITS.remembered && usage.calls <= LIMITS.calls);
}

/// Makes the CRC right, without which changed bytes would never reach what is behind it.
fn mend(frame: &mut [u8]) {
    let sealed = frame.get(19).is_some_and(|flags| flags & 1 != 0);
    let tag = if sealed { wire::TAG_BYTES } else { 0 };
    let read = |at: usize| frame.get(at).copied().map_or(0, usize::from);
    let end = 14 + read(15) + (read(20) << 8 | read(21));
    if end >= 38 && end + tag <= frame.len() {
        wire::set_crc(&mut frame[..end], checksum::portable);
    }
}
