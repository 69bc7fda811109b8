//! What a store refuses, and what it does with large manifests, full disks and disks that fail.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use nile_abi::NodeId;

use super::disk::Disk;
use super::{NODE, OWNER, formatted, mount, name, settle, small};
use crate::manifest::LONGEST_BLOCK;
use crate::{
    Action, Block, DiskFailed, DraftId, Error, Extent, Manifest, MountError, Range, State, Step,
    Store, UNIT, Version,
};

const FIRST: Version = Version { epoch: crate::Epoch(1), attempt: crate::Attempt(0) };

fn new(log_units: u64, data_units: u64) -> (Extent, Disk, Store) {
    let extent = small(log_units, data_units);
    let mut disk = formatted(&extent);
    let mut store = mount(&disk, &extent).expect("an empty store");
    assert!(settle(&mut store, &mut disk).is_empty());
    (extent, disk, store)
}

/// A draft with blocks of these lengths, which count as written.
fn draft(store: &mut Store, called: &str, lengths: &[u32]) -> (DraftId, Manifest) {
    let draft = store.create(name(called), FIRST, OWNER).expect("a draft");
    for (at, bytes) in (0..).zip(lengths) {
        store.reserve(draft, at, *bytes).expect("space");
        store.written(draft, at, at * 7).expect("it is reserved");
    }
    let manifest = store.manifest(draft, &[NODE]).expect("all is written");
    (draft, manifest)
}

#[test]
fn a_full_disk_says_what_is_wanted_and_free() {
    let (_, mut disk, mut store) = new(10, 8);
    let one = store.create(name("one"), FIRST, OWNER).expect("a draft");
    let range = store.reserve(one, 0, 3 * UNIT as u32 - 1).expect("space");
    assert_eq!((range.bytes, range.at % UNIT), (3 * UNIT, 0));
    let full = Error::Full { wanted: 6 * UNIT, free: 5 * UNIT };
    assert_eq!(store.reserve(one, 1, 6 * UNIT as u32), Err(full));
    // Asked again for what it has, it gives the same; another length is an error.
    assert_eq!(store.reserve(one, 0, 3 * UNIT as u32 - 1), Ok(range));
    assert_eq!(store.reserve(one, 0, 5), Err(Error::BadBlock));
    assert_eq!(store.reserve(one, 1, 0), Err(Error::BadBlock));
    assert_eq!(store.reserve(one, 1, LONGEST_BLOCK + 1), Err(Error::BadBlock));
    // What was not written is not committed, and a draft that is given up leaves nothing.
    assert_eq!(store.manifest(one, &[NODE]), Err(Error::Mismatch { block: 0 }));
    store.written(one, 0, 1).expect("it is reserved");
    for nodes in [&[NODE; 0][..], &[NODE; 2], &[NODE; 300]] {
        assert_eq!(store.manifest(one, nodes), Err(Error::BadCopies));
    }
    store.abort(one);
    assert_eq!(store.space().free, 8 * UNIT);
    assert_eq!(store.reserve(one, 0, 1), Err(Error::NoDraft));
    assert!(settle(&mut store, &mut disk).is_empty() && store.datasets().next().is_none());
}

#[test]
fn the_last_units_are_left_to_records() {
    let (_, _, mut store) = new(10, 128);
    let data = store.create(name("data"), FIRST, OWNER).expect("a draft");
    store.reserve(data, 0, 100 * UNIT as u32).expect("space");
    let full = Error::Full { wanted: 27 * UNIT, free: 26 * UNIT };
    assert_eq!(store.reserve(data, 1, 27 * UNIT as u32), Err(full));
    store.reserve(data, 1, 26 * UNIT as u32).expect("space");
    assert_eq!(store.space().free, 2 * UNIT);
    let full = Error::Full { wanted: UNIT, free: 0 };
    assert_eq!(store.reserve(data, 2, 1), Err(full));
    let record = store.create(name(".jobs/7"), FIRST, OWNER).expect("a draft");
    store.reserve(record, 0, 2 * UNIT as u32).expect("space");
    assert_eq!(store.reserve(record, 1, 1), Err(full));
    store.abort(data);
    store.abort(record);
    assert_eq!(store.space().free, 128 * UNIT);
}

