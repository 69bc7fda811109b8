//! The memory that a device shares with the core that drives it. Taken at boot, mapped on that
//! core alone, used by one incarnation of it after the other.
//!
//! `virtio-drivers` asks for memory and for physical addresses by the functions of its `Hal`,
//! which know no device. What they may give is set aside before each device is opened.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{PageSize, PhysAddr, VirtAddr};
use virtio_drivers::{BufferDirection, Hal};

use crate::layout;
use crate::node::Frames;

/// Descriptors of a queue.
pub const QUEUE_BUFFERS: usize = 256;

/// Descriptors and what the core writes take two pages, what the device writes one.
pub const QUEUE_BYTES: u64 = 3 * PageSize::Small.bytes();

/// What may still be given for the queues of the device that is being opened. Like every static
/// it is this core's own.
static NEXT: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Tests of all devices open one at a time: on a machine each core has the statics for itself.
#[cfg(test)]
pub static OPENING: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// Sets the first part of `memory` aside for so many queues, and says where the rest is seen.
///
/// # Safety
/// This core has the memory mapped at its place in the shared zone for ever, nobody else uses it
/// but the device that is being opened, and that touches no memory now. What was set aside before
/// and has not been taken is forgotten.
pub unsafe fn set_aside(memory: Frames, queues: u64) -> VirtAddr {
    NEXT.store(memory.start.0, Ordering::Relaxed);
    LEFT.store(queues * QUEUE_BYTES, Ordering::Relaxed);
    VirtAddr(seen(memory.start).0.wrapping_add(queues * QUEUE_BYTES))
}

/// Where a core sees memory that it was given. (The addresses of a test may wrap around.)
pub fn seen(at: PhysAddr) -> VirtAddr {
    VirtAddr(layout::SHARED_BASE.0.wrapping_add(at.0))
}

/// Where memory is that a core was given, in pages of any size.
pub fn physical(at: VirtAddr) -> PhysAddr {
    let base = if at >= layout::HUGE_BASE { layout::HUGE_BASE } else { layout::SHARED_BASE };
    PhysAddr(at.0.wrapping_sub(base.0))
}

/// The memory of this core's node.
pub struct NodeMemory;

// SAFETY: memory is given once until it is set aside anew, when the last device's queues are
// gone with their device's reset; it is zeroed, and mapped at the address that is given with it.
unsafe impl Hal for NodeMemory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (virtio_drivers::PhysAddr, NonNull<u8>) {
        let bytes = pages as u64 * PageSize::Small.bytes();
        let (next, left) = (NEXT.load(Ordering::Relaxed), LEFT.load(Ordering::Relaxed));
        let Some(start) = NonNull::new(seen(PhysAddr(next)).0 as *mut u8).filter(|_| bytes <= left)
        else {
            // Address zero is how `Hal` says "none".
            return (0, NonNull::dangling());
        };
        NEXT.store(next.wrapping_add(bytes), Ordering::Relaxed);
        LEFT.store(left - bytes, Ordering::Relaxed);
        // SAFETY: the memory was set aside by `set_aside`, is mapped on this core for ever, and
        // nobody else uses it.
        unsafe { start.write_bytes(0, bytes as usize) };
        (next, start)
    }

    unsafe fn dma_dealloc(_: virtio_drivers::PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        // It is set aside anew when a device is opened.
        0
    }

    unsafe fn mmio_phys_to_virt(_: virtio_drivers::PhysAddr, _: usize) -> NonNull<u8> {
        unreachable!("registers are mapped before the core starts, see `registers`")
    }

    unsafe fn share(buffer: NonNull<[u8]>, _: BufferDirection) -> virtio_drivers::PhysAddr {
        physical(VirtAddr(buffer.addr().get() as u64)).0
    }

    unsafe fn unshare(_: virtio_drivers::PhysAddr, _: NonNull<[u8]>, _: BufferDirection) {
        // Cores and devices see the same memory.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_core_sees_is_where_it_is_in_either_zone() {
        let at = PhysAddr(0x1234_5678);
        assert_eq!(physical(layout::shared(at)), at);
        assert_eq!(physical(VirtAddr(layout::HUGE_BASE.0 + at.0)), at);
    }
}
