//! The ways that lead by the domain's own disk.

use alloc::string::String;

use nile_platform::disk::Request;
use nile_platform::{Attack, Disk as _, Tried};

use crate::apic::ApicId;
use crate::disk::Controller;
use crate::disk::block::VirtioBlock;
use crate::machine::NodeManager;
use crate::pci::msix;
use crate::vector::Vector;
use crate::virtio::DeviceRegisters;
use crate::virtio::registers::MESSAGE;
use crate::{devices, guard};

/// Has the disk interrupt a core by the vector that tells panics, and does something with it.
pub(super) fn interrupt(manager: &NodeManager, attack: Attack, to: ApicId) -> Tried {
    let Some(entry) = manager.node().disks.first() else { return Tried::Unknown };
    let Controller::Virtio(device) = &entry.controller else { return Tried::Unknown };
    // SAFETY: none can be given, and that is the point: somebody drives the disk.
    let registers = unsafe { DeviceRegisters::mapped(devices::number_of_disk(0), device) };
    let route = || msix::route(registers.messages, MESSAGE, to, Vector::PANIC);
    match attack {
        Attack::RouteDisk if guard::interrupt(to, Vector::PANIC.0.into()).is_err() => {
            return Tried::Refused;
        }
        Attack::RouteDisk => guard::amend(route),
        _ => route(),
    }
    // SAFETY: as above.
    let opened = unsafe { VirtioBlock::open(registers, entry.memory, String::new(), || {}) };
    let Ok(disk) = opened else { return Tried::Unknown };
    disk.submit(0, &Request::Flush);
    // From here on it interrupts when it has done something.
    let is_over = disk.is_ready();
    disk.tell();
    if is_over { Tried::Unknown } else { Tried::Done }
}
