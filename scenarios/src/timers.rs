//! Deadlines of one core come in order and never early; every core sleeps at once. Those that have
//! tolerance come together: the four of Dhara's example, 29, 30, 31 and 32 ms from now and 2 ms
//! more or less, interrupt the core once. All of it holds with each timer that the machine has.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::{Status, Window};
use nile_kernel::{Core, Join};
use nile_platform::{Cause, Machine};

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};

/// How often the example is tried: something else may wake the core meanwhile.
const TRIES: u32 = 5;

/// Starts this core's part: only the conductor has one.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let count = arguments.number("count", 50);
    if !conducts(core) {
        return;
    }
    let core = core.clone();
    conduct(&core.clone(), "timers", move |findings| async move {
        let order = Rc::new(RefCell::new(Vec::new()));
        let start = core.now() + Duration::from_millis(20);
        // Armed in an order that is not the one in which they are due.
        let sleepers: Vec<Join<u64>> = (0..count)
            .map(|n| {
                let place = n * 7 % count;
                let due = start + Duration::from_nanos(place * 10_007);
                let (core, order) = (core.clone(), order.clone());
                core.clone().spawn(async move {
                    // Only what was armed before the first is due has an order to keep.
                    let armed = core.now() < start;
                    core.sleep_until(due).await;
                    order.borrow_mut().extend(armed.then_some(place));
                    let late = core.now().since(due);
                    if core.now() < due { u64::MAX } else { late.as_nanos() as u64 }
                })
            })
            .collect();
        let mut latest = 0;
        for sleeper in sleepers {
            latest = latest.max(sleeper.await);
        }
        findings.check(latest != u64::MAX, format_args!("a deadline came early"));
        findings.figure("latest_ns", latest);
        let order = order.take();
        let sorted = order.is_sorted();
        findings.check(sorted, format_args!("deadlines came out of order: {order:?}"));
        findings.check(order.len() > 1, format_args!("the machine was too slow to arm any"));
        findings.figure("in_order", order.len() as u64);
        example(&core, &findings).await;
        sources(&core, &findings).await;
    });
}

/// Every timer of the machine in turn ends the core's sleep, never early. It changes while
/// deadlines wait, and none of them is lost.
async fn sources<M: Machine>(core: &Core<M>, findings: &Findings) {
    let all = core.machine().timer_sources();
    let usual = core.machine().timer_source();
    findings.check(usual == 0, format_args!("the core has {usual} of {all:?} at first"));
    for (place, source) in all.iter().enumerate() {
        let taken = core.machine().take_timer_source(place);
        findings.check(taken.is_ok(), format_args!("{source:?} is refused: {taken:?}"));
        let has = core.machine().timer_source();
        findings.check(has == place, format_args!("{source:?} is not taken: it has {has}"));
        let (interrupts, mut worst) = (timer_interrupts(core), 0);
        for span in [100, 1_000, 3_000, 60_000, 250] {
            worst = worst.max(lateness(core, findings, Duration::from_micros(span)).await);
        }
        let grown = timer_interrupts(core) - interrupts;
        findings.check(grown > 0, format_args!("{source:?} has not interrupted the core"));
        findings.figure(format!("late_ns_{}", source.name), worst);
        findings.figure(format!("resolution_ns_{}", source.name), source.resolution_nanos());
    }
    let none = core.machine().take_timer_source(all.len());
    let why = Some(Status::NotFound);
    findings.check(none.err() == why, format_args!("a timer that there is not: {none:?}"));
    // Each sleeper is armed by the timer before, and woken by whichever is there then.
    let sleepers: Vec<Join<u64>> = (1..=8 * all.len() as u64)
        .map(|n| {
            let (core, findings, span) = (core.clone(), findings.clone(), n * 700);
            core.clone()
                .spawn(async move { lateness(&core, &findings, Duration::from_micros(span)).await })
        })
        .collect();
    let mut woken = 0;
    for (n, sleeper) in sleepers.into_iter().enumerate() {
        sleeper.await;
        woken += 1;
        let taken = core.machine().take_timer_source(n % all.len());
        findings.check(taken.is_ok(), format_args!("{taken:?} in place of {n}"));
    }
    findings.figure("woken_over_changes", woken);
    findings.check(core.machine().take_timer_source(usual).is_ok(), format_args!("no way back"));
}

fn timer_interrupts<M: Machine>(core: &Core<M>) -> u64 {
    core.machine().board().record(core.id()).interrupts(Cause::Timer)
}

/// How late the core wakes, in nanoseconds; early is a failure.
async fn lateness<M: Machine>(core: &Core<M>, findings: &Findings, span: Duration) -> u64 {
    let due = core.now() + span;
    core.sleep_until(due).await;
    let now = core.now();
    findings.check(now >= due, format_args!("{now} is before {due}"));
    now.since(due).as_nanos() as u64
}

async fn example<M: Machine>(core: &Core<M>, findings: &Findings) {
    let (mut exact, mut tolerant) = (0, u64::MAX);
    for _ in 0..TRIES {
        exact = exact.max(four(core, findings, Duration::ZERO).await);
        tolerant = tolerant.min(four(core, findings, Duration::from_millis(2)).await);
    }
    findings.check(tolerant <= 1, format_args!("four timers took {tolerant} interrupts"));
    findings.figure("exact_interrupts", exact);
    findings.figure("tolerant_interrupts", tolerant);
}

/// How many interrupts by this core's timer the four take.
async fn four<M: Machine>(core: &Core<M>, findings: &Findings, tolerance: Duration) -> u64 {
    // What the hardware was armed for before is over after this.
    core.sleep(Duration::from_millis(1)).await;
    let (before, now) = (timer_interrupts(core), core.now());
    let sleepers: Vec<Join<bool>> = (29..=32)
        .map(|due| {
            let window = Window::around(now + Duration::from_millis(due), tolerance);
            let own = core.clone();
            core.spawn(async move {
                own.sleep_in(window).await;
                own.now() >= window.from()
            })
        })
        .collect();
    for sleeper in sleepers {
        findings.check(sleeper.await, format_args!("a timer came before its window"));
    }
    timer_interrupts(core) - before
}
