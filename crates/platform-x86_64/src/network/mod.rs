//! Network interfaces: virtio-net devices, each driven by one network core (virtio 1.1, 5.1).
//!
//! * [`memory`]: the memory that core and device share.
//! * [`queue`]: buffers on their way to the device and back.
//! * [`interface`]: what the kernel is given.

pub mod interface;
pub mod memory;
pub mod queue;
#[cfg(test)]
mod tests;

use nile_abi::CoreId;
use virtio_drivers::transport::DeviceType;

use crate::node::Frames;
use crate::virtio::{Device, Kind};
pub use interface::VirtioNet;

/// Interfaces that a node uses.
pub const MAX_INTERFACES: usize = 8;

/// One interface of the node.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceEntry {
    /// Who drives it at first.
    pub core: CoreId,
    /// Where its registers are.
    pub device: Device,
    /// What it shares with its core; [`memory::BYTES`].
    pub memory: Frames,
}

/// The devices that are interfaces.
pub const NETWORK: Kind = Kind {
    number: DeviceType::Network,
    transitional: 0x1000,
    name: "network",
    // The address.
    configuration_bytes: 6,
};
