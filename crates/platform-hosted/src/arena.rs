//! The arena: the node's memory, one sparse file without a name that all its processes inherit.
//! Where Linux has pages of 2 MiB for it, the pool of buffers is in a second such file.
//!
//! It appears at the same addresses in every process of the node, so that a shared structure has
//! one address. The process of the system cores maps all of it. A worker reserves the same range
//! without access and maps what it is granted: touching anything else faults in the worker.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use nile_abi::{PageSize, PhysAddr, VirtAddr};
use nile_platform::user::Access;
use nile_platform::{AttachError, Grant};
use nile_ring::Region;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use crate::large::{self, Refused};
use crate::layout::end;
use crate::shared::SharedMemory;

/// Where address 0 of the node's memory appears in its processes. Linux on 64-bit machines puts
/// nothing of its own here.
pub(crate) const BASE: VirtAddr = VirtAddr(0x2000_0000_0000);

/// The most memory a node can have: what fits above [`BASE`] with room to spare.
pub(crate) const MAX_MEMORY: u64 = 1 << 43;

/// The node's memory, and this process's view of it. The view stays until the process ends, but
/// for what [`Arena::unmap`] takes out of it.
pub(crate) struct Arena {
    file: File,
    all: Grant,
    /// What of it lies in a file of its own, from that file's start on.
    large: Option<(Grant, File)>,
    /// Memory that is not the node's and that it can share with other domains.
    shared: Option<SharedMemory>,
}

