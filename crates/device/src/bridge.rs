//! A supervisor's interface, to which the loops of its domains are plugged (RainForest 5.4's RFtun
//! in its simplest form): frames go between domains, to the supervisor's own node and to the
//! network. A domain has the interface's address but for the last byte, which says its place; a
//! frame from a loop with another sender is dropped, so that no domain speaks as somebody else.
//!
//! Frames are forwarded whenever the core that drives the interface looks for its own. Each is
//! charged to the domain that it comes from ([`Toll`]). A flood takes nothing that others are to
//! have:
//!
//! * Loops are looked at in turn, for as many bytes as their weights say ([`Rounds`]).
//! * What goes beyond a domain's rate and burst is dropped ([`Bucket`]).
//! * Of the room in another domain's loop it takes, for each of its weight, at most four times as
//!   much as is left then (dynamic thresholds, Choudhury and Hahne 1998): a loop that one has
//!   filled as far as it can takes frames of others.
//!
//! What finds no room at its other end is dropped and counted.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Instant, MacAddress};
use nile_domain::Carried;

use crate::fair::{Bucket, Rounds, Served};
use crate::interface::Traffic;
use crate::rfloop::{Frame, SLOTS};
use crate::toll::Toll;
use crate::{FrameLoop, Interface, Line, LoopEnd};

/// The last byte of the address of the domain in place 0, which there is not.
const FIRST_PLACE: u8 = 0x80;

/// How many times as much room as is left then a domain's frames may take of another's loop.
const SHARE: u64 = 4;

/// What a frame costs in turns besides its bytes: small ones keep the core busy, too.
const FRAME_COST: u64 = 512;

/// An interface with loops.
pub struct Bridge<W, N> {
    network: Box<dyn Interface>,
    ports: Vec<Port>,
    wake: W,
    now: N,
    rounds: RefCell<Rounds>,
    frame: RefCell<Frame>,
    traffic: Cell<Traffic>,
}

/// A loop, and who is at its other end.
struct Port {
    end: LoopEnd,
    address: MacAddress,
    toll: Toll,
    bucket: Cell<Bucket>,
    /// Which port each frame has come from that is in the loop's ring, if from any.
    origins: [Cell<Option<u8>>; SLOTS as usize],
}

impl Port {
    /// Whether there is room for a frame from a port, and it may take that.
    fn has_room(&self, from: u8, weight: u64) -> bool {
        let (next, held) = self.end.held();
        let frames = (1..=held).map(|back| next.wrapping_sub(back));
        let own = frames.filter(|it| self.origin(*it).get() == Some(from)).count() as u64;
        own < (SLOTS - held) * SHARE * weight
    }

    fn origin(&self, number: u64) -> &Cell<Option<u8>> {
        &self.origins[(number % SLOTS) as usize]
    }

    /// Puts a frame in; whether there was room for it.
    fn put(&self, frame: &[u8], from: Option<(u8, u64)>) -> bool {
        if from.is_some_and(|(from, weight)| !self.has_room(from, weight)) {
            return false;
        }
        let (number, _) = self.end.held();
        let is_put = self.end.put(frame);
        if is_put {
            self.origin(number).set(from.map(|(from, _)| from));
        }
        is_put
    }
}

/// Who a frame is for.
struct Meant {
    own: bool,
    network: bool,
    /// The port; with a group's address all of them.
    port: Option<usize>,
    all: bool,
}

