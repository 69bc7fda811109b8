//! What a measure makes of calls.

use nile_abi::{CoreId, Generation};

use super::*;
use crate::ServiceNumber;

const MICROS: Duration = Duration::from_micros(1);

fn place(number: u16) -> Place {
    let (node, core, generation) = (Place::HERE, CoreId(1), Generation(1));
    Place { node, core, generation, number: ServiceNumber(number) }
}

fn after(calls: &[(u32, bool)]) -> Measure {
    let mut measure = Measure::new();
    for (micros, failed) in calls {
        measure.note(Some(MICROS * *micros), *failed);
    }
    measure
}

#[test]
fn one_late_answer_is_nothing_and_slowness_shows() {
    let quick = [(100, false); 8];
    assert_eq!(after(&quick).latency_ns(), 100_000);
    let late = [&quick[..], &[(1_000_000, false)], &quick].concat();
    assert_eq!(after(&late).latency_ns(), 100_000);
    let slow = after(&[&quick[..], &[(1000, false); 4]].concat()).latency_ns();
    assert!((600_000..1_000_000).contains(&slow), "{slow}");
}

#[test]
fn failures_count_as_time_and_are_forgotten() {
    let mut measure = after(&[(100, false); 8]);
    for _ in 0..8 {
        measure.note(Some(MICROS), true);
    }
    assert!(measure.failures_ppm > 600_000, "{}", measure.failures_ppm);
    assert!(measure.latency_ns() > 250_000, "{}", measure.latency_ns());
    for _ in 0..400 {
        measure.note(Some(MICROS * 100), false);
    }
    assert_eq!((measure.failures_ppm, measure.latency_ns()), (0, 100_000));
}

#[test]
fn what_was_told_is_told_again_when_it_changes_or_is_old() {
    let measures = Measures::new();
    let mut now = Instant::START + BETWEEN_REPORTS;
    let mut note = |after: Duration, micros: u32| {
        now = now + after;
        let told = measures.note(now, place(1), Some(MICROS * micros), Status::Ok);
        if told {
            let known = &mut *measures.known.borrow_mut();
            let it = known.get_mut(&place(1)).unwrap();
            (it.told, it.calls) = (Some((it.latency_ns(), it.failures_ppm, now)), 0);
            measures.told.set(now);
        }
        told
    };
    assert!(note(MICROS, 100), "the first");
    assert!(!note(BETWEEN_REPORTS, 100) && !note(BETWEEN_REPORTS, 105), "about the same");
    assert!(note(REFRESH, 100), "it is old");
    assert!(!note(MICROS, 900) && !note(MICROS, 900), "too soon");
    assert!(note(BETWEEN_REPORTS, 900), "another");
}

#[test]
fn no_more_than_so_many_are_known_and_timed() {
    let measures = Measures::new();
    for number in 0..2 * MOST_MEASURED as u16 {
        measures.note(Instant::START, place(number), Some(MICROS), Status::Ok);
        assert!(measures.known.borrow().len() <= MOST_MEASURED);
    }
    let at = |millis| Instant::START + SPAN * millis;
    let timed = |millis| (0..100).filter(|_| measures.takes(at(millis))).count();
    assert_eq!((timed(0), timed(1)), (usize::from(BUDGET), usize::from(BUDGET)));
    measures.note(at(2), place(99), None, Status::Gone);
    assert!(measures.known.borrow().get(&place(99)).is_none(), "it is not there");
}
