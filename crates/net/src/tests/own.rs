//! Connections that a stack opens itself, to another stack and to a stock smoltcp socket, and
//! datagrams.

use core::net::SocketAddr;

use smoltcp::wire::IpEndpoint;

use super::*;
use crate::{Datagram, Peer, Progress};

fn their_settings() -> Settings {
    let wide = Wide::Is(THEIRS6, 64);
    Settings { mac: THEIR_MAC, address: THEIRS, wide, ..settings() }
}

/// Two stacks, and a link between them that loses one frame of so many.
pub struct Pair<'m> {
    pub stacks: [Stack<'m>; 2],
    pub now: Instant,
    draw: Draw,
    loses: u64,
}

impl<'m> Pair<'m> {
    pub fn new(ours: &'m [AtomicU64], theirs: &'m [AtomicU64], loses: u64) -> Pair<'m> {
        let now = Instant::from_nanos(1_000_000);
        let stack =
            |settings, words| Stack::new(settings, Memory::new(words, [7, 8]).unwrap(), now);
        let stacks = [stack(settings(), ours), stack(their_settings(), theirs)];
        Pair { stacks, now, draw: Draw(11), loses }
    }

    /// Frames go to and fro, until nothing is left to be sent; then time passes.
    pub fn turn(&mut self) {
        loop {
            let mut moved = false;
            for side in 0..2 {
                self.stacks[side].turn(self.now);
                while let Some(frame) = self.stacks[side].transmit() {
                    moved = true;
                    if self.loses == 0 || self.draw.next(self.loses) > 0 {
                        self.stacks[1 - side].receive(self.now, &frame);
                    }
                }
            }
            if !moved {
                break;
            }
        }
        let due = self.stacks.iter_mut().filter_map(|stack| stack.next_due(self.now)).min();
        let (soon, late) = (Duration::from_millis(1), self.now + Duration::from_millis(200));
        self.now = due.unwrap_or(late).clamp(self.now + soon, late);
    }

    pub fn settled(&mut self, peer: Peer) -> Progress<'m> {
        for _ in 0..10_000 {
            match self.stacks[0].progress(peer) {
                Progress::Waits => self.turn(),
                other => return other,
            }
        }
        panic!("nothing is said of {peer:?}")
    }
}

#[test]
fn a_stack_opens_a_connection_and_both_sides_end_it() {
    for (ip, loses) in [(Ip::V4, 0), (Ip::V4, 5), (Ip::V6, 0), (Ip::V6, 5)] {
        let (ours, theirs) = (words(), words());
        let mut pair = Pair::new(&ours, &theirs, loses);
        pair.stacks[1].listen(PORT);
        let to = SocketAddr::new(ip.theirs(), PORT);
        let peer = pair.stacks[0].connect(pair.now, to).unwrap();
        let Progress::Open(stream) = pair.settled(peer) else { panic!("it is to be open") };
        let sends: Vec<u8> = (0..100_000u32).map(|it| (it >> 3) as u8).collect();
        let (mut sent, mut got) = (0, Vec::new());
        for round in 0..10_000 {
            let count = stream.stage(0, &sends[sent..]);
            stream.produce(stream.produced() + count as u64);
            sent += count;
            if sent == sends.len() {
                stream.shut();
            }
            pair.stacks[1].streams().for_each(|it| echo(&it));
            let mut piece = [0; 4000];
            let count = stream.peek(&mut piece);
            got.extend_from_slice(&piece[..count]);
            stream.consume(stream.consumed() + count as u64);
            if stream.has_ended() && stream.readable() == 0 {
                break;
            }
            pair.turn();
            assert!(round < 9_999, "{sent} sent, {} have come back", got.len());
        }
        assert!(got == sends, "{} of {}", got.len(), sends.len());
        assert_eq!(pair.stacks[0].streams().count(), 1, "its user has not said that it is done");
        stream.close();
        (0..200).for_each(|_| pair.turn());
        assert!(pair.stacks.iter().all(|stack| stack.streams().next().is_none()));
        assert_eq!(pair.stacks[0].counts().tcp.opened, 1);
    }
}

#[test]
fn who_listens_soon_after_the_stack_has_begun_gets_what_was_opened_before() {
    let (ours, theirs) = (words(), words());
    let mut pair = Pair::new(&ours, &theirs, 0);
    let peer = pair.stacks[0].connect(pair.now, SocketAddr::new(THEIRS.into(), PORT)).unwrap();
    (0..3).for_each(|_| pair.turn());
    assert_eq!(pair.stacks[1].counts().tcp.strays, 1, "the SYN has come");
    pair.stacks[1].listen(PORT);
    assert!(matches!(pair.settled(peer), Progress::Open(_)));
    // A second later nobody is expected any more.
    let begun = pair.now;
    let peer = pair.stacks[0].connect(begun, SocketAddr::new(THEIRS.into(), PORT + 1)).unwrap();
    assert!(matches!(pair.settled(peer), Progress::Refused));
    assert!(pair.now.since(begun) < Duration::from_secs(1), "it was told at once");
}

