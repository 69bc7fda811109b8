//! The boot record: what the image hands to every core, and what a worker process must know
//! before it can map anything. It lies at the front of the arena's file, before the node's memory.
//!
//! | bytes | what                                                        |
//! | ----- | ----------------------------------------------------------- |
//! | 8     | what the node's programs agree on, a number ([`abi`])         |
//! | 8     | cores                                                       |
//! | 8     | bytes of the node's memory                                  |
//! | 8     | bytes of them for the pool of buffers                       |
//! | 8     | the node's start, in nanoseconds of Linux's monotonic clock |
//! | 8     | process id of the node                                      |
//! | 8     | number of the pool's own open file; zero if it has none     |
//! | 8     | number of the open file of memory that domains share, or zero |
//! | 8     | number of the open file for samples; zero if there is none  |
//! | 8     | samples in a second                                         |
//! | 8 × 3 | bytes of the texts that follow, in the order of [`Boot`]    |
//!
//! All numbers are little-endian.

use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::fs::FileExt;

use nile_abi::MAX_CORES;

use crate::arena::MAX_MEMORY;
use crate::clock::Clock;
use crate::images::abi;
use crate::layout::{Layout, MEMORY_START};

const WORDS: usize = 13;
const HEADER: usize = WORDS * 8;

/// The most bytes that the texts can have together.
pub(crate) const MAX_TEXT: usize = MEMORY_START.0 as usize - HEADER;

/// What the image gives to every core's main function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Boot {
    /// The text of the configuration file.
    pub config: String,
    /// Where the archive of the node's packages is, absolutely; empty without one.
    pub packages: String,
    /// What the node is to run.
    pub program: String,
}

impl Boot {
    /// Bytes of all texts together.
    pub(crate) fn bytes(&self) -> usize {
        self.texts().iter().map(|text| text.len()).sum()
    }

    fn texts(&self) -> [&str; 3] {
        [&self.config, &self.packages, &self.program]
    }
}

/// Everything that a worker process learns from the node that starts it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BootRecord {
    pub layout: Layout,
    pub clock: Clock,
    /// The node's process.
    pub node: u32,
    /// Under which number the node's processes have the pool's own file, if it has one.
    pub pool_file: Option<RawFd>,
    /// Under which number they have the memory that domains share, if the node is one.
    pub shared_file: Option<RawFd>,
    /// Under which number they have the file for samples, if cores are sampled, and how often.
    pub samples: Option<(RawFd, u32)>,
    pub boot: Boot,
}

impl BootRecord {
    /// Writes the record to the front of `file`.
    pub fn write(&self, file: &File) -> io::Result<()> {
        let texts = self.boot.texts();
        let [config, packages, program] = texts.map(|text| text.len() as u64);
        let (samples_file, hertz) = self.samples.unwrap_or_default();
        let words: [u64; WORDS] = [
            abi(),
            self.layout.cores as u64,
            self.layout.memory,
            self.layout.pool,
            self.clock.start_nanos(),
            self.node.into(),
            self.pool_file.map_or(0, |number| number as u64),
            self.shared_file.map_or(0, |number| number as u64),
            samples_file as u64,
            hertz.into(),
            config,
            packages,
            program,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(texts.concat().as_bytes());
        file.write_all_at(&bytes, 0)
    }

    /// The record at the front of `file`; an error of kind `InvalidData` if there is none, or
    /// one of a program with another ABI.
    pub fn read(file: &File) -> io::Result<BootRecord> {
        let mut header = [0; HEADER];
        file.read_exact_at(&mut header, 0)?;
        let (words, _) = header.as_chunks::<8>();
        let number = |word: usize| u64::from_le_bytes(words[word]);
        let [cores, memory, pool, start, node] = std::array::from_fn(|word| number(1 + word));
        let [pool_file, shared_file] = std::array::from_fn(|word| number(6 + word));
        let [samples_file, hertz] = std::array::from_fn(|word| number(8 + word));
        let [config, packages, program] = std::array::from_fn(|word| number(10 + word));
        let lengths = [config, packages, program];
        let all = lengths.iter().try_fold(0u64, |sum, length| sum.checked_add(*length));
        let all = all.filter(|all| *all <= MAX_TEXT as u64);
        let sound = number(0) == abi()
            && cores <= MAX_CORES as u64
            && memory <= MAX_MEMORY
            && pool <= memory;
        let Some(all) = all.filter(|_| sound) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut text = vec![0; all as usize];
        file.read_exact_at(&mut text, HEADER as u64)?;
        let program = text.split_off((config + packages) as usize);
        let packages = text.split_off(config as usize);
        Ok(BootRecord {
            layout: Layout { cores: cores as usize, memory, pool },
            clock: Clock::started_at(start),
            node: u32::try_from(node).map_err(|_| io::ErrorKind::InvalidData)?,
            pool_file: open_file(pool_file)?,
            shared_file: open_file(shared_file)?,
            samples: match (open_file(samples_file)?, u32::try_from(hertz)) {
                (Some(number), Ok(hertz)) => Some((number, hertz)),
                _ => None,
            },
            boot: Boot { config: utf8(text)?, packages: utf8(packages)?, program: utf8(program)? },
        })
    }
}

/// The number of an open file, if there is one.
fn open_file(word: u64) -> io::Result<Option<RawFd>> {
    let number = RawFd::try_from(word).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Some(number).filter(|number| *number > 0))
}

fn utf8(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    fn file() -> File {
        memfd_create("test", MemfdFlags::CLOEXEC).expect("a file in memory").into()
    }

    fn record() -> BootRecord {
        BootRecord {
            layout: Layout { cores: 3, memory: 1 << 26, pool: 1 << 21 },
            clock: Clock::started_at(77),
            node: 4711,
            pool_file: Some(3),
            shared_file: Some(5),
            samples: Some((4, 997)),
            boot: Boot {
                config: "[roles]\n".into(),
                packages: "/packages.tar".into(),
                program: "boot".into(),
            },
        }
    }

    #[test]
    fn a_record_survives_the_file() {
        let file = file();
        record().write(&file).expect("room");
        assert_eq!(BootRecord::read(&file).expect("a record"), record());
    }

    #[test]
    fn any_bytes_give_a_record_or_an_error() {
        assert!(BootRecord::read(&file()).is_err(), "an empty file");
        for at in 0..HEADER {
            let file = file();
            record().write(&file).expect("room");
            file.write_all_at(&[0xff], at as u64).expect("room");
            if let Ok(read) = BootRecord::read(&file) {
                assert_ne!(read, record(), "byte {at} is not part of the record");
            }
        }
        let not_text = file();
        record().write(&not_text).expect("room");
        not_text.write_all_at(&[0xff], HEADER as u64).expect("room");
        assert!(BootRecord::read(&not_text).is_err());
    }
}
