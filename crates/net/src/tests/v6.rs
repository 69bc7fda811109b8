//! The stack on a link of IPv6: who has its addresses, whether somebody else has them, what routers
//! say, echoes, and packets that make no sense. What it is asked and told is built by hand, or by
//! smoltcp.

use core::net::SocketAddr;
use std::string::ToString;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration as Span;
use smoltcp::wire::{
    EthernetFrame, Icmpv6Message, Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet,
    NdiscNeighborFlags, NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr, NdiscRouterFlags,
    RawHardwareAddress,
};

use super::*;
use crate::own::{address_in, link_address, solicited};
use crate::router::Advertised;
use crate::segment::{IPV6_HEADER, packet_with};
use crate::{Counts, Peer, Progress, kept};

const ALL: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const NONE: Ipv6Addr = Ipv6Addr::UNSPECIFIED;
const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const PREFIX: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 7, 0, 0, 0, 0);

fn at(seconds: u64) -> Instant {
    Instant::from_nanos(1_000_000) + Duration::from_secs(seconds)
}

fn raw() -> Option<RawHardwareAddress> {
    Some(EthernetAddress(THEIR_MAC.0).into())
}

/// A frame of the peer's with a packet.
fn frame(packet: &[u8]) -> Vec<u8> {
    [&OUR_MAC.0[..], &THEIR_MAC.0, &[0x86, 0xdd], packet].concat()
}

fn message(from: Ipv6Addr, to: Ipv6Addr, said: &Icmpv6Repr<'_>, hops: u8) -> Vec<u8> {
    let (source, target) = (from.into(), to.into());
    let mut bytes = packet_with(source, target, IpProtocol::Icmpv6, said.buffer_len(), hops);
    let mut body = Icmpv6Packet::new_unchecked(&mut bytes[IPV6_HEADER..]);
    said.emit(&from, &to, &mut body, &ChecksumCapabilities::default());
    frame(&bytes)
}

fn solicit(from: Ipv6Addr, target_addr: Ipv6Addr) -> Vec<u8> {
    let lladdr = raw().filter(|_| from != NONE);
    let said = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr });
    message(from, solicited(target_addr), &said, 255)
}

fn advertise(target_addr: Ipv6Addr) -> Vec<u8> {
    let flags = NdiscNeighborFlags::OVERRIDE;
    let said = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr, lladdr: raw() });
    message(target_addr, ALL, &said, 255)
}

/// What a router says that is one for so long, of a prefix that holds for so long.
fn routes(lifetime: u64, prefix: Ipv6Addr, valid: u64) -> Vec<u8> {
    let prefix_info = Some(NdiscPrefixInformation {
        prefix_len: 64,
        flags: NdiscPrefixInfoFlags::ON_LINK | NdiscPrefixInfoFlags::ADDRCONF,
        valid_lifetime: Span::from_secs(valid),
        preferred_lifetime: Span::from_secs(valid / 2),
        prefix,
    });
    let said = Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: Span::from_secs(lifetime),
        reachable_time: Span::ZERO,
        retrans_time: Span::ZERO,
        lladdr: raw(),
        mtu: None,
        prefix_info,
    });
    message(ROUTER, ALL, &said, 255)
}

fn echo(from: Ipv6Addr, to: Ipv6Addr) -> Vec<u8> {
    let said = Icmpv6Repr::EchoRequest { ident: 7, seq_no: 1, data: b"hello" };
    message(from, to, &said, 64)
}

/// What a stack sends: from, to, and which message of ICMPv6 it is.
fn said(stack: &mut Stack<'_>, now: Instant) -> Vec<(Ipv6Addr, Ipv6Addr, Icmpv6Message)> {
    stack.turn(now);
    let frames = core::iter::from_fn(|| stack.transmit());
    let said = frames.map(|frame| {
        let frame = EthernetFrame::new_checked(&frame[..]).unwrap();
        let ip = Ipv6Packet::new_checked(frame.payload()).unwrap();
        let (from, to) = (ip.src_addr(), ip.dst_addr());
        let body = Icmpv6Packet::new_checked(ip.payload()).unwrap();
        assert!(body.verify_checksum(&from, &to));
        (from, to, body.msg_type())
    });
    said.collect()
}

