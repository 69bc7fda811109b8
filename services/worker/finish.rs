//! The end of an attempt: what it has made is durable before anybody hears of it.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::Blob;
use nile_job::{Fault, Kind, Summary};
use nile_stl::{CallError, CallResult};
use nile_sync::first;

use super::attempt::{Attempt, Held, Part};
use super::drafts::{Draft, Writer};
use super::engine::Engine;
use super::stores::Named;
use crate::cluster::Store;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::Decider;

/// How often a store is asked for a copy of a part, or told what became of one, and how long it is
/// left alone in between.
const TOLD: u32 = 10;
const BETWEEN: Duration = Duration::from_millis(300);

/// How long a copy may take: its blocks have a patience of their own, and the end of either node
/// ends it.
const COPY_PATIENCE: Duration = Duration::from_secs(3600);

/// How long it is waited for nodes that are to have copies of a part, while too few are known.
const NODES_PATIENCE: Duration = Duration::from_secs(20);

impl Engine {
    /// Sees an attempt to its end, after the package has said that it is done.
    pub async fn finish(self: &Rc<Self>, attempt: &Rc<Attempt>, records: u64, checksum: u64) {
        let read = attempt.read.get();
        let summary = Summary { read, records, checksum, ..Summary::default() };
        let ended = match attempt.kind() {
            Kind::Sample => {
                let sample = Blob(attempt.sample.take());
                self.done(attempt, Summary { sample, ..summary }, |_| {});
                Ok(())
            }
            Kind::Map => self.finish_map(attempt, summary).await,
            Kind::Reduce => self.finish_reduce(attempt, summary).await,
        };
        match ended {
            Ok(()) => {}
            Err(_) if attempt.is_off.get() => {
                let id = attempt.id;
                self.settle(attempt, |worker, now| worker.stopped(now, id));
            }
            Err((fault, text)) => self.fail(attempt, fault, text),
        }
    }

    async fn finish_map(
        self: &Rc<Self>,
        attempt: &Rc<Attempt>,
        summary: Summary,
    ) -> Result<(), (Fault, String)> {
        let writer = attempt.writer.borrow().clone();
        if let Some(writer) = &writer {
            writer.flush().await.map_err(space)?;
        }
        if !attempt.is_wanted() {
            return Err(off());
        }
        // From now on it is not this attempt's.
        attempt.writer.take();
        let made = attempt.made.take();
        let (kept, spilled) = made.bytes();
        let held = Rc::new(Held { made, writer, is_shared: Cell::new(false) });
        let id = attempt.id;
        let summary = Summary { written: kept + spilled, spilled, ..summary };
        self.done(attempt, summary, |it| drop(it.held.insert(id, held)));
        Ok(())
    }

    /// The draft of the part that a reduce attempt writes.
    pub async fn part_draft(self: &Rc<Self>, attempt: &Attempt) -> CallResult<Rc<Writer>> {
        let named = part_name(attempt)?;
        let version = (named.epoch, named.attempt);
        let owner = Decider::Job { keepers: attempt.job.keepers_in_manifest() };
        Writer::create(self, Draft { name: &named.name, version, owner }).await
    }

    /// A core that has ended since a reduce attempt looked at what it keeps: any bytes may have
    /// been there.
    pub(super) fn lost_source(&self, attempt: &Attempt) -> Option<CoreId> {
        let host = self.stl.host();
        let gather = attempt.gather.borrow();
        let mut sharers = gather.sharers();
        sharers.find(|(core, generation)| host.generation_of(*core) != *generation).map(|it| it.0)
    }

    async fn finish_reduce(
        self: &Rc<Self>,
        attempt: &Rc<Attempt>,
        summary: Summary,
    ) -> Result<(), (Fault, String)> {
        if let Some(core) = self.lost_source(attempt) {
            let text = format!("{core} has ended while what it kept was read");
            return Err((Fault::Input, text));
        }
        let writer = attempt.writer.borrow().clone();
        let writer = match writer {
            Some(writer) => writer,
            None => {
                let writer = self.part_draft(attempt).await.map_err(space)?;
                *attempt.writer.borrow_mut() = Some(writer.clone());
                writer
            }
        };
        writer.flush().await.map_err(space)?;
        if !attempt.is_wanted() {
            return Err(off());
        }
        let named = part_name(attempt).map_err(space)?;
        let nodes = self.copies(attempt).await.map_err(space)?;
        let numbers: Vec<u32> = nodes.iter().map(|node| node.0).collect();
        let (_, draft) = writer.place();
        let prepared = writer.store().client.prepare(draft, numbers).await;
        prepared.map_err(space)?;
        let part = Part { named, nodes };
        if let Err(error) = self.copy(attempt, &part).await {
            self.decide(part, false);
            return Err(space(error));
        }
        if !attempt.is_wanted() {
            self.decide(part, false);
            return Err(off());
        }
        let (id, read) = (attempt.id, attempt.gather.borrow().bytes());
        let summary = Summary { read, written: writer.bytes(), ..summary };
        // It is no draft any more.
        attempt.writer.take();
        self.done(attempt, summary, |it| drop(it.parts.insert(id, part)));
        Ok(())
    }

