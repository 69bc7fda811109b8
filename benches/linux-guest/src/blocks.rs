//! The disk as blocks of one size, and memory for them. A block holds records and has room for
//! their entries, as those of a node's datasets do; what it does not hold is not read or written.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;

use nile_store::Block;

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
    checks: Option<Checks>,
}

/// The lengths and the checksums of blocks that were written, by their numbers. A dataset has them
/// on the disk.
#[derive(Default)]
pub struct Checks(Mutex<BTreeMap<usize, Block>>);

impl Disk {
    /// The disk behind `file`, with blocks of `block` bytes, which are checked if there are checks.
    pub fn new(file: File, block: usize, checks: Option<Checks>) -> Disk {
        Disk { file, block, checks }
    }

    /// The same checks for another way to the same disk.
    pub fn into_checks(self) -> Option<Checks> {
        self.checks
    }

    /// Reads the first `bytes` bytes of a block; some more may come. If that is all of it, and it
    /// is not what was written, fails.
    pub fn read(&self, number: usize, bytes: usize, block: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(&mut block[..bytes.next_multiple_of(SECTOR)], self.at(number))?;
        let Some(Checks(checks)) = &self.checks else { return Ok(()) };
        let noted = checks.lock().expect("nobody panics").get(&number).copied();
        match noted {
            Some(noted) if noted.bytes as usize == bytes && !noted.holds(&block[..bytes]) => {
                Err(io::Error::other(format!("block {number} is damaged")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the first `bytes` bytes of a block, and some more.
    pub fn write(&self, number: usize, bytes: usize, block: &[u8]) -> io::Result<()> {
        if let Some(Checks(checks)) = &self.checks {
            checks.lock().expect("nobody panics").insert(number, Block::of(&block[..bytes]));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_block_is_noticed_if_blocks_are_checked() {
        let file = tempfile::tempfile().unwrap();
        let mut arena = Arena::new(1, SECTOR);
        let memory = arena.blocks().next().unwrap();
        assert_eq!(memory.as_ptr().align_offset(HUGE), 0);
        let disk = Disk::new(file.try_clone().unwrap(), SECTOR, Some(Checks::default()));
        memory.fill(7);
        disk.write(3, 100, memory).unwrap();
        disk.read(3, 100, memory).unwrap();
        file.write_all_at(&[8], 3 * SECTOR as u64 + 50).unwrap();
        assert!(disk.read(3, 100, memory).unwrap_err().to_string().contains("block 3"));
        let unchecked = Disk::new(file, SECTOR, None);
        unchecked.read(3, 100, memory).unwrap();
        assert_eq!(memory[50], 8);
    }
}
