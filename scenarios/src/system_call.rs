//! What a system call costs: a package on a worker makes empty ones, and such as bring 64 KiB.
//!
//! The two kinds take turns, round by round, each time in a package of its own. A figure is the
//! middle round's time for one call, in hundredths of a nanosecond (of an instruction where
//! instructions are counted).

use alloc::format;
use alloc::vec::Vec;

use nile_abi::{Role, RoleSet, Status};
use nile_kernel::packages::NoServices;
use nile_kernel::{Core, Ended, PackageLimits};
use nile_platform::Machine;
use nile_syscalls::FAILED;

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

/// Asks a worker to run the package: the number of the kind.
const RUN: u32 = 19;

/// The kinds: what a figure is called, and what stands in the argument before the number of calls.
const KINDS: [(&str, &str); 2] = [("system-call", ""), ("long-system-call", "long ")];

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let rounds = arguments.number("rounds", 3).max(1);
    let calls = arguments.number("calls", 100).max(1);
    Talk::serve(core, RUN, async move |core, talk| answer(core, talk, calls).await);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "system-call", move |findings| async move {
            findings.expect(measure(&core, rounds, calls, &findings).await, "no measurement");
        });
    }
}

/// Runs the package as often as it is asked to.
async fn answer<M: Machine>(core: &Core<M>, talk: &Talk<M>, calls: u64) -> Result<(), Status> {
    let image = core.find_package("syscalls").ok_or(Status::NotFound)?;
    loop {
        let kind = talk.listen().await? as usize;
        let (_, how) = KINDS.get(kind).ok_or(Status::Invalid)?;
        let argument = format!("{how}{calls}");
        let limits = PackageLimits::default();
        let image = image.clone();
        let package = core.run_package(image, argument.as_bytes(), limits, NoServices)?;
        let took = match package.ended().await.ended {
            Ended::Exited(took) => took,
            other => {
                core.machine().log(format_args!("the package ended: {other}"));
                FAILED
            }
        };
        talk.tell(took).await?;
    }
}

async fn measure<M: Machine>(
    core: &Core<M>,
    rounds: u64,
    calls: u64,
    findings: &Findings,
) -> Result<(), Status> {
    let board = core.machine().board();
    let only_worker = RoleSet::EMPTY.with(Role::Worker);
    let worker = core.peers().find(|id| board.record(*id).roles() == only_worker);
    let Some(worker) = worker else {
        findings.check(false, format_args!("no core of this node is a worker and nothing else"));
        return Ok(());
    };
    if core.find_package("syscalls").is_none() {
        findings.check(false, format_args!("the node has no package `syscalls`"));
        return Ok(());
    }
    let talk = Talk::start(core, worker, RUN).await?;
    let mut times = KINDS.map(|_| Vec::new());
    // The first round only warms up.
    for round in 0..=rounds {
        for (kind, times) in times.iter_mut().enumerate() {
            let took = talk.ask(kind as u64).await?;
            findings.check(took != FAILED, format_args!("a system call is answered wrongly"));
            if round > 0 {
                times.push(took);
            }
        }
    }
    for ((name, _), mut times) in KINDS.into_iter().zip(times) {
        times.sort_unstable();
        findings.figure(name, times[times.len() / 2]);
    }
    let (made, counted) =
        ((rounds + 1) * calls * KINDS.len() as u64, board.record(worker).system_calls());
    findings.check(
        counted >= made,
        format_args!("{worker} has counted {counted} system calls, of {made} and more"),
    );
    Ok(())
}
