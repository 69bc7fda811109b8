//! Segments and interrupt stacks of one core.
//!
//! Long mode hardly uses segments; what matters here is the task state segment, which names the
//! stacks that interrupts and exceptions enter on. None of them enters on the stack that it
//! interrupts: compiled code may keep data below the stack pointer (the red zone), and a stack
//! that has run into its guard page could not take the fault that says so. The same holds for
//! what interrupts a package, whose stack pointer may be anything.

use core::ptr;

use nile_abi::VirtAddr;

use crate::guard;
use crate::layout::IST_STACKS;
use crate::private::Private;
use crate::privileged;

/// The kernel's code, also in the boot path's table.
pub const KERNEL_CODE: u16 = 0x08;
/// The kernel's data, also in the boot path's table.
pub const KERNEL_DATA: u16 = 0x10;
/// From here SYSRET takes a package's selectors: data 8 further, code 16 further. It has no
/// 32-bit code.
pub const SYSRET_BASE: u16 = KERNEL_DATA | RING_3;
/// A package's data.
pub const USER_DATA: u16 = SYSRET_BASE + 8;
/// A package's code.
pub const USER_CODE: u16 = SYSRET_BASE + 16;
const RING_3: u16 = 3;
const TASK_STATE: u16 = 0x28;
const TASK_STATE_SLOT: usize = TASK_STATE as usize / 8;

/// One of a core's interrupt stacks. What can interrupt what never shares one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum InterruptStack {
    /// Interrupts; none interrupts another.
    Interrupt = 1,
    /// Exceptions, also those in interrupt handlers.
    Fault = 2,
    /// Non-maskable interrupts, which come at any time.
    Nmi = 3,
    /// Double faults: perhaps the stack for faults is what failed.
    DoubleFault = 4,
}

const _: () = assert!(InterruptStack::DoubleFault as usize == IST_STACKS);

/// What Intel's manual calls the 64-bit TSS (volume 3, 8.7). Packed: its fields are misaligned.
#[repr(C, packed)]
struct TaskState {
    reserved: u32,
    privilege_stacks: [u64; 3],
    reserved_2: u64,
    interrupt_stacks: [u64; 7],
    reserved_3: u64,
    reserved_4: u16,
    io_map: u16,
}

/// An offset past the segment's end: there is no I/O map.
const NO_IO_MAP: u16 = size_of::<TaskState>() as u16;

const TASK_STATE_BEGINS: TaskState = TaskState {
    reserved: 0,
    privilege_stacks: [0; 3],
    reserved_2: 0,
    interrupt_stacks: [0; 7],
    reserved_3: 0,
    reserved_4: 0,
    io_map: NO_IO_MAP,
};

#[unsafe(link_section = ".descriptors")]
static TASK: Private<TaskState> = Private::new(TaskState { io_map: 0, ..TASK_STATE_BEGINS });

/// Null, kernel code and data, user data and code, and the two halves of the task state segment's
/// descriptor. All but the last are marked accessed, so that the processor never writes to them.
const SEGMENTS: [u64; 7] = [
    0,
    0x00af_9b00_0000_ffff,
    0x00cf_9300_0000_ffff,
    0x00cf_f300_0000_ffff,
    0x00af_fb00_0000_ffff,
    0,
    0,
];

#[unsafe(link_section = ".descriptors")]
static TABLE: Private<[u64; SEGMENTS.len()]> = Private::new([0; SEGMENTS.len()]);

/// Gives this core its segments and interrupt stacks. `tops` are the stacks' upper ends, in the
/// order of [`InterruptStack`].
///
/// # Safety
/// Each stack is mapped writable on this core, with at least 8 KiB below its top that nothing
/// else uses. Interrupts are masked.
pub unsafe fn install(tops: &[VirtAddr; IST_STACKS]) {
    let task = TASK.as_ptr();
    let segments = TABLE.as_ptr();
    let [low, high] = task_descriptor(task as u64);
    // SAFETY: these are this core's own copies, and before the loads below no processor state
    // points into them, or it is this core's, with interrupts masked. The task descriptor is a
    // valid one, marked available. The processor marks it busy, which is a store, too.
    guard::amend(|| unsafe {
        task.write(TASK_STATE_BEGINS);
        segments.write(SEGMENTS);
        for (slot, top) in tops.iter().enumerate() {
            (&raw mut (*task).interrupt_stacks[slot]).write_unaligned(top.0);
        }
        (*segments)[TASK_STATE_SLOT] = low;
        (*segments)[TASK_STATE_SLOT + 1] = high;
        privileged::load_segments(
            ptr::from_ref(&*segments).cast(),
            size_of_val(&SEGMENTS),
            KERNEL_CODE,
            KERNEL_DATA,
        );
        privileged::load_task_register(TASK_STATE);
    });
}

/// Where this core has its last segment descriptor.
pub(crate) fn last() -> *mut u64 {
    TABLE.as_ptr().cast::<u64>().wrapping_add(SEGMENTS.len() - 1)
}

/// The descriptor of an available 64-bit task state segment at `base`.
fn task_descriptor(base: u64) -> [u64; 2] {
    const AVAILABLE: u64 = 0x89 << 40;
    let last_byte = size_of::<TaskState>() as u64 - 1;
    let low = last_byte | (base & 0xff_ffff) << 16 | AVAILABLE | (base >> 24 & 0xff) << 56;
    [low, base >> 32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_selector_names_what_it_is_called() {
        let descriptor = |selector: u16| SEGMENTS[usize::from(selector / 8)];
        let ring = |descriptor: u64| (descriptor >> 45 & 3) as u16;
        let (code, long) = (1 << 43, 1 << 53);
        for (selector, is_code) in
            [(KERNEL_CODE, true), (KERNEL_DATA, false), (USER_CODE, true), (USER_DATA, false)]
        {
            let descriptor = descriptor(selector);
            assert_eq!(ring(descriptor), selector & 3);
            assert_eq!((descriptor & code != 0, descriptor & long != 0), (is_code, is_code));
        }
        assert_eq!(KERNEL_DATA, KERNEL_CODE + 8, "as SYSCALL takes them");
        assert_eq!(descriptor(TASK_STATE), 0);
    }

    #[test]
    fn a_task_descriptor_takes_its_base_apart() {
        assert_eq!(size_of::<TaskState>(), 104);
        let [low, high] = task_descriptor(0x1234_5678_9abc_def0);
        assert_eq!(low, 0x9a00_89bc_def0_0067);
        assert_eq!(high, 0x1234_5678);
    }
}
