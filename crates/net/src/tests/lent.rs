//! A stack whose address is lent: how it is had, prolonged, lost, and had at once by the next
//! incarnation, beside a server that says what the test says.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::vec::Vec;

use nile_abi::Instant;
use proptest::prelude::*;
use smoltcp::wire::{
    DhcpMessageType, DhcpPacket, DhcpRepr, EthernetFrame, EthernetProtocol, IpProtocol, Ipv4Packet,
};

use super::{OUR_MAC, THEIR_MAC, words};
use crate::dhcp::Client;
use crate::lease::{LEASE_BYTES, Lease};
use crate::memory::{Field, Memory};
use crate::segment::packet;
use crate::udp::{self, Udp};
use crate::{Peer, Settings, Stack, Wide};

const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
const LENT: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);

/// Seconds for which the server lends.
const LEASE: u64 = 1000;

fn settings() -> Settings {
    Settings { wide: Wide::None, ..super::settings() }
}

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(1_000_000) + Duration::from_secs(seconds)
}

/// What a stack says to a server: where it goes, and the message.
fn said(stack: &mut Stack<'_>, now: Instant) -> Option<(Ipv4Addr, Vec<u8>)> {
    stack.turn(now);
    let frame = stack.transmit()?;
    let frame = EthernetFrame::new_checked(&frame[..]).unwrap();
    if frame.ethertype() == EthernetProtocol::Arp {
        // The server says who it is, and hears what waits for that.
        let arp = [
            &OUR_MAC.0[..],
            &THEIR_MAC.0,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
            &THEIR_MAC.0,
            &SERVER.octets(),
            &OUR_MAC.0,
            &LENT.octets(),
        ];
        stack.receive(now, &arp.concat());
        return said(stack, now);
    }
    if frame.ethertype() == EthernetProtocol::Ipv6 {
        return said(stack, now);
    }
    let ip = Ipv4Packet::new_checked(frame.payload()).unwrap();
    if ip.next_header() != IpProtocol::Udp {
        return said(stack, now);
    }
    let (header, message) =
        udp::parse(ip.src_addr().into(), ip.dst_addr().into(), ip.payload()).unwrap();
    assert_eq!((header.src_port, header.dst_port), (68, 67));
    Some((ip.dst_addr(), message.into()))
}

/// The server's answer, as a frame.
fn answer(message: &[u8], message_type: DhcpMessageType, address: Ipv4Addr) -> Vec<u8> {
    let asked = DhcpPacket::new_checked(message).unwrap();
    let asked = DhcpRepr::parse(&asked).unwrap();
    let answer = DhcpRepr {
        message_type,
        your_ip: address,
        router: Some(SERVER),
        subnet_mask: Some(Ipv4Addr::new(255, 255, 255, 0)),
        requested_ip: None,
        client_identifier: None,
        server_identifier: Some(SERVER),
        parameter_request_list: None,
        dns_servers: Some([Ipv4Addr::new(10, 0, 2, 3)].into_iter().collect()),
        max_size: None,
        lease_duration: Some(LEASE as u32),
        ..asked
    };
    let mut bytes = std::vec![0; answer.buffer_len()];
    answer.emit(&mut DhcpPacket::new_unchecked(&mut bytes[..])).unwrap();
    let to = SocketAddr::new(Ipv4Addr::BROADCAST.into(), 68);
    let packet = Udp::default().emit(SERVER.into(), 67, to, &bytes);
    [&OUR_MAC.0[..], &THEIR_MAC.0, &[8, 0], &packet].concat()
}

/// Has a stack take its lease.
fn lend(stack: &mut Stack<'_>, now: Instant) {
    for kind in [DhcpMessageType::Offer, DhcpMessageType::Ack] {
        let (to, message) = said(stack, now).expect("it asks");
        assert_eq!(to, Ipv4Addr::BROADCAST);
        stack.receive(now, &answer(&message, kind, LENT));
    }
}

