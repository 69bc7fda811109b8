//! PCI, as much of it as the boot path needs to find a device and to hand its registers on: the
//! functions that there are, their capabilities, their registers in memory, their interrupts.
//!
//! Firmware has numbered the buses and given the functions their addresses. What it left without
//! an address is not used. Only the boot path touches configuration space, so that no two cores
//! ever do at once; a core that drives a device needs its registers alone.
//!
//! * [`space`]: the two ways to configuration space.
//! * [`function`]: what one function says of itself.
//! * [`msix`], [`msi`]: interrupts as messages.

pub mod function;
pub mod msi;
pub mod msix;
pub mod space;

use heapless::Vec;
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

pub use function::{Function, Registers};
pub use space::ConfigurationSpace;

/// Buses that are looked at; a machine of ours has a few.
const MAX_BUSES: usize = 64;
const DEVICES: u8 = 32;
const FUNCTIONS: u8 = 8;

/// Gives every function on every bus that can be reached from bus 0 to `visit`.
pub fn walk<C: ConfigurationAccess + Copy>(space: C, visit: &mut dyn FnMut(Function<C>)) {
    let mut buses = Vec::<u8, MAX_BUSES>::new();
    let _ = buses.push(0);
    let mut next = 0;
    while let Some(&bus) = buses.get(next) {
        next += 1;
        for device in 0..DEVICES {
            for function in 0..FUNCTIONS {
                let at = DeviceFunction { bus, device, function };
                let Some(found) = Function::find(space, at) else {
                    // Without the first function there are no others.
                    if function == 0 {
                        break;
                    } else {
                        continue;
                    };
                };
                if let Some(below) = found.bus_below().filter(|below| !buses.contains(below)) {
                    // What is past the last bus that is looked at is left alone.
                    let _ = buses.push(below);
                }
                let alone = function == 0 && !found.is_one_of_several();
                visit(found);
                if alone {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
