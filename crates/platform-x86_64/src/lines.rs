//! The lines of devices: what says whether and whom each interrupts. With MSI-X that is a register
//! of the device, which the core that drives it has. With MSI it is in configuration space, which
//! no core has.

use nile_abi::Status;
use nile_guard::Violation;
use nile_platform::Line;

use crate::apic::ApicId;
use crate::devices;
use crate::disk::Controller;
use crate::disk::ahci::controller;
use crate::guard;
use crate::mmio::Mmio;
use crate::node::Node;
use crate::pci::msix;
use crate::virtio::registers::MESSAGE;
use crate::virtio::{Device, DeviceRegisters};

/// What steers the interrupts of a device.
pub enum Steering {
    /// The table of its messages.
    Table(Mmio),
    /// An AHCI controller's registers.
    Controller(Mmio),
}

/// That of a line.
///
/// # Safety
/// The caller runs as the core that drives the device, whose space has its registers for as long.
/// Once a device is open its driver leaves these alone.
pub unsafe fn find(node: &Node, line: Line) -> Option<Steering> {
    let number = devices::number(line);
    // SAFETY: the caller's promise.
    let virtio =
        |it: &Device| Steering::Table(unsafe { DeviceRegisters::mapped(number, it) }.messages);
    let Some(disk) = number.checked_sub(devices::number_of_disk(0)) else {
        return Some(virtio(&node.interfaces.get(number)?.device));
    };
    Some(match &node.disks.get(disk)?.controller {
        Controller::Virtio(device) => virtio(device),
        // SAFETY: the caller's promise.
        Controller::Ahci(it) => Steering::Controller(unsafe { it.mapped(number) }),
    })
}

/// Has the device with this number, which has this table, interrupt a core that messages can reach.
pub fn route(table: Mmio, core: ApicId, number: usize) -> Result<(), Violation> {
    let vector = devices::vector(number);
    guard::interrupt(core, vector.0.into())?;
    guard::amend(|| msix::route(table, MESSAGE, core, vector));
    Ok(())
}

impl Steering {
    /// Has the line interrupt a core, the one that drives the device if it `is_own`. `Denied` if it
    /// cannot.
    pub fn route(&self, line: Line, core: ApicId, is_own: bool) -> Result<(), Status> {
        match self {
            Steering::Table(table) if msix::reaches(core) => {
                route(*table, core, devices::number(line)).map_err(|_| Status::Denied)
            }
            Steering::Controller(_) if is_own => Ok(()),
            _ => Err(Status::Denied),
        }
    }

    /// Masks the line, or opens it.
    pub fn mask(&self, is_masked: bool) {
        match self {
            Steering::Table(table) => guard::amend(|| msix::mask(*table, MESSAGE, is_masked)),
            Steering::Controller(registers) => controller::mask(*registers, is_masked),
        }
    }
}
