//! The management core's kernel panics, or leaves as planned, perhaps for another image, while
//! workers hold memory and talk to each other. It comes back; their memory stays theirs and can be
//! given back, their channels go on, and new requests are served.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;

use nile_abi::{CoreId, Generation, PageSize, Status};
use nile_kernel::{Core, Frame};
use nile_platform::{Fault, Machine, Manager as _};

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};
use crate::restart::wait_for;
use crate::talk::Talk;

/// A worker's report to the last incarnation of the management core.
const TOLD: u32 = 9;
/// Talk between workers, begun before the restart.
const NEXT: u32 = 10;

/// A worker's word to the first incarnation that it is ready.
const READY: u32 = 12;

const FRAMES: u64 = 6;

/// Frames that a worker takes from the last incarnation before it looks at what it has.
const ROUNDS_AFTER: u64 = 10;

/// How long what is under way may take before the core leaves.
const PATIENCE: Duration = Duration::from_secs(5);

/// How the management core ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It panics.
    Panics,
    /// It leaves as planned.
    Leaves,
    /// It leaves for the image in this file that was handed to the node.
    WithImage(u64),
    /// The image fails before it does anything, and the core has its own again.
    WithBadImage(u64),
}

impl How {
    /// As the arguments have it: the file of an image, counted from one, and whether it is `bad`.
    pub fn planned(arguments: &Arguments<'_>) -> How {
        match (arguments.number("image", 0), arguments.number("bad", 0)) {
            (0, _) => How::Leaves,
            (file, 0) => How::WithImage(file - 1),
            (file, _) => How::WithBadImage(file - 1),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            How::Panics => "manager-restart",
            _ => "manager-renewal",
        }
    }

    /// The incarnation that goes on.
    const fn last(self) -> Generation {
        match self {
            How::WithBadImage(_) => Generation(3),
            _ => Generation(2),
        }
    }

    async fn end<M: Machine>(self, core: &Core<M>) {
        let file = match self {
            How::Panics => panic!("the management core panics on purpose"),
            How::Leaves => None,
            How::WithImage(file) | How::WithBadImage(file) => Some(file),
        };
        let stl = core.stl();
        let node = stl.node().expect("it manages the node");
        if let Some(file) = file {
            node.load_image(core.id(), file).expect("the file is an image");
        }
        node.renew_own(PATIENCE).expect("it can leave");
    }
}

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, how: How) {
    if !conducts(core) {
        let worker = core.clone();
        core.spawn(async move { work(&worker, how.last()).await });
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
            how.end(&core).await;
        });
        return;
    }
    let core = core.clone();
    conduct(&core.clone(), how.name(), move |findings| async move {
        let generation = core.machine().generation();
        findings.check(generation == how.last(), format_args!("this is {generation}"));
        let fault = core.machine().board().record(core.id()).fault();
        let wanted = match how {
            How::Panics | How::WithBadImage(_) => Fault::PANIC,
            How::Leaves | How::WithImage(_) => Fault::PLANNED,
        };
        let is_wanted = fault.is_some_and(|it| it.kind == wanted);
        findings.check(is_wanted, format_args!("the last incarnation ended by {fault:?}"));
        let image = core.machine().manager().map_or(0, |it| it.image(core.id()));
        let has_image = matches!(how, How::WithImage(_));
        findings.check((image != 0) == has_image, format_args!("it runs image {image:x}"));
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
async fn work<M: Machine>(core: &Core<M>, last: Generation) {
    let before = take(core, FRAMES).await;
    let talk = Talk::start(core, neighbour(core), NEXT).await;
    let Ok(ready) = Talk::answer(core, READY).await else { return };
    if ready.listen().await.is_ok() {
        let _ = ready.tell(0).await;
    }
    let is_there = || core.machine().board().record(CoreId::BOOT).generation() >= last;
    let mut rounds = 0;
    while !is_there() || rounds < ROUNDS_AFTER {
        for (_, frame) in take(core, 1).await {
            // When the management core is gone meanwhile, the frame goes back in another round.
            drop(frame);
        }
        rounds = if is_there() { rounds + 1 } else { 0 };
    }
    wait_for(core, CoreId::BOOT, last).await;
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
