//! What has interrupted the cores of the node, and the lines by which its devices do.

use alloc::string::String;
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

/// Whether a device interrupts.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gate {
    /// It does.
    Open,
    /// It was masked. Its core looks at it from time to time.
    Masked,
    /// The same, for a while: it interrupted for nothing.
    Storm,
}

/// A device, and how it interrupts.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct DeviceInterrupts {
    /// Its name: as the boot report numbers interfaces and disks.
    pub device: String,
    /// The core that drives it.
    pub driver: u16,
    /// The core that it interrupts. If that is another, it wakes the one that drives it.
    pub core: u16,
    /// Whether it does.
    pub gate: Gate,
    /// Its interrupts since the node started, of all cores.
    pub interrupts: u64,
    /// How often it was masked for interrupting for nothing.
    pub storms: u32,
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

    /// The devices of the node that interrupt.
    #[stl_k(reply = "devices", allow(operator, peer))]
    fn devices(&self) -> CallResult<Vec<DeviceInterrupts>>;

    /// Has a device interrupt a core from now on; what is under way goes on. `NotFound` if there is
    /// no such device or core, `Dead` if the core is gone, `Denied` if the device can interrupt
    /// the core alone that drives it.
    #[stl_k(allow(operator, peer))]
    async fn route(&self, device: String, core: u16) -> CallResult<()>;

    /// Has a device interrupt nobody; its core looks at it a thousand times a second. `NotFound` if
    /// there is no such device.
    #[stl_k(allow(operator, peer))]
    async fn mask(&self, device: String) -> CallResult<()>;

    /// Lets a device interrupt again, also one that was masked for interrupting for nothing.
    /// `NotFound` if there is no such device.
    #[stl_k(allow(operator, peer))]
    async fn unmask(&self, device: String) -> CallResult<()>;
}
