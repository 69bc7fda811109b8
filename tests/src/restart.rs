//! A worker's kernel panics. The node goes on, the worker comes back as a new incarnation, what
//! was sent to the old one is `Dead`, and the new one answers.

use core::time::Duration;

use nile_abi::{CoreId, Generation, Status};
use nile_kernel::Core;
use nile_platform::{Fault, Machine};

use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;
use crate::tickless::last_worker;

const ECHO: u32 = 7;
/// What makes the worker panic.
const PANIC: u64 = u64::MAX;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    let echo = core.clone();
    core.spawn(async move {
        while let Ok(talk) = Talk::answer(&echo, ECHO).await {
            let own = u64::from(echo.machine().generation().0);
            echo.spawn(async move {
                while let Ok(number) = talk.listen().await {
                    assert!(number != PANIC, "the conductor asked for it");
                    if talk.tell(number * 100 + own).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "restart", move |findings| async move {
            let Some(worker) = last_worker(&core) else {
                return findings.check(false, format_args!("the node has no worker core"));
            };
            for round in 1..=3 {
                once(&core, &findings, worker, round).await;
            }
        });
    }
}

/// Talks to incarnation `round` of the worker, kills it, and waits for the next.
async fn once<M: Machine>(core: &Core<M>, findings: &Findings, worker: CoreId, round: u64) {
    let talk = Talk::start(core, worker, ECHO).await;
    let Some(talk) = findings.expect(talk, "no talk with the worker") else { return };
    let answer = talk.ask(3).await;
    findings.check(answer == Ok(300 + round), format_args!("round {round} answers {answer:?}"));
    let lost = talk.ask(PANIC).await;
    findings.check(lost == Err(Status::Dead), format_args!("the panic answers {lost:?}"));
    let late = talk.tell(4).await;
    findings.check(late == Err(Status::Dead), format_args!("after it, a send gives {late:?}"));
    let next = Generation(round as u32 + 1);
    wait_for(core, worker, next).await;
    let record = core.machine().board().record(worker);
    let generation = record.generation();
    findings.check(generation == next, format_args!("{generation} after round {round}"));
    let fault = record.fault().map(|fault| fault.kind);
    findings.check(fault == Some(Fault::PANIC), format_args!("the fault is {fault:?}"));
}

/// Waits until `of` runs as `generation`, at most ten seconds.
pub async fn wait_for<M: Machine>(core: &Core<M>, of: CoreId, generation: Generation) {
    let running = || {
        let record = core.machine().board().record(of);
        record.generation() >= generation && record.phase() == nile_platform::CorePhase::Running
    };
    for _ in 0..100_000 {
        if running() {
            return;
        }
        core.sleep(Duration::from_micros(100)).await;
    }
}
