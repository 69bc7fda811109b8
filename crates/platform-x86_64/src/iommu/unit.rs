//! The registers of one unit (Intel VT-d specification, chapter 10). They are told by registers
//! alone, one thing at a time: no queue in memory is to be kept.

use core::fmt;

use heapless::Vec;
use nile_abi::PhysAddr;

use super::tables::Depth;
use crate::mmio::Mmio;

/// Bytes of registers that are looked at: a unit that has others beyond is not used.
pub const REGISTER_BYTES: usize = 4096;

const CAPABILITIES: usize = 0x08;
const MORE_CAPABILITIES: usize = 0x10;
const COMMAND: usize = 0x18;
const STATUS: usize = 0x1c;
const ROOT: usize = 0x20;
const CONTEXT: usize = 0x28;
const FAULT_STATUS: usize = 0x34;
const FAULT_CONTROL: usize = 0x38;

/// Capabilities: it wants to be told of each store; it has pages of 2 MiB.
const WANTS_FLUSH: u64 = 1 << 4;
const LARGE_PAGES: u64 = 1 << 34;
/// It lets devices pass.
const PASSES: u64 = 1 << 6;

/// In command and status: it translates; it has the root; and what firmware may have switched on
/// that is not changed, as it is for interrupts.
const TRANSLATES: u32 = 1 << 31;
const HAS_ROOT: u32 = 1 << 30;
const KEPT: u32 = 1 << 25 | 1 << 23;

/// Upper halves: forget all contexts, all translations, and have ended what is under way.
const FORGET_CONTEXTS: u32 = 1 << 31 | 1 << 29;
const FORGET_PAGES: u32 = 1 << 31 | 1 << 28 | 1 << 17 | 1 << 16;
const BUSY: u32 = 1 << 31;

/// No interrupt tells of what it stopped; there was more than it has room for.
const SILENT: u32 = 1 << 31;
const OVERFLOWN: u32 = 1;

/// A record of what it stopped: in the last of four words, that it is one, and that it was a read.
const RECORD_BYTES: usize = 16;
const IS_RECORD: u32 = 1 << 31;
const IS_READ: u32 = 1 << 30;

/// Looks at a unit that was told something.
const MAX_LOOKS: u32 = 1 << 20;

/// Why a unit cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unfit {
    /// Its registers.
    OutOfReach,
    /// It does not let devices pass.
    PassesNone,
    /// Its pages have 4 KiB alone, or it is to be told of each store.
    Pages,
    /// It does not answer.
    Silent,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unfit::OutOfReach => "has registers out of reach",
            Unfit::PassesNone => "lets no device pass",
            Unfit::Pages => "has no pages of 2 MiB",
            Unfit::Silent => "does not answer",
        })
    }
}

/// A unit.
#[derive(Clone, Copy, Debug)]
pub struct Unit(Mmio);

impl Unit {
    /// The unit with these registers, [`REGISTER_BYTES`] of them.
    pub fn new(registers: Mmio) -> Unit {
        Unit(registers)
    }

    fn read64(self, register: usize) -> u64 {
        let [low, high] = [register, register + 4].map(|it| u64::from(self.0.read32(it)));
        high << 32 | low
    }

    /// Where it is told to forget translations.
    fn pages_register(self) -> usize {
        (self.read64(MORE_CAPABILITIES) >> 8 & 0x3ff) as usize * 16 + 8
    }

    /// Where its records are.
    fn records(self) -> impl Iterator<Item = usize> {
        let capabilities = self.read64(CAPABILITIES);
        let (first, count) = (capabilities >> 24 & 0x3ff, (capabilities >> 40 & 0xff) + 1);
        (first..first + count).map(|it| it as usize * RECORD_BYTES)
    }

    /// How deep its tables can be, if it can be used.
    pub fn depths(self) -> Result<Vec<Depth, 2>, Unfit> {
        let (capabilities, more) = (self.read64(CAPABILITIES), self.read64(MORE_CAPABILITIES));
        let is_near = |register: usize| register + RECORD_BYTES <= REGISTER_BYTES;
        if !is_near(self.pages_register()) || !self.records().all(is_near) {
            return Err(Unfit::OutOfReach);
        }
        if more & PASSES == 0 {
            return Err(Unfit::PassesNone);
        }
        if capabilities & LARGE_PAGES == 0 || capabilities & WANTS_FLUSH != 0 {
            return Err(Unfit::Pages);
        }
        let has = |depth: &Depth| capabilities >> 8 & depth.bit() != 0;
        Ok(Depth::ALL.into_iter().filter(has).collect())
    }

    /// Has it use the tables under this root, whatever it did before.
    pub fn begin(self, root: PhysAddr) -> Result<(), Unfit> {
        self.end();
        self.0.write32(FAULT_CONTROL, SILENT);
        self.0.write32(ROOT, root.0 as u32);
        self.0.write32(ROOT + 4, (root.0 >> 32) as u32);
        let has_begun = self.command(HAS_ROOT) && self.forget() && self.command(TRANSLATES);
        has_begun.then_some(()).ok_or(Unfit::Silent)
    }

    /// Has it translate nothing.
    pub fn end(&self) {
        let kept = self.0.read32(STATUS) & KEPT;
        self.0.write32(COMMAND, kept);
        self.until(|| self.0.read32(STATUS) & TRANSLATES == 0);
    }

    /// Gives it a command; whether it has done that.
    fn command(self, what: u32) -> bool {
        let kept = self.0.read32(STATUS) & (KEPT | TRANSLATES);
        self.0.write32(COMMAND, kept | what);
        self.until(|| self.0.read32(STATUS) & what != 0)
    }

    /// Has it forget all that it knows of the tables, and end what is under way by that; whether it
    /// has.
    pub fn forget(&self) -> bool {
        let pages = self.pages_register();
        let forgotten = |register: usize, what: u32| {
            self.0.write32(register, 0);
            self.0.write32(register + 4, what);
            self.until(|| self.0.read32(register + 4) & BUSY == 0)
        };
        forgotten(CONTEXT, FORGET_CONTEXTS) && forgotten(pages, FORGET_PAGES)
    }

    fn until(self, done: impl Fn() -> bool) -> bool {
        (0..MAX_LOOKS).any(|_| done())
    }

    /// The next access that it stopped: of which source, where, and whether that was to be written.
    pub fn fault(&self) -> Option<(u16, PhysAddr, bool)> {
        if self.0.read32(FAULT_STATUS) == 0 {
            return None;
        }
        let is_record = |it: &usize| self.0.read32(it + 12) & IS_RECORD != 0;
        let Some(record) = self.records().find(is_record) else {
            self.0.write32(FAULT_STATUS, OVERFLOWN);
            return None;
        };
        let at = PhysAddr(self.read64(record) & !0xfff);
        let source = self.0.read32(record + 8) as u16;
        let writes = self.0.read32(record + 12) & IS_READ == 0;
        self.0.write32(record + 12, IS_RECORD);
        Some((source, at, writes))
    }
}
