//! Whether the page cache has room for what is on a disk.
//!
//! A job reads all of its input and writes as much. Where memory does not hold both, Linux makes
//! room by evicting the pages that were used the longest ago. These are what comes next, in the
//! input or in the place of the output, each a moment before it is read or written again: in the
//! end all are evicted and come back, where a few would have been enough. What was read last is
//! what nobody wants for the longest time. To forget some of that, and no more than writers are
//! about to need, leaves the rest where it is.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::system::sysinfo;

/// The machine's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    total: u64,
    free: u64,
    /// What processes share: the memory of nodes is, and it is not given back for a cache.
    shared: u64,
}

impl Memory {
    fn now() -> Memory {
        let info = sysinfo();
        let unit = u64::from(info.mem_unit);
        let bytes = |count: u64| count.saturating_mul(unit);
        let [total, free, shared] = [info.totalram, info.freeram, info.sharedram].map(bytes);
        Memory { total, free, shared }
    }

    /// Whether a disk of which so many bytes were written leaves no room beside the nodes' memory
    /// for what else a machine does, and too little is free for what will be written.
    fn is_short(self, disk: u64) -> bool {
        let Memory { total, free, shared } = self;
        shared.saturating_add(disk) > total - total / 8 && free < total / 16
    }
}

/// The page cache, as one disk sees it.
pub(super) struct Cache {
    file: File,
    /// Of a block device: how large it is.
    device: Option<u64>,
    memory: fn() -> Memory,
}

impl Cache {
    /// For the file, or device, beneath a disk of so many bytes.
    pub fn new(file: File, bytes: u64) -> io::Result<Cache> {
        let device = file.metadata()?.file_type().is_block_device().then_some(bytes);
        Ok(Cache { file, device, memory: Memory::now })
    }

    /// One without room.
    #[cfg(test)]
    pub fn short(file: File) -> Cache {
        Cache { file, device: Some(1), memory: || Memory { total: 16, free: 0, shared: 16 } }
    }

    /// Whether what is read now had better be forgotten.
    pub fn is_short(&self) -> bool {
        // A file's bytes are those that were ever written.
        let written = || self.file.metadata().map_or(0, |it| it.blocks().saturating_mul(512));
        (self.memory)().is_short(self.device.unwrap_or_else(written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_disk_that_memory_cannot_hold_is_forgotten_and_only_while_little_is_free() {
        let memory = Memory { total: 1600, free: 99, shared: 400 };
        assert!(memory.is_short(1001));
        assert!(!memory.is_short(1000), "all has room");
        assert!(!Memory { free: 100, ..memory }.is_short(1001), "enough is free");
        assert!(Memory { shared: u64::MAX, ..memory }.is_short(1));
        let now = Memory::now();
        assert!(now.total > now.free && now.total > 1 << 26, "{now:?}");
        assert!(!now.is_short(0) || now.shared > now.total / 2, "{now:?}");
    }
}
