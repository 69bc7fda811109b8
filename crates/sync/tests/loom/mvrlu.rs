//! Two objects that are always changed together. Whoever reads both finds them equal, whatever is
//! written, written back and used again meanwhile, and whoever dies of it.

use loom::thread;
use nile_ring::Region;
use nile_sync::mvrlu::{Member, Mvrlu, Refused, Shape};
use nile_sync::seat::Seats;
use nile_sync::words::mortal::with_stores;

use crate::{check, for_each_death, must_fail, seats};

const SHAPE: Shape = Shape { objects: 2, words: 1, log: 4 };

fn world() -> (Seats, Mvrlu) {
    let seats = seats(2);
    let region = Region::owned(Mvrlu::region_len(SHAPE, 2));
    let all = Mvrlu::attach(region, seats.clone(), SHAPE).expect("its size");
    (seats, all)
}

/// Takes a seat, as one more life of it.
fn join(seats: &Seats, all: &Mvrlu, number: u16) -> Member {
    all.join(seats.enter(number).expect("it is there")).expect("it is there")
}

/// Adds one to both.
fn add_one(member: &mut Member) -> Result<u64, Refused> {
    let mut section = member.begin();
    for object in 0..SHAPE.objects {
        section.write(object, |words| words.set(0, words.word(0) + 1))?;
    }
    section.commit()
}

/// What both are.
fn read(member: &mut Member) -> u64 {
    let section = member.begin();
    let [a, b] = [0, 1].map(|object| section.word(object, 0).expect("it is there"));
    assert_eq!(a, b, "torn snapshot");
    a
}

#[test]
fn a_snapshot_is_of_one_moment() {
    check(2, || {
        let (seats, all) = world();
        let (mut writer, mut reader) = (join(&seats, &all, 0), join(&seats, &all, 1));
        let other = thread::spawn(move || {
            add_one(&mut writer).expect("nobody else writes");
            writer
        });
        let before = read(&mut reader);
        let mut writer = other.join().unwrap();
        assert!(before <= read(&mut reader));
        assert_eq!(read(&mut writer), 1);
    });
}

/// The log has room for a second set when the first is not needed any more.
fn used_again(is_waited_for: bool) {
    let (seats, all) = world();
    let (mut writer, mut reader) = (join(&seats, &all, 0), join(&seats, &all, 1));
    add_one(&mut writer).expect("nobody else writes");
    if !is_waited_for {
        seats.clear(reader.seat());
    }
    let other = thread::spawn(move || {
        writer.reclaim();
        writer.reclaim();
        let added = add_one(&mut writer);
        writer.reclaim();
        added
    });
    assert!(read(&mut reader) >= 1, "lost update");
    let added = other.join().unwrap();
    assert_eq!(read(&mut reader), if added.is_ok() { 2 } else { 1 }, "lost update");
}

#[test]
fn what_is_read_is_not_used_again() {
    check(2, || used_again(true));
}

#[test]
fn of_two_writers_none_loses_what_the_other_wrote() {
    check(2, || {
        let (seats, all) = world();
        let (mut a, mut b) = (join(&seats, &all, 0), join(&seats, &all, 1));
        let other = thread::spawn(move || add_one(&mut a).is_ok());
        let mine = u64::from(add_one(&mut b).is_ok());
        let its = u64::from(other.join().unwrap());
        assert_eq!(read(&mut b), mine + its, "lost update");
    });
}

