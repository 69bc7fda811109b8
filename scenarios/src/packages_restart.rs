//! The management core's kernel panics while every worker is in a turn of a package that never
//! ends. The next incarnation learns what the packages have, ends them, and in the end all memory
//! is free again that was free before they began.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Role, RoleSet, Status};
use nile_kernel::packages::NoServices;
use nile_kernel::{Core, Ended, PackageId, PackageLimits};
use nile_platform::Machine;

use crate::churn::REST;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

/// A talk with the first incarnation, and one with the second.
const FIRST: u32 = 14;
const SECOND: u32 = 15;

/// How long the node gets to close what was open.
const SETTLE: Duration = Duration::from_millis(20);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    if is_worker(core, core.id()) {
        let core = core.clone();
        core.clone().spawn(async move { work(&core).await });
    }
    if !conducts(core) {
        return;
    }
    let core = core.clone();
    if core.machine().generation() == Generation::FIRST {
        core.clone().spawn(async move {
            if core.all_running().await.is_ok() {
                let mut talks = Vec::new();
                let calls = |worker| core.machine().board().record(worker).system_calls();
                for worker in core.peers().filter(|peer| is_worker(&core, *peer)) {
                    if let Ok(talk) = Talk::start(&core, worker, FIRST).await {
                        let _ = talk.ask(0).await;
                        talks.push((talk, worker, calls(worker)));
                    }
                }
                let before: Vec<_> =
                    talks.into_iter().map(|(_, worker, calls)| (worker, calls)).collect();
                // The endless package says by a system call that it has begun.
                let limit = core.now() + REST;
                for (worker, before) in before {
                    while calls(worker) == before && core.now() < limit {
                        core.sleep(SETTLE).await;
                    }
                }
                core.sleep(SETTLE).await;
            }
            panic!("the management core panics on purpose");
        });
        return;
    }
    conduct(&core.clone(), "package-manager-restart", move |findings| async move {
        // Who looked first did so before anything was taken.
        let mut noted = None;
        for worker in core.peers().filter(|peer| is_worker(&core, *peer)) {
            match end_package(&core, &findings, worker).await {
                Ok(free) => noted = noted.max(Some(free)),
                Err(status) => findings.check(false, format_args!("{worker}: {status}")),
            }
        }
        let Some(before) = noted else {
            return findings.check(false, format_args!("no worker had a package"));
        };
        let limit = core.now() + REST;
        loop {
            let now = core.memory_statistics().await;
            let Some(now) = findings.expect(now, "no statistics") else { return };
            let free = (now.free_bytes, now.free_tables);
            if free == before {
                return;
            }
            if core.now() > limit {
                let lost = format_args!("{before:?} bytes and tables were free, {free:?} are");
                return findings.check(false, lost);
            }
            core.sleep(Duration::from_millis(1)).await;
        }
    });
}

fn is_worker<M: Machine>(core: &Core<M>, id: CoreId) -> bool {
    core.machine().board().record(id).roles() == RoleSet::EMPTY.with(Role::Worker)
}

/// Ends the package of a worker; gives the bytes and the tables that were free before it began.
async fn end_package<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
    worker: CoreId,
) -> Result<(u64, u64), Status> {
    // Its own start of the talk is what the worker waits for while its package computes: the
    // package is stopped first.
    core.stop_package(worker, SECOND_PACKAGE).await?;
    let talk = Talk::start(core, worker, SECOND).await?;
    let stopped = talk.ask(0).await?;
    findings.check(stopped == 1, format_args!("{worker}'s package was not stopped: {stopped}"));
    let free_bytes = talk.ask(1).await?;
    let free_tables = talk.ask(2).await?;
    Ok((free_bytes, free_tables))
}

/// The number of the package that is running when the management core restarts.
const SECOND_PACKAGE: PackageId = PackageId(2);

/// Runs one package that ends, notes what is free when all is quiet, and runs one that does not.
async fn work<M: Machine>(core: &Core<M>) -> Result<(), Status> {
    let first = Talk::answer(core, FIRST).await?;
    run(core, "hello", "restart").await?;
    first.listen().await?;
    first.tell(0).await?;
    // When the talk ends, all workers have come to this point.
    let _ = first.listen().await;
    drop(first);
    core.sleep(SETTLE).await;
    let free = core.memory_statistics().await?;
    // The other workers have looked, too, before anything is taken.
    core.sleep(2 * SETTLE).await;
    let end = run(core, "unruly", "loop").await?;
    let second = Talk::answer(core, SECOND).await?;
    let answers = [u64::from(end == Ended::Stopped), free.free_bytes, free.free_tables];
    while let Ok(question) = second.listen().await {
        let answer = usize::try_from(question).ok().and_then(|at| answers.get(at).copied());
        second.tell(answer.unwrap_or(0)).await?;
    }
    Ok(())
}

async fn run<M: Machine>(core: &Core<M>, name: &str, argument: &str) -> Result<Ended, Status> {
    let image = core.find_package(name).ok_or(Status::NotFound)?;
    let limits = PackageLimits::default();
    let package = core.run_package(image, argument.as_bytes(), limits, NoServices)?;
    Ok(package.ended().await.ended)
}
