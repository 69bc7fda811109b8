//! A checkpoint: all that a table has, written to an empty half of the log, and how much of it that
//! takes. Long manifests have records of their own; short ones share records, and so do notes.

use alloc::vec::Vec;

use nile_ipioe::checksum::Checksum;

use crate::bytes::Writer;
use crate::entry;
use crate::extent::{Extent, Step, UNIT};
use crate::log::Log;
use crate::manifest::Name;
use crate::note;
use crate::record::{HEADER_BYTES, Kind, MOST_PAYLOAD, UNIT_PAYLOAD, log_bytes};
use crate::table::{Dataset, Key, Table};

/// Bytes of what a checkpoint has, by how they are put into records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Sizes {
    /// Records of long manifests, in whole units.
    long: u64,
    /// Short manifests.
    short: u64,
    /// Notes.
    notes: u64,
}

impl Sizes {
    pub fn add(&mut self, dataset: &Dataset) {
        let (sum, bytes) = self.of(dataset);
        *sum += bytes;
    }

    pub fn remove(&mut self, dataset: &Dataset) {
        let (sum, bytes) = self.of(dataset);
        *sum -= bytes;
    }

    fn of(&mut self, dataset: &Dataset) -> (&mut u64, u64) {
        match entry::is_short(dataset) {
            true => (&mut self.short, entry::manifest_bytes(dataset) as u64),
            false => (&mut self.long, entry::dataset_bytes(dataset)),
        }
    }

    /// A note gets another value; an empty one is none.
    pub fn note(&mut self, key: &Name, old: &[u8], new: &[u8]) {
        let bytes = |value: &[u8]| match value {
            [] => 0,
            value => note::bytes(key, value) as u64,
        };
        self.notes = self.notes + bytes(new) - bytes(old);
    }

    /// The most bytes of log that a checkpoint takes, without its seal.
    pub fn log_bytes(&self) -> u64 {
        self.long + shared(self.short, UNIT_PAYLOAD) + shared(self.notes, note::MOST_IN_RECORD)
    }
}

/// The most bytes of log for records that are filled with things of at most `longest` bytes, which
/// have `bytes` together.
fn shared(bytes: u64, longest: usize) -> u64 {
    if bytes == 0 {
        return 0;
    }
    if bytes <= MOST_PAYLOAD as u64 {
        return log_bytes(bytes as usize);
    }
    // What had no room is longer than what was left.
    let least = (MOST_PAYLOAD - longest + 1) as u64;
    (bytes + bytes.div_ceil(least) * (HEADER_BYTES as u64 + UNIT - 1)).next_multiple_of(UNIT)
}

/// One that is being written.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    /// Where it goes.
    pub log: Log,
    /// The datasets that are left, the next one last: those with short manifests come at the end.
    left: Vec<Key>,
    /// The next record of the long manifest that is being written.
    part: usize,
    /// The last note that was written.
    noted: Option<Name>,
    is_sealed: bool,
}

impl Checkpoint {
    /// One of a table, into the half that is not used by `generation`.
    pub fn begin(
        extent: &Extent,
        generation: u64,
        checksum: Checksum,
        table: &Table,
    ) -> Checkpoint {
        let log = Log::begin(extent, generation + 1, checksum);
        let (mut left, long): (Vec<&Dataset>, Vec<&Dataset>) =
            table.datasets().partition(|dataset| entry::is_short(dataset));
        left.reverse();
        left.extend(long.into_iter().rev());
        let left = left.into_iter().map(Dataset::key).collect();
        Checkpoint { log, left, part: 0, noted: None, is_sealed: false }
    }

    /// The next record; `None` when all are written.
    pub fn record(&mut self, table: &Table) -> Option<Step> {
        let record = self.long(table).or_else(|| self.short(table));
        let (kind, payload) = match record.or_else(|| self.notes(table)) {
            Some(record) => record,
            None if self.is_sealed => return None,
            None => (Kind::Sealed, Vec::new()),
        };
        self.is_sealed = kind == Kind::Sealed;
        Some(self.log.append(kind, &payload))
    }

    fn long(&mut self, table: &Table) -> Option<(Kind, Vec<u8>)> {
        while let Some(dataset) = self.left.last().and_then(|key| table.get(key)) {
            if entry::is_short(dataset) {
                return None;
            }
            if let Some(record) = entry::payload(dataset, self.part) {
                self.part += 1;
                return Some(record);
            }
            self.left.pop();
            self.part = 0;
        }
        None
    }

    fn short(&mut self, table: &Table) -> Option<(Kind, Vec<u8>)> {
        let mut writer = Writer::default();
        while let Some(dataset) = self.left.last().and_then(|key| table.get(key))
            && writer.0.len() + entry::manifest_bytes(dataset) <= MOST_PAYLOAD
        {
            entry::write_manifest(&mut writer, dataset);
            self.left.pop();
        }
        (!writer.0.is_empty()).then_some((Kind::Manifest, writer.0))
    }

    fn notes(&mut self, table: &Table) -> Option<(Kind, Vec<u8>)> {
        let left = table.notes_after(self.noted.as_ref());
        let (payload, last) = note::payload(left, MOST_PAYLOAD);
        self.noted = Some(last?.clone());
        Some((Kind::Notes, payload))
    }
}
