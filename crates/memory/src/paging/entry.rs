//! Entries of an x86_64 page table, as data.

use core::fmt;
use nile_abi::{PageSize, PhysAddr};

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const WRITE_THROUGH: u64 = 1 << 3;
const UNCACHED: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const LEAF: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The hardware ignores all other bits of an entry that is not present; this one then says that
/// the entry's table is empty and waits for the core to forget it.
const RETIRED: u64 = 1 << 9;

/// What may be done with mapped memory, besides reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Permissions {
    /// It may be written. Never together with `execute`.
    pub write: bool,
    /// It may be executed.
    pub execute: bool,
    /// User mode has these permissions too.
    pub user: bool,
    /// No cache may hold it: registers of a device.
    pub uncached: bool,
}

impl Permissions {
    /// The kernel may read.
    pub const READ: Permissions =
        Permissions { write: false, execute: false, user: false, uncached: false };
    /// The kernel may read and write.
    pub const READ_WRITE: Permissions = Permissions { write: true, ..Permissions::READ };
    /// The kernel may read and execute.
    pub const READ_EXECUTE: Permissions = Permissions { execute: true, ..Permissions::READ };
    /// The kernel may read and write device registers.
    pub const DEVICE: Permissions = Permissions { uncached: true, ..Permissions::READ_WRITE };

    /// The same for user mode.
    #[must_use]
    pub const fn for_user(self) -> Permissions {
        Permissions { user: true, ..self }
    }

    /// Whether what may be written cannot be executed.
    pub const fn is_write_xor_execute(self) -> bool {
        !(self.write && self.execute)
    }
}

/// A level of the page tables, named as the architecture does. The paper counts them from the
/// root: its level 4 is [`Level::Pt`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The last level: an entry maps 4 KiB.
    Pt,
    /// Page directory: an entry maps 2 MiB or links a [`Level::Pt`] table.
    Pd,
    /// Page-directory-pointer table: an entry maps 1 GiB or links a [`Level::Pd`] table.
    Pdpt,
    /// The root: an entry links a [`Level::Pdpt`] table.
    Pml4,
}

impl Level {
    /// The level that this level's tables link.
    pub const fn below(self) -> Option<Level> {
        match self {
            Level::Pt => None,
            Level::Pd => Some(Level::Pt),
            Level::Pdpt => Some(Level::Pd),
            Level::Pml4 => Some(Level::Pdpt),
        }
    }

    /// The level whose entries map pages of `size`.
    pub const fn of(size: PageSize) -> Level {
        match size {
            PageSize::Small => Level::Pt,
            PageSize::Large => Level::Pd,
            PageSize::Huge => Level::Pdpt,
        }
    }

    /// What a leaf at this level maps.
    pub const fn leaf_size(self) -> Option<PageSize> {
        match self {
            Level::Pt => Some(PageSize::Small),
            Level::Pd => Some(PageSize::Large),
            Level::Pdpt => Some(PageSize::Huge),
            Level::Pml4 => None,
        }
    }

    /// The lowest bit of a virtual address that selects an entry at this level.
    pub const fn shift(self) -> u32 {
        match self {
            Level::Pt => 12,
            Level::Pd => 21,
            Level::Pdpt => 30,
            Level::Pml4 => 39,
        }
    }
}

/// What an entry says, given the level of its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// Nothing is mapped.
    Empty,
    /// The table of the level below.
    Link(PhysAddr),
    /// Memory.
    Leaf(PhysAddr),
    /// Nothing is mapped, and the core may still walk through this empty table.
    Retired(PhysAddr),
}

/// One entry of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry(u64);

impl Entry {
    /// An entry that maps nothing.
    pub const EMPTY: Entry = Entry(0);

    /// An entry that links the table at `table`. It permits everything: leaves decide.
    pub const fn link(table: PhysAddr) -> Entry {
        Entry(table.0 & ADDRESS | PRESENT | WRITABLE | USER | ACCESSED)
    }

