//! Snapshots beside copies of everything.

use std::thread;

use alloc::vec::Vec;
use nile_ring::Region;
use proptest::prelude::*;

use super::*;
use crate::seat::Seats;
use crate::words::Draws;
use crate::words::mortal::with_stores;

extern crate std;

const SHAPE: Shape = Shape { objects: 4, words: 3, log: 32 };

/// What the objects are, and how often each has been written.
#[derive(Clone, PartialEq, Debug)]
struct Model {
    values: [u64; SHAPE.objects as usize],
    versions: [u64; SHAPE.objects as usize],
}

struct World {
    seats: Seats,
    all: Mvrlu,
    model: Model,
    draws: Draws,
}

fn world(seed: u64, shape: Shape, seats: usize) -> World {
    let places = Seats::attach(Region::owned(Seats::region_len(seats)));
    let region = Region::owned(Mvrlu::region_len(shape, seats));
    let all = Mvrlu::attach(region, places.clone(), shape).unwrap();
    let model = Model { values: [0; 4], versions: [0; 4] };
    World { seats: places, all, model, draws: Draws(seed) }
}

impl World {
    fn join(&self, number: u16) -> Member {
        self.all.join(self.seats.enter(number).unwrap()).unwrap()
    }

    /// The first does this and that, and while it does the others do.
    fn scene(&mut self, members: &mut [Member], may_die: bool) {
        let Some((first, others)) = members.split_first_mut() else { return };
        for _ in 0..self.draws.below(4) {
            match self.draws.below(4) {
                0 => {
                    first.reclaim();
                }
                1 if may_die => self.dies(first),
                _ => self.transaction(first, others, may_die),
            }
            self.scene(others, may_die);
        }
    }

    /// What is read is as it was when the snapshot was taken, and as this one has changed it; and
    /// it is committed unless somebody else has written the same meanwhile.
    fn transaction(&mut self, first: &mut Member, others: &mut [Member], may_die: bool) {
        let mut mine = self.model.clone();
        let mut section = first.begin();
        let mut refused = None;
        let mut written = Vec::new();
        for _ in 0..self.draws.below(5) {
            self.scene(others, may_die);
            let object = self.draws.below(SHAPE.objects.into()) as u32;
            if self.draws.below(2) == 0 {
                let index = object as usize;
                let value = self.draws.below(1_000);
                let set =
                    |words: &mut section::Draft<'_>| (0..3).for_each(|it| words.set(it, value));
                match section.write(object, set) {
                    Ok(()) => {
                        assert_eq!(mine.versions[index], self.model.versions[index], "lost update");
                        mine.values[index] = value;
                        written.push(index);
                    }
                    Err(why) => refused = refused.or(Some(why)),
                }
            }
            let mut words = [0; 3];
            if refused.is_none() {
                section.read(object, &mut words).unwrap();
                assert_eq!(words, [mine.values[object as usize]; 3], "not as of its moment");
            }
        }
        if self.draws.below(4) == 0 {
            return;
        }
        let committed = section.commit();
        assert_eq!(committed.err(), refused);
        if refused.is_none() {
            for index in written {
                self.model.values[index] = mine.values[index];
                self.model.versions[index] += 1;
            }
        }
    }

    /// It dies in the midst of a set of all objects, or of writing back: the set is, or is not.
    fn dies(&mut self, member: &mut Member) {
        let stores = self.draws.below(90) as u32;
        let value = self.draws.below(1_000);
        let act = |member: &mut Member| {
            let mut section = member.begin();
            for object in 0..SHAPE.objects {
                let set =
                    |words: &mut section::Draft<'_>| (0..3).for_each(|it| words.set(it, value));
                if section.write(object, set).is_err() {
                    return false;
                }
            }
            let is_committed = section.commit().is_ok();
            member.reclaim();
            member.reclaim();
            is_committed
        };
        let was_committed = with_stores(stores, || act(&mut *member)) == Ok(true);
        self.seats.clear(member.seat());
        *member = self.join(member.seat().number);
        let section = member.begin();
        let is = [0, 1, 2, 3].map(|object| section.word(object, 0).unwrap());
        let new = [value; 4];
        assert!(is == self.model.values || is == new, "half a set: {is:?}");
        assert!(!was_committed || is == new, "a set that was taken back");
        if is == new && (is != self.model.values || was_committed) {
            self.model.values = new;
            self.model.versions = self.model.versions.map(|version| version + 1);
        }
    }
}

fn run(seed: u64, may_die: bool) {
    let mut world = world(seed, SHAPE, 3);
    let mut members = [0, 1, 2].map(|number| world.join(number));
    for _ in 0..10 {
        world.scene(&mut members, may_die);
    }
    for member in &mut members {
        member.reclaim();
    }
    for member in &mut members {
        member.reclaim();
        assert_eq!(member.log_used(), 0, "nobody reads, and the log is not empty");
    }
}

proptest! {
    #[test]
    fn every_snapshot_is_of_its_moment(seed: u64) {
        run(seed, false);
    }

    #[test]
    fn also_if_somebody_dies(seed: u64) {
        run(seed, true);
    }
}

