//! The disk as blocks of one size, and memory for them. A block holds records and has room for their
//! entries, as those of a node's datasets do; what it does not hold is not read or written.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where memory begins that Linux gives in huge pages, and that a device takes whole.
const HUGE: usize = 2 << 20;

/// What a device reads and writes at once, at least, past Linux's cache.
const SECTOR: usize = 4096;

/// Memory for some blocks; its pages are there.
pub struct Arena {
    memory: Vec<u8>,
    block: usize,
}

impl Arena {
    /// Memory for `count` blocks of `block` bytes.
    pub fn new(count: usize, block: usize) -> Arena {
        let mut memory = vec![0; count * block + HUGE];
        // Zeros come as pages that are made when they are written.
        memory.iter_mut().step_by(SECTOR).for_each(|byte| *byte = 1);
        Arena { memory, block }
    }

    /// The blocks.
    pub fn blocks(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let start = self.memory.as_ptr().align_offset(HUGE);
        self.memory[start..].chunks_exact_mut(self.block)
    }
}

/// A disk of blocks.
pub struct Disk {
    file: File,
    block: usize,
}

impl Disk {
    /// The disk behind `file`, with blocks of `block` bytes.
    pub fn new(file: File, block: usize) -> Disk {
        Disk { file, block }
    }

    /// Reads the first `bytes` bytes of a block; some more may come.
    pub fn read(&self, number: usize, bytes: usize, block: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(&mut block[..bytes.next_multiple_of(SECTOR)], self.at(number))
    }

    /// Writes the first `bytes` bytes of a block, and some more.
    pub fn write(&self, number: usize, bytes: usize, block: &[u8]) -> io::Result<()> {
        self.file.write_all_at(&block[..bytes.next_multiple_of(SECTOR)], self.at(number))
    }

    /// Waits until the device has all that was written.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn at(&self, number: usize) -> u64 {
        (number * self.block) as u64
    }
}
