//! A record of the log: a header that ties it to its place, and a payload. Each begins at a unit
//! of its own, so that a later write can never damage it.

use alloc::vec::Vec;

use nile_ipioe::checksum::Checksum;

use crate::bytes::{Reader, Writer};
use crate::extent::{UNIT, whole_units};

/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 48;

/// The longest record, header included: what recovery reads at a time.
pub(crate) const MOST_RECORD: usize = 64 << 10;

/// The longest payload.
pub(crate) const MOST_PAYLOAD: usize = MOST_RECORD - HEADER_BYTES;

/// The longest payload of a record that takes one unit.
pub(crate) const UNIT_PAYLOAD: usize = UNIT as usize - HEADER_BYTES;

/// "NSR1": a record of a NileOS store, first format.
const MAGIC: u32 = u32::from_le_bytes(*b"NSR1");

/// What a payload is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Manifests, each a head and its blocks; the last one may go on in the next record.
    Manifest = 1,
    /// More blocks of the manifest before.
    Blocks = 2,
    /// A prepared dataset is committed.
    Commit = 3,
    /// A dataset is removed.
    Remove = 4,
    /// The checkpoint that a half begins with is whole.
    Sealed = 5,
    /// Notes, each a key and its value.
    Notes = 6,
}

impl Kind {
    fn from_u32(value: u32) -> Option<Kind> {
        use Kind::{Blocks, Commit, Manifest, Notes, Remove, Sealed};
        [Manifest, Blocks, Commit, Remove, Sealed, Notes].into_iter().find(|it| *it as u32 == value)
    }
}

/// Where a record belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The extent's.
    pub identity: u64,
    /// Counts how often a log was begun in either half.
    pub generation: u64,
    /// Which record of its half, from zero.
    pub index: u32,
    /// How many records of its half were durable when it was written.
    pub durable: u32,
    /// The checksum of the record before; zero for the first.
    pub previous: u32,
}

/// A record whose checksum holds.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    pub header: Header,
    pub kind: Kind,
    pub payload: &'a [u8],
    /// Its own.
    pub checksum: u32,
}

/// What there is where a record might begin.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    /// A record.
    Record(Record<'a>),
    /// Nothing that holds.
    Nothing,
    /// Perhaps a record that goes on where `bytes` end.
    Longer,
}

/// Bytes that a payload takes in the log.
pub(crate) fn log_bytes(payload: usize) -> u64 {
    whole_units((HEADER_BYTES + payload) as u64) * UNIT
}

impl Header {
    /// The record with its checksum, padded to whole units.
    pub fn write(&self, kind: Kind, payload: &[u8], checksum: Checksum) -> (Vec<u8>, u32) {
        let length = HEADER_BYTES + payload.len();
        let mut record = Writer(Vec::with_capacity(log_bytes(payload.len()) as usize));
        record.u32(MAGIC);
        record.u32(0);
        record.u64(self.identity);
        record.u64(self.generation);
        record.u32(self.index);
        record.u32(self.durable);
        record.u32(self.previous);
        record.u32(length as u32);
        record.u32(kind as u32);
        record.u32(0);
        record.0.extend_from_slice(payload);
        let mut bytes = record.0;
        let sum = checksum(0, &bytes[8..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes.resize(log_bytes(payload.len()) as usize, 0);
        (bytes, sum)
    }
}

impl<'a> Record<'a> {
    /// The record of the extent `identity` that begins where `bytes` do.
    pub fn find(bytes: &'a [u8], identity: u64, checksum: Checksum) -> Found<'a> {
        let Some((header, kind, sum, length)) = head(bytes) else { return Found::Nothing };
        if header.identity != identity || !(HEADER_BYTES..=MOST_RECORD).contains(&length) {
            return Found::Nothing;
        }
        let Some(record) = bytes.get(..length) else { return Found::Longer };
        if checksum(0, &record[8..]) != sum {
            return Found::Nothing;
        }
        Found::Record(Record { header, kind, payload: &record[HEADER_BYTES..], checksum: sum })
    }

    /// Bytes that it takes in the log.
    pub fn log_bytes(&self) -> usize {
        log_bytes(self.payload.len()) as usize
    }
}

fn head(bytes: &[u8]) -> Option<(Header, Kind, u32, usize)> {
    let mut reader = Reader(bytes);
    if reader.u32()? != MAGIC {
        return None;
    }
    let sum = reader.u32()?;
    let (identity, generation) = (reader.u64()?, reader.u64()?);
    let (index, durable, previous) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let length = reader.u32()? as usize;
    let kind = Kind::from_u32(reader.u32()?)?;
    let header = Header { identity, generation, index, durable, previous };
    Some((header, kind, sum, length))
}