#[test]
fn a_full_log_is_busy_and_not_for_ever() {
    let world = world(1, Shape { objects: 1, words: 3, log: 4 }, 2);
    let [mut writer, mut reader] = [0, 1].map(|number| world.join(number));
    let section = reader.begin();
    let mut add = || {
        let mut section = writer.begin();
        section.write(0, |words| words.set(0, words.word(0) + 1))?;
        section.commit()
    };
    assert_eq!((add(), add()), (Ok(1), Ok(2)));
    assert_eq!(add(), Err(Refused::Busy));
    writer.reclaim();
    assert_eq!(writer.reclaim(), 0, "the snapshot needs them");
    assert_eq!(section.word(0, 0), Ok(0));
    drop(section);
    writer.reclaim();
    assert_eq!(writer.reclaim(), 4);
    assert_eq!(reader.begin().word(0, 0), Ok(2));
}

#[test]
fn what_is_held_is_changed_by_nobody() {
    let world = world(1, SHAPE, 2);
    let [mut a, mut b] = [0, 1].map(|number| world.join(number));
    // Without it both would commit what they have read of the other: write skew.
    let (mut one, mut other) = (a.begin(), b.begin());
    one.hold(0).unwrap();
    one.write(1, |words| words.set(0, 1)).unwrap();
    assert_eq!(other.write(0, |words| words.set(0, 1)), Err(Refused::Conflict));
    assert_eq!(one.commit(), Ok(1));
    assert_eq!(other.commit(), Err(Refused::Conflict));
}

#[test]
fn without_a_snapshot_the_newest_is_read_and_what_is_locked_stays() {
    let world = world(1, SHAPE, 3);
    let [mut writer, mut reader, mut other] = [0, 1, 2].map(|number| world.join(number));
    let mut set = |object, value| {
        let mut section = writer.begin_newest();
        section.write(object, |words| words.set(0, value))?;
        let committed = section.commit();
        writer.reclaim();
        committed
    };
    let (newest, mut locks) = (reader.begin_newest(), other.begin_newest());
    for value in 1..10 {
        assert!(set(0, value).is_ok());
        assert_eq!(newest.word(0, 0), Ok(value));
    }
    locks.write(0, |words| words.set(0, words.word(0) + 1)).unwrap();
    assert_eq!(set(0, 50), Err(Refused::Conflict));
    assert_eq!(newest.word(0, 0), Ok(9), "it is not committed");
    let clock = locks.commit().unwrap();
    assert_eq!(newest.word(0, 0), Ok(10));
    drop(newest);
    assert!(other.begin_newest().clock() >= clock && reader.begin().clock() >= clock);
}

#[test]
fn a_reader_without_snapshots_lets_old_versions_go() {
    let world = world(1, Shape { objects: 1, words: 1, log: 16 }, 2);
    let [mut writer, mut reader] = [0, 1].map(|number| world.join(number));
    for value in 1..1_000 {
        // Somebody reads all of the time, and looks at the clock only now and then.
        let newest = reader.begin_newest();
        let mut section = writer.begin_newest();
        let written = section.write(0, |words| words.set(0, value));
        let is_written = written.and_then(|()| section.commit()).is_ok();
        assert!(newest.word(0, 0) == Ok(value) || !is_written);
        writer.reclaim();
    }
    for _ in 0..64 {
        reader.begin_newest();
    }
    let newest = reader.begin_newest();
    writer.reclaim();
    drop(newest);
    writer.reclaim();
    assert_eq!(writer.log_used(), 0, "a clock of long ago");
}

/// Two threads move money at full speed; the sum is the same in every snapshot.
#[test]
fn money_is_moved_and_never_lost() {
    const ACCOUNTS: u32 = 8;
    let shape = Shape { objects: ACCOUNTS, words: 1, log: 64 };
    let world = world(1, shape, 3);
    let mut first = world.join(2);
    let mut section = first.begin();
    for account in 0..ACCOUNTS {
        section.write(account, |words| words.set(0, 100)).unwrap();
    }
    section.commit().unwrap();
    // One that another stands in the way of, perhaps one that has no processor now, tries again.
    let moves = |mut member: Member, seed| {
        let mut draws = Draws(seed);
        let mut committed = 0;
        while committed < 5_000 {
            let mut section = member.begin();
            let accounts = (0..ACCOUNTS).map(|account| section.word(account, 0).unwrap());
            let sum = accounts.fold(0, u64::wrapping_add);
            assert_eq!(sum, u64::from(ACCOUNTS) * 100, "money is lost");
            let [from, to] = [(); 2].map(|()| draws.below(ACCOUNTS.into()) as u32);
            let moved =
                section.write(from, |words| words.set(0, words.word(0).wrapping_sub(1))).and_then(
                    |()| section.write(to, |words| words.set(0, words.word(0).wrapping_add(1))),
                );
            match moved.and_then(|()| section.commit()) {
                Ok(_) => committed += 1,
                Err(_) => thread::yield_now(),
            }
            member.reclaim();
        }
    };
    let threads = [0, 1].map(|number| {
        let member = world.join(number);
        thread::spawn(move || moves(member, number.into()))
    });
    for thread in threads {
        thread.join().unwrap();
    }
    let section = first.begin();
    let accounts = (0..ACCOUNTS).map(|account| section.word(account, 0).unwrap());
    assert_eq!(accounts.fold(0, u64::wrapping_add), u64::from(ACCOUNTS) * 100);
}
