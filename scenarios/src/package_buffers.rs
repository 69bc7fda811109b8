//! Packages and the node's pool: buffers go from user mode to user mode of another core and back,
//! each sees what the other has in its own, and what packages keep is free when they have ended.
//! The packages are run as a service runs them: by their names, and from files that have come.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_kernel::{Core, PackageLimits, Pool};
use nile_package::{Image, stub};
use nile_platform::Machine;
use nile_stl::node::{PackageSource, RunningPackage};

use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

/// Asks a worker to run the package.
const RUN: u32 = 23;

/// What a worker may be asked to do: the packages and their acts.
const ACTS: [(&str, &str); 3] = [("buffers", "pass"), ("buffers", "read"), ("unruly", "read-pool")];

/// Which of them reads the pool without leave.
const STRAY: u64 = 2;

/// Where in a request its act stands; the other core is below.
const ACT: u32 = 16;

/// In a request: the package comes as a file, one that is no package, or is stopped.
const SHIPPED: u64 = 1 << 32;
const GARBAGE: u64 = 1 << 33;
const STOPPED: u64 = 1 << 34;

/// What a worker says of a package that did not end by itself.
const FAULT: u64 = 1 << 32;
const STOP: u64 = 2 << 32;
const NOT_LOADED: u64 = 3 << 32;
const OTHER_END: u64 = 4 << 32;

/// How often the packages run, each time on the memory that the last ones had.
const RUNS: u64 = 3;

/// For how long a package that is to be stopped runs.
const WHILE: Duration = Duration::from_millis(2);

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
        let package = begin(core, asked)?;
        if asked & STOPPED != 0 {
            core.sleep(WHILE).await;
            package.stop();
        }
        let end = package.ended().await;
        let told = match (end.code, end.kind) {
            (Some(code), _) => code,
            (None, "stopped") => STOP,
            (None, "not loaded") => NOT_LOADED,
            (None, "page fault") => FAULT,
            (None, _) => {
                core.machine().log(format_args!("the package ended: {}", end.text));
                OTHER_END
            }
        };
        talk.tell(told).await?;
    }
}

/// Starts what is asked for, as a service of this core would.
fn begin<M: Machine>(core: &Core<M>, asked: u64) -> Result<Rc<dyn RunningPackage>, Status> {
    let act = (asked >> ACT & 0xffff) as usize;
    let (name, act) = ACTS.get(act).ok_or(Status::Invalid)?;
    let argument = match *name {
        "unruly" => String::from(*act),
        _ => format!("{} {act}", asked & 0xffff),
    };
    let source = match core.find_package(name).ok_or(Status::NotFound)? {
        _ if asked & GARBAGE != 0 => PackageSource::File(Rc::from(&[7; 4096][..])),
        _ if asked & SHIPPED == 0 => PackageSource::Named(name),
        Image::Elf(file) => PackageSource::File(Rc::from(file)),
        Image::Shipped(file) => PackageSource::File(file),
        Image::Linked(name) => {
            let file = stub::file(&format!("name {name}\nuses pool\n"));
            PackageSource::File(Rc::from(file))
        }
    };
    let node = core.stl().node().map_err(|error| error.status)?;
    node.run_package(source, argument.as_bytes(), PackageLimits::default())
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
    let all_free = |when: &str| {
        let free = core.pool().map(|pool| (pool.free_buffers(), pool.capacity()));
        let all = free.is_some_and(|(free, all)| free == all);
        findings.check(all, format_args!("{when} so many buffers are free: {free:?}"));
    };
    for run in 0..RUNS {
        let how = if run % 2 == 1 { SHIPPED } else { 0 };
        for ((talk, (_, other)), act) in talks.iter().zip(pair).zip(0u64..) {
            talk.tell(how | ((act + run) % 2) << ACT | u64::from(other.0)).await?;
        }
        for (talk, (own, _)) in talks.iter().zip(pair) {
            let code = talk.listen().await?;
            findings.check(code == 0, format_args!("{own}'s package exits with {code}"));
        }
        all_free(&format!("after run {run}"));
    }
    for (talk, (own, other)) in talks.iter().zip(pair) {
        let waits = 1 << ACT | u64::from(other.0);
        for (asked, expected, what) in [
            (SHIPPED | STOPPED | waits, STOP, "does not stop a package"),
            (GARBAGE | waits, NOT_LOADED, "runs what is no package"),
            // The same addresses on the same core, for a package that has not asked for the pool.
            (STRAY << ACT, FAULT, "lets any package read the pool"),
        ] {
            talk.tell(asked).await?;
            let end = talk.listen().await?;
            findings.check(end == expected, format_args!("{own} {what}: {end:#x}"));
        }
    }
    all_free("at the end");
    findings.figure("buffers", core.pool().map_or(0, |pool: &Pool| pool.capacity() as u64));
    Ok(())
}
