//! The file beneath a disk: found or made when the node starts, and locked as long as it runs.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use nile_platform::disk::Description;
use rustix::fs::FlockOperation;

use super::ring;

/// Bytes of a sector: what Linux's own disks have at least.
const SECTOR: u32 = 512;

/// A disk that a node is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskFile {
    /// The file or block device.
    pub path: PathBuf,
    /// Its bytes, if it is to be made where it is not there yet; one that is there keeps its own.
    pub bytes: Option<u64>,
    /// Whether to do without io_uring where it could be used.
    pub plain: bool,
    /// Whether what it holds is gone anyway once this machine has stopped. The node's end, however
    /// sudden, loses nothing of it; but nobody waits until the device has it.
    pub passing: bool,
}

/// A disk that the node has.
pub struct Opened {
    pub(super) file: File,
    pub(super) description: Description,
    /// Whether io_uring is used.
    pub(super) by_ring: bool,
    pub(super) passing: bool,
}

impl DiskFile {
    /// Opens the file for this node alone. The error says what is wrong with it.
    pub(crate) fn open(&self) -> Result<Opened, String> {
        let said = |error: &dyn fmt::Display| format!("{}: {error}", self.path.display());
        let made = self.bytes.is_some();
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(made).mode(0o600);
        let mut file = options.open(&self.path);
        let file = file.as_mut().map_err(|error| said(error))?;
        match rustix::fs::flock(&*file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(said(&"another node has this disk")),
            Err(error) => return Err(said(&error)),
        }
        let measured = self.measure(file).map_err(|error| said(&error))?;
        let bytes = measured - measured % u64::from(SECTOR);
        if bytes == 0 {
            return Err(said(&"it is shorter than a sector; give the disk a size"));
        }
        let metadata = file.metadata().map_err(|error| said(&error))?;
        let description = Description {
            name: self.path.display().to_string(),
            serial: format!("{:x}-{:x}", metadata.dev(), metadata.ino()),
            bytes,
            sector_bytes: SECTOR,
        };
        let file = file.try_clone().map_err(|error| said(&error))?;
        let by_ring = !self.plain && ring::is_allowed();
        Ok(Opened { file, description, by_ring, passing: self.passing })
    }

    /// The file's bytes; one that is empty gets those that were asked for.
    fn measure(&self, file: &mut File) -> io::Result<u64> {
        match (file.seek(SeekFrom::End(0))?, self.bytes) {
            (0, Some(bytes)) => file.set_len(bytes).map(|()| bytes),
            (there, _) => Ok(there),
        }
    }
}

/// As the boot report has it.
impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Description { name, bytes, .. } = &self.description;
        let way = if self.by_ring { "io_uring" } else { "plain calls" };
        write!(f, "{name}, {} MiB, by {way}", bytes >> 20)
    }
}