#[test]
fn the_last_of_a_log_is_left_to_records() {
    let (_, mut disk, mut store) = new(64, 8);
    let space = store.space();
    let mut put = |called: &str, epoch| {
        let version = Version { epoch: crate::Epoch(epoch), attempt: crate::Attempt(0) };
        let id = store.create(name(called), version, OWNER).expect("a draft");
        let manifest = store.manifest(id, &[NODE]).expect("it is empty");
        store.commit_alone(id, manifest).expect("a ticket");
        settle(&mut store, &mut disk).pop().expect("an end").1
    };
    assert_eq!(space.log, 64 * UNIT);
    let most = (0..).take_while(|at| put(&format!("data/{at}"), 1).is_ok()).count();
    // Some of a log is lost where records end.
    let bytes = 27 + "data/1000".len() as u64;
    assert!((space.log_free * 7 / 8..=space.log_free).contains(&(most as u64 * bytes)), "{most}");
    assert!(matches!(put("data/last", 1), Err(Error::CatalogueFull { .. })), "after {most}");
    (1..=3).for_each(|job| assert_eq!(put(&format!(".jobs/{job}"), 1), Ok(())));
    // One takes the place of another.
    (2..9).for_each(|epoch| assert_eq!(put(".jobs/1", epoch), Ok(())));
}

/// What went is discarded once its removal is durable, and is nobody's before that.
#[test]
fn what_is_gone_is_discarded_in_one_piece_before_its_space_is_free() {
    let (extent, mut disk, mut store) = new(10, 9);
    let (kept, kept_manifest) = draft(&mut store, "kept", &[UNIT as u32]);
    let (gone, gone_manifest) = draft(&mut store, "gone", &[5000, 1, UNIT as u32]);
    for (id, manifest) in [(kept, kept_manifest), (gone, gone_manifest)] {
        store.commit_alone(id, manifest).expect("a ticket");
        assert_eq!(settle(&mut store, &mut disk).len(), 1);
    }
    let free = store.space().free;
    let ticket = store.remove(&name("gone"), FIRST).expect("a ticket");
    let mut steps = Vec::new();
    loop {
        match store.poll().expect("an end") {
            Action::Done(done, result) => {
                assert_eq!((done, result), (ticket, Ok(())));
                break;
            }
            Action::Disk(step) => {
                assert_eq!(store.space().free, free, "before {step:?}");
                let is_discard = matches!(step, Step::Discard(_));
                steps.push(step);
                // Nothing depends on whether it can be discarded.
                store.completed(if is_discard { Err(DiskFailed) } else { Ok(()) });
            }
        }
    }
    let range = Range { at: extent.data() + UNIT, bytes: 4 * UNIT };
    assert!(
        matches!(steps[..], [Step::Write { .. }, Step::Flush, Step::Discard(it)] if it == range)
    );
    assert_eq!(store.space().free, free + 4 * UNIT);
    assert!(!store.has_failed() && store.poll().is_none());
}

/// A store that is retired in the midst of that says what has happened.
#[test]
fn a_removal_that_is_being_discarded_has_happened() {
    let (extent, mut disk, mut store) = new(10, 8);
    let (id, manifest) = draft(&mut store, "gone", &[1]);
    store.commit_alone(id, manifest).expect("a ticket");
    settle(&mut store, &mut disk);
    let ticket = store.remove(&name("gone"), FIRST).expect("a ticket");
    while let Some(Action::Disk(step)) = store.poll() {
        if matches!(step, Step::Discard(_)) {
            store.retire();
            break;
        }
        disk.step(&step);
        store.completed(Ok(()));
    }
    assert_eq!(store.poll(), Some(Action::Done(ticket, Ok(()))));
    assert_eq!(mount(&disk, &extent).expect("a store").datasets().count(), 0);
}

