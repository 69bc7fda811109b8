//! What fits a log: a checkpoint never takes more of it than was reckoned with.

use alloc::format;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::disk::Disk;
use super::{NODE, OWNER, formatted, mount, name, settle, small};
use crate::{Error, Extent, LONGEST_NOTE, Store, UNIT, Version};

/// Puts a dataset of `blocks` blocks, which count as written.
fn put(store: &mut Store, disk: &mut Disk, called: &str, blocks: u32) -> Result<(), Error> {
    let draft = store.create(name(called), Version::new(1, 0), OWNER).expect("a draft");
    for at in 0..blocks {
        store.reserve(draft, at, 100).expect("space");
        store.written(draft, at, at).expect("it is reserved");
    }
    let manifest = store.manifest(draft, &[NODE]).expect("all is written");
    store.commit_alone(draft, manifest).expect("a ticket");
    settle(store, disk).pop().expect("an end").1
}

#[test]
fn a_disk_of_a_gibibyte_has_room_for_thousands() {
    let extent = Extent::new(crate::label::LABEL_BYTES, (1 << 30) - 8192, 77).expect("an extent");
    let mut disk = formatted(&extent);
    let mut store = mount(&disk, &extent).expect("an empty store");
    settle(&mut store, &mut disk);
    let called = |at: usize| format!("a dataset with a name of usual length/{at}");
    for at in 0..5_000 {
        assert_eq!(put(&mut store, &mut disk, &called(at), 1), Ok(()), "{at}");
    }
    let mut store = mount(&disk, &extent).expect("a store");
    settle(&mut store, &mut disk);
    let mut found = store.datasets().map(|it| (it.blocks_here(), it.manifest.bytes()));
    assert!(found.by_ref().all(|it| it == (1, 100)));
    assert_eq!(store.datasets().count(), 5_000);
    assert!(store.space().log_free > store.space().log / 2, "{:?}", store.space());
}

#[test]
fn the_smallest_log_of_a_disk_has_room_for_thousands() {
    let extent = Extent::new(crate::label::LABEL_BYTES, 64 << 20, 77).expect("an extent");
    assert_eq!(extent.log_bytes, 64 * UNIT);
    let mut disk = formatted(&extent);
    let mut store = mount(&disk, &extent).expect("an empty store");
    settle(&mut store, &mut disk);
    let most = (0..).take_while(|at| put(&mut store, &mut disk, &format!("set/{at}"), 1).is_ok());
    let most = most.count();
    assert!(most > 3_000, "{most}");
    let store = mount(&disk, &extent).expect("a store");
    assert_eq!(store.datasets().count(), most);
}

proptest! {
    /// Names, manifests and notes of all lengths, until the log is full.
    #[test]
    fn a_checkpoint_takes_no_more_than_was_reckoned_with(
        things in prop::collection::vec(
            (1usize..=128, any::<bool>(), 0u32..600, 0usize..=LONGEST_NOTE), 1..80,
        ),
        log_units in 10u64..80,
    ) {
        let extent = small(log_units, 1 << 16);
        let mut disk = formatted(&extent);
        let mut store = mount(&disk, &extent).expect("an empty store");
        settle(&mut store, &mut disk);
        let mut there = Vec::new();
        for (at, (length, is_note, blocks, value)) in things.into_iter().enumerate() {
            let called = format!("{at:0>width$}", width = length.max(3));
            let done = if is_note {
                store.note(name(&called), &alloc::vec![1; value]).expect("a ticket");
                settle(&mut store, &mut disk).pop().expect("an end").1
            } else {
                put(&mut store, &mut disk, &called, blocks)
            };
            match done {
                Ok(()) if is_note => there.extend((value > 0).then_some(called)),
                Ok(()) => there.push(called),
                Err(error) => prop_assert!(matches!(error, Error::CatalogueFull { .. }), "{error}"),
            }
        }
        let mut again = mount(&disk, &extent).expect("a store");
        settle(&mut again, &mut disk);
        prop_assert_eq!(again.table.sizes(), store.table.sizes());
        let taken = extent.log_bytes - again.log.room();
        let reckoned = again.table.sizes().log_bytes() + UNIT;
        prop_assert!(taken <= reckoned && reckoned <= extent.log_bytes, "{taken} of {reckoned}");
        let datasets = again.datasets().map(|it| it.manifest.name.as_str());
        let mut found: Vec<&str> = datasets.chain(again.notes().map(|it| it.0.as_str())).collect();
        found.sort_unstable();
        there.sort_unstable();
        prop_assert_eq!(found, there);
    }
}
