//! The devices of the node: what the boot path finds on the PCI buses, and which core drives it.

use core::fmt;

use heapless::Vec;
use nile_abi::{CoreId, PhysAddr, Role, RoleSet};
use nile_platform::Line;
use nile_platform::board::driver;
use virtio_drivers::transport::pci::bus::ConfigurationAccess;

use crate::apic::ApicId;
use crate::disk::ahci::controller::is_ahci;
use crate::disk::{Ahci, BLOCK, Controller, DiskEntry, MAX_DISKS};
use crate::mmio::Mmio;
use crate::network::{MAX_INTERFACES, NETWORK};
use crate::node::Frames;
use crate::pci::msi::Message;
use crate::pci::{self, Registers, msix};
use crate::serial;
use crate::vector::Vector;
use crate::virtio::Device;

/// What there is. What is past the last that a node uses is left alone.
#[derive(Default)]
pub struct Devices {
    /// Network interfaces.
    pub network: Vec<Device, MAX_INTERFACES>,
    /// Disks, or what they are connected to.
    pub disks: Vec<Controller, MAX_DISKS>,
}

impl Devices {
    /// Takes the disks out that are for domains: all but the first `keeps`, and but one that can
    /// be nobody's alone with those before it: their numbers say whom they interrupt. What they
    /// share with the core that makes them as new is still to be taken.
    pub fn give(&mut self, keeps: usize) -> Vec<DiskEntry, MAX_DISKS> {
        let windows = self.disks.iter().map(Controller::windows);
        let cards = self.network.iter().flat_map(Device::windows);
        let pages: alloc::vec::Vec<Frames> =
            windows.flatten().chain(cards).map(|it| it.pages()).collect();
        // Whom a device interrupts, a guard sees to: in pages where nothing else is.
        let is_apart = |it: &Controller| {
            let Controller::Virtio(device) = it else { return false };
            let own = device.messages.pages();
            let overlaps = |it: &&Frames| it.start < own.end() && own.start < it.end();
            pages.iter().filter(overlaps).count() == 1
        };
        let last = self.disks.iter().rposition(|it| !is_apart(it));
        let keeps = keeps.max(last.map_or(0, |it| it + 1)).min(self.disks.len());
        let memory = Frames { start: PhysAddr(0), bytes: 0 };
        let given = self.disks[keeps..].iter();
        let given = given.map(|it| DiskEntry { core: CoreId::BOOT, controller: *it, memory });
        let given = given.collect();
        self.disks.truncate(keeps);
        given
    }
}

/// Finds the devices of a node with these cores and switches them on; the log tells of each that
/// is left alone. `look` shows the boot path a device's registers.
pub fn find<C: ConfigurationAccess + Copy>(
    space: C,
    cores: &[(ApicId, RoleSet)],
    look: &dyn Fn(Registers) -> Option<Mmio>,
) -> Devices {
    let mut devices = Devices::default();
    pci::walk(space, &mut |mut function| {
        let (at, identity) = (function.at(), function.identity());
        let told = |why: &dyn fmt::Display| {
            serial::log(format_args!("the device at {at} is not used: {why}"));
        };
        // What there is no room for is left alone.
        if NETWORK.includes(identity) {
            match Device::of(&mut function, &NETWORK) {
                Ok(found) => drop(devices.network.push(found)),
                Err(why) => told(&why),
            }
        } else if BLOCK.includes(identity) {
            match Device::of(&mut function, &BLOCK) {
                Ok(found) => drop(devices.disks.push(Controller::Virtio(found))),
                Err(why) => told(&why),
            }
        } else if is_ahci(&function) {
            let number = devices.disks.len();
            let roles = cores.iter().map(|(_, roles)| *roles);
            let Some(core) = driver(number, Role::Disk, roles) else { return };
            let message =
                Message { core: cores[core.index()].0, vector: vector(number_of_disk(number)) };
            if !msix::reaches(message.core) {
                return told(&"its messages do not reach the disk core");
            }
            match Ahci::of(&mut function, message, look) {
                Ok(found) => drop(found.map(|it| devices.disks.push(Controller::Ahci(it)))),
                Err(why) => told(&why),
            }
        }
    });
    devices
}

/// The number that the disk device `disk` has among all devices; interfaces are before.
pub fn number_of_disk(disk: usize) -> usize {
    MAX_INTERFACES + disk
}

/// Through which vector the device with this number interrupts its core.
pub fn vector(number: usize) -> Vector {
    Vector(Vector::DEVICES.start().0 + number as u8)
}

/// The line of the device with this number.
pub fn line(number: usize) -> Option<Line> {
    let disk = number.checked_sub(MAX_INTERFACES);
    disk.map_or_else(|| Line::interface(number), Line::disk)
}

/// The number of the device that has this line.
pub fn number(line: Line) -> usize {
    line.index()
}

/// The line of the device that interrupts through this vector.
pub fn line_of(vector: Vector) -> Option<Line> {
    line(usize::from(vector.0.checked_sub(Vector::DEVICES.start().0)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use virtio_drivers::transport::pci::bus::DeviceFunction;

    /// A disk whose registers begin at this page, with the table of its messages this much behind.
    fn disk(page: u64, messages: u64) -> Controller {
        let at = |page: u64| Registers { start: PhysAddr(page << 12), bytes: 64 };
        Controller::Virtio(Device {
            at: DeviceFunction { bus: 0, device: page as u8, function: 0 },
            common: at(page),
            notify: at(page + 1),
            notify_multiplier: 4,
            configuration: at(page + 2),
            messages: at(page + messages),
        })
    }

    #[test]
    fn disks_are_given_whose_messages_nobody_else_has_a_way_to() {
        let (apart, other, shared) = (disk(1, 3), disk(5, 3), disk(9, 1));
        for (disks, keeps, kept) in [
            (&[apart, other][..], 0, 0),
            (&[apart, other], 1, 1),
            (&[apart, other], 3, 2),
            (&[apart, shared, other], 0, 2),
            (&[], 1, 0),
        ] {
            let disks = disks.iter().copied().collect::<Vec<_, MAX_DISKS>>();
            let mut devices = Devices { disks: disks.clone(), ..Devices::default() };
            let given = devices.give(keeps);
            assert_eq!(devices.disks[..], disks[..kept]);
            assert!(given.iter().map(|it| it.controller).eq(disks[kept..].iter().copied()));
        }
    }

    #[test]
    fn every_device_has_a_vector_of_its_own() {
        let last = number_of_disk(MAX_DISKS - 1);
        assert!(vector(last) <= *Vector::DEVICES.end() && vector(0) == *Vector::DEVICES.start());
        assert!(number_of_disk(0) >= MAX_INTERFACES);
        for (line, number) in Line::all().zip(0..) {
            assert_eq!((super::line(number), super::number(line)), (Some(line), number));
            assert_eq!(line_of(vector(number)), Some(line));
        }
        assert_eq!(line_of(Vector(Vector::DEVICES.start().0 - 1)), None);
        assert_eq!(line_of(*Vector::DEVICES.end()), None);
    }
}
