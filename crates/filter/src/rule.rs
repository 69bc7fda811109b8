//! Rules, and how they are written, one a line:
//!
//! ```text
//! rule     = ("allow" | "deny") ("in" | "out") [protocol] [from] [to] [state]
//! protocol = "tcp" | "udp" | "icmp" | "icmpv6"
//! from     = "from" side       the sender of the packet
//! to       = "to" side         its receiver
//! side     = ADDRESS["/"BITS] | "port" PORT["-"PORT] | ADDRESS["/"BITS] "port" PORT["-"PORT]
//! state    = "new" | "established"
//! ```
//!
//! `#` begins a comment. Ports need `tcp` or `udp`. A rule with an address is about packets of that
//! address's family, IPv4 or IPv6; `icmp` is that of IPv4.

use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use crate::packet::{Direction, ICMP, ICMPV6, Packet, TCP, UDP};

/// Rules that there can be at once, and bytes of their text.
pub const MOST_RULES: usize = 1024;
/// See above.
pub const MOST_BYTES: usize = 32 << 10;

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It goes on.
    Allow,
    /// It is dropped.
    Deny,
}

/// Whether the other side has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Packets of who begins a connection, until an answer has been let through.
    New,
    /// All others of a connection that the filter knows.
    Established,
}

/// A sender or a receiver.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Side {
    /// Addresses of one family with so many first bits in common; any, if there is none.
    pub address: Option<(IpAddr, u8)>,
    /// The first and the last port; any, if there is none.
    pub ports: Option<(u16, u16)>,
}

/// One rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// What becomes of the packets that it is about.
    pub action: Action,
    /// Which way they go.
    pub direction: Direction,
    /// Their protocol; any, if there is none.
    pub protocol: Option<u8>,
    /// Who sends them.
    pub from: Side,
    /// Who receives them.
    pub to: Side,
    /// How their connection stands; however, if there is none.
    pub state: Option<State>,
}

/// Rules in their order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Rules(Vec<Rule>);

/// What makes no rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A rule begins with another word.
    Action,
    /// Behind that there is no way.
    Direction,
    /// A word that is none here.
    Word,
    /// A side is said neither by an address nor by a port.
    Side,
    /// What stands for an address is none.
    Address,
    /// An address has bits behind those that count.
    Bits,
    /// What stands for a port is none.
    Port,
    /// Ports of a protocol that has none.
    NoPorts,
    /// There are too many rules.
    Many,
    /// The text is too long.
    Long,
}

/// What is wrong with a text, and where: both counted from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuleError {
    /// The line.
    pub line: usize,
    /// The byte in it.
    pub column: usize,
    /// What is wrong.
    pub wrong: Wrong,
}

/// The protocols that have names.
const PROTOCOLS: [(&str, u8); 4] = [("tcp", TCP), ("udp", UDP), ("icmp", ICMP), ("icmpv6", ICMPV6)];

impl Rules {
    /// The first rule that is about a packet whose connection stands so says what becomes of it. A
    /// packet that no rule is about goes on.
    pub fn action(&self, packet: &Packet, state: State) -> Action {
        let decides = self.0.iter().find(|rule| rule.is_about(packet, state));
        decides.map_or(Action::Allow, |rule| rule.action)
    }

    /// The rules.
    pub fn all(&self) -> &[Rule] {
        &self.0
    }
}

impl Rule {
    fn is_about(&self, packet: &Packet, state: State) -> bool {
        let own = (packet.own, packet.ports.map(|it| it.0));
        let other = (packet.other, packet.ports.map(|it| it.1));
        let (from, to) = match packet.direction {
            Direction::In => (other, own),
            Direction::Out => (own, other),
        };
        self.direction == packet.direction
            && self.protocol.is_none_or(|it| it == packet.protocol)
            && self.from.has(from)
            && self.to.has(to)
            && self.state.is_none_or(|it| it == state)
    }

    /// The rule of a line, without what surrounds it.
    fn parse(text: &str) -> Result<Rule, (usize, Wrong)> {
        let mut words = Words { text, at: 0 };
        let action = match words.next() {
            (_, "allow") => Action::Allow,
            (_, "deny") => Action::Deny,
            (at, _) => return Err((at, Wrong::Action)),
        };
        let direction = match words.next() {
            (_, "in") => Direction::In,
            (_, "out") => Direction::Out,
            (at, _) => return Err((at, Wrong::Direction)),
        };
        let named = |word: &str| PROTOCOLS.into_iter().find(|it| it.0 == word).map(|it| it.1);
        let protocol = words.take(named);
        let has_ports = matches!(protocol, Some(TCP | UDP));
        let is = |word| move |it: &str| (it == word).then_some(());
        let mut sides = [Side::default(); 2];
        for (side, word) in sides.iter_mut().zip(["from", "to"]) {
            if words.take(is(word)).is_some() {
                *side = words.side(has_ports)?;
            }
        }
        let state = words.take(|it| match it {
            "new" => Some(State::New),
            "established" => Some(State::Established),
            _ => None,
        });
        let [from, to] = sides;
        match words.next() {
            (_, "") => Ok(Rule { action, direction, protocol, from, to, state }),
            (at, _) => Err((at, Wrong::Word)),
        }
    }
}

impl Side {
    fn has(&self, (address, port): (IpAddr, Option<u16>)) -> bool {
        let near = |(net, bits): (IpAddr, u8)| is_near(net, address, bits);
        let within = |(first, last)| port.is_some_and(|port| (first..=last).contains(&port));
        self.address.is_none_or(near) && self.ports.is_none_or(within)
    }
}

