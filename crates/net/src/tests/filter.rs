//! A stack behind a packet filter.

use core::net::SocketAddr;

use super::own::Pair;
use super::*;
use crate::Progress;
use std::string::String;

/// What this node's clients need, and nothing else.
const CLOSED: &str = "allow in established\n\
                      allow in tcp from 10.42.0.9 to port 80 new\n\
                      allow out established\n\
                      deny in\n\
                      deny out\n";

/// The same for IPv6.
fn closed(ip: Ip) -> String {
    if ip == Ip::V4 { CLOSED.into() } else { CLOSED.replace("10.42.0.9", "fd42::8/125") }
}

#[test]
fn open_connections_outlive_the_stack_and_what_its_filter_knew_of_them() {
    for ip in Ip::ALL {
        let (_, resumed) = check_behind(&closed(ip), ip, 2, GOOD, &[50_000, 200_000, 10], 200);
        assert!(resumed > 15, "it was to be resumed, and was {resumed} times");
        let link = Link { lost: 50, repeated: 20, damaged: 5, spread: 20 };
        check_behind(&closed(ip), ip, 5, link, &[20_000, 3000], 30);
    }
}

#[test]
fn what_is_denied_neither_comes_nor_goes() {
    let (ours, theirs) = (words(), words());
    let mut pair = Pair::new(&ours, &theirs, 0);
    let now = pair.now;
    pair.stacks[0].set_rules(now, "deny in udp to port 7\ndeny out tcp".parse().unwrap());
    let [us, others] = &mut pair.stacks;
    assert!(us.bind(7) && us.bind(8) && others.bind(9));
    for port in [7, 8] {
        assert!(others.send(now, 9, SocketAddr::new(OURS.into(), port), b"hello"));
    }
    (0..20).for_each(|_| pair.turn());
    assert_eq!(pair.stacks[0].take(7), None);
    assert_eq!(pair.stacks[0].take(8).map(|it| it.bytes), Some(b"hello".into()));
    pair.stacks[1].listen(PORT);
    let peer = pair.stacks[0].connect(pair.now, SocketAddr::new(THEIRS.into(), PORT)).unwrap();
    assert!(matches!(pair.settled(peer), Progress::NoAnswer));
    let counts = pair.stacks[0].counts().filter;
    assert_eq!((counts.denied, counts.allowed), (5, 1), "a datagram, and the SYN four times");
    // An answer that nobody has the port is of a connection that is known.
    let rules = "allow in established\nallow out udp\ndeny in\n";
    let now = pair.now;
    pair.stacks[0].set_rules(now, rules.parse().unwrap());
    let strays = pair.stacks[1].counts().udp.strays;
    assert!(pair.stacks[0].send(now, 8, SocketAddr::new(THEIRS.into(), 77), b"anybody?"));
    (0..20).for_each(|_| pair.turn());
    let after = pair.stacks[0].counts().filter;
    assert_eq!(pair.stacks[1].counts().udp.strays, strays + 1);
    assert_eq!((after.denied, after.allowed), (counts.denied, counts.allowed + 2));
}

#[test]
fn any_frame_has_a_verdict() {
    let words = words();
    let mut stack = Stack::new(settings(), Memory::new(&words, [7, 8]).unwrap(), Instant::START);
    stack.listen(PORT);
    stack.set_rules(Instant::START, CLOSED.parse().unwrap());
    let good = ping();
    let mut draw = Draw(5);
    for round in 0..20_000u64 {
        let mut frame = good.clone();
        frame[23] = [1, 6, 17, 99][round as usize % 4];
        for _ in 0..draw.next(6) {
            let at = 34 + draw.next(frame.len() as u64 - 34) as usize;
            frame[at] = draw.next(256) as u8;
        }
        sum(&mut frame);
        stack.receive(Instant::START, &frame);
        stack.turn(Instant::START);
        while stack.transmit().is_some() {}
    }
    let counts = stack.counts().filter;
    assert!(counts.denied > 10_000 && counts.allowed < 10, "{counts:?}");
}

/// An error about a packet of ours that was none, as a frame.
fn ping() -> Vec<u8> {
    let mut frame = std::vec![0; 14 + 20 + 8 + 28];
    frame[..6].copy_from_slice(&OUR_MAC.0);
    frame[6..12].copy_from_slice(&THEIR_MAC.0);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[17] = 56;
    frame[22] = 64;
    frame[26..30].copy_from_slice(&THEIRS.octets());
    frame[30..34].copy_from_slice(&OURS.octets());
    frame[34] = 3;
    let quoted = &mut frame[42..];
    quoted[0] = 0x45;
    quoted[9] = 17;
    quoted[12..16].copy_from_slice(&OURS.octets());
    quoted[16..20].copy_from_slice(&THEIRS.octets());
    frame
}

/// Makes the checksum of a frame's IPv4 header right.
fn sum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2).map(|it| u32::from(it[0]) << 8 | u32::from(it[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[24..26].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}
