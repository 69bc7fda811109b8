//! Jobs on worker cores: numbers are sorted by the package `numbers`, over as many nodes as there
//! are, in memory or by way of disks; a core that ends meanwhile does not matter. In the end the
//! parts are what they should be, and nothing else is left: no buffer, no draft, no space. So it is
//! if tasks compute for long, after a job of which a task looped, and if a small job runs beside.
//!
//! n1 conducts: a job's master runs beside it, without a record of the job. The input is on n1.

mod data;
pub mod greedy;
mod master;
pub mod sorting;

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, NodeId, Role, Status};
use nile_job::{End, Job, JobId, Settings, Share, Split};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_stl::{CallError, CallResult, Stl, all};

use crate::arguments::Arguments;
use crate::calls::serve;
use crate::cluster::{start_with, until};
use crate::conduct::{Findings, conduct, conducts};
use data::{Data, Input};
use master::{Driver, Ended, NotesClient};

/// How long until what a job had is free again.
const CLEARING: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(5);

/// What a run is asked for.
#[derive(Clone, Copy)]
pub struct Wanted {
    nodes: u64,
    blocks: u64,
    numbers: u64,
    reducers: u64,
    kill: u64,
    /// How that core ends: 0 by force, 1 as planned, 2 as planned and for good.
    planned: u64,
    memory: u64,
    whole: u64,
    fail: u64,
    copies: u64,
    /// For how many milliseconds each map task computes.
    slow: u64,
    /// Which map task of a job before it loops.
    stuck: u64,
    /// Whether a small job runs beside the large one.
    beside: u64,
}

impl Wanted {
    /// A small job that nothing happens to.
    fn small() -> Wanted {
        Wanted::of(&Arguments::new(""))
    }

    fn of(arguments: &Arguments<'_>) -> Wanted {
        Wanted {
            nodes: arguments.number("nodes", 1),
            blocks: arguments.number("blocks", 12),
            numbers: arguments.number("numbers", 2000),
            reducers: arguments.number("reducers", 2),
            kill: arguments.number("kill", 0),
            planned: arguments.number("planned", 0),
            memory: arguments.number("memory", 0),
            whole: arguments.number("whole", 0),
            fail: arguments.number("fail", 0),
            copies: arguments.number("copies", 1),
            slow: arguments.number("slow", 0),
            stuck: arguments.number("loop", 0),
            beside: arguments.number("beside", 0),
        }
    }
}

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let wanted = Wanted::of(arguments);
    let own = core.clone();
    let scenario = move |findings: Findings| async move {
        if let Err(error) = run(&own, wanted, &findings).await {
            findings.check(false, format_args!("{error}"));
        }
    };
    if wanted.nodes > 1 {
        return start_with(core, wanted.nodes, "jobs", scenario);
    }
    serve(core);
    if conducts(core) {
        conduct(core, "jobs", scenario);
    }
}

async fn run<M: Machine>(core: &Core<M>, wanted: Wanted, findings: &Findings) -> CallResult<()> {
    let stl = core.stl();
    let notes = NotesClient::publish(&stl).await?;
    let data = until(&stl, async || Data::find(&stl, wanted.nodes as usize).await).await?;
    let workers = workers(core, wanted.nodes);
    data.warm().await?;
    let spaces = data.free().await?;
    let free = data.free_buffers().await?;
    let input = data.write("numbers", wanted.blocks, wanted.numbers).await?;
    let (job, splits) = (job(wanted), splits(&input, &data));
    let kill = (wanted.kill > 0).then(|| core.id().0 + wanted.kill as u16).map(CoreId);
    let driver = Driver::new(&stl, notes, workers, kill.map(|core| (core, wanted.planned)));
    if wanted.stuck > 0 {
        // Its workers are free right after it, or the other one would not get them.
        let text = match driver.run(stuck(wanted), splits.clone(), Settings::default()).await?.end {
            End::Failed(error) => format!("{error}"),
            end => format!("{end:?}"),
        };
        let is_it = text.contains("it has done nothing for 1 s");
        findings.check(is_it, format_args!("a task that loops: {text}"));
    }
    let Ended { end, progress } = match wanted.beside {
        0 => driver.run(job.clone(), splits, Settings::default()).await?,
        _ => beside(&stl, wanted, (&driver, &data), (job.clone(), splits), findings).await?,
    };
    findings.figure("attempts", progress.counters.attempts.into());
    findings.figure("retries", progress.counters.retries.into());
    findings.figure("spilled", progress.counters.spilled);
    if kill.is_some() {
        findings.check(driver.has_killed(), format_args!("the job was over before a core ended"));
    }
    // What does not fit the pools of a cluster may be spilled, too: half of each is for what comes.
    let spilled = progress.counters.spilled;
    let holds = spilled > 0 || wanted.memory == 0;
    findings.check(holds, format_args!("nothing was spilled"));
    let holds = spilled == 0 || wanted.memory > 0 || wanted.nodes > 1;
    findings.check(holds, format_args!("{spilled} bytes were spilled, and there was room"));
    if wanted.slow > 0 {
        // Slow is not gone: each task was begun once.
        let counters = progress.counters;
        let calm = counters.retries == 0 && counters.lost_workers == 0;
        findings.check(calm, format_args!("workers that compute count as gone: {counters:?}"));
    }
    match (end, wanted.fail) {
        (End::Published(parts), 0) => {
            let count = parts.len() as u64;
            findings.check(count == wanted.reducers, format_args!("{count} parts"));
            data.check(&job, &input, findings).await?;
        }
        (End::Failed(error), 1..) => {
            let text = format!("{error}");
            let is_it = text.contains("it was asked to fail");
            findings.check(is_it, format_args!("another error: {text}"));
            data.check_nothing(&job, findings).await?;
        }
        (end, _) => findings.check(false, format_args!("the job ended as {end:?}")),
    }
    data.remove("numbers").await?;
    cleared(core, &data, (spaces, free), findings).await
}

