//! Our packet filter beside Linux's: rules that are drawn, as we write them and as nft does, and
//! packets that are drawn, both ways. What goes on, and what is answered, is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use nile_abi::{Instant, MacAddress};
use nile_net::filter::rule::{Action, Rule, Side, State};
use nile_net::filter::{Direction, Rules};
use nile_net::{Memory, Settings, Stack, Wide};
use smoltcp::wire::{Icmpv4Packet, Icmpv4Repr, IpProtocol, Ipv4Packet, TcpPacket, UdpPacket};

use crate::engine::words;
use crate::packet::IP_HEADER;
use crate::script::{Flags, Segment};
use crate::tap::{self, Device};
use crate::{packet, packet::Ends};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 254);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Ports of the host, and those of them that somebody has; ports of peers.
const PORTS: [u16; 6] = [53, 80, 1000, 5000, 81, 6000];
const BOUND: usize = 4;
const THEIR_PORTS: [u16; 3] = [53, 1000, 4000];

/// Packets that are drawn for each set of rules.
const PACKETS: u16 = 40;

/// What no draw is to depend on.
const SETTINGS: [(&str, &str); 4] = [
    ("ipv4/icmp_ratemask", "0"),
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("netfilter/nf_conntrack_tcp_loose", "1"),
    ("netfilter/nf_conntrack_tcp_be_liberal", "1"),
];

/// A packet that comes or goes: its protocol, the host's port, who the peer is, and its port. Of an
/// echo both ports are its identifier.
type Tuple = (u8, u16, Ipv4Addr, u16);

/// Xorshift: the same draws for the same seed.
pub struct Draw(pub u64);

