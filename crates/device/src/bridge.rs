//! A supervisor's interface, to which the loops of its domains are plugged (RainForest 5.4's RFtun
//! in its simplest form): frames go between domains, to the supervisor's own node and to the
//! network. A domain has the interface's address but for the last byte, which says its place; a
//! frame from a loop with another sender is dropped, so that no domain speaks as somebody else.
//!
//! Frames are forwarded whenever the core that drives the interface looks for its own. What finds
//! no room at its other end is dropped and counted.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use nile_abi::MacAddress;
use nile_abi::ethernet::HEADER_BYTES;

use crate::interface::Traffic;
use crate::rfloop::Frame;
use crate::{FrameLoop, Interface, Line, LoopEnd};

/// The last byte of the address of the domain in place 0, which there is not.
const FIRST_PLACE: u8 = 0x80;

/// An interface with loops.
pub struct Bridge<W> {
    network: Box<dyn Interface>,
    ports: Vec<Port>,
    wake: W,
    /// Whose loop is looked at first: in turn, so that no domain's frames keep all others' waiting.
    first: Cell<usize>,
    frame: RefCell<Frame>,
    traffic: Cell<Traffic>,
}

/// A loop, and who is at its other end.
struct Port {
    end: LoopEnd,
    address: MacAddress,
}

/// Who a frame is for.
struct Meant {
    own: bool,
    network: bool,
    /// The port; with a group's address all of them.
    port: Option<usize>,
    all: bool,
}

impl<W: Fn(u32)> Bridge<W> {
    /// Plugs the loops, by place from 1, to an interface whose core has the name `own` in its
    /// machine. `wake` interrupts the core of a name.
    pub fn new(
        network: Box<dyn Interface>,
        loops: impl Iterator<Item = FrameLoop>,
        own: u32,
        wake: W,
    ) -> Bridge<W> {
        let base = network.address();
        let ports = (1u8..).zip(loops).map(|(place, frames)| {
            let mut address = base;
            // The group bit is not in this byte.
            address.0[5] = FIRST_PLACE | place;
            frames.set_address(address);
            Port { end: frames.supervisor_end(own), address }
        });
        let ports = ports.collect();
        let (first, frame, traffic) = Default::default();
        Bridge { network, ports, wake, first, frame, traffic }
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

    /// Puts a frame into the loops that it is for.
    fn forward(&self, frame: &[u8], meant: &Meant, from: Option<usize>) {
        for (index, port) in self.ports.iter().enumerate() {
            if Some(index) == from || !(meant.all || meant.port == Some(index)) {
                continue;
            }
            let sent = port.end.put(frame);
            // Nobody needs to be there whom a group's frame is for.
            if sent || !meant.all {
                self.count(|traffic| traffic.went(frame.len(), sent));
            }
        }
    }

    fn wake_all(&self) {
        self.ports.iter().filter_map(|port| port.end.to_wake()).for_each(&self.wake);
    }

    /// Takes at most `limit` frames that have come from domains; how many there were.
    fn receive_from_loops(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let Ok(mut frame) = self.frame.try_borrow_mut() else { return 0 };
        let mut given = 0;
        let first = self.first.get();
        self.first.set((first + 1) % self.ports.len().max(1));
        let (before, from) = self.ports.split_at(first);
        let from = (first..).zip(from);
        for (index, port) in from.chain((0..).zip(before)) {
            port.end.awake();
            while given < limit
                && let Some(length) = port.end.take(&mut frame)
            {
                given += 1;
                let bytes = frame.bytes(length);
                let sender = bytes.get(6..12);
                if length < HEADER_BYTES || sender != Some(&port.address.0[..]) {
                    self.count(|traffic| traffic.dropped += 1);
                    continue;
                }
                let meant = self.meant(bytes, Some(index));
                self.forward(bytes, &meant, Some(index));
                if meant.network {
                    self.send_on(bytes);
                }
                if meant.own {
                    self.count(|it| it.received += 1);
                    self.count(|it| it.received_bytes += length as u64);
                    take(bytes);
                }
            }
        }
        given
    }

    /// Sends a frame of a domain to the network.
    fn send_on(&self, bytes: &[u8]) {
        let mut left = Some(bytes);
        self.network.transmit(&mut |frame| {
            let bytes = left.take()?;
            frame.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(bytes.len())
        });
        if left.is_some() {
            self.count(|traffic| traffic.dropped += 1);
        }
    }
}

impl<W: Fn(u32)> Interface for Bridge<W> {
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
mod tests {
    use alloc::rc::Rc;
    use alloc::vec;

    use nile_ring::Region;

    use super::*;
    use crate::LoopInterface;
    use crate::rfloop::LOOP_BYTES;

    const OWN: MacAddress = MacAddress([2, 0, 0, 0, 1, 0]);
    const ELSEWHERE: MacAddress = MacAddress([2, 0, 0, 0, 9, 0]);

    type Frames = RefCell<Vec<Vec<u8>>>;

    /// A network that keeps what is sent, and brings what it is told to.
    #[derive(Clone, Default)]
    struct Wire(Rc<(Frames, Frames)>);

