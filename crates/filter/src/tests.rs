//! Any text is rules or an error with its place; any packets have the verdicts of a plain model.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use nile_abi::Instant;
use proptest::prelude::*;

use crate::connections::MOST_CONNECTIONS;
use crate::filter::Filter;
use crate::packet::{Connection, Direction, ICMP, ICMPV6, Packet, Signal, TCP, UDP};
use crate::rule::{Action, MOST_BYTES, MOST_RULES, Rules, State, is_near};

const OWN: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 42, 0, 1));
const OWN6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 1));

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn packet(direction: Direction, protocol: u8, other: u8, ports: (u16, u16)) -> Packet {
    let other = IpAddr::from([10, 42, 0, other]);
    Packet {
        direction,
        protocol,
        own: OWN,
        other,
        ports: (protocol != ICMP).then_some(ports),
        connection: Some(Connection { protocol, other, ports }),
        reports: false,
        signal: Signal::Goes,
    }
}

/// The same packet between addresses of IPv6.
fn over_ipv6(packet: Packet, other: u8) -> Packet {
    let other = IpAddr::from([0xfd42, 0, 0, 0, 0, 0, 0, other.into()]);
    let protocol = if packet.protocol == ICMP { ICMPV6 } else { packet.protocol };
    let connection = packet.connection.map(|it| Connection { protocol, other, ..it });
    Packet { protocol, own: OWN6, other, connection, ..packet }
}

fn filter(text: &str) -> Filter {
    let mut filter = Filter::default();
    filter.set(at(0), text.parse().unwrap(), core::iter::empty());
    filter
}

#[test]
fn a_text_that_is_no_rule_is_refused_with_its_place() {
    for (text, said) in [
        ("accept in", "1:1: a rule begins with allow or deny"),
        ("\n# all\nallow all", "3:7: behind that comes in or out"),
        ("allow", "1:6: behind that comes in or out"),
        ("allow in port 80", "1:10: expected, in this order"),
        ("allow in tcp to", "1:16: expected an address, as 10.42.0.0/16 or fd42::/64, or port"),
        ("allow in tcp from to port 1", "1:19: expected an address"),
        ("allow in from 10.42.0.256", "1:15: no address, such as"),
        ("allow in from 10.42.0.0/33", "1:15: no address, such as"),
        ("allow in from 10.42.0.1/16", "1:15: the address has ones behind"),
        ("allow in from established", "1:15: expected an address, as"),
        ("allow in from fd42::1::2", "1:15: no address, such as"),
        ("allow in from fd42::/129", "1:15: no address, such as"),
        ("allow in from fd42::1/64", "1:15: the address has ones behind"),
        ("allow in from [fd42::1]", "1:15: no address, such as"),
        ("deny in icmpv6 to port 7", "1:19: ports are of tcp or udp"),
        ("allow in udp to port http", "1:22: no port, such as"),
        ("allow in udp to port 9-8", "1:22: no port, such as"),
        ("allow in udp to port +8", "1:22: no port, such as"),
        ("deny out icmp to port 7", "1:18: ports are of tcp or udp"),
        ("deny out to 10.0.0.1 port 7", "1:22: ports are of tcp or udp"),
        ("allow in established tcp", "1:22: expected, in this order"),
    ] {
        let error = text.parse::<Rules>().unwrap_err().to_string();
        assert!(error.starts_with(said), "{text}: {error}");
    }
    let many = "deny in\n".repeat(MOST_RULES);
    assert_eq!(many.parse::<Rules>().unwrap().all().len(), MOST_RULES);
    let error = format!("{many}deny in\n").parse::<Rules>().unwrap_err().to_string();
    assert_eq!(error, "1025:1: there are 1024 rules before this one");
    let long = "#".repeat(MOST_BYTES + 1).parse::<Rules>().unwrap_err().to_string();
    assert_eq!(long, "1:1: the rules are longer than 32768 bytes");
}

