//! The bytes as docs/store.md has them, written by hand.

use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};

use super::{disk::Disk, mount, name};
use crate::{Block, Home, Label, LabelError, Owner, State, UNIT, Version};

const HOME: Home = Home { cluster: 0xabc, node: NodeId(7) };

/// A record whose payload is `payload`.
fn record(generation: u64, index: u32, previous: u32, kind: u32, payload: &[u8]) -> (Vec<u8>, u32) {
    let mut rest = Vec::new();
    rest.extend(0x1234_u64.to_le_bytes());
    rest.extend(generation.to_le_bytes());
    let length = 48 + payload.len() as u32;
    for word in [index, 0, previous, length, kind, 0] {
        rest.extend(word.to_le_bytes());
    }
    rest.extend(payload);
    let sum = crc32c::crc32c(&rest);
    let mut bytes = b"NSR1".to_vec();
    bytes.extend(sum.to_le_bytes());
    bytes.extend(rest);
    bytes.resize(bytes.len().next_multiple_of(UNIT as usize), 0);
    (bytes, sum)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn key(called: &str) -> Vec<u8> {
    let mut key = Vec::from([called.len() as u8]);
    key.extend(called.as_bytes());
    key.extend(9_u64.to_le_bytes());
    key.extend(words(&[2]));
    key
}

/// A label of sequence 5 with one extent.
fn label(version: u32) -> Vec<u8> {
    let mut rest = words(&[version]);
    rest.extend(5_u64.to_le_bytes());
    if version > 3 {
        rest.extend(0xabc_u64.to_le_bytes());
        rest.extend(words(&[7, 0, 0, 0]));
    }
    rest.extend(words(&[1]));
    for number in [2 * UNIT, 38 * UNIT, 10 * UNIT, 0x1234] {
        rest.extend(number.to_le_bytes());
    }
    rest.extend(b"\x04data");
    rest.resize(UNIT as usize - 12, 0);
    let mut label = b"NILEDISK".to_vec();
    label.extend(crc32c::crc32c(&rest).to_le_bytes());
    label.extend(rest);
    label
}

fn read_label(disk: &Disk) -> Result<Label, LabelError> {
    Label::read(&disk.read(0, 2 * UNIT as usize), 40 * UNIT, crc32c::crc32c_append)
}

#[test]
fn the_checksum_of_a_block_is_rapidhash() {
    // Worked out from the algorithm's definition; the longer one is more than it takes in a step.
    let long: Vec<u8> = (0..1000).map(|at| (at * 7 % 251) as u8).collect();
    for (bytes, sum) in [(&b"123456789"[..], 0x96b9_16a1), (&long[..], 0x4095_67cc)] {
        let block = Block::of(bytes);
        assert_eq!(block, Block { bytes: bytes.len() as u32, checksum: sum });
        assert!(block.holds(bytes) && !block.holds(&bytes[1..]));
        let mut other = bytes.to_vec();
        other[bytes.len() / 2] ^= 1;
        assert!(!block.holds(&other));
    }
}

#[test]
fn a_disk_that_was_written_by_the_specification_is_read() {
    let mut disk = Disk::new(40 * UNIT);
    // Sequence 5: the second unit.
    disk.write(UNIT, &label(4));

    // Generation 6: the second half. Two datasets, one of which is in two records, then two in one
    // record, notes, and a seal.
    let mut at = (2 + 10) * UNIT;
    let mut before = 0;
    let mut add = |index, kind, payload: &[u8]| {
        let (bytes, sum) = record(6, index, before, kind, payload);
        disk.write(at, &bytes);
        at += bytes.len() as u64;
        before = sum;
    };
    let mut first = key("first");
    first.extend(words(&[1, 7]));
    first.extend([2, 1]);
    first.extend(words(&[2]));
    first.extend(words(&[5000, 0xabc, 3, 1, 4]));
    add(0, 1, &first);
    add(1, 2, &words(&[70, 0xdef, u32::MAX, 4, 5]));
    let mut second = key("second");
    second.extend(words(&[1, 7]));
    second.extend([1, 2]);
    second.extend(words(&[0]));
    add(2, 1, &second);
    let mut both = Vec::new();
    for (called, place) in [("third", 0), ("fourth", 1)] {
        both.extend(key(called));
        both.extend(words(&[1, 7]));
        both.extend([1, 2]);
        both.extend(words(&[1, 100, 0xaaa, place, 1]));
    }
    add(3, 1, &both);
    add(4, 6, b"\x01a\x03\0one\x02bc\x01\0x");
    add(5, 5, &[]);
    add(6, 3, &key("first"));
    add(7, 4, &key("second"));
    add(8, 6, b"\x01a\0\0\x01b\x03\0two");
    add(9, 4, &key("third"));

    let mut label = read_label(&disk).expect("a label");
    assert_eq!(label.take(HOME, None, false), Ok(()));
    assert!(label.renew(crc32c::crc32c_append).is_empty(), "it is new");
    let extent = label.find("data").expect("an extent");
    let store = mount(&disk, extent).expect("a store");
    let names: Vec<&str> = store.datasets().map(|it| it.manifest.name.as_str()).collect();
    assert_eq!(names, ["first", "fourth"]);
    let notes: Vec<_> = store.notes().map(|(key, value)| (key.as_str(), value)).collect();
    assert_eq!(notes, [("b", &b"two"[..]), ("bc", b"x")]);
    let dataset = store.get(&name("first"), Version::new(9, 2)).expect("it is there");
    let manifest = &dataset.manifest;
    assert_eq!((dataset.state, manifest.bytes(), manifest.copies()), (State::Committed, 5070, 2));
    let of_node = Owner::Node { node: NodeId(1), generation: Generation(7) };
    assert_eq!(manifest.owner, of_node);
    assert_eq!(manifest.blocks()[1].checksum, 0xdef);
    assert_eq!(manifest.holders(1), [NodeId(4), NodeId(5)]);
    let range = dataset.range(extent, 0).expect("it is here");
    assert_eq!((range.at, range.bytes), ((2 + 20 + 3) * UNIT, 2 * UNIT));
    assert_eq!(dataset.range(extent, 1), None);
}

#[test]
fn a_disk_of_a_version_before_is_read_and_becomes_new() {
    [2, 3].into_iter().for_each(is_read_and_becomes_new);
}

fn is_read_and_becomes_new(version: u32) {
    let mut disk = Disk::new(40 * UNIT);
    disk.write(UNIT, &label(version));
    let mut second = key("second");
    second.extend(words(&[1, 7]));
    second.extend([1, 2]);
    second.extend(words(&[0]));
    let (manifest, sum) = record(5, 0, 0, 1, &second);
    disk.write(2 * UNIT, &manifest);
    disk.write(3 * UNIT, &record(5, 1, sum, 5, &[]).0);

    let mut label = read_label(&disk).expect("a label");
    let extent = *label.find("data").expect("an extent");
    assert_eq!(mount(&disk, &extent).expect("a store").datasets().count(), 1);
    assert_eq!(label.take(HOME, Some(9), false), Ok(()), "it is of who opens it first, and plain");
    let steps = label.renew(crc32c::crc32c_append);
    for (done, step) in steps.iter().enumerate() {
        let mut after = read_label(&disk).expect("it holds at every step");
        let is_new = after.renew(crc32c::crc32c_append).is_empty();
        assert_eq!(is_new, done > 2, "after {done} steps");
        disk.step(step);
    }
    let mut label = read_label(&disk).expect("a label");
    assert_eq!(label.find("data"), Some(&extent));
    assert!(label.renew(crc32c::crc32c_append).is_empty());
    assert!(!label.is_sealed());
    let own = Home { node: NodeId(8), ..HOME };
    assert_eq!(label.take(own, None, false), Err(LabelError::Home { disk: HOME, own }));
    // Nothing of it is left that those would read who know only that.
    let versions = [0, UNIT].map(|at| disk.read(at + 12, 4));
    assert_eq!(versions, [4, 4].map(|it: u32| it.to_le_bytes().to_vec()));
}