/// Runs the job with a small one beside it, which is over long before.
async fn beside(
    stl: &Stl,
    wanted: Wanted,
    (driver, data): (&Driver, &Data),
    large: (Job, Vec<Split>),
    findings: &Findings,
) -> CallResult<Ended> {
    let input = data.write("few", 3, wanted.numbers).await?;
    let few = Job {
        id: JobId(8),
        input: Vec::from(["few@1.0".into()]),
        output: "few.sorted".into(),
        ..job(Wanted { slow: 0, fail: 0, ..wanted })
    };
    let small = (few.clone(), splits(&input, data));
    let timed = async |(job, splits)| {
        let ended = driver.run(job, splits, Settings::default()).await?;
        CallResult::Ok((ended, stl.host().now()))
    };
    let mut both = all([timed(large), timed(small)]).await.into_iter();
    let (large, small) = (both.next(), both.next());
    let missing = || CallError::new(Status::Failed, "a job is missing");
    let (large, small) = (large.ok_or_else(missing)??, small.ok_or_else(missing)??);
    let is_done = matches!(small.0.end, End::Published(_));
    findings.check(is_done, format_args!("the small job ended as {:?}", small.0.end));
    // Whom an ended core has hurt more is chance.
    let holds = small.1 < large.1 || wanted.kill > 0;
    findings.check(holds, format_args!("the small job waited for the large one"));
    data.check(&few, &input, findings).await?;
    data.remove("few").await?;
    Ok(large.0)
}

/// All buffers and all space are free again, some time.
async fn cleared<M: Machine>(
    core: &Core<M>,
    data: &Data,
    before: (Vec<u64>, Vec<u64>),
    findings: &Findings,
) -> CallResult<()> {
    let until = core.now() + CLEARING;
    loop {
        let now = (data.free().await?, data.free_buffers().await?);
        if now == before {
            return Ok(());
        }
        if core.now() > until {
            findings.check(false, format_args!("before {before:?} was free, and now {now:?}"));
            return Ok(());
        }
        core.sleep(LOOK).await;
    }
}

fn job(wanted: Wanted) -> Job {
    let mut arguments = Vec::new();
    if wanted.whole > 0 {
        arguments.push("whole".into());
    }
    if wanted.fail > 0 {
        arguments.push(format!("fail={}", wanted.fail));
    }
    if wanted.slow > 0 {
        arguments.push(format!("slow={}", wanted.slow));
    }
    Job {
        id: JobId(7),
        name: "sort numbers".into(),
        package: "numbers".into(),
        arguments,
        input: Vec::from(["numbers@1.0".into()]),
        output: "sorted".into(),
        reducers: wanted.reducers as u32,
        copies: wanted.copies as u32,
        keepers: Vec::from([NodeId(1)]),
        samples: 3,
        memory: (wanted.memory > 0).then_some(wanted.memory),
        bytes: 0,
        blocks: 0,
        conserves: true,
        task_timeout: None,
        share: Share::default(),
        on: Vec::new(),
    }
}

/// A job of which one task never ends.
fn stuck(wanted: Wanted) -> Job {
    Job {
        id: JobId(6),
        name: "stuck".into(),
        arguments: Vec::from([format!("loop={}", wanted.stuck)]),
        output: "stuck".into(),
        task_timeout: Some(1),
        ..job(wanted)
    }
}

/// Two blocks each.
fn splits(input: &Input, data: &Data) -> Vec<Split> {
    let blocks = input.blocks.chunks(2);
    let split = |(place, blocks): (usize, &[u64])| Split {
        dataset: 0,
        block: 2 * place as u32,
        blocks: blocks.len() as u32,
        bytes: blocks.iter().sum(),
        nodes: Vec::from([data.own()]),
    };
    blocks.enumerate().map(split).collect()
}

/// The worker cores of all nodes: they are like this one.
fn workers<M: Machine>(core: &Core<M>, nodes: u64) -> Vec<(NodeId, CoreId)> {
    let board = core.machine().board();
    let works = |id: &CoreId| board.record(*id).roles().contains(Role::Worker);
    let cores: Vec<CoreId> = core.peers().filter(works).collect();
    let nodes = (1..=nodes as u32).map(|node| NodeId(if node == 1 { 0 } else { node }));
    nodes.flat_map(|node| cores.iter().map(move |core| (node, *core))).collect()
}

/// Waits a moment.
async fn pause(stl: &Stl) {
    stl.host().sleep_until(stl.host().now() + LOOK).await;
}
