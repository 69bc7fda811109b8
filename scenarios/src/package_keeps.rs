//! A package that counts in a keep. It goes on where the last run of it stopped: after an end, a
//! panic, a stop, the end of its core or of the management core, on the same core or another. Two
//! packages never have the keep at once, and what wants it to be something else is told what it is.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Generation, KeepName, Role, RoleSet, Status};
use nile_keeper::{BYTES, ELSEWHERE, OTHER, REFUSED, VERSION};
use nile_kernel::packages::NoServices;
use nile_kernel::{Core, Ended, PackageId, PackageLimits};
use nile_platform::{CorePhase, Machine};
use nile_stl::node::Stay;

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

const RUN: u32 = 13;

/// What the package is to do, by the number that a worker is told.
const ACTS: [&str; 5] = ["add", "fault", "hold", "renew", "add"];
const ADD: u64 = 0;
const FAULT: u64 = 1;
const HOLD: u64 = 2;
const RENEW: u64 = 3;
/// As a job's package, which passes.
const PASS: u64 = 4;

/// What a worker says of a package that has not exited, or does not end.
const PANICKED: u64 = Status::Panicked as u64;
const HOLDS: u64 = 1 << 32;
const FAILED: u64 = 2 << 32;

/// The keep.
const PACKAGE: &str = "keeper";
const NAME: &str = "count";

/// How long it is waited for what comes true by itself.
const WAIT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// Starts this core's part. In a simulation the keep is one piece, of `bytes` bytes.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let bytes = arguments.number("bytes", BYTES);
    Talk::answer_numbers(core, RUN, async move |core: &Core<M>, number| {
        run(core, number, bytes).await.unwrap_or(FAILED)
    });
    if !conducts(core) {
        return;
    }
    let core = core.clone();
    if core.machine().generation() == Generation::FIRST {
        core.clone().spawn(async move {
            begin(&core).await;
            panic!("the management core panics on purpose");
        });
        return;
    }
    conduct(&core.clone(), "package-keeps", move |findings| async move {
        if let Err(status) = check(&core, &findings, bytes).await {
            findings.check(false, format_args!("{status}"));
        }
    });
}

/// Runs the package; how it exited, or that it holds its keep.
async fn run<M: Machine>(core: &Core<M>, number: u64, bytes: u64) -> Result<u64, Status> {
    let act = usize::try_from(number).ok().and_then(|number| ACTS.get(number));
    let argument = format!("{bytes} {}", act.ok_or(Status::Invalid)?);
    let image = core.find_package(PACKAGE).ok_or(Status::NotFound)?;
    let stays = (number != PASS).then_some(Stay(0));
    let limits = PackageLimits { stays, ..PackageLimits::default() };
    let calls = || core.machine().board().record(core.id()).system_calls();
    let before = calls();
    let package = core.run_package(image, argument.as_bytes(), limits, NoServices)?;
    if number == HOLD {
        // It has asked for the keep, and then waits.
        let limit = core.now() + WAIT;
        while calls() < before + 2 && core.now() < limit {
            core.sleep(LOOK).await;
        }
        return Ok(HOLDS);
    }
    match package.ended().await.ended {
        Ended::Exited(code) => Ok(code),
        _ => Ok(FAILED),
    }
}

fn workers<M: Machine>(core: &Core<M>) -> Vec<CoreId> {
    let worker = RoleSet::EMPTY.with(Role::Worker);
    let board = core.machine().board();
    core.peers().filter(|id| board.record(*id).roles() == worker).collect()
}

async fn ask<M: Machine>(core: &Core<M>, worker: CoreId, act: u64) -> Result<u64, Status> {
    Talk::start(core, worker, RUN).await?.ask(act).await
}

/// The first incarnation counts to one, and leaves a package that holds the keep.
async fn begin<M: Machine>(core: &Core<M>) {
    if core.all_running().await.is_err() {
        return;
    }
    if let [first, second, ..] = workers(core)[..] {
        let _ = ask(core, first, ADD).await;
        let _ = ask(core, second, HOLD).await;
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings, bytes: u64) -> Result<(), Status> {
    let [first, second, ..] = workers(core)[..] else {
        findings.check(false, format_args!("no two cores of this node are workers alone"));
        return Ok(());
    };
    let expect = |what: &str, found: Result<u64, Status>, wanted: u64| {
        findings.check(found == Ok(wanted), format_args!("{what}: {found:?}, not {wanted}"));
    };
    let name = KeepName::new(PACKAGE, NAME).ok_or(Status::Invalid)?;
    // The management core has begun anew: it knows the keep, and who has it.
    let held = ask(core, first, ADD).await;
    expect("while another core has it", held, ELSEWHERE + u64::from(second.0));
    let dropped = core.drop_keep(name).await;
    let is_kept = dropped == Err(Status::Exists);
    findings.check(is_kept, format_args!("it was dropped while a package has it: {dropped:?}"));
    core.stop_package(second, PackageId(1)).await?;
    expect("after a stop", until_free(core, first).await, 3);
    expect("after an end", ask(core, first, ADD).await, 4);
    expect("a panic", ask(core, second, FAULT).await, PANICKED);
    expect("after a panic, elsewhere", ask(core, first, ADD).await, 6);
    expect("another version", ask(core, second, RENEW).await, OTHER + u64::from(VERSION));
    let denied = REFUSED + u64::from(Status::Denied.code());
    expect("a package that passes", ask(core, second, PASS).await, denied);
    expect("it holds", ask(core, second, HOLD).await, HOLDS);
    let generation = core.machine().board().record(second).generation();
    core.end_core(second).await?;
    let runs = || {
        let record = core.machine().board().record(second);
        record.generation() > generation && record.phase() == CorePhase::Running
    };
    let limit = core.now() + WAIT;
    while !runs() && core.now() < limit {
        core.sleep(LOOK).await;
    }
    expect("after the end of its core", until_free(core, first).await, 8);
    expect("where the core was ended", ask(core, second, ADD).await, 9);
    let board = core.machine().board();
    let keeps: Vec<_> = board.keeps().map(|(_, keep)| (keep.name, keep.bytes)).collect();
    findings.check(keeps == [(name, bytes)], format_args!("there are {keeps:?}"));
    let before = core.memory_statistics().await?;
    core.drop_keep(name).await?;
    let after = core.memory_statistics().await?;
    let freed = after.free_bytes.saturating_sub(before.free_bytes);
    findings.check(freed >= 2 << 20, format_args!("{freed} bytes are free that were kept"));
    findings.check(
        core.drop_keep(name).await == Err(Status::NotFound),
        format_args!("it is there after it was dropped"),
    );
    expect("after it was dropped", ask(core, first, ADD).await, 1);
    Ok(())
}

/// Has it add one, again and again until nobody else has the keep any more.
async fn until_free<M: Machine>(core: &Core<M>, worker: CoreId) -> Result<u64, Status> {
    let limit = core.now() + WAIT;
    loop {
        match ask(core, worker, ADD).await? {
            ELSEWHERE..OTHER if core.now() < limit => core.sleep(LOOK).await,
            said => return Ok(said),
        }
    }
}
