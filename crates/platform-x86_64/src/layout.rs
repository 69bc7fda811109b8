//! Where everything is in a core's address space.
//!
//! ```text
//! 0x0000_0000_0000_0000  nothing, ever
//! 0x0000_1000_0000_0000  the user half, in slots of 2 TiB: empty as long as no package runs
//! ---------------------  not canonical ----------------------------------------------------
//! 0xffff_8000_0000_0000  private zones, 1 GiB of addresses a core; only its own is mapped
//! 0xffff_9000_0000_0000  shared zone: what cores share explicitly, with each other or with a
//!                        device, at base + physical address
//! 0xffff_a000_0000_0000  page-table window: frames of tables, at base + physical address;
//!                        on the managing core alone
//! 0xffff_b000_0000_0000  device registers, uncached
//! 0xffff_b000_2000_0000  zeroing window, on the managing core alone
//! 0xffff_c000_0000_0000  huge zone: 1 GiB pages of grants, at base + physical address
//! 0xffff_ffff_8000_0000  the image: text and constants (shared, read-only), the shared page,
//!                        then 2 MiB of addresses where each core has its own statics
//! ```
//!
//! A private zone, with unmapped guard pages on both sides of everything:
//!
//! ```text
//! + 0x01_0000   ledger    4 KiB    what one incarnation leaves to the next of the same core
//! + 0x02_0000   stack   128 KiB
//! + 0x05_0000   interrupt stacks, 16 KiB each, 64 KiB apart
//! + 0x20_0000   heap      1 to 64 MiB: a 16th of the node's memory, divided among its cores;
//!                         the managing core's has room for what it keeps about the others
//! ```
//!
//! The zones of two cores never overlap, so a stray pointer into another core's stack or heap
//! finds nothing mapped. The statics of all cores stand at one address: no pointer into them
//! leaves its core. Nothing maps all memory, and nothing maps low memory: the identity map of the
//! boot path ends when a core enters its own space ([`crate::space`]).
//!
//! The image's linker script places its parts and names their ends ([`image`]): code and data of
//! the boot path linked where they are loaded, from 1 MiB on, behind a page that is the way into a
//! core's space; everything else linked [`KERNEL_BASE`] higher; each part in whole pages; `.data`
//! and `.bss` in 2 MiB of addresses of their own; and room for a second copy of `.data`, the
//! pristine one. A core may have another image's parts instead ([`crate::images`]).

use core::ops::Range;

use nile_abi::call::{USER_BYTES, UserSlot};
use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};

/// The first private zone; see [`private_zone`].
pub const PRIVATE_BASE: VirtAddr = VirtAddr(0xffff_8000_0000_0000);

/// Where shared memory is seen: at this plus its physical address.
pub const SHARED_BASE: VirtAddr = VirtAddr(0xffff_9000_0000_0000);

/// Where the managing core sees the frames of page tables: at this plus their physical address.
pub const TABLES_BASE: VirtAddr = VirtAddr(0xffff_a000_0000_0000);

/// Bytes of addresses from [`SHARED_BASE`] and from [`TABLES_BASE`]: the highest physical address
/// that the node uses.
pub const PHYSICAL_REACH: u64 = 1 << 44;

/// This core's local APIC.
pub const LOCAL_APIC: VirtAddr = VirtAddr(0xffff_b000_0000_0000);

const IO_APIC_BASE: VirtAddr = VirtAddr(0xffff_b000_0001_0000);
/// The HPET, on the cores that have a comparator of it.
pub const HPET: VirtAddr = VirtAddr(0xffff_b000_0008_0000);

const IOMMU_BASE: VirtAddr = VirtAddr(0xffff_b000_000a_0000);

const DEVICE_BASE: VirtAddr = VirtAddr(0xffff_b000_0010_0000);

/// Kinds of registers that a device has, each seen through a window of its own.
pub const DEVICE_WINDOWS: usize = 4;

/// Which of them has the messages that a virtio device interrupts by.
pub const MESSAGES_WINDOW: usize = 3;

