//! Many calls at once, from every core to every core; each is answered once, with its own answer.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::poll_fn;
use core::task::{Poll, Waker};

use nile_abi::CoreId;
use nile_kernel::{Core, Join};
use nile_platform::Machine;
use nile_stl::{CallResult, Stl};

use crate::arguments::Arguments;
use crate::calls::{probe_on, serve};
use crate::conduct::{conduct, conducts};

/// Starts this core's part: the conductor asks every core's probe to call every core's.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let calls = arguments.number("calls", 10_000);
    serve(core);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "flood", move |findings| async move {
            let stl = core.stl();
            let cores = core.peers().count() as u64;
            let each = calls.div_ceil(cores * cores);
            let asked: Vec<Join<CallResult<u64>>> = core
                .peers()
                .map(|peer| {
                    let stl = stl.clone();
                    core.spawn(async move { probe_on(&stl, peer).await?.flood(each).await })
                })
                .collect();
            let mut good = 0;
            for answered in asked {
                good += findings.expect(answered.await, "a core could not call").unwrap_or(0);
            }
            findings.figure("calls", good);
            let wanted = each * cores * cores;
            findings.check(good == wanted, format_args!("{good} good answers of {wanted}"));
        });
    }
}

/// Calls the probe of every core so many times at once, each in a task of its own: how many
/// answers were right.
pub async fn flood(stl: &Stl, each: u64) -> CallResult<u64> {
    let (good, left) = (Rc::new(Cell::new(0)), Rc::new(Left::default()));
    for core in (0..stl.host().cores() as u16).map(CoreId) {
        let probe = Rc::new(probe_on(stl, core).await?);
        for number in (0..each).map(|number| u64::from(core.0) << 32 | number) {
            let (probe, good, left) = (probe.clone(), good.clone(), left.clone());
            left.count.set(left.count.get() + 1);
            stl.host().spawn(Box::pin(async move {
                if probe.next(number).await == Ok(number + 1) {
                    good.set(good.get() + 1);
                }
                left.one_less();
            }));
        }
    }
    left.none().await;
    Ok(good.get())
}

/// Tasks that are not over.
#[derive(Default)]
struct Left {
    count: Cell<u64>,
    waiter: Cell<Option<Waker>>,
}

impl Left {
    fn one_less(&self) {
        self.count.set(self.count.get() - 1);
        if self.count.get() == 0
            && let Some(waiter) = self.waiter.take()
        {
            waiter.wake();
        }
    }

    async fn none(&self) {
        poll_fn(|context| {
            self.waiter.set(Some(context.waker().clone()));
            if self.count.get() == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
