//! Frames between the nodes of a supervised machine: a domain's interface is the loop in its seat,
//! and its supervisor's first interface bridges the loops of all ([`nile_platform::domains`]).

use std::cell::RefCell;
use std::rc::Rc;

use nile_abi::CoreId;
use nile_domain::Way;
use nile_platform::domains::{Bridge, LoopInterface};
use nile_platform::{Interface, Line};

use crate::hardware::Hardware;
use crate::network::SimInterface;
use crate::state::State;

/// The interfaces that a core drives, each at most once in an incarnation.
pub fn interfaces(state: &Rc<RefCell<State>>, core: CoreId) -> Vec<Box<dyn Interface>> {
    let wires = SimInterface::all_of(state, core).into_iter();
    let mut all: Vec<Box<dyn Interface>> =
        wires.map(|it| Box::new(it) as Box<dyn Interface>).collect();
    let clock = {
        let state = state.clone();
        move || state.borrow().time_of(core)
    };
    let state = state.borrow();
    let first = Line::interface(0).and_then(|line| state.board.driver(line));
    if first != Some(core) {
        return all;
    }
    let own = state.board.record(core).hardware_id() as u32;
    let waking = |hardware: &Rc<Hardware>| {
        let hardware = hardware.clone();
        move |name| hardware.wake(name)
    };
    if let Some(domain) = &state.domain {
        let frames = domain.seated().map(|it| it.seat.frames());
        let open = |frames| LoopInterface::open(&frames, own, waking(&domain.hardware));
        all.extend(frames.and_then(open).map(|it| Box::new(it) as Box<dyn Interface>));
    }
    if let Some(hardware) = state.supervises.as_ref().filter(|_| !all.is_empty()) {
        let tolls = (1..).map_while(|slot| hardware.ledger.toll(Way::Network, slot));
        let loops = hardware.seats().map(|seat| seat.frames()).zip(tolls);
        let bridge = Bridge::new(all.remove(0), loops, own, waking(hardware), clock);
        all.insert(0, Box::new(bridge));
    }
    all
}
