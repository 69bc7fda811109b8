//! What a virtio-blk device shares with its core: a queue, then a header and a status for each
//! request (virtio 1.1, 5.2.6).

use core::sync::atomic::{AtomicU8, Ordering};

use nile_abi::{PageSize, VirtAddr};

use crate::node::Frames;
use crate::virtio::memory::{self, QUEUE_BYTES};

/// Requests that are under way at once.
pub const SLOTS: usize = 64;

/// Bytes of a header, of a status, and of the serial number that one request asks for.
pub const HEADER_BYTES: usize = 16;
/// Bytes of a serial number.
pub const SERIAL_BYTES: usize = 20;
/// Bytes that say what is discarded (virtio 1.1, 5.2.6): the first sector, how many, and flags.
pub const DISCARDED_BYTES: usize = 16;

/// Where a slot has them, and bytes of a slot.
const STATUS: usize = 16;
const SERIAL: usize = 32;
const SLOT_BYTES: usize = 64;

/// Bytes that a disk shares with its core.
pub const BYTES: u64 = QUEUE_BYTES + PageSize::Small.bytes();
const _: () = assert!((SLOTS * SLOT_BYTES) as u64 <= PageSize::Small.bytes());
const _: () = assert!(SERIAL + SERIAL_BYTES <= SLOT_BYTES && DISCARDED_BYTES <= SERIAL_BYTES);

/// The slots of the requests.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    first: VirtAddr,
}

impl Slots {
    /// Sets the first part of `memory` aside for the queue; the slots are behind it.
    ///
    /// # Safety
    /// As for [`memory::set_aside`].
    pub unsafe fn divide(memory: Frames) -> Slots {
        // SAFETY: the caller's promise.
        let first = unsafe { memory::set_aside(memory, 1) };
        Slots { first }
    }

    fn start(&self, slot: u16) -> *mut u8 {
        (self.first.0 + u64::from(slot) * SLOT_BYTES as u64) as *mut u8
    }

    /// Where a slot has its header.
    pub fn header(&self, slot: u16) -> *mut [u8; HEADER_BYTES] {
        self.start(slot).cast()
    }

    /// Where a slot has its status.
    pub fn status(&self, slot: u16) -> *mut u8 {
        self.start(slot).wrapping_add(STATUS)
    }

    /// Where a slot has room for a serial number.
    pub fn serial(&self, slot: u16) -> *mut [u8; SERIAL_BYTES] {
        self.start(slot).wrapping_add(SERIAL).cast()
    }

    /// Where a slot has room to say what is discarded: a request that does wants no serial number.
    pub fn discarded(&self, slot: u16) -> *mut [u8; DISCARDED_BYTES] {
        self.serial(slot).cast()
    }

    /// What the device says of how a request ended.
    pub fn read_status(&self, slot: u16) -> u8 {
        // SAFETY: the slots are mapped on this core for ever; the device may write there at any
        // time, as to an atomic.
        unsafe { AtomicU8::from_ptr(self.status(slot)) }.load(Ordering::Acquire)
    }
}
