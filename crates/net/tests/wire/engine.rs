//! Our stack in virtual time, sound or harmed.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use nile_abi::{Instant, MacAddress};
use nile_net::{Memory, Progress, Settings, Stack, Stream, Wide};
use smoltcp::wire::{Ipv4Packet, TcpPacket, TcpSeqNumber};

use crate::packet::{Came, Ends, IP_HEADER, byte_at};
use crate::play::Host;
use crate::script::Call;
use crate::tap::{answer_arp, frame, ipv4_of};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 42, 1, 1);
const PORTS: (u16, u16) = (80, 4000);
const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(70);

/// When scripts begin: listeners have come back by then.
const BEGINS: Duration = Duration::from_secs(10);

/// Rules that a stack may break: the controls of the scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Harm {
    None,
    /// A SYN or a reset in a connection is not challenged (RFC 5961).
    NoChallenge,
    /// Any reset ends a connection.
    AnyReset,
    /// What was lost is never sent again.
    NothingAgain,
    /// There is always room.
    AlwaysRoom,
    /// More is acknowledged than has come.
    AcksMore,
    /// No reset is sent.
    NoReset,
    /// Wrong checksums are right ones.
    AnyChecksum,
    /// The peer's window is as large as can be.
    NoWindow,
    /// Segments are as large as can be.
    NoLargest,
    /// What was acknowledged is heard of only by the next segment that has bytes.
    NoEnd,
}

pub const HARMS: [Harm; 10] = [
    Harm::NoChallenge,
    Harm::AnyReset,
    Harm::NothingAgain,
    Harm::AlwaysRoom,
    Harm::AcksMore,
    Harm::NoReset,
    Harm::AnyChecksum,
    Harm::NoWindow,
    Harm::NoLargest,
    Harm::NoEnd,
];

pub fn words() -> Vec<AtomicU64> {
    (0..nile_net::memory::words(2)).map(|_| AtomicU64::new(0)).collect()
}

pub struct Engine<'m> {
    stack: Stack<'m>,
    harm: Harm,
    now: Instant,
    ends: Ends,
    opens: Option<nile_net::Peer>,
    stream: Option<(Stream<'m>, u64)>,
    read: i64,
    out: VecDeque<Vec<u8>>,
    /// What a harmed one remembers: our highest number, what we have acknowledged, and whether a
    /// challenge is due.
    highest: Option<u32>,
    acknowledged: u32,
    challenged: bool,
}

impl<'m> Engine<'m> {
    pub fn new(words: &'m [AtomicU64], harm: Harm) -> Engine<'m> {
        let memory = Memory::new(words, [7, 8]).expect("memory of two connections");
        let settings = Settings {
            mac: MAC,
            address: HOST,
            prefix: 16,
            gateway: None,
            resolver: None,
            wide: Wide::None,
            max_packet: 1500,
        };
        let stack = Stack::new(settings, memory, Instant::START);
        Engine {
            stack,
            harm,
            now: Instant::START + BEGINS,
            ends: Ends { host: (HOST, PORTS.0), peer: (PEER, PORTS.1) },
            opens: None,
            stream: None,
            read: 0,
            out: VecDeque::new(),
            highest: None,
            acknowledged: 0,
            challenged: false,
        }
    }

    fn turn(&mut self) {
        self.stack.turn(self.now);
        while let Some(bytes) = self.stack.transmit() {
            if let Some(answer) = answer_arp(&bytes) {
                self.stack.receive(self.now, &answer);
                self.stack.turn(self.now);
            } else if let Some((_, _, packet)) = ipv4_of(&bytes) {
                self.leave(packet.to_vec());
            }
        }
    }

    /// A packet leaves, or what a harmed stack makes of it.
    fn leave(&mut self, mut packet: Vec<u8>) {
        let Ok(came) = Came::parse(&packet) else { return self.out.push_back(packet) };
        let end = came.seq.wrapping_add(came.takes());
        let is_old = self.highest.is_some_and(|it| (came.seq.wrapping_sub(it) as i32) < 0);
        let is_again = is_old && came.takes() > 0 && !came.flags.rst;
        if self.highest.is_none_or(|it| (end.wrapping_sub(it) as i32) > 0) && !came.flags.rst {
            self.highest = Some(end);
        }
        let challenges = std::mem::take(&mut self.challenged) && came.is_bare();
        let ends = came.flags.fin;
        let lost = match self.harm {
            Harm::NoChallenge => challenges,
            Harm::NothingAgain => is_again,
            Harm::NoReset => came.flags.rst,
            Harm::NoEnd => ends,
            _ => false,
        };
        if lost {
            return;
        }
        self.acknowledged = came.ack;
        self.change(&mut packet, |tcp, harm| match harm {
            Harm::AlwaysRoom if !came.flags.rst => tcp.set_window_len(came.window.max(1000)),
            Harm::AcksMore if came.is_bare() => tcp.set_ack_number(number(came.ack + 1)),
            _ => {}
        });
        self.out.push_back(packet);
    }

    /// Changes a segment as the harm wants.
    fn change(&self, packet: &mut [u8], how: impl FnOnce(&mut TcpPacket<&mut [u8]>, Harm)) {
        let ip = Ipv4Packet::new_unchecked(&*packet);
        let (from, to) = (ip.src_addr(), ip.dst_addr());
        let mut tcp = TcpPacket::new_unchecked(&mut packet[IP_HEADER..]);
        how(&mut tcp, self.harm);
        tcp.fill_checksum(&from.into(), &to.into());
    }

    /// A packet comes, or what a harmed stack takes for it.
    fn come(&mut self, packet: &mut [u8]) {
        let said = Came::parse(packet);
        if self.harm == Harm::None || said.is_err() && self.harm != Harm::AnyChecksum {
            return;
        }
        if self.harm == Harm::AnyChecksum {
            return self.change(packet, |_, _| {});
        }
        let Ok(came) = said else { return };
        self.challenged = self.stream.is_some() && (came.flags.rst || came.flags.syn);
        let acknowledged = self.acknowledged;
        self.change(packet, |tcp, harm| match harm {
            Harm::AnyReset if came.flags.rst => tcp.set_seq_number(number(acknowledged)),
            Harm::NoWindow => tcp.set_window_len(u16::MAX),
            _ => {}
        });
        if self.harm == Harm::NoLargest && came.mss.is_some() {
            let at = IP_HEADER + 20;
            packet[at + 2..at + 4].copy_from_slice(&1460u16.to_be_bytes());
            self.change(packet, |_, _| {});
        }
    }

    /// Lets time pass until something holds.
    fn until(&mut self, mut holds: impl FnMut(&mut Self) -> bool) -> Result<(), String> {
        let until = self.now + PATIENCE;
        loop {
            self.turn();
            if holds(self) {
                return Ok(());
            }
            if self.now >= until {
                return Err("the program waits for ever".into());
            }
            self.pass(until);
        }
    }

    fn pass(&mut self, until: Instant) {
        let due = self.stack.next_due(self.now).unwrap_or(until).min(until);
        self.now = due.max(self.now + Duration::from_micros(1));
    }

    fn stream(&self) -> Result<Stream<'m>, String> {
        self.stream.map(|it| it.0).ok_or("no connection".into())
    }
}