#[test]
fn a_draft_says_where_its_written_blocks_are() {
    let (_, _, mut store) = new(10, 8);
    let draft = store.create(name("d"), FIRST, OWNER).expect("a draft");
    let range = store.reserve(draft, 1, 5000).expect("space");
    assert_eq!(store.drafted(draft, 1), Err(Error::NotFound));
    store.written(draft, 1, 7).expect("it is reserved");
    let block = Block { bytes: 5000, checksum: 7 };
    assert_eq!(store.drafted(draft, 1), Ok((block, range)));
    assert_eq!(store.drafted(draft, 0), Err(Error::NotFound));
    store.abort(draft);
    assert_eq!(store.drafted(draft, 1), Err(Error::NotFound));
}

#[test]
fn a_replica_keeps_only_its_own_blocks() {
    let (extent, mut disk, mut store) = new(10, 8);
    let draft = store.create(name("some"), FIRST, OWNER).expect("a draft");
    // Block 2 was reserved for a node that did not want it in the end.
    for block in [1, 2] {
        store.reserve(draft, block, 100).expect("space");
        store.written(draft, block, 5).expect("it is reserved");
    }
    let mut manifest = Manifest::new(name("some"), FIRST, OWNER, 2).expect("two copies");
    let block = Block { bytes: 100, checksum: 5 };
    assert!(!manifest.push(block, &[NODE]) && !manifest.push(block, &[NODE, NODE]));
    for holders in [[NodeId(2), NodeId(3)], [NodeId(2), NODE], [NodeId(3), NodeId(2)]] {
        assert!(manifest.push(block, &holders));
    }
    // A manifest that wants something else is refused, and the draft stays.
    let mut wrong = Manifest::new(name("some"), FIRST, OWNER, 1).expect("a copy");
    assert!(wrong.push(block, &[NODE]));
    assert_eq!(store.prepare(draft, wrong), Err(Error::Mismatch { block: 0 }));
    let prepared = store.prepare(draft, manifest.clone()).expect("it has what it needs");
    assert_eq!(settle(&mut store, &mut disk), [(prepared, Ok(()))]);
    assert_eq!(store.space().free, 7 * UNIT);
    assert!(store.committed(&name("some")).is_none());
    let mut store = mount(&disk, &extent).expect("a store");
    let dataset = store.get(&name("some"), FIRST).expect("it is prepared");
    assert_eq!((&dataset.manifest, dataset.state), (&manifest, State::Prepared));
    let here: Vec<bool> = (0..4).map(|at| dataset.range(&extent, at).is_some()).collect();
    assert_eq!((here, dataset.blocks_here()), ([false, true, false, false].into(), 1));
    let commit = store.commit(&name("some"), FIRST).expect("a ticket");
    assert_eq!(settle(&mut store, &mut disk), [(commit, Ok(()))]);
    assert_eq!(store.committed(&name("some")).map(|it| &it.manifest), Some(&manifest));
}

#[test]
fn manifests_of_many_blocks_take_many_records() {
    // 20,000 blocks of a unit each: 320,000 bytes of manifest, in five records and more.
    let (extent, mut disk, mut store) = new(256, 20_400);
    let (id, manifest) = draft(&mut store, "large", &[4096; 20_000]);
    let ticket = store.commit_alone(id, manifest.clone()).expect("a ticket");
    assert_eq!(settle(&mut store, &mut disk), [(ticket, Ok(()))]);
    let store = mount(&disk, &extent).expect("a store");
    let found = store.committed(&name("large")).expect("it is there");
    assert_eq!((&found.manifest, found.manifest.bytes()), (&manifest, 20_000 * 4096));
    assert_eq!(store.space().free, 400 * UNIT);
}

#[test]
fn the_log_of_the_usual_size_has_room_for_a_large_dataset() {
    let blocks = |bytes: u64, block: u64| vec![0u32; (bytes / block) as usize];
    // 100 GB in blocks of 1 MiB on two disks of 128 GiB, each with all rows of two copies.
    let extent = Extent::new(8192, 128 << 30, 1).expect("an extent");
    let rows = blocks(100_000_000_000, 1 << 20).len() as u64 * 20;
    assert!(rows + rows / 1000 + 65_536 < extent.log_bytes, "{}", extent.log_bytes);
}

