//! What was unlinked is used again only when its reader has let go of it.

use loom::thread;
use nile_ring::Region;
use nile_sync::quiet::Quiet;
use nile_sync::seat::{Seat, Seats};
use nile_sync::words::{load, store};

use crate::{check, must_fail, seats};

const USED_AGAIN: u64 = 99;

/// A word that says which of two is linked, and the two.
fn read(data: &Region) {
    let words = data.words();
    let linked = load(&words[0]) as usize;
    assert_ne!(load(&words[1 + linked]), USED_AGAIN, "read after it was used again");
}

fn parts() -> (Quiet, Seats, Seat, Region) {
    let seats = seats(1);
    let reader = seats.enter(0).expect("it is there");
    let region = Region::owned(Quiet::region_len(1));
    (Quiet::attach(region, seats.clone()).expect("its size"), seats, reader, Region::owned(64))
}

/// A reader's turns, and one who unlinks and uses again if everybody has answered.
fn model(turns: impl Fn(&Quiet, Seat, &Region) + Send + 'static) {
    let (quiet, _, reader, data) = parts();
    quiet.come(reader);
    let (its, words) = (quiet.clone(), data.clone());
    let other = thread::spawn(move || turns(&its, reader, &words));
    store(&data.words()[0], 1);
    let round = quiet.begin();
    if quiet.is_over(round) || quiet.is_over(round) {
        store(&data.words()[1], USED_AGAIN);
    }
    other.join().unwrap();
    quiet.pass(reader);
    assert!(quiet.is_over(round), "everybody has answered");
}

#[test]
fn nothing_is_used_again_before_its_time() {
    check(3, || {
        model(|quiet, me, data| {
            read(data);
            quiet.pass(me);
            read(data);
            quiet.pass(me);
            read(data);
        });
    });
}

#[test]
fn who_sleeps_is_not_waited_for() {
    check(3, || {
        model(|quiet, me, data| {
            read(data);
            quiet.leave(me);
            quiet.come(me);
            read(data);
        });
    });
}

#[test]
fn control_who_comes_back_has_no_fence() {
    must_fail("used again", || {
        model(|quiet, me, data| {
            quiet.leave(me);
            // It answers as it does between two turns.
            quiet.pass(me);
            read(data);
        });
    });
}

#[test]
fn one_who_is_gone_is_not_waited_for() {
    check(3, || {
        let (quiet, seats, reader, _) = parts();
        let round = quiet.begin();
        assert!(!quiet.is_over(round));
        seats.clear(reader);
        assert!(quiet.is_over(round));
    });
}

/// A reader that counts its turns in a word of its own. Two more of them prove nothing: the counts
/// may become visible before its loads are made with what is stored now.
#[test]
fn control_a_count_of_turns() {
    must_fail("used again", || {
        let (_, _, _, data) = parts();
        let words = data.clone();
        let other = thread::spawn(move || {
            for turn in 1..=3 {
                read(&words);
                store(&words.words()[4], turn);
            }
            read(&words);
        });
        store(&data.words()[0], 1);
        let before = load(&data.words()[4]);
        let after = load(&data.words()[4]);
        if after >= before + 2 {
            store(&data.words()[1], USED_AGAIN);
        }
        other.join().unwrap();
    });
}