#[test]
fn rules_are_asked_in_their_order_and_answers_of_known_connections_come_in() {
    let mut filter = filter(
        "allow in established\n\
         allow in tcp from 10.42.0.0/24 to port 80 # who is near\n\
         deny in\n\
         deny out udp to 10.42.0.9 port 53\n",
    );
    let web = packet(Direction::In, TCP, 7, (80, 5000));
    let far = Packet { other: IpAddr::from([10, 42, 1, 7]), ..web };
    assert!(filter.lets(at(1), &web) && !filter.lets(at(1), &far));
    assert!(!filter.lets(at(1), &packet(Direction::In, TCP, 7, (81, 5000))));
    assert!(!filter.lets(at(1), &packet(Direction::In, ICMP, 7, (3, 3))));
    // What this node asks for is answered, and only that.
    let asks = packet(Direction::Out, UDP, 8, (4000, 53));
    let answers = Packet { direction: Direction::In, ..asks };
    assert!(!filter.lets(at(2), &answers));
    assert!(filter.lets(at(3), &asks) && filter.lets(at(4), &answers));
    assert!(!filter.lets(at(5), &packet(Direction::In, UDP, 8, (4001, 53))));
    assert!(!filter.lets(at(5), &packet(Direction::Out, UDP, 9, (4000, 53))));
    // For three minutes; an error about it comes in as long as it is known.
    let reports = Packet { protocol: ICMP, ports: None, reports: true, ..answers };
    assert!(filter.lets(at(5), &reports));
    assert!(filter.lets(at(180_003), &answers), "it was three minutes less a moment");
    assert!(!filter.lets(at(400_000), &answers) && !filter.lets(at(400_000), &reports));
    let counts = filter.counts();
    assert_eq!((counts.allowed, counts.denied, counts.crowded), (5, 8, 0));
}

#[test]
fn a_rule_with_an_address_is_about_its_family() {
    let mut filter = filter(
        "deny in tcp from ::/0 to port 81\n\
         deny in udp from 0.0.0.0/0\n\
         deny in icmp\n\
         deny out icmpv6 to fd42::8\n\
         allow in tcp from fd42::4/126 to fd42::1 port 80\n\
         deny in tcp to port 80\n",
    );
    let mut lets = |packet| filter.lets(at(1), &packet);
    for (port, four, six) in [(80, false, true), (81, true, false)] {
        let web = packet(Direction::In, TCP, 7, (port, 5000));
        assert_eq!((lets(web), lets(over_ipv6(web, 7))), (four, six), "{port}");
    }
    let web = packet(Direction::In, TCP, 7, (80, 5001));
    assert!(!lets(over_ipv6(web, 8)), "it is not near");
    let asks = packet(Direction::In, UDP, 7, (7, 7));
    assert!(!lets(asks) && lets(over_ipv6(asks, 7)));
    let echo = packet(Direction::In, ICMP, 7, (3, 3));
    assert!(!lets(echo) && lets(over_ipv6(echo, 7)));
    let echo = packet(Direction::Out, ICMP, 8, (3, 3));
    assert!(lets(echo) && !lets(over_ipv6(echo, 8)) && lets(over_ipv6(echo, 9)));
}

#[test]
fn other_rules_are_asked_of_connections_that_there_are() {
    let open = packet(Direction::In, TCP, 7, (80, 5000));
    let mut filter = filter("");
    assert!(filter.is_open() && filter.lets(at(1), &open));
    let closed = "allow in established\ndeny in\n".parse::<Rules>().unwrap();
    let late = packet(Direction::In, TCP, 7, (80, 5001));
    filter.set(at(2), closed.clone(), late.connection.into_iter());
    assert!(filter.lets(at(3), &late), "it was open already");
    assert!(!filter.lets(at(3), &open), "nobody has answered it");
    filter.set(at(4), "deny in".parse().unwrap(), core::iter::empty());
    assert!(!filter.lets(at(5), &late));
}