fn with(wide: Wide, words: &[AtomicU64]) -> Stack<'_> {
    let settings = Settings { wide, ..settings() };
    let mut stack = Stack::new(settings, Memory::new(words, [7, 8]).unwrap(), at(0));
    stack.listen(PORT);
    stack
}

/// The same that has asked all that it asks at first.
fn settled(words: &[AtomicU64]) -> Stack<'_> {
    let mut stack = with(Wide::Is(OURS6, 64), words);
    [0, 2, 4, 8, 12].into_iter().for_each(|now| drop(said(&mut stack, at(now))));
    stack
}

#[test]
fn who_asks_for_an_address_is_told_and_known() {
    let words = words();
    let mut stack = settled(&words);
    let link = link_address(OUR_MAC);
    assert_eq!(link.to_string(), "fe80::ff:fe00:1");
    for (own, other) in [(OURS6, THEIRS6), (link, ROUTER)] {
        stack.receive(at(20), &solicit(other, own));
        let answers = [(own, other, Icmpv6Message::NeighborAdvert)];
        assert_eq!(said(&mut stack, at(20)), answers);
        stack.receive(at(20), &echo(other, own));
        assert_eq!(said(&mut stack, at(20)), [(own, other, Icmpv6Message::EchoReply)]);
        // Somebody looks whether the address is free.
        stack.receive(at(20), &solicit(NONE, own));
        assert_eq!(said(&mut stack, at(20)), [(own, ALL, Icmpv6Message::NeighborAdvert)]);
    }
    // Everybody is asked; who is not known yet, for his address.
    let third = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 3);
    stack.receive(at(20), &echo(third, ALL));
    let asks = [(link, solicited(third), Icmpv6Message::NeighborSolicit)];
    assert_eq!(said(&mut stack, at(20)), asks);
    stack.receive(at(20), &advertise(third));
    assert_eq!(said(&mut stack, at(20)), [(link, third, Icmpv6Message::EchoReply)]);
    assert_eq!(stack.counts().echoes, 3);
}

#[test]
fn what_is_not_from_the_link_or_for_us_changes_nothing() {
    let words = words();
    let mut stack = settled(&words);
    let mut passed_on = solicit(THEIRS6, OURS6);
    passed_on[14 + 7] = 254;
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    let mapped = OURS.to_ipv6_mapped();
    let mut damaged = echo(THEIRS6, OURS6);
    damaged[14 + IPV6_HEADER + 9] ^= 1;
    for frame in [
        passed_on,
        solicit(far, OURS6),
        solicit(THEIRS6, THEIRS6),
        solicit(OURS6, OURS6),
        echo(THEIRS6, THEIRS6),
        echo(NONE, OURS6),
        echo(ALL, OURS6),
        echo(mapped, OURS6),
        damaged,
        advertise(far),
        routes(1800, PREFIX, 7200),
    ] {
        let before = (stack.own(), stack.counts().ignored);
        stack.receive(at(20), &frame);
        assert_eq!(said(&mut stack, at(20)), [], "{frame:x?}");
        let is_router = frame[14 + IPV6_HEADER] == 134;
        let ignored = before.1 + u64::from(!is_router);
        assert_eq!((stack.own(), stack.counts().ignored), (before.0, ignored), "{frame:x?}");
    }
    assert_eq!(stack.router(), Some(ROUTER), "but it may be one for other links");
    // A connection from an address for the link to another one is of nobody.
    let mut world = World::new(Ip::V6, 4, GOOD, &[10]);
    world.turn(Vec::new());
    assert_eq!(stack.counts().tcp, Default::default());
}

