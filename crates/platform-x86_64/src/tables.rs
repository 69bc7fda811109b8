//! Every store to a page table, and the loads.
//!
//! What is stored where is decided in [`nile_memory::paging`] and [`crate::space`]; here it
//! reaches memory. The boot path sees tables where they are; the managing core sees them in the
//! page-table window; nobody else sees one.

use nile_abi::{PageSize, PhysAddr, VirtAddr};
use nile_memory::paging::{Entry, EntryKind, Level, TableIndex};
use nile_memory::{Permissions, TableMemory};

use crate::layout;
use crate::node::Frames;
use crate::privileged;

/// The frames of page tables, where they are seen from some address on.
#[derive(Debug)]
pub struct TableFrames {
    frames: Frames,
    base: VirtAddr,
}

impl TableFrames {
    /// The tables in `frames`, each seen at `base` plus its physical address.
    ///
    /// # Safety
    /// They are mapped there, writable, as long as this value lives, and hold tables only, which
    /// nobody else stores to.
    pub unsafe fn new(frames: Frames, base: VirtAddr) -> TableFrames {
        TableFrames { frames, base }
    }

    fn entry(&self, table: PhysAddr, index: TableIndex) -> *mut u64 {
        let inside = table >= self.frames.start && table < self.frames.end();
        assert!(inside, "no page table at {table}");
        (self.base.0 + table.align_down(PageSize::Small).0 + index.get() as u64 * 8) as *mut u64
    }
}

impl TableMemory for TableFrames {
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry {
        // SAFETY: the entry is inside the mapped frames (`entry`); volatile, as the processor
        // that walks the table is another reader.
        Entry::from_bits(unsafe { self.entry(table, index).read_volatile() })
    }

    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry) {
        // SAFETY: as in `read`; the caller decides what the entry says.
        unsafe { self.entry(table, index).write_volatile(entry.bits()) }
    }

    fn clear(&mut self, table: PhysAddr) {
        let Some(first) = TableIndex::all().next() else { return };
        // SAFETY: the table is inside the mapped frames (`entry`), and no walk reaches it.
        unsafe { self.entry(table, first).write_bytes(0, nile_memory::paging::ENTRIES) }
    }
}

/// A 2 MiB window onto any memory, for a moment: how the managing core zeroes frames that are
/// mapped nowhere.
#[derive(Debug)]
pub struct ZeroingWindow {
    directory: PhysAddr,
}

impl ZeroingWindow {
    /// The window in the space under `root`; `None` if that space was built without one.
    pub fn find(tables: &TableFrames, root: PhysAddr) -> Option<ZeroingWindow> {
        let mut directory = root;
        for level in [Level::Pml4, Level::Pdpt] {
            let index = TableIndex::of(layout::ZEROING_WINDOW, level);
            match tables.read(directory, index).kind(level) {
                EntryKind::Link(below) => directory = below,
                _ => return None,
            }
        }
        Some(ZeroingWindow { directory })
    }

    /// Fills `frames` with zeros.
    ///
    /// # Safety
    /// The frames are memory that nobody uses. This core runs on the space of [`Self::find`].
    pub unsafe fn zero(&self, tables: &mut TableFrames, frames: Frames) {
        let index = TableIndex::of(layout::ZEROING_WINDOW, Level::Pd);
        let mut at = frames.start;
        while at < frames.end() {
            let block = at.align_down(PageSize::Large);
            let end = frames.end().min(PhysAddr(block.0 + PageSize::Large.bytes()));
            let entry = Entry::leaf(block, PageSize::Large, Permissions::READ_WRITE);
            tables.write(self.directory, index, entry);
            let seen = layout::ZEROING_WINDOW.0 + (at.0 - block.0);
            // SAFETY: the window shows the block; only the frames, which are unused, are written.
            unsafe { (seen as *mut u8).write_bytes(0, (end.0 - at.0) as usize) };
            tables.write(self.directory, index, Entry::EMPTY);
            privileged::invalidate_page(layout::ZEROING_WINDOW);
            at = end;
        }
    }
}