    impl Interface for Wire {
        fn address(&self) -> MacAddress {
            OWN
        }

        fn max_frame(&self) -> usize {
            1514
        }

        fn is_ready(&self) -> bool {
            !self.0.0.borrow().is_empty()
        }

        fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
            let mut incoming = self.0.0.borrow_mut();
            let count = incoming.len().min(limit);
            incoming.drain(..count).for_each(|it| take(&it));
            count
        }

        fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
            let mut frame = vec![0; 1514];
            while let Some(bytes) = fill(&mut frame) {
                self.0.1.borrow_mut().push(frame[..bytes].to_vec());
            }
            true
        }

        fn traffic(&self) -> Traffic {
            Traffic::default()
        }
    }

    fn frame(to: MacAddress, from: MacAddress) -> Vec<u8> {
        [&to.0[..], &from.0, &[0x88, 0xb5, 42]].concat()
    }

    fn take_all(from: &dyn Interface) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        from.receive(64, &mut |frame| all.push(frame.to_vec()));
        all
    }

    fn send(from: &dyn Interface, bytes: &[u8]) {
        let mut left = Some(bytes);
        from.transmit(&mut |frame| {
            let bytes = left.take()?;
            frame[..bytes.len()].copy_from_slice(bytes);
            Some(bytes.len())
        });
    }

    #[test]
    fn frames_go_where_they_are_for() {
        let wire = Wire::default();
        let loops: Vec<FrameLoop> =
            (0..2).map(|_| FrameLoop::new(Region::owned(LOOP_BYTES)).unwrap()).collect();
        assert!(LoopInterface::open(&loops[0], 5, |_| ()).is_none(), "nobody has an address");
        let bridge = Bridge::new(Box::new(wire.clone()), loops.iter().cloned(), 0, |_| ());
        let domain = |index: usize| LoopInterface::open(&loops[index], 5, |_| ()).unwrap();
        let (one, two) = (domain(0), domain(1));
        let (first, second) = (one.address(), two.address());
        assert_eq!(first.0[..5], OWN.0[..5]);
        assert_ne!(first, second);
        let ways: [(&dyn Interface, MacAddress); 3] =
            [(&bridge, OWN), (&one, first), (&two, second)];
        for (sender, from) in ways {
            for to in [OWN, first, second, ELSEWHERE, MacAddress::BROADCAST] {
                if to == from {
                    continue;
                }
                let frame = frame(to, from);
                send(sender, &frame);
                let came = [take_all(&bridge), take_all(&one), take_all(&two)];
                let went = core::mem::take(&mut *wire.0.1.borrow_mut());
                let is_for = |address| address == to || to.is_group() && address != from;
                for (came, address) in came.iter().zip([OWN, first, second]) {
                    assert_eq!(came.len(), usize::from(is_for(address)), "{from} to {to}");
                    assert!(came.iter().all(|it| *it == frame));
                }
                assert_eq!(went.len(), usize::from(to == ELSEWHERE || to.is_group()));
            }
        }
    }

    #[test]
    fn a_domain_that_floods_has_nobody_wait_for_long() {
        let loops: Vec<FrameLoop> =
            (0..3).map(|_| FrameLoop::new(Region::owned(LOOP_BYTES)).unwrap()).collect();
        let bridge = Bridge::new(Box::<Wire>::default(), loops.iter().cloned(), 0, |_| ());
        let domain = |index: usize| LoopInterface::open(&loops[index], 5, |_| ()).unwrap();
        let (flooder, other) = (domain(0), domain(2));
        let wanted = frame(OWN, other.address());
        send(&other, &wanted);
        let mut came = Vec::new();
        for _ in 0..loops.len() {
            (0..8).for_each(|_| send(&flooder, &frame(OWN, flooder.address())));
            bridge.receive(8, &mut |frame| came.push(frame.to_vec()));
        }
        assert!(came.contains(&wanted), "{} frames of the other domain came", came.len());
    }

    #[test]
    fn what_comes_from_the_network_goes_to_domains_and_nobody_speaks_as_another() {
        let wire = Wire::default();
        let region = FrameLoop::new(Region::owned(LOOP_BYTES)).unwrap();
        let woken = RefCell::new(Vec::new());
        let wake = |name| woken.borrow_mut().push(name);
        let bridge = Bridge::new(Box::new(wire.clone()), core::iter::once(region.clone()), 0, wake);
        let domain = LoopInterface::open(&region, 5, |_| ()).unwrap();
        assert!(!domain.is_ready() && !bridge.is_ready());
        let mine = frame(domain.address(), ELSEWHERE);
        wire.0.0.borrow_mut().push(mine.clone());
        assert!(bridge.is_ready());
        assert!(take_all(&bridge).is_empty());
        assert_eq!((take_all(&domain), &*woken.borrow()), (vec![mine], &vec![5]));
        // As the supervisor, to the network.
        send(&domain, &frame(ELSEWHERE, OWN));
        assert!(bridge.is_ready() && take_all(&bridge).is_empty());
        assert!(wire.0.1.borrow().is_empty());
        assert_eq!(bridge.traffic().dropped, 1);
    }
}