#[test]
fn headers_that_are_wrong_are_told_and_pieces_are_not() {
    let words = words();
    let mut stack = settled(&words);
    stack.receive(at(20), &solicit(THEIRS6, OURS6));
    said(&mut stack, at(20));
    let with_header = |kind: u8, header: &[u8], to: Ipv6Addr| {
        let body = [header, &[0; 20]].concat();
        let protocol = IpProtocol::from(kind);
        let mut bytes = packet_with(THEIRS6.into(), to.into(), protocol, body.len(), 64);
        bytes[IPV6_HEADER..].copy_from_slice(&body);
        frame(&bytes)
    };
    let problem = [(OURS6, THEIRS6, Icmpv6Message::ParamProblem)];
    for (kind, header, tells) in [
        (99, [0; 8], true),
        (60, [6, 0, 0x80, 4, 0, 0, 0, 0], true),
        (60, [6, 0, 0x40, 4, 0, 0, 0, 0], false),
        (44, [6, 0, 0, 1, 0, 0, 0, 0], false),
        (43, [6, 0, 0, 1, 0, 0, 0, 0], true),
        (59, [0; 8], false),
    ] {
        stack.receive(at(20), &with_header(kind, &header, OURS6));
        let expected = if tells { &problem[..] } else { &[] };
        assert_eq!(said(&mut stack, at(20)), expected, "{kind} {header:?}");
    }
    stack.receive(at(20), &with_header(60, &[6, 0, 0xc0, 4, 0, 0, 0, 0], ALL));
    assert_eq!(said(&mut stack, at(20)), [], "a group is not to answer");
    // Nobody has the port; and nobody is told of an error.
    let datagram = [0, 9, 0, 77, 0, 8, 0, 0];
    let mut bytes = packet_with(THEIRS6.into(), OURS6.into(), IpProtocol::Udp, 8, 64);
    bytes[IPV6_HEADER..].copy_from_slice(&datagram);
    smoltcp::wire::UdpPacket::new_unchecked(&mut bytes[IPV6_HEADER..])
        .fill_checksum(&THEIRS6.into(), &OURS6.into());
    stack.receive(at(20), &frame(&bytes));
    assert_eq!(said(&mut stack, at(20)), [(OURS6, THEIRS6, Icmpv6Message::DstUnreachable)]);
    stack.set_rules(at(20), "deny in".parse().unwrap());
    stack.receive(at(20), &with_header(99, &[0; 8], OURS6));
    stack.receive(at(20), &echo(THEIRS6, OURS6));
    assert_eq!(said(&mut stack, at(20)), [], "the filter says so");
    stack.receive(at(20), &solicit(THEIRS6, OURS6));
    assert_eq!(said(&mut stack, at(20)).len(), 1, "and of neighbours it is not asked");
}

/// An error about a packet: its kind and code.
fn error(from: Ipv6Addr, (kind, code): (u8, u8), about: &[u8]) -> Vec<u8> {
    let mut bytes = packet_with(from.into(), OURS6.into(), IpProtocol::Icmpv6, 8 + about.len(), 64);
    let body = &mut bytes[IPV6_HEADER..];
    body[..2].copy_from_slice(&[kind, code]);
    body[8..].copy_from_slice(about);
    Icmpv6Packet::new_unchecked(body).fill_checksum(&from, &OURS6);
    frame(&bytes)
}

#[test]
fn a_syn_that_icmp_refuses_is_not_repeated() {
    let router = Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 99);
    let refusals = [(1, 1), (1, 4), (1, 5), (1, 6), (4, 1)];
    let others = [(1, 0), (1, 3), (2, 0), (3, 0), (4, 0), (4, 2), (1, 7)];
    for (fault, refuses) in
        refusals.map(|it| (it, true)).into_iter().chain(others.map(|it| (it, false)))
    {
        let words = words();
        let mut stack = settled(&words);
        stack.receive(at(20), &solicit(THEIRS6, OURS6));
        said(&mut stack, at(20));
        let peer = stack.connect(at(20), SocketAddr::new(THEIRS6.into(), PORT)).unwrap();
        stack.turn(at(20));
        let frames: Vec<Vec<u8>> = core::iter::from_fn(|| stack.transmit()).collect();
        let [syn] = &frames[..] else { panic!("{frames:?}") };
        let syn = &syn[14..];
        let is_refused = |stack: &mut Stack<'_>| match stack.progress(peer) {
            Progress::Refused => true,
            Progress::Waits => false,
            _ => panic!("it is neither"),
        };
        // Errors about what was not sent, damaged ones, and halves say nothing.
        let mut other = syn.to_vec();
        other[IPV6_HEADER + 7] ^= 1;
        stack.receive(at(20), &error(router, fault, &other));
        let mut foreign = syn.to_vec();
        foreign[8..24].copy_from_slice(&router.octets());
        stack.receive(at(20), &error(router, fault, &foreign));
        let mut damaged = error(router, fault, syn);
        *damaged.last_mut().unwrap() ^= 1;
        stack.receive(at(20), &damaged);
        (0..IPV6_HEADER + 8)
            .for_each(|bytes| stack.receive(at(20), &error(router, fault, &syn[..bytes])));
        assert!(!is_refused(&mut stack), "{fault:?}");
        stack.receive(at(20), &error(router, fault, &syn[..IPV6_HEADER + 8]));
        assert_eq!(is_refused(&mut stack), refuses, "{fault:?}");
    }
}

