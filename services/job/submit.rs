//! Submissions: what is asked for is checked, its input is found and cut, its record is founded.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use nile_abi::{CoreId, NodeId, Status};
use nile_job::{Job, JobId, Record, Share, Split};
use nile_names::What;
use nile_stl::{CallError, CallResult, all};

use super::board::{Board, MOST_OPEN};
use super::catalogue::{Catalogue, part_of, whole_of};
use super::cluster::{SOON, whole};
use super::{splits, told};
use nile_interfaces::job::JobClient;
use nile_interfaces::job::records::JobRequest;

/// The most bytes of a job's name and an output's: those of its parts have to be names, too.
const MOST_NAME: usize = 112;

/// The most copies of a dataset.
const MOST_COPIES: u32 = 16;

/// Keepers of a record in a cluster that has as many nodes with disks.
const KEEPERS: usize = 3;

/// Low bits of a job's number that are drawn; the others say which came after which.
const DRAWN: u32 = 20;

fn invalid(what: impl Into<String>) -> CallError {
    CallError::new(Status::Invalid, what.into())
}

impl Board {
    /// Begins a job on this node, or, if this has no disk, on the first one that has: its number.
    pub async fn submit(self: &Rc<Self>, request: JobRequest) -> CallResult<u64> {
        check(&request)?;
        let since = self.now();
        let catalogue = Catalogue::gather(&self.cluster).await?;
        let (own, nodes) = (self.cluster.node(), catalogue.nodes());
        if nodes.contains(&own) {
            return self.begin(request, catalogue, since).await;
        }
        let first = nodes.first().copied().unwrap_or(own);
        let at = self.cluster.at(first, CoreId::BOOT);
        JobClient::find_at(&self.stl, at).await?.begin(request).await
    }

    /// Begins a job on this node, which has a disk.
    pub async fn begin_here(self: &Rc<Self>, request: JobRequest) -> CallResult<u64> {
        check(&request)?;
        let since = self.now();
        let catalogue = Catalogue::gather(&self.cluster).await?;
        self.begin(request, catalogue, since).await
    }

    async fn begin(
        self: &Rc<Self>,
        request: JobRequest,
        catalogue: Catalogue,
        since: nile_abi::Instant,
    ) -> CallResult<u64> {
        let share = share(&request)?;
        if !self.is_loaded() || self.open() >= MOST_OPEN {
            let message = if self.is_loaded() { "too many jobs run" } else { "it has just begun" };
            return Err(CallError::new(Status::Busy, format!("{message}: try again")));
        }
        let on: Vec<NodeId> = request.on.iter().map(|node| NodeId(*node)).collect();
        self.cluster.look_for(request.reducers as usize, &on).await?;
        self.check_output(&request.output, &catalogue).await?;
        let (input, splits) = self.cut_input(&request, &on, &catalogue).await?;
        let named = self.look_up(&request.package).await?;
        let package = match catalogue.dataset(&request.package, &named) {
            Some(it) => format!("{}@{}.{}", it.name, it.epoch, it.attempt),
            None => request.package,
        };
        let copies = request.copies.unwrap_or(1);
        let nodes = catalogue.nodes();
        if copies as usize > nodes.len() {
            let message = format!("{copies} copies, but {} nodes have disks", nodes.len());
            return Err(invalid(message));
        }
        let job = Job {
            id: self.draw_id(&catalogue),
            name: request.name,
            package,
            arguments: request.arguments,
            input,
            output: request.output,
            reducers: request.reducers,
            copies,
            keepers: keepers(self.cluster.node(), &nodes),
            samples: request.samples,
            memory: request.memory,
            bytes: splits.iter().map(|split| split.bytes).sum(),
            blocks: splits.iter().map(|split| split.blocks).sum(),
            conserves: request.conserves,
            task_timeout: request.task_timeout,
            share,
            on,
        };
        let workers = self.cluster.workers_on(&job.on).len();
        if workers == 0 {
            let message = match job.on.is_empty() {
                true => "no node with a pool and a disk has a worker core",
                false => "none of the job's nodes has a pool, a disk and a worker core",
            };
            return Err(CallError::new(Status::NotFound, message));
        }
        job.check(splits.len(), workers as u32).map_err(|it| invalid(format!("{it}")))?;
        let id = job.id;
        // Half a submission would leave records that nobody takes back while a keeper is away.
        let (board, record) = (self.clone(), Record::new(job, splits));
        whole(&self.stl, async move { board.found_named(record).await }).await?;
        if let Some(hosted) = self.job(id) {
            hosted.account.borrow_mut().since = since;
        }
        Ok(id.0)
    }

