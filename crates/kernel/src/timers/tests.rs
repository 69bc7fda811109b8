//! Timers with and without slack, against brute force and against a list of what is armed.

extern crate std;

use alloc::sync::Arc;
use alloc::task::Wake;
use alloc::vec;
use core::sync::atomic::{AtomicU32, Ordering};
use core::time::Duration;
use std::sync::Mutex;

use proptest::prelude::*;

use super::*;

/// How many fire in one pass of a core.
const PASS: usize = 64;

fn fire(timers: &mut Timers, now: Instant, most: usize) -> usize {
    (0..most).take_while(|_| timers.fire_one(now)).count()
}

#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Notes its number when it is woken.
struct Noted(usize, Arc<Mutex<Vec<usize>>>);

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push(self.0);
    }
}

/// Timers that tell by their numbers in which order they have fired.
#[derive(Default)]
struct Told {
    timers: Timers,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Told {
    fn waker(&self, number: usize) -> Waker {
        Arc::new(Noted(number, self.order.clone())).into()
    }

    fn arm(&mut self, number: usize, window: Window, priority: u32) -> TimerId {
        let waker = self.waker(number);
        self.timers.arm(window, priority, waker)
    }

    /// What fires now, as one pass of a core has it.
    fn fire(&mut self, now: Instant) -> Vec<usize> {
        fire(&mut self.timers, now, PASS);
        core::mem::take(&mut self.order.lock().unwrap())
    }

    /// How often a core wakes that has nothing but these timers.
    fn wakes(&mut self) -> u32 {
        let mut wakes = 0;
        while let Some(due) = self.timers.next_due() {
            wakes += 1;
            assert!(!self.fire(due).is_empty(), "woken for nothing");
        }
        wakes
    }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn window(from: u64, until: u64) -> Window {
    Window::between(at(from), at(until))
}

#[test]
fn exact_timers_fire_in_order_and_not_before() {
    let mut timers = Timers::default();
    let counts: [Arc<Count>; 3] = Default::default();
    for (count, due) in counts.iter().zip([20, 10, 10]) {
        timers.arm(Window::at(at(due)), 0, count.clone().into());
    }
    assert_eq!(timers.next_due(), Some(at(10)));
    assert_eq!(fire(&mut timers, at(9), 1), 0);
    assert_eq!(fire(&mut timers, at(10), 1), 1);
    assert_eq!(counts[1].0.load(Ordering::Relaxed), 1);
    assert_eq!(fire(&mut timers, at(19), PASS), 1);
    assert_eq!(fire(&mut timers, at(u64::MAX), PASS), 1);
    assert_eq!(counts.map(|count| count.0.load(Ordering::Relaxed)), [1, 1, 1]);
    assert_eq!(timers.next_due(), None);
    assert_eq!(timers.counts(), Counts { armed: 3, fired: 3, waiting: 0, coalesced: 0 });
}

#[test]
fn a_cancelled_timer_does_not_fire() {
    for window in [window(5, 5), window(5, 9)] {
        let mut timers = Timers::default();
        let count = Arc::new(Count::default());
        let id = timers.arm(window, 0, count.clone().into());
        timers.cancel(id);
        assert!(!timers.rewake(id, &count.clone().into()));
        assert_eq!(fire(&mut timers, at(9), PASS), 0);
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert_eq!((timers.early.len(), timers.next_due()), (0, None));
    }
}

#[test]
fn the_papers_four_timers_need_one_wake() {
    let ms = Duration::from_millis;
    let mut told = Told::default();
    for (number, due) in (29..=32).enumerate() {
        told.arm(number, Window::around(at(0) + ms(due), ms(2)), 0);
    }
    assert_eq!(told.timers.next_due(), Some(at(0) + ms(31)));
    assert_eq!(told.wakes(), 1);
    assert_eq!(told.timers.counts(), Counts { armed: 4, fired: 4, waiting: 0, coalesced: 3 });
    // Without tolerance, each needs its own.
    for (number, due) in (29..=32).enumerate() {
        told.arm(number, Window::at(at(0) + ms(due)), 0);
    }
    assert_eq!(told.wakes(), 4);
}

#[test]
fn any_wake_fires_what_has_begun() {
    let mut told = Told::default();
    told.arm(0, window(10, 90), 0);
    told.arm(1, window(50, 80), 0);
    assert!(told.fire(at(9)).is_empty());
    assert_eq!(told.fire(at(20)), [0]);
    assert_eq!(told.timers.next_due(), Some(at(80)));
    assert_eq!(told.fire(at(80)), [1]);
    assert_eq!(told.timers.counts().coalesced, 1);
}

#[test]
fn priority_goes_first_and_then_the_end() {
    let mut told = Told::default();
    for (number, until, priority) in [(0, 40, 0), (1, 50, 7), (2, 30, 0), (3, 45, 7)] {
        told.arm(number, window(10, until), priority);
    }
    told.arm(4, window(10, 10), 0);
    told.arm(5, window(10, 10), 9);
    assert_eq!(told.fire(at(10)), [5, 3, 1, 4, 2, 0]);
}

#[test]
fn a_flood_of_high_priority_does_not_hold_up_the_others() {
    let mut told = Told::default();
    let crowd = PASS + 10;
    told.arm(crowd, window(1, 9), 0);
    let arm_all = |told: &mut Told| {
        for number in 0..crowd {
            told.arm(number, window(1, 9), 5);
        }
    };
    arm_all(&mut told);
    assert_eq!(told.fire(at(1)).len(), PASS);
    // As many come again; those that were found before them are not overtaken.
    arm_all(&mut told);
    let second = told.fire(at(1));
    assert_eq!(second.len(), PASS);
    assert_eq!(second[10], crowd);
}

#[test]
fn what_is_found_together_can_be_cancelled_and_rewoken() {
    let mut told = Told::default();
    let ids: Vec<TimerId> = (0..4).map(|it| told.arm(it, window(1, 9), 0)).collect();
    assert_eq!(fire(&mut told.timers, at(1), 1), 1);
    told.timers.cancel(ids[1]);
    let other = told.waker(9);
    assert!(told.timers.rewake(ids[2], &other) && !told.timers.rewake(ids[0], &other));
    assert_eq!(told.fire(at(2)), [0, 9, 3]);
    assert_eq!(told.timers.next_due(), None);
}

#[test]
fn cancelled_timers_are_not_kept_for_long() {
    let mut told = Told::default();
    let kept: Vec<TimerId> = (0..100).map(|it| told.arm(it, window(9, 99), 0)).collect();
    for _ in 0..10_000 {
        let id = told.arm(0, window(50, u64::MAX), 0);
        told.timers.cancel(id);
        assert!(told.timers.early.len() <= 2 * kept.len() + ROOM);
    }
    assert_eq!(told.fire(at(9)).len(), PASS);
    assert_eq!(told.timers.next_due(), Some(at(99)));
}

/// The fewest moments of which each window has one: some set of their ends is as good as any.
fn fewest(windows: &[(u64, u64)]) -> u32 {
    let hit = |set: u32, (from, until): (u64, u64)| {
        windows
            .iter()
            .enumerate()
            .any(|(it, (_, end))| set & 1 << it != 0 && (from..=until).contains(end))
    };
    let sets = 0..1u32 << windows.len();
    let enough = sets.filter(|set| windows.iter().all(|window| hit(*set, *window)));
    enough.map(u32::count_ones).min().unwrap()
}

#[derive(Clone, Debug)]
enum Step {
    /// From now on, how long the slack is, and the priority.
    Arm(u64, u64, u32),
    Cancel(usize),
    Rewake(usize),
    /// The core is woken by something else after a while, or by its next timer before that.
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..60, prop_oneof![Just(0u64), 0u64..60], prop_oneof![Just(0u32), 0u32..3])
            .prop_map(|(from, slack, priority)| Step::Arm(from, slack, priority)),
        any::<usize>().prop_map(Step::Cancel),
        any::<usize>().prop_map(Step::Rewake),
        (0u64..40).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn no_rule_wakes_a_core_less_often(
        windows in prop::collection::vec((0u64..40, 0u64..12), 1..=8)
    ) {
        let windows: Vec<(u64, u64)> = windows.into_iter().map(|(at, x)| (at, at + x)).collect();
        let mut told = Told::default();
        for (number, (from, until)) in windows.iter().enumerate() {
            told.arm(number, window(*from, *until), 0);
        }
        prop_assert_eq!(told.wakes(), fewest(&windows));
    }

    #[test]
    fn each_fires_once_and_in_its_window(steps in prop::collection::vec(step(), 1..120)) {
        let mut told = Told::default();
        let mut now = 0;
        // Each timer: its window, its id, whether it is to fire, and how often it did.
        let mut all: Vec<(Window, TimerId, bool, u32)> = vec![];
        let look = |told: &mut Told, all: &mut Vec<(Window, TimerId, bool, u32)>, now| {
            for number in told.fire(at(now)) {
                let (window, _, wanted, fired) = &mut all[number];
                prop_assert!(*wanted, "it was cancelled");
                prop_assert!((window.from()..=window.until()).contains(&at(now)));
                *fired += 1;
            }
            Ok(())
        };
        for step in steps {
            match step {
                Step::Arm(from, slack, priority) => {
                    let window = window(now + from, now + from + slack);
                    let id = told.arm(all.len(), window, priority);
                    all.push((window, id, true, 0));
                }
                Step::Cancel(which) if !all.is_empty() => {
                    let which = which % all.len();
                    told.timers.cancel(all[which].1);
                    all[which].2 &= all[which].3 > 0;
                }
                Step::Rewake(which) if !all.is_empty() => {
                    let which = which % all.len();
                    let waker = told.waker(which);
                    let (_, id, wanted, fired) = &all[which];
                    let waits = *wanted && *fired == 0;
                    prop_assert_eq!(told.timers.rewake(*id, &waker), waits);
                }
                Step::Cancel(_) | Step::Rewake(_) => {}
                Step::Pass(span) => {
                    let end = now + span;
                    while let Some(due) = told.timers.next_due().filter(|due| *due <= at(end)) {
                        now = due.as_nanos().max(now);
                        look(&mut told, &mut all, now)?;
                    }
                    now = end;
                    look(&mut told, &mut all, now)?;
                }
            }
        }
        while let Some(due) = told.timers.next_due() {
            now = due.as_nanos().max(now);
            look(&mut told, &mut all, now)?;
        }
        for (window, _, wanted, fired) in &all {
            prop_assert_eq!(u32::from(*wanted), *fired, "{:?}", window);
        }
        prop_assert!(told.timers.due.is_empty());
    }
}
