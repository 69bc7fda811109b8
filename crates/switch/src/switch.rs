//! The switch: it learns behind which port an address is, and floods frames to addresses that it
//! has not seen and to groups. A frame costs no timer unless its links have a delay or a rate.
//!
//! After every call that hands it a frame or a moment the owner takes what is due with
//! [`Switch::poll`], until there is nothing more. An owner of a port that has no room says so with
//! [`Switch::refuse`] or [`Switch::stop`]; what then comes for it waits at the port, with a bound
//! and shared fairly between senders, until [`Switch::resume`].

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Ordering;

use nile_abi::{Instant, MacAddress};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::addresses::{Addresses, Learned};
use crate::backlog::Backlog;
use crate::counts::Counts;
use crate::frame::Frame;
use crate::lane::Lane;
use crate::link::Link;

/// A port. After [`Switch::detach`] the name is never given again, only its index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId {
    index: u32,
    generation: u32,
}

impl PortId {
    /// The port's place among all ports, from zero: attaching takes the lowest free one.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// A switch and the cables that are plugged into it. Nothing here blocks; the same calls with the
/// same moments give the same outcome.
pub struct Switch {
    ports: Vec<Port>,
    addresses: Addresses,
    random: ChaCha8Rng,
    /// The settings of ports that are attached later.
    link: Link,
    /// The latest moment that the owner named.
    now: Instant,
    /// What is in a cable.
    waiting: BinaryHeap<Waiting>,
    /// Numbers what enters `waiting`, so that equal moments keep their order.
    order: u64,
    /// The ports whose owners have something to take.
    due: VecDeque<PortId>,
}

struct Port {
    generation: u32,
    attached: bool,
    plugged: bool,
    /// The side of the partition that it is on; without one it reaches all.
    side: Option<usize>,
    link: Link,
    towards: Lane,
    away: Lane,
    learned: Learned,
    counts: Counts,
    /// What is out of its cable.
    backlog: Backlog,
    /// What the owner had no room for, and is to be given first.
    refused: Option<Frame>,
    /// Whether the owner takes nothing until it says so.
    stopped: bool,
    /// Whether the port stands in the list of those that have something.
    listed: bool,
}

/// A frame in a cable.
struct Waiting {
    at: Instant,
    order: u64,
    port: PortId,
    end: End,
    frame: Frame,
}

/// The end of a cable that a frame comes out of.
#[derive(Clone, Copy)]
enum End {
    Switch,
    /// With the place of the port that it came from.
    Owner(usize),
}

impl Switch {
    /// A switch without ports whose faults are drawn from `seed`.
    pub fn new(seed: u64) -> Switch {
        Switch {
            ports: Vec::new(),
            addresses: Addresses::default(),
            random: ChaCha8Rng::seed_from_u64(seed),
            link: Link::PERFECT,
            now: Instant::START,
            waiting: BinaryHeap::new(),
            order: 0,
            due: VecDeque::new(),
        }
    }

    /// A new port, plugged in, on no side of a partition, with the settings of
    /// [`Switch::set_all_links`].
    pub fn attach(&mut self) -> PortId {
        let free = self.ports.iter().position(|port| !port.attached);
        let index = free.unwrap_or_else(|| {
            self.ports.push(Port::new(0));
            self.ports.len() - 1
        });
        let port = &mut self.ports[index];
        *port = Port { attached: true, link: self.link, ..Port::new(port.generation + 1) };
        PortId { index: index as u32, generation: port.generation }
    }

    /// Takes the port away, with everything that was on its way from and to it.
    pub fn detach(&mut self, port: PortId) {
        if let Some(known) = self.port_mut(port) {
            known.attached = false;
            known.backlog = Backlog::default();
            self.forget_addresses(port);
            self.addresses.disown(port.index());
        }
    }

    /// Gives `address` to the port, plugged in or not: nobody else is ever taken for its owner.
    /// Other addresses belong to the port that uses them first, for as long as it is plugged in.
    pub fn own(&mut self, port: PortId, address: MacAddress) {
        if self.port(port).is_some() {
            self.addresses.own(address, port.index());
        }
    }

    /// Plugs the port's cable in or out. What comes out of a cable that is not plugged in is
    /// dropped; the switch forgets the addresses behind it. Settings and counts stay, and so does
    /// what is in the cables: it may still reach who is plugged in next, as in real networks.
    pub fn plug(&mut self, port: PortId, plugged: bool) {
        if let Some(known) = self.port_mut(port) {
            known.plugged = plugged;
            // Who is plugged in next has room.
            self.resume(port);
            if !plugged {
                self.forget_addresses(port);
            }
        }
    }

