//! The job service: takes in jobs, keeps their records with the services of other nodes, and runs
//! their masters (docs/jobs.md has the protocol; NileOS paper, V: application master). It is on the
//! managing core of every node.
//!
//! A job is submitted to any node. The node keeps its record together with two others that have
//! disks, and begins as its master; if it dies, one of the others goes on.
//!
//! * [`records`]: what calls carry.
//! * `submit`: what is checked; `names`: the output's name; `catalogue`: what stores have of names;
//!   `splits`: how that is cut.
//! * `board`: the jobs of this node; `hosted`: one of them; `turns`: who waits for whom; `cut`: who
//!   cuts bounds; `report`: what is told of them; `timeline`: when what of them ran.
//! * `shelf`: records on disks; `found`: new ones, on their way to keepers; `ended`: those that are
//!   forgotten; `orphans`: what is left behind.
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
pub mod records;
mod report;
mod shelf;
mod splits;
mod submit;
mod timeline;
mod turns;
mod workers;

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Status;
use nile_bosml::{Blob, Bytes};
use nile_job::{JobId, Standing, ToKeeper, ToMaster};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use crate::page::page;
use board::Board;
use records::{JobEntry, JobRequest, ProgressEntry, StandingEntry, TimelineEntry, WorkerPlace};

/// The jobs of a node.
pub struct Job {
    board: Rc<Board>,
}

impl Start for Job {
    fn start(stl: &Stl) -> Job {
        Job { board: Board::new(&stl.acting_as(Binder::Operator)) }
    }
}

fn standing_entry(standing: Option<Standing>) -> CallResult<StandingEntry> {
    let bytes = standing.as_ref().map(Standing::encode).transpose()?;
    Ok(StandingEntry { is_known: standing.is_some(), standing: Blob(bytes.unwrap_or_default()) })
}

/// Jobs over the worker cores of the cluster.
#[service(
    subsystem = "jobs",
    capability = "jobs",
    layer = high,
    on = manager,
    keywords(job = 5, master = 2, mapreduce = 1)
)]
impl Job {
    /// Begins a job; its number. Nothing is left of one that is refused: `invalid`, with what is
    /// wrong; `not_found` (an input is not there or not whole, no disk, no worker); `exists` (its
    /// output); `busy` (try again).
    #[stl_k(reply = "job")]
    async fn submit(&self, request: JobRequest) -> CallResult<u64> {
        self.board.submit(request).await
    }

    /// How far a job is, or how it ended. `not_found` if no node that answers knows it: ended jobs
    /// are told of for a while.
    #[stl_k(reply = "progress")]
    async fn progress(&self, job: u64) -> CallResult<ProgressEntry> {
        self.board.progress(JobId(job)).await
    }

    /// The same, as soon as the job has ended or has more phases than the `seen` ones that the
    /// caller knows of; after `wait` milliseconds in any case.
    #[stl_k(reply = "progress")]
    async fn news(
        &self,
        job: u64,
        seen: u32,
        #[range(0..=1000)] wait: u32,
    ) -> CallResult<ProgressEntry> {
        let wait = Duration::from_millis(wait.into());
        self.board.news(JobId(job), seen as usize, wait).await
    }

    /// When what of a job ran, by its last master: its phases, and attempts from the place `from`
    /// on. `not_found` if no node that answers has had a master of it.
    #[stl_k(reply = "timeline")]
    async fn timeline(&self, job: u64, from: u32) -> CallResult<TimelineEntry> {
        self.board.timeline(JobId(job), from).await
    }

    /// Has a job end without output, unless it has ended. `busy` while it has no master: try again.
    #[stl_k]
    async fn cancel(&self, job: u64) -> CallResult<()> {
        self.board.cancel(JobId(job)).await
    }

    /// The jobs of the cluster: those that run, and those that ended lately; the latest of them, as
    /// many as fit a reply.
    #[stl_k(reply = "jobs")]
    async fn list(&self) -> Vec<JobEntry> {
        let all = self.board.list().await;
        let mut latest = page(all.into_iter().rev());
        latest.reverse();
        latest
    }

