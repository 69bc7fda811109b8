//! Packages of two cores count primes together, over a region. One that is stopped, or whose core
//! ends, leaves what it was about to the other, also where the management core has begun anew
//! meanwhile. A region is there until it is dropped, which it is not while a package has it.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Generation, KeepName, Role, RoleSet, Status};
use nile_kernel::{Core, PackageId};
use nile_platform::Machine;
use nile_primes::{BUSY, NOTHING, REFUSED};
use nile_stl::CallResult;
use nile_stl::node::{PackageLimits, PackageSource};

use crate::calls;
use crate::conduct::{Findings, conduct, conducts};
use crate::leaving::until;
use crate::talk::Talk;

const RUN: u32 = 14;

/// What a package is told, by the number that its core is: there are as many primes below two
/// million.
const ACTS: [&str; 3] = ["join 148933", "hold 2000000", "count 10"];
const JOIN: u64 = 0;
const HOLD: u64 = 1;
const OTHER: u64 = 2;

/// What a worker says of a package that has not exited.
const FAILED: u64 = u64::MAX;

/// The region: more than the package needs, and the most that is one piece of a simulation.
const NAME: &str = "primes";
const BYTES: u64 = 2 << 20;
const _: () = assert!(BYTES >= nile_primes::BYTES);

/// As long as the one that joins has for all that it can do alone, and how long it is waited for
/// what a package that was just started is to do.
const ALONE: Duration = Duration::from_millis(20);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    calls::serve(core);
    Talk::answer_numbers(core, RUN, async |core: &Core<M>, number| {
        run(core, number).await.unwrap_or(FAILED)
    });
    if !conducts(core) {
        return;
    }
    let core = core.clone();
    if core.machine().generation() == Generation::FIRST {
        core.clone().spawn(async move {
            let _ = begin(&core).await;
            panic!("the management core panics on purpose");
        });
        return;
    }
    conduct(&core.clone(), "package-region", move |findings| async move {
        if let Err(status) = check(&core, &findings).await {
            findings.check(false, format_args!("{status}"));
        }
    });
}

/// Runs the package; how it exited.
async fn run<M: Machine>(core: &Core<M>, number: u64) -> CallResult<u64> {
    let act = usize::try_from(number).ok().and_then(|number| ACTS.get(number));
    let act = act.ok_or(Status::Invalid)?;
    let node = core.stl().node()?;
    let limits = PackageLimits::default();
    let package = node.run_package(PackageSource::Named(NAME), act.as_bytes(), limits)?;
    Ok(package.ended().await.code.unwrap_or(FAILED))
}

fn workers<M: Machine>(core: &Core<M>) -> Vec<CoreId> {
    let worker = RoleSet::EMPTY.with(Role::Worker);
    let board = core.machine().board();
    core.peers().filter(|id| board.record(*id).roles() == worker).collect()
}

async fn ask<M: Machine>(core: &Core<M>, worker: CoreId, act: u64) -> Result<u64, Status> {
    Talk::start(core, worker, RUN).await?.ask(act).await
}

/// Has a worker do something, and says later what came of it.
fn ask_later<M: Machine>(core: &Core<M>, worker: CoreId, act: u64) -> Rc<Cell<Option<u64>>> {
    let said: Rc<Cell<Option<u64>>> = Rc::default();
    let (own, answer) = (core.clone(), said.clone());
    core.spawn(async move {
        if let Ok(code) = ask(&own, worker, act).await {
            answer.set(Some(code));
        }
    });
    said
}

/// Whether a package of this core comes to have the region.
async fn comes_to_have<M: Machine>(core: &Core<M>, user: CoreId) -> bool {
    until(core, || {
        core.regions().iter().any(|it| it.packages.iter().any(|(core, _)| *core == user))
    })
    .await
}

