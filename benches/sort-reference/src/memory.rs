//! Memory as Linux gives it: in huge pages, or pages of a file.

use std::fs::File;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};

/// Mapped memory, which is given back when it is dropped. Nobody else writes to it: files are
/// mapped while they do not change.
pub struct Memory {
    start: NonNull<u8>,
    bytes: usize,
}

impl Memory {
    /// Memory of this process alone, in huge pages where Linux has them; all zero.
    pub fn private(bytes: usize) -> io::Result<Memory> {
        let bytes = bytes.max(1);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: Linux chooses the place, so that no other mapping is replaced.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE)? };
        let memory = Memory::owning(start.cast(), bytes);
        // Without huge pages it is slower and does the same.
        // SAFETY: the range is the mapping; where its pages come from changes none of its bytes.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxHugepage) };
        Ok(memory)
    }

    /// The first `bytes` bytes of a file, which are to be read only. It may not become shorter.
    pub fn of_file(file: &File, bytes: usize, at_once: bool) -> io::Result<Memory> {
        let flags = if at_once { MapFlags::SHARED | MapFlags::POPULATE } else { MapFlags::SHARED };
        // SAFETY: as above; the program is told to map files that nobody writes meanwhile.
        let start =
            unsafe { mmap(ptr::null_mut(), bytes.max(1), ProtFlags::READ, flags, file, 0)? };
        Ok(Memory::owning(start.cast(), bytes.max(1)))
    }

    /// The first `bytes` bytes of a file, which are to be written.
    pub fn over_file(file: &File, bytes: usize) -> io::Result<Memory> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let start =
            unsafe { mmap(ptr::null_mut(), bytes.max(1), protection, MapFlags::SHARED, file, 0)? };
        Ok(Memory::owning(start.cast(), bytes.max(1)))
    }

    /// Has Linux give all of its pages now.
    pub fn touch(&mut self) {
        self.chunks_mut(4096).for_each(|page| page[0] = 1);
    }

    fn owning(start: *mut u8, bytes: usize) -> Memory {
        Memory { start: NonNull::new(start).expect("Linux maps nothing at zero"), bytes }
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, ours until the drop, and borrowed with `self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Memory {
    /// Panics, by a signal, when memory that is to be read only is written.
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has borrowed it.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: memory is not bound to the thread that mapped it, and is shared by borrowing only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}
