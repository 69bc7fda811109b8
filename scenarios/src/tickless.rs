//! A worker that computes is not interrupted; with ticks on, the same worker is, and the counter
//! shows it. The conductor looks at the counters, and looks again if that was not while the worker
//! computed: a busy host has either of them wait.

use core::time::Duration;

use nile_abi::{CoreId, Instant, Role, Status};
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

/// How often it is tried to look while the worker computes.
const TRIES: u32 = 30;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>, expect: Expect) {
    let span = Duration::from_millis(arguments.number("ms", 1000));
    if core.roles().contains(Role::Worker) {
        let core = core.clone();
        core.clone().spawn(async move {
            let Ok(talk) = Talk::answer(&core, COMPUTE).await else { return };
            while talk.listen().await.is_ok() {
                let begun = core.now();
                core.machine().compute(span);
                let ended = core.now();
                let told = talk.tell(begun.as_nanos()).await;
                if told.is_err() || talk.tell(ended.as_nanos()).await.is_err() {
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
            let seen = look(&core, worker, span).await;
            let Some(seen) = findings.expect(seen, "no talk with the worker") else { return };
            let (took, least) = (seen.took.as_micros(), span.as_micros());
            findings.check(took >= least, format_args!("computed {took} µs of {least}"));
            findings.figure("computed_us", took as u64);
            judge(&findings, &seen.interrupts, expect);
            let woken = seen.wakes;
            findings.check(woken == 0, format_args!("{woken} of them did not break into that"));
        });
    }
}

/// How long a worker computed, and what was counted in the midst of that.
struct Seen {
    took: Duration,
    wakes: u64,
    interrupts: [u64; Cause::ALL.len()],
}

/// Has a worker compute, and looks at its counters meanwhile. `Timeout` if it did not compute
/// whenever it was looked at.
async fn look<M: Machine>(core: &Core<M>, worker: CoreId, span: Duration) -> Result<Seen, Status> {
    let talk = Talk::start(core, worker, COMPUTE).await?;
    let record = core.machine().board().record(worker);
    let count = || (record.wakes(), Cause::ALL.map(|cause| record.interrupts(cause)));
    for _ in 0..TRIES {
        talk.tell(0).await?;
        // Its wake-up is the one signal that it gets; what comes from here on counts.
        core.sleep(span / 10).await;
        let (from, before) = (core.now(), count());
        core.sleep(span * 8 / 10).await;
        let (after, until) = (count(), core.now());
        let begun = Instant::from_nanos(talk.listen().await?);
        let ended = Instant::from_nanos(talk.listen().await?);
        if begun <= from && until <= ended {
            let mut interrupts = after.1;
            interrupts.iter_mut().zip(before.1).for_each(|(after, before)| *after -= before);
            return Ok(Seen { took: ended - begun, wakes: after.0 - before.0, interrupts });
        }
    }
    Err(Status::Timeout)
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