#[test]
fn an_address_is_lent_and_prolonged_and_lost() {
    let words = words();
    let memory = Memory::new(&words, [1, 2]).unwrap();
    let mut stack = Stack::leasing(settings(), None, memory, at(0));
    assert!(stack.address().is_unspecified() && stack.lease().is_none());
    assert!(stack.send(at(0), 7, SocketAddr::new(SERVER.into(), 7), b"hello"));
    assert_eq!(stack.counts().unreachable, 1);
    let (to, first) = said(&mut stack, at(0)).unwrap();
    assert_eq!((to, said(&mut stack, at(0))), (Ipv4Addr::BROADCAST, None), "it has no address");
    // Nobody answers, and then somebody else is.
    let (_, second) = said(&mut stack, at(1)).unwrap();
    stack.receive(at(1), &answer(&first, DhcpMessageType::Offer, LENT));
    assert_eq!(said(&mut stack, at(1)), None, "that question is over");
    stack.receive(at(1), &answer(&second, DhcpMessageType::Offer, LENT));
    let (_, request) = said(&mut stack, at(1)).unwrap();
    stack.receive(at(1), &answer(&request, DhcpMessageType::Ack, Ipv4Addr::new(10, 0, 2, 16)));
    assert!(stack.lease().is_none(), "it was offered another one");
    stack.receive(at(1), &answer(&request, DhcpMessageType::Ack, LENT));
    let resolver = Some(Ipv4Addr::new(10, 0, 2, 3));
    let Settings { address, prefix, gateway, resolver: is, .. } = stack.settings();
    assert_eq!((address, prefix, gateway, is), (LENT, 24, Some(SERVER), resolver));

    let (half, late) = (1 + LEASE / 2, 1 + LEASE - LEASE / 8);
    assert_eq!(said(&mut stack, at(1)), None, "but it asks whether somebody has the address");
    assert_eq!(stack.next_due(at(2)), Some(at(half)), "nothing else is to be done");
    let (to, asks) = said(&mut stack, at(half)).unwrap();
    assert_eq!(to, SERVER);
    stack.receive(at(half), &answer(&asks, DhcpMessageType::Ack, LENT));
    let until = stack.lease().unwrap().until;
    assert_eq!(until, at(half + LEASE));
    // The server is gone: it is asked again and again, and at last all are.
    let (mut asked, mut all) = (0, 0);
    let mut now = at(half);
    while let Some(due) = stack.next_due(now).filter(|it| *it < until) {
        now = due;
        if let Some((to, _)) = said(&mut stack, now) {
            asked += u32::from(to == SERVER);
            all += u32::from(to == Ipv4Addr::BROADCAST);
            assert!((to == SERVER) == (now < at(half + late - 1)), "{to}");
        }
    }
    assert!(asked > 1 && all > 0 && asked + all < 20, "{asked} {all}");
    let (to, _) = said(&mut stack, until).unwrap();
    assert!(to.is_broadcast() && stack.lease().is_none() && stack.address().is_unspecified());
}

#[test]
fn the_next_incarnation_has_its_address_at_once() {
    let words = words();
    let memory = || Memory::new(&words, [1, 2]).unwrap();
    let kept: Vec<_> = (0..LEASE_BYTES / 8).map(|_| super::AtomicU64::new(0)).collect();
    let mut stack = Stack::leasing(settings(), None, memory(), at(0));
    lend(&mut stack, at(0));
    stack.lease().unwrap().store(&kept);
    let peer = Peer { address: SERVER.into(), port: 2000, local: 80 };
    memory().slot(0).open(7, peer.encode(), [1, 1460], 100);
    drop(stack);
    let mut stack = Stack::leasing(settings(), Lease::load(&kept, at(9)), memory(), at(9));
    assert_eq!((stack.address(), stack.streams().count()), (LENT, 1));
    assert_eq!(said(&mut stack, at(9)), None, "it is not asked for again");
    let (to, asks) = said(&mut stack, at(LEASE / 2)).unwrap();
    assert_eq!(to, SERVER);
    // The server has lent it to somebody else meanwhile: so there are no connections of it.
    stack.receive(at(501), &answer(&asks, DhcpMessageType::Nak, Ipv4Addr::UNSPECIFIED));
    assert!(stack.address().is_unspecified() && stack.streams().count() == 0);
    assert_eq!(memory().slot(0).get(Field::Serial), 0);
    lend(&mut stack, at(502));
    assert_eq!(stack.address(), LENT);
    let stack = Stack::leasing(settings(), Lease::load(&kept, at(LEASE)), memory(), at(LEASE));
    assert!(stack.address().is_unspecified(), "what was kept is over");
}

