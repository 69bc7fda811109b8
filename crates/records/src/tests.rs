//! Histories beside a map, and views beside what the map was.

extern crate std;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use std::{mem, thread};

use nile_ring::Region;
use nile_sync::Seats;
use proptest::prelude::*;

use super::*;

const SIZES: Sizes = Sizes { buckets: 4, parts: 400, writers: 2, log: 256 };
const SEATS: usize = 4;

type Model = BTreeMap<Vec<u8>, Record>;

struct World {
    region: Region,
    seats: Seats,
}

impl World {
    fn new() -> World {
        let region = Region::owned(Shared::region_len(SIZES, SEATS));
        World { region, seats: Seats::attach(Region::owned(Seats::region_len(SEATS))) }
    }

    fn join(&self, number: u16) -> Shared {
        let seat = self.seats.enter(number).unwrap();
        Shared::join(self.region.clone(), self.seats.clone(), SIZES, seat).unwrap()
    }
}

fn read(view: &View) -> Model {
    let (mut all, mut from) = (Model::new(), 0);
    while let Some((records, next)) = view.next(from) {
        from = next;
        for (key, record) in records {
            assert_eq!(all.insert(key, record), None, "twice in one view");
        }
    }
    all
}

/// What an operation gives in the model, with the version that was given to what is stored.
fn apply(model: &mut Model, key: &[u8], operation: &Operation, stored: u64) -> Outcome {
    let known = model.get(key).cloned();
    let version = known.as_ref().map_or(0, |it| it.version);
    let found = known.map_or(Outcome::Missing, Outcome::Found);
    match operation {
        Operation::Get => found,
        Operation::Remove if found == Outcome::Missing => found,
        Operation::Remove => {
            model.remove(key);
            Outcome::Removed
        }
        Operation::Compare(wanted, _) if *wanted != version => found,
        Operation::Compare(_, value) | Operation::Put(value) => {
            assert!(stored > version, "an old version comes again");
            model.insert(key.into(), Record { version: stored, value: value.clone() });
            Outcome::Stored(stored)
        }
    }
}

fn version(outcome: &Outcome) -> u64 {
    if let Outcome::Stored(version) = outcome { *version } else { 0 }
}

/// A key of few, and what is done to it; values may have several parts.
fn step() -> impl Strategy<Value = (Vec<u8>, Operation)> {
    let key = (0_u8..40).prop_map(|key| vec![key; 1 + usize::from(key)]);
    let value = || (0_u8..255, 0_usize..700).prop_map(|(byte, len)| vec![byte; len]);
    let operation = prop_oneof![
        Just(Operation::Get),
        Just(Operation::Remove),
        value().prop_map(Operation::Put),
        value().prop_map(Operation::Put),
        (0_u64..3, value()).prop_map(|(version, value)| Operation::Compare(version, value)),
    ];
    (key, operation)
}

proptest! {
    #[test]
    fn a_shard_is_a_map(steps in prop::collection::vec(step(), 1..120)) {
        let (mut shard, mut model) = (Shard::new(1 << 20), Model::new());
        for (key, operation) in steps {
            let outcome = shard.apply(&key, &operation).unwrap();
            prop_assert_eq!(&outcome, &apply(&mut model, &key, &operation, version(&outcome)));
            let bytes: usize = model.iter().map(|(key, it)| key.len() + it.value.len()).sum();
            prop_assert_eq!((shard.len(), shard.bytes()), (model.len(), bytes));
        }
        prop_assert!(shard.scan(&[]).map(|(key, it)| (key.to_vec(), it.clone())).eq(model));
    }

    /// Two writers in turn, who begin anew at any moment; views that are taken in between stay as
    /// they were. In the end no part is lost, and none is anybody's twice.
    #[test]
    fn a_table_is_a_map_and_views_are_of_their_moment(
        steps in prop::collection::vec(
            (step(), 0_usize..2, prop::bool::weighted(0.1), prop::bool::weighted(0.1)), 1..120)
    ) {
        let world = World::new();
        let mut writers = [world.join(0), world.join(1)];
        let (mut model, mut view) = (Model::new(), None);
        for ((key, operation), writer, takes_view, begins_anew) in steps {
            if begins_anew {
                mem::forget(mem::replace(&mut writers[writer], world.join(writer as u16)));
            }
            if takes_view {
                if let Some((view, then)) = view.take() {
                    prop_assert_eq!(read(&view), then);
                }
                view = Some((world.join(2).view(), model.clone()));
            }
            match writers[writer].apply(&key, &operation) {
                Ok(outcome) => {
                    let expected = apply(&mut model, &key, &operation, version(&outcome));
                    prop_assert_eq!(&outcome, &expected);
                }
                // The log is full of what the view needs.
                Err(why) => {
                    prop_assert!(why == Wrong::Busy && view.is_some(), "{why:?}");
                    let (view, then) = view.take().unwrap();
                    prop_assert_eq!(read(&view), then);
                }
            }
        }
        if let Some((view, then)) = view.take() {
            prop_assert_eq!(read(&view), then);
        }
        prop_assert_eq!(&read(&world.join(2).view()), &model);
        for key in model.keys() {
            prop_assert_eq!(writers[0].apply(key, &Operation::Remove), Ok(Outcome::Removed));
        }
        let all = 2 * SIZES.parts as usize;
        prop_assert_eq!(writers.iter().map(Shared::free_parts).sum::<usize>(), all);
        let anew = [world.join(0), world.join(1)];
        prop_assert_eq!(anew.iter().map(Shared::free_parts).sum::<usize>(), all);
    }
}

