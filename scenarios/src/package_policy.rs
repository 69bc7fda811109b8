//! Scheduling policies of packages. One is asked for orders of turns, and they are kept; when it is
//! stopped, and when it is late, turns go by age; when it names who is not its own, it is expelled.

use alloc::format;
use core::time::Duration;

use nile_abi::{Role, RoleSet, Status};
use nile_interfaces::policy_manager::{PolicyEntry, PolicyManagerClient};
use nile_interfaces::registry::RegistryClient;
use nile_kernel::{Core, PackageLimits, ServiceCalls};
use nile_platform::Machine;
use nile_stl::{CallError, CallResult};

use crate::calls::serve;
use crate::conduct::{Findings, conduct, conducts};
use crate::policies::scheduling::{Bench, TURNS};
use crate::policies::{PATIENCE, RETRY, expect, expelled};
use crate::talk::Talk;

/// Asks a worker to run the package with the policy of this number; any other stops it.
const RUN: u32 = 23;

const POLICIES: [&str; 3] = ["favour", "late", "strange"];

/// How long a turn computes: orders are to come as fast as they are used up.
const TURN: Duration = Duration::from_micros(20);

/// Races until a policy is expelled.
const MOST_RACES: usize = 50;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    Talk::serve(core, RUN, run);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "package-policy", move |findings| async move {
            if let Err(error) = check(&core, &findings).await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

/// Runs the package as it is asked to, one after the other.
async fn run<M: Machine>(core: &Core<M>, talk: &Talk<M>) -> Result<(), Status> {
    let image = core.find_package("caller").ok_or(Status::NotFound)?;
    loop {
        let name = POLICIES.get(talk.listen().await? as usize).ok_or(Status::Invalid)?;
        let argument = format!("core={} {name}", core.id().0);
        let calls = ServiceCalls::new(&core.stl());
        let limits = PackageLimits::default();
        let package = core.run_package(image.clone(), argument.as_bytes(), limits, calls)?;
        talk.listen().await?;
        package.stop();
        package.ended().await;
        talk.tell(0).await?;
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings) -> CallResult<()> {
    let board = core.machine().board();
    let only_worker = RoleSet::EMPTY.with(Role::Worker);
    let worker = core.peers().find(|id| board.record(*id).roles() == only_worker);
    let Some(worker) = worker else {
        findings.check(false, format_args!("no core of this node is a worker and nothing else"));
        return Ok(());
    };
    let stl = core.stl();
    for name in ["red", "green"] {
        stl.host().subject(name);
    }
    let manager = PolicyManagerClient::find(&stl).await?;
    let bench = Bench { core: core.clone(), manager, turn: TURN };
    let talk = Talk::start(core, worker, RUN).await?;

    serve_policy(&bench, &talk, 0).await?;
    let favoured = bench.race_until(|_, red| red <= TURNS * 4 / 5).await;
    findings.check(favoured.is_ok(), format_args!("favoured, {favoured:?} of {TURNS}"));
    let state = state_of(&bench, 0).await?;
    let right = state.decisions > 0 && state.refused == 0 && state.expelled.is_none();
    findings.check(right, format_args!("{state:?}"));
    stop(&talk).await?;
    // Nobody makes orders any more, and it goes on.
    bench.race().await;
    end(&bench, 0, findings, false).await?;

    serve_policy(&bench, &talk, 1).await?;
    bench.race().await;
    end(&bench, 1, findings, false).await?;
    stop(&talk).await?;

    serve_policy(&bench, &talk, 2).await?;
    for _ in 0..MOST_RACES {
        bench.race().await;
        if state_of(&bench, 2).await?.expelled.is_some() {
            break;
        }
    }
    end(&bench, 2, findings, true).await?;
    let entry = expelled(&stl, POLICIES[2]).await?;
    let says = entry.contains("not its own; 2 bound to it went to the default");
    findings.check(says, format_args!("its entry says: {entry}"));
    let again = bench.bind("red", POLICIES[2], &[]).await.map(|_| ());
    expect(findings, again, Status::Denied, "expelled");
    stop(&talk).await?;
    let subjects = bench.manager.subjects().await?;
    let is_bound = subjects.iter().any(|it| it.policy != "default");
    findings.check(!is_bound, format_args!("still bound: {subjects:?}"));
    Ok(())
}

/// Has the package publish a policy, and both subjects bound to it.
async fn serve_policy<M: Machine>(
    bench: &Bench<M>,
    talk: &Talk<M>,
    number: usize,
) -> CallResult<()> {
    talk.tell(number as u64).await?;
    let stl = bench.core.stl();
    let (host, registry) = (stl.host(), RegistryClient::find(&stl).await?);
    let deadline = host.now() + PATIENCE;
    let name = POLICIES[number];
    while registry.instances(name, 0, 0).await?.is_empty() {
        if host.now() > deadline {
            return Err(CallError::new(Status::Timeout, format!("{name} is not published")));
        }
        host.sleep_until(host.now() + RETRY).await;
    }
    for subject in ["red", "green"] {
        let bound = bench.bind(subject, name, &[]).await?;
        if bound != name {
            let message = format!("{subject} is bound to {bound}, not to {name}");
            return Err(CallError::new(Status::NotFound, message));
        }
    }
    Ok(())
}

async fn stop<M: Machine>(talk: &Talk<M>) -> Result<(), Status> {
    talk.ask(u64::MAX).await.map(|_| ())
}

async fn state_of<M: Machine>(bench: &Bench<M>, number: usize) -> CallResult<PolicyEntry> {
    let policies = bench.manager.policies().await?;
    let state = policies.into_iter().find(|it| it.name == POLICIES[number]);
    state.ok_or_else(|| CallError::new(Status::NotFound, format!("no {}", POLICIES[number])))
}

/// Unbinds both subjects; the policy was expelled, or has done nothing wrong.
async fn end<M: Machine>(
    bench: &Bench<M>,
    number: usize,
    findings: &Findings,
    is_wrong: bool,
) -> CallResult<()> {
    let state = state_of(bench, number).await?;
    let refused = if is_wrong { 3 } else { 0 };
    let right = state.expelled.is_some() == is_wrong && state.refused == refused;
    findings.check(right, format_args!("{state:?}"));
    for subject in ["red", "green"] {
        bench.manager.unbind(subject.into()).await?;
    }
    Ok(())
}
