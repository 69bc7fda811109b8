//! The ledger of a hosted machine: a file in the cluster's folder, which outlives every command.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nile_domain::{Extent, Ledger, Look, Sizes, UNIT, Words};
use rustix::fs::FallocateFlags;

use crate::advice;
use crate::cluster::folder::{Folder, Shared};
use crate::cluster::supervising::OF_SUPERVISOR;
use crate::failure::Failure;

/// What the file is called.
const FILE: &str = "ledger";

/// What the file of memory is called that domains can share: of as many bytes as the machine has,
/// of which those take room that domains have written.
const SHARED: &str = "shared";

/// The words of a ledger in a file. Each store is one write of eight bytes.
pub struct FileWords {
    file: File,
    words: Vec<u64>,
    /// Why the file is behind the words, if it is.
    pub failed: Option<io::Error>,
}

impl Look for FileWords {
    fn count(&self) -> usize {
        self.words.count()
    }

    fn load(&self, at: usize) -> u64 {
        self.words.load(at)
    }
}

impl Words for FileWords {
    fn store(&mut self, at: usize, word: u64) {
        self.words.store(at, word);
        // After a failure nothing more is stored: stores happen in their order.
        if self.failed.is_none() {
            self.failed = self.file.write_all_at(&word.to_le_bytes(), at as u64 * 8).err();
        }
    }
}

/// Makes the ledger of a machine. Its supervisor's node has the first core and its memory.
pub fn found(folder: &Folder, shared: &Shared) -> Result<(), Failure> {
    let path = folder.file(FILE);
    let units = |bytes: u64| (bytes / UNIT) as u32;
    let sizes = Sizes { cores: shared.cores, units: units(shared.memory), devices: 0 };
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
    let file = file.map_err(|error| cannot(&path, &error))?;
    let words = FileWords { file, words: vec![0; sizes.words()], failed: None };
    make_shared(folder, u64::from(sizes.units) * UNIT)?;
    file_of(&path, Ledger::found(words, sizes, &[0], units(OF_SUPERVISOR.0)))
}

/// Where memory is that domains share.
pub fn shared(folder: &Folder) -> PathBuf {
    folder.file(SHARED)
}

fn make_shared(folder: &Folder, bytes: u64) -> Result<(), Failure> {
    let path = shared(folder);
    let file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&path);
    file.and_then(|file| file.set_len(bytes)).map_err(|error| cannot(&path, &error))
}

/// Fills memory that domains have shared with zeros, and gives its room back.
pub fn zero_shared(folder: &Folder, extent: Extent) -> Result<(), Failure> {
    let path = shared(folder);
    let zero = || {
        let file = OpenOptions::new().write(true).open(&path)?;
        let (start, bytes) = (u64::from(extent.start) * UNIT, u64::from(extent.count) * UNIT);
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&file, flags, start, bytes))?;
        Ok(())
    };
    zero().map_err(|error: io::Error| cannot(&path, &error))
}

/// The last word may never have been stored: the file gets its whole length.
fn file_of(path: &Path, ledger: Ledger<FileWords>) -> Result<(), Failure> {
    let FileWords { file, words, failed } = ledger.into_words();
    let whole = failed.map_or_else(|| file.set_len(words.len() as u64 * 8), Err);
    whole.map_err(|error| cannot(path, &error))
}

/// Opens the ledger of a cluster with a supervisor.
pub fn open(folder: &Folder) -> Result<Ledger<FileWords>, Failure> {
    let path = folder.file(FILE);
    let read = || {
        let file = OpenOptions::new().read(true).write(true).open(&path)?;
        let mut bytes = vec![0; file.metadata()?.len() as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok((file, bytes))
    };
    let (file, bytes) = read().map_err(|error| cannot(&path, &error))?;
    let words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Ledger::open(FileWords { file, words, failed: None }).map_err(|damaged| {
        let down = advice::on(folder, "down", &[]);
        Failure::failed(format!("{}: {damaged}; end the cluster with `{down}`", path.display()))
    })
}

/// Fails if the file is not as the ledger is.
pub fn check(folder: &Folder, ledger: &Ledger<FileWords>) -> Result<(), Failure> {
    match &ledger.words().failed {
        None => Ok(()),
        Some(error) => Err(cannot(&folder.file(FILE), error)),
    }
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}
