//! A stack and stock smoltcp peers over a link that loses, repeats and reorders frames, in virtual
//! time; the stack is dropped and made anew of its memory meanwhile.

mod apart;
mod closing;
mod filter;
mod lent;
mod own;
pub mod steps;
mod v6;

use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::vec::Vec;

use nile_abi::{Instant, MacAddress};
use proptest::prelude::*;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

use crate::memory::{self, Memory};
use crate::{Queues, Settings, Stack, Stream, Wide, engine_time};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 9);
const OURS6: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 1);
const THEIRS6: Ipv6Addr = Ipv6Addr::new(0xfd42, 0, 0, 0, 0, 0, 0, 9);
const OUR_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const THEIR_MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
const PORT: u16 = 80;

fn settings() -> Settings {
    Settings {
        mac: OUR_MAC,
        address: OURS,
        prefix: 16,
        gateway: None,
        resolver: None,
        wide: Wide::Is(OURS6, 64),
        max_packet: 1500,
    }
}

/// What the peers speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ip {
    V4,
    V6,
}

impl Ip {
    const ALL: [Ip; 2] = [Ip::V4, Ip::V6];

    fn ours(self) -> IpAddr {
        if self == Ip::V4 { OURS.into() } else { OURS6.into() }
    }

    fn theirs(self) -> IpAddr {
        if self == Ip::V4 { THEIRS.into() } else { THEIRS6.into() }
    }
}

fn words() -> Vec<AtomicU64> {
    (0..memory::words(8)).map(|_| AtomicU64::new(0)).collect()
}

/// Xorshift: the same run for the same seed.
struct Draw(u64);

impl Draw {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }
}

/// What happens to frames, in thousandths.
#[derive(Clone, Copy, Debug)]
struct Link {
    lost: u64,
    repeated: u64,
    damaged: u64,
    /// Frames take from one to this many hundredths of a millisecond.
    spread: u64,
}

const GOOD: Link = Link { lost: 0, repeated: 0, damaged: 0, spread: 1 };

/// A client: what it sends, and what has come back.
struct Client {
    handle: SocketHandle,
    sends: Vec<u8>,
    sent: usize,
    got: Vec<u8>,
    failed: bool,
}

struct World {
    link: Link,
    draw: Draw,
    now: Instant,
    /// Frames on their way: when they come, in which order they left, to us or to them.
    flying: BTreeMap<(Instant, u64), (bool, Vec<u8>)>,
    order: u64,
    device: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    clients: Vec<Client>,
    /// Clients do not end, though they have sent all.
    stays: bool,
}

impl World {
    fn new(ip: Ip, seed: u64, link: Link, streams: &[usize]) -> World {
        let mut draw = Draw(seed | 1);
        let mut device = Queues::of_frames(1514, usize::MAX);
        let mac = HardwareAddress::Ethernet(EthernetAddress(THEIR_MAC.0));
        let mut config = Config::new(mac);
        config.random_seed = seed;
        let now = Instant::from_nanos(1_000_000);
        let mut interface = Interface::new(config, &mut device, engine_time(now));
        interface.update_ip_addrs(|own| {
            own.push(IpCidr::new(THEIRS.into(), 16)).unwrap();
            own.push(IpCidr::new(THEIRS6.into(), 64)).unwrap();
        });
        let mut sockets = SocketSet::new(Vec::new());
        let mut clients = Vec::new();
        for (port, length) in (2000..).zip(streams) {
            let buffer = || SocketBuffer::new(std::vec![0; 32 << 10]);
            let mut socket = Socket::new(buffer(), buffer());
            socket.connect(interface.context(), (ip.ours(), PORT), port).unwrap();
            let sends = (0..*length).map(|_| draw.next(256) as u8).collect();
            let handle = sockets.add(socket);
            clients.push(Client { handle, sends, sent: 0, got: Vec::new(), failed: false });
        }
        let flying = BTreeMap::new();
        let (order, stays) = (0, false);
        World { link, draw, now, flying, order, device, interface, sockets, clients, stays }
    }

    fn fly(&mut self, to_us: bool, frame: Vec<u8>) {
        let copies = match (self.draw.next(1000), self.draw.next(1000)) {
            (lost, _) if lost < self.link.lost => 0,
            (_, repeated) if repeated < self.link.repeated => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let mut frame = frame.clone();
            // Of an answer to ARP and of Ethernet's header only Ethernet's own check sequence would
            // tell.
            let checked = &mut frame[14..];
            if matches!(checked[0] >> 4, 4 | 6) && self.draw.next(1000) < self.link.damaged {
                let at = self.draw.next(checked.len() as u64) as usize;
                checked[at] ^= 1 << self.draw.next(8);
            }
            let takes = Duration::from_micros(10 * (1 + self.draw.next(self.link.spread)));
            self.order += 1;
            self.flying.insert((self.now + takes, self.order), (to_us, frame));
        }
    }

