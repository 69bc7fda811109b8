//! Notes beside a map of them, and what is refused.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::disk::Disk;
use super::{NODE, OWNER, formatted, mount, name, settle, small};
use crate::{Action, DiskFailed, Error, LONGEST_NOTE, Step, Store, UNIT, Version};

fn new(log_units: u64) -> (crate::Extent, Disk, Store) {
    let extent = small(log_units, 8);
    let mut disk = formatted(&extent);
    let mut store = mount(&disk, &extent).expect("an empty store");
    assert!(settle(&mut store, &mut disk).is_empty());
    (extent, disk, store)
}

fn note(store: &mut Store, disk: &mut Disk, key: &str, value: &[u8]) -> Result<(), Error> {
    store.note(name(key), value)?;
    settle(store, disk).pop().expect("an end").1
}

proptest! {
    /// Some at a time, among datasets, with mounts between.
    #[test]
    fn notes_are_a_map(
        steps in prop::collection::vec(
            (prop::collection::vec((0u8..6, 0usize..1030), 1..6), any::<bool>(), any::<bool>()),
            0..30,
        ),
    ) {
        let (extent, mut disk, mut store) = new(16);
        let mut model: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
        for (epoch, (notes, has_dataset, remount)) in (1..).zip(steps) {
            let mut tickets = Vec::new();
            for (at, (key, length)) in notes.into_iter().enumerate() {
                // Many are removed.
                let value = vec![at as u8 + 1; length.saturating_sub(300)];
                let ended = store.note(name(["a", "b", "c", "d", "e", "f"][key as usize]), &value);
                tickets.push(ended.expect("a ticket"));
                match value.is_empty() {
                    true => drop(model.remove(&key)),
                    false => drop(model.insert(key, value)),
                }
                if has_dataset && at == 0 {
                    let version = Version::new(epoch, 0);
                    let draft = store.create(name("dataset"), version, OWNER).expect("a draft");
                    let manifest = store.manifest(draft, &[NODE]).expect("it is empty");
                    tickets.push(store.commit_alone(draft, manifest).expect("a ticket"));
                }
            }
            let ended = settle(&mut store, &mut disk);
            prop_assert!(ended.iter().all(|it| it.1 == Ok(())), "{:?}", ended);
            prop_assert_eq!(ended.into_iter().map(|it| it.0).collect::<Vec<_>>(), tickets);
            if remount {
                store = mount(&disk, &extent).expect("it was whole");
                settle(&mut store, &mut disk);
            }
            let found: Vec<_> = store.notes().map(|(_, value)| value.to_vec()).collect();
            prop_assert_eq!(found, model.values().cloned().collect::<Vec<_>>());
        }
    }
}

#[test]
fn those_that_wait_share_a_record_and_a_flush() {
    let (_, mut disk, mut store) = new(16);
    for at in 0..40 {
        store.note(name(&alloc::format!("key {at:02}")), &[at; 60]).expect("a ticket");
    }
    let (mut flushes, mut ended) = (0, 0);
    while let Some(action) = store.poll() {
        match action {
            Action::Done(_, result) => {
                assert_eq!(result, Ok(()));
                ended += 1;
            }
            Action::Disk(step) => {
                flushes += usize::from(step == Step::Flush);
                disk.step(&step);
                store.completed(Ok(()));
            }
        }
    }
    assert_eq!((flushes, ended, store.notes().count()), (1, 40, 40));
    let after: Vec<&str> =
        store.notes_after(Some(&name("key 375"))).map(|it| it.0.as_str()).collect();
    assert_eq!(after, ["key 38", "key 39"]);
}

#[test]
fn a_full_log_has_room_to_change_and_remove_notes() {
    let (extent, mut disk, mut store) = new(12);
    let value = [7; LONGEST_NOTE];
    let long = Error::LongNote { bytes: LONGEST_NOTE + 1 };
    assert_eq!(store.note(name("x"), &[0; LONGEST_NOTE + 1]), Err(long));
    let full = |key: usize| alloc::format!("{key:0128}");
    let put = |store: &mut Store, disk: &mut Disk, at| note(store, disk, &full(at), &value);
    let most = (0..).take_while(|at| put(&mut store, &mut disk, *at).is_ok()).count();
    assert!(most >= 20, "{most}");
    let refused = put(&mut store, &mut disk, most);
    assert!(matches!(refused, Err(Error::CatalogueFull { .. })), "{refused:?}");
    // No dataset has more room than a note.
    let draft = store.create(name("d"), Version::new(1, 0), OWNER).expect("a draft");
    let manifest = store.manifest(draft, &[NODE]).expect("it is empty");
    store.commit_alone(draft, manifest).expect("a ticket");
    let ended = settle(&mut store, &mut disk).pop().expect("an end").1;
    assert!(matches!(ended, Err(Error::CatalogueFull { .. })), "{ended:?}");
    for round in 1..50 {
        let changed =
            note(&mut store, &mut disk, &full(round % most), &[round as u8; LONGEST_NOTE]);
        assert_eq!(changed, Ok(()), "round {round}");
    }
    let mut store = mount(&disk, &extent).expect("a store");
    assert_eq!(store.notes().count(), most);
    for at in 0..most {
        assert_eq!(note(&mut store, &mut disk, &full(at), &[]), Ok(()), "removing {at}");
        assert_eq!(note(&mut store, &mut disk, &full(at), &[]), Ok(()), "it is not there");
    }
    assert_eq!(store.space().log_free, 8 * UNIT);
}

#[test]
fn a_note_is_not_there_before_it_is_durable() {
    let (extent, mut disk, mut store) = new(12);
    assert_eq!(note(&mut store, &mut disk, "a", b"old"), Ok(()));
    disk.fails_in = Some(2);
    let tickets = [b"new", b"nil"].map(|value| store.note(name("a"), value).expect("a ticket"));
    let failed = Err(Error::Disk(DiskFailed));
    assert_eq!(settle(&mut store, &mut disk), tickets.map(|ticket| (ticket, failed)));
    assert_eq!(store.note_of(&name("a")), Some(&b"old"[..]));
    assert_eq!(store.note(name("a"), b"x"), Err(Error::Disk(DiskFailed)));
    // The record was written, and then perhaps durable.
    let store = mount(&disk, &extent).expect("a store");
    assert_eq!(store.note_of(&name("a")), Some(&b"new"[..]));
}
