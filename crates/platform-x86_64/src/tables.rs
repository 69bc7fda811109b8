//! Every store to a page table, and the loads.
//!
//! What is stored where is decided in [`nile_memory::paging`] and [`crate::space`]; here it
//! reaches memory, by the [`guard`](crate::guard). The boot path sees tables where they are; the
//! managing core sees them in the page-table window; nobody else sees one.

use nile_abi::{PageSize, PhysAddr, VirtAddr};
use nile_guard::Violation;
use nile_memory::paging::{Entry, EntryKind, Level, TableIndex};
use nile_memory::{Permissions, TableMemory};

use crate::node::Frames;
use crate::privileged;
use crate::{guard, layout};

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
    /// They are mapped there as long as this value lives, writable unless the node is guarded, and
    /// hold tables only, which nobody else stores to.
    pub unsafe fn new(frames: Frames, base: VirtAddr) -> TableFrames {
        TableFrames { frames, base }
    }

    /// Where an entry is seen.
    pub(crate) fn place(&self, table: PhysAddr, index: TableIndex) -> *mut u64 {
        let inside = table >= self.frames.start && table < self.frames.end();
        assert!(inside, "no page table at {table}");
        (self.base.0 + table.align_down(PageSize::Small).0 + index.get() as u64 * 8) as *mut u64
    }
}

impl TableMemory for TableFrames {
    fn read(&self, table: PhysAddr, index: TableIndex) -> Entry {
        // SAFETY: the entry is inside the mapped frames (`place`); volatile, as the processor
        // that walks the table is another reader.
        Entry::from_bits(unsafe { self.place(table, index).read_volatile() })
    }

    fn write(&mut self, table: PhysAddr, index: TableIndex, entry: Entry) {
        refused(guard::store(self, table, index, entry));
    }

    fn clear(&mut self, table: PhysAddr) {
        refused(guard::clear(self, table));
    }
}

/// Nobody asks for what its domain has not, unless something is wrong with it.
fn refused(judged: Result<(), Violation>) {
    if let Err(violation) = judged {
        guard::refuse(violation)
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
    pub unsafe fn zero(&self, tables: &TableFrames, frames: Frames) {
        let index = TableIndex::of(layout::ZEROING_WINDOW, Level::Pd);
        let mut at = frames.start;
        while at < frames.end() {
            let block = at.align_down(PageSize::Large);
            let end = frames.end().min(PhysAddr(block.0 + PageSize::Large.bytes()));
            let entry = Entry::leaf(block, PageSize::Large, Permissions::READ_WRITE);
            let (window, bytes) = (tables.place(self.directory, index), end.0 - at.0);
            let seen = (layout::ZEROING_WINDOW.0 + (at.0 - block.0)) as *mut u8;
            // SAFETY: the entry is the window's, which shows the block; only the frames, which are
            // unused, are written.
            let zero = || unsafe {
                window.write_volatile(entry.bits());
                seen.write_bytes(0, bytes as usize);
                window.write_volatile(Entry::EMPTY.bits());
                privileged::invalidate_page(layout::ZEROING_WINDOW);
            };
            refused(guard::show(Frames { start: at, bytes }, zero));
            at = end;
        }
    }
}
