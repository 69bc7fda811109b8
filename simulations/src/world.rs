//! Hosts on a switch, in virtual time. Each host has one cable and one timer. The simulation asks
//! what happens next, lets the host's protocol handle it, and sends what that wants to say:
//!
//! ```
//! # use nile_simulations::{Happening, World};
//! # use nile_abi::Instant;
//! let mut world = World::new(1);
//! let (ping, pong) = (world.add_host(), world.add_host());
//! world.send(ping, b"\xff\xff\xff\xff\xff\xff\x02\0\0\0\x01\0\x88\xb5ping");
//! let end = Instant::from_nanos(1_000_000_000);
//! while let Some(happening) = world.next(end) {
//!     match happening {
//!         Happening::Frame { to, frame } => assert!(to == pong && frame.ends_with(b"ping")),
//!         Happening::Timer(_) => unreachable!("no host has set its timer"),
//!     }
//! }
//! assert_eq!(world.now(), end);
//! ```

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nile_abi::Instant;
use nile_switch::{Frame, Link, PortId, Switch};

/// A host, counted from zero in the order in which hosts were added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Host(pub u32);

impl Host {
    /// The host's place in a table with one row a host.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What happens to a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening {
    /// A frame arrives.
    Frame {
        /// The host at which it arrives.
        to: Host,
        /// The frame.
        frame: Frame,
    },
    /// The moment that the host has set its timer to is here. The timer is off again.
    Timer(Host),
}

/// The hosts, their network, and the time.
pub struct World {
    now: Instant,
    switch: Switch,
    /// The port of every host, in the order of hosts: no port is ever taken away.
    ports: Vec<PortId>,
    /// What each host's timer is set to.
    timers: Vec<Option<Instant>>,
    /// Every setting of a timer; one that `timers` does not confirm was changed later.
    deadlines: BinaryHeap<Reverse<(Instant, Host)>>,
}

impl World {
    /// A world without hosts, at the start of time, with perfect links; `seed` is that of the
    /// network's faults.
    pub fn new(seed: u64) -> World {
        World {
            now: Instant::START,
            switch: Switch::new(seed),
            ports: Vec::new(),
            timers: Vec::new(),
            deadlines: BinaryHeap::new(),
        }
    }

    /// One more host, plugged in, with its timer off.
    pub fn add_host(&mut self) -> Host {
        self.ports.push(self.switch.attach());
        self.timers.push(None);
        Host(self.ports.len() as u32 - 1)
    }

    /// How late it is.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Sends `frame` into the cable of `host`.
    pub fn send(&mut self, host: Host, frame: &[u8]) {
        self.switch.receive(self.now, self.ports[host.index()], frame);
    }

    /// Sets the timer of `host`, whatever it was set to before, or turns it off. A moment in the
    /// past happens at once.
    pub fn set_timer(&mut self, host: Host, at: Option<Instant>) {
        let timer = &mut self.timers[host.index()];
        if *timer == at {
            return;
        }
        *timer = at;
        if let Some(at) = at {
            self.deadlines.push(Reverse((at, host)));
        }
        // Settings that were changed are kept until their moment comes, but never so many that
        // they are the most of what is kept.
        if self.deadlines.len() > 4 * self.timers.len() + 64 {
            let timers = self.timers.iter().enumerate();
            let set = timers.filter_map(|(host, at)| Some(Reverse(((*at)?, Host(host as u32)))));
            self.deadlines = set.collect();
        }
    }

    /// What happens next, not after `until`; time passes until then. `None`: it is `until`, and
    /// nothing more happens before.
    pub fn next(&mut self, until: Instant) -> Option<Happening> {
        loop {
            // A frame comes before a timer of the same moment.
            let timer = self.next_timer();
            let frame = self.switch.next_due();
            let first = [timer, frame].into_iter().flatten().min().filter(|at| *at <= until);
            let Some(first) = first else {
                self.now = self.now.max(until);
                return None;
            };
            self.now = self.now.max(first);
            if frame.is_some_and(|frame| frame <= self.now) {
                // What is due may turn out to go nowhere.
                match self.switch.poll(self.now) {
                    Some((port, frame)) => {
                        return Some(Happening::Frame { to: Host(port.index() as u32), frame });
                    }
                    None => continue,
                }
            }
            let Some(Reverse((_, host))) = self.deadlines.pop() else { continue };
            self.timers[host.index()] = None;
            return Some(Happening::Timer(host));
        }
    }

