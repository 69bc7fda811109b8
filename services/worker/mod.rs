//! The worker service: the engine of jobs on a worker core (docs/jobs.md). It keeps this core's
//! machines ([`nile_job::Worker`]), one for each job; runs the job's package; and moves all data:
//! blocks of splits to the package, pieces of outputs between workers, parts to disks.
//!
//! A core has a task of one job at a time; `turns` decides whose comes next.
//!
//! * `engine`: the jobs, and what their machines want done. `attempt`: what is known of one.
//! * `package`: the life of the package; `work`: what it calls; `desk`: what it is to do next;
//!   `progress`: whether it goes on.
//! * `input`, `stores`, `loads`: blocks, from wherever they are. `budget`: whether outputs stay in
//!   memory. `outputs`: what attempts have made. `drafts`, `finish`: what goes to a disk.
//!   `merging`: room for runs that are merged.
//! * `deliver`: pieces on their way to others; `gather`: those that come here. `cuts`: bounds of
//!   partitions.
//! * `peers`: masters, other workers, this core's mailbox.

mod attempt;
mod budget;
mod cuts;
mod deliver;
mod desk;
mod drafts;
mod engine;
mod finish;
mod gather;
mod input;
mod loads;
mod merging;
mod outputs;
mod package;
mod peers;
mod progress;
mod stores;
mod turns;
mod work;

use alloc::rc::Rc;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::Bytes;
use nile_job::{JobId, Peer};
use nile_registry::Caller as Binder;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

pub(crate) use engine::Engine;
pub(crate) use package::plain;

use crate::bulk::port::Port;
use nile_interfaces::dataset::records::Destination;
use nile_interfaces::worker::WorkerKernel;
use nile_interfaces::worker::records::{Answer, Bounds, Delivery, DraftBlock, Identity};

/// The engine of this core, if its node has a pool.
pub struct Worker {
    engine: Option<Rc<Engine>>,
}

impl Start for Worker {
    fn start(stl: &Stl) -> Worker {
        let stl = stl.acting_as(Binder::Operator);
        let pool = stl.node().ok().and_then(|node| node.pool());
        // The task service of this core calls it, too.
        let make = |pool| stl.shared(|| Ok(Rc::new(Engine::new(&stl, pool)))).ok();
        Worker { engine: pool.and_then(make) }
    }
}

impl Worker {
    fn engine(&self) -> CallResult<&Rc<Engine>> {
        let missing = || CallError::new(Status::NotFound, "this node has no pool: [pool] bytes");
        self.engine.as_ref().ok_or_else(missing)
    }
}

#[service(on = worker, keywords(worker = 5, job = 3, task = 1))]
impl WorkerKernel for Worker {
    async fn identity(&self) -> CallResult<Identity> {
        let id = self.engine()?.identity().await?;
        Ok(Identity {
            node: id.node.0,
            life: id.life.0,
            core: id.core.0,
            generation: id.generation.0,
        })
    }

    async fn orders(&self, message: Bytes<'_>) -> CallResult<()> {
        self.engine()?.orders(&message.0).await
    }

    fn peer(&self, number: u64, message: Bytes<'_>) -> CallResult<Answer> {
        Ok(self.engine()?.asked(number, Peer::decode(&message.0)?))
    }

    fn piece(&self, caller: &Caller, number: u64, delivery: Delivery) -> CallResult<()> {
        if delivery.outputs.iter().any(|output| output.own == 0) {
            // Views are of this node's pool.
            caller.own_core()?;
        }
        self.engine()?.delivered(number, delivery);
        Ok(())
    }

    async fn run_block(&self, what: DraftBlock, to: Destination) -> CallResult<()> {
        let engine = self.engine()?;
        let place = (CoreId(what.store), what.draft, what.block);
        let (buffer, bytes) = engine.stores.load_draft(&engine.pool, place, || true).await?;
        let port = Port::find(&engine.stl).await?;
        port.send(NodeId(to.node), to.mailbox, to.label, buffer, bytes).await
    }

    async fn cut(
        &self,

        job: u64,
        index: u32,
        of: u32,
        sample: Bytes<'_>,
    ) -> CallResult<Option<Bounds>> {
        let cut = self.engine()?.cut(JobId(job), index, of, &sample.0).await?;
        Ok(cut.map(|cut| Bounds { bounds: cut.bytes, slices: cut.slices }))
    }
}
