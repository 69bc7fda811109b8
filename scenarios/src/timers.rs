//! Deadlines of one core come in order and never early; every core sleeps at once.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_kernel::{Core, Join};
use nile_platform::Machine;

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};

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
        let order = order.borrow();
        let sorted = order.is_sorted();
        findings.check(sorted, format_args!("deadlines came out of order: {order:?}"));
        findings.check(order.len() > 1, format_args!("the machine was too slow to arm any"));
        findings.figure("in_order", order.len() as u64);
    });
}