/// Whether two addresses are of one family and have so many first bits in common.
pub fn is_near(one: IpAddr, other: IpAddr, bits: u8) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.leading_zeros() >= u32::from(bits.min(32))
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differ = one.to_bits() ^ other.to_bits();
            differ.leading_zeros() >= u32::from(bits.min(128))
        }
        _ => false,
    }
}

/// Bits of an address of this one's family.
fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The words of a line, with where they begin.
struct Words<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    /// The next word; an empty one at the end.
    fn next(&mut self) -> (usize, &'a str) {
        let rest = &self.text[self.at..];
        let at = self.at + (rest.len() - rest.trim_start().len());
        let word = self.text[at..].split_whitespace().next().unwrap_or_default();
        self.at = at + word.len();
        (at, word)
    }

    /// What the next word means, if it means anything here.
    fn take<T>(&mut self, means: impl Fn(&str) -> Option<T>) -> Option<T> {
        let before = self.at;
        let found = means(self.next().1);
        if found.is_none() {
            self.at = before;
        }
        found
    }

    /// A sender or a receiver.
    fn side(&mut self, has_ports: bool) -> Result<Side, (usize, Wrong)> {
        let port = |it: &str| (it == "port").then_some(());
        let mut side = Side::default();
        let mut has_port = self.take(port);
        if has_port.is_none() {
            let (at, word) = self.next();
            if !word.contains(':') && !word.starts_with(|it: char| it.is_ascii_digit()) {
                return Err((at, Wrong::Side));
            }
            side.address = Some(address(word).map_err(|wrong| (at, wrong))?);
            has_port = self.take(port);
        }
        if has_port.is_some() {
            if !has_ports {
                return Err((self.at - "port".len(), Wrong::NoPorts));
            }
            let (at, word) = self.next();
            side.ports = Some(ports(word).ok_or((at, Wrong::Port))?);
        }
        Ok(side)
    }
}

fn address(word: &str) -> Result<(IpAddr, u8), Wrong> {
    let (address, bits) = word.split_once('/').map_or((word, None), |it| (it.0, Some(it.1)));
    let address: IpAddr = address.parse().map_err(|_| Wrong::Address)?;
    let most = bits_of(address);
    let bits = bits.map_or(Some(most), |it| number::<u8>(it).filter(|it| *it <= most));
    let bits = bits.ok_or(Wrong::Address)?;
    let behind = match address {
        IpAddr::V4(it) => it.to_bits().checked_shl(bits.into()).unwrap_or(0) != 0,
        IpAddr::V6(it) => it.to_bits().checked_shl(bits.into()).unwrap_or(0) != 0,
    };
    if behind { Err(Wrong::Bits) } else { Ok((address, bits)) }
}

fn ports(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((number(first)?, number(last)?)).filter(|(first, last)| first <= last)
}

/// A number as people write it: digits alone.
fn number<T: FromStr>(word: &str) -> Option<T> {
    word.bytes().all(|it| it.is_ascii_digit()).then(|| word.parse().ok())?
}

impl FromStr for Rules {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Rules, RuleError> {
        if text.len() > MOST_BYTES {
            return Err(RuleError { line: 1, column: 1, wrong: Wrong::Long });
        }
        let mut rules = Vec::new();
        for (line, written) in (1..).zip(text.lines()) {
            let error = |(at, wrong)| RuleError { line, column: at + 1, wrong };
            let said = written.split('#').next().unwrap_or_default();
            if said.trim().is_empty() {
                continue;
            }
            if rules.len() == MOST_RULES {
                return Err(error((0, Wrong::Many)));
            }
            rules.push(Rule::parse(said).map_err(error)?);
        }
        Ok(Rules(rules))
    }
}

impl fmt::Display for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.action == Action::Allow { "allow" } else { "deny" })?;
        f.write_str(if self.direction == Direction::In { " in" } else { " out" })?;
        let named = PROTOCOLS.into_iter().find(|it| Some(it.1) == self.protocol);
        named.map_or(Ok(()), |it| write!(f, " {}", it.0))?;
        for (side, word) in [(self.from, "from"), (self.to, "to")] {
            if side != Side::default() {
                write!(f, " {word}")?;
            }
            match side.address {
                Some((address, bits)) if bits == bits_of(address) => write!(f, " {address}")?,
                Some((address, bits)) => write!(f, " {address}/{bits}")?,
                None => {}
            }
            match side.ports {
                Some((first, last)) if first == last => write!(f, " port {first}")?,
                Some((first, last)) => write!(f, " port {first}-{last}")?,
                None => {}
            }
        }
        match self.state {
            Some(State::New) => f.write_str(" new"),
            Some(State::Established) => f.write_str(" established"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Action => f.write_str("a rule begins with allow or deny"),
            Wrong::Direction => f.write_str("behind that comes in or out"),
            Wrong::Word => f.write_str(
                "expected, in this order: tcp, udp, icmp or icmpv6; from; to; new or established",
            ),
            Wrong::Side => {
                f.write_str("expected an address, as 10.42.0.0/16 or fd42::/64, or port")
            }
            Wrong::Address => f.write_str("no address, such as 10.42.0.0/16 or fd42::1"),
            Wrong::Bits => f.write_str("the address has ones behind the bits that count"),
            Wrong::Port => f.write_str("no port, such as 80 or 1-1023"),
            Wrong::NoPorts => f.write_str("ports are of tcp or udp, which the rule does not name"),
            Wrong::Many => write!(f, "there are {MOST_RULES} rules before this one"),
            Wrong::Long => write!(f, "the rules are longer than {MOST_BYTES} bytes"),
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.wrong)
    }
}

impl core::error::Error for RuleError {}
