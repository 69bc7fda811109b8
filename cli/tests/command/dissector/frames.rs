//! Frames of every kind, made by the code that nodes run.

use std::time::Duration;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Status};
use nile_bulk::wire as bulk;
use nile_ipioe::wire::{Body, Frame, Header, Route, Segment};
use nile_ipioe::{Asker, BootNonce, ClusterKey, Endpoint, Event, Request, Settings, checksum};

/// A request's data in the text form.
pub const DOCUMENT: &str = "<compute><m>2</m><n>3</n></compute>";

/// A document that does not fit a frame.
pub fn long_document() -> String {
    format!("<store><text>{}</text></store>", "long ".repeat(1000))
}

fn endpoint(node: u32, key: Option<ClusterKey>) -> Endpoint {
    let id = NodeId(node);
    let nonce = BootNonce([node as u8; 16]);
    let mut settings = Settings::new(id, Generation(node + 4), MacAddress::local(id, 0), nonce);
    settings.key = key;
    Endpoint::new(settings)
}

/// Everything that two nodes say to each other when they meet, call, and gossip, as on the wire.
pub fn conversation(key: Option<ClusterKey>) -> Vec<Vec<u8>> {
    let (mut one, mut other) = (endpoint(1, key.clone()), endpoint(2, key));
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut frames = Vec::new();
    one.broadcast(true, vec![1, 2, 3]).unwrap();
    let request = Request {
        to: NodeId(2),
        generation: None,
        source_core: CoreId(3),
        core: CoreId(4),
        service: 5,
        method: 6,
        encoded: false,
        asker: Asker::Package,
        deadline: now + Duration::from_secs(5),
    };
    one.call(now, request, DOCUMENT.into()).unwrap();
    one.call(now, request, long_document().into()).unwrap();
    one.call(now, Request { encoded: true, ..request }, vec![9; 40]).unwrap();
    one.call(now, request, Vec::new()).unwrap();
    other.gossip(now, NodeId(1), CoreId(0), true, vec![7; 2000]).unwrap();
    let mut ended = 0;
    for _ in 0..200 {
        for from_one in [true, false] {
            let (from, to) = if from_one { (&mut one, &mut other) } else { (&mut other, &mut one) };
            let mut out = vec![0; 1514];
            while let Some(bytes) = from.transmit(now, &mut out) {
                to.receive(now, &out[..bytes]);
                frames.push(out[..bytes].to_vec());
            }
        }
        while let Some(event) = other.poll() {
            if let Event::Request { serving, data, .. } = event {
                let status = if data.is_empty() { Status::NotFound } else { Status::Ok };
                other.reply(now, serving, status, false, data).unwrap();
            }
        }
        while let Some(event) = one.poll() {
            ended += u32::from(matches!(event, Event::Ended { .. }));
        }
        now = now + Duration::from_millis(10);
        one.on_time(now);
        other.on_time(now);
    }
    assert_eq!(ended, 4, "the nodes talk to each other");
    one.leave();
    let mut out = vec![0; 1514];
    while let Some(bytes) = one.transmit(now, &mut out) {
        frames.push(out[..bytes].to_vec());
    }
    frames
}

/// A frame that gateways would send: no endpoint does.
pub fn routed() -> Vec<u8> {
    let header = Header {
        encoded: true,
        segment: Some(Segment { index: 0, count: 2, total: 150 }),
        route: Some(Route { source: 10, destination: 11 }),
        sequence: Some(1 << 40),
        ..header()
    };
    emit(header, &[0xaa; 100], &[0xaa; 16])
}

/// A request whose text is this one.
pub fn text(text: &str) -> Vec<u8> {
    emit(header(), text.as_bytes(), &[])
}

/// A request's header.
fn header() -> Header {
    Header {
        id: 77,
        node: NodeId(1),
        generation: Generation(5),
        encoded: false,
        segment: None,
        route: None,
        sequence: None,
        body: Body::Request {
            to: NodeId(2),
            generation: Generation(0),
            source_core: CoreId(3),
            core: CoreId(4),
            service: 5,
            method: 6,
            patience: 1_000_000,
            oldest: 70,
            asker: Asker::Operator,
        },
    }
}

/// A whole frame, with what is behind its data.
fn emit(header: Header, data: &[u8], tag: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 500];
    let (to, from) = (MacAddress::local(NodeId(2), 0), MacAddress::local(NodeId(1), 0));
    let start = header.emit(to, from, data.len() as u16, &mut out);
    out.truncate(start);
    out.extend_from_slice(data);
    let crc = checksum::portable(0, &out[HEADER_BYTES..]);
    out.extend_from_slice(tag);
    out[HEADER_BYTES + 12..HEADER_BYTES + 16].copy_from_slice(&crc.to_be_bytes());
    assert!(Frame::parse(&out).unwrap().is_intact(checksum::portable));
    out
}

/// A frame of every sort of bulk transfers, sealed and not.
pub fn transfers() -> Vec<Vec<u8>> {
    let announce = |total| bulk::Announce {
        source_core: CoreId(1),
        core: CoreId(2),
        block: 1456,
        tag: 0x0123_4567_89ab_cdef,
        label: 0xfedc_ba98_7654_3210,
        total,
        ready: 4000,
        oldest: 5,
        next: 7,
    };
    let credit =
        |complete| bulk::Credit { block: 1456, complete, base: 1, next: 4, limit: 12, end: 4097 };
    let data = |last| bulk::Data { index: 1, sequence: 2, ready: 3, last };
    let bodies = [
        (bulk::Body::Announce(announce(Some(4000))), 0),
        (bulk::Body::Announce(announce(None)), 0),
        (bulk::Body::Credit(credit(false)), 2),
        (bulk::Body::Credit(credit(true)), 0),
        (bulk::Body::Data(data(false)), 1456),
        (bulk::Body::Data(data(true)), 3),
        (bulk::Body::Cancel { status: Status::Denied, by_sender: false }, 0),
        (bulk::Body::Cancel { status: Status::Dead, by_sender: true }, 0),
    ];
    bodies
        .into_iter()
        .flat_map(|(body, bytes)| [false, true].map(|it| transfer(body, bytes, it)))
        .collect()
}

fn transfer(body: bulk::Body, data_bytes: usize, sealed: bool) -> Vec<u8> {
    let header = bulk::Header {
        transfer: 6,
        source: NodeId(1),
        source_generation: Generation(1),
        destination: NodeId(2),
        destination_generation: Generation(3),
        body,
    };
    let mut out = vec![0x55; 1600];
    let addresses = [MacAddress::local(NodeId(2), 0), MacAddress::local(NodeId(1), 0)];
    let start = header.write(addresses, sealed, data_bytes, &mut out).unwrap();
    out.truncate(start + data_bytes + if sealed { bulk::TAG_BYTES } else { 0 });
    let crc = checksum::portable(0, &out[HEADER_BYTES..]);
    out[HEADER_BYTES + 12..HEADER_BYTES + 16].copy_from_slice(&crc.to_be_bytes());
    assert!(bulk::Frame::parse(&out).unwrap().checksum_holds(checksum::portable));
    out
}
