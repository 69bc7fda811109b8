//! Starting the application cores (Intel SDM volume 3, 9.4), and parking them.
//!
//! Every core gets INIT, then a start-up interrupt that names a page below 1 MiB. All of them run
//! the same few instructions there, at the same time and without a stack: real mode, protected
//! mode, long mode over the boot tables; then each looks up its own APIC id in a table that says
//! which core it is, and enters that core's space. They do not wait for each other.
//!
//! A core for which the table has no space is *parked*: it sleeps in long mode over the boot tables
//! until its entry has one and it is interrupted (RainForest 5.3: a domain's cores begin without
//! firmware and without real mode). The boot tables, the table and the page stay for that. A core
//! that is taken from a domain by force comes here by INIT, one that leaves by itself by
//! [`crate::space::leave`]. So does any core of a node that is away: nobody runs in its space then.

use core::sync::atomic::{Ordering, fence};
use core::time::Duration;

use nile_abi::{Generation, MAX_CORES, PhysAddr, VirtAddr};

use crate::apic::{ApicId, LocalApic};
use crate::clock::Clock;
use crate::domain::Order;
use crate::idt;
use crate::images::head::Head;
use crate::node::Frames;
use crate::vector::Vector;

#[cfg(freestanding)]
core::arch::global_asm!(include_str!("smp.s"));

/// How one application core begins. Read by smp.s.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Start {
    /// The core that this is for.
    pub apic: ApicId,
    /// Which core it becomes.
    pub core: u32,
    /// Where it sees the node.
    pub node: VirtAddr,
    /// The root of its tables; zero if it is to be parked.
    pub root: PhysAddr,
    /// Where its stack begins.
    pub stack_top: VirtAddr,
    /// Where it begins to run.
    pub entry: u64,
    /// One while it is parked.
    parked: u64,
    /// Its last incarnation, if that was away and is to be followed by another.
    followed: u64,
    reserved: u64,
}

const _: () = assert!(size_of::<Start>() == 64);

impl Start {
    /// One that begins as this core, with the machine's own image.
    pub fn new(apic: ApicId, core: u32, node: VirtAddr, root: PhysAddr, top: VirtAddr) -> Start {
        let entry = Head::own().begin.0;
        let (parked, followed, reserved) = (0, 0, 0);
        Start { apic, core, node, root, stack_top: top, entry, parked, followed, reserved }
    }

    /// One that is parked.
    pub fn parked(apic: ApicId) -> Start {
        Start { entry: 0, ..Start::new(apic, 0, VirtAddr(0), PhysAddr(0), VirtAddr(0)) }
    }
}

/// How long after INIT a core is ready for a start-up interrupt, and how long it has to take that
/// before it gets another: one that has begun ignores it.
const BETWEEN: Duration = Duration::from_micros(200);

unsafe extern "C" {
    static ap_trampoline: u8;
    static ap_trampoline_end: u8;
    static mut ap_starts: [Start; MAX_CORES];
    static ap_shared_end: u8;
    static mut ap_count: u32;
    static mut park_gates: [[u64; 2]; 256];
    static mut park_apic: u32;
    static park_woken: u8;
    static boot_root: u8;
    static boot_stack_top: u8;
}

/// The memory that whoever commands parked cores and the cores on their way share, in the image
/// that the machine was booted with: the table, the order for a domain, and how long the table is.
pub fn shared() -> Frames {
    let start = (&raw const ap_starts).addr() as u64;
    Frames { start: PhysAddr(start), bytes: (&raw const ap_shared_end).addr() as u64 - start }
}

/// Where the order and the length are in that: see smp.s.
const ORDER: u64 = (MAX_CORES * size_of::<Start>()) as u64;
const COUNT: u64 = ORDER + 8192 - 64;

/// The boot tables, and where the boot path's stack begins as it is seen in the higher half.
pub fn boot_space() -> (PhysAddr, VirtAddr) {
    let top = (&raw const boot_stack_top).addr() as u64 + crate::layout::KERNEL_BASE.0;
    (PhysAddr((&raw const boot_root).addr() as u64), VirtAddr(top))
}

/// Starts the other cores in `starts` and does not wait for them: the record of one that has begun
/// says so. `page` is a frame below 1 MiB that nothing else ever uses; `registers` are those of
/// every core's local APIC.
///
/// # Safety
/// Called once, by the boot path, which sees memory where it is. What `starts` says is so.
pub unsafe fn start(
    starts: &[Start],
    page: PhysAddr,
    registers: PhysAddr,
    apic: &LocalApic,
    clock: &Clock,
) {
    let code = &raw const ap_trampoline;
    // SAFETY: the code's two ends are the linker's; the page is free, a frame holds the code (the
    // linker checks it); no core reads the table or the gates yet.
    unsafe {
        let bytes = (&raw const ap_trampoline_end).addr() - code.addr();
        (page.0 as *mut u8).copy_from_nonoverlapping(code, bytes);
        let table = (&raw mut ap_starts).cast::<Start>();
        table.copy_from_nonoverlapping(starts.as_ptr(), starts.len());
        (&raw mut ap_count).write_volatile(starts.len() as u32);
        (&raw mut park_apic).write_volatile(registers.0 as u32);
        let gate = idt::plain_gate((&raw const park_woken).addr() as u64);
        (&raw mut park_gates).write_volatile([gate; 256]);
    }
    let others = starts.iter().map(|start| start.apic).filter(|it| *it != apic.id());
    reset(others, page, apic, clock);
}

