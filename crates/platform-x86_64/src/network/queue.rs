//! Buffers on their way to the device and back: a queue with a record of which buffer is where.
//!
//! What the device says is believed only as far as it cannot do harm: a buffer comes back once,
//! and only if it was given. The record of that is the core's own.

use core::slice;

use virtio_drivers::BufferDirection;

use super::memory::{BUFFER_BYTES, Buffers, QUEUE_BUFFERS};
use crate::virtio::DeviceRegisters;
use crate::virtio::ring::{Broken, Ring};

/// A buffer that is back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Used {
    /// Which one.
    pub buffer: u16,
    /// How many bytes the device has written there, by its own word.
    pub bytes: usize,
}

/// A queue and its buffers.
pub struct Queue {
    ring: Ring,
    /// By the descriptor that it was given with, the buffer that the device has.
    given: [Option<u16>; QUEUE_BUFFERS],
    buffers: Buffers,
    direction: BufferDirection,
}

impl Queue {
    /// The queue with this number, empty and silent, with what [`super::memory::divide`] has set
    /// aside for it. `None` if the device has room for fewer buffers there, or nowhere to be told.
    pub fn open(
        registers: &mut DeviceRegisters,
        number: u16,
        buffers: Buffers,
        direction: BufferDirection,
    ) -> Option<Queue> {
        let ring = Ring::open(registers, number)?;
        Some(Queue { ring, given: [None; QUEUE_BUFFERS], buffers, direction })
    }

    /// The bytes of a buffer that the device does not have.
    pub fn buffer(&mut self, buffer: u16) -> &mut [u8] {
        debug_assert!(!self.given.contains(&Some(buffer)), "the device has it");
        // SAFETY: the buffer is mapped on this core for ever, and belongs to this queue, which is
        // borrowed; the device was not given it, or has given it back. (One that writes to what
        // it has given back changes a frame, and no memory else.)
        unsafe { slice::from_raw_parts_mut(self.buffers.start(buffer), BUFFER_BYTES) }
    }

    /// Gives the first `bytes` bytes of a buffer to the device, which it does not have yet.
    pub fn give(&mut self, buffer: u16, bytes: usize) {
        // SAFETY: as in `buffer`; from here on nobody touches it until `take` gives it back.
        let token = unsafe {
            let bytes = slice::from_raw_parts_mut(self.buffers.start(buffer), bytes);
            match self.direction {
                BufferDirection::DriverToDevice => self.ring.queue.add(&[bytes], &mut []),
                _ => self.ring.queue.add(&[], &mut [bytes]),
            }
        };
        let token = token.unwrap_or_else(|_| unreachable!("there is room for every buffer"));
        self.given[usize::from(token)] = Some(buffer);
        self.ring.untold = true;
    }

    /// Tells the device of what it was given since it was told, if it wants to be told.
    pub fn tell(&mut self) {
        self.ring.tell();
    }

    /// The next buffer that the device has given back.
    pub fn take(&mut self) -> Result<Option<Used>, Broken> {
        let Some(token) = self.ring.queue.peek_used() else { return Ok(None) };
        let slot = self.given.get_mut(usize::from(token));
        let buffer = slot.and_then(Option::take).ok_or(Broken)?;
        // SAFETY: this buffer was given with this token; the device is done with it.
        let bytes = unsafe {
            let bytes = slice::from_raw_parts_mut(self.buffers.start(buffer), BUFFER_BYTES);
            match self.direction {
                BufferDirection::DriverToDevice => {
                    self.ring.queue.pop_used(token, &[bytes], &mut [])
                }
                _ => self.ring.queue.pop_used(token, &[], &mut [bytes]),
            }
        };
        // It fails if the device has changed its mind since the token was read.
        bytes.map(|bytes| Some(Used { buffer, bytes: bytes as usize })).map_err(|_| Broken)
    }

    /// Takes back all that the device has, which must have been reset.
    pub fn forget(&mut self) {
        self.given.fill(None);
    }

    /// Does not let the device interrupt. It may have begun to.
    pub fn silence(&mut self) {
        self.ring.silence();
    }

    /// Lets the device interrupt when it gives back the next buffer; `false`, and it does not, if
    /// there is one already.
    pub fn arm(&mut self) -> bool {
        self.ring.arm()
    }
}
