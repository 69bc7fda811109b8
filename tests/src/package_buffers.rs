//! Packages and the node's pool: buffers go from user mode to user mode of another core and back,
//! and what packages keep is free when they have ended.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_kernel::{Core, Ended, PackageLimits, Pool, ServiceCalls};
use nile_platform::Machine;

use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

/// Asks a worker to run the package.
const RUN: u32 = 23;

/// What a worker may be asked to do: the packages and their acts.
const ACTS: [(&str, &str); 3] = [("buffers", "pass"), ("buffers", "read"), ("unruly", "read-pool")];

/// Which of them reads the pool without leave.
const STRAY: u64 = 2;

/// What a worker says of a package that was stopped for what it did.
const FAULTED: u64 = 1 << 32;

/// The same of any other end.
const OTHER_END: u64 = 2 << 32;

/// How often the packages run, each time on the memory that the last ones had.
const RUNS: u64 = 3;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    let worker = core.clone();
    core.spawn(async move {
        while let Ok(talk) = Talk::answer(&worker, RUN).await {
            let worker = worker.clone();
            worker.clone().spawn(async move { run(&worker, &talk).await });
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "package-buffers", move |findings| async move {
            if core.pool().is_none() {
                return findings.check(false, format_args!("the configuration gives no pool"));
            }
            if let Err(status) = check(&core, &findings).await {
                findings.check(false, format_args!("a worker says {status}"));
            }
        });
    }
}

/// Runs the package, and says how it ended.
async fn run<M: Machine>(core: &Core<M>, talk: &Talk<M>) -> Result<(), Status> {
    loop {
        let asked = talk.listen().await?;
        let (name, act) = ACTS.get((asked >> 16) as usize).ok_or(Status::Invalid)?;
        let argument = match asked >> 16 {
            STRAY => String::from(*act),
            _ => format!("{} {act}", asked & 0xffff),
        };
        let image = core.find_package(name).ok_or(Status::NotFound)?;
        let calls = ServiceCalls::new(&core.stl());
        let limits = PackageLimits::default();
        let package = core.run_package(image, argument.as_bytes(), limits, calls)?;
        let end = match package.ended().await.ended {
            Ended::Exited(code) => code,
            Ended::Faulted(_) => FAULTED,
            other => {
                core.machine().log(format_args!("the package ended: {other:?}"));
                OTHER_END
            }
        };
        talk.tell(end).await?;
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings) -> Result<(), Status> {
    let board = core.machine().board();
    let only_worker = RoleSet::EMPTY.with(Role::Worker);
    let workers: Vec<CoreId> =
        core.peers().filter(|id| board.record(*id).roles() == only_worker).collect();
    let [first, second, ..] = workers.as_slice() else {
        findings.check(false, format_args!("fewer than two cores of this node only work"));
        return Ok(());
    };
    let pair = [(*first, *second), (*second, *first)];
    let talks = [Talk::start(core, *first, RUN).await?, Talk::start(core, *second, RUN).await?];
    for run in 0..RUNS {
        for ((talk, (_, other)), act) in talks.iter().zip(pair).zip(0u64..) {
            talk.tell(((act + run) % 2) << 16 | u64::from(other.0)).await?;
        }
        for (talk, (own, _)) in talks.iter().zip(pair) {
            let code = talk.listen().await?;
            findings.check(code == 0, format_args!("{own}'s package exits with {code}"));
        }
        let free = core.pool().map(|pool| (pool.free_buffers(), pool.capacity()));
        let all = free.is_some_and(|(free, all)| free == all);
        findings.check(all, format_args!("after run {run} so many buffers are free: {free:?}"));
    }
    // The same addresses on the same core, for a package that has not asked for the pool.
    for (talk, (own, _)) in talks.iter().zip(pair) {
        talk.tell(STRAY << 16).await?;
        let end = talk.listen().await?;
        findings.check(end == FAULTED, format_args!("{own} lets any package read the pool: {end}"));
    }
    findings.figure("buffers", core.pool().map_or(0, |pool: &Pool| pool.capacity() as u64));
    Ok(())
}