    /// The first timer that is really set.
    fn next_timer(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, host))) = self.deadlines.peek().copied() {
            if self.timers[host.index()] == Some(at) {
                return Some(at);
            }
            self.deadlines.pop();
        }
        None
    }

    /// Sets the cable of `host`.
    pub fn set_link(&mut self, host: Host, link: Link) {
        self.switch.set_link(self.ports[host.index()], link);
    }

    /// Sets the cables of all hosts, and of those added later.
    pub fn set_all_links(&mut self, link: Link) {
        self.switch.set_all_links(link);
    }

    /// Plugs the cable of `host` in or out, as when a node starts or is killed. What is on its
    /// way may still reach the node's next incarnation.
    pub fn plug(&mut self, host: Host, plugged: bool) {
        self.switch.plug(self.ports[host.index()], plugged);
    }

    /// Lets no frame pass between hosts of different `sides`; a host in none reaches all.
    pub fn partition(&mut self, sides: &[&[Host]]) {
        let ports = |side: &&[Host]| side.iter().map(|host| self.ports[host.index()]).collect();
        let sides: Vec<Vec<PortId>> = sides.iter().map(ports).collect();
        let sides: Vec<&[PortId]> = sides.iter().map(Vec::as_slice).collect();
        self.switch.partition(&sides);
    }

    /// Ends the partition.
    pub fn heal(&mut self) {
        self.switch.heal();
    }

    /// What the switch counted at the port of `host`.
    pub fn counts(&self, host: Host) -> nile_switch::Counts {
        self.switch.counts(self.ports[host.index()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use nile_abi::ethernet::CALLS;
    use nile_abi::{MacAddress, NodeId};

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn hello(from: Host) -> Vec<u8> {
        let source = MacAddress::local(NodeId(from.0), 0);
        [&MacAddress::BROADCAST.0[..], &source.0, &CALLS.to_be_bytes()].concat()
    }

    /// What happens until `until`: when, to whom, and whether it is a frame.
    fn watch(world: &mut World, until: Instant) -> Vec<(Instant, u32, bool)> {
        let mut seen = Vec::new();
        while let Some(happening) = world.next(until) {
            seen.push(match happening {
                Happening::Frame { to, .. } => (world.now(), to.0, true),
                Happening::Timer(host) => (world.now(), host.0, false),
            });
        }
        assert_eq!(world.now(), until);
        seen
    }

    #[test]
    fn frames_and_timers_come_in_the_order_of_time() {
        let mut world = World::new(1);
        let [a, b, c] = [(); 3].map(|()| world.add_host());
        world.set_link(b, Link { delay: Duration::from_micros(30), ..Link::PERFECT });
        world.set_timer(b, Some(at(10)));
        world.set_timer(c, Some(at(30)));
        world.send(a, &hello(a));
        let expected = [(at(0), 2, true), (at(10), 1, false), (at(30), 1, true)];
        assert_eq!(watch(&mut world, at(29)), expected[..2]);
        assert_eq!(watch(&mut world, at(100)), [expected[2], (at(30), 2, false)]);
    }

    #[test]
    fn a_timer_is_where_it_was_set_last() {
        let mut world = World::new(1);
        let [a, b] = [(); 2].map(|()| world.add_host());
        for micros in (0..10_000).rev() {
            world.set_timer(a, Some(at(micros + 5)));
        }
        world.set_timer(b, Some(at(7)));
        world.set_timer(b, None);
        assert!(world.deadlines.len() < 100, "{}", world.deadlines.len());
        assert_eq!(watch(&mut world, at(20_000)), [(at(5), 0, false)]);
        // A moment that is past happens at once, and once.
        world.set_timer(b, Some(at(1)));
        assert_eq!(watch(&mut world, at(20_000)), [(at(20_000), 1, false)]);
    }

    #[test]
    fn a_partition_and_a_pulled_cable_keep_frames_away() {
        let mut world = World::new(1);
        let [a, b, c] = [(); 3].map(|()| world.add_host());
        world.partition(&[&[a], &[b]]);
        world.send(a, &hello(a));
        assert_eq!(watch(&mut world, at(0)), [(at(0), 2, true)]);
        world.heal();
        world.plug(c, false);
        world.send(a, &hello(a));
        assert_eq!(watch(&mut world, at(0)), [(at(0), 1, true)]);
        assert_eq!((world.counts(b).partitioned, world.counts(c).unplugged), (1, 1));
    }
}
