//! Jobs over the worker cores of the cluster, as they are submitted and asked about, and what the
//! nodes that keep a job's record say to each other (docs/jobs.md). [`records`]: what calls carry.

pub mod records;

use alloc::vec::Vec;

use nile_bosml::{Blob, Bytes};
use nile_stl::{CallResult, service};

use records::{JobEntry, JobRequest, ProgressEntry, TimelineEntry, WorkerPlace};

/// Jobs over the worker cores of the cluster.
#[service(subsystem = "jobs", capability = "jobs", layer = high)]
pub trait Job {
    /// Begins a job; its number. Nothing is left of one that is refused: `invalid`, with what is
    /// wrong; `not_found` (an input is not there or not whole, no disk, no worker); `exists` (its
    /// output); `busy` (try again).
    #[stl_k(reply = "job", allow(operator, peer))]
    async fn submit(&self, request: JobRequest) -> CallResult<u64>;

    /// How far a job is, or how it ended. `not_found` if no node that answers knows it: ended jobs
    /// are told of for a while.
    #[stl_k(reply = "progress", allow(operator, peer))]
    async fn progress(&self, job: u64) -> CallResult<ProgressEntry>;

    /// The same, as soon as the job has ended or has more phases than the `seen` ones that the
    /// caller knows of; after `wait` milliseconds in any case.
    #[stl_k(reply = "progress", allow(operator, peer))]
    async fn news(
        &self,
        job: u64,
        seen: u32,
        #[range(0..=1000)] wait: u32,
    ) -> CallResult<ProgressEntry>;

    /// When what of a job ran, by its last master: its phases, and attempts from the place `from`
    /// on. `not_found` if no node that answers has had a master of it.
    #[stl_k(reply = "timeline", allow(operator, peer))]
    async fn timeline(&self, job: u64, from: u32) -> CallResult<TimelineEntry>;

    /// Has a job end without output, unless it has ended. `busy` while it has no master: try again.
    #[stl_k(allow(operator, peer))]
    async fn cancel(&self, job: u64) -> CallResult<()>;

    /// The jobs of the cluster, those that run and those that ended lately, in the order of their
    /// numbers, some at a time: those behind `after`. None: there are no more.
    #[stl_k(reply = "jobs", allow(operator, peer))]
    async fn list(&self, after: u64) -> Vec<JobEntry>;

    /// The worker cores that jobs can use, as this node sees them now: at most some thousand, as
    /// many as fit a reply.
    #[stl_k(reply = "workers", allow(operator, peer))]
    async fn workers(&self) -> CallResult<Vec<WorkerPlace>>;

    /// How a job stands, as [`nile_job::Standing`] is written; open if nobody knows now. `keepers`
    /// is what the manifests of its parts have ([`nile_job::Job::keepers_in_manifest`]).
    #[stl_k(reply = "standing", allow(operator, peer))]
    async fn standing(&self, job: u64, keepers: u32) -> CallResult<Blob>;

    /// A worker's message to a master of this node.
    #[stl_k(allow(operator, peer))]
    fn notes(&self, message: Bytes<'_>) -> CallResult<()>;

    /// A keeper's message to a keeper of this node.
    #[stl_k(allow(operator, peer))]
    fn keep(&self, message: Bytes<'_>) -> CallResult<()>;

    /// Begins a job on this node. For other nodes, which have no disk.
    #[stl_k(reply = "job", allow(operator, peer))]
    async fn begin(&self, request: JobRequest) -> CallResult<u64>;

    /// A piece of a new job's record, which begins `at` bytes from its start and has `of` in all.
    /// When the last one is taken, the record is durable here.
    #[stl_k(allow(operator, peer))]
    async fn found(
        &self,
        job: u64,
        at: u32,
        of: u32,
        #[range(0..=49152)] piece: Bytes<'_>,
    ) -> CallResult<()>;

    /// A new job is not begun after all.
    #[stl_k(allow(operator, peer))]
    async fn withdraw(&self, job: u64) -> CallResult<()>;

    /// How a job stands, as far as this node's disks say.
    #[stl_k(reply = "standing", allow(operator, peer))]
    fn standing_here(&self, job: u64) -> CallResult<Option<Blob>>;

    /// How far a job is, as far as this node knows.
    #[stl_k(reply = "progress", allow(operator, peer))]
    fn progress_here(&self, job: u64) -> CallResult<ProgressEntry>;

    /// When what of a job ran, if its last master was here.
    #[stl_k(reply = "timeline", allow(operator, peer))]
    fn timeline_here(&self, job: u64, from: u32) -> CallResult<TimelineEntry>;

    /// Has a job end whose master is here, or which has ended; whether that is so.
    #[stl_k(reply = "is_here", allow(operator, peer))]
    fn cancel_here(&self, job: u64) -> bool;

    /// The jobs whose records this node keeps, in the order of their numbers, some at a time: those
    /// behind `after`. None: there are no more.
    #[stl_k(reply = "jobs", allow(operator, peer))]
    fn list_here(&self, after: u64) -> Vec<JobEntry>;
}

impl JobClient {
    /// All jobs of the cluster. Each page is a call.
    pub async fn list_all(&self) -> CallResult<Vec<JobEntry>> {
        let mut all: Vec<JobEntry> = Vec::new();
        loop {
            let more = self.list(all.last().map_or(0, |it| it.job)).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }
}
