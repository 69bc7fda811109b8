//! The I/O APIC: a table with one entry for each device line, saying which core it interrupts
//! and through which vector.

use super::ApicId;
use crate::acpi::{Polarity, Trigger};
use crate::mmio::Mmio;
use crate::vector::Vector;

/// Bytes of its registers: an index and a window.
pub const REGISTER_BYTES: usize = 0x20;

const INDEX: usize = 0x00;
const WINDOW: usize = 0x10;

const VERSION: u32 = 0x01;
const FIRST_ENTRY: u32 = 0x10;

const ACTIVE_LOW: u32 = 1 << 13;
const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;

/// A line of one I/O APIC, counted from its own first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Line(pub u32);

/// There is no such line, or the core's id does not fit the table's 8 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoute;

/// One I/O APIC. Only one core at a time uses it: index and window are two accesses.
pub struct IoApic {
    registers: Mmio,
}

impl IoApic {
    /// The I/O APIC with these registers.
    pub fn new(registers: Mmio) -> IoApic {
        IoApic { registers }
    }

    fn read(&self, register: u32) -> u32 {
        self.registers.write32(INDEX, register);
        self.registers.read32(WINDOW)
    }

    fn write(&self, register: u32, value: u32) {
        self.registers.write32(INDEX, register);
        self.registers.write32(WINDOW, value);
    }

    /// How many lines it has.
    pub fn lines(&self) -> u32 {
        (self.read(VERSION) >> 16 & 0xff) + 1
    }

    /// Lets no device through.
    pub fn mask_all(&self) {
        for line in 0..self.lines() {
            self.mask(Line(line));
        }
    }

    /// Lets what is on this line through no more.
    pub fn mask(&self, line: Line) {
        self.write(FIRST_ENTRY + 2 * line.0, MASKED);
    }

    /// Sends what is on `line` to one core, through `vector`.
    pub fn route(
        &self,
        line: Line,
        vector: Vector,
        core: ApicId,
        trigger: Trigger,
        polarity: Polarity,
    ) -> Result<(), NoRoute> {
        let core = u8::try_from(core.0).map_err(|_| NoRoute)?;
        if line.0 >= self.lines() {
            return Err(NoRoute);
        }
        let trigger = if trigger == Trigger::Level { LEVEL } else { 0 };
        let polarity = if polarity == Polarity::ActiveLow { ACTIVE_LOW } else { 0 };
        let entry = FIRST_ENTRY + 2 * line.0;
        // Masked until both halves belong together.
        self.write(entry, MASKED);
        self.write(entry + 1, u32::from(core) << 24);
        self.write(entry, trigger | polarity | u32::from(vector.0));
        Ok(())
    }
}
