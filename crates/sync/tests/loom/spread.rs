//! Two workers and a loop of three pieces. Each piece is given out once, and all are done even if
//! one of the workers dies.

use std::sync::Arc;

use loom::thread;
use nile_ring::Region;
use nile_sync::seat::{Seat, Seats};
use nile_sync::spread::Spread;
use nile_sync::words::mortal::with_stores;

use crate::{check, for_each_death, must_fail, seats};

const PIECES: u32 = 3;

fn work(spread: &Spread, me: Seat) -> [u32; PIECES as usize] {
    let mut done = [0; PIECES as usize];
    while let Some(piece) = spread.take(me) {
        done[piece.number as usize] += 1;
        spread.finish(piece);
    }
    done
}

fn parts() -> (Seats, Spread, Seat, Seat) {
    let seats = seats(2);
    let [a, b] = [0, 1].map(|number| seats.enter(number).expect("it is there"));
    let region = Region::owned(Spread::region_len(2, PIECES));
    let spread = Spread::attach(region, seats.clone()).expect("its size");
    spread.begin(PIECES).expect("none is unfinished");
    (seats, spread, a, b)
}

#[test]
fn each_piece_is_given_out_once() {
    check(1, || {
        let (_, spread, a, b) = parts();
        let others = spread.clone();
        let other = thread::spawn(move || work(&others, a));
        let mine = work(&spread, b);
        let its = other.join().unwrap();
        let done: Vec<u32> = mine.iter().zip(its).map(|(mine, its)| mine + its).collect();
        assert_eq!(done, [1; PIECES as usize], "not once");
        assert!(spread.is_done());
    });
}

/// One worker dies after so many stores; whether it did. `clears` its seat when it has.
fn with_death(stores: u32, clears: bool) -> bool {
    let (seats, spread, a, b) = parts();
    let others = spread.clone();
    let other = thread::spawn(move || with_stores(stores, || work(&others, a)).is_err());
    work(&spread, b);
    let died = other.join().unwrap();
    if died && clears {
        seats.clear(a);
    }
    work(&spread, b);
    assert!(spread.is_done(), "lost piece");
    died
}

#[test]
fn a_worker_may_die() {
    for_each_death(1, |stores| with_death(stores, true));
}

#[test]
fn its_next_life_does_what_it_left() {
    for_each_death(1, |stores| {
        let (seats, spread, a, _) = parts();
        let others = spread.clone();
        let other = thread::spawn(move || with_stores(stores, || work(&others, a)).is_err());
        let died = other.join().unwrap();
        work(&spread, seats.enter(0).expect("it is there"));
        assert!(spread.is_done(), "lost piece");
        died
    });
}

#[test]
fn control_nobody_takes_over() {
    must_fail("lost piece", || {
        with_death(2, false);
    });
}

/// A thief that notes nothing before it takes the rear half.
#[test]
fn control_a_theft_without_a_note() {
    must_fail("lost piece", || {
        let seats = seats(2);
        let [a, b] = [0, 1].map(|number| seats.enter(number).expect("it is there"));
        let region = Region::owned(Spread::region_len(2, PIECES));
        let spread = Spread::attach(region.clone(), seats.clone()).expect("its size");
        spread.begin(PIECES).expect("none is unfinished");
        let words = Arc::new(region);
        let its = words.clone();
        // It cuts the other's range short, and dies.
        let other = thread::spawn(move || {
            let range = &its.lines()[2][0];
            let old = nile_sync::words::load(range);
            let (begin, end) = (old >> 40, old >> 16 & 0xff_ffff);
            if begin < end {
                let left = begin << 40 | (end - 1) << 16 | old & 0xffff;
                let _ = nile_sync::words::exchange(range, old, left);
            }
        });
        other.join().unwrap();
        seats.clear(a);
        work(&spread, b);
        assert!(spread.is_done(), "lost piece");
    });
}