    /// Sets the cable of one port. What is in it already is not affected.
    pub fn set_link(&mut self, port: PortId, link: Link) {
        if let Some(port) = self.port_mut(port) {
            port.set_link(link);
        }
    }

    /// Sets the cables of all ports, and of those attached later.
    pub fn set_all_links(&mut self, link: Link) {
        self.link = link;
        self.ports.iter_mut().for_each(|port| port.set_link(link));
    }

    /// The settings of the port's cable; perfect if there is no such port.
    pub fn link(&self, port: PortId) -> Link {
        self.port(port).map_or(Link::PERFECT, |port| port.link)
    }

    /// Lets no frame pass between ports of different `sides`. A port in none of them reaches all,
    /// one in several is in the last. A partition that was there before ends. Frames that have
    /// passed the switch still arrive.
    pub fn partition(&mut self, sides: &[&[PortId]]) {
        self.heal();
        for (side, ports) in sides.iter().enumerate() {
            for &port in *ports {
                if let Some(port) = self.port_mut(port) {
                    port.side = Some(side);
                }
            }
        }
    }

    /// Ends the partition.
    pub fn heal(&mut self) {
        self.ports.iter_mut().for_each(|port| port.side = None);
    }

    /// Takes an Ethernet frame without its check sequence from the owner of `from`. What is no
    /// frame, and what comes from a port that is gone, is dropped.
    pub fn receive(&mut self, now: Instant, from: PortId, frame: &[u8]) {
        self.advance(now);
        let now = self.now;
        let Some(port) = self.ports.get_mut(from.index()).filter(|port| port.is(from)) else {
            return;
        };
        if !port.plugged {
            port.counts.unplugged += 1;
            return;
        }
        let Some(frame) = Frame::new(frame) else {
            port.counts.malformed += 1;
            return;
        };
        port.counts.received += 1;
        port.counts.received_bytes += frame.len() as u64;
        let arrivals =
            port.towards.carry(now, frame, &port.link, &mut self.random, &mut port.counts);
        for (at, frame) in arrivals.into_iter().flatten() {
            match at > now {
                true => self.wait(at, from, End::Switch, frame),
                false => self.forward(now, from, frame),
            }
        }
    }

    /// The next frame that is due at `now` or before, and the port to whose owner it goes. Frames
    /// for one port come one after the other.
    pub fn poll(&mut self, now: Instant) -> Option<(PortId, Frame)> {
        loop {
            if self.due.is_empty() {
                self.advance(now);
            }
            let to = *self.due.front()?;
            let Some(port) = self.port_mut(to) else {
                self.due.pop_front();
                continue;
            };
            let Some(frame) = port.next() else {
                port.listed = false;
                self.due.pop_front();
                continue;
            };
            if !port.plugged {
                port.counts.unplugged += 1;
                continue;
            }
            port.counts.sent += 1;
            port.counts.sent_bytes += frame.len() as u64;
            return Some((to, frame));
        }
    }

    /// The owner of `port` had no room for `frame`, which [`Switch::poll`] has just given: it is
    /// given again, before all others, when there is room ([`Switch::resume`]).
    pub fn refuse(&mut self, port: PortId, frame: Frame) {
        if let Some(port) = self.port_mut(port) {
            port.counts.sent -= 1;
            port.counts.sent_bytes -= frame.len() as u64;
            port.refused = Some(frame);
            port.stopped = true;
        }
    }

    /// The owner of `port` has room for nothing after what it was given.
    pub fn stop(&mut self, port: PortId) {
        if let Some(port) = self.port_mut(port) {
            port.stopped = true;
        }
    }

    /// The owner of `port` has room again.
    pub fn resume(&mut self, port: PortId) {
        if let Some(known) = self.port_mut(port) {
            known.stopped = false;
        }
        self.list(port);
    }

    /// When to poll next: in the past or now if something is due.
    pub fn next_due(&self) -> Option<Instant> {
        match self.due.is_empty() {
            true => self.waiting.peek().map(|next| next.at),
            false => Some(self.now),
        }
    }

    /// The counters of a port; all zero if there is no such port.
    pub fn counts(&self, port: PortId) -> Counts {
        self.port(port).map_or(Counts::default(), |port| port.counts)
    }

