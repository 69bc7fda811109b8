//! What masters and other workers call on a worker core (docs/jobs.md). [`records`]: what calls
//! carry.

pub mod records;

use nile_bosml::Bytes;
use nile_stl::{CallResult, Caller, service};

use crate::dataset::records::Destination;
use records::{Answer, Bounds, Delivery, DraftBlock, Identity};

/// Runs the tasks of jobs.
#[service(subsystem = "jobs", capability = "work", layer = high)]
pub trait Worker {
    /// Which worker this is now, as jobs name it. `not_found` if its node has no pool.
    #[stl_k(reply = "worker", allow(operator, peer))]
    async fn identity(&self) -> CallResult<Identity>;

    /// What a master says. `busy` while this core works for another job.
    #[stl_k(allow(operator, peer))]
    async fn orders(&self, message: Bytes<'_>) -> CallResult<()>;

    /// What another worker says; what comes of that. The number is its name for the piece that it
    /// asks for.
    #[stl_k(reply = "answer", allow(operator, peer))]
    fn peer(&self, number: u64, message: Bytes<'_>) -> CallResult<Answer>;

    /// Some of a piece that was asked for, or where it is.
    #[stl_k(allow(operator, peer))]
    fn piece(&self, caller: &Caller, number: u64, delivery: Delivery) -> CallResult<()>;

    /// Sends a block of a run that is on this node's disks to a mailbox of a node.
    #[stl_k(allow(operator, peer))]
    async fn run_block(&self, what: DraftBlock, to: Destination) -> CallResult<()>;

    /// Has the job's code cut bounds from samples, of which this is one. With the last one that is
    /// missing it gives them; until then it has none. `not_found` if the job has not come here.
    #[stl_k(reply = "bounds", allow(operator, peer))]
    async fn cut(
        &self,
        job: u64,
        index: u32,
        of: u32,
        #[range(0..=16384)] sample: Bytes<'_>,
    ) -> CallResult<Option<Bounds>>;
}
