//! A worker that computes is not interrupted; with ticks on, the same worker is, and the counter
//! shows it.

use core::time::Duration;

use nile_abi::{CoreId, Role};
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
                let before = core.now();
                core.machine().compute(span);
                let took = core.now().since(before);
                if talk.tell(took.as_micros() as u64).await.is_err() {
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
            let talk = Talk::start(&core, worker, COMPUTE).await;
            let Some(talk) = findings.expect(talk, "no talk with the worker") else { return };
            findings.expect(talk.tell(0).await, "the worker cannot be told to begin");
            // Its wake-up is the one signal that it gets; what comes from here on counts.
            core.sleep(span / 10).await;
            let wakes = || core.machine().board().record(worker).wakes();
            let (before, slept) = (counts(&core, worker), wakes());
            core.sleep(span * 8 / 10).await;
            let (after, woken) = (counts(&core, worker), wakes() - slept);
            let took = findings.expect(talk.listen().await, "the worker did not end");
            let least = span.as_micros() as u64;
            let took = took.unwrap_or(0);
            findings.check(took >= least, format_args!("computed {took} µs of {least}"));
            findings.figure("computed_us", took);
            judge(&findings, &before, &after, expect);
            findings.check(woken == 0, format_args!("{woken} of them did not break into that"));
        });
    }
}

fn judge(findings: &Findings, before: &[u64; 7], after: &[u64; 7], expect: Expect) {
    let mut all = 0;
    for cause in Cause::ALL {
        let count = after[cause as usize] - before[cause as usize];
        findings.figure(cause.name(), count);
        all += count;
    }
    let ticks = after[Cause::Tick as usize] - before[Cause::Tick as usize];
    match expect {
        Expect::Silence => {
            findings.check(all == 0, format_args!("{all} interrupts while it computed"));
        }
        Expect::Ticks => findings.check(ticks > 0, format_args!("no tick was counted")),
    }
}

fn counts<M: Machine>(core: &Core<M>, of: CoreId) -> [u64; 7] {
    Cause::ALL.map(|cause| core.machine().board().record(of).interrupts(cause))
}

/// The last core that works and does not manage.
pub fn last_worker<M: Machine>(core: &Core<M>) -> Option<CoreId> {
    let board = core.machine().board();
    let works = |id: &CoreId| board.record(*id).roles().contains(Role::Worker);
    core.peers().filter(works).filter(|id| *id != CoreId::BOOT).last()
}