/// What somebody says by ARP who has an address, or looks whether it is free.
fn arp(operation: u8, from: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let head = [&[0xff; 6][..], &THEIR_MAC.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    [&head[..], &THEIR_MAC.0, &from.octets(), &OUR_MAC.0, &target.octets()].concat()
}

#[test]
fn an_address_that_somebody_has_is_given_back() {
    let none = Ipv4Addr::UNSPECIFIED;
    for objection in [arp(2, LENT, none), arp(1, LENT, SERVER), arp(1, none, LENT)] {
        let words = words();
        let memory = Memory::new(&words, [1, 2]).unwrap();
        let mut stack = Stack::leasing(settings(), None, memory, at(0));
        lend(&mut stack, at(0));
        stack.turn(at(0));
        let asked: Vec<_> = core::iter::from_fn(|| stack.transmit()).collect();
        let probe = [&[0, 1][..], &OUR_MAC.0, &none.octets()].concat();
        assert!(asked.iter().any(|it| it[20..32] == probe && it[38..42] == LENT.octets()));
        stack.receive(at(0), &objection);
        assert!(stack.address().is_unspecified() && stack.counts().duplicates == 1);
        let (to, message) = said(&mut stack, at(0)).unwrap();
        let declined = DhcpPacket::new_checked(&message[..]).unwrap();
        let declined = DhcpRepr::parse(&declined).unwrap();
        assert_eq!((to, declined.message_type), (Ipv4Addr::BROADCAST, DhcpMessageType::Decline));
        assert_eq!((declined.requested_ip, declined.server_identifier), (Some(LENT), Some(SERVER)));
        assert_eq!((said(&mut stack, at(9)), said(&mut stack, at(10)).is_some()), (None, true));
    }
    // Nobody objects within a second; later it is ours, and who looks for one is told so.
    let words = words();
    let memory = Memory::new(&words, [1, 2]).unwrap();
    let mut stack = Stack::leasing(settings(), None, memory, at(0));
    lend(&mut stack, at(0));
    [0, 2].into_iter().for_each(|now| drop(said(&mut stack, at(now))));
    for (said, answers) in [(arp(2, LENT, none), 0), (arp(1, none, LENT), 1)] {
        stack.receive(at(3), &said);
        stack.turn(at(3));
        assert_eq!(core::iter::from_fn(|| stack.transmit()).count(), answers);
        assert_eq!(stack.address(), LENT);
    }
}

proptest! {
    #[test]
    fn any_answer_is_a_lease_or_not(
        kind in 0..10u8,
        place in 0..400usize,
        value: u8,
        length in 240..400usize,
        noise in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let mut client = Client::new(OUR_MAC, [1, 2], None, at(0));
        for now in [at(0), at(1)] {
            let asked = client.next(now).unwrap().bytes;
            let frame = answer(&asked, DhcpMessageType::from(kind), LENT);
            let mut message = frame[42..].to_vec();
            let end = message.len() - 1;
            message.splice(end.., noise.iter().copied());
            message.resize(length, 255);
            let place = place % message.len();
            message[place] = value;
            client.receive(now, &message);
            if let Some(lease) = client.lease() {
                prop_assert!((8..=30).contains(&lease.prefix) && lease.until > lease.rebind);
                prop_assert!(lease.rebind > lease.renew && lease.renew > now);
            }
        }
    }
}

/// A message that is no datagram for a client changes nothing.
#[test]
fn what_is_not_said_by_a_server_is_no_lease() {
    let words = words();
    let memory = Memory::new(&words, [1, 2]).unwrap();
    let mut stack = Stack::leasing(settings(), None, memory, at(0));
    let empty = packet(SERVER.into(), Ipv4Addr::BROADCAST.into(), IpProtocol::Udp, 3);
    stack.receive(at(0), &[&OUR_MAC.0[..], &THEIR_MAC.0, &[8, 0], &empty].concat());
    let to_nobody = packet(SERVER.into(), Ipv4Addr::UNSPECIFIED.into(), IpProtocol::Icmp, 8);
    stack.receive(at(0), &[&OUR_MAC.0[..], &THEIR_MAC.0, &[8, 0], &to_nobody].concat());
    assert_eq!((stack.counts().ignored, stack.lease()), (2, None));
}