impl Arena {
    /// A node's memory, all zero, in the range `all`; the file's length is fixed for good, so
    /// that no process can pull memory from under another.
    pub fn create(all: Grant) -> io::Result<Arena> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create("nile-node", flags)?;
        rustix::fs::ftruncate(&fd, end(all).0)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Arena::reserve(File::from(fd), all)
    }

    /// The memory of the node that this process was started by, from the file it inherited.
    pub fn inherited(file: File, all: Grant) -> io::Result<Arena> {
        Arena::reserve(file, all)
    }

    /// Takes the node's address range in this process, with no access to any of it.
    fn reserve(file: File, all: Grant) -> io::Result<Arena> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: FIXED_NOREPLACE maps only where nothing is mapped, so no memory in use changes.
        let at = unsafe {
            rustix::mm::mmap_anonymous(
                pointer(all.start),
                all.bytes as usize,
                ProtFlags::empty(),
                flags,
            )
        }?;
        if at != pointer(all.start) {
            // A Linux older than 4.17 takes FIXED_NOREPLACE for a hint.
            return Err(io::Error::from(Errno::EXIST));
        }
        Ok(Arena { file, all, large: None, shared: None })
    }

    /// The node can share this memory with other domains from now on.
    pub fn share(&mut self, shared: SharedMemory) {
        self.shared = Some(shared);
    }

    /// What it can share, if it is a domain.
    pub fn shared(&self) -> Option<&SharedMemory> {
        self.shared.as_ref()
    }

    /// The file, for its boot record and to be inherited by a worker.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Moves `range`, which nobody has touched yet and which begins where a 2 MiB page can, to
    /// pages of 2 MiB and maps it. Where Linux refuses, the range stays where it is.
    pub fn use_large_pages(&mut self, range: Grant) -> Result<(), Refused> {
        self.large = Some((range, large::file(range.bytes)?));
        let moved = self.map(range, Access::Write).map_err(|error| match error {
            AttachError::OutOfRange => Refused::Step("the range", Errno::INVAL),
            AttachError::Refused(number) => {
                Refused::Step("the mapping", Errno::from_raw_os_error(number))
            }
        });
        moved.and_then(|region| self.has_large_page(&region)).inspect_err(|_| {
            self.large = None;
            // It was mapped so before; what fails here fails the node at its first touch.
            let _ = self.map(range, Access::Write);
        })
    }

    /// Touches the first page and looks how much memory Linux gave for it: what it promises of
    /// large pages depends on settings, on limits of the process and on what is free.
    fn has_large_page(&self, region: &Region) -> Result<(), Refused> {
        let Some((_, file)) = &self.large else { return Err(Refused::SmallPage) };
        if let Some(word) = region.words().first() {
            word.load(Ordering::Relaxed);
        }
        let blocks = file.metadata().map_or(0, |file| file.blocks());
        let large = blocks * 512 >= PageSize::Large.bytes();
        if large { Ok(()) } else { Err(Refused::SmallPage) }
    }

    /// The number of the second file, in this process and in those that it starts.
    pub fn large_file(&self) -> Option<RawFd> {
        self.large.as_ref().map(|(_, file)| file.as_raw_fd())
    }

    /// The second file, and how many bytes of it are the pool's.
    pub fn own_file_of_pool(&self) -> Option<(&File, u64)> {
        self.large.as_ref().map(|(range, file)| (file, range.bytes))
    }

    /// Takes `range` from the second file, which this process has inherited under `number`.
    pub fn inherit_large(&mut self, range: Grant, number: RawFd) -> io::Result<()> {
        // SAFETY: nothing in this process closes what it has inherited. A number that is no open
        // file is an error of the call.
        let file = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
        self.large = Some((range, File::from(file)));
        Ok(())
    }

    /// The file that `range` lies in, and where in it.
    fn behind(&self, range: Grant) -> (&File, u64) {
        match &self.large {
            Some((large, file)) if range.start >= large.start && end(range) <= end(*large) => {
                (file, range.start.0 - large.start.0)
            }
            _ => (&self.file, range.start.0),
        }
    }

    /// Makes `range` usable in this process; its content is what it is in every other process.
    pub fn map(&self, range: Grant, access: Access) -> Result<Region, AttachError> {
        let start = self.place(range)?;
        let length = range.bytes as usize;
        let (file, offset) = self.behind(range);
        // SAFETY: `place` has checked that the range lies in this arena's reserved address range,
        // where only this type maps and unmaps. Mapping a range again with other rights leaves
        // its content and address as they were.
        unsafe {
            rustix::mm::mmap(
                start,
                length,
                protection(access),
                MapFlags::SHARED | MapFlags::FIXED,
                file,
                offset,
            )
        }
        .map_err(refused)?;
        ask_for_huge_pages(start, range.bytes);
        self.region(range)
    }

    /// The region of `range`, which is mapped already.
    pub fn region(&self, range: Grant) -> Result<Region, AttachError> {
        let start = NonNull::new(self.place(range)?.cast()).ok_or(AttachError::OutOfRange)?;
        // SAFETY: the range is page-aligned and mapped in this process until `unmap`, whose
        // callers hold no region of it any more; every process accesses it by atomics only. What
        // is mapped for reading only (parts of the board in a worker) faults when it is written,
        // which is what the mapping is for.
        Ok(unsafe { Region::from_raw(start, range.bytes as usize) })
    }

    /// Takes `range` out of this process: touching it faults from here on. The caller holds no
    /// region of it. A range outside the node's memory, or of what domains share, was never mapped:
    /// nothing happens.
    pub fn unmap(&self, range: Grant) -> Result<(), AttachError> {
        if self.shared().is_some_and(|shared| shared.behind(range).is_some()) {
            return Ok(());
        }
        let start = self.place(range)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: the range lies in the reserved address range; the caller has given up every
        // region of it.
        unsafe {
            rustix::mm::mmap_anonymous(start, range.bytes as usize, ProtFlags::empty(), flags)
        }
        .map(drop)
        .map_err(refused)
    }

    /// Shows `range`, of the node's memory or of what domains share, to a package of this process,
    /// at `at` in user memory, where nothing is mapped.
    pub fn map_user(&self, range: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError> {
        let (file, offset) = match self.shared().and_then(|shared| shared.behind(range)) {
            Some(behind) => behind,
            None => {
                self.place(range)?;
                self.behind(range)
            }
        };
        let place = ptr::with_exposed_provenance_mut(at.0 as usize);
        // SAFETY: FIXED_NOREPLACE maps only where nothing is mapped, so no memory in use changes.
        let mapped = unsafe {
            rustix::mm::mmap(
                place,
                range.bytes as usize,
                protection(access),
                MapFlags::SHARED | MapFlags::FIXED_NOREPLACE,
                file,
                offset,
            )
        }
        .map_err(refused)?;
        if mapped != place {
            self.unmap_user(VirtAddr(mapped.addr() as u64), range.bytes);
            return Err(refused(Errno::EXIST));
        }
        ask_for_huge_pages(place, range.bytes);
        Ok(())
    }

    /// Lets packages use `bytes` bytes that [`Arena::map_user`] showed, or no longer.
    pub fn protect_user(&self, at: VirtAddr, bytes: u64, access: Option<Access>) {
        let start = ptr::with_exposed_provenance_mut(at.0 as usize);
        let rights = access.map_or(ProtFlags::empty(), protection);
        let rights = MprotectFlags::from_bits_retain(rights.bits());
        // SAFETY: the caller names what was mapped for a package, in which no Rust object lies.
        let done = unsafe { rustix::mm::mprotect(start, bytes as usize, rights) };
        // A package must neither see another's memory nor miss its own.
        done.expect("whole pages that are mapped can be protected");
    }

    /// Takes away what [`Arena::map_user`] showed; no package has it any more.
    pub fn unmap_user(&self, at: VirtAddr, bytes: u64) {
        // SAFETY: the caller names what was mapped for a package, in which no Rust object lies. It
        // cannot fail: the range is whole pages.
        let _ = unsafe {
            rustix::mm::munmap(ptr::with_exposed_provenance_mut(at.0 as usize), bytes as usize)
        };
    }

    /// Fills `range` with zeros by giving its pages back to Linux: fresh ones are zero.
    pub fn zero(&self, range: Grant) -> Result<(), AttachError> {
        self.place(range)?;
        let (file, offset) = self.behind(range);
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, punch, offset, range.bytes))
            .map_err(refused)
    }

    /// Whether a word at `address` of this process lies in the node's memory, mapped or not.
    pub fn contains(&self, address: VirtAddr) -> bool {
        let word = size_of::<u64>() as u64;
        address.0.is_multiple_of(word)
            && address >= virtual_address(self.all.start)
            && address < virtual_address(end(self.all))
    }

    /// Where `range` appears, if it is whole frames of the node's memory.
    fn place(&self, range: Grant) -> Result<*mut c_void, AttachError> {
        let aligned = range.start.is_aligned(PageSize::Small)
            && range.bytes.is_multiple_of(PageSize::Small.bytes());
        let inside = range.start >= self.all.start
            && range.start.checked_add(range.bytes).is_some_and(|last| last <= end(self.all));
        if aligned && inside && range.bytes > 0 {
            Ok(pointer(range.start))
        } else {
            Err(AttachError::OutOfRange)
        }
    }
}

