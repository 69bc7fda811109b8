//! A buffer in the hands of a device, which reads or writes it by itself.
//!
//! As long as it is lent its bytes are reached as those of any [`Region`], and its owner has no
//! other way to them. It comes back when nobody has such a region any more.

use core::{fmt, mem};

use crate::buffer::Buffer;
use crate::region::{Region, Shared};

/// A buffer that its owner has lent to a device. Dropped while a region of it is left, it belongs
/// to nobody until its owner's incarnation ends; else it goes back to its pool.
pub struct Lent {
    /// `None` only while this is taken apart.
    buffer: Option<Buffer>,
    /// Whoever has a region of it has this, too.
    shared: Shared,
}

impl Buffer {
    /// Lends the buffer to a device.
    pub fn lend(self) -> Lent {
        Lent { buffer: Some(self), shared: Shared::default() }
    }
}

impl Lent {
    /// Its bytes for the device; `None` unless they are whole cache lines.
    pub fn region(&self) -> Option<Region> {
        let buffer = self.buffer();
        let start = buffer.start();
        // SAFETY: the buffer is mapped as long as its pool, and owned; nobody reaches its bytes
        // but through such regions before `take_back` has found that none is left.
        unsafe { Region::shared(start, buffer.len(), self.shared.clone()) }
    }

    /// Where its bytes are, counted from the pool's beginning.
    pub fn offset(&self) -> usize {
        self.buffer().offset()
    }

    /// Bytes of it that are meant.
    pub fn bytes(&self) -> usize {
        self.buffer().len()
    }

    /// The buffer, unless a region of it is left.
    pub fn take_back(mut self) -> Result<Buffer, Lent> {
        match self.shared.is_alone() {
            true => Ok(self.buffer.take().expect(HAS_IT)),
            false => Err(self),
        }
    }

    fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect(HAS_IT)
    }
}

const HAS_IT: &str = "a buffer is taken only out of what is gone then";

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.shared.is_alone() {
            mem::forget(self.buffer.take());
        }
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({:?})", self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use crate::pool::Pool;
    use crate::sync::Ordering::Relaxed;
    use crate::{HeapPool, PoolId};
    use nile_abi::CoreId;

    fn pool() -> Pool {
        let memory = HeapPool::new(4096);
        Pool::open(memory.right_of(CoreId(0)), PoolId(0), 1024).unwrap()
    }

    #[test]
    fn a_device_writes_what_its_owner_reads_afterwards() {
        let pool = pool();
        let mut buffer = pool.alloc().unwrap();
        buffer.fill(1);
        let index = buffer.index();
        let lent = buffer.lend();
        let region = lent.region().unwrap();
        assert_eq!(region.len(), 1024);
        region.words()[1].store(u64::MAX, Relaxed);
        let lent = lent.take_back().unwrap_err();
        drop(region);
        let buffer = lent.take_back().unwrap();
        assert_eq!((buffer.index(), buffer.len()), (index, 1024));
        assert!(buffer[..8] == [1; 8] && buffer[8..16] == [255; 8] && buffer[16..24] == [1; 8]);
        let free = pool.free_buffers();
        drop(buffer);
        assert_eq!(pool.free_buffers(), free + 1);
    }

    #[test]
    fn a_buffer_that_a_device_still_has_is_given_to_nobody() {
        let pool = pool();
        let all = pool.free_buffers();
        let lent = pool.alloc().unwrap().lend();
        let region = lent.region().unwrap();
        drop(lent);
        assert_eq!(pool.free_buffers(), all - 1);
        drop(region);
        let lent = pool.alloc().unwrap().lend();
        drop(lent.region());
        drop(lent);
        assert_eq!(pool.free_buffers(), all - 1, "this one is back");
    }

    #[test]
    fn parts_of_lines_are_not_lent() {
        let pool = pool();
        let handle = pool.alloc().unwrap().into_handle(100);
        let lent = pool.claim(handle).unwrap().lend();
        assert!(lent.region().is_none() && lent.bytes() == 100);
    }
}