    /// Lets time pass until `now`.
    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        while self.waiting.peek().is_some_and(|next| next.at <= self.now) {
            let Some(Waiting { at, port, end, frame, .. }) = self.waiting.pop() else { return };
            let Some(known) = self.port_mut(port) else { continue };
            match end {
                End::Switch => {
                    known.towards.arrived(frame.len());
                    self.forward(at, port, frame);
                }
                End::Owner(from) => {
                    known.away.arrived(frame.len());
                    self.arrive(port, from, frame);
                }
            }
        }
    }

    /// Sends a frame that came out of the cable of `from` at `at` to where its receiver is.
    fn forward(&mut self, at: Instant, from: PortId, frame: Frame) {
        let place = from.index();
        let Port { learned, counts, .. } = &mut self.ports[place];
        if !self.addresses.learn(frame.source(), place, learned) {
            counts.misnamed += 1;
        }
        let destination = frame.destination();
        let known = match destination.is_group() {
            true => None,
            false => self.addresses.find(destination),
        };
        match known {
            Some(to) => self.send(at, place, to, &frame),
            None => (0..self.ports.len()).for_each(|to| self.send(at, place, to, &frame)),
        }
    }

    /// Sends `frame` into the cable of the port at `to`, unless it is where the frame came from.
    fn send(&mut self, at: Instant, from: usize, to: usize, frame: &Frame) {
        let side = self.ports[from].side;
        let port = &mut self.ports[to];
        if to == from || !port.attached {
            return;
        }
        if port.side.is_some() && side.is_some() && port.side != side {
            port.counts.partitioned += 1;
            return;
        }
        if !port.plugged {
            port.counts.unplugged += 1;
            return;
        }
        let id = PortId { index: to as u32, generation: port.generation };
        let frame = frame.clone();
        let arrivals = port.away.carry(at, frame, &port.link, &mut self.random, &mut port.counts);
        for (arrival, frame) in arrivals.into_iter().flatten() {
            match arrival > at {
                true => self.wait(arrival, id, End::Owner(from), frame),
                false => self.arrive(id, from, frame),
            }
        }
    }

    /// A frame from the port at `from` is out of the cable of `to`.
    fn arrive(&mut self, to: PortId, from: usize, frame: Frame) {
        let Some(port) = self.port_mut(to) else { return };
        if port.stopped {
            port.counts.overrun += port.backlog.push_bounded(from, frame);
            return;
        }
        port.backlog.push(from, frame);
        self.list(to);
    }

    /// Notes that the port may have something for its owner.
    fn list(&mut self, id: PortId) {
        if let Some(port) = self.port_mut(id)
            && !port.listed
            && port.has_more()
        {
            port.listed = true;
            self.due.push_back(id);
        }
    }

    fn wait(&mut self, at: Instant, port: PortId, end: End, frame: Frame) {
        self.order += 1;
        self.waiting.push(Waiting { at, order: self.order, port, end, frame });
    }

    fn port(&self, port: PortId) -> Option<&Port> {
        self.ports.get(port.index()).filter(|known| known.is(port))
    }

    fn port_mut(&mut self, port: PortId) -> Option<&mut Port> {
        self.ports.get_mut(port.index()).filter(|known| known.is(port))
    }

    fn forget_addresses(&mut self, port: PortId) {
        let place = port.index();
        self.addresses.forget(place, &mut self.ports[place].learned);
    }

    #[cfg(test)]
    pub(crate) fn addresses(&self) -> usize {
        self.addresses.len()
    }
}

impl Port {
    fn new(generation: u32) -> Port {
        Port {
            generation,
            attached: false,
            plugged: true,
            side: None,
            link: Link::PERFECT,
            towards: Lane::default(),
            away: Lane::default(),
            learned: Learned::default(),
            counts: Counts::default(),
            backlog: Backlog::default(),
            refused: None,
            stopped: false,
            listed: false,
        }
    }

    fn is(&self, port: PortId) -> bool {
        self.attached && self.generation == port.generation
    }

    /// What the owner is given next, if it takes anything.
    fn next(&mut self) -> Option<Frame> {
        if self.stopped {
            return None;
        }
        self.refused.take().or_else(|| self.backlog.pop())
    }

    fn has_more(&self) -> bool {
        !self.stopped && (self.refused.is_some() || !self.backlog.is_empty())
    }

    fn set_link(&mut self, link: Link) {
        if self.link.rate != link.rate {
            self.towards.change();
            self.away.change();
        }
        self.link = link;
    }
}

/// The heap gives its greatest element first: the one that is due first.
impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.order == other.order
    }
}

impl Eq for Waiting {}
