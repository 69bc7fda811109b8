//! Samples of what a node's cores do: a file with a [ring](nile_platform::samples) for each core,
//! which the core writes in a signal handler (`sampler`) and whoever wants to know reads meanwhile
//! ([`Reader`]).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};

use nile_abi::{CoreId, MAX_CORES};
pub use nile_platform::samples::{DEPTH, Frame, Mode, SLOTS, Sample};
use nile_platform::samples::{RING_BYTES, Ring};
use nile_ring::Region;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags};

/// The most samples of a core in a second: no Linux looks at a thread's clock more often.
pub const MOST_HERTZ: u32 = 1000;

/// The file with a node's samples, and how many it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleFile {
    /// Where it is; it is made if it is not there.
    pub path: PathBuf,
    /// Samples in a second of a core's processor time.
    pub hertz: u32,
}

/// The rings of a node's cores, as one of its processes has them.
pub(crate) struct Samples {
    file: File,
    rings: Region,
    /// The period of the timer.
    pub hertz: u32,
}

impl Samples {
    /// The rings of `cores` cores in the file that is named; programs that this process starts
    /// inherit it. Samples that are there already stay.
    pub fn create(named: &SampleFile, cores: usize) -> io::Result<Samples> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&named.path)?;
        file.set_len((cores * RING_BYTES) as u64)?;
        fcntl_setfd(&file, FdFlags::empty())?;
        Samples::map(file, named.hertz)
    }

    /// The same in a process that the node has started.
    pub fn inherit((number, hertz): (RawFd, u32)) -> io::Result<Samples> {
        // SAFETY: nothing in this process closes what it has inherited. A number that is no open
        // file is an error of the call.
        let file = unsafe { BorrowedFd::borrow_raw(number) }.try_clone_to_owned()?;
        Samples::map(File::from(file), hertz)
    }

    fn map(file: File, hertz: u32) -> io::Result<Samples> {
        let rings = map(&file, ProtFlags::READ | ProtFlags::WRITE)?;
        Ok(Samples { file, rings, hertz })
    }

    /// The file's number and the rate, for processes that inherit it.
    pub fn number(&self) -> (RawFd, u32) {
        (self.file.as_raw_fd(), self.hertz)
    }

    /// The ring of `core`, for that core alone to write. May be called in a signal handler.
    pub fn ring(&self, core: CoreId) -> Option<Ring<'_>> {
        ring(&self.rings, core.index())
    }
}

/// Reads the samples of a node from the file that it was told to write.
pub struct Reader {
    rings: Region,
    /// For each core the number of the next sample.
    next: Vec<u64>,
}

impl Reader {
    /// What is written from now on. The file's memory stays mapped until the process ends. Fails if
    /// there is no such file.
    pub fn open(path: &Path) -> io::Result<Reader> {
        let rings = map(&File::open(path)?, ProtFlags::READ)?;
        let written = |it| ring(&rings, it).map_or(0, |it| it.written());
        let next = (0..rings.len() / RING_BYTES).map(|it| written(it).saturating_add(1)).collect();
        Ok(Reader { rings, next })
    }

    /// Gives what has come since to `each`; says how many samples were lost.
    pub fn read(&mut self, mut each: impl FnMut(CoreId, Sample)) -> u64 {
        let mut lost = 0u64;
        for (core, next) in self.next.iter_mut().enumerate() {
            let Some(ring) = ring(&self.rings, core) else { continue };
            let more = ring.read(next, SLOTS, |sample| each(CoreId(core as u16), sample));
            lost = lost.saturating_add(more);
        }
        lost
    }
}

fn ring(rings: &Region, core: usize) -> Option<Ring<'_>> {
    const WORDS: usize = RING_BYTES / size_of::<u64>();
    Ring::of(rings.words().get(core * WORDS..)?)
}

/// All of `file` that is whole rings.
fn map(file: &File, rights: ProtFlags) -> io::Result<Region> {
    let rings = file.metadata()?.len() / RING_BYTES as u64;
    if rings == 0 || rings > MAX_CORES as u64 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let bytes = rings as usize * RING_BYTES;
    // SAFETY: Linux chooses an address at which nothing is mapped.
    let start =
        unsafe { rustix::mm::mmap(ptr::null_mut(), bytes, rights, MapFlags::SHARED, file, 0) }?;
    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    // SAFETY: the memory starts at a page and stays mapped as long as the process; all processes
    // access it by atomics alone, and a reader only reads.
    Ok(unsafe { Region::from_raw(start, bytes) })
}

#[cfg(test)]
mod tests;
