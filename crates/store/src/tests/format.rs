//! The bytes as docs/store.md has them, written by hand.

use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};

use super::{disk::Disk, mount, name};
use crate::{Block, Label, State, UNIT, Version};

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
    let mut rest = words(&[2]);
    rest.extend(5_u64.to_le_bytes());
    rest.extend(words(&[1]));
    for number in [2 * UNIT, 38 * UNIT, 8 * UNIT, 0x1234] {
        rest.extend(number.to_le_bytes());
    }
    rest.extend(b"\x04data");
    rest.resize(UNIT as usize - 12, 0);
    let mut label = b"NILEDISK".to_vec();
    label.extend(crc32c::crc32c(&rest).to_le_bytes());
    label.extend(rest);
    // Sequence 5: the second unit.
    disk.write(UNIT, &label);

    // Generation 6: the second half. Two datasets, one of which is in two records, then a seal.
    let mut at = (2 + 8) * UNIT;
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
    add(3, 5, &[]);
    add(4, 3, &key("first"));
    add(5, 4, &key("second"));

    let label = disk.read(0, 2 * UNIT as usize);
    let label = Label::read(&label, 40 * UNIT, crc32c::crc32c_append).expect("a label");
    let extent = label.find("data").expect("an extent");
    let store = mount(&disk, extent).expect("a store");
    assert_eq!(store.datasets().count(), 1);
    let dataset = store.get(&name("first"), Version::new(9, 2)).expect("it is there");
    let manifest = &dataset.manifest;
    assert_eq!((dataset.state, manifest.bytes(), manifest.copies()), (State::Committed, 5070, 2));
    assert_eq!((manifest.owner.node, manifest.owner.generation), (NodeId(1), Generation(7)));
    assert_eq!(manifest.blocks()[1].checksum, 0xdef);
    assert_eq!(manifest.holders(1), [NodeId(4), NodeId(5)]);
    let range = dataset.range(extent, 0).expect("it is here");
    assert_eq!((range.at, range.bytes), ((2 + 16 + 3) * UNIT, 2 * UNIT));
    assert_eq!(dataset.range(extent, 1), None);
}
