//! Starting the application cores (Intel SDM volume 3, 9.4).
//!
//! Every core gets INIT, then a start-up interrupt that names a page below 1 MiB. All of them run
//! the same few instructions there, at the same time and without a stack: real mode, protected
//! mode, long mode over the boot tables; then each looks up its own APIC id in a table that says
//! which core it is, and enters that core's space. They do not wait for each other.

use core::time::Duration;

use nile_abi::{PhysAddr, VirtAddr};

use crate::apic::{ApicId, LocalApic};
use crate::clock::Clock;

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
    /// The root of its tables.
    pub root: PhysAddr,
    /// Where its stack begins.
    pub stack_top: VirtAddr,
}

/// How long after INIT a core is ready for a start-up interrupt, and how long it has to take that
/// before it gets another: one that has begun ignores it.
const BETWEEN: Duration = Duration::from_micros(200);

unsafe extern "C" {
    static ap_trampoline: u8;
    static ap_trampoline_end: u8;
    static mut ap_starts: [Start; nile_abi::MAX_CORES];
    static mut ap_count: u32;
}

/// Starts the cores in `starts` and does not wait for them: the record of one that has begun says
/// so. `page` is a frame below 1 MiB that nothing else ever uses.
///
/// # Safety
/// Called once, by the boot path, which sees memory where it is. What `starts` says is so.
pub unsafe fn start(starts: &[Start], page: PhysAddr, apic: &LocalApic, clock: &Clock) {
    if starts.is_empty() {
        return;
    }
    let code = &raw const ap_trampoline;
    // SAFETY: the code's two ends are the linker's; the page is free, a frame holds the code (the
    // linker checks it); no core reads the table yet.
    unsafe {
        let bytes = (&raw const ap_trampoline_end).addr() - code.addr();
        (page.0 as *mut u8).copy_from_nonoverlapping(code, bytes);
        let table = (&raw mut ap_starts).cast::<Start>();
        table.copy_from_nonoverlapping(starts.as_ptr(), starts.len());
        (&raw mut ap_count).write_volatile(starts.len() as u32);
    }
    let vector = (page.0 >> 12) as u8;
    starts.iter().for_each(|start| apic.send_init(start.apic));
    for _ in 0..2 {
        let ready = clock.now() + BETWEEN;
        while clock.now() < ready {
            core::hint::spin_loop();
        }
        starts.iter().for_each(|start| apic.send_startup(start.apic, vector));
    }
}