    /// The clients' turn.
    fn turn(&mut self, arrived: Vec<Vec<u8>>) {
        let now = engine_time(self.now);
        for frame in arrived {
            self.device.came.push_back(frame);
            self.interface.poll_ingress_single(now, &mut self.device, &mut self.sockets);
        }
        for client in &mut self.clients {
            let socket = self.sockets.get_mut::<Socket<'static>>(client.handle);
            while socket.can_recv() {
                let got = &mut client.got;
                socket
                    .recv(|bytes| {
                        got.extend_from_slice(bytes);
                        (bytes.len(), ())
                    })
                    .unwrap();
            }
            if socket.may_send() {
                let rest = &client.sends[client.sent..];
                client.sent += socket.send_slice(rest).unwrap_or(0);
                if client.sent == client.sends.len() && !self.stays {
                    socket.close();
                }
            }
            let whole = client.got.len() == client.sends.len();
            client.failed |= socket.state() == State::Closed && !whole;
        }
        while self.interface.poll_egress(now, &mut self.device, &mut self.sockets)
            != smoltcp::iface::PollResult::None
        {}
        for frame in core::mem::take(&mut self.device.goes) {
            self.fly(true, frame);
        }
    }

    fn is_over(&mut self) -> bool {
        let all = self.clients.iter();
        all.map(|it| self.sockets.get::<Socket<'static>>(it.handle).state())
            .all(|state| matches!(state, State::Closed | State::TimeWait))
    }
}

/// The user of the stack: gives back what comes. That as much was produced as was consumed is all
/// its state, so it can be lost at any time.
fn echo(stream: &Stream<'_>) {
    stream.consume(stream.produced());
    let mut bytes = [0; 1000];
    while stream.readable() > 0 && stream.room() > 0 {
        let room = stream.room().min(bytes.len());
        let count = stream.peek(&mut bytes[..room]);
        stream.stage(0, &bytes[..count]);
        stream.produce(stream.produced() + count as u64);
        stream.consume(stream.produced());
    }
    if stream.has_ended() && stream.readable() == 0 {
        stream.close();
    }
}

/// When the stack is lost, in thousandths of its turns.
#[derive(Clone, Copy, Debug)]
enum Lost {
    /// Before what it does is told to anybody.
    Early(u64),
    /// The control: after it was told, and what was published meanwhile is lost, too.
    Late(u64),
}

/// Runs until all streams are over. How often connections were resumed, or why it does not end.
fn run(
    world: &mut World,
    words: &[AtomicU64],
    lost: Lost,
    rules: &str,
) -> Result<u64, &'static str> {
    run_with(world, words, lost, rules, echo)
}

/// The same with another user of the stack.
fn run_with(
    world: &mut World,
    words: &[AtomicU64],
    lost: Lost,
    rules: &str,
    user: impl Fn(&Stream<'_>),
) -> Result<u64, &'static str> {
    let start = |now| {
        let mut stack = Stack::new(settings(), Memory::new(words, [7, 8]).unwrap(), now);
        stack.listen(PORT);
        stack.set_rules(now, rules.parse().unwrap());
        stack
    };
    let mut stack = start(world.now);
    let mut resumed = 0;
    world.turn(Vec::new());
    for _ in 0..400_000 {
        if world.is_over() && stack.streams().next().is_none() {
            return Ok(resumed);
        }
        let ours = stack.next_due(world.now);
        let theirs = world.interface.poll_at(engine_time(world.now), &world.sockets);
        let theirs = theirs.map(crate::from_engine_time);
        let flying = world.flying.keys().next().map(|(at, _)| *at);
        let Some(next) = [ours, theirs, flying].into_iter().flatten().min() else {
            return Err("nothing is due");
        };
        world.now = next.max(world.now + Duration::from_micros(1));
        let is_lost = |world: &mut World, of| world.draw.next(1000) < of;
        let before = match lost {
            Lost::Late(of) if is_lost(world, of) => Some(stored(words)),
            _ => None,
        };
        let mut arrived = Vec::new();
        while let Some(entry) = world.flying.first_entry()
            && entry.key().0 <= world.now
        {
            let (to_us, frame) = entry.remove();
            match to_us {
                true => stack.receive(world.now, &frame),
                false => arrived.push(frame),
            }
        }
        if let Lost::Early(of) = lost
            && is_lost(world, of)
        {
            stack = start(world.now);
            resumed += stack.counts().tcp.resumed;
        }
        stack.streams().for_each(|stream| user(&stream));
        stack.turn(world.now);
        while let Some(frame) = stack.transmit() {
            world.fly(false, frame);
        }
        if let Some(before) = before {
            words.iter().zip(before).for_each(|(word, value)| word.store(value, Relaxed));
            stack = start(world.now);
            resumed += stack.counts().tcp.resumed;
        }
        world.turn(arrived);
    }
    Err("it takes too long")
}

