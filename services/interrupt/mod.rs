//! The interrupt service: what has interrupted each core of the node (Dhara, IV.C), read from the
//! cores' records without disturbing them.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, Status};
use nile_interfaces::core_manager::Interrupts;
use nile_interfaces::interrupt::{CoreInterrupts, InterruptKernel, MOST_LISTED};
use nile_stl::node::CoreState;
use nile_stl::{CallError, CallResult, Start, Stl, service};

/// The cores' records are its state.
pub struct Interrupt {
    stl: Stl,
}

impl Start for Interrupt {
    fn start(stl: &Stl) -> Interrupt {
        Interrupt { stl: stl.clone() }
    }
}

#[service(on = manager, keywords(interrupt = 5, core = 2, cause = 2))]
impl InterruptKernel for Interrupt {
    fn counts(&self, core: u16) -> CallResult<CoreInterrupts> {
        let missing = || CallError::new(Status::NotFound, format!("the node has no core {core}"));
        let state = self.stl.node()?.state_of(CoreId(core)).ok_or_else(missing)?;
        Ok(entry(core, &state))
    }

    fn list(&self, from: u16) -> CallResult<Vec<CoreInterrupts>> {
        let node = self.stl.node()?;
        let states = (from..=u16::MAX).map_while(|core| Some((core, node.state_of(CoreId(core))?)));
        Ok(states.take(MOST_LISTED).map(|(core, state)| entry(core, &state)).collect())
    }
}

fn entry(core: u16, state: &CoreState) -> CoreInterrupts {
    CoreInterrupts { core, causes: causes(state), wakes: state.wakes }
}

/// Interrupts of a core by cause, as calls carry them.
pub fn causes(state: &CoreState) -> Vec<Interrupts> {
    let each = state.interrupts.iter();
    each.map(|(cause, count)| Interrupts { cause: String::from(*cause), count: *count }).collect()
}
