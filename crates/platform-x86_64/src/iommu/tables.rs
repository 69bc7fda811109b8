//! The tables that units walk (Intel VT-d specification, chapters 3 and 9): one root, one table of
//! contexts for all buses without disks for domains, and for each such disk one of its bus, and a
//! window. A window has all its upper tables for ever: what changes are entries of 2 MiB, by one
//! store each.

use core::arch::x86_64::{_mm_clflush, _mm_mfence};

use nile_abi::{PageSize, PhysAddr, VirtAddr};

use super::{Sources, pages};
use crate::node::Frames;

/// Entries of a table, and of a table of contexts, which have two words.
const ENTRIES: u64 = 512;
const CONTEXTS: u64 = 256;
const PAGE: u64 = PageSize::Small.bytes();

/// An entry is there; it lets devices read and write; it is one of 2 MiB.
const IS_THERE: u64 = 1;
const READ_WRITE: u64 = 0b11;
const IS_LEAF: u64 = 1 << 7;

/// A context that lets its device pass.
const PASSES: u64 = 0b10 << 2;

/// The tags by which a unit tells apart what it remembers: that of what passes, and of the window
/// of the first disk. There are 16 at least.
const TAG_SHIFT: u32 = 8;
const PASSING: u64 = 1;
const FIRST: u64 = 2;

/// Tables: the root and what passes; of each disk its contexts, then its window from above, where
/// one of 1 GiB is for each that memory lies in.
const SHARED: u64 = 2;
const CONTEXT: u64 = 0;
const TOP: u64 = 1;
const UPPER: u64 = 2;
const LOWER: u64 = 3;

/// How many tables there are from a context to a page of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// They reach 256 TiB.
    Four,
    /// They reach 512 GiB.
    Three,
}

impl Depth {
    /// All that are known, the one first that is taken if there is a choice.
    pub const ALL: [Depth; 2] = [Depth::Four, Depth::Three];

    /// What a context has for it.
    const fn width(self) -> u64 {
        match self {
            Depth::Three => 1,
            Depth::Four => 2,
        }
    }

    /// By which bit a unit says that it can have them.
    pub const fn bit(self) -> u64 {
        1 << self.width()
    }
}

/// Where the tables of 1 GiB begin, and how many there are. Memory ends below 512 GiB, as far as
/// the boot path reaches.
fn gibs(memory: Frames) -> (u64, u64) {
    let gib = PageSize::Huge.bytes();
    let first = memory.start.0 / gib;
    (first, memory.end().0.div_ceil(gib) - first)
}

/// Bytes of the tables for so many disks.
pub fn bytes(disks: usize, memory: Frames) -> u64 {
    (SHARED + disks as u64 * (LOWER + gibs(memory).1)) * PAGE
}

/// The tables, where some space has them.
#[derive(Clone, Copy, Debug)]
pub struct Tables {
    frames: Frames,
    base: VirtAddr,
    memory: Frames,
    depth: Depth,
}

impl Tables {
    /// The tables in `frames`, as many as [`bytes`] says, each seen at `base` plus its physical
    /// address; windows show `memory` or parts of it.
    ///
    /// # Safety
    /// They are mapped there as long as this value is used, and nobody else stores to them.
    pub unsafe fn new(frames: Frames, base: VirtAddr, memory: Frames, depth: Depth) -> Tables {
        Tables { frames, base, memory, depth }
    }

    fn table(&self, index: u64) -> PhysAddr {
        self.frames.part(index * PAGE, PAGE).start
    }

    fn of_disk(&self, disk: u16, index: u64) -> PhysAddr {
        self.table(SHARED + u64::from(disk) * (LOWER + gibs(self.memory).1) + index)
    }

    fn place(&self, table: PhysAddr, word: u64) -> *mut u64 {
        debug_assert!(word < ENTRIES);
        (self.base.0.wrapping_add(table.0) + word * 8) as *mut u64
    }

    fn load(&self, table: PhysAddr, word: u64) -> u64 {
        // SAFETY: the table is mapped, and has the word; units do not write.
        unsafe { self.place(table, word).read_volatile() }
    }

    /// Changes a word, so that also a unit sees it that does not look into caches.
    fn store(&self, table: PhysAddr, word: u64, value: u64) {
        let at = self.place(table, word);
        // SAFETY: as above, and only this stores there; volatile, as units read it.
        unsafe {
            at.write_volatile(value);
            _mm_clflush(at.cast());
            _mm_mfence();
        }
    }

