//! Configuration space: in memory, where ACPI says that it is (PCI Express 3.0, 7.2.2), else
//! through two I/O ports, an index and a window (PCI 3.0, 3.2.2.3.2).

use nile_abi::{PhysAddr, VirtAddr};
use virtio_drivers::transport::pci::bus::{Cam, ConfigurationAccess, DeviceFunction};

use crate::acpi::Ecam;
use crate::mmio::Mmio;
use crate::privileged;

const INDEX: u16 = 0xcf8;
const WINDOW: u16 = 0xcfc;
const ENABLED: u32 = 1 << 31;

/// What a read gives where nothing is.
pub const NOTHING: u32 = u32::MAX;

/// The way to configuration space. Only the boot path has one.
#[derive(Clone, Copy, Debug)]
pub enum ConfigurationSpace {
    /// The registers of the buses up to `last_bus`, in memory.
    InMemory {
        /// Those of bus 0 and on.
        registers: Mmio,
        /// The last bus that they show.
        last_bus: u8,
    },
    /// Through the ports.
    ThroughPorts,
}

impl ConfigurationSpace {
    /// The way there of a machine whose ACPI tables say `ecam`, where memory below `reach` is
    /// seen at its own address.
    ///
    /// # Safety
    /// Called on the boot path, and what it gives is used there alone.
    pub unsafe fn find(ecam: Option<Ecam>, reach: PhysAddr) -> ConfigurationSpace {
        const BUS_BYTES: u64 = 1 << 20;
        let in_memory = ecam.and_then(|Ecam { base, last_bus }| {
            let bytes = (u64::from(last_bus) + 1) * BUS_BYTES;
            let reachable = base.checked_add(bytes).is_some_and(|end| end <= reach);
            // SAFETY: ACPI says that it is there; the caller has it where it is.
            let registers = unsafe { Mmio::new(VirtAddr(base.0), bytes as usize) };
            reachable.then_some(ConfigurationSpace::InMemory { registers, last_bus })
        });
        in_memory.unwrap_or(ConfigurationSpace::ThroughPorts)
    }
}

impl ConfigurationAccess for ConfigurationSpace {
    fn read_word(&self, function: DeviceFunction, register: u8) -> u32 {
        match self {
            ConfigurationSpace::InMemory { last_bus, .. } if function.bus > *last_bus => NOTHING,
            ConfigurationSpace::InMemory { registers, .. } => {
                registers.read32(Cam::Ecam.cam_offset(function, register) as usize)
            }
            // SAFETY: no register of configuration space changes by being read; nobody else uses
            // the two ports (see the type).
            ConfigurationSpace::ThroughPorts => unsafe {
                privileged::out32(INDEX, index(function, register));
                privileged::in32(WINDOW)
            },
        }
    }

    fn write_word(&mut self, function: DeviceFunction, register: u8, value: u32) {
        match self {
            ConfigurationSpace::InMemory { last_bus, .. } if function.bus > *last_bus => {}
            ConfigurationSpace::InMemory { registers, .. } => {
                registers.write32(Cam::Ecam.cam_offset(function, register) as usize, value);
            }
            // SAFETY: as in `read_word`; what is written decides at which addresses the function
            // answers and whether it may reach memory, which is its driver's to decide.
            ConfigurationSpace::ThroughPorts => unsafe {
                privileged::out32(INDEX, index(function, register));
                privileged::out32(WINDOW, value);
            },
        }
    }

    unsafe fn unsafe_clone(&self) -> ConfigurationSpace {
        *self
    }
}

fn index(function: DeviceFunction, register: u8) -> u32 {
    // The bits are those of the older way in memory.
    ENABLED | Cam::MmioCam.cam_offset(function, register)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_names_bus_device_function_and_register() {
        let function = DeviceFunction { bus: 0x12, device: 0x1f, function: 7 };
        assert_eq!(index(function, 0x3c), 0x8012_ff3c);
    }
}
