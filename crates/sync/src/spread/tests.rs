//! Loops whose workers take turns at random.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;

use super::*;
use crate::words::Draws;
use crate::words::mortal::with_stores;

const WORKERS: u16 = 4;

/// A loop after another, whose workers take turns as drawn, and die if they may; how often each
/// piece of the last was given out.
fn run(draws: &mut Draws, may_die: bool) -> Vec<u32> {
    let seats = Seats::attach(Region::owned(Seats::region_len(usize::from(WORKERS))));
    let region = Region::owned(Spread::region_len(usize::from(WORKERS), 200));
    let spread = Spread::attach(region, seats.clone()).unwrap();
    let mut members: Vec<Seat> = (0..WORKERS).map(|it| seats.enter(it).unwrap()).collect();
    let mut given = Vec::new();
    for _ in 0..3 {
        let pieces = draws.below(200) as u32;
        spread.begin(pieces).unwrap();
        given = alloc::vec![0; pieces as usize];
        let mut held = BTreeMap::new();
        let mut steps = 0;
        while !spread.is_done() {
            assert!(steps < 100_000, "pieces are lost");
            steps += 1;
            let member = &mut members[draws.below(WORKERS.into()) as usize];
            if let Some(piece) = held.remove(&member.number) {
                spread.finish(piece);
                continue;
            }
            let stores = if may_die && draws.below(4) == 0 { draws.below(6) as u32 } else { 1_000 };
            match with_stores(stores, || spread.take(*member)) {
                Ok(Some(piece)) => {
                    given[piece.number as usize] += 1;
                    held.insert(member.number, piece);
                }
                Ok(None) => {}
                Err(_) => {
                    seats.clear(*member);
                    if draws.below(2) == 0 {
                        *member = seats.enter(member.number).unwrap();
                    }
                }
            }
            if seats.is_gone(*member) && draws.below(4) == 0 {
                *member = seats.enter(member.number).unwrap();
            }
        }
    }
    given
}

proptest! {
    #[test]
    fn every_piece_is_given_out_once(seed: u64) {
        prop_assert!(run(&mut Draws(seed), false).iter().all(|times| *times == 1));
    }

    #[test]
    fn whoever_dies_every_piece_is_done(seed: u64) {
        prop_assert!(run(&mut Draws(seed), true).iter().all(|times| *times >= 1));
    }
}

#[test]
fn a_loop_begins_when_the_last_is_done() {
    let seats = Seats::attach(Region::owned(Seats::region_len(1)));
    let me = seats.enter(0).unwrap();
    let spread = Spread::attach(Region::owned(Spread::region_len(1, 49)), seats).unwrap();
    assert_eq!(spread.begin(MOST_PIECES), Err(NotBegun::TooMany));
    assert_eq!(spread.begin(2), Ok(()));
    assert_eq!(spread.begin(2), Err(NotBegun::Unfinished));
    let first = spread.take(me).unwrap();
    assert_eq!(spread.take(me), Some(first), "it is not finished");
    spread.finish(first);
    let second = spread.take(me).unwrap();
    spread.finish(second);
    assert_eq!(spread.take(me), None);
    assert!(spread.is_done());
}