#[test]
fn an_address_that_somebody_has_is_given_up() {
    let link = link_address(OUR_MAC);
    for objection in [advertise(OURS6), solicit(NONE, OURS6)] {
        let words = words();
        let mut stack = with(Wide::Is(OURS6, 64), &words);
        let asked = said(&mut stack, at(0));
        for own in [link, OURS6] {
            let asks = (NONE, solicited(own), Icmpv6Message::NeighborSolicit);
            assert!(asked.contains(&asks), "{asked:?}");
        }
        stack.receive(at(0), &objection);
        assert_eq!((stack.own().wide, stack.counts().duplicates), (NONE, 1));
        assert_eq!(stack.own().link, link, "the other one is ours");
        stack.receive(at(1), &solicit(THEIRS6, OURS6));
        stack.receive(at(1), &echo(THEIRS6, OURS6));
        said(&mut stack, at(1));
        assert_eq!(stack.counts().echoes, 0);
    }
    // Later it is too late.
    let words = words();
    let mut stack = settled(&words);
    stack.receive(at(20), &advertise(OURS6));
    assert_eq!((stack.own().wide, stack.counts().duplicates), (OURS6, 0));
}

#[test]
fn an_address_follows_from_what_a_router_says_and_outlives_the_stack() {
    let words = words();
    let keep: Vec<_> = (0..kept::BYTES / 8).map(|_| AtomicU64::new(0)).collect();
    let mut stack = with(Wide::Advertised(Advertised::default()), &words);
    let asks = |stack: &mut Stack<'_>, now| {
        let all = said(stack, now);
        all.iter().filter(|it| it.2 == Icmpv6Message::RouterSolicit).count()
    };
    let asked: Vec<usize> = [0, 1, 4, 8, 60].map(|now| asks(&mut stack, at(now))).into();
    assert_eq!(asked, [1, 0, 1, 1, 0], "three times, as long as nobody answers");
    stack.receive(at(60), &routes(1800, PREFIX, 10_000));
    let own = address_in(PREFIX, OUR_MAC);
    assert_eq!((stack.own().wide, stack.router()), (own, Some(ROUTER)));
    let asked = said(&mut stack, at(60));
    assert_eq!(asked, [(NONE, solicited(own), Icmpv6Message::NeighborSolicit)]);
    // What is far goes to the router.
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0, 8, 0, 0, 0, 1);
    stack.receive(at(61), &echo(far, own));
    assert_eq!(said(&mut stack, at(61)), [(own, far, Icmpv6Message::EchoReply)]);
    assert_eq!((stack.max_datagram(far.into()), stack.max_datagram(ROUTER.into())), (1232, 1452));
    stack.advertised().unwrap().store(&keep);

    let kept = |now| Wide::Advertised(Advertised::load(&keep, now));
    let stack = with(kept(at(100)), &words);
    assert_eq!((stack.own().wide, stack.router()), (own, Some(ROUTER)), "at once");
    let mut stack = with(kept(at(2000)), &words);
    assert_eq!((stack.own().wide, stack.router()), (own, None), "it has said no more");
    // A prefix of which little is left is not cut short by somebody who may be anybody.
    stack.receive(at(2000), &routes(0, PREFIX, 10));
    assert_eq!(stack.advertised().unwrap().prefix.map(|it| it.1), Some(at(2000 + 7200)));
    let peer = Peer { address: far.into(), port: 2000, local: PORT };
    let slot = Memory::new(&words, [7, 8]).unwrap().slot(0);
    slot.open(7, peer.encode(), [1, 1460], 100);
    let mut stack = with(kept(at(2000)), &words);
    assert_eq!(stack.streams().count(), 1);
    assert_eq!(stack.next_due(at(12)).map(|it| it <= at(12)), Some(true));
    said(&mut stack, at(10_060));
    assert_eq!((stack.own().wide, stack.streams().count()), (NONE, 0), "it is over, and all of it");
}