#[test]
fn a_full_log_is_refused_and_removing_makes_room() {
    let (_, mut disk, mut store) = new(8, 2048);
    // A half has eight units: a seal, a reserve, and what is left for manifests.
    let (id, manifest) = draft(&mut store, "many", &[1; 1000]);
    let ticket = store.commit_alone(id, manifest).expect("a ticket");
    let full = Error::CatalogueFull { wanted: 4 * UNIT, free: 4 * UNIT };
    let (_, result) = settle(&mut store, &mut disk).pop().expect("an end");
    assert_eq!(result, Ok(()), "{ticket:?}");
    let (id, manifest) = draft(&mut store, "more", &[1; 1000]);
    store.commit_alone(id, manifest).expect("a ticket");
    let (_, result) = settle(&mut store, &mut disk).pop().expect("an end");
    assert!(matches!(result, Err(Error::CatalogueFull { .. })), "{result:?}, like {full:?}");
    assert_eq!(store.space().free, 1048 * UNIT, "its space is free again");
    store.remove(&name("many"), FIRST).expect("a ticket");
    assert_eq!(settle(&mut store, &mut disk).pop().expect("an end").1, Ok(()));
    let (id, manifest) = draft(&mut store, "more", &[1; 1000]);
    store.commit_alone(id, manifest).expect("a ticket");
    assert_eq!(settle(&mut store, &mut disk).pop().expect("an end").1, Ok(()));
}

#[test]
fn the_log_goes_round_and_round() {
    let (extent, mut disk, mut store) = new(8, 8);
    for epoch in 2..200 {
        let version = Version::new(epoch, 0);
        let draft = store.create(name("same"), version, OWNER).expect("a draft");
        let manifest = store.manifest(draft, &[NODE]).expect("it has no blocks");
        store.prepare(draft, manifest).expect("a ticket");
        store.commit(&name("same"), version).expect("a ticket");
        let ended = settle(&mut store, &mut disk);
        assert!(ended.len() == 2 && ended.iter().all(|it| it.1 == Ok(())), "{ended:?}");
    }
    let store = mount(&disk, &extent).expect("a store");
    let versions: Vec<Version> = store.datasets().map(|it| it.manifest.version).collect();
    assert_eq!(versions, [Version::new(199, 0)]);
}

#[test]
fn after_the_disk_has_failed_nothing_more_is_written() {
    for fails_in in 1..=4 {
        let (extent, mut disk, mut store) = new(10, 8);
        let (id, manifest) = draft(&mut store, "one", &[10]);
        disk.fails_in = Some(fails_in);
        let ticket = store.commit_alone(id, manifest.clone()).expect("a ticket");
        let other = store.remove(&name("other"), FIRST).expect("a ticket");
        let failed = Err(Error::Disk(DiskFailed));
        // It is flushed, written and flushed.
        let expected = match fails_in {
            4 => [(ticket, Ok(())), (other, Err(Error::NotFound))],
            _ => [(ticket, failed), (other, failed)],
        };
        assert_eq!(settle(&mut store, &mut disk), expected);
        if fails_in == 4 {
            continue;
        }
        assert_eq!(store.create(name("two"), FIRST, OWNER), Err(Error::Disk(DiskFailed)));
        assert_eq!(store.poll(), None);
        disk.fails_in = None;
        // Mounted again, it is there wholly or not at all.
        let store = mount(&disk, &extent).expect("a store");
        let found = store.committed(&name("one")).map(|it| &it.manifest);
        assert!(found.is_none_or(|it| *it == manifest));
        assert_eq!(found.is_some(), fails_in == 3, "a record that was written is found");
    }
}

#[test]
fn where_nothing_was_formatted_nothing_is_mounted() {
    let extent = small(10, 8);
    let disk = Disk::new(extent.start + extent.bytes);
    assert_eq!(mount(&disk, &extent).err(), Some(MountError::NoStore));
    let disk = formatted(&extent);
    let other = Extent { identity: 78, ..extent };
    assert_eq!(mount(&disk, &other).err(), Some(MountError::NoStore));
    assert_eq!(Extent::new(0, 100 * UNIT, 1), None, "too small for its log");
    assert_eq!(Extent::new(1, 1 << 30, 1), None, "not in whole units");
}
