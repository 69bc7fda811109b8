//! What must hold in a run, and what was seen of it.

use std::collections::BTreeSet;
use std::time::Duration;

use nile_abi::{Generation, NodeId};
use nile_job::{
    AttemptId, Counters, End, Epoch, Fault, JobError, Kind, Note, Part, ToMaster, Verdict, WorkerId,
};

use super::cluster::Cluster;
use crate::report::Figure;

/// What was seen.
#[derive(Default)]
pub struct Ledger {
    started: BTreeSet<AttemptId>,
    /// Masters that began, by node and life.
    begun: BTreeSet<(Epoch, NodeId, Generation)>,
    ends: Vec<End>,
    pub is_cancelled: bool,
    /// Nodes that lost their disk, and nodes that will not come back.
    pub wiped: BTreeSet<NodeId>,
    pub gone: BTreeSet<NodeId>,
    pub killed: u64,
    pub partitions: u64,
    counters: Counters,
}

impl Ledger {
    /// A master begins, unless it is a repetition of what was heard before.
    pub fn master_begins(&mut self, id: NodeId, life: Generation, epoch: Epoch) -> bool {
        let is_latest = self.begun.iter().all(|(begun, ..)| *begun < epoch);
        is_latest && self.begun.insert((epoch, id, life))
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
    /// A master wants to end the job: gives what the record says.
    pub fn decide(&mut self, from: NodeId, epoch: Epoch, end: End) -> Result<Verdict, String> {
        let was_open = self.record.end().is_none();
        let mut verdict = self.record.decide(epoch, end.clone());
        if self.conduct.is_unfenced {
            verdict = Verdict::Ended(end.clone());
        }
        let is_news = was_open || !self.ledger.ends.contains(&end);
        if matches!(verdict, Verdict::Ended(_)) && is_news {
            let ended = if self.conduct.is_unfenced { end } else { self.end_of(&verdict) };
            if self.ledger.ends.iter().any(|known| *known != ended) {
                return Err(format!("the job ended twice: {ended:?} after {:?}", self.ledger.ends));
            }
            if self.ledger.ends.is_empty() {
                self.trace.note(self.now, epoch.0, 50, u64::from(from.0));
                self.check_end(from, epoch, &ended)?;
                self.ledger.ends.push(ended);
            }
        }
        Ok(verdict)
    }

    fn end_of(&self, verdict: &Verdict) -> End {
        match verdict {
            Verdict::Ended(end) => end.clone(),
            Verdict::Superseded(_) => End::Failed(JobError::Cancelled),
        }
    }

    /// The end is right, or it is a true error.
    fn check_end(&self, master: NodeId, epoch: Epoch, end: &End) -> Result<(), String> {
        match end {
            End::Published(parts) => self.check_output(epoch, parts),
            End::Failed(JobError::Cancelled) if self.ledger.is_cancelled => Ok(()),
            End::Failed(JobError::LostBlocks(blocks)) => {
                let holders = |block: &u32| self.work.splits[*block as usize].nodes.iter();
                let there =
                    blocks.iter().find(|block| holders(block).any(|node| !self.was_away(*node)));
                match there {
                    Some(block) => Err(format!("block {block} was not lost, but {master} says so")),
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
                    Some(node) => Err(format!("{} had workers, but {master} had none", node.id)),
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

    fn check_output(&self, epoch: Epoch, parts: &[Part]) -> Result<(), String> {
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
            if attempt.epoch > epoch {
                return Err(format!("{attempt} is of a later master than {epoch}"));
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
        if let Note::Held(_, plan, _) = note {
            *plan = message.epoch;
        }
    }
}
