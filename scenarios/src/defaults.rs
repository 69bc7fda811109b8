//! The default services, called by every core on its own core and on another one, with right and
//! wrong arguments. In the end the node has as much memory as before, also when a core restarts
//! that had some of it.

mod checks;
mod grow;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::CoreId;
use nile_interfaces::physical_memory::PhysicalMemoryClient;
use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::CallResult;

use crate::calls::{probe_on, serve};
use crate::conduct::{Findings, conduct, conducts};
use crate::restart::wait_for;
use crate::talk::Talk;
use crate::tickless::last_worker;
use checks::Checks;

/// The tag of the conductor's talks.
const DEFAULTS: u32 = 19;

/// Make a frame yours and say where it is.
const TAKE: u64 = u64::MAX;
/// Run a package, and have the heap grow for it.
const GROW: u64 = u64::MAX - 2;
/// Panic.
const PANIC: u64 = u64::MAX - 1;

/// How long the node may take to give back what a core had.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    serve(core);
    let own = core.clone();
    core.spawn(async move {
        let Ok(talk) = Talk::answer(&own, DEFAULTS).await else { return };
        while let Ok(number) = talk.listen().await {
            assert!(number != PANIC, "the conductor asked for it");
            let answer = match number {
                TAKE => take(&own).await.unwrap_or(0),
                GROW => tell(&own, &grow::check(&own).await),
                foreign => use_all(&own, foreign).await,
            };
            if talk.tell(answer).await.is_err() {
                break;
            }
        }
    });
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "defaults", move |findings| async move {
            if let Err(error) = everyone(&core, &findings).await {
                findings.check(false, format_args!("the physical memory service: {error}"));
            }
        });
    }
}

/// Holds a frame for this core: where it is.
async fn take<M: Machine>(core: &Core<M>) -> CallResult<u64> {
    PhysicalMemoryClient::find(&core.stl()).await?.allocate(4096).await
}

/// Uses every service from this core, and says how much was wrong. `foreign` is the address of a
/// frame that another core holds.
async fn use_all<M: Machine>(core: &Core<M>, foreign: u64) -> u64 {
    let cores = core.machine().board().cores() as u16;
    let checks = Checks::new(core.stl(), cores);
    let other = CoreId((core.id().0 + 1) % cores);
    let result = async {
        for target in [core.id(), other] {
            probe_on(&core.stl(), target).await?;
            checks.on(target).await?;
        }
        checks.of_the_node(foreign).await
    };
    let result = result.await;
    checks.check(result.is_ok(), format_args!("{result:?}"));
    tell(core, &checks.wrong())
}

/// Logs what was wrong, and says how much.
fn tell<M: Machine>(core: &Core<M>, wrong: &[String]) -> u64 {
    for line in wrong {
        core.machine().log(format_args!("defaults: {line}"));
    }
    wrong.len() as u64
}

async fn everyone<M: Machine>(core: &Core<M>, findings: &Findings) -> CallResult<()> {
    probe_on(&core.stl(), core.id()).await?;
    let mut talks = Vec::new();
    for peer in core.peers() {
        let talk = Talk::start(core, peer, DEFAULTS).await;
        talks.extend(findings.expect(talk, "no talk with a core").map(|talk| (peer, talk)));
    }
    let checks = Checks::new(core.stl(), core.machine().board().cores() as u16);
    checks.alone().await?;
    for wrong in checks.wrong() {
        findings.check(false, format_args!("{wrong}"));
    }
    let memory = PhysicalMemoryClient::find(&core.stl()).await?;
    let foreign = memory.allocate(4096).await?;
    // The first round opens the links between the cores, which stay.
    round(findings, &talks, foreign, last_worker(core)).await;
    let before = memory.statistics().await?;
    round(findings, &talks, foreign, last_worker(core)).await;
    let after = memory.statistics().await?;
    findings.check(
        before == after,
        format_args!("memory was lost: {before:?} before, {after:?} after"),
    );
    memory.free(foreign).await?;
    let freed = memory.statistics().await?;
    let held = (&after.held[..], freed.held.len(), freed.free_4k);
    let one =
        after.held.iter().all(|share| (share.core, share.frames, share.bytes) == (0, 1, 4096));
    let back = one && freed.held.is_empty() && freed.free_4k == after.free_4k + 1;
    findings.check(back, format_args!("a frame of the conductor's is not given back: {held:?}"));
    if let Some(worker) = last_worker(core)
        && let Some((_, talk)) = talks.iter().find(|(peer, _)| *peer == worker)
    {
        restart(core, findings, &memory, talk, worker).await?;
    }
    Ok(())
}

/// All cores at once, then a package on the worker.
async fn round<M: Machine>(
    findings: &Findings,
    talks: &[(CoreId, Talk<M>)],
    foreign: u64,
    worker: Option<CoreId>,
) {
    for (_, talk) in talks {
        findings.expect(talk.tell(foreign).await, "a core cannot be told to begin");
    }
    for (peer, talk) in talks {
        let wrong = talk.listen().await;
        findings.check(wrong == Ok(0), format_args!("core {peer} says {wrong:?}, see the log"));
    }
    if let Some((peer, talk)) = talks.iter().find(|(peer, _)| Some(*peer) == worker) {
        let wrong = talk.ask(GROW).await;
        findings.check(wrong == Ok(0), format_args!("{peer}'s heap: {wrong:?}, see the log"));
    }
}

/// A core that holds frames restarts: they are free.
async fn restart<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
    memory: &PhysicalMemoryClient,
    talk: &Talk<M>,
    worker: CoreId,
) -> CallResult<()> {
    for _ in 0..3 {
        let taken = talk.ask(TAKE).await;
        findings.check(taken.is_ok_and(|at| at > 0), format_args!("{worker} takes {taken:?}"));
    }
    let frames = |held: &[nile_interfaces::physical_memory::CoreShare]| {
        held.iter().find(|share| share.core == worker.0).map_or(0, |share| share.frames)
    };
    let held = frames(&memory.statistics().await?.held);
    findings.check(held == 3, format_args!("{held} frames are held for {worker}, not 3"));
    let next = core.machine().board().record(worker).generation().next();
    findings.expect(talk.tell(PANIC).await, "a core cannot be told to end");
    wait_for(core, worker, next).await;
    let deadline = core.now() + PATIENCE;
    while frames(&memory.statistics().await?.held) > 0 && core.now() < deadline {
        core.sleep(Duration::from_micros(100)).await;
    }
    let left = frames(&memory.statistics().await?.held);
    findings.check(left == 0, format_args!("{left} frames are held for a core that is gone"));
    Ok(())
}