#[test]
fn a_connection_that_is_over_lets_no_other_one_in() {
    let mut filter = filter("allow in established\ndeny in\n");
    let goes = packet(Direction::Out, TCP, 7, (4000, 80));
    let comes = Packet { direction: Direction::In, ..goes };
    let with = |packet, signal| Packet { signal, ..packet };
    assert!(filter.lets(at(1), &with(goes, Signal::Begins)) && filter.lets(at(1), &comes));
    // One that comes again, and one of both sides at once.
    assert!(filter.lets(at(2), &with(comes, Signal::Begins)));
    assert!(filter.lets(at(3), &with(comes, Signal::Ends)));
    assert!(filter.lets(at(4), &with(goes, Signal::Ends)) && filter.lets(at(5), &comes));
    assert!(!filter.lets(at(6), &with(comes, Signal::Begins)), "it is another one");
    assert!(filter.lets(at(7), &comes), "what is late of the one that is over");
    assert!(filter.lets(at(8), &with(goes, Signal::Begins)) && filter.lets(at(9), &comes));
}

#[test]
fn a_flood_costs_what_was_not_answered_and_nothing_else() {
    let mut filter = filter("allow in established\nallow in to 10.42.0.1 new\ndeny in\n");
    let kept = packet(Direction::In, UDP, 7, (7, 7));
    let back = Packet { direction: Direction::Out, ..kept };
    assert!(filter.lets(at(0), &kept) && filter.lets(at(0), &back));
    for port in 0..3 * MOST_CONNECTIONS as u16 {
        assert!(filter.lets(at(1), &packet(Direction::In, UDP, 9, (7, port))));
    }
    assert_eq!(filter.connections(), MOST_CONNECTIONS);
    assert!(filter.lets(at(2), &kept));
    // All are answered: nobody new has room.
    for port in 0..3 * MOST_CONNECTIONS as u16 {
        filter.lets(at(3), &packet(Direction::Out, UDP, 9, (7, port)));
        filter.lets(at(3), &packet(Direction::In, UDP, 9, (7, port)));
    }
    assert!(!filter.lets(at(4), &packet(Direction::In, UDP, 10, (7, 1))));
    assert!(filter.counts().crowded > 0 && filter.lets(at(4), &kept));
    assert!(filter.lets(at(200_000), &packet(Direction::In, UDP, 10, (7, 1))), "all are over");
}

/// The verdict of a filter that looks through all that it has seen each time, and asks all rules.
#[derive(Default)]
struct Model(BTreeMap<Connection, (Direction, bool)>);

impl Model {
    fn lets(&mut self, rules: &Rules, packet: &Packet) -> bool {
        let connection = packet.connection.unwrap();
        let seen = self.0.get(&connection).copied();
        let state = match seen {
            Some((begun, answered)) if answered || begun != packet.direction => State::Established,
            _ => State::New,
        };
        let lets = rules.action(packet, state) == Action::Allow;
        if lets {
            let (begun, answered) = seen.unwrap_or((packet.direction, false));
            self.0.insert(connection, (begun, answered || begun != packet.direction));
        }
        lets
    }
}

fn any_side() -> impl Strategy<Value = String> {
    let address = prop_oneof![
        Just(String::new()),
        (0..4u8).prop_map(|it| format!("10.42.0.{it}")),
        Just("10.42.0.0/31".to_string()),
        Just("0.0.0.0/0".to_string()),
        (0..4u8).prop_map(|it| format!("fd42::{it}")),
        Just("fd42::/127".to_string()),
        Just("::/0".to_string()),
    ];
    let port = prop_oneof![
        Just(String::new()),
        (0..4u16).prop_map(|it| format!("port {it}")),
        (0..3u16).prop_map(|it| format!("port {it}-{}", it + 1)),
    ];
    (address, port).prop_map(|(address, port)| format!("{address} {port}").trim().to_string())
}