fn stored(words: &[AtomicU64]) -> Vec<u64> {
    words.iter().map(|word| word.load(Relaxed)).collect()
}

fn check(ip: Ip, seed: u64, link: Link, streams: &[usize], lost: u64) -> (Vec<AtomicU64>, u64) {
    check_behind("", ip, seed, link, streams, lost)
}

/// The same behind a packet filter.
fn check_behind(
    rules: &str,
    ip: Ip,
    seed: u64,
    link: Link,
    streams: &[usize],
    lost: u64,
) -> (Vec<AtomicU64>, u64) {
    let (mut world, words) = (World::new(ip, seed, link, streams), words());
    let resumed = run(&mut world, &words, Lost::Early(lost), rules).unwrap_or_else(|what| {
        let of = |it: &Client| {
            let state = world.sockets.get::<Socket<'static>>(it.handle).state();
            (state, it.sent, it.got.len(), it.sends.len())
        };
        let states: Vec<_> = world.clients.iter().map(of).collect();
        panic!("{what}: {states:?} at {:?}", world.now)
    });
    for client in &world.clients {
        let (got, sends) = (&client.got, &client.sends);
        let same = got.iter().zip(sends).take_while(|(got, sent)| got == sent).count();
        let lengths = (got.len(), sends.len());
        assert!(!client.failed && got == sends, "{lengths:?}, the first {same} are the same");
    }
    (words, resumed)
}

#[test]
fn streams_come_back_whole() {
    for ip in Ip::ALL {
        let (words, _) = check(ip, 1, GOOD, &[0, 1, 100, 1460, 100_000], 0);
        let stack = Stack::new(settings(), Memory::new(&words, [0, 0]).unwrap(), Instant::START);
        assert_eq!(stack.streams().count(), 0, "nothing is left of those that are over");
    }
}

#[test]
fn streams_survive_their_engines() {
    for ip in Ip::ALL {
        let (_, resumed) = check(ip, 2, GOOD, &[50_000, 200_000, 10], 200);
        assert!(resumed > 15, "{ip:?}: it was to be resumed, and was {resumed} times");
    }
}

#[test]
fn what_is_acknowledged_before_it_is_kept_is_lost() {
    let (mut world, words) = (World::new(Ip::V4, 3, GOOD, &[100_000]), words());
    let end = run(&mut world, &words, Lost::Late(300), "");
    let client = &world.clients[0];
    assert!(end.is_err() || client.failed || client.got != client.sends, "{end:?}");
}

#[test]
fn any_frame_is_taken() {
    let words = words();
    let mut stack = Stack::new(settings(), Memory::new(&words, [7, 8]).unwrap(), Instant::START);
    stack.listen(PORT);
    let mut draw = Draw(5);
    let mut now = Instant::from_nanos(1_000_000);
    let mut good = Vec::new();
    for ip in Ip::ALL {
        let mut world = World::new(ip, 9, GOOD, &[3000]);
        world.turn(Vec::new());
        good.extend(world.flying.into_values().map(|it| it.1));
    }
    for round in 0..20_000u64 {
        let mut frame = good[round as usize % good.len()].clone();
        for _ in 0..draw.next(4) {
            let at = draw.next(frame.len() as u64) as usize;
            frame[at] = draw.next(256) as u8;
        }
        frame.truncate(frame.len() - draw.next(frame.len() as u64) as usize / 3);
        stack.receive(now, &frame);
        now = now + Duration::from_micros(100);
        stack.turn(now);
        while stack.transmit().is_some() {}
    }
    assert!(stack.counts().received == 20_000 && stack.counts().ignored > 100);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the link does to frames, and whenever the stack is lost, what a peer sends comes
    /// back to it whole.
    #[test]
    fn streams_are_exact(
        seed in 1..u64::MAX,
        six: bool,
        lost in 0..80u64,
        repeated in 0..50u64,
        damaged in 0..20u64,
        spread in 1..40u64,
        crashes in 0..60u64,
        streams in proptest::collection::vec(0..60_000usize, 1..5),
    ) {
        let ip = if six { Ip::V6 } else { Ip::V4 };
        check(ip, seed, Link { lost, repeated, damaged, spread }, &streams, crashes);
    }
}
