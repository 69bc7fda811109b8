//! What the boot path finds out about an AHCI controller, and how its core resets it.

use core::fmt;

use nile_abi::{PageSize, VirtAddr};
use virtio_drivers::transport::pci::bus::{ConfigurationAccess, DeviceFunction};

use crate::layout;
use crate::mmio::Mmio;
use crate::pci::function::NoRegisters;
use crate::pci::{Function, Registers, msi};

/// Class, subclass and interface of such a controller.
const CLASS: u32 = 0x01_06_01;

/// Which address range has the registers.
const RANGE: u8 = 5;

/// Ports that are looked at: what the controllers of small machines have.
pub const MAX_PORTS: usize = 8;

/// Registers of the controller, and where those of the first port are, and bytes of each port's.
const CAPABILITIES: usize = 0x00;
const CONTROL: usize = 0x04;
const PORTS: usize = 0x0c;
const FIRST_PORT: usize = 0x100;
const PORT_BYTES: usize = 0x80;
const REGISTER_BYTES: u32 = (FIRST_PORT + MAX_PORTS * PORT_BYTES) as u32;

const ADDRESSES_OF_64_BITS: u32 = 1 << 31;
/// In a port's register of its link.
const LINK: usize = 0x28;
const CONNECTED: u32 = 3;

const RESET: u32 = 1 << 0;
const INTERRUPTS: u32 = 1 << 1;
const ENABLED: u32 = 1 << 31;

/// Looks at a controller that was told something before it is taken for dead.
pub const MAX_LOOKS: u32 = 1 << 18;

/// A controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ahci {
    /// Where it is.
    pub at: DeviceFunction,
    /// Its registers.
    pub registers: Registers,
}

/// Why a controller cannot be driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoController {
    /// Its registers are where they cannot be reached.
    Registers(NoRegisters),
    /// It cannot interrupt by messages.
    NoMessages,
}

impl fmt::Display for NoController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoController::Registers(NoRegisters::Unassigned) => {
                "firmware gave its registers no address"
            }
            NoController::Registers(_) => "its registers are out of reach",
            NoController::NoMessages => "it cannot interrupt by messages (MSI)",
        })
    }
}

/// Whether a function is such a controller.
pub fn is_ahci<C: ConfigurationAccess + Copy>(function: &Function<C>) -> bool {
    function.class() == CLASS
}

impl Ahci {
    /// Its registers, as the core has them that drives it as the node's device `number`.
    ///
    /// # Safety
    /// They are mapped on this core as [`layout::device_window`] says, and nobody else uses them.
    pub unsafe fn mapped(&self, number: usize) -> Mmio {
        let window = layout::device_window(number, 0);
        let before = self.registers.start.0 % PageSize::Small.bytes();
        // SAFETY: the caller's promise.
        unsafe { Mmio::new(VirtAddr(window.0 + before), self.registers.bytes as usize) }
    }

    /// The controller that this function is, switched on. It will interrupt by `message`. `None`
    /// if firmware has found no disk there; `look` shows the boot path its registers.
    pub fn of<C: ConfigurationAccess + Copy>(
        function: &mut Function<C>,
        message: msi::Message,
        look: &dyn Fn(Registers) -> Option<Mmio>,
    ) -> Result<Option<Ahci>, NoController> {
        let registers = function.registers(RANGE, 0, REGISTER_BYTES);
        let registers = registers.map_err(NoController::Registers)?;
        function.enable();
        let shown = look(registers).ok_or(NoController::Registers(NoRegisters::OutOfRange))?;
        let ports = shown.read32(PORTS);
        let connected = |number: usize| {
            let link = || shown.read32(port(number) + LINK) & 0xf;
            ports & 1 << number != 0 && link() == CONNECTED
        };
        if !(0..MAX_PORTS).any(connected) {
            function.disable();
            return Ok(None);
        }
        if !msi::enable(function, message) {
            function.disable();
            return Err(NoController::NoMessages);
        }
        Ok(Some(Ahci { at: function.at(), registers }))
    }
}

/// Stops a controller and begins anew: when this gives ports, which are those that there are, none
/// of its disks touches memory any more. Says what is wrong with one that does not come back, or
/// that cannot reach all memory.
pub fn reset(registers: Mmio) -> Result<u32, &'static str> {
    registers.write32(CONTROL, ENABLED | RESET);
    if !(0..MAX_LOOKS).any(|_| registers.read32(CONTROL) & RESET == 0) {
        return Err("the controller does not come back from a reset");
    }
    registers.write32(CONTROL, ENABLED);
    if registers.read32(CAPABILITIES) & ADDRESSES_OF_64_BITS == 0 {
        return Err("the controller cannot reach memory above 4 GiB");
    }
    registers.write32(CONTROL, ENABLED | INTERRUPTS);
    Ok(registers.read32(PORTS))
}

/// Has a controller that was reset interrupt nobody, or somebody again, also for what was before.
pub fn mask(registers: Mmio, is_masked: bool) {
    registers.write32(CONTROL, if is_masked { ENABLED } else { ENABLED | INTERRUPTS });
}

/// Where the registers of a port below [`MAX_PORTS`] begin.
pub fn port(number: usize) -> usize {
    FIRST_PORT + number * PORT_BYTES
}