impl Draw {
    fn below(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % below
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// One rule about peers in this network.
    fn rule(&mut self, [a, b, c, _]: [u8; 4]) -> String {
        let mut rule = self.of(&["allow", "deny"]).to_string();
        let direction = self.of(&["in", "in", "out"]);
        let protocol = self.of(&["", " tcp", " udp", " udp", " icmp", " icmpv6"]);
        rule += &format!(" {direction}{protocol}");
        let theirs = [
            format!("{a}.{b}.{c}.1"),
            format!("{a}.{b}.{c}.128/25"),
            format!("{a}.{b}.{c}.0/24"),
            format!("{a}.0.0.0/8"),
            "0.0.0.0/0".into(),
            "fd42::/64".into(),
        ];
        let ours = ["10.42.0.1", "10.42.0.0/24", "10.43.0.0/16"];
        for side in ["from", "to"] {
            let is_ours = (side == "to") == (direction == "in");
            let mut said = String::new();
            if self.below(2) == 0 {
                said = match is_ours {
                    true => self.of(&ours).into(),
                    false => theirs[self.below(theirs.len())].clone(),
                };
            }
            if matches!(protocol, " tcp" | " udp") && self.below(2) == 0 {
                let port = if is_ours { self.of(&PORTS) } else { self.of(&THEIR_PORTS) };
                let range = [format!(" port {port}"), format!(" port 1-{port}")];
                said += &range[self.below(2)];
            }
            if !said.is_empty() {
                rule += &format!(" {side} {}", said.trim_start());
            }
        }
        rule + self.of(&["", "", " new", " established"])
    }
}

/// What a rule is in nft's words.
fn translate(rule: &Rule) -> String {
    let mut text = String::new();
    if let Some(protocol) = rule.protocol {
        let _ = write!(text, "meta l4proto {protocol} ");
    }
    for (Side { address, ports }, word) in [(rule.from, 's'), (rule.to, 'd')] {
        if let Some((address, bits)) = address {
            let family = if address.is_ipv4() { "ip" } else { "ip6" };
            let _ = write!(text, "{family} {word}addr {address}/{bits} ");
        }
        if let Some((first, last)) = ports {
            let _ = write!(text, "th {word}port {first}-{last} ");
        }
    }
    text += match rule.state {
        Some(State::Established) => "ct state { established, related } ",
        Some(State::New) => "ct state { new, invalid, untracked } ",
        None => "",
    };
    text + if rule.action == Action::Allow { "accept" } else { "drop" }
}

fn nft(text: &str) -> String {
    let mut command = Command::new("nft");
    command.args(["-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("nft is there");
    child.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("nft reads");
    let ended = child.wait_with_output().expect("nft ends");
    assert!(ended.status.success(), "nft takes no\n{text}");
    String::from_utf8(ended.stdout).expect("nft writes text")
}

/// Has Linux go by these rules. What has come in is noted by the number of its packet.
fn set_linux(rules: &Rules) {
    let chain = |direction: Direction| {
        let is_ipv6 = |side: Side| side.address.map(|it| it.0.is_ipv6());
        // A rule of both families is about nothing, and nft takes none such.
        let is_of_one = |it: &&Rule| match (is_ipv6(it.from), is_ipv6(it.to)) {
            (Some(from), Some(to)) => from == to,
            _ => true,
        };
        let of = rules.all().iter().filter(|it| it.direction == direction).filter(is_of_one);
        of.map(|it| format!("  {}\n", translate(it))).collect::<String>()
    };
    nft(&format!(
        "table inet t\ndelete table inet t\ntable inet t {{\n \
         set seen {{ typeof ip id; flags dynamic; size 65535; }}\n \
         chain i {{ type filter hook input priority 0; policy accept;\n{}}}\n \
         chain o {{ type filter hook output priority 0; policy accept;\n{}}}\n \
         chain s {{ type filter hook input priority 10; policy accept;\n  \
         add @seen {{ ip id }}\n}}\n}}\n",
        chain(Direction::In),
        chain(Direction::Out),
    ));
}

/// The numbers of packets that have come in.
fn seen() -> BTreeSet<u16> {
    let text = nft("list set inet t seen\n");
    let elements = text.split("elements = {").nth(1).unwrap_or_default();
    let elements = elements.split('}').next().unwrap_or_default();
    elements.split(',').filter_map(|it| it.trim().parse().ok()).collect()
}

/// What a packet of the host's is, as far as both are to agree.
fn told(packet: &[u8]) -> String {
    let ip = Ipv4Packet::new_checked(packet).expect("a packet");
    let payload = ip.payload();
    let what = match ip.next_header() {
        IpProtocol::Tcp => {
            let it = TcpPacket::new_checked(payload).expect("a segment");
            format!("tcp {} {} reset {}", it.src_port(), it.dst_port(), it.rst())
        }
        IpProtocol::Udp => {
            let it = UdpPacket::new_checked(payload).expect("a datagram");
            format!("udp {} {}", it.src_port(), it.dst_port())
        }
        IpProtocol::Icmp => {
            let it = Icmpv4Packet::new_checked(payload).expect("a message");
            format!("icmp {} {}", it.msg_type(), it.msg_code())
        }
        other => format!("{other}"),
    };
    format!("{what} to {}", ip.dst_addr())
}

/// A packet of a peer's, with a number.
fn packet_of((protocol, port, peer, their_port): Tuple, number: u16) -> Vec<u8> {
    let ends = Ends { host: (HOST, port), peer: (peer, their_port) };
    let mut bytes = match protocol {
        6 => {
            let flags = Flags { syn: true, ..Flags::default() };
            packet::emit(&ends, &Segment { flags, ..Segment::default() }, (9, 0), &[])
        }
        17 => {
            let mut bytes = packet::packet(&ends, IpProtocol::Udp, 12);
            let mut it = UdpPacket::new_unchecked(&mut bytes[IP_HEADER..]);
            it.set_src_port(their_port);
            it.set_dst_port(port);
            it.set_len(12);
            it.fill_checksum(&peer.into(), &HOST.into());
            bytes
        }
        _ => {
            let echo = Icmpv4Repr::EchoRequest { ident: port, seq_no: number, data: &[7; 8] };
            let mut bytes = packet::packet(&ends, IpProtocol::Icmp, echo.buffer_len());
            let mut it = Icmpv4Packet::new_unchecked(&mut bytes[IP_HEADER..]);
            echo.emit(&mut it, &smoltcp::phy::ChecksumCapabilities::default());
            bytes
        }
    };
    let mut ip = Ipv4Packet::new_unchecked(&mut bytes[..]);
    ip.set_ident(number);
    ip.fill_checksum();
    bytes
}

/// Ours, with some ports that somebody has.
fn ours<'m>(memory: Memory<'m>, rules: &Rules) -> (Stack<'m>, Instant) {
    let settings = Settings {
        mac: MacAddress(MAC),
        address: HOST,
        prefix: 24,
        gateway: Some(ROUTER),
        resolver: None,
        wide: Wide::None,
        max_packet: 1500,
    };
    let mut stack = Stack::new(settings, memory, Instant::START);
    let now = Instant::START + Duration::from_secs(10);
    stack.set_rules(now, rules.clone());
    for port in &PORTS[..BOUND] {
        assert!(stack.bind(*port), "nobody else has it");
    }
    (stack, now)
}

/// What leaves our stack; who asks for an address is answered.
fn leaves(stack: &mut Stack<'_>, now: Instant) -> Vec<String> {
    let mut all = Vec::new();
    stack.turn(now);
    while let Some(frame) = stack.transmit() {
        if let Some(answer) = tap::answer_arp(&frame) {
            stack.receive(now, &answer);
        } else if let Some((_, _, packet)) = tap::ipv4_of(&frame) {
            all.push(told(packet));
        }
    }
    all
}

/// The TAP, and sockets of the ports that somebody has.
pub struct Linux {
    device: Device,
    sockets: Vec<UdpSocket>,
}

impl Linux {
    /// Both; `None` where there is no nft.
    pub fn open() -> Option<Linux> {
        let is_there = Command::new("nft").arg("--version").stdout(Stdio::null()).status();
        if !is_there.is_ok_and(|it| it.success()) {
            eprintln!("not run: nft is not installed");
            return None;
        }
        let mac = MAC.map(|it| format!("{it:02x}")).join(":");
        let device = Device::open(&format!("{HOST}/24"), &mac);
        let router = ROUTER.to_string();
        tap::ip(&["route", "add", "default", "via", &router]);
        let theirs = tap::PEERS.to_string().replace('-', ":");
        tap::ip(&["neigh", "add", &router, "lladdr", &theirs, "dev", "wire0"]);
        // One that asks for connections has Linux know them.
        set_linux(&"allow in established".parse().expect("a rule"));
        for (name, value) in SETTINGS {
            let path = format!("/proc/sys/net/{name}");
            fs::write(&path, value).unwrap_or_else(|what| panic!("{path}: {what}"));
        }
        let bind = |port: &u16| {
            let socket = UdpSocket::bind((HOST, *port)).expect("nobody else has it");
            socket.set_nonblocking(true).expect("it can");
            socket
        };
        Some(Linux { device, sockets: PORTS[..BOUND].iter().map(bind).collect() })
    }

    /// What has left Linux since.
    fn leaves(&mut self) -> Vec<String> {
        self.device.send(&tap::ask_arp(MAC, HOST, ROUTER));
        let mut all = Vec::new();
        loop {
            let frame = self.device.next(Duration::from_secs(5)).expect("an answer to ARP");
            if tap::is_arp_answer(&frame) {
                return all;
            }
            if let Some((_, _, packet)) = tap::ipv4_of(&frame) {
                all.push(told(packet));
            }
        }
    }
}

/// Plays one draw to both; what differs. The control has Linux do the opposite of the first rule.
pub fn differs(linux: &mut Linux, number: usize, seed: u64, flips: bool) -> Option<String> {
    let mut draw = Draw(seed);
    let net = [10, 100 + (number / 250) as u8, (number % 250) as u8, 0];
    let count = 1 + draw.below(8);
    let lines: Vec<String> = (0..count).map(|_| draw.rule(net)).collect();
    let text = lines.join("\n");
    let rules: Rules = text.parse().unwrap_or_else(|what| panic!("{text}\n{what}"));
    let opposite = match lines[0].strip_prefix("allow") {
        Some(rest) => format!("deny{rest}"),
        None => lines[0].replacen("deny", "allow", 1),
    };
    let other = [&[opposite][..], &lines[1..]].concat().join("\n");
    set_linux(&if flips { other.parse().expect("rules") } else { rules.clone() });
    let words = words();
    let memory = Memory::new(&words, [7, 8]).expect("memory of two connections");
    let (mut stack, now) = ours(memory, &rules);
    // Which ways packets of a connection were let through; none, if it is not to be used again.
    let mut known: BTreeMap<Tuple, Option<[bool; 2]>> = BTreeMap::new();
    let mut came = BTreeMap::new();
    for number in 1..=PACKETS {
        let peer = Ipv4Addr::new(net[0], net[1], net[2], draw.of(&[1, 2, 129, 130]));
        let (port, their_port) = (draw.of(&PORTS), draw.of(&THEIR_PORTS));
        let (protocol, goes) =
            draw.of(&[(17, false), (17, false), (17, true), (6, false), (1, false)]);
        let port = if goes { draw.of(&PORTS[..BOUND]) } else { port };
        let tuple = (protocol, port, peer, if protocol == 1 { port } else { their_port });
        let ways = known.entry(tuple).or_insert(Some([false; 2]));
        let Some(let_through) = ways else { continue };
        let before = stack.counts().filter;
        let (mine, theirs) = if goes {
            let to = SocketAddr::new(IpAddr::V4(peer), their_port);
            stack.send(now, port, to, b"data");
            let at = PORTS.iter().position(|it| *it == port).expect("a port of ours");
            // A rule may deny it.
            let _ = linux.sockets[at].send_to(b"data", to);
            (leaves(&mut stack, now), linux.leaves())
        } else {
            let frame = tap::frame(MAC, &packet_of(tuple, number));
            stack.receive(now, &frame);
            linux.device.send(&frame);
            (leaves(&mut stack, now), linux.leaves())
        };
        let after = stack.counts().filter;
        if mine != theirs {
            return Some(format!("{text}\n{tuple:?}: we {mine:?}, Linux {theirs:?}"));
        }
        let is_let_in = !goes && after.allowed > before.allowed;
        if !goes {
            came.insert(number, (tuple, is_let_in));
        }
        let denies_answer = after.denied > before.denied
            && match (protocol, goes) {
                (1 | 6, _) if is_let_in => true,
                (_, true) => let_through[0],
                (_, false) => let_through[1] && !is_let_in,
            };
        // An error that is reported of a datagram is no part of its connection.
        let is_sent = !mine.is_empty() && (goes || protocol != 17);
        *let_through = [let_through[0] || is_let_in, let_through[1] || is_sent];
        // Linux knows of an answer that was denied; we do not.
        if denies_answer {
            *ways = None;
        }
    }
    let seen = seen();
    let wrong = came.into_iter().find(|(number, (_, is_let))| seen.contains(number) != *is_let);
    wrong.map(|(_, (tuple, is_let))| format!("{text}\n{tuple:?}: we let it: {is_let}"))
}
