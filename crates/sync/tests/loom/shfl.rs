//! One has the lock at a time, whoever waits gets it, and a holder or waiter may die.

use std::cell::Cell;

use loom::thread;
use nile_ring::Region;
use nile_sync::seat::{Seat, Seats};
use nile_sync::shfl::{Awake, Held, ShflLock};
use nile_sync::words::mortal::with_stores;
use nile_sync::words::{load, store};

use crate::{check, for_each_death, must_fail, seats};

struct World {
    seats: Seats,
    lock: ShflLock,
    count: Region,
    members: Vec<Seat>,
}

fn world(count: u16) -> World {
    let seats = seats(usize::from(count));
    let members = (0..count).map(|number| seats.enter(number).expect("it is there")).collect();
    let region = Region::owned(ShflLock::region_len(usize::from(count)));
    let lock = ShflLock::attach(region, seats.clone()).expect("its size");
    World { seats, lock, count: Region::owned(64), members }
}

fn nobody(_: Seat) {
    panic!("nobody sleeps");
}

/// Takes the lock, spinning.
fn take(lock: &ShflLock, me: Seat) -> Held {
    if lock.try_lock(me) {
        return Held::Whole;
    }
    lock.wait(me, false);
    loop {
        if let Some(held) = lock.poll(me, &Awake, nobody) {
            return held;
        }
        thread::yield_now();
    }
}

/// Adds one to what the lock protects, as who reads and writes it does.
fn add_one(lock: &ShflLock, count: &Region, me: Seat) -> Held {
    let held = take(lock, me);
    let word = &count.words()[0];
    let value = load(word);
    store(word, value + 1);
    lock.unlock(me, nobody);
    held
}

#[test]
fn one_has_it_at_a_time() {
    check(2, || {
        let World { lock, count, members, .. } = world(2);
        let (a, b) = (members[0], members[1]);
        let (others, its) = (lock.clone(), count.clone());
        let other = thread::spawn(move || add_one(&others, &its, a));
        assert_eq!(add_one(&lock, &count, b), Held::Whole);
        assert_eq!(other.join().unwrap(), Held::Whole);
        assert_eq!(load(&count.words()[0]), 2, "both had it");
    });
}

/// One that goes to sleep with no word that it has the lock is woken when it can have it.
fn sleeper(is_hasty: bool) {
    let World { lock, members, .. } = world(2);
    let (a, b) = (members[0], members[1]);
    assert!(lock.try_lock(a));
    let others = lock.clone();
    let other = thread::spawn(move || {
        let woken = Cell::new(false);
        others.unlock(a, |seat| woken.set(seat == b));
        woken.get()
    });
    // It says that it sleeps before it looks for the last time.
    lock.wait(b, !is_hasty);
    let has = lock.poll(b, &Awake, nobody).is_some();
    if is_hasty {
        lock.wait(b, true);
    }
    let woken = other.join().unwrap();
    assert!(has || woken, "lost wake-up");
}

#[test]
fn a_sleeper_is_woken() {
    check(3, || sleeper(false));
}

#[test]
fn control_one_sleeps_without_looking_again() {
    must_fail("lost wake-up", || sleeper(true));
}

/// The next head may fall asleep while it is chosen.
#[test]
fn the_next_head_is_woken() {
    check(2, || {
        let World { lock, members, .. } = world(3);
        let (a, b, c) = (members[0], members[1], members[2]);
        assert!(lock.try_lock(c));
        lock.wait(a, false);
        assert_eq!(lock.poll(a, &Awake, nobody), None);
        lock.unlock(c, nobody);
        // The lock is free, and a is its head.
        let others = lock.clone();
        let other = thread::spawn(move || {
            let woken = Cell::new(false);
            let wake = |seat| woken.set(woken.get() || seat == b);
            assert_eq!(others.poll(a, &Awake, wake), Some(Held::Whole));
            others.unlock(a, wake);
            woken.get()
        });
        lock.wait(b, true);
        let has = lock.poll(b, &Awake, nobody).is_some();
        let woken = other.join().unwrap();
        assert!(has || woken, "lost wake-up");
        assert!(has || lock.poll(b, &Awake, nobody).is_some(), "it is free");
    });
}

fn with_death(stores: u32, clears: bool) -> bool {
    let World { seats, lock, count, members } = world(2);
    let (a, b) = (members[0], members[1]);
    let (others, its) = (lock.clone(), count.clone());
    let other = thread::spawn(move || with_stores(stores, || add_one(&others, &its, a)).is_err());
    // It tries now, and waits if it has to.
    let mut held = lock.try_lock(b).then_some(Held::Whole);
    if held.is_none() {
        lock.wait(b, false);
        held = lock.poll(b, &Awake, nobody);
    }
    let has_waited = held.is_none();
    if !has_waited {
        lock.unlock(b, nobody);
    }
    let died = other.join().unwrap();
    if died && clears {
        seats.clear(a);
    }
    if !has_waited {
        lock.wait(b, false);
    }
    held = lock.poll(b, &Awake, nobody);
    assert!(held.is_some(), "the lock is lost");
    assert!(died || held == Some(Held::Whole), "broken by one who lives");
    lock.unlock(b, nobody);
    died
}

#[test]
fn one_may_die() {
    for_each_death(2, |stores| with_death(stores, true));
}

#[test]
fn control_nobody_takes_over() {
    must_fail("the lock is lost", || {
        with_death(1, false);
    });
}
