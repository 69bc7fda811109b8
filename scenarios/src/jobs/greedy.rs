//! Packages that take all that they can get and never end: one job for each kind of greed, and each
//! is cancelled in the midst of it. Meanwhile the node keeps records and datasets as ever, and the
//! next job has the cores, is right, and leaves every buffer free.

use alloc::format;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::Instant;
use nile_job::{End, Job, JobError, JobId, Phase, Progress, Settings};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::CallResult;

use super::data::Data;
use super::master::{Driver, NotesClient};
use super::{Wanted, cleared, job, splits, workers};
use crate::arguments::Arguments;
use crate::calls::serve;
use crate::cluster::until;
use crate::conduct::{Findings, conduct, conducts};

/// Every kind, as the package `greedy` calls it, and one that computes for ever.
const KINDS: [&str; 9] =
    ["park", "accept", "hoard", "log", "call", "write", "memory", "channel", "loop"];

/// How long a package has to take what it wants.
const TAKES: Duration = Duration::from_millis(100);

/// How long a package pauses after each thing that it takes, in microseconds of its time, unless it
/// is said.
const PAUSE: u64 = 200;

/// Starts this core's part. With `pause_us=0` packages do not pause, and take memory, too: not in
/// the simulator, where that is its host's and does not run out.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let (wanted, pause) = (Wanted::of(arguments), arguments.number("pause_us", PAUSE));
    serve(core);
    if conducts(core) {
        let own = core.clone();
        conduct(core, "greedy", move |findings| async move {
            if let Err(error) = run(&own, wanted, pause, &findings).await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

async fn run<M: Machine>(
    core: &Core<M>,
    wanted: Wanted,
    pause: u64,
    findings: &Findings,
) -> CallResult<()> {
    let stl = core.stl();
    let notes = NotesClient::publish(&stl).await?;
    let data = until(&stl, async || Data::find(&stl, 1).await).await?;
    data.warm().await?;
    let before = (data.free().await?, data.free_buffers().await?);
    let driver = Driver::new(&stl, notes, workers(core, 1), None);
    let kinds = KINDS.into_iter().filter(|kind| pause == 0 || *kind != "memory");
    let mut done = 0;
    for (kind, number) in kinds.zip(0..) {
        done += 1;
        let input = data.write("numbers", wanted.blocks, wanted.numbers).await?;
        let since = Cell::new(None);
        let greedy = async |progress: &Progress| has_taken(core, &data, &since, progress).await;
        let (job_of, splits) =
            (|id, arguments| greed(id, arguments, wanted), splits(&input, &data));
        let mut asked = Vec::from([match kind {
            "loop" => "loop=0".into(),
            _ => format!("greed={kind}"),
        }]);
        if pause > 0 {
            asked.push(format!("pause={pause}"));
        }
        let greed = job_of(100 + number, asked);
        let settings = Settings::default;
        let ended = driver.run_until(greed.clone(), splits.clone(), settings(), greedy).await?;
        let end = ended.end;
        // One that takes memory is out of it sooner or later.
        let is_cancelled = match &end {
            End::Failed(JobError::Cancelled) => true,
            End::Failed(error) => kind == "memory" && format!("{error}").contains("memory"),
            End::Published(_) => false,
        };
        findings.check(is_cancelled, format_args!("{kind}: it ended as {end:?}"));
        let after = job_of(200 + number, Vec::new());
        let ended = driver.run(after.clone(), splits, settings()).await?;
        let is_done = matches!(ended.end, End::Published(_));
        findings.check(is_done, format_args!("after {kind}: the job ended as {:?}", ended.end));
        let calm = ended.progress.counters.retries == 0;
        findings.check(calm, format_args!("after {kind}: a task was done again"));
        data.check(&after, &input, findings).await?;
        data.remove("numbers").await?;
        cleared(core, &data, before.clone(), findings).await?;
    }
    findings.figure("kinds", done);
    Ok(())
}

/// Whether packages had time enough to take what they want; then the node keeps a record all the
/// same, and a dataset.
async fn has_taken<M: Machine>(
    core: &Core<M>,
    data: &Data,
    since: &Cell<Option<Instant>>,
    progress: &Progress,
) -> CallResult<bool> {
    if progress.phase != Phase::Mapping || progress.running.is_empty() {
        return Ok(false);
    }
    if since.get().is_none() {
        since.set(Some(core.now() + TAKES));
    }
    if since.get().is_some_and(|since| core.now() < since) {
        return Ok(false);
    }
    data.keep(".jobs/1").await?;
    data.keep("small").await?;
    Ok(true)
}

fn greed(id: u64, arguments: Vec<alloc::string::String>, wanted: Wanted) -> Job {
    Job { id: JobId(id), arguments, ..job(wanted) }
}
