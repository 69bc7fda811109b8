//! What records say of datasets. A manifest that is too long for one record goes on in the next; a
//! checkpoint has several short ones in one record.

use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};

use crate::bytes::{Reader, Writer};
use crate::manifest::{Block, LONGEST_NAME, Manifest, Name, Owner, Version};
use crate::record::{Kind, MOST_PAYLOAD, UNIT_PAYLOAD, log_bytes};
use crate::table::{Dataset, Key, State};

/// A block's place if it is not on this disk.
pub(crate) const NOWHERE: u32 = u32::MAX;

/// In place of the node of an owner: the record of a job.
const OF_JOB: u32 = u32::MAX;

/// In place of the node of an owner: the keepers of the name.
const OF_NAME: u32 = u32::MAX - 1;

/// Bytes of a manifest's head beside its name.
const HEAD_BYTES: usize = 1 + 8 + 4 + 4 + 4 + 1 + 1 + 4;

// A head and at least one block fit a record.
const _: () = assert!(HEAD_BYTES + LONGEST_NAME + 256 <= MOST_PAYLOAD);

/// Bytes of a block's row.
fn row_bytes(copies: u8) -> usize {
    12 + 4 * usize::from(copies)
}

/// Bytes of a whole manifest.
pub(crate) fn manifest_bytes(dataset: &Dataset) -> usize {
    let head = HEAD_BYTES + dataset.manifest.name.as_str().len();
    head + dataset.places.len() * row_bytes(dataset.manifest.copies())
}

/// Whether a manifest is one of those that share a record with others in a checkpoint.
pub(crate) fn is_short(dataset: &Dataset) -> bool {
    manifest_bytes(dataset) <= UNIT_PAYLOAD
}

/// Which blocks the `part`-th record of a dataset has; `None` after the last.
fn rows(dataset: &Dataset, part: usize) -> Option<core::ops::Range<usize>> {
    let row = row_bytes(dataset.manifest.copies());
    let head = HEAD_BYTES + dataset.manifest.name.as_str().len();
    let (first, each) = ((MOST_PAYLOAD - head) / row, MOST_PAYLOAD / row);
    let start = if part == 0 { 0 } else { first + (part - 1) * each };
    let end = first + part * each;
    let blocks = dataset.places.len();
    (part == 0 || start < blocks).then(|| start..end.min(blocks))
}

/// The `part`-th record of a dataset; `None` after the last.
pub(crate) fn payload(dataset: &Dataset, part: usize) -> Option<(Kind, Vec<u8>)> {
    let rows = rows(dataset, part)?;
    let mut writer = Writer::default();
    if part == 0 {
        write_head(&mut writer, dataset);
    }
    write_rows(&mut writer, dataset, rows);
    Some((if part == 0 { Kind::Manifest } else { Kind::Blocks }, writer.0))
}

/// Adds a whole manifest.
pub(crate) fn write_manifest(writer: &mut Writer, dataset: &Dataset) {
    write_head(writer, dataset);
    write_rows(writer, dataset, 0..dataset.places.len());
}

fn write_head(writer: &mut Writer, dataset: &Dataset) {
    let manifest = &dataset.manifest;
    write_key(writer, &manifest.name, manifest.version);
    let (node, detail) = match manifest.owner {
        Owner::Node { node, generation } => (node.0, generation.0),
        Owner::Job { keepers } => (OF_JOB, keepers),
        Owner::Name => (OF_NAME, 0),
    };
    writer.u32(node);
    writer.u32(detail);
    writer.u8(manifest.copies());
    writer.u8(dataset.state as u8);
    writer.u32(dataset.places.len() as u32);
}

fn write_rows(writer: &mut Writer, dataset: &Dataset, rows: core::ops::Range<usize>) {
    let manifest = &dataset.manifest;
    for at in rows {
        let block = manifest.blocks()[at];
        writer.u32(block.bytes);
        writer.u32(block.checksum);
        writer.u32(dataset.places[at]);
        manifest.holders(at).iter().for_each(|node| writer.u32(node.0));
    }
}

/// Bytes that a dataset takes in the log in records of its own.
pub(crate) fn dataset_bytes(dataset: &Dataset) -> u64 {
    let row = row_bytes(dataset.manifest.copies());
    let head = HEAD_BYTES + dataset.manifest.name.as_str().len();
    let parts = (0..).map_while(|part| Some((part, rows(dataset, part)?)));
    parts.map(|(part, rows)| log_bytes(rows.len() * row + if part == 0 { head } else { 0 })).sum()
}

/// The dataset whose head stands here, with those of its blocks that do; how many it will have; and
/// what is behind it.
pub(crate) fn read_manifest(payload: &[u8]) -> Option<(Dataset, u32, &[u8])> {
    let mut reader = Reader(payload);
    let (name, version) = read_key(&mut reader)?;
    let owner = match (reader.u32()?, reader.u32()?) {
        (OF_JOB, keepers) => Owner::Job { keepers },
        (OF_NAME, _) => Owner::Name,
        (node, generation) => {
            Owner::Node { node: NodeId(node), generation: Generation(generation) }
        }
    };
    let copies = reader.u8()?;
    let state = match reader.u8()? {
        1 => State::Prepared,
        2 => State::Committed,
        _ => return None,
    };
    let blocks = reader.u32()?;
    let manifest = Manifest::new(name, version, owner, copies)?;
    let mut dataset = Dataset { manifest, state, places: Vec::new() };
    let row = row_bytes(copies);
    let rows = (reader.0.len() / row).min(blocks as usize);
    let (own, behind) = reader.0.split_at_checked(rows * row)?;
    read_blocks(own, &mut dataset)?;
    // One that goes on in the next record fills its own.
    (rows == blocks as usize || behind.is_empty()).then_some((dataset, blocks, behind))
}

/// Adds the blocks of a record; `None` if they are not well-formed.
pub(crate) fn read_blocks(payload: &[u8], dataset: &mut Dataset) -> Option<()> {
    let copies = dataset.manifest.copies();
    let mut reader = Reader(payload);
    let mut holders = Vec::new();
    while !reader.0.is_empty() {
        let block = Block { bytes: reader.u32()?, checksum: reader.u32()? };
        let place = reader.u32()?;
        holders.clear();
        for _ in 0..copies {
            holders.push(NodeId(reader.u32()?));
        }
        dataset.manifest.push(block, &holders).then_some(())?;
        dataset.places.push(place);
    }
    Some(())
}

/// What a record says that only names a dataset.
pub(crate) fn key_payload(key: &Key) -> Vec<u8> {
    let mut writer = Writer::default();
    write_key(&mut writer, &key.0, key.1);
    writer.0
}

/// The reverse of [`key_payload`].
pub(crate) fn read_key_payload(payload: &[u8]) -> Option<Key> {
    let mut reader = Reader(payload);
    let key = read_key(&mut reader)?;
    reader.end(key)
}

fn write_key(writer: &mut Writer, name: &Name, version: Version) {
    writer.text(name.as_str());
    writer.u64(version.epoch.0);
    writer.u32(version.attempt.0);
}

fn read_key(reader: &mut Reader<'_>) -> Option<Key> {
    let name = Name::new(reader.text()?)?;
    Some((name, Version::new(reader.u64()?, reader.u32()?)))
}
