//! Frames as bytes: what is written is read, the examples of docs/bulk.md, trusted links.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{CoreId, Generation, MacAddress, NodeId, Status};
use proptest::prelude::*;

use super::network::{Network, STANDARD, link, node, settings};
use crate::checksum::portable;
use crate::wire::{
    Announce, Body, Credit, Data, Frame, Header, Malformed, TAG_BYTES, write_checksum,
};
use crate::{Link, Settings};

/// A frame of some header and data.
pub fn frame(header: &Header, sealed: bool, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0xee; 2000];
    let macs = [MacAddress::local(NodeId(1), 0), MacAddress::local(NodeId(0), 0)];
    let start = header.write(macs, sealed, data.len(), &mut out).unwrap();
    out[start..start + data.len()].copy_from_slice(data);
    out.truncate(start + data.len() + if sealed { TAG_BYTES } else { 0 });
    write_checksum(&mut out, portable);
    out
}

/// From node 0 to node 1, both in their first generation.
pub fn header(transfer: u32, body: Body) -> Header {
    Header {
        transfer,
        source: NodeId(0),
        source_generation: Generation(1),
        destination: NodeId(1),
        destination_generation: Generation(1),
        body,
    }
}

pub fn announce(total: u64) -> Announce {
    Announce {
        source_core: CoreId(2),
        core: CoreId(3),
        block: 1456,
        tag: 0x0123_4567_89ab_cdef,
        label: 0xfedc_ba98_7654_3210,
        total: Some(total),
        ready: total,
        oldest: 5,
        next: 0,
    }
}

fn any_body() -> impl Strategy<Value = (Body, usize)> {
    let numbers = (any::<[u16; 2]>(), 1_u16.., any::<[u64; 3]>(), any::<bool>(), any::<[u32; 2]>());
    let announce = (numbers, 0..4_usize).prop_map(|(numbers, parts)| {
        let (cores, block, [tag, label, bytes], known, [oldest, next]) = numbers;
        let ready = bytes / 2;
        let total = known.then_some(bytes.min(u64::MAX - 1));
        let [source_core, core] = cores.map(CoreId);
        let announce =
            Announce { source_core, core, block, tag, label, total, ready, oldest, next };
        (Body::Announce(announce), if parts == 0 { 0 } else { 8 + 16 * parts })
    });
    let credit = (1_u16.., any::<bool>(), any::<[u32; 4]>(), 0_usize..=512).prop_map(
        |(block, complete, [base, next, limit, end], bytes)| {
            (Body::Credit(Credit { block, complete, base, next, limit, end }), bytes)
        },
    );
    let data = (any::<[u32; 2]>(), 1_u32.., any::<bool>(), 1_usize..1400).prop_map(
        |([index, sequence], ready, last, bytes)| {
            (Body::Data(Data { index: index % ready, sequence, ready, last }), bytes)
        },
    );
    let cancel = (1_u16..=10, any::<bool>()).prop_map(|(code, by_sender)| {
        (Body::Cancel { status: Status::from_code(code).unwrap(), by_sender }, 0)
    });
    prop_oneof![announce, credit, data, cancel]
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        (body, bytes) in any_body(), transfer: u32, nodes: [u32; 2],
        generations in prop::array::uniform2(1_u32..), sealed: bool,
    ) {
        let [source, destination] = nodes.map(NodeId);
        let [source_generation, destination_generation] = generations.map(Generation);
        let header = Header {
            transfer, source, source_generation, destination, destination_generation, body,
        };
        let data: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut written = frame(&header, sealed, &data);
        {
            let read = Frame::parse(&written).unwrap();
            prop_assert_eq!((read.header, read.sealed), (header, sealed));
            prop_assert_eq!(read.data(), data);
            prop_assert_eq!(read.from, MacAddress::local(NodeId(0), 0));
            prop_assert!(read.checksum_holds(portable));
            prop_assert!(read.checksum_holds(crc32c::crc32c_append));
        }
        // Padding of short frames is no part of them; no other byte may be missing or too many.
        for length in 0..written.len() {
            prop_assert!(Frame::parse(&written[..length]).is_err(), "{}", length);
        }
        let length = written.len();
        written.resize(length.max(60), 0xaa);
        let padded = Frame::parse(&written).map(|read| read.bytes.len());
        prop_assert_eq!(padded, Ok(length - HEADER_BYTES));
        written.resize(length.max(60) + 1, 0);
        prop_assert_eq!(Frame::parse(&written).map(|_| ()), Err(Malformed::Length));
    }

    #[test]
    fn any_damaged_bit_is_noticed(
        (body, bytes) in any_body(), at: prop::sample::Index, bit in 0_u8..8,
    ) {
        let mut damaged = frame(&header(6, body), false, &vec![7; bytes]);
        let place = HEADER_BYTES + at.index(damaged.len() - HEADER_BYTES);
        damaged[place] ^= 1_u8 << bit;
        let holds = Frame::parse(&damaged).is_ok_and(|frame| frame.checksum_holds(portable));
        prop_assert!(!holds);
    }
}

