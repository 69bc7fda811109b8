//! Every core takes and gives back memory, and opens, uses and drops channels to every other, for
//! a while and as fast as it can. When all is quiet again the node has as much free memory and as
//! many free tables as before: whatever happened in between, restarts included.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Instant, PageSize, Status};
use nile_kernel::{Core, MemoryStatistics};
use nile_platform::Machine;
use nile_sync::yield_now;

use crate::arguments::Arguments;
use crate::conduct::{conduct, conducts};
use crate::talk::say;

const SINK: u32 = 11;

/// How long the node gets to come to rest, at most.
pub const REST: Duration = Duration::from_secs(20);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let span = Duration::from_micros(arguments.number("us", 20_000));
    let begin = Instant::START + Duration::from_millis(arguments.number("begin_ms", 300));
    let end = begin + span;
    let sink = core.clone();
    core.spawn(async move {
        while let Ok(stream) = sink.accept(SINK).await {
            sink.spawn(async move { while stream.receive().await.is_ok() {} });
        }
    });
    let churner = core.clone();
    core.spawn(async move {
        churner.sleep_until(begin).await;
        let peers: Vec<CoreId> = churner.peers().collect();
        let mut round = usize::from(churner.id().0);
        while churner.now() < end {
            round += 1;
            // A peer that is restarting, or memory that has run out, is part of the exercise.
            match once(&churner, peers[round % peers.len()], round).await {
                Ok(()) => yield_now().await,
                Err(_) => churner.sleep(Duration::from_micros(100)).await,
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "churn", move |findings| async move {
            let before = core.memory_statistics().await;
            let Some(before) = findings.expect(before, "no statistics") else { return };
            findings.check(core.now() < begin, format_args!("the node was slower than begin_ms"));
            core.sleep_until(end).await;
            let after = come_to_rest(&core, before, end + REST).await;
            let Some(after) = findings.expect(after, "no statistics") else { return };
            findings.check(
                before == after,
                format_args!("memory was lost: {before:?} before, {after:?} after"),
            );
        });
    }
}

/// Takes some memory, sends some messages, and lets go of all.
async fn once<M: Machine>(core: &Core<M>, peer: CoreId, round: usize) -> Result<(), Status> {
    let size = if round.is_multiple_of(5) { PageSize::Large } else { PageSize::Small };
    let kept = core.allocate(size).await?;
    let stream = core.open(peer, SINK, 1 << (round % 8)).await?;
    let other = core.allocate(PageSize::Small).await?;
    for number in 0..round % 20 {
        stream.send(&say(number as u64)).await?;
    }
    if round.is_multiple_of(2) {
        drop(kept);
        other.release().await
    } else {
        drop(other);
        kept.release().await
    }
}

/// Waits until nothing is on its way back any more.
pub async fn come_to_rest<M: Machine>(
    core: &Core<M>,
    wanted: MemoryStatistics,
    limit: Instant,
) -> Result<MemoryStatistics, Status> {
    loop {
        let now = core.memory_statistics().await?;
        if now == wanted || core.now() > limit {
            return Ok(now);
        }
        core.sleep(Duration::from_millis(1)).await;
    }
}