/// A writer whose parts others have used for their own fills its share again, and no more.
#[test]
fn parts_go_to_who_frees_them() {
    let world = World::new();
    let mut writers = [world.join(0), world.join(1)];
    let put = Operation::Put(vec![1; MOST_VALUE]);
    let fill = |writer: &mut Shared, from: u8| {
        let mut keys = (from..=u8::MAX).take_while(|key| writer.apply(&[*key], &put).is_ok());
        keys.by_ref().count()
    };
    let first = fill(&mut writers[0], 0);
    assert!(first > 10);
    for key in 0..first as u8 {
        assert_eq!(writers[1].apply(&[key], &Operation::Remove), Ok(Outcome::Removed));
    }
    mem::forget(mem::replace(&mut writers[1], world.join(1)));
    mem::forget(mem::replace(&mut writers[0], world.join(0)));
    assert_eq!(fill(&mut writers[0], 0), 0, "the other has its parts");
    let second = fill(&mut writers[1], 0);
    assert!(second == 2 * first || second == 2 * first + 1, "{second}, where {first} was one's");
}

#[test]
fn bounds_are_kept() {
    let world = World::new();
    let mut table = world.join(0);
    let mut shard = Shard::new(100);
    let put = |len| Operation::Put(vec![1; len]);
    for (key, operation, why) in [
        (&[][..], Operation::Get, Wrong::Key),
        (&[1; MOST_KEY + 1][..], Operation::Get, Wrong::Key),
        (&[1][..], put(MOST_VALUE + 1), Wrong::Value),
    ] {
        assert_eq!(table.apply(key, &operation), Err(why));
        assert_eq!(shard.apply(key, &operation), Err(why));
    }
    assert_eq!(shard.apply(&[1], &put(100)), Err(Wrong::Full));
    assert!(matches!(table.apply(&[1; MOST_KEY], &put(MOST_VALUE)), Ok(Outcome::Stored(_))));
    let filled = (0..200_u8).find_map(|key| table.apply(&[key], &put(MOST_VALUE)).err());
    assert_eq!(filled, Some(Wrong::Full));
    assert_eq!(table.apply(&[0], &Operation::Remove), Ok(Outcome::Removed));
    assert!(matches!(table.apply(&[201], &put(MOST_VALUE)), Ok(Outcome::Stored(_))));
}

/// Many operations are one moment: all are done, or none.
#[test]
fn many_are_done_or_none() {
    let world = World::new();
    let mut table = world.join(0);
    let put = Operation::Put(vec![7; 20]);
    let too_long = Operation::Put(vec![7; MOST_VALUE]);
    let filling: Vec<[u8; 1]> = (0..200).map(|key| [key]).collect();
    let all: Vec<(&[u8], &Operation)> = filling.iter().map(|key| (&key[..], &too_long)).collect();
    assert!(table.many(&all).is_err());
    assert!(read(&world.join(2).view()).is_empty());
    let some = table.many(&[(b"a", &put), (b"b", &put), (b"a", &Operation::Get)]).unwrap();
    assert!(matches!(some[2], Outcome::Found(_)));
    assert_eq!(read(&world.join(2).view()).len(), 2);
}

/// Two threads move units between records, reading what they change in the same moment. Their sum
/// is the same in every view; without a view, read by read, it is not.
fn sums(reads: impl Fn(&World) -> u64) -> bool {
    const KEYS: u8 = 16;
    let world = World::new();
    let mut first = world.join(0);
    for key in 0..KEYS {
        first.apply(&[key], &unit(1000)).unwrap();
    }
    let moving = |mut table: Shared, step: u8| {
        let get = |table: &mut Shared, key| match table.apply(&[key], &Operation::Get) {
            Ok(Outcome::Found(it)) => {
                (it.version, u64::from_le_bytes(it.value.try_into().unwrap()))
            }
            other => panic!("{other:?}"),
        };
        for round in 0..2_000_u32 {
            // Only this writer changes these keys.
            let [from, to] = [round * 7, round * 11 + 1].map(|it| it as u8 % (KEYS / 2) * 2 + step);
            let ((_, a), (_, b)) = (get(&mut table, from), get(&mut table, to));
            if from == to || a == 0 {
                continue;
            }
            let (less, more) = (unit(a - 1), unit(b + 1));
            match table.many(&[(&[from], &less), (&[to], &more)]) {
                Ok(_) | Err(Wrong::Busy) => {}
                Err(why) => panic!("{why:?}"),
            }
        }
    };
    let second = world.join(1);
    let threads =
        [(first, 0), (second, 1)].map(|(table, step)| thread::spawn(move || moving(table, step)));
    let mut is_right = true;
    while threads.iter().any(|it| !it.is_finished()) {
        is_right &= reads(&world) == u64::from(KEYS) * 1000;
    }
    for thread in threads {
        thread.join().unwrap();
    }
    is_right
}

fn unit(value: u64) -> Operation {
    Operation::Put(value.to_le_bytes().to_vec())
}

fn value(record: &Record) -> u64 {
    u64::from_le_bytes(record.value[..].try_into().unwrap())
}

#[test]
fn the_sum_is_the_same_in_every_view() {
    assert!(sums(|world| read(&world.join(2).view()).values().map(value).sum()));
}

#[test]
fn control_reads_one_after_the_other_have_other_sums() {
    let one_by_one = |world: &World| {
        let mut table = world.join(3);
        let get = |key: u8| match table.apply(&[key], &Operation::Get) {
            Ok(Outcome::Found(it)) => value(&it),
            other => panic!("{other:?}"),
        };
        (0..16).map(get).sum()
    };
    assert!((0..50).any(|_| !sums(one_by_one)), "it never happened");
}
