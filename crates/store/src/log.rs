//! One half of the log while it is written: where the next record goes, and what it must say.

use nile_ipioe::checksum::Checksum;

use crate::extent::{Extent, Step};
use crate::record::{Header, Kind};

/// The half that is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    checksum: Checksum,
    /// Where this half begins on the disk.
    start: u64,
    /// Its length.
    bytes: u64,
    /// How much of it is used.
    used: u64,
    /// Of the next record.
    header: Header,
}

impl Log {
    /// An empty log of a generation; those with odd numbers are in the first half.
    pub fn begin(extent: &Extent, generation: u64, checksum: Checksum) -> Log {
        let start = extent.start + if generation % 2 == 1 { 0 } else { extent.log_bytes };
        let identity = extent.identity;
        let header = Header { identity, generation, index: 0, durable: 0, previous: 0 };
        Log { checksum, start, bytes: extent.log_bytes, used: 0, header }
    }

    pub fn generation(&self) -> u64 {
        self.header.generation
    }

    /// Bytes that are free.
    pub fn room(&self) -> u64 {
        self.bytes - self.used
    }

    /// Writes a record; the caller has seen that there is room.
    pub fn append(&mut self, kind: Kind, payload: &[u8]) -> Step {
        let (bytes, sum) = self.header.write(kind, payload, self.checksum);
        let at = self.start + self.used;
        self.used += bytes.len() as u64;
        self.header.index += 1;
        self.header.previous = sum;
        Step::Write { at, bytes }
    }

    /// Everything written is durable.
    pub fn flushed(&mut self) {
        self.header.durable = self.header.index;
    }
}
