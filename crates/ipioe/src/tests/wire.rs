//! The bytes of frames: what is written is read, and what is not right is refused.

use std::vec;
use std::vec::Vec;

use nile_abi::{CoreId, Generation, NodeId};
use proptest::prelude::*;

use super::network::mac;
use crate::checksum::portable;
use crate::wire::*;

fn bodies() -> impl Strategy<Value = Body> {
    let askers = prop::sample::select(vec![Asker::Kernel, Asker::Package, Asker::Operator]);
    let names = (1u32.., any::<u32>(), any::<[u16; 4]>(), any::<[u32; 2]>(), askers);
    let call = names.prop_map(|(to, generation, [a, b, service, method], waits, asker)| {
        let (to, generation) = (NodeId(to), Generation(generation));
        let (source_core, core) = (CoreId(a), CoreId(b));
        let [patience, oldest] = waits;
        Body::Request {
            to,
            generation,
            source_core,
            core,
            service,
            method,
            patience,
            oldest,
            asker,
        }
    });
    let reply =
        (1u32.., 1u32.., any::<[u16; 4]>()).prop_map(|(to, of, [a, b, service, status])| {
            let (to, generation) = (NodeId(to), Generation(of));
            let (source_core, core) = (CoreId(a), CoreId(b));
            Body::Reply { to, generation, source_core, core, service, status }
        });
    let nonce = any::<[u8; 16]>().prop_map(BootNonce);
    let broadcast = nonce.clone().prop_map(|nonce| Body::Broadcast { nonce });
    let gossip = (1u32.., any::<u16>())
        .prop_map(|(to, core)| Body::Gossip { to: NodeId(to), core: CoreId(core) });
    let acknowledge = (1u32.., 1u32.., any::<[u32; 2]>(), 0u8..3, 0u16..=64).prop_map(
        |(to, of, [id, bitmap], subject, segment)| {
            let (to, generation) = (NodeId(to), Generation(of));
            let (subject, segment) = match subject {
                0 => (Subject::Ended, 0),
                1 => (Subject::Request, segment),
                _ => (Subject::Reply, segment),
            };
            Body::Acknowledge { to, generation, id, bitmap, subject, segment }
        },
    );
    let hello = (any::<[u32; 3]>(), 0u16..16, nonce.clone(), any::<u64>(), nonce).prop_map(
        |([to, known, echo], state, echo_nonce, sequence, nonce)| {
            let (to, known) = (NodeId(to), Generation(known));
            Body::Hello { to, known, state, echo, echo_nonce, sequence, nonce }
        },
    );
    prop_oneof![call, reply, broadcast, gossip, acknowledge, hello]
}

/// A header, the bytes of data that go with it, and whether its opcode allows them.
fn headers() -> impl Strategy<Value = (Header, usize)> {
    let segments = (2u16..=64, 1usize..900).prop_flat_map(|(count, step)| {
        (0..count, 1..=step).prop_map(move |(index, last)| {
            let total = (usize::from(count) - 1) * step + last;
            let data = if index + 1 == count { last } else { step };
            (Segment { index, count, total: total as u32 }, data)
        })
    });
    let route = any::<[u32; 2]>().prop_map(|[source, destination]| Route { source, destination });
    let optional = (
        proptest::option::of(segments),
        proptest::option::of(route),
        proptest::option::of(any::<u64>()),
        any::<bool>(),
    );
    (bodies(), any::<u32>(), 1u32.., 1u32.., 0usize..900, optional).prop_map(
        |(body, id, node, generation, data, (segment, route, sequence, encoded))| {
            let is_message =
                matches!(body, Body::Request { .. } | Body::Reply { .. } | Body::Gossip { .. });
            let is_broadcast = matches!(body, Body::Broadcast { .. });
            let (segment, data) = match segment.filter(|_| is_message) {
                Some((segment, data)) if segment.total as usize <= MAX_MESSAGE => {
                    (Some(segment), data)
                }
                _ => (None, if is_message || is_broadcast { data } else { 0 }),
            };
            let is_routed = is_message || matches!(body, Body::Acknowledge { .. });
            let header = Header {
                id,
                node: NodeId(node),
                generation: Generation(generation),
                encoded: encoded && (is_message || is_broadcast),
                segment,
                route: route.filter(|_| is_routed),
                sequence,
                body,
            };
            (header, data)
        },
    )
}

