//! MSI-X: a function interrupts by storing a word to an address, both taken from a table in its
//! own registers (PCI 3.0, 6.8.2). On a PC the address names a core and the word a vector of that
//! core (Intel SDM volume 3, 10.11).

use virtio_drivers::transport::pci::bus::ConfigurationAccess;

use super::function::{Function, NoRegisters, Registers};
use crate::apic::ApicId;
use crate::mmio::Mmio;
use crate::vector::Vector;

const CAPABILITY: u8 = 0x11;
const ENABLED: u32 = 1 << 31;
const ALL_MASKED: u32 = 1 << 30;
/// Where in the capability it says which registers hold the table.
const TABLE: u8 = 4;
const TABLE_BAR: u32 = 0b111;

const ENTRY_BYTES: u32 = 16;
const ADDRESS: usize = 0;
const ADDRESS_HIGH: usize = 4;
const DATA: usize = 8;
const CONTROL: usize = 12;
const MASKED: u32 = 1;

const MESSAGES: u32 = 0xfee0_0000;
const CORE_SHIFT: u32 = 12;

/// The largest name of a core that a message has room for; the one above means all cores.
const LAST_CORE: u32 = 0xfe;

/// Where a function says that it can interrupt by messages, if it can.
pub fn find<C: ConfigurationAccess + Copy>(function: &Function<C>) -> Option<u8> {
    const BYTES: u8 = 12;
    function.capabilities(CAPABILITY).first().copied().filter(|at| *at <= u8::MAX - BYTES)
}

/// Switches messages on, which a function has at this place, each of them masked, and says where
/// their table is.
pub fn enable<C: ConfigurationAccess + Copy>(
    function: &mut Function<C>,
    at: u8,
) -> Result<Registers, NoRegisters> {
    let control = function.read(at);
    let table = function.read(at + TABLE);
    let bytes = ((control >> 16 & 0x7ff) + 1) * ENTRY_BYTES;
    let table = function.registers((table & TABLE_BAR) as u8, table & !TABLE_BAR, bytes)?;
    function.write(at, control & !ALL_MASKED | ENABLED);
    Ok(table)
}

/// Whether messages can reach this core.
pub fn reaches(core: ApicId) -> bool {
    core.0 <= LAST_CORE
}

/// The part of a message's address that names a core.
fn core_bits(core: ApicId) -> u32 {
    core.0 << CORE_SHIFT
}

/// The address of messages to this core, which they can reach.
pub fn address(core: ApicId) -> u32 {
    MESSAGES | core_bits(core)
}

/// Has message `index` of the table interrupt `core`, which messages can reach, through `vector`.
pub fn route(table: Mmio, index: u16, core: ApicId, vector: Vector) {
    let entry = usize::from(index) * ENTRY_BYTES as usize;
    // Masked until all of it belongs together.
    table.write32(entry + CONTROL, MASKED);
    table.write32(entry + ADDRESS, address(core));
    table.write32(entry + ADDRESS_HIGH, 0);
    table.write32(entry + DATA, vector.0.into());
    table.write32(entry + CONTROL, 0);
}

/// Holds message `index` of the table back, or lets it go: also one that was held back.
pub fn mask(table: Mmio, index: u16, is_masked: bool) {
    let entry = usize::from(index) * ENTRY_BYTES as usize;
    table.write32(entry + CONTROL, if is_masked { MASKED } else { 0 });
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::VirtAddr;

    #[test]
    fn a_message_names_core_and_vector() {
        let mut table = [0xffff_ffffu32; 8];
        // SAFETY: the words outlive the registers.
        let registers =
            unsafe { Mmio::new(VirtAddr(table.as_mut_ptr().addr() as u64), size_of_val(&table)) };
        route(registers, 1, ApicId(0x2a), Vector(0x31));
        assert_eq!(table[4..], [0xfee2_a000, 0, 0x31, 0]);
        mask(registers, 1, true);
        assert_eq!(table[4..], [0xfee2_a000, 0, 0x31, 1]);
        mask(registers, 1, false);
        assert_eq!(table[4..], [0xfee2_a000, 0, 0x31, 0]);
        assert_eq!(table[..4], [0xffff_ffff; 4]);
        assert!(reaches(ApicId(254)) && !reaches(ApicId(255)));
    }
}