    /// The nodes that are to have a part: this one and those after it that have disks. There were
    /// enough when the job was submitted: if there are not, some are not known here yet, or are
    /// away. It is waited for them, as nobody would make the copies later.
    async fn copies(&self, attempt: &Attempt) -> CallResult<Vec<NodeId>> {
        let (own, host) = (self.peers.node(), self.stl.host());
        let wanted = attempt.job.copies.max(1) as usize;
        let until = host.now() + NODES_PATIENCE;
        loop {
            let nodes = self.stores.nodes().await?;
            let known = nodes.len();
            if let Some(chosen) = chosen(nodes, own, wanted) {
                return Ok(chosen);
            }
            if host.now() >= until || !attempt.is_wanted() {
                let text = format!("{wanted} copies, but {known} nodes have disks now");
                return Err(CallError::new(Status::NotFound, text));
            }
            host.pause(BETWEEN).await;
        }
    }

    /// Has the other nodes of a part copy it from this one; over when they have it durably.
    async fn copy(&self, attempt: &Attempt, part: &Part) -> CallResult<()> {
        let (own, host) = (self.peers.node(), self.stl.host());
        for node in part.nodes.iter().copied().filter(|node| *node != own) {
            let mut tries = 1;
            while let Err(error) = self.copy_to(attempt, node, &part.named).await {
                // Nodes that have just met do not know yet what the other one has.
                let may_be_well = tries < TOLD && error.status != Status::NoMemory;
                if !may_be_well || !attempt.is_wanted() {
                    return Err(error);
                }
                tries += 1;
                self.stores.forget();
                host.pause(BETWEEN).await;
            }
        }
        Ok(())
    }

    /// Has a node copy a part from this one, as long as the attempt is wanted.
    async fn copy_to(&self, attempt: &Attempt, node: NodeId, part: &Named) -> CallResult<()> {
        let at = self.stores.beside(node, self.core()).await?;
        let client = DatasetClient::at(&self.stl.with_patience(COPY_PATIENCE), at.place);
        let own = self.peers.node().0;
        let copied = client.fetch_from(&part.name, part.epoch, part.attempt, own);
        let is_off = self
            .changes
            .until(|| (!attempt.is_wanted()).then(|| Err(CallError::new(Status::Failed, off().1))));
        first(is_off, async { copied.await.map(drop) }).await
    }

    /// Tells those who have a part whether it is of the output. Who does not hear it asks the
    /// record of the job, some time.
    pub fn decide(self: &Rc<Self>, part: Part, is_wanted: bool) {
        let engine = self.clone();
        self.stl.host().spawn(Box::pin(async move {
            for node in part.nodes {
                engine.tell_stores(node, &part.named, is_wanted).await;
            }
        }));
    }

    async fn tell_stores(&self, node: NodeId, named: &Named, is_wanted: bool) {
        let Named { name, epoch, attempt } = named;
        let host = self.stl.host();
        for _ in 0..TOLD {
            let missing = CallError::from(Status::NotFound);
            let tell = async |store: &Store| match is_wanted {
                true => store.client.confirm(name, *epoch, *attempt).await,
                false => store.client.remove(name, *epoch, *attempt).await,
            };
            match self.stores.first_of(&[node], missing, &|| true, tell).await {
                Ok(()) => return,
                Err(error) if error.status == Status::NotFound => {}
                Err(_) => self.stores.forget(),
            }
            host.pause(BETWEEN).await;
        }
    }
}

/// So many of these nodes, in their order from `own` on, and none if there are fewer.
fn chosen(mut nodes: Vec<NodeId>, own: NodeId, wanted: usize) -> Option<Vec<NodeId>> {
    let place = nodes.iter().position(|node| *node == own).unwrap_or(0);
    nodes.rotate_left(place);
    (nodes.len() >= wanted).then(|| {
        nodes.truncate(wanted);
        nodes
    })
}

/// Whose fault it is that a store did not take something: that of who asked too much of it, unless
/// its core has ended.
pub(super) fn fault_of(error: &CallError, usual: Fault) -> Fault {
    let is_gone = matches!(error.status, Status::Dead | Status::Gone);
    if is_gone { Fault::Input } else { usual }
}

fn space(error: CallError) -> (Fault, String) {
    (fault_of(&error, Fault::Space), format!("{error}"))
}

fn off() -> (Fault, String) {
    (Fault::Code, String::from("the attempt is off"))
}

/// The dataset of the part that a reduce attempt writes.
fn part_name(attempt: &Attempt) -> CallResult<Named> {
    let (index, job) = (attempt.id.task.index, &attempt.job);
    let too_many = || CallError::new(Status::Invalid, "the job has had too many attempts");
    Ok(Named {
        name: format!("{}/{index}-of-{}", job.output, job.reducers),
        epoch: attempt.job_id.0,
        attempt: attempt.id.version().ok_or_else(too_many)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_never_on_fewer_nodes_than_wanted() {
        let nodes = |numbers: &[u32]| numbers.iter().copied().map(NodeId).collect::<Vec<_>>();
        let chosen = |known: &[u32], wanted| chosen(nodes(known), NodeId(2), wanted);
        assert_eq!(chosen(&[1, 2, 3], 2), Some(nodes(&[2, 3])));
        assert_eq!(chosen(&[1, 2], 2), Some(nodes(&[2, 1])));
        assert_eq!(chosen(&[2], 1), Some(nodes(&[2])));
        // The others are not known yet.
        assert_eq!(chosen(&[2], 2), None);
        assert_eq!(chosen(&[1, 2, 3], 4), None);
    }
}