/// Bytes of such a window.
pub const DEVICE_WINDOW_BYTES: u64 = 0x4000;

/// Where frames are zeroed; 2 MiB.
pub const ZEROING_WINDOW: VirtAddr = VirtAddr(0xffff_b000_2000_0000);

/// Where a grant of 1 GiB is seen, as one page: at this plus its physical address.
pub const HUGE_BASE: VirtAddr = VirtAddr(0xffff_c000_0000_0000);

/// The image: linked at this plus where it is loaded.
pub const KERNEL_BASE: VirtAddr = VirtAddr(0xffff_ffff_8000_0000);

/// What a package's memory takes besides what it is granted later: its code, its stack.
const USER_FIXED: u64 = PageSize::Huge.bytes();

/// Interrupt stacks of a core.
pub const IST_STACKS: usize = 4;

const ZONE_BYTES: u64 = PageSize::Huge.bytes();
const LEDGER: u64 = 0x1_0000;
const STACK: u64 = 0x2_0000;
const STACK_BYTES: u64 = 0x2_0000;
const IST: u64 = 0x5_0000;
const IST_STRIDE: u64 = 0x1_0000;
const IST_BYTES: u64 = 0x4000;
const HEAP: u64 = 0x20_0000;
const MIN_HEAP: u64 = 1 << 20;
const MAX_HEAP: u64 = 64 << 20;
const HEAP_SHARE: u64 = 16;
/// What the managing core keeps about each core (channels, endpoints, a space), and about each
/// `MANAGED_MEMORY` bytes of memory (lists of collections and tables) one byte.
const MANAGED_CORE: u64 = 64 << 10;
const MANAGED_MEMORY: u64 = 2048;
const MAX_MANAGING_HEAP: u64 = 960 << 20;

/// A range of virtual addresses.
pub type Span = Range<VirtAddr>;

const fn span(start: u64, bytes: u64) -> Span {
    VirtAddr(start)..VirtAddr(start + bytes)
}

/// Bytes of a span.
pub const fn bytes(span: &Span) -> u64 {
    span.end.0 - span.start.0
}

/// All addresses that are `core`'s alone.
pub const fn private_zone(core: CoreId) -> Span {
    span(PRIVATE_BASE.0 + core.0 as u64 * ZONE_BYTES, ZONE_BYTES)
}

/// The page that survives restarts of `core`.
pub const fn ledger(core: CoreId) -> Span {
    span(private_zone(core).start.0 + LEDGER, PageSize::Small.bytes())
}

/// The stack of `core`.
pub const fn stack(core: CoreId) -> Span {
    span(private_zone(core).start.0 + STACK, STACK_BYTES)
}

/// The interrupt stack `index` (below [`IST_STACKS`]) of `core`.
pub const fn ist(core: CoreId, index: usize) -> Span {
    span(private_zone(core).start.0 + IST + index as u64 * IST_STRIDE, IST_BYTES)
}

/// Where the interrupt stack `index` of `core` begins to grow down.
pub const fn ist_top(core: CoreId, index: usize) -> VirtAddr {
    ist(core, index).end
}

/// The heap of `core`, if heaps have this size.
pub const fn heap(core: CoreId, heap_bytes: u64) -> Span {
    span(private_zone(core).start.0 + HEAP, heap_bytes)
}

/// How large the heap of `core` is on a node of `cores` cores with `total` usable bytes: whole
/// 2 MiB pages where it is large enough for one.
pub fn heap_bytes(core: CoreId, cores: usize, total: u64) -> u64 {
    let cores = cores.max(1) as u64;
    let share = (total / (HEAP_SHARE * cores)).clamp(MIN_HEAP, MAX_HEAP);
    let large = PageSize::Large.bytes();
    if core == CoreId::BOOT {
        let kept = cores * MANAGED_CORE + total / MANAGED_MEMORY;
        return (share + kept).min(MAX_MANAGING_HEAP).next_multiple_of(large);
    }
    if share < large { MIN_HEAP } else { share - share % large }
}