#[test]
fn each_field_is_checked() {
    let good = frame(&header(6, Body::Announce(announce(100))), false, &[]);
    assert!(Frame::parse(&good).is_ok());
    let with = |place: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[place..place + bytes.len()].copy_from_slice(bytes);
        Frame::parse(&changed).map(|_| ())
    };
    assert_eq!(with(6, &[3]), Err(Malformed::Ethernet), "from a group");
    assert_eq!(with(13, &[0xb5]), Err(Malformed::Ethernet), "another protocol");
    assert_eq!(with(14, &[2]), Err(Malformed::Version));
    assert_eq!(with(15, &[71]), Err(Malformed::Length), "header length");
    assert_eq!(with(16, &[9]), Err(Malformed::Opcode));
    assert_eq!(with(16, &[0]), Err(Malformed::Opcode));
    assert_eq!(with(17, &[1]), Err(Malformed::Reserved));
    assert_eq!(with(18, &[0x80, 0]), Err(Malformed::Reserved), "an unknown flag");
    assert_eq!(with(19, &[2]), Err(Malformed::Reserved), "a flag of data frames");
    assert_eq!(with(20, &[0, 1]), Err(Malformed::Length), "data");
    assert_eq!(with(34, &[0; 4]), Err(Malformed::Value), "source generation zero");
    assert_eq!(with(50, &[0, 0]), Err(Malformed::Value), "blocks of nothing");
    assert_eq!(with(52, &[0, 1]), Err(Malformed::Reserved));
    assert_eq!(with(85, &[200]), Err(Malformed::Value), "more ready than there is");
    assert_eq!(with(42, &[0; 4]), Ok(()), "any destination generation");
    let block = Data { index: 3, sequence: 3, ready: 3, last: false };
    let bad = frame(&header(6, Body::Data(block)), false, &[1]);
    assert_eq!(Frame::parse(&bad).map(|_| ()), Err(Malformed::Value), "a block beyond all");
    let cancel = Body::Cancel { status: Status::Dead, by_sender: true };
    let mut bad = frame(&header(6, cancel), false, &[]);
    bad[46 + 3] = 3;
    assert_eq!(Frame::parse(&bad).map(|_| ()), Err(Malformed::Value), "nobody's cancellation");
    bad[46..50].copy_from_slice(&[0, 0, 0, 1]);
    assert_eq!(Frame::parse(&bad).map(|_| ()), Err(Malformed::Value), "cancelled with success");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The frames that docs/bulk.md gives as examples.
#[test]
fn the_examples_of_the_specification_are_right() {
    let document = include_str!("../../../../docs/bulk.md");
    let digits = document.chars().filter(|it| it.is_ascii_hexdigit()).collect::<String>();
    let block = Data { index: 1, sequence: 2, ready: 3, last: false };
    let credit = Credit { block: 1456, complete: false, base: 1, next: 4, limit: 12, end: 4097 };
    let examples = [
        (Body::Announce(announce(4000)), &[][..]),
        (Body::Credit(credit), &[0b101]),
        (Body::Data(block), b"NileOS"),
        (Body::Cancel { status: Status::Denied, by_sender: false }, &[]),
    ];
    for (body, data) in examples {
        let example = hex(&frame(&header(6, body), false, data));
        assert!(digits.contains(&example), "{example} is not in docs/bulk.md");
    }
}

#[test]
fn memory_needs_no_checksum_and_a_network_does() {
    let trusted = Link { trusted: true, ..link(STANDARD) };
    let mut network = Network::of((0..2).map(|at| node(settings(at, 1, trusted))).collect());
    let id = network.send(0, 1, 5, Some(100_000));
    network.run(Duration::from_secs(1));
    network.assert_arrived(0, 1, id, 100_000);
    assert!(network.log.iter().all(|(_, bytes)| Frame::parse(bytes).unwrap().checksum == 0));
    // A network does not believe such frames.
    let mut other = Network::new(2);
    let (_, announcement) = &network.log[0];
    other.deliver(1, announcement);
    assert_eq!(other.nodes[1].endpoint.counters().corrupt, 1);
    assert!(other.nodes[1].events.is_empty());
    // And a checksum that is there must be right, on any link.
    let mut wrong = announcement.clone();
    wrong[26..30].copy_from_slice(&[0, 0, 0, 1]);
    let trusting = Settings { ..settings(1, 1, trusted) };
    let mut third = Network::of(vec![node(settings(0, 1, trusted)), node(trusting)]);
    third.deliver(1, &wrong);
    assert_eq!(third.nodes[1].endpoint.counters().corrupt, 1);
}