    /// What the job makes must not be there. Whether somebody else is making it turns out when its
    /// name is claimed.
    async fn check_output(&self, output: &str, catalogue: &Catalogue) -> CallResult<()> {
        let named = self.look_up(output).await?;
        let is_there = match &named.what {
            What::Dataset { .. } | What::Output { .. } => Some(output),
            // Of a disk that was written before names had keepers.
            _ if named.stamp == 0 => catalogue.committed(output),
            _ => None,
        };
        match is_there {
            Some(name) => Err(CallError::new(Status::Exists, format!("{name} is there already"))),
            None => Ok(()),
        }
    }

    /// The names of the datasets that are read, with their versions, and the splits.
    async fn cut_input(
        &self,
        request: &JobRequest,
        on: &[NodeId],
        catalogue: &Catalogue,
    ) -> CallResult<(Vec<String>, Vec<Split>)> {
        let mut versions = Vec::new();
        for name in &request.input {
            versions.extend(catalogue.resolve(name, &self.look_up(whole_of(name)).await?)?);
        }
        if versions.len() > usize::from(u16::MAX) {
            return Err(invalid("the input has too many parts"));
        }
        let lists = all(versions.iter().map(|version| catalogue.blocks(version))).await;
        let blocks = lists.into_iter().collect::<CallResult<Vec<_>>>()?;
        let total = blocks.iter().flatten().map(|block| u64::from(block.bytes)).sum();
        let workers = self.cluster.workers_on(on);
        let target = splits::target(total, workers.len(), self.share(request.memory, &workers));
        let name =
            |it: &super::catalogue::Version| format!("{}@{}.{}", it.name, it.epoch, it.attempt);
        Ok((versions.iter().map(name).collect(), splits::cut(&blocks, target)))
    }

    /// A worker's share of the memory that the job may use on its node. Nodes are taken to have
    /// pools like this one's.
    fn share(&self, memory: Option<u64>, workers: &[nile_job::WorkerId]) -> u64 {
        let pool = self.stl.node().ok().and_then(|node| node.pool());
        let pool = pool.map_or(0, |pool| pool.capacity() as u64 * pool.buffer_size() as u64);
        let usable = match (memory, pool) {
            (None, pool) => pool,
            (Some(memory), 0) => memory,
            (Some(memory), pool) => memory.min(pool),
        };
        let on = |node: NodeId| workers.iter().filter(|it| it.node == node).count();
        let most = workers.iter().map(|it| on(it.node)).max().unwrap_or(1);
        usable / most.max(1) as u64
    }

    /// A number that no job has had, above that of all whose output is there.
    fn draw_id(&self, catalogue: &Catalogue) -> JobId {
        let known = self.jobs().iter().map(|hosted| hosted.id.0).max().unwrap_or(0);
        let last = catalogue.last_epoch().max(known) >> DRAWN;
        let mut seed = [0; 8];
        if !self.stl.node().is_ok_and(|node| node.entropy(&mut seed)) {
            seed = self.now().as_nanos().to_le_bytes();
        }
        let drawn = u64::from_le_bytes(seed) & ((1 << DRAWN) - 1);
        JobId((last + 1) << DRAWN | drawn)
    }

    /// Claims the name of a job's output and has its record kept, or neither.
    async fn found_named(self: &Rc<Self>, record: Record) -> CallResult<()> {
        let (id, output) = (record.job.id, record.job.output.clone());
        self.claim(&output, id).await?;
        let founded = self.found_all(record).await;
        if founded.is_err() {
            // Whoever wants the name finds that nobody knows the job.
            let _ = self.give_up(&output, id).await;
        }
        founded
    }