fn any_rule() -> impl Strategy<Value = String> {
    let action = prop_oneof![Just("allow"), Just("deny")];
    let direction = prop_oneof![Just("in"), Just("out")];
    let protocol = prop_oneof![Just("tcp"), Just("udp")];
    let state = prop_oneof![3 => Just(""), 1 => Just("new"), 2 => Just("established")];
    (action, direction, protocol, any_side(), any_side(), state).prop_map(
        |(action, direction, protocol, from, to, state)| {
            let mut words = vec![action.to_string(), direction.to_string(), protocol.to_string()];
            for (word, side) in [("from", from), ("to", to)] {
                if !side.is_empty() {
                    words.push(format!("{word} {side}"));
                }
            }
            words.push(state.to_string());
            words.join(" ")
        },
    )
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let direction = prop_oneof![Just(Direction::In), Just(Direction::Out)];
    let protocol = prop_oneof![Just(TCP), Just(UDP)];
    (direction, protocol, 0..4u8, 0..4u16, 0..4u16, any::<bool>()).prop_map(
        |(direction, protocol, other, a, b, is_four)| {
            let packet = packet(direction, protocol, other, (a, b));
            if is_four { packet } else { over_ipv6(packet, other) }
        },
    )
}

/// What a network has in common, bit by bit.
fn is_near_plainly(one: &[u8], other: &[u8], bits: u8) -> bool {
    let bit = |of: &[u8], at: u8| of[usize::from(at / 8)] >> (7 - at % 8) & 1;
    one.len() == other.len() && (0..bits).all(|at| bit(one, at) == bit(other, at))
}

proptest! {
    #[test]
    fn addresses_are_near_as_far_as_their_bits_agree(
        one: [u8; 16],
        differs in 0..128usize,
        bits in 0..=128u8,
    ) {
        let mut other = one;
        other[differs / 8] ^= 128 >> (differs % 8);
        let near = is_near(one.into(), other.into(), bits);
        prop_assert_eq!(near, is_near_plainly(&one, &other, bits));
        let [one, other] = [one, other].map(|it| *it.first_chunk::<4>().unwrap());
        let bits = bits.min(32);
        let near = is_near(one.into(), other.into(), bits);
        prop_assert_eq!(near, is_near_plainly(&one, &other, bits));
        prop_assert!(!is_near(IpAddr::from(one), OWN6, 0));
    }

    #[test]
    fn any_text_is_rules_or_an_error_with_its_place(
        text in "((allow|deny|in|out|tcp|udp|from|to|port|new|#|10\\.42\\.0\\.[0-9/]{1,4}|\
                   fd42:[0-9:/]{1,4}|[0-9-]{1,7}|\\PC{0,4}|\n)[ \n]?){0,12}",
    ) {
        match text.parse::<Rules>() {
            Ok(rules) => prop_assert_eq!(rules.to_string().parse::<Rules>(), Ok(rules)),
            Err(error) => {
                let line = text.lines().nth(error.line - 1).expect("there is such a line");
                prop_assert!(error.column <= line.len() + 1, "{} in {:?}", error, line);
            }
        }
    }

    #[test]
    fn rules_are_what_they_say(rules in proptest::collection::vec(any_rule(), 0..9)) {
        let parsed: Rules = rules.join("\n").parse().unwrap();
        prop_assert_eq!(parsed.all().len(), rules.len());
        prop_assert_eq!(parsed.to_string().parse::<Rules>(), Ok(parsed));
    }

    #[test]
    fn verdicts_are_those_of_a_plain_model(
        sets in proptest::collection::vec(
            (
                proptest::collection::vec(any_rule(), 0..7),
                proptest::collection::vec(any_packet(), 0..60),
            ),
            1..4,
        ),
    ) {
        let (mut filter, mut model) = (Filter::default(), Model::default());
        for (rules, packets) in sets {
            let rules: Rules = rules.join("\n").parse().unwrap();
            filter.set(at(0), rules.clone(), core::iter::empty());
            let verdicts: Vec<bool> = packets.iter().map(|it| filter.lets(at(1), it)).collect();
            let expected: Vec<bool> = packets.iter().map(|it| model.lets(&rules, it)).collect();
            prop_assert_eq!(verdicts, expected);
        }
    }
}
