//! A job that runs while others disturb the node, which other scenarios do.

use alloc::format;
use alloc::vec::Vec;

use nile_abi::{CoreId, NodeId, Status};
use nile_job::{End, Job, JobId, Settings, Split};
use nile_kernel::Core;
use nile_platform::{Line, Machine};
use nile_stl::{CallError, CallResult};

use super::data::{Data, Input};
pub use super::master::Ended;
use super::master::{Driver, NotesClient};
use super::{Wanted, cleared, job, splits};
use crate::cluster::until;
use crate::conduct::Findings;

/// Numbers on a disk of the node, to be sorted by its workers.
pub struct Sorting {
    driver: Driver,
    wanted: Wanted,
    input: Input,
    splits: Vec<Split>,
    /// Space that is free on each disk.
    free: Vec<u64>,
}

/// The stores of this node's disks, once all are there.
async fn find<M: Machine>(core: &Core<M>) -> CallResult<Data> {
    let board = core.machine().board();
    let disks = Line::all().filter(|line| line.is_disk() && board.driver(*line).is_some()).count();
    until(&core.stl(), async || {
        let data = Data::find(&core.stl(), 1).await?;
        let missing = || CallError::new(Status::NotFound, "not all disks have a store");
        if data.free().await?.len() == disks { Ok(data) } else { Err(missing()) }
    })
    .await
}

impl Sorting {
    /// Writes so many blocks of numbers. Any of the `cores` may be a worker by and by.
    pub async fn prepare<M: Machine>(
        core: &Core<M>,
        cores: &[CoreId],
        blocks: u64,
        numbers: u64,
    ) -> CallResult<Sorting> {
        let stl = &core.stl();
        let notes = NotesClient::publish(stl).await?;
        let data = find(core).await?;
        data.warm().await?;
        let wanted = Wanted { blocks, numbers, ..Wanted::small() };
        let input = data.write("numbers", blocks, numbers).await?;
        let workers = cores.iter().map(|core| (NodeId(0), *core)).collect();
        let driver = Driver::new(stl, notes, workers, None);
        let (splits, free) = (splits(&input, &data), data.free().await?);
        Ok(Sorting { driver, wanted, input, splits, free })
    }

    /// Sorts them once; the first time is zero. Nothing else of this may run meanwhile.
    pub async fn run(&self, time: u64) -> CallResult<Ended> {
        self.driver.run(self.job(time), self.splits.clone(), Settings::default()).await
    }

    fn job(&self, time: u64) -> Job {
        let job = job(self.wanted);
        Job { id: JobId(job.id.0 + time), output: format!("sorted.{time}"), ..job }
    }

    /// What was sorted is right, however often cores came and went. It is removed.
    pub async fn check<M: Machine>(
        &self,
        core: &Core<M>,
        time: u64,
        ended: &Ended,
        findings: &Findings,
    ) -> CallResult<()> {
        let Ended { end, progress } = ended;
        // A core that leaves or fails is gone, and known to be.
        let lost = progress.counters.lost_workers;
        findings.check(lost == 0, format_args!("{lost} workers were held for lost"));
        let End::Published(parts) = end else {
            findings.check(false, format_args!("the job ended as {end:?}"));
            return Ok(());
        };
        let (data, job) = (find(core).await?, self.job(time));
        data.decide(&job, parts).await?;
        data.check(&job, &self.input, findings).await
    }

    /// All that it had on disks is free again.
    pub async fn end<M: Machine>(self, core: &Core<M>, findings: &Findings) -> CallResult<()> {
        let data = find(core).await?;
        let buffers = data.free_buffers().await?;
        cleared(core, &data, (self.free, buffers), findings).await
    }
}