/// Resets cores, whatever they do, and sends them to the code in `page`.
fn reset(
    cores: impl Iterator<Item = ApicId> + Clone,
    page: PhysAddr,
    apic: &LocalApic,
    clock: &Clock,
) {
    let vector = (page.0 >> 12) as u8;
    cores.clone().for_each(|core| apic.send_init(core));
    for _ in 0..2 {
        let ready = clock.now() + BETWEEN;
        while clock.now() < ready {
            core::hint::spin_loop();
        }
        cores.clone().for_each(|core| apic.send_startup(core, vector));
    }
}

/// The table of cores and the order, where somebody sees them who may command parked cores.
#[derive(Clone, Copy, Debug)]
pub struct Parking {
    base: VirtAddr,
}

impl Parking {
    /// What lies in [`shared`], seen at `base`.
    ///
    /// # Safety
    /// It is mapped there, writable, as long as the value lives.
    pub unsafe fn at(base: VirtAddr) -> Parking {
        Parking { base }
    }

    fn seen<T>(&self, at: u64) -> *mut T {
        (self.base.0 + at) as *mut T
    }

    /// The entry of a core, if it has one.
    fn entry(&self, core: ApicId) -> Option<*mut Start> {
        let table = self.seen::<Start>(0);
        // SAFETY: the table is mapped there (`at`); its length and names do not change any more.
        let count = unsafe { self.seen::<u32>(COUNT).read_volatile() } as usize;
        let mut entries = (0..count.min(MAX_CORES)).map(|index| table.wrapping_add(index));
        // SAFETY: as above.
        entries.find(|it| unsafe { (&raw const (**it).apic).read_volatile() } == core)
    }

    /// Whether a core is parked.
    pub fn is_parked(&self, core: ApicId) -> bool {
        let Some(entry) = self.entry(core) else { return false };
        // SAFETY: as in `entry`; volatile, as the core is another writer.
        unsafe { (&raw const (*entry).parked).read_volatile() == 1 }
    }

    /// Has a parked core begin.
    ///
    /// # Safety
    /// What `start` says is so, and the core is parked, or on its way there.
    pub unsafe fn begin(&self, start: &Start, apic: &LocalApic) {
        // SAFETY: the caller's promise.
        unsafe { self.expect(start) }
        apic.send_fixed(start.apic, Vector::SIGNAL);
    }

    /// Says how a core begins that comes to be parked.
    ///
    /// # Safety
    /// What `start` says is so when the core comes.
    pub unsafe fn expect(&self, start: &Start) {
        let Some(entry) = self.entry(start.apic) else { return };
        // SAFETY: as in `entry`. The core reads the others once it has seen the root.
        unsafe {
            (&raw mut (*entry).core).write_volatile(start.core);
            (&raw mut (*entry).node).write_volatile(start.node);
            (&raw mut (*entry).stack_top).write_volatile(start.stack_top);
            (&raw mut (*entry).entry).write_volatile(start.entry);
            (&raw mut (*entry).parked).write_volatile(0);
            fence(Ordering::Release);
            (&raw mut (*entry).root).write_volatile(start.root);
        }
    }

    /// A core that comes to be parked waits there.
    pub fn expect_nothing(&self, core: ApicId) {
        if let Some(entry) = self.entry(core) {
            // SAFETY: as in `entry`.
            unsafe { (&raw mut (*entry).root).write_volatile(PhysAddr(0)) }
        }
    }

    /// Has a core begin that is away, and was in this incarnation: once it is parked. It may be on
    /// its way there; asked again, it is parked or begins already.
    ///
    /// # Safety
    /// What `start` says is so, and the core has nothing to do with its space any more.
    pub unsafe fn call_back(&self, start: &Start, last: Generation, apic: &LocalApic) {
        let Some(entry) = self.entry(start.apic) else { return };
        // SAFETY: as in `entry`.
        let followed = unsafe { (&raw const (*entry).followed).read_volatile() };
        if self.is_parked(start.apic) || followed != u64::from(last.0) {
            // SAFETY: as above, and the caller's promise: it enters what it finds on its way.
            unsafe {
                (&raw mut (*entry).followed).write_volatile(last.0.into());
                self.begin(start, apic);
            }
        }
    }

    /// Parks cores, whatever they do. They are parked a moment after this. `page` is the one that
    /// [`start`] was given.
    ///
    /// # Safety
    /// Nobody needs what these cores do.
    pub unsafe fn park(&self, cores: &[ApicId], page: PhysAddr, apic: &LocalApic, clock: &Clock) {
        for entry in cores.iter().filter_map(|core| self.entry(*core)) {
            // SAFETY: as in `entry`.
            unsafe {
                (&raw mut (*entry).root).write_volatile(PhysAddr(0));
                (&raw mut (*entry).parked).write_volatile(0);
            }
        }
        reset(cores.iter().copied(), page, apic, clock);
    }

    /// The order for a domain.
    pub fn order(&self) -> *mut Order {
        self.seen(ORDER)
    }
}