#[test]
fn what_is_opened_to_nobody_is_refused_or_not_answered() {
    let (ours, theirs) = (words(), words());
    let mut pair = Pair::new(&ours, &theirs, 0);
    let peer = pair.stacks[0].connect(pair.now, SocketAddr::new(THEIRS.into(), PORT)).unwrap();
    assert!(matches!(pair.settled(peer), Progress::Refused));
    let nobody = SocketAddr::new(Ipv4Addr::new(10, 42, 0, 77).into(), PORT);
    let begun = pair.now;
    let peer = pair.stacks[0].connect(pair.now, nobody).unwrap();
    assert!(matches!(pair.settled(peer), Progress::NoAnswer));
    let took = pair.now.since(begun);
    assert!((Duration::from_secs(10)..Duration::from_secs(40)).contains(&took), "{took:?}");
}

#[test]
fn a_stack_opens_a_connection_to_a_stock_socket() {
    Ip::ALL.into_iter().for_each(opens_to_a_stock_socket);
}

fn opens_to_a_stock_socket(ip: Ip) {
    let words = words();
    let mut world = World::new(ip, 4, GOOD, &[]);
    let mut stack = Stack::new(settings(), Memory::new(&words, [7, 8]).unwrap(), world.now);
    let buffer = || SocketBuffer::new(std::vec![0; 32 << 10]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.listen(IpEndpoint::new(ip.theirs().into(), PORT)).unwrap();
    let handle = world.sockets.add(socket);
    let peer = stack.connect(world.now, SocketAddr::new(ip.theirs(), PORT)).unwrap();
    let mut got = Vec::new();
    for _ in 0..10_000 {
        stack.turn(world.now);
        while let Some(frame) = stack.transmit() {
            world.fly(false, frame);
        }
        world.now = world.now + Duration::from_millis(1);
        let mut arrived = Vec::new();
        for (to_us, frame) in core::mem::take(&mut world.flying).into_values() {
            match to_us {
                true => stack.receive(world.now, &frame),
                false => arrived.push(frame),
            }
        }
        world.turn(arrived);
        let socket = world.sockets.get_mut::<Socket<'static>>(handle);
        if socket.can_send() && got.is_empty() {
            assert_eq!(socket.send_slice(b"hello"), Ok(5));
            got.push(b'>');
        }
        let Progress::Open(stream) = stack.progress(peer) else { continue };
        let mut bytes = [0; 100];
        let count = stream.peek(&mut bytes);
        if count == 5 {
            got.extend_from_slice(&bytes[..count]);
            break;
        }
    }
    assert_eq!(got, b">hello");
}

#[test]
fn datagrams_come_whole_and_a_port_is_one_users() {
    Ip::ALL.into_iter().for_each(datagrams_come_whole);
}

fn datagrams_come_whole(ip: Ip) {
    let (ours, theirs) = (words(), words());
    let mut pair = Pair::new(&ours, &theirs, 0);
    assert!(pair.stacks[1].bind(7) && !pair.stacks[1].bind(7) && pair.stacks[0].bind(9));
    let to = SocketAddr::new(ip.theirs(), 7);
    let longest = pair.stacks[0].max_datagram(to.ip());
    assert_eq!(longest, if ip == Ip::V4 { 1472 } else { 1452 });
    for length in [0, 1, 1000, longest] {
        let bytes: Vec<u8> = (0..length).map(|it| it as u8).collect();
        assert!(pair.stacks[0].send(pair.now, 9, to, &bytes));
        pair.turn();
        let datagram = Datagram { from: SocketAddr::new(ip.ours(), 9), bytes };
        assert_eq!(pair.stacks[1].take(7), Some(datagram));
    }
    assert!(!pair.stacks[0].send(pair.now, 9, to, &std::vec![0; longest + 1]), "it is too long");
    (0..100u8).for_each(|it| assert!(pair.stacks[0].send(pair.now, 9, to, &[it])));
    pair.turn();
    assert_eq!(pair.stacks[1].counts().udp.dropped, 36, "64 wait at a port");
    pair.stacks[1].unbind(7);
    let ignored = pair.stacks[0].counts().ignored;
    assert!(pair.stacks[0].send(pair.now, 9, to, &[1]));
    pair.turn();
    assert_eq!((pair.stacks[1].counts().udp.strays, pair.stacks[1].take(7)), (1, None));
    // The answer is ICMP, which nobody here waits for.
    assert_eq!(pair.stacks[0].counts().ignored, ignored + 1);
}
