//! One function of a PCI device: who made it, where its registers are, what it can do.

use nile_abi::{PageSize, PhysAddr};
use virtio_drivers::transport::pci::bus::{Command, ConfigurationAccess, DeviceFunction, PciRoot};

use super::space::NOTHING;
use crate::node::Frames;

const IDENTITY: u8 = 0x00;
const CLASS: u8 = 0x08;
const HEADER: u8 = 0x0c;
const BUSES: u8 = 0x18;
const HEADER_KIND: u32 = 0x7f;
const HEADER_SEVERAL: u32 = 0x80;
const BRIDGE: u32 = 1;

/// Address ranges of a function.
const RANGES: usize = 6;

/// A capability takes four bytes at least, and they start at 0x40.
const MAX_CAPABILITIES: usize = (256 - 0x40) / 4;

/// Registers of a function in memory, told by bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registers {
    /// The first one.
    pub start: PhysAddr,
    /// How many.
    pub bytes: u64,
}

impl Registers {
    /// The whole pages that they lie in.
    pub const fn pages(&self) -> Frames {
        let start = self.start.align_down(PageSize::Small);
        let end = (self.start.0 + self.bytes).next_multiple_of(PageSize::Small.bytes());
        Frames { start, bytes: end - start.0 }
    }
}

/// Why registers cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoRegisters {
    /// They are said to be in a range that the function does not have, or in I/O space.
    NotInMemory,
    /// Firmware has given the range no address.
    Unassigned,
    /// They are said to lie outside of the range.
    OutOfRange,
}

/// A function.
#[derive(Debug)]
pub struct Function<C> {
    space: C,
    at: DeviceFunction,
    /// Its address ranges, as far as they were looked up: that takes a while, in which it does not
    /// answer there.
    ranges: [Option<Result<Registers, NoRegisters>>; RANGES],
}

impl<C: ConfigurationAccess + Copy> Function<C> {
    /// The function at this place, if there is one.
    pub fn find(space: C, at: DeviceFunction) -> Option<Function<C>> {
        let is_there = space.read_word(at, IDENTITY) != NOTHING;
        is_there.then_some(Function { space, at, ranges: [None; RANGES] })
    }

    /// Where it is.
    pub fn at(&self) -> DeviceFunction {
        self.at
    }

    /// Who made it, and what it is.
    pub fn identity(&self) -> (u16, u16) {
        let word = self.read(IDENTITY);
        (word as u16, (word >> 16) as u16)
    }

    /// What kind it is: class, subclass and interface.
    pub fn class(&self) -> u32 {
        self.read(CLASS) >> 8
    }

    /// Whether its device may have more functions.
    pub(super) fn is_one_of_several(&self) -> bool {
        self.read(HEADER) >> 16 & HEADER_SEVERAL != 0
    }

    /// The bus behind it, if it is a bridge.
    pub(super) fn bus_below(&self) -> Option<u8> {
        let is_bridge = self.read(HEADER) >> 16 & HEADER_KIND == BRIDGE;
        is_bridge.then(|| (self.read(BUSES) >> 8) as u8)
    }

    /// A word of its configuration; `register` is a multiple of 4.
    pub fn read(&self, register: u8) -> u32 {
        self.space.read_word(self.at, register)
    }

    /// Changes a word of its configuration.
    pub(super) fn write(&mut self, register: u8, value: u32) {
        self.space.write_word(self.at, register, value);
    }

    /// Where its capabilities of this kind are. A list that goes in circles is cut off.
    pub fn capabilities(&self, id: u8) -> heapless::Vec<u8, MAX_CAPABILITIES> {
        let root = PciRoot::new(self.space);
        let all = root.capabilities(self.at).take(MAX_CAPABILITIES);
        all.filter(|found| found.id == id).map(|found| found.offset).collect()
    }

    /// The `bytes` bytes at `offset` of the address range that has number `range`.
    pub fn registers(
        &mut self,
        range: u8,
        offset: u32,
        bytes: u32,
    ) -> Result<Registers, NoRegisters> {
        let known = self.ranges.get(usize::from(range)).ok_or(NoRegisters::NotInMemory)?;
        let found = known.unwrap_or_else(|| self.look_up(range));
        self.ranges[usize::from(range)] = Some(found);
        let range = found?;
        let (offset, bytes) = (u64::from(offset), u64::from(bytes));
        let start = range.start.checked_add(offset).filter(|_| offset + bytes <= range.bytes);
        Ok(Registers { start: start.ok_or(NoRegisters::OutOfRange)?, bytes })
    }

    fn look_up(&self, range: u8) -> Result<Registers, NoRegisters> {
        let info = PciRoot::new(self.space).bar_info(self.at, range).ok().flatten();
        let found = info.and_then(|info| info.memory_address_size());
        let (start, bytes) = found.ok_or(NoRegisters::NotInMemory)?;
        match start {
            0 => Err(NoRegisters::Unassigned),
            _ if start.checked_add(bytes).is_none() => Err(NoRegisters::OutOfRange),
            _ => Ok(Registers { start: PhysAddr(start), bytes }),
        }
    }

    /// Has it neither answer nor reach memory.
    pub fn disable(&mut self) {
        let mut root = PciRoot::new(self.space);
        let (_, command) = root.get_status_command(self.at);
        root.set_command(self.at, command - Command::MEMORY_SPACE - Command::BUS_MASTER);
    }

    /// Lets it answer in memory and reach memory, and interrupt by messages only.
    pub fn enable(&mut self) {
        let mut root = PciRoot::new(self.space);
        let (_, command) = root.get_status_command(self.at);
        let on = Command::MEMORY_SPACE | Command::BUS_MASTER | Command::INTERRUPT_DISABLE;
        root.set_command(self.at, command | on);
    }
}
