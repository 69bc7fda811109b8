//! Ranges that overlap are not had by two at once, whatever becomes of one of them.

use loom::thread;
use nile_ring::Region;
use nile_sync::ranges::SharedRanges;
use nile_sync::ranges::Sharing::{self, Exclusive, Shared};
use nile_sync::seat::{Seat, Seats};
use nile_sync::words::mortal::with_stores;
use nile_sync::words::{fence, load, store};

use crate::{check, for_each_death, must_fail, seats};

struct World {
    seats: Seats,
    ranges: SharedRanges,
    region: Region,
    /// Who is inside, a word each.
    inside: Region,
    a: Seat,
    b: Seat,
}

fn world() -> World {
    let seats = seats(2);
    let [a, b] = [0, 1].map(|number| seats.enter(number).expect("it is there"));
    let region = Region::owned(SharedRanges::region_len(2));
    let ranges = SharedRanges::attach(region.clone(), seats.clone()).expect("its size");
    World { seats, ranges, region, inside: Region::owned(64), a, b }
}

/// Enters and leaves what the range protects.
fn visit(inside: &Region, me: usize) {
    store(&inside.words()[me], 1);
    fence();
    assert_eq!(load(&inside.words()[1 - me]), 0, "both have it");
    store(&inside.words()[me], 0);
}

/// Asks once, and goes in if the range is had at once.
fn once(ranges: &SharedRanges, inside: &Region, me: Seat, how: Sharing) -> bool {
    ranges.ask(me, 0..10, how);
    let has = ranges.has(me);
    if has && how == Exclusive {
        visit(inside, usize::from(me.number));
    }
    ranges.end(me);
    has
}

#[test]
fn one_has_it_at_a_time() {
    check(3, || {
        let World { ranges, inside, a, b, .. } = world();
        let (others, its) = (ranges.clone(), inside.clone());
        let other = thread::spawn(move || once(&others, &its, a, Exclusive));
        once(&ranges, &inside, b, Exclusive);
        other.join().unwrap();
        assert!(once(&ranges, &inside, b, Exclusive), "it is not free");
    });
}

#[test]
fn readers_and_those_elsewhere_do_not_wait() {
    check(3, || {
        let World { ranges, a, b, .. } = world();
        ranges.ask(a, 0..10, Shared);
        let others = ranges.clone();
        let other = thread::spawn(move || {
            others.ask(b, 0..10, Shared);
            assert!(others.has(b), "readers wait for each other");
            others.ask(b, 10..20, Exclusive);
            assert!(others.has(b), "it waits for one elsewhere");
        });
        // It may have to wait while the other draws a ticket.
        let _ = ranges.has(a);
        other.join().unwrap();
        assert!(ranges.has(a), "it waits for nobody");
    });
}

fn with_death(stores: u32, clears: bool) -> bool {
    let World { seats, ranges, a, b, inside, .. } = world();
    let (others, its) = (ranges.clone(), inside.clone());
    let other =
        thread::spawn(move || with_stores(stores, || once(&others, &its, a, Shared)).is_err());
    once(&ranges, &inside, b, Exclusive);
    let died = other.join().unwrap();
    if died && clears {
        seats.clear(a);
    }
    assert!(once(&ranges, &inside, b, Exclusive), "not free");
    died
}

#[test]
fn one_may_die() {
    for_each_death(2, |stores| with_death(stores, true));
}

#[test]
fn control_nobody_is_told() {
    must_fail("not free", || {
        with_death(1, false);
    });
}

/// Two that do not order their words before they look at each other's.
#[test]
fn control_without_a_fence() {
    must_fail("both have it", || {
        let World { region, inside, a, b, .. } = world();
        let hasty = move |region: &Region, inside: &Region, me: Seat| {
            let (mine, other) = (usize::from(me.number), 1 - usize::from(me.number));
            store(&region.lines()[mine][0], 1);
            if load(&region.lines()[other][0]) == 0 {
                visit(inside, mine);
            }
            store(&region.lines()[mine][0], 0);
        };
        let (words, its) = (region.clone(), inside.clone());
        let thread = thread::spawn(move || hasty(&words, &its, a));
        hasty(&region, &inside, b);
        thread.join().unwrap();
    });
}
