//! What must hold in a run, and what was seen of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nile_abi::NodeId;
use nile_job::{
    AttemptId, Counters, End, Epoch, Fault, JobError, Kind, Note, Part, ToMaster, WorkerId,
};

use super::cluster::Cluster;
use crate::report::Figure;

/// What was seen.
#[derive(Default)]
pub struct Ledger {
    started: BTreeSet<AttemptId>,
    /// Masters that began, and where.
    begun: BTreeMap<Epoch, NodeId>,
    /// How the job ended.
    pub end: Option<End>,
    pub is_cancelled: bool,
    /// Nodes that lost their disk, and nodes that will not come back.
    pub wiped: BTreeSet<NodeId>,
    pub gone: BTreeSet<NodeId>,
    pub killed: u64,
    pub partitions: u64,
    counters: Counters,
}

impl Ledger {
    /// A master begins: no other ever had its epoch.
    pub fn master_begins(&mut self, id: NodeId, epoch: Epoch) -> Result<(), String> {
        match self.begun.insert(epoch, id) {
            Some(other) => Err(format!("{epoch} began on {id}, and before on {other}")),
            None => Ok(()),
        }
    }

    pub fn master_ends(&mut self, counters: Counters) {
        self.counters.attempts += counters.attempts;
        self.counters.retries += counters.retries;
        self.counters.inherited += counters.inherited;
        self.counters.second_tries += counters.second_tries;
    }

    /// An attempt starts: nobody has ever started it before.
    pub fn starts(&mut self, at: WorkerId, attempt: AttemptId) -> Result<(), String> {
        match self.started.insert(attempt) {
            true => Ok(()),
            false => Err(format!("{attempt} starts a second time, on {at}")),
        }
    }

    pub fn figures(&self) -> Vec<Figure> {
        let figure = |name, count: u64| Figure::new(name, count as f64, "in the last run");
        vec![
            figure("attempts", self.started.len() as u64),
            figure("masters", self.begun.len() as u64),
            figure("nodes and cores killed", self.killed),
            figure("partitions", self.partitions),
            figure("retries", u64::from(self.counters.retries)),
            figure("second tries", u64::from(self.counters.second_tries)),
            figure("outputs taken over", u64::from(self.counters.inherited)),
        ]
    }
}

impl Cluster {
    /// A keeper knows that the job has ended.
    pub fn learn(&mut self, keeper: NodeId, end: End) -> Result<(), String> {
        match &self.ledger.end {
            Some(known) if *known != end => {
                Err(format!("the job ended twice: {end:?} after {known:?}"))
            }
            Some(_) => Ok(()),
            None => {
                self.trace.note(self.now, u64::from(keeper.0), 50, 0);
                self.check_end(keeper, &end)?;
                self.ledger.end = Some(end);
                Ok(())
            }
        }
    }

    /// The end is right, or it is a true error.
    fn check_end(&self, keeper: NodeId, end: &End) -> Result<(), String> {
        match end {
            End::Published(parts) => self.check_output(parts),
            End::Failed(JobError::Cancelled) if self.ledger.is_cancelled => Ok(()),
            End::Failed(JobError::LostBlocks(blocks)) => {
                let holders = |block: &u32| self.work.splits[*block as usize].nodes.iter();
                let mut all = blocks.iter().flat_map(|it| it.block..it.block + it.blocks);
                let there = all.find(|block| holders(block).any(|node| !self.was_away(*node)));
                match there {
                    Some(block) => Err(format!("block {block} was not lost, but {keeper} says so")),
                    None => Ok(()),
                }
            }
            End::Failed(JobError::Task { task, failure }) => {
                let is_true = match failure.fault {
                    Fault::Code => {
                        let is_bad = self.code.bad_task == Some(task.index);
                        self.code.flaky > 0 || (is_bad && task.kind == Kind::Map)
                    }
                    Fault::Space => self.nodes.iter().any(|node| node.disk.is_full),
                    Fault::Input => false,
                };
                match is_true {
                    true => Ok(()),
                    false => Err(format!("{task} had no reason to fail: {failure:?}")),
                }
            }
            End::Failed(JobError::NoWorkers) => {
                let there = self.nodes.iter().find(|node| !self.was_away(node.id));
                match there {
                    Some(node) => {
                        Err(format!("{} had workers, but {keeper} knows of none", node.id))
                    }
                    None => Ok(()),
                }
            }
            End::Failed(error) => Err(format!("the job failed for no reason: {error}")),
        }
    }