/// One object of two words, whose newest version is read, and written, without a snapshot. Both
/// members know the clock of before the first write.
fn newest(is_waited_for: bool) {
    const PAIR: Shape = Shape { objects: 1, words: 2, log: 4 };
    let seats = seats(2);
    let region = Region::owned(Mvrlu::region_len(PAIR, 2));
    let all = Mvrlu::attach(region, seats.clone(), PAIR).expect("its size");
    let (mut writer, mut reader) = (join(&seats, &all, 0), join(&seats, &all, 1));
    let add = |member: &mut Member| {
        let mut section = member.begin_newest();
        section.write(0, |words| (0..2).for_each(|at| words.set(at, words.word(at) + 1)))?;
        section.commit()
    };
    let read = |member: &mut Member| {
        let section = member.begin_newest();
        let mut words = [0; 2];
        section.read(0, &mut words).expect("it is there");
        let [a, b] = words;
        assert_eq!(a, b, "torn version");
        a
    };
    assert_eq!(read(&mut reader), 0);
    add(&mut writer).expect("nobody else writes");
    if !is_waited_for {
        seats.clear(reader.seat());
    }
    let other = thread::spawn(move || {
        writer.reclaim();
        let added = add(&mut writer);
        writer.reclaim();
        writer.reclaim();
        u64::from(added.is_ok()) + u64::from(add(&mut writer).is_ok())
    });
    assert!(read(&mut reader) >= 1, "lost update");
    let added = other.join().unwrap();
    assert_eq!(read(&mut reader), 1 + added, "lost update");
}

#[test]
fn a_newest_version_is_whole() {
    check(2, || newest(true));
}

#[test]
fn of_two_newest_writers_none_loses_what_the_other_wrote() {
    check(2, || {
        let (seats, all) = world();
        let (mut a, mut b) = (join(&seats, &all, 0), join(&seats, &all, 1));
        let add = |member: &mut Member| {
            let mut section = member.begin_newest();
            section.write(0, |words| words.set(0, words.word(0) + 1)).is_ok()
                && section.commit().is_ok()
        };
        let other = thread::spawn(move || add(&mut a));
        let mine = u64::from(add(&mut b));
        let its = u64::from(other.join().unwrap());
        let sum = b.begin().word(0, 0);
        assert_eq!(sum, Ok(mine + its), "lost update");
    });
}

/// A reader of a newest version for whom nobody waits.
#[test]
fn control_a_newest_version_for_whom_nobody_waits() {
    must_fail("torn version", || newest(false));
}

/// A writer dies after so many stores of a set and of its writing back; whether it did. Its next
/// life and a survivor go on.
fn writer_dies(stores: u32, clears: bool, returns: bool) -> bool {
    let (seats, all) = world();
    let (mut writer, mut reader) = (join(&seats, &all, 0), join(&seats, &all, 1));
    let seat = writer.seat();
    let other = thread::spawn(move || {
        let act = || {
            let added = add_one(&mut writer);
            writer.reclaim();
            writer.reclaim();
            added
        };
        with_stores(stores, act)
    });
    let before = read(&mut reader);
    let end = other.join().unwrap();
    let died = end.is_err();
    if died && clears {
        seats.clear(seat);
    }
    if died && returns {
        let mut next = join(&seats, &all, 0);
        read(&mut next);
        next.reclaim();
        next.reclaim();
        assert_eq!(next.log_used(), 0, "a log that never gets empty");
    }
    // A set that is about to be committed is so after the first snapshot that meets it.
    read(&mut reader);
    let after = read(&mut reader);
    assert!(before <= after, "a set that was taken back");
    assert_ne!(add_one(&mut reader), Err(Refused::Conflict), "locked for ever");
    assert_eq!(read(&mut reader), after + 1, "lost update");
    died
}

#[test]
fn a_writer_may_die() {
    for_each_death(1, |stores| writer_dies(stores, true, false));
}

#[test]
fn its_next_life_goes_on() {
    for_each_death(1, |stores| writer_dies(stores, true, true));
}

#[test]
fn control_nobody_takes_over() {
    must_fail("locked for ever", || {
        writer_dies(9, false, false);
    });
}

/// A reader for whom nobody waits, as one who is gone.
#[test]
fn control_a_reader_for_whom_nobody_waits() {
    must_fail("torn snapshot", || used_again(false));
}
