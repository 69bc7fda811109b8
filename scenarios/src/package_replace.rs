//! A package that stays is replaced under callers who do not rest. None of their calls is lost:
//! what it has seen it answers, what comes meanwhile waits for the next one, and the count that it
//! keeps goes on. One that is stopped from outside comes back by itself; the calls that it had seen
//! have no answer.

use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::{format, vec::Vec};
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, KeepName, Role, RoleSet, Status};
use nile_bosml::Bytes;
use nile_interfaces::packages::{PackagePhase, PackagesClient};
use nile_keeper::BYTES;
use nile_keeper::kept::KeptClient;
use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::{CallError, CallResult};

use crate::arguments::Arguments;
use crate::calls;
use crate::conduct::{Findings, conduct, conducts};

const PACKAGE: &str = "keeper";
const PATIENCE_MS: u32 = 5_000;

/// Calls that go on at once.
const CALLERS: u64 = 2;

/// How long the package of the control is away.
const AWAY: Duration = Duration::from_millis(20);

/// How long it is waited for what comes true by itself.
const WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Starts this core's part: `rounds` replacements, `pause_us` after each; with `control=1` the
/// package is stopped and started in place of that, with `control=2` a while later, and calls may
/// be lost.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    calls::serve(core);
    if !conducts(core) {
        return;
    }
    let plan = Plan {
        bytes: arguments.number("bytes", BYTES),
        rounds: arguments.number("rounds", 5),
        pause: Duration::from_micros(arguments.number("pause_us", 2_000)),
        control: arguments.number("control", 0),
    };
    let core = core.clone();
    conduct(&core.clone(), "package-replace", move |findings| async move {
        if let Err(error) = check(&core, &findings, plan).await {
            findings.check(false, format_args!("{error}"));
        }
    });
}

#[derive(Clone, Copy)]
struct Plan {
    bytes: u64,
    rounds: u64,
    pause: Duration,
    control: u64,
}

/// What the callers have found.
#[derive(Default)]
struct Calls {
    added: Cell<u64>,
    longest: Cell<Duration>,
    lost: RefCell<Vec<String>>,
    is_over: Cell<bool>,
    callers: Cell<u64>,
}

/// Calls without rest. What is lost is asked for again, and has taken so long.
async fn call<M: Machine>(core: Core<M>, mut client: Rc<KeptClient>, calls: Rc<Calls>) {
    let mut begun = core.now();
    while !calls.is_over.get() {
        match client.add(1).await {
            Ok(_) => {
                calls.added.set(calls.added.get() + 1);
                calls.longest.set(calls.longest.get().max(core.now().since(begun)));
                begun = core.now();
            }
            Err(error) => {
                calls.lost.borrow_mut().push(error.to_string());
                core.sleep(LOOK).await;
                if let Ok(found) = KeptClient::find(&core.stl()).await {
                    client = Rc::new(found);
                }
            }
        }
    }
    calls.callers.set(calls.callers.get() - 1);
}

/// What `ask` gives, again and again until that is something.
async fn found<M: Machine, T>(
    core: &Core<M>,
    ask: impl AsyncFn() -> CallResult<T>,
) -> CallResult<T> {
    let limit = core.now() + WAIT;
    loop {
        match ask().await {
            Err(CallError { status: Status::NotFound | Status::Dead | Status::Busy, .. })
                if core.now() < limit =>
            {
                core.sleep(LOOK).await;
            }
            result => return result,
        }
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings, plan: Plan) -> CallResult<()> {
    let stl = core.stl();
    let is_worker = |it: &CoreId| {
        core.machine().board().record(*it).roles() == RoleSet::EMPTY.with(Role::Worker)
    };
    let Some(worker) = core.peers().find(is_worker) else {
        findings.check(false, format_args!("no core of this node is a worker alone"));
        return Ok(());
    };
    let packages = found(core, async || PackagesClient::find_at(&stl, worker).await).await?;
    let argument = format!("{} serve {}", plan.bytes, worker.0);
    let start = async || {
        packages.start(PACKAGE, Bytes(argument.as_bytes().into()), PATIENCE_MS, false).await
    };
    found(core, start).await?;
    let again = start().await;
    let is_refused = matches!(&again, Err(error) if error.status == Status::Exists);
    findings.check(is_refused, format_args!("a second one has got the core: {again:?}"));
    let kept = Rc::new(found(core, async || KeptClient::find(&stl).await).await?);

    let calls = Rc::new(Calls::default());
    calls.callers.set(CALLERS);
    for _ in 0..CALLERS {
        core.spawn(call(core.clone(), kept.clone(), calls.clone()));
    }
    let begun = core.now();
    for _ in 0..plan.rounds {
        core.sleep(plan.pause).await;
        if plan.control > 0 {
            packages.stop(PACKAGE).await?;
            core.sleep(if plan.control == 2 { AWAY } else { Duration::ZERO }).await;
            start().await?;
        } else {
            packages.replace(PACKAGE, PACKAGE).await?;
        }
    }
    core.sleep(plan.pause).await;
    let took = core.now().since(begun);
    let (lost, longest) = (calls.lost.borrow().len(), calls.longest.get());
    let first = calls.lost.borrow().first().cloned().unwrap_or_default();
    let may_lose = plan.control == 2;
    findings.check(may_lose || lost == 0, format_args!("{lost} calls are lost: {first}"));
    findings.figure("longest_us", longest.as_micros() as u64);
    let per_second = calls.added.get() as u128 * 1_000_000 / took.as_micros().max(1);
    findings.figure("calls_per_second", per_second as u64);

    // Not planned: who waits for an answer gets none, and the next one goes on.
    let state = async || packages.list().await?.pop().ok_or(CallError::from(Status::NotFound));
    let before = state().await?;
    core.stop_package(worker, nile_kernel::PackageId(before.number)).await?;
    let limit = core.now() + WAIT;
    while state().await?.begun == before.begun && core.now() < limit {
        core.sleep(LOOK).await;
    }
    core.sleep(plan.pause).await;
    calls.is_over.set(true);
    while calls.callers.get() > 0 && core.now() < limit + WAIT {
        core.sleep(LOOK).await;
    }
    let state = state().await?;
    let (added, unknown) = (calls.added.get(), calls.lost.borrow().len() as u64);
    let count = KeptClient::find(&stl).await?.add(0).await?;
    let is_right = (added..=added + unknown).contains(&count) && unknown <= lost as u64 + CALLERS;
    findings.check(
        is_right,
        format_args!("{count} is counted: {added} were added, and {unknown} have no answer"),
    );
    let begun = (&*state.name, state.state, state.begun);
    let wanted =
        (PACKAGE, PackagePhase::Runs, if plan.control > 0 { 2 } else { plan.rounds as u32 + 2 });
    findings.check(begun == wanted, format_args!("it is {begun:?}, not {wanted:?}"));
    packages.stop(PACKAGE).await?;
    let gone = kept.add(1).await;
    findings.check(gone.is_err(), format_args!("it answers after its end: {gone:?}"));
    let name = KeepName::new(PACKAGE, "count").ok_or(Status::Invalid)?;
    Ok(core.drop_keep(name).await?)
}