    /// Fills them: everything passes, and windows show nothing.
    pub fn begin(&self, sources: &Sources) {
        let passing = self.table(1);
        for device in 0..CONTEXTS {
            self.store_context(passing, device, self.passing());
            self.store(self.table(0), 2 * device, passing.0 | IS_THERE);
            self.store(self.table(0), 2 * device + 1, 0);
        }
        for (disk, source) in (0..).zip(sources) {
            let [top, upper] = [TOP, UPPER].map(|it| self.of_disk(disk, it));
            let (first, count) = gibs(self.memory);
            for word in 0..ENTRIES {
                self.store(top, word, if word == 0 { upper.0 | READ_WRITE } else { 0 });
                let lower = word.checked_sub(first).filter(|it| *it < count);
                let lower = lower.map_or(0, |it| self.of_disk(disk, LOWER + it).0 | READ_WRITE);
                self.store(upper, word, lower);
            }
            self.empty(disk);
            let Some(source) = source else { continue };
            let contexts = self.contexts(*source);
            // The first disk of a bus has the table for all of it.
            if contexts == passing {
                let own = self.of_disk(disk, CONTEXT);
                (0..CONTEXTS).for_each(|device| self.store_context(own, device, self.passing()));
                self.store(self.table(0), 2 * u64::from(source >> 8), own.0 | IS_THERE);
            }
        }
    }

    /// The contexts of a source's bus.
    fn contexts(&self, source: u16) -> PhysAddr {
        PhysAddr(self.load(self.table(0), 2 * u64::from(source >> 8)) & !(PAGE - 1))
    }

    fn passing(&self) -> [u64; 2] {
        [PASSES | IS_THERE, PASSING << TAG_SHIFT | self.depth.width()]
    }

    fn confined(&self, disk: u16) -> [u64; 2] {
        let top = match self.depth {
            Depth::Three => UPPER,
            Depth::Four => TOP,
        };
        let tag = FIRST + u64::from(disk);
        [self.of_disk(disk, top).0 | IS_THERE, tag << TAG_SHIFT | self.depth.width()]
    }

    fn store_context(&self, contexts: PhysAddr, device: u64, [low, high]: [u64; 2]) {
        // It is not there until both words belong together.
        self.store(contexts, 2 * device, 0);
        self.store(contexts, 2 * device + 1, high);
        self.store(contexts, 2 * device, low);
    }

    /// Has a disk see its window.
    pub fn confine(&self, disk: u16, source: u16) {
        self.store_context(self.contexts(source), u64::from(source & 0xff), self.confined(disk));
    }

    /// Lets the disk of a source pass.
    pub fn pass(&self, source: u16) {
        self.store_context(self.contexts(source), u64::from(source & 0xff), self.passing());
    }

    /// Whether it sees its window, or nothing.
    pub fn is_confined(&self, source: u16) -> bool {
        let [passes, _] = self.passing();
        self.load(self.contexts(source), 2 * u64::from(source & 0xff)) != passes
    }

    /// The entry of a page of 2 MiB in a disk's window.
    fn entry(&self, disk: u16, page: PhysAddr) -> Option<(PhysAddr, u64)> {
        let (start, end) = (self.memory.start, self.memory.end());
        let word = page.0 / PageSize::Large.bytes() % ENTRIES;
        let lower = || page.0 / PageSize::Huge.bytes() - gibs(self.memory).0;
        (start <= page && page < end).then(|| (self.of_disk(disk, LOWER + lower()), word))
    }

    fn change(&self, disk: u16, memory: Frames, value: impl Fn(PhysAddr) -> u64) -> bool {
        let mut is_changed = false;
        for page in pages(memory) {
            let Some((table, word)) = self.entry(disk, page) else { continue };
            let value = value(page);
            if self.load(table, word) != value {
                self.store(table, word, value);
                is_changed = true;
            }
        }
        is_changed
    }

    /// Shows memory in a disk's window, whole pages of 2 MiB; whether anything is new there.
    pub fn show(&self, disk: u16, memory: Frames) -> bool {
        self.change(disk, memory, |page| page.0 | IS_LEAF | READ_WRITE)
    }

    /// Shows it no more; whether it was shown.
    pub fn hide(&self, disk: u16, memory: Frames) -> bool {
        self.change(disk, memory, |_| 0)
    }

    /// Shows nothing any more.
    pub fn empty(&self, disk: u16) {
        for gib in 0..gibs(self.memory).1 {
            let table = self.of_disk(disk, LOWER + gib);
            (0..ENTRIES).for_each(|word| self.store(table, word, 0));
        }
    }
}
