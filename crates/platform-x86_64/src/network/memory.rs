//! The memory that an interface shares with its core: two queues, then the buffers. Nothing is
//! allocated while frames come and go.

use nile_abi::{PageSize, VirtAddr};

use crate::node::Frames;
pub use crate::virtio::memory::QUEUE_BUFFERS;
use crate::virtio::memory::{self, QUEUE_BYTES};

/// Bytes of a buffer: a frame with what stands before it.
pub const BUFFER_BYTES: usize = 2048;

/// Buffers that wait for frames to come; all that the queue has room for.
pub const RECEIVE_BUFFERS: usize = QUEUE_BUFFERS;

/// Buffers for frames to go: more than the device takes at a time.
pub const TRANSMIT_BUFFERS: usize = 128;

/// Bytes that an interface shares with its core.
pub const BYTES: u64 =
    2 * QUEUE_BYTES + ((RECEIVE_BUFFERS + TRANSMIT_BUFFERS) * BUFFER_BYTES) as u64;
const _: () = assert!(BYTES.is_multiple_of(PageSize::Small.bytes()));

/// Tables that it takes to map them: they may lie across the end of what one table maps.
pub const TABLES: usize = 2;

/// Sets the first part of `memory` aside for two queues, and gives the first buffers for frames
/// to come and for frames to go.
///
/// # Safety
/// As for [`memory::set_aside`].
pub unsafe fn divide(memory: Frames) -> (Buffers, Buffers) {
    // SAFETY: the caller's promise.
    let receive = unsafe { memory::set_aside(memory, 2) };
    let transmit = receive.0.wrapping_add((RECEIVE_BUFFERS * BUFFER_BYTES) as u64);
    (Buffers { first: receive }, Buffers { first: VirtAddr(transmit) })
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
