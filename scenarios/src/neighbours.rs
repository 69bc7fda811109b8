//! Packages that stay and share a core, by the service that starts them. A second one comes only if
//! it is to share; while it loops, the first one answers its callers, begins anew when it is
//! stopped from outside, and finds what it keeps. One that crashes ends alone. Jobs have the core
//! again after the last has gone.

use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;

use nile_abi::{CoreId, KeepName, Role, RoleSet, Status};
use nile_bosml::Bytes;
use nile_interfaces::packages::{PackagePhase, PackageState, PackagesClient};
use nile_keeper::BYTES;
use nile_keeper::kept::KeptClient;
use nile_kernel::{Core, PackageId};
use nile_platform::Machine;
use nile_stl::{CallError, CallResult};

use crate::arguments::Arguments;
use crate::calls;
use crate::conduct::{Findings, conduct, conducts};

/// The package that is called, and the one that loops or crashes beside it.
const SERVER: &str = "keeper";
const UNRULY: &str = "unruly";

const PATIENCE_MS: u32 = 5_000;

/// Calls while the other one loops.
const CALLS: u64 = 50;

/// How long a call may take beside it on the average: a few slices, on a busy host some more.
const MOST: Duration = Duration::from_millis(100);

/// How long it is waited for what comes true by itself.
const WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    calls::serve(core);
    if !conducts(core) {
        return;
    }
    let bytes = arguments.number("bytes", BYTES);
    let core = core.clone();
    conduct(&core.clone(), "neighbours", move |findings| async move {
        if let Err(error) = check(&core, &findings, bytes).await {
            findings.check(false, format_args!("{error}"));
        }
    });
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

/// Waits until the packages of the core are as they are to be; how they are.
async fn settled<M: Machine>(
    core: &Core<M>,
    packages: &PackagesClient,
    are: impl Fn(&[PackageState]) -> bool,
) -> CallResult<Vec<PackageState>> {
    let limit = core.now() + WAIT;
    loop {
        let states = packages.list().await?;
        if are(&states) || core.now() > limit {
            return Ok(states);
        }
        core.sleep(LOOK).await;
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings, bytes: u64) -> CallResult<()> {
    let stl = core.stl();
    let is_worker = |it: &CoreId| {
        core.machine().board().record(*it).roles() == RoleSet::EMPTY.with(Role::Worker)
    };
    let Some(worker) = core.peers().find(is_worker) else {
        findings.check(false, format_args!("no core of this node is a worker alone"));
        return Ok(());
    };
    let packages = found(core, async || PackagesClient::find_at(&stl, worker).await).await?;
    let argument = format!("{bytes} serve {}", worker.0);
    let start = async |name: &str, argument: &str, shares| {
        packages.start(name, Bytes(argument.as_bytes().into()), PATIENCE_MS, shares).await
    };
    found(core, async || start(SERVER, &argument, false).await).await?;

    let alone = start(UNRULY, "loop", false).await;
    let says = alone.as_ref().err().map(|error| (error.status, error.to_string()));
    let is_told = says.is_some_and(|(status, text)| {
        status == Status::Exists && text.contains(SERVER) && text.contains("--share")
    });
    findings.check(is_told, format_args!("it has got the core unasked: {alone:?}"));
    let twice = start(SERVER, &argument, true).await;
    let is_refused = twice.as_ref().is_err_and(|error| error.status == Status::Exists);
    findings.check(is_refused, format_args!("it is there twice: {twice:?}"));
    start(UNRULY, "loop", true).await?;

    // Both go on.
    let record = core.machine().board().record(worker);
    let kept = Rc::new(found(core, async || KeptClient::find(&stl).await).await?);
    let begun = core.now();
    for _ in 0..CALLS {
        kept.add(1).await?;
    }
    let took = core.now().since(begun);
    findings.check(took < MOST * CALLS as u32, format_args!("{CALLS} calls take {took:?}"));
    findings.figure("call_us", took.as_micros() as u64 / CALLS);
    findings.figure("calls", record.system_calls());

    // One ends, by force, and comes back to what it keeps.
    let states = packages.list().await?;
    let names: Vec<&str> = states.iter().map(|it| &*it.name).collect();
    findings.check(names == [SERVER, UNRULY], format_args!("{names:?} are there"));
    let number = states.first().map_or(0, |it| it.number);
    // What each has had of the core is told apart: one is called, the other one loops.
    if let [server, unruly] = &states[..] {
        let calls = server.system_calls >= CALLS && unruly.system_calls < CALLS;
        findings.check(calls, format_args!("who has called the kernel? {states:?}"));
        let have = server.memory_bytes > 0 && unruly.memory_bytes > 0;
        findings.check(have, format_args!("one has no memory: {states:?}"));
        let fits = server.busy_us + unruly.busy_us <= server.since_us;
        findings.check(fits, format_args!("they had more than the core: {states:?}"));
        findings.figure("server_busy_us", server.busy_us);
        findings.figure("unruly_busy_us", unruly.busy_us);
    }
    core.stop_package(worker, PackageId(number)).await?;
    let states = settled(core, &packages, |all| {
        all.first().is_some_and(|it| it.begun == 2 && it.state == PackagePhase::Runs)
    });
    let begun: Vec<u32> = states.await?.iter().map(|it| it.begun).collect();
    findings.check(begun == vec![2, 1], format_args!("they have begun {begun:?} times"));
    let count = found(core, async || KeptClient::find(&stl).await?.add(0).await).await?;
    findings.check(count == CALLS, format_args!("it has kept {count}, and not {CALLS}"));

    // The other one ends, and then crashes again and again.
    packages.stop(UNRULY).await?;
    let crash = start(UNRULY, "jump", true).await;
    match crash {
        Err(error) => {
            let is_told = error.status == Status::Failed;
            findings.check(is_told, format_args!("one that crashes is started: {error}"));
        }
        // It ran for long enough to have begun: a busy host has it crash late.
        Ok(()) => {
            let states = settled(core, &packages, |all| all.iter().any(|it| it.begun > 1)).await?;
            let is_told = states.iter().any(|it| it.name == UNRULY && it.said.contains("fault"));
            findings.check(is_told, format_args!("it has not crashed: {states:?}"));
            packages.stop(UNRULY).await?;
        }
    }
    let count = KeptClient::find(&stl).await?.add(1).await?;
    findings.check(count == CALLS + 1, format_args!("it counts {count} after the crash"));

    packages.stop(SERVER).await?;
    let states = packages.list().await?;
    findings.check(states.is_empty(), format_args!("{states:?} are still there"));
    let name = KeepName::new(SERVER, "count").ok_or(Status::Invalid)?;
    core.drop_keep(name).await?;
    // The core is as it was: one that wants it for itself gets it.
    start(SERVER, &argument, false).await?;
    packages.stop(SERVER).await?;
    match core.drop_keep(name).await {
        // It was stopped before it asked for its keep.
        Ok(()) | Err(Status::NotFound) => Ok(()),
        Err(status) => Err(status.into()),
    }
}
