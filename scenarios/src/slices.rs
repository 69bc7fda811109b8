//! Turns of packages that end by slices. A package that loops leaves a task of its core its share,
//! by the weights that both are bound with, and timers of its core fire in time; one that has the
//! core for itself is interrupted by nothing, whatever policies there are.

use alloc::boxed::Box;
use alloc::string::ToString;
use core::ops::RangeInclusive;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_kernel::packages::NoServices;
use nile_kernel::{Core, PackageLimits};
use nile_platform::{Cause, Machine};
use nile_policy::policies::{EarliestDeadline, Fair, Fifo, RealTime};
use nile_policy::{Manager, Parameters, Refusal, SLICE};
use nile_sync::yield_now;

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;
use crate::tickless::last_worker;

const MEASURE: u32 = 21;

/// Turns of the task beside the package, and how long each computes.
const TURNS: u64 = 300;
const TURN: Duration = Duration::from_micros(100);

/// Timers that are to fire beside it, and after how long each.
const TIMERS: u64 = 5;
const SLEEP: Duration = Duration::from_millis(2);

/// System calls of the package that is interrupted by nothing, unless the argument `calls` says how
/// many: they take longer than many slices.
const CALLS: u64 = 20_000;

/// Measurements until one is as it is to be: a machine holds a core up now and then.
const MOST: usize = 8;

/// What a core is asked to measure.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// How often a package was interrupted that nobody waits for, with policies at work.
    Alone,
    /// How many slices of one that loops ended while a task of its weight had its turns; of a
    /// quarter of its weight; of nobody who is bound.
    Even,
    Quarter,
    Unbound,
    /// How often it was interrupted while timers fired.
    Timers,
}

const ALL: [What; 5] = [What::Alone, What::Even, What::Quarter, What::Unbound, What::Timers];

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let calls = arguments.number("calls", CALLS).to_string();
    let worker = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&worker, MEASURE).await else { return };
        while let Ok(number) = talk.listen().await {
            let what = ALL.get(number as usize).copied();
            let measured = match what {
                Some(what) => measure(&worker, what, &calls).await,
                None => Err(Status::Invalid),
            };
            if let Err(status) = &measured {
                worker.machine().log(format_args!("nothing is measured: {status}"));
            }
            if talk.tell(measured.unwrap_or(u64::MAX)).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "slices", move |findings| async move {
            let Some(worker) = last_worker(&core) else {
                return findings.check(false, format_args!("the node has no worker core"));
            };
            findings.expect(judge(&core, worker, &findings).await, "no measurement");
        });
    }
}

async fn judge<M: Machine>(
    core: &Core<M>,
    worker: CoreId,
    findings: &Findings,
) -> Result<(), Status> {
    let talk = Talk::start(core, worker, MEASURE).await?;
    // It has as long as the task's turns take; four times that; a slice for each pass. A host that
    // takes the processor away in the midst makes one slice of several: fewer, but never more.
    let slices = TURNS * TURN.as_micros() as u64 / SLICE.as_micros() as u64;
    for (what, name, right) in [
        (What::Alone, "alone", 0..=0),
        (What::Even, "even", 3..=slices * 2),
        (What::Quarter, "quarter", 3..=slices * 8),
        (What::Unbound, "unbound", 3..=u64::MAX - 1),
        (What::Timers, "timers", TIMERS..=u64::MAX - 1),
    ] {
        let began = core.now();
        let measured = ask(&talk, what, &right).await?;
        findings.figure(name, measured);
        if what == What::Alone {
            findings.figure("alone_ms", core.now().since(began).as_millis() as u64);
        }
        let is_right = right.contains(&measured);
        findings.check(is_right, format_args!("{name}: {measured} interrupts, of {right:?}"));
    }
    Ok(())
}

async fn ask<M: Machine>(
    talk: &Talk<M>,
    what: What,
    right: &RangeInclusive<u64>,
) -> Result<u64, Status> {
    let mut measured = 0;
    for _ in 0..MOST {
        measured = talk.ask(what as u64).await?;
        if right.contains(&measured) {
            break;
        }
    }
    Ok(measured)
}

async fn measure<M: Machine>(core: &Core<M>, what: What, calls: &str) -> Result<u64, Status> {
    let stl = core.stl();
    let node = stl.node().map_err(|error| error.status)?;
    let policies = &*node.policies();
    let (package, task) = match what {
        What::Even => (100, 100),
        What::Quarter => (400, 100),
        _ => (0, 0),
    };
    bind(core, policies, what, package, task).map_err(|_| Status::Denied)?;
    let (name, argument) = match what {
        What::Alone => ("syscalls", calls),
        _ => ("unruly", "loop"),
    };
    let image = core.find_package(name).ok_or(Status::NotFound)?;
    let limits = PackageLimits::default();
    let package = core.run_package(image, argument.as_bytes(), limits, NoServices)?;
    if what == What::Alone {
        return Ok(package.ended().await.interruptions);
    }
    let host = stl.host();
    let before = host.act_as(host.subject("red"));
    let beside = core.clone();
    // It counts itself: whoever waits for it may be bound to nothing, and have to wait.
    let count = core.spawn(async move {
        wait_for_slice(&beside).await;
        let record = beside.machine().board().record(beside.id());
        let before = record.interrupts(Cause::Timer);
        if what == What::Timers {
            for _ in 0..TIMERS {
                beside.sleep(SLEEP).await;
            }
        } else {
            for _ in 0..TURNS {
                beside.machine().compute(TURN);
                yield_now().await;
            }
        }
        record.interrupts(Cause::Timer) - before
    });
    host.act_as(before);
    let count = count.await;
    package.stop();
    package.ended().await;
    Ok(count)
}

/// Waits until the package is loaded, and has the core for a while.
async fn wait_for_slice<M: Machine>(core: &Core<M>) {
    let mut last = core.now();
    loop {
        yield_now().await;
        let now = core.now();
        if now.since(last) > SLICE / 2 {
            return;
        }
        last = now;
    }
}

/// Binds the package and the task beside it, or nobody; and where nothing is to interrupt, one
/// subject to each policy.
fn bind<M: Machine>(
    core: &Core<M>,
    policies: &dyn Manager,
    what: What,
    package: i64,
    task: i64,
) -> Result<(), Refusal> {
    policies.install("fifo", Fifo::PRIORITY, Box::<Fifo>::default());
    policies.install("fair", Fair::PRIORITY, Box::<Fair>::default());
    policies.install(
        "earliest_deadline",
        EarliestDeadline::PRIORITY,
        Box::<EarliestDeadline>::default(),
    );
    policies.install("real_time", RealTime::PRIORITY, Box::<RealTime>::default());
    let stl = core.stl();
    for name in ["red", "batch", "periodic", "urgent"] {
        stl.host().subject(name);
        policies.unbind(name);
    }
    policies.unbind("package");
    let none = Parameters::none;
    let weight = |weight| none().with("weight", weight);
    if package > 0 {
        policies.bind("package", "fair", &weight(package))?;
        policies.bind("red", "fair", &weight(task))?;
    }
    if what == What::Alone {
        let period = none().with("period_us", 10_000).with("budget_us", 1_000);
        policies.bind("package", "fair", &weight(100))?;
        policies.bind("batch", "fifo", &none())?;
        policies.bind("periodic", "earliest_deadline", &period)?;
        policies.bind("urgent", "real_time", &none())?;
    }
    Ok(())
}
