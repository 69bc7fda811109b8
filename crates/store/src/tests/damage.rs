//! Disks that change what they had kept: it is noticed, or it does not matter, and never a panic.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::disk::Disk;
use super::{NODE, OWNER, formatted, mount, name, settle, small};
use crate::{Extent, MountError, Store, UNIT, Version};

/// A store with three datasets, the last of them committed behind its checkpoint.
fn filled() -> (Extent, Disk, Vec<Version>) {
    let extent = small(12, 16);
    let mut disk = formatted(&extent);
    let mut store = mount(&disk, &extent).expect("an empty store");
    for epoch in 1..4 {
        let called = name(["x", "y", "z"][epoch as usize - 1]);
        let draft = store.create(called, Version::new(epoch, 0), OWNER).expect("a draft");
        store.reserve(draft, 0, 5000).expect("space");
        store.written(draft, 0, 9).expect("it is reserved");
        let manifest = store.manifest(draft, &[NODE]).expect("all is written");
        store.commit_alone(draft, manifest).expect("a ticket");
        settle(&mut store, &mut disk);
    }
    (extent, disk, versions(&store))
}

fn versions(store: &Store) -> Vec<Version> {
    store.datasets().map(|it| it.manifest.version).collect()
}

#[test]
fn a_lost_record_is_no_end_of_the_log() {
    let (extent, disk, all) = filled();
    // The second half: a seal, then a record for each dataset.
    let log = extent.start + extent.log_bytes;
    for (record, expected) in [
        (0, Err(MountError::Lost { index: 0 })),
        (1, Err(MountError::Lost { index: 1 })),
        (2, Err(MountError::Lost { index: 2 })),
        // Only the last can be missing without a trace, as if power had failed before its flush.
        (3, Ok(all[..2].to_vec())),
    ] {
        let mut disk = disk.clone();
        disk.flip(log + record * UNIT + 30, 3);
        let found = mount(&disk, &extent).map(|store| versions(&store));
        assert_eq!(found, expected, "record {record}");
    }
}

#[test]
fn every_bit_of_a_record_counts() {
    let (extent, disk, all) = filled();
    for bit in 0..48 * 8 {
        let mut disk = disk.clone();
        disk.flip(extent.start + extent.log_bytes + 2 * UNIT + bit / 8, (bit % 8) as u8);
        let found = mount(&disk, &extent).map(|store| versions(&store));
        assert_ne!(found.as_ref(), Ok(&all), "bit {bit}");
    }
}

proptest! {
    /// Headers, checksums and payloads that fit, in any order and with any content.
    #[test]
    fn any_log_is_a_store_or_an_error(
        records in prop::collection::vec(
            (0u32..4, 1u64..4, 1u32..7, prop::collection::vec(any::<u8>(), 0..90)), 0..12,
        ),
        flips in prop::collection::vec((0u64..24 * UNIT, 0u8..8), 0..4),
    ) {
        let (extent, mut disk, _) = filled();
        for (at, bit) in flips {
            disk.flip(extent.start + at, bit);
        }
        let mut previous = 0;
        for (at, (index, generation, kind, payload)) in records.into_iter().enumerate() {
            use crate::record::{Header, Kind};
            let kinds = [
                Kind::Manifest, Kind::Blocks, Kind::Commit, Kind::Remove, Kind::Sealed, Kind::Notes,
            ];
            let index = if index == 0 { at as u32 } else { index };
            let header = Header { identity: 77, generation, index, durable: 0, previous };
            let kind = kinds[kind as usize - 1];
            let (bytes, sum) = header.write(kind, &payload, crc32c::crc32c_append);
            previous = sum;
            disk.write(extent.start + at as u64 * UNIT, &bytes);
        }
        if let Ok(mut store) = mount(&disk, &extent) {
            let before = versions(&store);
            settle(&mut store, &mut disk);
            let again = mount(&disk, &extent).expect("what it wrote itself");
            prop_assert_eq!(versions(&again), before);
        }
    }
}