/// Where the memory of a slot's package may be, if memory ends at `memory_end`: all of it fits, as
/// far as there are addresses for packages.
pub fn user(slot: UserSlot, memory_end: PhysAddr) -> Span {
    span(slot.base().0, (USER_FIXED + memory_end.0).min(USER_BYTES))
}

/// The registers of the I/O APIC `index`.
pub const fn io_apic(index: usize) -> VirtAddr {
    VirtAddr(IO_APIC_BASE.0 + index as u64 * PageSize::Small.bytes())
}

/// The registers of the unit `index` of the IOMMU, on a supervisor's managing core.
pub const fn iommu(index: usize) -> VirtAddr {
    VirtAddr(IOMMU_BASE.0 + index as u64 * PageSize::Small.bytes())
}

/// Where the core that drives the device with this number sees its registers of the kind
/// `kind`, below [`DEVICE_WINDOWS`].
pub const fn device_window(number: usize, kind: usize) -> VirtAddr {
    let window = (number * DEVICE_WINDOWS + kind) as u64;
    VirtAddr(DEVICE_BASE.0 + window * DEVICE_WINDOW_BYTES)
}

/// Where shared memory is seen by every core that has it.
pub const fn shared(at: PhysAddr) -> VirtAddr {
    VirtAddr(SHARED_BASE.0 + at.0)
}

/// Where the managing core sees a frame of page tables.
pub const fn table(at: PhysAddr) -> VirtAddr {
    VirtAddr(TABLES_BASE.0 + at.0)
}

/// The image's parts, as the linker placed them.
pub mod image {
    use super::{KERNEL_BASE, Span};
    use nile_abi::{PhysAddr, VirtAddr};

    unsafe extern "C" {
        static image_start: u8;
        static boot_text_end: u8;
        static data_end: u8;
        static image_end: u8;
        static pristine_start: u8;
        static pristine_end: u8;
        static gate_start: u8;
        static gate_end: u8;
        static text_start: u8;
        static text_end: u8;
        static rodata_start: u8;
        static rodata_end: u8;
        static guard_start: u8;
        static guard_end: u8;
        static descriptors_start: u8;
        static descriptors_end: u8;
        static shared_start: u8;
        static shared_end: u8;
        static private_start: u8;
        static private_end: u8;
    }