    /// Has a majority of the keepers, this node among them, keep a record, or none at all.
    async fn found_all(self: &Rc<Self>, record: Record) -> CallResult<()> {
        let (id, own) = (record.job.id, self.cluster.node());
        let keepers = record.job.keepers.clone();
        let others: Vec<NodeId> = keepers.iter().copied().filter(|node| *node != own).collect();
        let given = all(others.iter().map(|node| self.give(*node, &record))).await;
        let there = 1 + given.iter().filter(|it| it.is_ok()).count();
        let failed = given.into_iter().find_map(Result::err);
        let result = match failed {
            Some(error) if 2 * there <= keepers.len() => Err(error),
            _ => self.take_in(record).await,
        };
        if result.is_err() {
            // Who does not hear of it finds out that most keepers do not know the job.
            let stl = self.stl.with_patience(SOON);
            all(others.iter().map(|node| {
                let (stl, at) = (stl.clone(), self.cluster.at(*node, CoreId::BOOT));
                async move { JobClient::find_at(&stl, at).await?.withdraw(id.0).await }
            }))
            .await;
            self.forget(id).await;
        }
        result
    }

    /// A job is not begun after all: drops its record, if nothing has happened to it.
    pub async fn withdraw(&self, id: JobId) {
        let is_new = |record: &Record| record.epoch() == nile_job::Epoch::FIRST;
        if self.job(id).is_some_and(|hosted| hosted.is_open() && hosted.with(is_new)) {
            self.forget(id).await;
        }
    }
}

fn share(request: &JobRequest) -> CallResult<Share> {
    told::share(request.policy).checked().map_err(|error| invalid(format!("{error}")))
}

/// What can be said without looking around.
fn check(request: &JobRequest) -> CallResult<()> {
    share(request)?;
    if request.reducers == 0 {
        return Err(invalid(format!("{}", nile_job::Refused::NoReducers)));
    }
    if request.name.len() > MOST_NAME {
        return Err(invalid(format!("a job has a name of at most {MOST_NAME} bytes")));
    }
    if request.output.is_empty() || request.output.len() > MOST_NAME {
        return Err(invalid(format!("an output has a name of 1 to {MOST_NAME} bytes")));
    }
    if request.output.chars().any(char::is_control) || part_of(&request.output).is_some() {
        let message = format!("{:?}: not a name of an output", request.output);
        return Err(invalid(message));
    }
    if request.package.is_empty() {
        return Err(invalid("a job has a package"));
    }
    if request.conserves && request.input.is_empty() {
        return Err(invalid("a job without input has nothing to conserve"));
    }
    if !(1..=MOST_COPIES).contains(&request.copies.unwrap_or(1)) {
        return Err(invalid(format!("a dataset has 1 to {MOST_COPIES} copies")));
    }
    if request.memory == Some(0) || request.task_timeout == Some(0) {
        return Err(invalid("a job has some memory, and its tasks some time"));
    }
    Ok(())
}

/// Who keeps the record of a job that `own` begins: itself first, then those after it that have
/// disks. Of two a majority would be both, so there is one.
fn keepers(own: NodeId, nodes: &[NodeId]) -> Vec<NodeId> {
    let after = nodes.iter().filter(|node| **node > own);
    let before = nodes.iter().filter(|node| **node < own);
    let count = if nodes.len() < KEEPERS { 1 } else { KEEPERS };
    [own].iter().chain(after).chain(before).copied().take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_nodes_keep_a_record_or_one() {
        let nodes = [1, 3, 4, 9].map(NodeId);
        assert_eq!(keepers(NodeId(4), &nodes), [4, 9, 1].map(NodeId));
        assert_eq!(keepers(NodeId(1), &nodes), [1, 3, 4].map(NodeId));
        assert_eq!(keepers(NodeId(3), &nodes[..2]), [NodeId(3)]);
    }
}
