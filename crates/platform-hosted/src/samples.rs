//! Samples of what a node's cores do: a file with a ring for each core, which the core writes in a
//! signal handler (`sampler`) and whoever wants to know reads meanwhile ([`Reader`]).
//!
//! A ring is [`SLOTS`] slots of 512 bytes behind one in which the writer counts. Sample `n` goes
//! into slot `n mod SLOTS`, whoever has read what is there or not: the writer waits for nobody, and
//! a reader that is late sees by the numbers how many it has lost.
//!
//! | word of a slot | what                                                       |
//! | -------------- | ---------------------------------------------------------- |
//! | 0              | the sample's number, from 1 on; 0 while it is written       |
//! | 1              | periods of the timer that it stands for                    |
//! | 2              | what was interrupted: 0 kernel, 1 Linux, 2 package         |
//! | 3              | frames that follow                                         |
//! | 4 to 63        | frames, innermost first: where in bytes 0 to 6, what in 7  |

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};

use nile_abi::{CoreId, MAX_CORES};
use nile_ring::Region;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::mm::{MapFlags, ProtFlags};

/// The most frames of a sample; what is further out is left away.
pub const DEPTH: usize = SLOT_WORDS - HEAD;

/// The most samples of a core in a second: no Linux looks at a thread's clock more often.
pub const MOST_HERTZ: u32 = 1000;

/// Samples that a ring holds.
pub const SLOTS: usize = 1024;

const SLOT_WORDS: usize = 64;
const HEAD: usize = 4;
const RING_WORDS: usize = (1 + SLOTS) * SLOT_WORDS;
const RING_BYTES: usize = RING_WORDS * size_of::<u64>();

/// The file with a node's samples, and how many it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleFile {
    /// Where it is; it is made if it is not there.
    pub path: PathBuf,
    /// Samples in a second of a core's processor time.
    pub hertz: u32,
}

/// What was interrupted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// The kernel, with its services.
    Kernel,
    /// A system call of Linux, which the kernel was making.
    Linux,
    /// A package.
    Package,
}

/// An instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Frame {
    /// So many bytes behind the start of the node's program.
    Program(u64),
    /// So many bytes behind the package's entry point.
    Package(i64),
    /// In a library, or in what is no code.
    Elsewhere,
}

/// What a core did at a moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Periods of the timer that have passed since the one before.
    pub periods: u64,
    /// What was interrupted.
    pub mode: Mode,
    /// Where, innermost first. The others are where calls return to.
    pub frames: Vec<Frame>,
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
            let more = ring.read(next, |sample| each(CoreId(core as u16), sample));
            lost = lost.saturating_add(more);
        }
        lost
    }
}

/// The ring of one core.
pub(crate) struct Ring<'a> {
    words: &'a [AtomicU64],
}

fn ring(rings: &Region, core: usize) -> Option<Ring<'_>> {
    rings.words().get(core * RING_WORDS..(core + 1) * RING_WORDS).map(|words| Ring { words })
}

impl Ring<'_> {
    /// How many samples were ever written.
    fn written(&self) -> u64 {
        self.words[0].load(Acquire)
    }

    fn slot(&self, number: u64) -> &[AtomicU64] {
        let at = (1 + number as usize % SLOTS) * SLOT_WORDS;
        &self.words[at..at + SLOT_WORDS]
    }

    /// Writes a sample, with the first [`DEPTH`] of `frames`. One writer at a time.
    pub fn write(&self, periods: u64, mode: Mode, frames: impl Iterator<Item = Frame>) {
        let number = self.written().wrapping_add(1);
        let slot = self.slot(number);
        slot[0].store(0, Relaxed);
        // Whoever sees anything of what follows also sees that zero, or what comes after it.
        fence(Release);
        let mut count = 0;
        for (word, frame) in slot[HEAD..].iter().zip(frames) {
            word.store(frame.word(), Relaxed);
            count += 1;
        }
        slot[1].store(periods, Relaxed);
        slot[2].store(mode.word(), Relaxed);
        slot[3].store(count, Relaxed);
        slot[0].store(number, Release);
        self.words[0].store(number, Release);
    }

    /// Gives the samples from number `next` on to `each`; says how many are missing between them.
    fn read(&self, next: &mut u64, mut each: impl FnMut(Sample)) -> u64 {
        let written = self.written();
        let oldest = written.saturating_sub(SLOTS as u64 - 1).max(1);
        let mut lost = oldest.saturating_sub(*next);
        for number in (*next).max(oldest)..=written {
            match self.get(number) {
                Some(sample) => each(sample),
                None => lost = lost.saturating_add(1),
            }
        }
        *next = written.saturating_add(1);
        lost
    }

    /// The sample of this number, unless another one is written over it.
    fn get(&self, number: u64) -> Option<Sample> {
        let slot = self.slot(number);
        if slot[0].load(Acquire) != number {
            return None;
        }
        let [periods, mode, count] = [1, 2, 3].map(|word| slot[word].load(Relaxed));
        let frames = slot[HEAD..].iter().take(count as usize);
        let frames = frames.map(|word| Frame::of(word.load(Relaxed))).collect();
        fence(Acquire);
        let same = slot[0].load(Relaxed) == number;
        same.then_some(Sample { periods, mode: Mode::of(mode), frames })
    }
}

impl Mode {
    fn word(self) -> u64 {
        match self {
            Mode::Kernel => 0,
            Mode::Linux => 1,
            Mode::Package => 2,
        }
    }

    fn of(word: u64) -> Mode {
        match word {
            1 => Mode::Linux,
            2 => Mode::Package,
            _ => Mode::Kernel,
        }
    }
}

impl Frame {
    const KIND: u32 = 56;

    fn word(self) -> u64 {
        let (kind, at) = match self {
            Frame::Elsewhere => (0, 0),
            Frame::Program(at) => (1, at),
            Frame::Package(at) => (2, at as u64),
        };
        kind << Frame::KIND | at & ((1 << Frame::KIND) - 1)
    }

    fn of(word: u64) -> Frame {
        let bits = u64::BITS - Frame::KIND;
        match word >> Frame::KIND {
            1 => Frame::Program(word << bits >> bits),
            2 => Frame::Package((word << bits) as i64 >> bits),
            _ => Frame::Elsewhere,
        }
    }
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
