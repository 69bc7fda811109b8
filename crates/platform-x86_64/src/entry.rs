//! From the loader's 32-bit protected mode to the first line of Rust in the higher half.
//!
//! The same entry serves PVH (`qemu -kernel`, Firecracker, Cloud Hypervisor) and Multiboot2
//! (GRUB): both arrive with flat segments, paging off, and in EBX the physical address of what
//! they have to say; EAX tells them apart. What happens, in order:
//!
//! 1. the time-stamp counter is read: the node's first instruction,
//! 2. a processor without long mode or NX says so on the serial line, and the node ends,
//! 3. the pristine private data is put aside, before anything stores to it,
//! 4. boot tables: the first 4 GiB as they are (512 GiB where the processor has 1 GiB pages), and
//!    the first 1 GiB once more in the higher half,
//! 5. PAE, NX, write protection, vector state (`core` uses SSE), long mode,
//! 6. [`crate::start::boot`] on the boot stack, in the higher half.
//!
//! Application cores join at step 5, see [`crate::smp`].

use core::array;

use nile_abi::VirtAddr;

use crate::layout::IST_STACKS;

#[cfg(freestanding)]
core::arch::global_asm!(
    include_str!("entry.s"),
    boot = sym crate::start::boot,
    boot_stack_bytes = const BOOT_STACK_BYTES,
    boot_interrupt_stack_bytes = const IST_STACKS * BOOT_INTERRUPT_STACK_BYTES,
    early_heap_bytes = const EARLY_HEAP_BYTES,
);

/// Bytes of the stack that the boot path runs on. Below it lie the boot tables. A node is made on
/// it, with tables and roots of as many cores and slots as there may be.
pub const BOOT_STACK_BYTES: usize = 256 * 1024;

/// Bytes of each of its interrupt stacks.
pub const BOOT_INTERRUPT_STACK_BYTES: usize = 8 * 1024;

/// Bytes of the heap that it has before it knows any memory. Most of it is for the configuration.
pub const EARLY_HEAP_BYTES: usize = 512 * 1024;

unsafe extern "C" {
    static mut boot_interrupt_stacks: u8;
    static mut early_heap: u8;
}

/// The upper ends of the boot path's interrupt stacks.
pub(crate) fn interrupt_stack_tops() -> [VirtAddr; IST_STACKS] {
    let first = (&raw const boot_interrupt_stacks).addr();
    array::from_fn(|index| VirtAddr((first + (index + 1) * BOOT_INTERRUPT_STACK_BYTES) as u64))
}

/// The heap that the boot path has before it knows any memory.
pub(crate) fn early_heap_start() -> *mut u8 {
    &raw mut early_heap
}
