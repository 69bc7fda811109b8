//! What this core's interrupt and fault handlers need to know about it.

use nile_abi::{CoreId, Generation};
use nile_platform::{Board, Record};
use nile_ring::Doorbells;

use crate::apic::LocalApic;
use crate::clock::Clock;
use crate::node::Node;
use crate::private::Private;
use crate::timer::shared::Shared;

/// One core, as its own handlers see it.
#[derive(Clone, Copy)]
pub struct Local {
    /// This core.
    pub core: CoreId,
    /// Its incarnation.
    pub generation: Generation,
    /// Where its interrupts are counted and its faults are told.
    pub record: Record<'static>,
    /// The managing core's record, which says who is to end.
    pub manager: Record<'static>,
    /// The doorbell that it sleeps behind, among the others'.
    pub bells: &'static Doorbells,
    /// Its interrupt controller.
    pub apic: LocalApic,
    /// The node's time.
    pub clock: Clock,
    /// Timers beside its own.
    pub timers: &'static Shared,
    /// The node.
    pub node: &'static Node,
    /// Who drives which device.
    pub board: &'static Board,
}

static LOCAL: Private<Option<Local>> = Private::new(None);

/// Tells this core's handlers about it. Before that, interrupts are not counted and faults are
/// reported without the core's name; a core does it before it first lets interrupts in, and again
/// when it restarts.
pub fn install(local: Local) {
    LOCAL.set(Some(local));
}

impl Local {
    /// Whether this incarnation is to end: it does not return from a policy.
    pub fn is_endless(&self) -> bool {
        self.manager.is_endless(self.core, self.generation)
    }
}

/// This core, once [`install`]ed.
pub fn get() -> Option<Local> {
    LOCAL.get()
}