/// The first incarnation makes the region, and leaves a package that holds a piece of the loop.
async fn begin<M: Machine>(core: &Core<M>) -> Result<(), Status> {
    core.all_running().await?;
    core.make_region(NAME, BYTES).await?;
    if let [_, second, ..] = workers(core)[..] {
        let _held = ask_later(core, second, HOLD);
        comes_to_have(core, second).await;
        core.sleep(ALONE).await;
    }
    Ok(())
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings) -> Result<(), Status> {
    let [first, second, ..] = workers(core)[..] else {
        findings.check(false, format_args!("no two cores of this node are workers alone"));
        return Ok(());
    };
    let expect = |what: &str, found: Option<u64>, wanted: u64| {
        findings.check(found == Some(wanted), format_args!("{what}: {found:?}, not {wanted}"));
    };
    let has = comes_to_have(core, second).await;
    findings.check(has, format_args!("nobody knows that {second} has it, after a restart"));
    expect("another loop", ask(core, first, OTHER).await.ok(), BUSY);
    for ends_core in [false, true] {
        if ends_core {
            let _held = ask_later(core, second, HOLD);
            let has = comes_to_have(core, second).await;
            findings.check(has, format_args!("{second} does not get it"));
            core.sleep(ALONE).await;
        }
        let joined = ask_later(core, first, JOIN);
        core.sleep(ALONE).await;
        findings.check(
            joined.get().is_none(),
            format_args!("a piece is done that {second} has: {joined:?}"),
        );
        match ends_core {
            false => core.stop_package(second, PackageId(1)).await?,
            true => core.end_core(second).await?,
        }
        until(core, || joined.get().is_some()).await;
        expect("what both have counted", joined.get(), 0);
    }
    refusals(core, findings).await?;
    core.all_running().await?;
    let held = ask_later(core, second, HOLD);
    let has = comes_to_have(core, second).await;
    findings.check(has, format_args!("{second} does not get it again: {held:?}"));
    let name = KeepName::region(NAME).ok_or(Status::Invalid)?;
    let dropped = core.drop_keep(name).await;
    let stays = dropped == Err(Status::Exists);
    findings.check(stays, format_args!("it was dropped while a package has it: {dropped:?}"));
    core.end_core(second).await?;
    let gone = until(core, || core.regions().iter().all(|it| it.packages.is_empty())).await;
    findings.check(gone, format_args!("somebody has it: {:?}", core.regions()));
    let before = core.memory_statistics().await?;
    core.drop_keep(name).await?;
    let after = core.memory_statistics().await?;
    let freed = after.free_bytes.saturating_sub(before.free_bytes);
    findings.check(freed >= BYTES, format_args!("{freed} bytes are free that it had"));
    let missing = REFUSED + u64::from(Status::NotFound.code());
    expect("after it was dropped", ask(core, first, JOIN).await.ok(), missing);
    core.make_region(NAME, BYTES).await?;
    expect("in a new one", ask(core, first, JOIN).await.ok(), NOTHING);
    core.drop_keep(name).await
}

/// What cannot be is refused, and changes nothing.
async fn refusals<M: Machine>(core: &Core<M>, findings: &Findings) -> Result<(), Status> {
    let before = core.regions();
    for (name, bytes, wanted) in [
        (NAME, BYTES, Ok(())),
        (NAME, BYTES * 2, Err(Status::Exists)),
        ("a/b", BYTES, Err(Status::Invalid)),
        ("", BYTES, Err(Status::Invalid)),
        ("other", 0, Err(Status::Invalid)),
        ("other", 4095, Err(Status::Invalid)),
        ("other", 1 << 40, Err(Status::Invalid)),
    ] {
        let made = core.make_region(name, bytes).await;
        let what = format_args!("{name} of {bytes} bytes: {made:?}, not {wanted:?}");
        findings.check(made == wanted, what);
    }
    let after = core.regions();
    findings.check(before == after, format_args!("{before:?} before, {after:?} after"));
    Ok(())
}
