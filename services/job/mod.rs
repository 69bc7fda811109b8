//! The job service: takes in jobs, keeps their records with the services of other nodes, and runs
//! their masters (docs/jobs.md has the protocol; NileOS paper, V: application master). It is on the
//! managing core of every node.
//!
//! A job is submitted to any node. The node keeps its record together with two others that have
//! disks, and begins as its master; if it dies, one of the others goes on.
//!
//! * `submit`: what is checked; `names`: the output's name; `catalogue`: what stores have of names;
//!   `splits`: how that is cut.
//! * `board`: the jobs of this node; `hosted`: one of them; `turns`: who waits for whom; `cut`: who
//!   cuts bounds; `report`: what is told of them; `timeline`: when what of them ran.
//! * `shelf`: records on disks; `found`: new ones, on their way to keepers; `ended`: those that are
//!   forgotten; `orphans`: what is left behind; `renewals`: names that end with their use.
//! * `cluster`: who is there; `workers`, `post`: what is said to others.

mod board;
pub(crate) mod catalogue;
pub(crate) mod cluster;
mod cut;
mod ended;
mod found;
mod hosted;
mod names;
mod orphans;
mod post;
mod renewals;
mod report;
mod shelf;
mod splits;
mod submit;
mod timeline;
mod told;
mod turns;
mod workers;

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Status;
use nile_bosml::{Blob, Bytes};
use nile_job::{JobId, ToKeeper, ToMaster};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::page::page;
use board::Board;
use nile_interfaces::job::JobKernel;
use nile_interfaces::job::records::{
    JobEntry, JobRequest, ProgressEntry, TimelineEntry, WorkerPlace,
};

/// The jobs of a node.
pub struct Job {
    board: Rc<Board>,
}

impl Start for Job {
    fn start(stl: &Stl) -> Job {
        Job { board: Board::new(&stl.acting_as(Binder::Operator)) }
    }
}

#[service(on = manager, keywords(job = 5, master = 2, mapreduce = 1))]
impl JobKernel for Job {
    async fn submit(&self, request: JobRequest) -> CallResult<u64> {
        self.board.submit(request).await
    }

    async fn progress(&self, job: u64) -> CallResult<ProgressEntry> {
        self.board.progress(JobId(job)).await
    }

    async fn news(&self, job: u64, seen: u32, wait: u32) -> CallResult<ProgressEntry> {
        let wait = Duration::from_millis(wait.into());
        self.board.news(JobId(job), seen as usize, wait).await
    }

    async fn timeline(&self, job: u64, from: u32) -> CallResult<TimelineEntry> {
        self.board.timeline(JobId(job), from).await
    }

    async fn cancel(&self, job: u64) -> CallResult<()> {
        self.board.cancel(JobId(job)).await
    }

    async fn list(&self, after: u64) -> Vec<JobEntry> {
        page(self.board.list().await.into_iter().filter(|it| it.job > after))
    }

    async fn workers(&self) -> CallResult<Vec<WorkerPlace>> {
        self.board.cluster.look().await?;
        let place = |it: nile_job::WorkerId| WorkerPlace { node: it.node.0, core: it.core.0 };
        Ok(page(self.board.cluster.workers().into_iter().map(place)))
    }

    async fn standing(&self, job: u64, keepers: u32) -> CallResult<Blob> {
        let standing = self.board.standing_or_open(JobId(job), keepers).await;
        Ok(Blob(standing.encode()?))
    }

    fn notes(&self, message: Bytes<'_>) -> CallResult<()> {
        self.board.notes(ToMaster::decode(&message.0)?);
        Ok(())
    }

    fn keep(&self, message: Bytes<'_>) -> CallResult<()> {
        self.board.keep(ToKeeper::decode(&message.0)?);
        Ok(())
    }

    async fn begin(&self, request: JobRequest) -> CallResult<u64> {
        self.board.begin_here(request).await
    }

    async fn found(&self, job: u64, at: u32, of: u32, piece: Bytes<'_>) -> CallResult<()> {
        self.board.found(JobId(job), at as usize, of as usize, &piece.0).await
    }

    async fn withdraw(&self, job: u64) -> CallResult<()> {
        self.board.withdraw(JobId(job)).await;
        Ok(())
    }

    fn standing_here(&self, job: u64) -> CallResult<Option<Blob>> {
        let standing = self.board.standing(JobId(job));
        Ok(standing.map(|standing| standing.encode().map(Blob)).transpose()?)
    }

    fn progress_here(&self, job: u64) -> CallResult<ProgressEntry> {
        let missing = || CallError::new(Status::NotFound, "this node does not keep the job");
        self.board.progress_here(JobId(job)).ok_or_else(missing)
    }

    fn timeline_here(&self, job: u64, from: u32) -> CallResult<TimelineEntry> {
        self.board.timeline_here(JobId(job), from)
    }

    fn cancel_here(&self, job: u64) -> bool {
        self.board.cancel_here(JobId(job))
    }

    fn list_here(&self, after: u64) -> Vec<JobEntry> {
        page(self.board.list_here().into_iter().filter(|it| it.job > after))
    }
}
