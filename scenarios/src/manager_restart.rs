//! The management core's kernel panics while workers hold memory and talk to each other. It comes
//! back; their memory stays theirs and can be given back, their channels go on, and new requests
//! are served.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use nile_abi::{CoreId, Generation, PageSize, Status};
use nile_kernel::{Core, Frame};
use nile_platform::Machine;

use crate::conduct::{conduct, conducts};
use crate::restart::wait_for;
use crate::talk::Talk;

/// A worker's report to the second incarnation of the management core.
const TOLD: u32 = 9;
/// Talk between workers, begun before the restart.
const NEXT: u32 = 10;

/// A worker's word to the first incarnation that it is ready.
const READY: u32 = 12;

const FRAMES: u64 = 6;

/// Frames that a worker takes from the second incarnation before it looks at what it has.
const ROUNDS_AFTER: u64 = 10;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    if !conducts(core) {
        let worker = core.clone();
        core.spawn(async move { work(&worker).await });
        let answerer = core.clone();
        core.spawn(async move {
            while let Ok(talk) = Talk::answer(&answerer, NEXT).await {
                answerer.spawn(async move {
                    while let Ok(number) = talk.listen().await {
                        if talk.tell(number + 1).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        return;
    }
    if core.machine().generation() == Generation::FIRST {
        let core = core.clone();
        core.clone().spawn(async move {
            if core.all_running().await.is_ok() {
                for worker in workers(&core) {
                    // Its answer says that it holds memory and talks to its neighbour.
                    if let Ok(talk) = Talk::start(&core, worker, READY).await {
                        let _ = talk.ask(0).await;
                    }
                }
                core.sleep(Duration::from_millis(2)).await;
            }
            panic!("the management core panics on purpose");
        });
        return;
    }
    let core = core.clone();
    conduct(&core.clone(), "manager-restart", move |findings| async move {
        let generation = core.machine().generation();
        findings.check(generation == Generation(2), format_args!("this is {generation}"));
        for worker in workers(&core) {
            let talk = Talk::start(&core, worker, TOLD).await;
            let Some(talk) = findings.expect(talk, "no talk with a worker") else { return };
            let wrong = talk.ask(0).await;
            findings.check(wrong == Ok(0), format_args!("{worker} finds {wrong:?} things wrong"));
        }
    });
}

fn workers<M: Machine>(core: &Core<M>) -> Vec<CoreId> {
    core.peers().filter(|peer| *peer != CoreId::BOOT).collect()
}

/// Takes memory and begins a talk before the restart, takes and gives back memory all through it,
/// and looks at everything after it.
async fn work<M: Machine>(core: &Core<M>) {
    let before = take(core, FRAMES).await;
    let talk = Talk::start(core, neighbour(core), NEXT).await;
    let Ok(ready) = Talk::answer(core, READY).await else { return };
    if ready.listen().await.is_ok() {
        let _ = ready.tell(0).await;
    }
    let second = || core.machine().board().record(CoreId::BOOT).generation() >= Generation(2);
    let mut rounds = 0;
    while !second() || rounds < ROUNDS_AFTER {
        for (_, frame) in take(core, 1).await {
            // When the management core is gone meanwhile, the frame goes back in another round.
            drop(frame);
        }
        rounds = if second() { rounds + 1 } else { 0 };
    }
    wait_for(core, CoreId::BOOT, Generation(2)).await;
    let Ok(told) = Talk::answer(core, TOLD).await else { return };
    let after = take(core, FRAMES).await;
    let mut wrong = 0;
    wrong += u64::from(before.len() as u64 != FRAMES || after.len() as u64 != FRAMES);
    for (mark, frame) in before.iter().chain(&after) {
        wrong += frame.words().iter().filter(|w| w.load(Relaxed) != *mark).count() as u64;
    }
    wrong += match &talk {
        Ok(talk) => u64::from(talk.ask(5).await != Ok(6)),
        Err(_) => 1,
    };
    for (_, frame) in before.into_iter().chain(after) {
        wrong += u64::from(frame.release().await.is_err());
    }
    while told.listen().await.is_ok() {
        if told.tell(wrong).await.is_err() {
            break;
        }
    }
}

/// Takes frames and marks every word; asks again when the management core restarts in between.
async fn take<M: Machine>(core: &Core<M>, count: u64) -> Vec<(u64, Frame<M>)> {
    let mut frames = Vec::new();
    for n in 0..count {
        let frame = loop {
            match core.allocate(PageSize::Small).await {
                Err(Status::Dead) => core.sleep(Duration::from_micros(100)).await,
                other => break other,
            }
        };
        let Ok(frame) = frame else { break };
        let mark = u64::from(core.id().0) << 32 | u64::from(frame.grant().start.0 as u32) | n;
        frame.words().iter().for_each(|word| word.store(mark, Relaxed));
        frames.push((mark, frame));
    }
    frames
}

/// The next core that does not manage; on a node with one, that one.
fn neighbour<M: Machine>(core: &Core<M>) -> CoreId {
    let last = core.peers().last().unwrap_or(core.id());
    if core.id() == last { CoreId(1) } else { CoreId(core.id().0 + 1) }
}