/// Where `address` of the node's memory appears in each of its processes that maps it.
pub(crate) fn virtual_address(address: PhysAddr) -> VirtAddr {
    VirtAddr(BASE.0 + address.0)
}

/// Asks for 2 MiB pages behind a mapping. Most Linux systems refuse or ignore it for a memfd; what
/// they do is read off [`huge_pages`].
fn ask_for_huge_pages(start: *mut c_void, bytes: u64) {
    if bytes < PageSize::Large.bytes() {
        return;
    }
    // SAFETY: the range is a mapping of the arena's own, and the advice changes no content. A
    // refusal leaves 4 KiB pages, which are as right.
    let _ = unsafe { rustix::mm::madvise(start, bytes as usize, Advice::LinuxHugepage) };
}

fn protection(access: Access) -> ProtFlags {
    match access {
        Access::Read => ProtFlags::READ,
        Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        Access::Execute => ProtFlags::READ | ProtFlags::EXEC,
    }
}

fn pointer(address: PhysAddr) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(virtual_address(address).0 as usize)
}

fn refused(error: Errno) -> AttachError {
    AttachError::Refused(error.raw_os_error())
}

/// Which page size stands behind the arena, as a line for the boot report.
pub(crate) fn huge_pages() -> String {
    let setting = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let text = std::fs::read_to_string(setting).unwrap_or_default();
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    match chosen {
        Some(mode @ ("always" | "within_size" | "advise" | "force")) => {
            format!("arena: 2 MiB pages where Linux has them (shmem_enabled {mode})")
        }
        Some(mode) => format!("arena: 4 KiB pages (shmem_enabled {mode})"),
        None => "arena: 4 KiB pages (no shmem_enabled here)".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::PhysAddr;

    const LARGE: u64 = 2 << 20;

    /// The pool of an arena is the same memory in every mapping, whichever file it lies in; what
    /// is beside it stays where it was.
    #[test]
    fn a_range_moves_to_large_pages_or_stays() {
        let all = Grant { start: PhysAddr(1 << 20), bytes: 16 << 20 };
        let pool = Grant { start: PhysAddr(4 << 20), bytes: 4 << 20 };
        let beside = Grant { start: PhysAddr(8 << 20), bytes: 4096 };
        let mut arena = Arena::create(all).expect("an arena");
        arena.map(all, Access::Write).expect("mapped");
        let moved = arena.use_large_pages(pool);
        match moved {
            Ok(()) => assert!(arena.large_file().is_some_and(|number| number > 2)),
            Err(why) => {
                eprintln!("no pages of 2 MiB on this machine: {why}");
                assert_eq!(arena.large_file(), None);
            }
        }
        let region = arena.region(pool).expect("mapped");
        assert!(region.words().iter().all(|word| word.load(Ordering::Relaxed) == 0));
        let at = VirtAddr(BASE.0 + (1 << 40));
        for (range, number) in [(pool, 1), (beside, 2)] {
            let words = arena.region(range).expect("mapped");
            words.words()[9].store(number, Ordering::Relaxed);
            arena.map_user(range, at, Access::Read).expect("room");
            let shown: *const u64 = ptr::with_exposed_provenance(at.0 as usize + 72);
            // SAFETY: it was just mapped, and nobody writes it now.
            assert_eq!(unsafe { shown.read_volatile() }, number);
            arena.unmap_user(at, range.bytes);
        }
        let second = Grant { start: PhysAddr(pool.start.0 + LARGE), bytes: LARGE };
        arena.region(second).expect("mapped").words()[0].store(3, Ordering::Relaxed);
        arena.zero(second).expect("a hole");
        let first = |range| arena.region(range).expect("mapped").words()[0].load(Ordering::Relaxed);
        assert_eq!((first(second), region.words()[9].load(Ordering::Relaxed)), (0, 1));
    }
}