    /// The worker cores that jobs can use, as this node sees them now: at most some thousand, as
    /// many as fit a reply.
    #[stl_k(reply = "workers")]
    async fn workers(&self) -> CallResult<Vec<WorkerPlace>> {
        self.board.cluster.look().await?;
        let place = |it: nile_job::WorkerId| WorkerPlace { node: it.node.0, core: it.core.0 };
        Ok(page(self.board.cluster.workers().into_iter().map(place)))
    }

    /// How a job stands, as [`nile_job::Standing`] is written; open if nobody knows now. `keepers`
    /// is what the manifests of its parts have ([`nile_job::Job::keepers_in_manifest`]).
    #[stl_k(reply = "standing")]
    async fn standing(&self, caller: &Caller, job: u64, keepers: u32) -> CallResult<Blob> {
        caller.kernels_only()?;
        let standing = self.board.standing_or_open(JobId(job), keepers).await;
        Ok(Blob(standing.encode()?))
    }

    /// A worker's message to a master of this node.
    #[stl_k]
    fn notes(&self, caller: &Caller, message: Bytes<'_>) -> CallResult<()> {
        caller.kernels_only()?;
        self.board.notes(ToMaster::decode(&message.0)?);
        Ok(())
    }

    /// A keeper's message to a keeper of this node.
    #[stl_k]
    fn keep(&self, caller: &Caller, message: Bytes<'_>) -> CallResult<()> {
        caller.kernels_only()?;
        self.board.keep(ToKeeper::decode(&message.0)?);
        Ok(())
    }

    /// Begins a job on this node. For other nodes, which have no disk.
    #[stl_k(reply = "job")]
    async fn begin(&self, caller: &Caller, request: JobRequest) -> CallResult<u64> {
        caller.kernels_only()?;
        self.board.begin_here(request).await
    }

    /// A piece of a new job's record, which begins `at` bytes from its start and has `of` in all.
    /// When the last one is taken, the record is durable here.
    #[stl_k]
    async fn found(
        &self,
        caller: &Caller,
        job: u64,
        at: u32,
        of: u32,
        #[range(0..=49152)] piece: Bytes<'_>,
    ) -> CallResult<()> {
        caller.kernels_only()?;
        self.board.found(JobId(job), at as usize, of as usize, &piece.0).await
    }

    /// A new job is not begun after all.
    #[stl_k]
    async fn withdraw(&self, caller: &Caller, job: u64) -> CallResult<()> {
        caller.kernels_only()?;
        self.board.withdraw(JobId(job)).await;
        Ok(())
    }

    /// How a job stands, as far as this node's disks say.
    #[stl_k(reply = "standing")]
    fn standing_here(&self, job: u64) -> CallResult<StandingEntry> {
        standing_entry(self.board.standing(JobId(job)))
    }

    /// How far a job is, as far as this node knows.
    #[stl_k(reply = "progress")]
    fn progress_here(&self, job: u64) -> CallResult<ProgressEntry> {
        let missing = || CallError::new(Status::NotFound, "this node does not keep the job");
        self.board.progress_here(JobId(job)).ok_or_else(missing)
    }

    /// When what of a job ran, if its last master was here.
    #[stl_k(reply = "timeline")]
    fn timeline_here(&self, job: u64, from: u32) -> CallResult<TimelineEntry> {
        self.board.timeline_here(JobId(job), from)
    }

    /// Has a job end whose master is here, or which has ended; whether that is so.
    #[stl_k(reply = "is_here")]
    fn cancel_here(&self, job: u64) -> bool {
        self.board.cancel_here(JobId(job))
    }

    /// The jobs whose records this node keeps, in the order of their numbers, some at a time: those
    /// behind `after`. None: there are no more.
    #[stl_k(reply = "jobs")]
    fn list_here(&self, after: u64) -> Vec<JobEntry> {
        page(self.board.list_here().into_iter().filter(|it| it.job > after))
    }
}
