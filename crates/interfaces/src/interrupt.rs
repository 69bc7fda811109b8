//! What has interrupted the cores of the node.

use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

use crate::core_manager::Interrupts;

/// The most cores of a list.
pub const MOST_LISTED: usize = 32;

/// What has interrupted a core since the node started, in all its incarnations.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CoreInterrupts {
    /// Which core.
    pub core: u16,
    /// How often, by cause.
    pub causes: Vec<Interrupts>,
    /// How many of them came while it slept, and broke into nothing.
    pub wakes: u64,
}

/// The interrupts of the node's cores.
#[service(subsystem = "interrupts", capability = "counting", layer = low)]
pub trait Interrupt {
    /// Those of one core.
    #[stl_k(reply = "interrupts", allow(operator, peer))]
    fn counts(&self, core: u16) -> CallResult<CoreInterrupts>;

    /// Those of the cores from this one on, 32 at most.
    #[stl_k(reply = "cores", allow(operator, peer))]
    fn list(&self, from: u16) -> CallResult<Vec<CoreInterrupts>>;
}
