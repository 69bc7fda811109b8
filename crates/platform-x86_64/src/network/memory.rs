//! The memory that an interface shares with the core that drives it: the two queues, then the
//! buffers. Taken at boot, mapped on that core alone, used by one incarnation of it after the
//! other. Nothing is allocated while frames come and go.
//!
//! `virtio-drivers` asks for memory and for physical addresses by the functions of its `Hal`,
//! which know no device. What they may give is set aside before each interface is opened.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use nile_abi::{PageSize, PhysAddr, VirtAddr};
use virtio_drivers::{BufferDirection, Hal};

use crate::layout;
use crate::node::Frames;

/// Buffers in each queue.
pub const QUEUE_BUFFERS: usize = 256;

/// Bytes of a buffer: a frame with what stands before it.
pub const BUFFER_BYTES: usize = 2048;

/// Buffers that wait for frames to come; all that the queue has room for.
pub const RECEIVE_BUFFERS: usize = QUEUE_BUFFERS;

/// Buffers for frames to go: more than the device takes at a time.
pub const TRANSMIT_BUFFERS: usize = 128;

/// Descriptors and what the core writes take two pages, what the device writes one.
const QUEUE_BYTES: u64 = 3 * PageSize::Small.bytes();

/// Bytes that an interface shares with its core.
pub const BYTES: u64 =
    2 * QUEUE_BYTES + ((RECEIVE_BUFFERS + TRANSMIT_BUFFERS) * BUFFER_BYTES) as u64;

/// Tables that it takes to map them: they may lie across the end of what one table maps.
pub const TABLES: usize = 2;

/// What may still be given for the queues of the interface that is being opened. Like every
/// static it is this core's own.
static NEXT: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Sets the first part of `memory` aside for two queues, and gives the first buffers for frames
/// to come and for frames to go.
///
/// # Safety
/// As for [`VirtioNet::open`](super::VirtioNet::open), and the device touches no memory now. What
/// was set aside before and has not been taken is forgotten.
pub unsafe fn divide(memory: Frames) -> (Buffers, Buffers) {
    NEXT.store(memory.start.0, Ordering::Relaxed);
    LEFT.store(2 * QUEUE_BYTES, Ordering::Relaxed);
    let receive = seen(memory.start).0.wrapping_add(2 * QUEUE_BYTES);
    let transmit = receive.wrapping_add((RECEIVE_BUFFERS * BUFFER_BYTES) as u64);
    (Buffers { first: VirtAddr(receive) }, Buffers { first: VirtAddr(transmit) })
}

/// A row of buffers.
#[derive(Clone, Copy, Debug)]
pub struct Buffers {
    first: VirtAddr,
}

impl Buffers {
    /// Where buffer `index`, one of the row, begins.
    pub fn start(&self, index: u16) -> *mut u8 {
        (self.first.0 + u64::from(index) * BUFFER_BYTES as u64) as *mut u8
    }
}

/// Where a core sees memory that it was given. (The addresses of a test may wrap around.)
fn seen(at: PhysAddr) -> VirtAddr {
    VirtAddr(layout::SHARED_BASE.0.wrapping_add(at.0))
}

/// Where memory is that a core was given, in pages of any size.
fn physical(at: VirtAddr) -> PhysAddr {
    let base = if at >= layout::HUGE_BASE { layout::HUGE_BASE } else { layout::SHARED_BASE };
    PhysAddr(at.0.wrapping_sub(base.0))
}

/// The memory of this core's node.
pub struct NodeMemory;

// SAFETY: memory is given once until it is set aside anew, when the last interface's queues are
// gone with their device's reset; it is zeroed, and mapped at the address that is given with it.
unsafe impl Hal for NodeMemory {
    fn dma_alloc(pages: usize, _: BufferDirection) -> (virtio_drivers::PhysAddr, NonNull<u8>) {
        let bytes = pages as u64 * PageSize::Small.bytes();
        let (next, left) = (NEXT.load(Ordering::Relaxed), LEFT.load(Ordering::Relaxed));
        let Some(start) = NonNull::new(seen(PhysAddr(next)).0 as *mut u8).filter(|_| bytes <= left)
        else {
            // Address zero is how this interface says "none".
            return (0, NonNull::dangling());
        };
        NEXT.store(next.wrapping_add(bytes), Ordering::Relaxed);
        LEFT.store(left - bytes, Ordering::Relaxed);
        // SAFETY: the memory was set aside by `divide`, is mapped on this core for ever, and
        // nobody else uses it.
        unsafe { start.write_bytes(0, bytes as usize) };
        (next, start)
    }

    unsafe fn dma_dealloc(_: virtio_drivers::PhysAddr, _: NonNull<u8>, _: usize) -> i32 {
        // It is set aside anew when an interface is opened.
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
        assert_eq!(BYTES % PageSize::Small.bytes(), 0);
    }
}