fn number(sequence: u32) -> TcpSeqNumber {
    TcpSeqNumber(sequence as i32)
}

impl Host for Engine<'_> {
    fn ends(&self) -> Ends {
        self.ends
    }

    fn now(&self) -> Duration {
        self.now.since(Instant::START)
    }

    fn give(&mut self, packet: &[u8]) {
        let mut packet = packet.to_vec();
        if packet[9] == 6 {
            self.come(&mut packet);
        }
        self.stack.receive(self.now, &frame(MAC.0, &packet));
        self.turn();
    }

    fn next(&mut self, within: Duration) -> Option<Vec<u8>> {
        let until = self.now + within;
        loop {
            self.turn();
            if let Some(packet) = self.out.pop_front() {
                return Some(packet);
            }
            if self.now >= until {
                return None;
            }
            self.pass(until);
        }
    }

    fn call(&mut self, call: Call) -> Result<(), String> {
        match call {
            Call::Listen => self.stack.listen(PORTS.0),
            Call::Unlisten => self.stack.unlisten(PORTS.0),
            Call::Connect => {
                let to = SocketAddr::new(IpAddr::V4(PEER), PORTS.1);
                let peer = self.stack.connect(self.now, to).ok_or("no port is free")?;
                self.ends.host.1 = peer.local;
                self.opens = Some(peer);
            }
            Call::Connected | Call::Refused => {
                let peer = self.opens.ok_or("it does not connect")?;
                let mut said = Progress::Waits;
                self.until(|it| {
                    said = it.stack.progress(peer);
                    !matches!(said, Progress::Waits)
                })?;
                match (call, said) {
                    (Call::Connected, Progress::Open(stream)) => {
                        self.stream = Some((stream, stream.serial()));
                    }
                    (Call::Refused, Progress::Refused) => {}
                    _ => return Err(format!("{call:?} is not so: {said:?}")),
                }
            }
            Call::Accept => {
                let mut fresh = None;
                self.until(|it| {
                    fresh = it.stack.next_fresh();
                    fresh.is_some()
                })?;
                self.stream = fresh.map(|it| (it, it.serial()));
                self.read = 0;
            }
            Call::Send(count) => {
                let stream = self.stream()?;
                let first = stream.produced() as i64;
                let bytes: Vec<u8> = (first..first + count as i64).map(byte_at).collect();
                if stream.stage(0, &bytes) != count {
                    return Err("no room for what it sends".into());
                }
                stream.produce(stream.produced() + count as u64);
            }
            Call::Read(count) => {
                let stream = self.stream()?;
                let to = count.map_or(0, |it| self.read + it as i64);
                while self.read < to {
                    self.until(|_| stream.readable() > 0)?;
                    let mut bytes = vec![0; stream.readable().min((to - self.read) as usize)];
                    let had = stream.peek(&mut bytes);
                    if !(self.read..).zip(&bytes[..had]).all(|(at, byte)| byte_at(at) == *byte) {
                        return Err(format!("what is read from {} on is wrong", self.read));
                    }
                    self.read += had as i64;
                    stream.consume(self.read as u64);
                }
            }
            Call::ReadEnd => {
                let stream = self.stream()?;
                self.until(|_| stream.has_ended())?;
                if stream.readable() > 0 {
                    return Err("there is more to read".into());
                }
            }
            Call::ReadReset => {
                let (stream, serial) = self.stream.ok_or("no connection")?;
                self.until(|_| stream.serial() != serial)?;
            }
            Call::Shut => self.stream()?.shut(),
            Call::Close => self.stream()?.close(),
            Call::Abort => self.stream()?.abort(),
            // It always asks.
            Call::KeepAlive => {}
        }
        self.turn();
        Ok(())
    }
}