fn write(header: &Header, data: &[u8]) -> Vec<u8> {
    let tag = if header.sequence.is_some() { TAG_BYTES } else { 0 };
    let mut frame = vec![0; 14 + header.bytes() + data.len()];
    let at = header.emit(mac(9), mac(8), data.len() as u16, &mut frame);
    assert_eq!(at, 14 + header.bytes());
    frame[at..].copy_from_slice(data);
    set_crc(&mut frame, portable);
    frame.resize(frame.len() + tag, 0xee);
    frame
}

proptest! {
    #[test]
    fn what_is_written_is_read((header, bytes) in headers(), byte in any::<u8>()) {
        let data = vec![byte; bytes];
        let frame = write(&header, &data);
        prop_assert!(header.bytes() <= MAX_HEADER);
        let read = Frame::parse(&frame).map_err(|e| TestCaseError::fail(std::format!("{e}")))?;
        prop_assert_eq!(read.header(), &header);
        prop_assert_eq!(read.data(), &data[..]);
        prop_assert_eq!((read.source(), read.destination()), (mac(8), mac(9)));
        prop_assert!(read.is_intact(portable));

        // Shorter by anything it is refused; longer, too, unless the link may have padded it.
        for end in 0..frame.len() {
            prop_assert!(Frame::parse(&frame[..end]).is_err());
        }
        let mut padded = frame.clone();
        padded.push(1);
        prop_assert_eq!(Frame::parse(&padded).is_ok(), padded.len() <= MIN_ETHERNET);
    }

    /// Every bit of the headers: refused, or another valid header, never the same one.
    #[test]
    fn every_field_is_checked((header, bytes) in headers(), data in any::<u8>()) {
        let frame = write(&header, &vec![data; bytes]);
        for bit in 12 * 8..(14 + header.bytes()) * 8 {
            let mut changed = frame.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let Ok(read) = Frame::parse(&changed) else { continue };
            prop_assert!(!read.is_intact(portable));
            // A shorter length of data makes padding of the rest; that is the CRC's to find.
            let is_no_field = [6, 7, 12, 13, 14, 15].contains(&(bit as i32 / 8 - 14));
            prop_assert!(is_no_field || *read.header() != header, "bit {}", bit);
            let again = write(read.header(), read.data());
            let again = Frame::parse(&again).expect("it was written from a valid header");
            prop_assert_eq!(again.header(), read.header());
        }
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, 1][..], &bytes].concat();
        let _ = Frame::parse(&frame);
        // With the header's length and an opcode that make it further.
        if frame.len() > 17 {
            frame[16] = frame[16] % 6 + 1;
            frame[17] = 0;
            for length in 24..=MAX_HEADER {
                frame[15] = length as u8;
                if let Ok(read) = Frame::parse(&frame) {
                    prop_assert_eq!(read.header().bytes(), length);
                }
            }
        }
    }
}

#[test]
fn reserved_fields_and_impossible_values_are_refused() {
    let body = Body::Gossip { to: NodeId(2), core: CoreId(1) };
    let header = Header {
        id: 1,
        node: NodeId(1),
        generation: Generation(1),
        encoded: false,
        segment: None,
        route: None,
        sequence: None,
        body,
    };
    let good = write(&header, b"data");
    assert!(Frame::parse(&good).is_ok());
    let cases = [
        (12, 0, Malformed::Version),
        (6, 1, Malformed::Version),
        (14, 2, Malformed::Version),
        (15, 33, Malformed::Length),
        (16, 0, Malformed::Opcode),
        (16, 7, Malformed::Opcode),
        (17, 1, Malformed::Field),
        (18, 0x80, Malformed::Flags),
        (19, 0x10, Malformed::Flags),
        (19, 0x20, Malformed::Flags),
        (20, 0xff, Malformed::Length),
        (33, 0, Malformed::Field),
        (37, 0, Malformed::Field),
        (41, 0, Malformed::Field),
        (45, 1, Malformed::Field),
    ];
    for (at, value, error) in cases {
        let mut bad = good.clone();
        bad[at] = value;
        assert_eq!(Frame::parse(&bad).err(), Some(error), "byte {at} is {value}");
    }
}
