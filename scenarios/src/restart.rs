//! A worker's kernel panics. The node goes on, the worker comes back as a new incarnation, what
//! was sent to the old one is `Dead`, and the new one answers.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Status};
use nile_kernel::Core;
use nile_platform::{CorePhase, Fault, Machine};

use crate::conduct::{Findings, conduct, conducts};
use crate::talk::{Talk, say};
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
            crossing(&core, &findings, worker, Moment::Asked).await;
            crossing(&core, &findings, worker, Moment::Restarted).await;
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

/// What this core looks away from, while the worker ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Moment {
    /// A talk has been asked for.
    Asked,
    /// The worker is there again; a talk is asked for after that.
    Restarted,
}

/// Kills the worker and starts a talk, without a look at anything else in between: it is one with
/// the next incarnation, or it ends.
async fn crossing<M: Machine>(core: &Core<M>, findings: &Findings, worker: CoreId, when: Moment) {
    let talk = findings.expect(Talk::start(core, worker, ECHO).await, "no talk before");
    let Some(talk) = talk else { return };
    let record = core.machine().board().record(worker);
    let before = record.generation();
    let is_back = || record.generation() != before && record.phase() == CorePhase::Running;
    let deadline = core.now() + Duration::from_millis(100);
    let look_away = || {
        while !is_back() && core.now() < deadline {
            core.machine().relax();
        }
    };
    let told = talk.out.try_send(&say(PANIC));
    findings.check(told.is_ok(), format_args!("{when:?}: the worker is told {told:?}"));
    if when == Moment::Restarted {
        look_away();
    }
    let was_back = is_back();
    let mut starting = pin!(Talk::start(core, worker, ECHO));
    let first = poll_fn(|context| Poll::Ready(starting.as_mut().poll(context))).await;
    if when == Moment::Asked {
        look_away();
    }
    let started = match first {
        Poll::Ready(started) => started,
        Poll::Pending => starting.await,
    };
    match started {
        Ok(talk) => {
            let answer = talk.ask(5).await;
            let next = 500 + u64::from(before.next().0);
            findings.check(answer == Ok(next), format_args!("{when:?}: it answers {answer:?}"));
        }
        Err(status) => {
            let fits = status == Status::Dead && !was_back;
            findings.check(fits, format_args!("{when:?}: no talk: {status}"));
        }
    }
    wait_for(core, worker, before.next()).await;
}

/// Waits until `of` runs as `generation`, at most ten seconds.
pub async fn wait_for<M: Machine>(core: &Core<M>, of: CoreId, generation: Generation) {
    let running = || {
        let record = core.machine().board().record(of);
        record.generation() >= generation && record.phase() == CorePhase::Running
    };
    for _ in 0..100_000 {
        if running() {
            return;
        }
        core.sleep(Duration::from_micros(100)).await;
    }
}
