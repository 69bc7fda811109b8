//! Every core takes frames of each size at once: they are zeroed, no one else writes to them, and
//! when all are given back the node has as much free memory as before.

use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

use nile_abi::{PageSize, Status};
use nile_kernel::{Core, Frame};
use nile_platform::Machine;
use nile_sync::yield_now;

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};
use crate::talk::Talk;

const BEGIN: u32 = 4;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let frames = arguments.number("frames", 20);
    let worker = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&worker, BEGIN).await else { return };
        while talk.listen().await.is_ok() {
            let wrong = use_frames(&worker, frames).await.unwrap_or(u64::MAX);
            if talk.tell(wrong).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "memory", move |findings| async move {
            let mut talks = Vec::new();
            for peer in core.peers() {
                let talk = Talk::start(&core, peer, BEGIN).await;
                talks.extend(findings.expect(talk, "no talk with a core"));
            }
            let before = findings.expect(core.memory_statistics().await, "no statistics");
            for talk in &talks {
                findings.expect(talk.tell(0).await, "a core cannot be told to begin");
            }
            for talk in &talks {
                let wrong = findings.expect(talk.listen().await, "a core did not end");
                findings.check(wrong == Some(0), format_args!("{wrong:?} wrong words"));
            }
            let after = findings.expect(core.memory_statistics().await, "no statistics");
            findings.check(
                before == after,
                format_args!("memory was lost: {before:?} before, {after:?} after"),
            );
            let Some(after) = after else { return };
            findings.figure("total_bytes", after.total_bytes);
            let mut usable = 0;
            let mut index = 0;
            while let Ok(region) = core.memory_region(index).await {
                usable += if region.usable { region.bytes } else { 0 };
                index += 1;
            }
            findings.figure("regions", index);
            findings.check(
                index > 0 && usable >= after.total_bytes,
                format_args!("{index} regions hold {usable} usable bytes"),
            );
            // Nobody has a thousand gigabytes: too large a wish is an error, not a wait.
            let huge = refused(&core).await;
            findings.check(huge, format_args!("1 GiB frames never ran out"));
        });
    }
}

/// Takes frames, writes to all of them, and says how many words were not as they should be.
async fn use_frames<M: Machine>(core: &Core<M>, count: u64) -> Result<u64, Status> {
    let mut held: Vec<(u64, Frame<M>)> = Vec::new();
    let mut wrong = 0;
    for n in 0..count {
        let size = if n % 8 == 7 { PageSize::Large } else { PageSize::Small };
        let frame = core.allocate(size).await?;
        let mark = u64::from(core.id().0) << 32 | (n + 1);
        for word in sample(&frame) {
            wrong += u64::from(frame.words()[word].swap(mark, Relaxed) != 0);
        }
        held.push((mark, frame));
        if n % 3 == 2 {
            // Out of the middle, so that collections are used in every order.
            let (mark, frame) = held.remove(held.len() / 2);
            wrong += changed(&frame, mark);
            frame.release().await?;
        }
        yield_now().await;
    }
    for (mark, frame) in held {
        wrong += changed(&frame, mark);
        frame.release().await?;
    }
    Ok(wrong)
}

fn changed<M: Machine>(frame: &Frame<M>, mark: u64) -> u64 {
    let words = frame.words();
    sample(frame).filter(|word| words[*word].load(Relaxed) != mark).count() as u64
}

/// A word of every 4 KiB, not always the first.
fn sample<M: Machine>(frame: &Frame<M>) -> impl Iterator<Item = usize> + use<M> {
    let words = frame.words().len();
    (0..words).step_by(512).map(|page| page + page / 512 % 512)
}

/// Whether taking 1 GiB frames comes to an end with the right error, and they all go back.
async fn refused<M: Machine>(core: &Core<M>) -> bool {
    let mut held = Vec::new();
    let mut end = None;
    for _ in 0..1024 {
        match core.allocate(PageSize::Huge).await {
            Ok(frame) => held.push(frame),
            Err(status) => {
                end = Some(status);
                break;
            }
        }
    }
    for frame in held {
        if frame.release().await.is_err() {
            return false;
        }
    }
    end == Some(Status::NoMemory)
}
