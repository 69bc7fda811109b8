//! Waiters that take turns at random, and policies.

use alloc::vec::Vec;
use core::cell::RefCell;
use proptest::prelude::*;

use super::*;
use crate::words::Draws;
use crate::words::mortal::with_stores;

const SEATS: u16 = 6;

/// What a seat is about.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Now {
    Elsewhere,
    Waits,
    Sleeps,
    Holds,
}

/// Waiters whose steps are drawn, some of whom die. One has the lock at a time, nobody sleeps for
/// ever, and everybody who waits gets it.
fn run(draws: &mut Draws, policy: &impl Policy, may_die: bool) {
    let seats = Seats::attach(Region::owned(Seats::region_len(usize::from(SEATS))));
    let region = Region::owned(ShflLock::region_len(usize::from(SEATS)));
    let lock = ShflLock::attach(region, seats.clone()).unwrap();
    let mut members: Vec<Seat> = (0..SEATS).map(|it| seats.enter(it).unwrap()).collect();
    let mut now = [Now::Elsewhere; SEATS as usize];
    for step in 0..2_000 {
        let is_last = step >= 1_000;
        let place = draws.below(SEATS.into()) as usize;
        let me = members[place];
        let woken = RefCell::new(Vec::new());
        let wake = |seat| woken.borrow_mut().push(seat);
        let stores = if may_die && draws.below(10) == 0 { draws.below(8) as u32 } else { 1_000 };
        let sleeps = draws.below(2) == 0;
        let poll = || lock.poll(me, policy, wake).is_some();
        let had = now[place] == Now::Holds;
        let end = with_stores(stores, || match now[place] {
            Now::Elsewhere if is_last => Now::Elsewhere,
            Now::Elsewhere if lock.try_lock(me) => Now::Holds,
            Now::Elsewhere | Now::Waits => {
                lock.wait(me, sleeps);
                match (poll(), sleeps) {
                    (true, _) => Now::Holds,
                    (_, true) => Now::Sleeps,
                    _ => Now::Waits,
                }
            }
            Now::Sleeps => Now::Sleeps,
            Now::Holds => {
                lock.unlock(me, wake);
                Now::Elsewhere
            }
        });
        for seat in woken.into_inner() {
            let place = usize::from(seat.number);
            if members[place] != seat {
                continue;
            }
            assert!([Now::Sleeps, Now::Waits].contains(&now[place]), "woken for nothing");
            now[place] = Now::Waits;
        }
        let others = (0..now.len()).filter(|other| *other != place);
        let held = others.filter(|other| now[*other] == Now::Holds).count();
        match end {
            Ok(state) => {
                assert!(state != Now::Holds || held == 0, "two have the lock, {had}");
                now[place] = state;
            }
            Err(_) => {
                seats.clear(me);
                members[place] = seats.enter(me.number).unwrap();
                now[place] = Now::Elsewhere;
                // Whoever learns of a death looks again.
                for state in now.iter_mut().filter(|state| **state == Now::Sleeps) {
                    *state = Now::Waits;
                }
            }
        }
    }
    assert_eq!(now, [Now::Elsewhere; SEATS as usize], "somebody waits for ever");
}

proptest! {
    #[test]
    fn everybody_gets_it_in_turn(seed: u64) {
        run(&mut Draws(seed), &Fair, false);
        run(&mut Draws(seed), &Near(|seat| u32::from(seat % 2)), false);
        run(&mut Draws(seed), &Awake, false);
    }

    #[test]
    fn whoever_dies_the_others_get_it(seed: u64) {
        run(&mut Draws(seed), &Fair, true);
        run(&mut Draws(seed), &Near(|seat| u32::from(seat % 2)), true);
        run(&mut Draws(seed), &Awake, true);
    }
}

/// Takes the lock for each of those that wait, in the order in which they get it.
fn order(policy: &impl Policy, asleep: &[u16]) -> Vec<u16> {
    let seats = Seats::attach(Region::owned(Seats::region_len(6)));
    let lock = ShflLock::attach(Region::owned(ShflLock::region_len(6)), seats.clone()).unwrap();
    let members: Vec<Seat> = (0..6).map(|it| seats.enter(it).unwrap()).collect();
    assert!(lock.try_lock(members[0]));
    for me in &members[1..] {
        lock.wait(*me, asleep.contains(&me.number));
        assert_eq!(lock.poll(*me, policy, |_| {}), None);
    }
    let mut last = members[0];
    let mut order = Vec::new();
    while order.len() < 5 {
        lock.unlock(last, |_| {});
        let waiting = members.iter().filter(|me| !order.contains(&me.number));
        let next = waiting.copied().find(|me| lock.poll(*me, policy, |_| {}).is_some());
        last = next.expect("one of them gets it");
        order.push(last.number);
    }
    order
}

#[test]
fn waiters_go_by_policy() {
    assert_eq!(order(&Fair, &[]), [1, 2, 3, 4, 5]);
    assert_eq!(order(&Near(|seat| u32::from(seat % 2)), &[]), [1, 3, 5, 2, 4]);
    assert_eq!(order(&Awake, &[2, 3]), [1, 4, 5, 2, 3]);
}

/// One that a policy always passes over goes first in the end.
#[test]
fn nobody_is_passed_over_for_ever() {
    let seats = Seats::attach(Region::owned(Seats::region_len(4)));
    let lock = ShflLock::attach(Region::owned(ShflLock::region_len(4)), seats.clone()).unwrap();
    let [a, b, c, far] = [0, 1, 2, 3].map(|it| seats.enter(it).unwrap());
    let policy = Near(|seat| u32::from(seat == 3));
    let poll = |me| lock.poll(me, &policy, |_| {}).is_some();
    assert!(lock.try_lock(a));
    for me in [b, far, c] {
        lock.wait(me, false);
        assert!(!poll(me));
    }
    let (mut holder, mut times) = (a, 0);
    while holder != far {
        lock.unlock(holder, |_| {});
        let next = [a, b, c, far].into_iter().find(|me| *me != holder && poll(*me)).unwrap();
        if holder != far {
            lock.wait(holder, false);
        }
        holder = next;
        times += 1;
        assert!(times <= PATIENCE + 4, "it is passed over for ever");
    }
    assert!(times > 10, "the policy was not asked: {times}");
}
