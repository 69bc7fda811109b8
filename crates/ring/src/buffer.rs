//! A buffer in its owner's hands, and the handle that names it on its way to the next.

use core::fmt;
#[cfg(not(loom))]
use core::ops::{Deref, DerefMut};
#[cfg(not(loom))]
use core::ptr::NonNull;
#[cfg(not(loom))]
use core::slice;

use crate::cell::PAYLOAD_BYTES;
use crate::pool::Pool;

/// A pool of one node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PoolId(pub u16);

/// A buffer in flight: who claims it from its pool owns the buffer. Small enough to travel in a
/// cell beside other fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    /// The pool that the buffer is of.
    pub pool: PoolId,
    /// Which of its buffers.
    pub index: u32,
    /// How often that buffer had been given up; tells this handle from earlier ones.
    pub generation: u32,
    /// Bytes of the buffer that are meant, from its beginning.
    pub len: u32,
}

impl Handle {
    /// Bytes of an encoded handle.
    pub const BYTES: usize = 14;

    /// The handle as it travels, little endian.
    pub fn to_bytes(self) -> [u8; Handle::BYTES] {
        let mut bytes = [0; Handle::BYTES];
        bytes[..2].copy_from_slice(&self.pool.0.to_le_bytes());
        bytes[2..6].copy_from_slice(&self.index.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.generation.to_le_bytes());
        bytes[10..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    /// The handle that begins `bytes`; `None` if they are too few. That it names a buffer is
    /// for [`Pool::claim`] to find out.
    pub fn from_bytes(bytes: &[u8]) -> Option<Handle> {
        let (pool, rest) = bytes.split_first_chunk()?;
        let (index, rest) = rest.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let (len, _) = rest.split_first_chunk()?;
        Some(Handle {
            pool: PoolId(u16::from_le_bytes(*pool)),
            index: u32::from_le_bytes(*index),
            generation: u32::from_le_bytes(*generation),
            len: u32::from_le_bytes(*len),
        })
    }
}

const _: () = assert!(Handle::BYTES <= PAYLOAD_BYTES);

/// A buffer owned by this core: its only way to the bytes. Dropping it gives the buffer back to
/// the pool.
pub struct Buffer {
    pool: Pool,
    index: u32,
    len: usize,
    in_flight: bool,
}

impl Buffer {
    /// The first `len` bytes of a buffer that `pool` has just made its caller's.
    pub(crate) fn new(pool: Pool, index: u32, len: usize) -> Buffer {
        Buffer { pool, index, len, in_flight: false }
    }

    /// Which buffer of its pool this is.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Where its bytes are, counted from the pool's beginning.
    pub fn offset(&self) -> usize {
        self.pool.offset(self.index)
    }

    #[cfg(not(loom))]
    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Where its bytes are in this address space.
    #[cfg(not(loom))]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.pool.bytes(self.index)
    }

    /// Gives the buffer up for a handle to its first `len` bytes (cut to the buffer's size), to
    /// be sent to the next owner. A handle that could not be sent can be claimed back.
    pub fn into_handle(mut self, len: usize) -> Handle {
        self.in_flight = true;
        Handle {
            pool: self.pool.id(),
            index: self.index,
            generation: self.pool.launch(self.index),
            len: len.min(self.pool.buffer_size()) as u32,
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if !self.in_flight {
            self.pool.free(self.index);
        }
    }
}

#[cfg(not(loom))]
impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the pool made this buffer ours alone and reaches its bytes in no other way
        // (`Pool::attach`'s promise); `len` is at most the size of a buffer.
        unsafe { slice::from_raw_parts(self.pool.bytes(self.index).as_ptr(), self.len) }
    }
}

#[cfg(not(loom))]
impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.pool.bytes(self.index).as_ptr(), self.len) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({:?}, {}, {} bytes)", self.pool.id(), self.index, self.len)
    }
}
