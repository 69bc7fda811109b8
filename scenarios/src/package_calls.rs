//! Packages and services: user mode calls user mode without a system call, and the kernel by one;
//! a package offers a service, which kernels and other packages call; when the package is stopped,
//! its service is gone. A package that calls every method which is not for packages is refused, and
//! changes nothing.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_caller::counter::CounterClient;
use nile_caller::{ATTACKED, TOTAL};
use nile_interfaces::registry::RegistryClient;
use nile_kernel::{Core, Ended, PackageLimits, ServiceCalls};
use nile_platform::Machine;
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Stl};

use crate::calls::{probe_on, serve};
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

/// Asks a worker to run the package: 0 to call, 1 to serve, 2 to stop it, 3 to attack.
const RUN: u32 = 17;

/// What a worker says of an end that was no exit.
const OTHER_END: u64 = 1 << 32;

/// Methods that are not for packages, of services that packages reach: there are more.
const LEAST_REFUSED: u64 = 30;

/// How long the service may take to appear or to go.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    let worker = core.clone();
    core.spawn(async move {
        while let Ok(talk) = Talk::answer(&worker, RUN).await {
            let worker = worker.clone();
            worker.clone().spawn(async move { run(&worker, &talk).await });
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "package-calls", move |findings| async move {
            if let Err(error) = check(&core, &findings).await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

/// Runs the package, and stops it when told to.
async fn run<M: Machine>(core: &Core<M>, talk: &Talk<M>) -> Result<(), Status> {
    let order = talk.listen().await?;
    let serves = order == 1;
    let image = core.find_package("caller").ok_or(Status::NotFound)?;
    let work = match order {
        1 => String::from("serve"),
        3 => format!("attack {}", names(core).await.map_err(|error| error.status)?),
        _ => String::from("call"),
    };
    let argument = format!("core={} {work}", core.id().0);
    let calls = ServiceCalls::new(&core.stl());
    let limits = PackageLimits::default();
    let package = core.run_package(image, argument.as_bytes(), limits, calls)?;
    if serves {
        talk.listen().await?;
        package.stop();
    }
    let end = match package.ended().await.ended {
        Ended::Exited(code) => code,
        other => {
            core.machine().log(format_args!("the package ended: {other:?}"));
            OTHER_END
        }
    };
    talk.tell(end).await
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings) -> CallResult<()> {
    let stl = core.stl();
    for peer in core.peers() {
        probe_on(&stl, peer).await?;
    }
    let board = core.machine().board();
    let only_worker = RoleSet::EMPTY.with(Role::Worker);
    let workers: Vec<CoreId> =
        core.peers().filter(|id| board.record(*id).roles() == only_worker).collect();
    let [server, callers @ ..] = workers.as_slice() else {
        findings.check(false, format_args!("no core of this node is a worker and nothing else"));
        return Ok(());
    };
    let serving = Talk::start(core, *server, RUN).await?;
    serving.tell(1).await?;
    let counter = counter_on(&stl, *server).await?;
    // From the kernel of this core to user mode on that one.
    findings.check(counter.add(5).await? == 5, format_args!("the package counts wrongly"));
    let error = counter.add(1001).await.err();
    let named = error.is_some_and(|it| it.status == Status::Invalid && it.message.contains("1001"));
    findings.check(named, format_args!("a package's method takes what is out of range"));
    for caller in callers {
        let talk = Talk::start(core, *caller, RUN).await?;
        talk.tell(0).await?;
        let code = talk.listen().await?;
        findings.check(code == 0, format_args!("{caller}'s package exits with {code}"));
    }
    if let Some(attacker) = callers.first() {
        let before = everything(core).await?;
        let talk = Talk::start(core, *attacker, RUN).await?;
        talk.tell(3).await?;
        let code = talk.listen().await?;
        let refused = code.checked_sub(ATTACKED).filter(|count| *count < 1000);
        let is_right = refused.is_some_and(|count| count >= LEAST_REFUSED);
        findings.check(is_right, format_args!("{attacker}'s attack exits with {code}"));
        findings.figure("refused", refused.unwrap_or(0));
        let after = everything(core).await?;
        findings.check(before == after, format_args!("{before:?} became {after:?}"));
    }
    let total = counter.add(0).await?;
    let wanted = 5 + TOTAL * callers.len() as u64;
    findings.check(total == wanted, format_args!("{total} counted, not {wanted}"));
    findings.figure("counted", total);
    serving.tell(2).await?;
    let end = serving.listen().await?;
    findings.check(end == OTHER_END, format_args!("the package was not stopped: {end}"));
    let gone = counter.add(1).await.map_err(|error| error.status);
    findings.check(gone == Err(Status::Dead), format_args!("what was stopped says {gone:?}"));
    Ok(())
}

/// The names of all services that are known here, with commas between.
async fn names<M: Machine>(core: &Core<M>) -> CallResult<String> {
    let stl = core.stl().acting_as(Binder::Operator);
    let all = RegistryClient::find(&stl).await?.list_all().await?;
    let names: BTreeSet<&str> = all.iter().map(|it| it.name.as_str()).collect();
    Ok(names.into_iter().filter(|name| *name != "probe").collect::<Vec<_>>().join(","))
}

/// What an attack could have changed: who offers what, and which incarnation each core is.
async fn everything<M: Machine>(core: &Core<M>) -> CallResult<(Vec<String>, Vec<u32>)> {
    let stl = core.stl().acting_as(Binder::Operator);
    let all = RegistryClient::find(&stl).await?.list_all().await?;
    let mut all: Vec<String> = all.iter().map(|it| format!("{} {:?}", it.name, it.found)).collect();
    all.sort_unstable();
    let board = core.machine().board();
    let generations = core.peers().map(|id| board.record(id).generation().0).collect();
    Ok((all, generations))
}

/// The service of the package on a core, once it is published.
async fn counter_on(stl: &Stl, core: CoreId) -> CallResult<CounterClient> {
    let host = stl.host();
    let deadline = host.now() + PATIENCE;
    loop {
        match CounterClient::find_at(stl, core).await {
            Err(CallError { status: Status::NotFound, .. }) if host.now() < deadline => {
                host.sleep_until(host.now() + Duration::from_micros(200)).await;
            }
            result => return result,
        }
    }
}
