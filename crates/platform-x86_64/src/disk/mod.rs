//! Disks: virtio-blk devices (virtio 1.1, 5.2), and SATA disks behind AHCI controllers. Each device
//! is driven by one disk core.
//!
//! * [`memory`]: the memory that core and device share, besides that of requests.
//! * [`block`]: what the kernel is given of a virtio-blk device.
//! * [`wipe`]: how one is made as new that a domain has had.
//! * [`ahci`]: the controllers, and what the kernel is given of their disks.

pub mod ahci;
pub mod block;
pub mod memory;
#[cfg(test)]
mod tests;
pub mod wipe;

use heapless::Vec;
use nile_abi::CoreId;
use virtio_drivers::transport::DeviceType;
use virtio_drivers::transport::pci::bus::DeviceFunction;

use crate::layout;
use crate::node::Frames;
use crate::pci::Registers;
use crate::virtio::{Device, Kind};
pub use ahci::Ahci;
use ahci::controller::MAX_PORTS;

/// Devices with disks that a node uses.
pub const MAX_DISKS: usize = 8;

/// The virtio devices that are disks.
pub const BLOCK: Kind = Kind {
    number: DeviceType::Block,
    transitional: 0x1001,
    name: "disk",
    // The capacity.
    configuration_bytes: 8,
};

/// A device that is a disk or has some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Controller {
    /// A virtio-blk device: one disk.
    Virtio(Device),
    /// An AHCI controller: a disk at some of its ports.
    Ahci(Ahci),
}

impl Controller {
    /// What it is called.
    pub fn kind(&self) -> &'static str {
        match self {
            Controller::Virtio(_) => "virtio-blk",
            Controller::Ahci(_) => "ahci",
        }
    }

    /// Where it is.
    pub fn at(&self) -> DeviceFunction {
        match self {
            Controller::Virtio(device) => device.at,
            Controller::Ahci(ahci) => ahci.at,
        }
    }

    /// All of its registers, in the order in which its core has them mapped.
    pub fn windows(&self) -> Vec<Registers, { layout::DEVICE_WINDOWS }> {
        match self {
            Controller::Virtio(device) => device.windows().into_iter().collect(),
            Controller::Ahci(ahci) => [ahci.registers].into_iter().collect(),
        }
    }

    /// Whether another core can drive it than at first: whom an AHCI controller interrupts is in
    /// configuration space, which no core has.
    pub fn can_move(&self) -> bool {
        matches!(self, Controller::Virtio(_))
    }

    /// Bytes that it shares with its core, besides the memory of requests.
    pub fn shared_bytes(&self) -> u64 {
        match self {
            Controller::Virtio(_) => memory::BYTES,
            Controller::Ahci(_) => MAX_PORTS as u64 * ahci::port::BYTES,
        }
    }
}

/// One of them, and who drives it.
#[derive(Clone, Copy, Debug)]
pub struct DiskEntry {
    /// Who drives it at first.
    pub core: CoreId,
    /// The device.
    pub controller: Controller,
    /// What it shares with its core; [`Controller::shared_bytes`].
    pub memory: Frames,
}
