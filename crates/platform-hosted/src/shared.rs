//! Memory that domains of this machine share: a file that the supervisor has made, of as many bytes
//! as it has to give, and of which a domain shows its packages what it shares. In each domain it
//! has the same addresses, far beyond the node's own memory. Nothing of it is mapped but there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::path::Path;

use nile_abi::{PageSize, PhysAddr};
use nile_platform::Grant;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::arena::MAX_MEMORY;
use crate::layout::end;

/// Where it begins among the node's addresses. Keeps can name addresses up to 16 TiB.
const START: PhysAddr = PhysAddr(MAX_MEMORY);

/// The most bytes.
const MOST: u64 = 1 << 42;

/// The file, and what there is of it.
pub(crate) struct SharedMemory {
    file: File,
    all: Grant,
}

impl SharedMemory {
    /// That in the file `path`, which programs that this process starts inherit.
    pub fn open(path: &Path) -> io::Result<SharedMemory> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        fcntl_setfd(&file, FdFlags::empty())?;
        SharedMemory::of(file)
    }

    /// The same in a process that the node has started.
    pub fn inherit(number: RawFd) -> io::Result<SharedMemory> {
        // SAFETY: nothing in this process closes what it has inherited. A number that is no open
        // file is an error of the call.
        let file = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
        SharedMemory::of(File::from(file))
    }

    fn of(file: File) -> io::Result<SharedMemory> {
        let page = PageSize::Large.bytes();
        let bytes = file.metadata()?.len().min(MOST) / page * page;
        Ok(SharedMemory { file, all: Grant { start: START, bytes } })
    }

    /// The file's number, for processes that inherit it.
    pub fn number(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Its addresses.
    pub fn all(&self) -> Grant {
        self.all
    }

    /// The file, and where in it `range` is, if all of that is shared memory.
    pub fn behind(&self, range: Grant) -> Option<(&File, u64)> {
        let offset = range.start.0.checked_sub(self.all.start.0)?;
        let last = range.start.checked_add(range.bytes)?;
        (range.bytes > 0 && last <= end(self.all)).then_some((&self.file, offset))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_found_in_its_file() {
        let path = std::env::temp_dir().join(format!("nile-shared-{}", std::process::id()));
        let file = File::create(&path).expect("a file");
        file.set_len((5 << 20) + 1).expect("room");
        let shared = SharedMemory::open(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(shared.all(), Grant { start: START, bytes: 4 << 20 });
        let at = |start, bytes| shared.behind(Grant { start: PhysAddr(start), bytes });
        assert_eq!(at(START.0 + 4096, 4096).map(|it| it.1), Some(4096));
        for (start, bytes) in [(0, 4096), (START.0, 0), (START.0 + 4096, 4 << 20), (u64::MAX, 2)] {
            assert!(at(start, bytes).is_none(), "{start:x} {bytes:x}");
        }
        let again = SharedMemory::inherit(shared.number()).expect("an open file");
        assert_eq!(again.all(), shared.all());
    }
}
