//! The network interfaces of a simulated node, one for each network core: frames that came and
//! frames that go, which the [cluster](crate::cluster) carries.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use nile_abi::ethernet::STANDARD_FRAME;
use nile_abi::{CoreId, Instant, MacAddress, Part};
use nile_platform::interface::Traffic;
use nile_platform::{Interface, Line};

use crate::state::State;

/// Frames that an interface keeps for a core which does not take them.
const QUEUE: usize = 1024;

/// What an interface has, beneath the core that drives it.
pub struct Wire {
    pub address: MacAddress,
    /// Frames that came and have not been taken.
    pub arrived: VecDeque<Vec<u8>>,
    /// Frames that went, each with its moment, and have not been carried.
    pub sent: Vec<(Instant, Vec<u8>)>,
    /// Whether a core drives it. What comes before is gone.
    is_open: bool,
    traffic: Traffic,
}

impl Wire {
    /// An interface with an address.
    pub fn new(address: MacAddress) -> Wire {
        Wire {
            address,
            arrived: VecDeque::new(),
            sent: Vec::new(),
            is_open: false,
            traffic: Traffic::default(),
        }
    }

    /// A frame comes, if there is room for it; whether a core has to know.
    pub fn arrive(&mut self, frame: &[u8]) -> bool {
        if !self.is_open {
            return false;
        }
        if self.arrived.len() < QUEUE {
            self.traffic.received += 1;
            self.traffic.received_bytes += frame.len() as u64;
            self.arrived.push_back(frame.into());
        } else {
            self.traffic.dropped += 1;
        }
        true
    }
}

/// The interface as the kernel on a core sees it.
pub struct SimInterface {
    core: CoreId,
    state: Rc<RefCell<State>>,
    /// Which of the node's interfaces.
    index: usize,
    address: MacAddress,
}

impl SimInterface {
    /// The interfaces that a core drives. What came for an earlier incarnation is gone.
    pub fn all_of(state: &Rc<RefCell<State>>, core: CoreId) -> Vec<SimInterface> {
        let mut held = state.borrow_mut();
        let lines = (0..held.wires.len()).filter_map(|at| Some((at, Line::interface(at)?)));
        let own = lines.filter(|(_, line)| held.board.driver(*line) == Some(core));
        let own: Vec<(usize, Line)> = own.collect();
        let opened = own.into_iter().map(|(index, line)| {
            held.lines[line.index()] = (None, false);
            let wire = &mut held.wires[index];
            wire.arrived.clear();
            wire.is_open = true;
            SimInterface { core, state: state.clone(), index, address: wire.address }
        });
        opened.collect()
    }
}

impl Interface for SimInterface {
    fn address(&self) -> MacAddress {
        self.address
    }

    fn line(&self) -> Option<Line> {
        Line::interface(self.index)
    }

    fn max_frame(&self) -> usize {
        STANDARD_FRAME
    }

    fn is_ready(&self) -> bool {
        !self.state.borrow().wires[self.index].arrived.is_empty()
    }

    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while taken < limit {
            let next = self.state.borrow_mut().wires[self.index].arrived.pop_front();
            let Some(frame) = next else { break };
            taken += 1;
            take(&frame);
        }
        taken
    }

    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        let mut buffer = [0; STANDARD_FRAME];
        while let Some(length) = fill(&mut buffer) {
            let mut state = self.state.borrow_mut();
            let now = state.time_of(self.core);
            let wire = &mut state.wires[self.index];
            wire.traffic.sent += 1;
            wire.traffic.sent_bytes += length as u64;
            wire.sent.push((now, buffer[..length].into()));
        }
        true
    }

    fn shows_pool(&self) -> Option<u64> {
        self.state.borrow().neighbours.as_ref()?.name_of(self.address)
    }

    fn read_pool(&self, of: MacAddress, name: u64, parts: &[Part], into: &mut [u8]) -> bool {
        let neighbours = self.state.borrow().neighbours.clone();
        neighbours.is_some_and(|neighbours| neighbours.read(of, name, parts, into))
    }

    fn traffic(&self) -> Traffic {
        self.state.borrow().wires[self.index].traffic
    }
}