    macro_rules! part {
        ($(#[$doc:meta])* $name:ident, $start:ident, $end:ident) => {
            $(#[$doc])*
            pub fn $name() -> Span {
                let (start, end) = ((&raw const $start).addr(), (&raw const $end).addr());
                VirtAddr(start as u64)..VirtAddr(end as u64)
            }
        };
    }

    part!(
        /// The way into a core's space and out of it, at the same place in all images.
        gate, gate_start, gate_end
    );
    part!(
        /// Code.
        text, text_start, text_end
    );
    part!(
        /// Constants.
        rodata, rodata_start, rodata_end
    );
    part!(
        /// By what the core is judged: see [`crate::guard`].
        guard, guard_start, guard_end
    );
    part!(
        /// The few words that all cores share without being given them.
        shared, shared_start, shared_end
    );
    part!(
        /// Segments, gates, task state; each core's own copy.
        descriptors, descriptors_start, descriptors_end
    );
    part!(
        /// Statics; each core's own copy.
        private, private_start, private_end
    );

    /// Everything that the loader placed, in physical memory.
    pub fn loaded() -> core::ops::Range<PhysAddr> {
        PhysAddr((&raw const image_start).addr() as u64)
            ..PhysAddr((&raw const image_end).addr() as u64)
    }

    /// Bytes of it that were in the file: code, constants and initial values.
    pub fn file_bytes() -> u64 {
        let boot_text = (&raw const boot_text_end).addr() - (&raw const image_start).addr();
        let data = (&raw const data_end).addr() as u64 - private().start.0;
        let rest = [text(), rodata(), shared()].iter().map(super::bytes).sum::<u64>();
        boot_text as u64 + rest + data
    }

    /// The statics' initial values as cores see them: the linker gives its physical addresses.
    pub fn pristine() -> Span {
        let high = |low: *const u8| VirtAddr(KERNEL_BASE.0 + low.addr() as u64);
        high(&raw const pristine_start)..high(&raw const pristine_end)
    }

    /// Where a part of the image is in physical memory.
    pub fn physical(at: VirtAddr) -> PhysAddr {
        PhysAddr(at.0 - KERNEL_BASE.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::MAX_CORES;

    fn parts(core: CoreId) -> alloc::vec::Vec<Span> {
        let mut parts = alloc::vec![ledger(core), stack(core)];
        parts.extend((0..IST_STACKS).map(|index| ist(core, index)));
        parts.push(heap(core, MAX_HEAP));
        parts
    }

    #[test]
    fn everything_private_has_a_guard_page_on_both_sides_and_stays_in_its_zone() {
        for core in [CoreId(0), CoreId(1), CoreId(MAX_CORES as u16 - 1)] {
            let zone = private_zone(core);
            let mut last = zone.start;
            for part in parts(core) {
                assert!(part.start.is_aligned(PageSize::Small));
                assert!(part.start.0 >= last.0 + PageSize::Small.bytes(), "{part:?}");
                assert!(part.end > part.start);
                last = part.end;
            }
            assert!(last.0 + PageSize::Small.bytes() <= zone.end.0);
            assert!(heap(core, MAX_HEAP).start.is_aligned(PageSize::Large));
        }
    }

    #[test]
    fn zones_do_not_overlap() {
        let last = private_zone(CoreId(MAX_CORES as u16 - 1));
        let user = |end| bytes(&user(UserSlot::FIRST, PhysAddr(end)));
        assert_eq!(user(1 << 30), 2 << 30);
        assert_eq!(user(PHYSICAL_REACH), USER_BYTES);
        const { assert!(UserSlot::END <= 1 << 47) };
        assert_eq!(private_zone(CoreId(0)).end, private_zone(CoreId(1)).start);
        assert!(last.end <= SHARED_BASE);
        assert!(shared(PhysAddr(PHYSICAL_REACH)) <= TABLES_BASE);
        assert!(table(PhysAddr(PHYSICAL_REACH)) <= LOCAL_APIC);
        assert!(io_apic(crate::acpi::MAX_IO_APICS) <= HPET && HPET < IOMMU_BASE);
        assert!(iommu(crate::acpi::MAX_IOMMUS) <= DEVICE_BASE);
        let devices = device_window(crate::devices::number_of_disk(crate::disk::MAX_DISKS), 0);
        assert!(devices.0 <= LOCAL_APIC.0 + PageSize::Large.bytes(), "one table maps them");
        assert!(devices < ZEROING_WINDOW);
        assert!(ZEROING_WINDOW < HUGE_BASE);
        const { assert!(HUGE_BASE.0 + PHYSICAL_REACH <= KERNEL_BASE.0) };
    }

    #[test]
    fn heaps_take_a_sixteenth_of_memory_within_bounds() {
        let heap_bytes = |cores, total| heap_bytes(CoreId(1), cores, total);
        assert_eq!(heap_bytes(4, 512 << 20), 8 << 20);
        assert_eq!(heap_bytes(64, 512 << 20), MIN_HEAP);
        assert_eq!(heap_bytes(16, 510 << 20), MIN_HEAP);
        assert_eq!(heap_bytes(4, 1 << 40), MAX_HEAP);
        assert_eq!(heap_bytes(2, 200 << 20), 6 << 20);
    }

    #[test]
    fn the_managing_core_has_more_and_stays_in_its_zone() {
        assert_eq!(heap_bytes(CoreId::BOOT, 64, 512 << 20), 6 << 20);
        assert_eq!(heap_bytes(CoreId::BOOT, 0, 0), 2 << 20);
        let most = heap_bytes(CoreId::BOOT, MAX_CORES, PHYSICAL_REACH);
        assert!(heap(CoreId::BOOT, most).end < private_zone(CoreId::BOOT).end);
    }
}