    /// Whether a node was dead or parted from others lately.
    fn was_away(&self, id: NodeId) -> bool {
        let node = &self.nodes[id.0 as usize - 1];
        let lately = self.settings.block_patience + Duration::from_secs(3);
        !node.lives || self.sides.is_some() || node.away.is_some_and(|at| at + lately > self.now)
    }

    fn check_output(&self, parts: &[Part]) -> Result<(), String> {
        let reducers = self.work.job.reducers as usize;
        if parts.len() != reducers {
            return Err(format!("{} parts of {reducers} were published", parts.len()));
        }
        let mut records = Vec::new();
        let mut is_whole = true;
        for (place, part) in parts.iter().enumerate() {
            let Part { attempt, at, .. } = part;
            if attempt.task.kind != Kind::Reduce || attempt.task.place() != place {
                return Err(format!("{attempt} was published as part {place}"));
            }
            let node = &self.nodes[at.node.0 as usize - 1];
            match node.disk.parts.get(attempt) {
                Some(found) if found.under != attempt.epoch => {
                    let under = found.under;
                    return Err(format!("{attempt} was finished when {under} was the master"));
                }
                Some(found) => records.extend_from_slice(&found.records),
                None if self.ledger.wiped.contains(&at.node) => is_whole = false,
                None => return Err(format!("{attempt} was published, and is not on {at}")),
            }
        }
        if is_whole && records != self.work.sorted() {
            return Err("the output is not the sorted input".into());
        }
        Ok(())
    }

    /// Nothing is left behind but the output.
    pub fn check_tidy(&self, end: &End) -> Result<(), String> {
        let parts = match end {
            End::Published(parts) => parts.as_slice(),
            End::Failed(_) => &[],
        };
        for node in self.nodes.iter().filter(|node| !self.ledger.gone.contains(&node.id)) {
            let id = node.id;
            if !node.lives {
                return Err(format!("{id} is still down"));
            }
            if let Some(master) = &node.master {
                return Err(format!("{id} still has the master of {}", master.epoch()));
            }
            if let Some(keeper) = &node.keeper
                && keeper.record().end() != Some(end)
            {
                return Err(format!("{id} keeps {:?} as the end", keeper.record().end()));
            }
            for core in &node.cores {
                if let Some(exec) = &core.exec {
                    return Err(format!("{} still runs on {id}", exec.attempt));
                }
                if let Some(output) = core.outputs.keys().next() {
                    return Err(format!("the output of {output} is still on {id}"));
                }
                if let Some(worker) = &core.worker {
                    return Err(format!("{} still has a machine", worker.id()));
                }
            }
            for (attempt, part) in &node.disk.parts {
                let listed = parts.iter().any(|it| it.attempt == *attempt && it.at == part.owner);
                if listed != part.is_committed {
                    return Err(format!("the part of {attempt} is still on {id}: {listed}"));
                }
                if !listed {
                    return Err(format!("{attempt} was left behind on {id}"));
                }
            }
        }
        Ok(())
    }
}

/// Makes outputs of all plans look like those of the master that hears of them.
pub fn mix_plans(message: &mut ToMaster) {
    for note in &mut message.notes.items {
        if let Note::Held { plan, .. } = note {
            *plan = message.epoch;
        }
    }
}
