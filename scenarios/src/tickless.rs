//! A worker that computes is not interrupted; with ticks on, the same worker is, and the counter
//! shows it. The worker counts around its own work, so that no other core has to be on time.

use core::time::Duration;

use nile_abi::{CoreId, Role, Status};
use nile_kernel::Core;
use nile_platform::{Cause, Machine};

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

const COMPUTE: u32 = 3;

/// What the worker's counters must show.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// No interrupt of any cause.
    Silence,
    /// Ticks: the node's configuration has turned them on for workers.
    Ticks,
}

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>, expect: Expect) {
    let span = Duration::from_millis(arguments.number("ms", 1000));
    if core.roles().contains(Role::Worker) {
        let core = core.clone();
        core.clone().spawn(async move {
            let Ok(talk) = Talk::answer(&core, COMPUTE).await else { return };
            while talk.listen().await.is_ok() {
                if compute(&core, &talk, span).await.is_err() {
                    break;
                }
            }
        });
    }
    if conducts(core) {
        let core = core.clone();
        let name = if expect == Expect::Silence { "tickless" } else { "ticked" };
        conduct(&core.clone(), name, move |findings| async move {
            let Some(worker) = last_worker(&core) else {
                return findings.check(false, format_args!("the node has no worker core"));
            };
            let told = ask(&core, worker).await;
            let Some(told) = findings.expect(told, "the worker does not tell") else { return };
            let (took, least) = (told.took, span.as_micros() as u64);
            findings.check(took >= least, format_args!("computed {took} µs of {least}"));
            findings.figure("computed_us", took);
            judge(&findings, &told.interrupts, expect);
            let woken = told.wakes;
            findings.check(woken == 0, format_args!("{woken} of them did not break into that"));
        });
    }
}

/// What a worker tells of its work: microseconds, and what was counted meanwhile.
struct Told {
    took: u64,
    wakes: u64,
    interrupts: [u64; Cause::ALL.len()],
}

/// Computes for that long and tells of it.
async fn compute<M: Machine>(core: &Core<M>, talk: &Talk<M>, span: Duration) -> Result<(), Status> {
    let record = core.machine().board().record(core.id());
    let count = || (record.wakes(), Cause::ALL.map(|cause| record.interrupts(cause)));
    // The signal that woke it may be still on its way. What comes from here on counts.
    core.machine().compute(span / 10);
    let (before, begun) = (count(), core.now());
    core.machine().compute(span);
    let (took, after) = (core.now().since(begun), count());
    talk.tell(took.as_micros() as u64).await?;
    talk.tell(after.0 - before.0).await?;
    for (after, before) in after.1.iter().zip(before.1) {
        talk.tell(after - before).await?;
    }
    Ok(())
}

async fn ask<M: Machine>(core: &Core<M>, worker: CoreId) -> Result<Told, Status> {
    let talk = Talk::start(core, worker, COMPUTE).await?;
    let (took, wakes) = (talk.ask(0).await?, talk.listen().await?);
    let mut told = Told { took, wakes, interrupts: [0; Cause::ALL.len()] };
    for count in &mut told.interrupts {
        *count = talk.listen().await?;
    }
    Ok(told)
}

fn judge(findings: &Findings, interrupts: &[u64; Cause::ALL.len()], expect: Expect) {
    for (cause, count) in Cause::ALL.into_iter().zip(interrupts) {
        findings.figure(cause.name(), *count);
    }
    let (all, ticks) = (interrupts.iter().sum::<u64>(), interrupts[Cause::Tick as usize]);
    match expect {
        Expect::Silence => {
            findings.check(all == 0, format_args!("{all} interrupts while it computed"));
        }
        Expect::Ticks => findings.check(ticks > 0, format_args!("no tick was counted")),
    }
}

/// The last core that works and does not manage.
pub fn last_worker<M: Machine>(core: &Core<M>) -> Option<CoreId> {
    let board = core.machine().board();
    let works = |id: &CoreId| board.record(*id).roles().contains(Role::Worker);
    core.peers().filter(works).filter(|id| *id != CoreId::BOOT).last()
}