#[test]
fn prefixes_that_make_no_address_are_not_believed() {
    let words = words();
    let mut stack = with(Wide::Advertised(Advertised::default()), &words);
    let link = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0);
    let mut long = routes(1800, PREFIX, 10_000);
    long[14 + IPV6_HEADER + 16 + 8 + 2] = 65;
    for frame in [routes(1800, link, 7200), routes(1800, ALL, 7200), routes(1800, PREFIX, 0), long]
    {
        stack.receive(at(0), &frame);
        assert_eq!(stack.own().wide, NONE);
    }
    let mut from_far = routes(1800, PREFIX, 7200);
    from_far[14 + 7] = 64;
    stack.receive(at(0), &from_far);
    assert_eq!(stack.own().wide, NONE);
    // The first prefix counts as long as it holds; another router, when the first is none.
    stack.receive(at(0), &routes(1800, PREFIX, 7200));
    let other = Ipv6Addr::new(0x2001, 0xdb8, 0, 9, 0, 0, 0, 0);
    stack.receive(at(1), &routes(1800, other, 7200));
    assert_eq!(stack.own().wide, address_in(PREFIX, OUR_MAC));
    assert_eq!(stack.counts(), Counts { duplicates: 0, ..stack.counts() });
}

#[test]
fn many_neighbours_find_little_room() {
    let words = words();
    let mut stack = settled(&words);
    for number in 0..2000 {
        let from = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 1, number);
        stack.receive(at(20), &echo(from, OURS6));
        said(&mut stack, at(20));
    }
    assert!(stack.neighbours() <= 64, "{} are known", stack.neighbours());
    let last = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 1, 1999);
    stack.receive(at(20), &advertise(last));
    assert_eq!(said(&mut stack, at(20)), [(OURS6, last, Icmpv6Message::EchoReply)]);
}

proptest! {
    /// Whatever a router or a neighbour says, the addresses stay such.
    #[test]
    fn any_message_is_taken(
        which in 0..5usize,
        changes in proptest::collection::vec((0..120usize, any::<u8>()), 0..6),
        cut in 0..30usize,
    ) {
        let words = words();
        let mut stack = with(Wide::Advertised(Advertised::default()), &words);
        stack.receive(at(0), &routes(1800, PREFIX, 7200));
        let mut frame = [
            solicit(THEIRS6, OURS6),
            advertise(THEIRS6),
            routes(1800, PREFIX, 7200),
            echo(ROUTER, link_address(OUR_MAC)),
            solicit(NONE, link_address(OUR_MAC)),
        ][which].clone();
        for (place, value) in changes {
            let place = 14 + place % (frame.len() - 14);
            frame[place] = value;
        }
        frame.truncate(frame.len() - cut);
        // What somebody says who knows how to sum.
        if frame.len() > 14 + IPV6_HEADER + 8 {
            let body = frame.len() - 14 - IPV6_HEADER;
            frame[18..20].copy_from_slice(&(body as u16).to_be_bytes());
            let octets = |at: usize| Ipv6Addr::from(*frame[at..].first_chunk::<16>().unwrap());
            let (from, to) = (octets(22), octets(38));
            Icmpv6Packet::new_unchecked(&mut frame[14 + IPV6_HEADER..]).fill_checksum(&from, &to);
        }
        stack.receive(at(0), &frame);
        stack.turn(at(0));
        while stack.transmit().is_some() {}
        let own = stack.own();
        let ends = |it: Ipv6Addr| it.segments()[4..].to_vec();
        let is_gone = own.wide.is_unspecified() || own.link.is_unspecified();
        prop_assert!(is_gone || ends(own.wide) == ends(own.link));
        prop_assert!(!own.wide.is_multicast() && !own.wide.is_unicast_link_local());
    }
}
