//! Network interfaces: virtio-net devices on PCI, each driven by one network core (virtio 1.1,
//! 2.6, 4.1 and 5.1).
//!
//! The boot path finds the devices ([`device`]), takes memory for their frames and says which
//! core drives which; it maps registers and memory on that core alone. From then on nobody but
//! that core touches the device: every incarnation of it resets it and begins anew, with the same
//! memory ([`interface`]). The device interrupts that core alone, by a message that names it.
//!
//! * [`device`]: what the boot path finds out.
//! * [`registers`]: a device's registers, as its core sees them.
//! * [`memory`]: the memory that core and device share.
//! * [`queue`]: buffers on their way to the device and back.
//! * [`interface`]: what the kernel is given.

pub mod device;
pub mod interface;
pub mod memory;
pub mod queue;
pub mod registers;
#[cfg(test)]
mod tests;

use nile_abi::{CoreId, Role, RoleSet};

use crate::node::Frames;
use crate::vector::Vector;
pub use device::Device;
pub use interface::VirtioNet;

/// Interfaces that a node uses.
pub const MAX_INTERFACES: usize = 8;

/// One interface of the node.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceEntry {
    /// Who drives it.
    pub core: CoreId,
    /// Where its registers are.
    pub device: Device,
    /// What it shares with its core; [`memory::BYTES`].
    pub memory: Frames,
}

/// Through which vector the interface with this number interrupts its core.
pub fn vector(interface: usize) -> Vector {
    Vector(Vector::DEVICES.start().0 + interface as u8)
}

/// Which core drives the interface with this number: the first the first network core, and so on
/// in turns. Every node has one.
pub fn driver(interface: usize, roles: impl Iterator<Item = RoleSet> + Clone) -> Option<CoreId> {
    let ids = (0u16..).map(CoreId);
    let drivers = || ids.clone().zip(roles.clone()).filter(|(_, set)| set.contains(Role::Network));
    let turn = interface.checked_rem(drivers().count())?;
    drivers().nth(turn).map(|(core, _)| core)
}