    /// An entry that maps the memory at `phys`. The accessed and dirty bits are set already, so
    /// that the hardware never writes to a table that another core manages.
    pub const fn leaf(phys: PhysAddr, size: PageSize, permissions: Permissions) -> Entry {
        let mut bits = phys.align_down(size).0 & ADDRESS | PRESENT | ACCESSED | DIRTY;
        if !matches!(size, PageSize::Small) {
            bits |= LEAF;
        }
        if permissions.write {
            bits |= WRITABLE;
        }
        if permissions.user {
            bits |= USER;
        }
        if permissions.uncached {
            bits |= UNCACHED | WRITE_THROUGH;
        }
        if !permissions.execute {
            bits |= NO_EXECUTE;
        }
        Entry(bits)
    }

    /// An entry that maps nothing and keeps the address of the table that was linked there.
    pub const fn retired(table: PhysAddr) -> Entry {
        Entry(table.0 & ADDRESS | RETIRED)
    }

    /// The entry with these bits.
    pub const fn from_bits(bits: u64) -> Entry {
        Entry(bits)
    }

    /// The bits as the hardware reads them.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Whether the hardware looks at the entry at all.
    pub const fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// What the entry says in a table of `level`.
    pub const fn kind(self, level: Level) -> EntryKind {
        let address = PhysAddr(self.0 & ADDRESS);
        if !self.is_present() {
            if self.0 & RETIRED != 0 {
                return EntryKind::Retired(address);
            }
            return EntryKind::Empty;
        }
        match (level, level.leaf_size()) {
            (Level::Pt, _) => EntryKind::Leaf(address),
            // Low address bits of a large leaf are attributes.
            (_, Some(size)) if self.0 & LEAF != 0 => EntryKind::Leaf(address.align_down(size)),
            _ => EntryKind::Link(address),
        }
    }

    /// What a present entry permits by itself; entries above it may permit less.
    pub const fn permissions(self) -> Permissions {
        Permissions {
            write: self.0 & WRITABLE != 0,
            execute: self.0 & NO_EXECUTE == 0,
            user: self.0 & USER != 0,
            uncached: self.0 & UNCACHED != 0,
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entry({:#x})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_where_the_architecture_has_them() {
        let table = PhysAddr(0x1234_5000);
        assert_eq!(Entry::link(table).bits(), 0x1234_5027);
        let text = Entry::leaf(table, PageSize::Small, Permissions::READ_EXECUTE);
        assert_eq!(text.bits(), 0x1234_5061);
        let data = Entry::leaf(PhysAddr(0x4000_0000), PageSize::Large, Permissions::READ_WRITE);
        assert_eq!(data.bits(), 0x8000_0000_4000_00e3);
        let user = Entry::leaf(table, PageSize::Small, Permissions::READ.for_user());
        assert_eq!(user.bits(), 0x8000_0000_1234_5065);
        let device = Entry::leaf(PhysAddr(0xfee0_0000), PageSize::Small, Permissions::DEVICE);
        assert_eq!(device.bits(), 0x8000_0000_fee0_007b);
        assert!(!Entry::retired(table).is_present());
    }

    #[test]
    fn an_entry_says_at_each_level_what_was_put_in() {
        let table = PhysAddr(0xf_ffff_ffff_f000);
        for level in [Level::Pd, Level::Pdpt, Level::Pml4] {
            assert_eq!(Entry::link(table).kind(level), EntryKind::Link(table));
            assert_eq!(Entry::retired(table).kind(level), EntryKind::Retired(table));
            assert_eq!(Entry::EMPTY.kind(level), EntryKind::Empty);
        }
        for bits in 0..16 {
            let permissions = Permissions {
                write: bits & 1 != 0,
                execute: bits & 2 != 0,
                user: bits & 4 != 0,
                uncached: bits & 8 != 0,
            };
            for size in PageSize::ALL {
                let phys = table.align_down(size);
                let entry = Entry::leaf(phys, size, permissions);
                assert_eq!(entry.kind(Level::of(size)), EntryKind::Leaf(phys));
                assert_eq!(entry.permissions(), permissions);
                assert_eq!(permissions.is_write_xor_execute(), bits & 3 != 3);
            }
        }
    }
}
