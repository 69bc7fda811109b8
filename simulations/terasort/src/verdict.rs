//! Whether a sort may end as it did, and whether it left everything as it ought to be.

use std::time::Duration;

use nile_abi::{Instant, Status};
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::job::records::{JobEnd, ProgressEntry};
use nile_platform_sim::Deed;
use nile_stl::{CallError, CallResult};

use crate::expected::Expected;
use crate::holdings::{Holders, Holdings};
use crate::judge::{Found, GLANCE, Judge, said};
use crate::plot::WORKERS;

/// How long what a job leaves may take to be cleared away.
const CLEARING: Duration = Duration::from_secs(60);

/// How long a block may have no copy without being lost: a job waits for ten seconds, but a node
/// that is back has to be found, too.
const MISSED: Duration = Duration::from_secs(6);

/// What disks are filled with, and how many bytes of each are left: on all of them together less
/// than the output takes. Half of it is for records of jobs alone.
const BALLAST: &str = "ballast";
const SPARE: u64 = 48 << 10;

/// Buffers that a store keeps: one to write its own records, and the block that it has read last.
const OF_STORE: usize = 2;

/// What a job's error begins with that has lost blocks.
pub const LOST: &str = "no living node has a copy of block";

impl Judge<'_> {
    /// Fills all disks but for a little.
    pub async fn fill(&self) -> CallResult<()> {
        let holdings = self.holdings().await?;
        for node in 0..self.plot().nodes {
            let Some(store) = holdings.store(node) else { continue };
            let name = format!("{BALLAST}/{node}");
            let draft = store.create(&name, 1, 1, Decider::Here, 0).await?.draft;
            let bytes = store.space().await?.free.saturating_sub(SPARE);
            let mut at = 0;
            while at < bytes {
                let piece = (bytes - at).min(48 << 10);
                at = store.write(draft, at, vec![0; piece as usize][..].into()).await?;
            }
            store.commit(draft).await?;
        }
        Ok(())
    }

    /// Whether the sort could not be taken in: there is a part of its input that no node has which
    /// is there, or there are too few worker cores.
    pub fn is_refusal(&self, error: &CallError, holders: &Holders) -> bool {
        let now = self.now();
        let is_there = |node: &usize| !self.absences.is_away(*node, now);
        match error.status {
            Status::NotFound => holders.values().any(|nodes| !nodes.iter().any(is_there)),
            Status::Invalid => {
                let nodes = (0..self.plot().nodes).filter(is_there).count() as u64;
                u64::from(self.plot().reducers) > nodes * WORKERS
            }
            _ => false,
        }
    }

    /// Whether a job may end in this way. `holders` are the nodes that have each part of its input,
    /// `since` is when it was submitted.
    pub fn check_end(
        &self,
        ended: &ProgressEntry,
        since: Instant,
        holders: &Holders,
        expected: &Expected,
    ) -> Found<()> {
        let plot = self.plot();
        let error = &ended.error;
        if ended.ended == JobEnd::Made {
            let records = expected.records();
            return match (ended.records == records, plot.is_full) {
                (true, false) => Ok(()),
                (true, true) => Err("the disks are full, and yet it ended well".into()),
                (false, _) => Err(format!("{} records of {records}", ended.records)),
            };
        }
        if plot.is_full && error.contains("disk full") {
            return Ok(());
        }
        if plot.conduct.wants_too_much {
            return Err(format!("it failed: {error}"));
        }
        let away = |part: &str| {
            let nodes = holders.get(part);
            nodes.map_or(Duration::ZERO, |nodes| self.absences.longest(nodes, since, self.now()))
        };
        if holders.keys().all(|part| away(part) < MISSED) {
            return Err(format!("all blocks had copies, yet it failed: {error}"));
        }
        let named: Vec<&str> =
            error.split([' ', ',', ':']).filter(|it| it.contains("-of-")).collect();
        if !error.starts_with(LOST) || named.is_empty() {
            return Err(format!("blocks were lost, and are not named: {error}"));
        }
        match named.into_iter().find(|part| away(part) < MISSED) {
            Some(part) => Err(format!("{part} was not lost: {error}")),
            None => Ok(()),
        }
    }

    /// Whether the output can be read right when the sort is said to have ended: each part of
    /// which there is a copy on a node that can be asked now.
    pub async fn check_seen(&self) -> Found<()> {
        let plot = self.plot();
        let mut stores = self.stores().await.map_err(said("stores"))?;
        stores.retain(|at| !self.absences.is_away(at.node.0 as usize - 1, self.now()));
        if stores.len() + plot.output_copies as usize <= plot.nodes {
            return Ok(());
        }
        if plot.conduct.removes_all {
            self.remove_output(usize::MAX).await.map_err(said("doing wrong"))?;
        }
        // One of them may be lost right now.
        let Ok(holdings) = self.holdings_of(stores).await else { return Ok(()) };
        self.stage.count("outputs read at once");
        match holdings.parts("output").len() {
            seen if seen == plot.reducers as usize => Ok(()),
            seen => Err(format!("it has ended, and {seen} parts of {} are seen", plot.reducers)),
        }
    }

    /// Has all nodes come back, and checks what is there in the end: the output that is expected,
    /// or none.
    pub async fn check_rest(&mut self, expected: Option<&Expected>) -> Found<()> {
        let plot = self.plot();
        let now = self.now();
        self.stage.deeds.add(now, Deed::Heal);
        for node in self.absences.end(now) {
            self.stage.deeds.add(now, Deed::Start(node));
        }
        self.wait(GLANCE).await;
        self.do_wrong().await.map_err(said("doing wrong"))?;
        let parts = WORKERS as u32 * plot.nodes as u32;
        let mut outputs = vec![("input", parts, plot.input_copies)];
        if expected.is_some() {
            outputs.push(("output", plot.reducers, plot.output_copies));
        }
        if plot.is_full {
            outputs.push((BALLAST, plot.nodes as u32, 1));
        }
        outputs.extend(self.ended_others().await?.into_iter().map(|name| (name, 1, 1)));
        let limit = self.now() + CLEARING;
        let holdings = loop {
            let fault = match self.look(&outputs).await {
                Ok((holdings, None)) => break holdings,
                Ok((_, Some(fault))) => fault,
                Err(error) => format!("the stores cannot be asked: {error}"),
            };
            if self.now() > limit {
                return Err(format!("a minute after the end {fault}"));
            }
            self.wait(GLANCE * 4).await;
        };
        if let Some(expected) = expected {
            let flip = |bytes: &mut [u8]| {
                if plot.conduct.flips_a_bit && bytes.len() > 50 {
                    bytes[50] ^= 1;
                }
            };
            let read = holdings.read("output", plot.reducers, flip).await;
            expected.check(&read.map_err(said("output"))??)?;
        }
        Ok(())
    }

    /// What a part that does wrong on purpose does.
    async fn do_wrong(&self) -> CallResult<()> {
        let conduct = self.plot().conduct;
        if conduct.leaves_a_draft {
            let holdings = self.holdings().await?;
            if let Some(store) = holdings.store(self.plot().via) {
                let draft = store.create("left", 1, 1, Decider::Here, 0).await?.draft;
                // A whole block: what gathers is in a buffer, and takes no space.
                for at in 0..2 {
                    store.write(draft, at * 4096, [7; 4096][..].into()).await?;
                }
            }
        }
        if conduct.removes_a_copy {
            self.wait(CLEARING / 2).await;
            self.remove_output(1).await?;
        }
        Ok(())
    }

    /// Removes so many copies of the output's parts.
    async fn remove_output(&self, copies: usize) -> CallResult<()> {
        let holdings = self.holdings().await?;
        let all = holdings
            .listed
            .iter()
            .flat_map(|(node, listed)| listed.iter().map(move |it| (node, it)));
        for (node, it) in all.filter(|(_, it)| it.name.starts_with("output/")).take(copies) {
            if let Some(store) = holdings.store(*node) {
                store.remove(&it.name, it.epoch, it.attempt).await?;
            }
        }
        Ok(())
    }

    /// What the stores have, and what is wrong with it.
    async fn look(&self, outputs: &[(&str, u32, u32)]) -> CallResult<(Holdings, Option<String>)> {
        let holdings = self.holdings().await?;
        let missing = (0..self.plot().nodes).find(|node| holdings.store(*node).is_none());
        let mut fault = missing.map(|node| format!("n{} is not back", node + 1));
        fault = fault.or_else(|| holdings.fault(outputs));
        if fault.is_none() {
            fault = holdings.leak().await?;
        }
        if fault.is_none() {
            fault = self.missing_buffers();
        }
        Ok((holdings, fault))
    }

    /// A node of whose pool buffers are missing.
    fn missing_buffers(&self) -> Option<String> {
        let insides = self.stage.insides.borrow();
        let pools = insides
            .iter()
            .enumerate()
            .filter_map(|(node, stl)| Some((node, stl.as_ref()?.node().ok()?.pool()?)));
        let mut missing = pools.map(|(node, pool)| (node, pool.capacity() - pool.free_buffers()));
        let (node, count) = missing.find(|(_, count)| *count > OF_STORE)?;
        Some(format!("n{} misses {count} buffers", node + 1))
    }
}