impl<W: Fn(u32), N: Fn() -> Instant> Bridge<W, N> {
    /// Plugs the loops, by place from 1 and each with its toll, to an interface whose core has the
    /// name `own` in its machine. `wake` interrupts the core of a name.
    pub fn new(
        network: Box<dyn Interface>,
        loops: impl Iterator<Item = (FrameLoop, Toll)>,
        own: u32,
        wake: W,
        now: N,
    ) -> Bridge<W, N> {
        let base = network.address();
        let ports = (1u8..).zip(loops).map(|(place, (frames, toll))| {
            let mut address = base;
            // The group bit is not in this byte.
            address.0[5] = FIRST_PLACE | place;
            frames.set_address(address);
            let (end, bucket) = (frames.supervisor_end(own), Cell::default());
            Port { end, address, toll, bucket, origins: [const { Cell::new(None) }; _] }
        });
        let ports: Vec<Port> = ports.collect();
        let rounds = RefCell::new(Rounds::new(ports.len()));
        let (frame, traffic) = Default::default();
        Bridge { network, ports, wake, now, rounds, frame, traffic }
    }

    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        change(&mut traffic);
        self.traffic.set(traffic);
    }

    /// Who is to have a frame that comes from a port, or from the network or this node.
    fn meant(&self, frame: &[u8], from: Option<usize>) -> Meant {
        let to = frame.first_chunk().map_or(MacAddress::BROADCAST, |it| MacAddress(*it));
        if to.is_group() {
            return Meant { own: true, network: true, port: None, all: true };
        }
        let port = self.ports.iter().position(|it| it.address == to);
        let own = to == self.network.address();
        let known = own || port.is_some();
        Meant { own, network: !known, port: port.filter(|it| Some(*it) != from), all: false }
    }

    /// Puts a frame into the loops that it is for; how many of these had no room.
    fn forward(&self, frame: &[u8], meant: &Meant, from: Option<usize>) -> u64 {
        let by = from.map(|from| (from as u8, self.ports[from].toll.limit().weight));
        let mut refused = 0;
        for (index, port) in self.ports.iter().enumerate() {
            if Some(index) == from || !(meant.all || meant.port == Some(index)) {
                continue;
            }
            let sent = port.put(frame, by);
            // Nobody needs to be there whom a group's frame is for.
            if sent || !meant.all {
                self.count(|traffic| traffic.went(frame.len(), sent));
                refused += u64::from(!sent);
            }
        }
        refused
    }

    fn wake_all(&self) {
        self.ports.iter().filter_map(|port| port.end.to_wake()).for_each(&self.wake);
    }

    /// Takes at most `limit` frames that have come from domains; how many there were.
    fn receive_from_loops(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let (Ok(mut frame), Ok(mut rounds)) =
            (self.frame.try_borrow_mut(), self.rounds.try_borrow_mut())
        else {
            return 0;
        };
        let mut given = 0;
        let mut before = (self.now)();
        let weight = |index: usize| self.ports[index].toll.limit().weight;
        rounds.run(weight, |index| {
            if given == limit {
                return Served::Enough;
            }
            let port = &self.ports[index];
            port.end.awake();
            let Some(length) = port.end.take(&mut frame) else { return Served::Nothing };
            given += 1;
            let carried = self.carry(index, frame.bytes(length), before, take);
            let now = (self.now)();
            port.toll.charge(Carried { time: now.since(before), ..carried });
            before = now;
            Served::Used(FRAME_COST + length as u64)
        });
        given
    }

    /// Has a frame that has come from a port go on, if it may; what was done of that.
    fn carry(
        &self,
        index: usize,
        bytes: &[u8],
        now: Instant,
        take: &mut dyn FnMut(&[u8]),
    ) -> Carried {
        let (port, length) = (&self.ports[index], bytes.len() as u64);
        let is_one = bytes.len() >= HEADER_BYTES && bytes.get(6..12) == Some(&port.address.0[..]);
        let mut bucket = port.bucket.get();
        let goes_on = is_one && bucket.take(port.toll.limit(), now, length);
        port.bucket.set(bucket);
        if !goes_on {
            self.count(|traffic| traffic.dropped += 1);
            return Carried { dropped: 1, ..Carried::default() };
        }
        let meant = self.meant(bytes, Some(index));
        let mut dropped = self.forward(bytes, &meant, Some(index));
        if meant.network {
            dropped += u64::from(!self.send_on(bytes));
        }
        if meant.own {
            self.count(|it| {
                it.received += 1;
                it.received_bytes += length;
            });
            take(bytes);
        }
        match meant.all || dropped == 0 {
            true => Carried { passed: 1, bytes: length, dropped, ..Carried::default() },
            false => Carried { dropped, ..Carried::default() },
        }
    }

    /// Sends a frame of a domain to the network; whether there was room.
    fn send_on(&self, bytes: &[u8]) -> bool {
        let mut left = Some(bytes);
        self.network.transmit(&mut |frame| {
            let bytes = left.take()?;
            frame.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(bytes.len())
        });
        let is_sent = left.is_none();
        if !is_sent {
            self.count(|traffic| traffic.dropped += 1);
        }
        is_sent
    }
}

impl<W: Fn(u32), N: Fn() -> Instant> Interface for Bridge<W, N> {
    fn address(&self) -> MacAddress {
        self.network.address()
    }

    fn line(&self) -> Option<Line> {
        self.network.line()
    }

    fn max_frame(&self) -> usize {
        self.network.max_frame()
    }

    fn is_ready(&self) -> bool {
        // All of them are to know that this core waits.
        let from_network = self.network.is_ready();
        self.ports.iter().fold(from_network, |is_ready, port| port.end.wait() | is_ready)
    }

    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let given = self.receive_from_loops(limit.div_ceil(2), take);
        let rest = self.network.receive(limit - given, &mut |frame| {
            let meant = self.meant(frame, None);
            self.forward(frame, &meant, None);
            // The network has no other way to what it sends here by mistake.
            if meant.own || meant.network {
                take(frame);
            }
        });
        self.wake_all();
        given + rest
    }

    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let has_room = self.network.transmit(&mut |frame| {
            loop {
                let bytes = fill(frame)?;
                let meant = self.meant(&frame[..bytes], None);
                self.forward(&frame[..bytes], &meant, None);
                if meant.network {
                    return Some(bytes);
                }
            }
        });
        self.wake_all();
        has_room
    }

    /// What the network's interface has carried, and what went between it and domains.
    fn traffic(&self) -> Traffic {
        let (network, loops) = (self.network.traffic(), self.traffic.get());
        Traffic {
            received: network.received + loops.received,
            received_bytes: network.received_bytes + loops.received_bytes,
            sent: network.sent + loops.sent,
            sent_bytes: network.sent_bytes + loops.sent_bytes,
            dropped: network.dropped + loops.dropped,
        }
    }
}

#[cfg(test)]
mod tests;
