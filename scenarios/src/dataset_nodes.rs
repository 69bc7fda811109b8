//! Datasets between nodes: n1 writes datasets on n2, whose owner is a job's record, has its own
//! store pull them, and finds them there whole; whatever fails leaves nothing on n1. A node that
//! begins anew still has what was prepared and nobody has decided.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::{Buffer, Bytes};
use nile_interfaces::dataset::records::{Decider, Destination, Listed};
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES};
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::{Meaning, NameAnswer, NameEntry, NameExpectation, NamePage};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::cluster;
use nile_stl::node::{Pool, from_call};
use nile_stl::{At, CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::cluster::{start_with, until};
use crate::conduct::Findings;

/// The nodes: n1 conducts.
const HERE: u32 = 1;
const SOURCE: u32 = 2;

/// Bytes of a dataset.
const BYTES: usize = 400_003;

/// Starts this core's part. With `ends=1` n2 may end meanwhile, if it comes back.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let (nodes, rounds) = (arguments.number("nodes", 2), arguments.number("rounds", 4));
    let ends = arguments.number("ends", 0) != 0;
    let own = core.clone();
    start_with(core, nodes, "dataset-nodes", move |findings| {
        let stl = own.stl();
        async move {
            let pool = own.pool().map(|it| &**it);
            if let Err(error) = check(&stl, pool, (rounds, ends), &findings).await {
                findings.check(false, format_args!("{error}"));
            }
        }
    });
}

/// The byte at a place of a round's dataset.
fn byte(at: usize, round: u64) -> u8 {
    ((at + 1).wrapping_mul(0x9e37_79b1) >> 11) as u8 ^ round as u8
}

/// A store of a node, as soon as it has one.
async fn store(stl: &Stl, node: NodeId) -> CallResult<DatasetClient> {
    let none = || CallError::new(Status::NotFound, format!("{node} has no store"));
    until(stl, async || {
        let found = cluster::stores(stl).await?.into_iter().find(|store| store.node == node);
        found.map(|store| store.client).ok_or_else(none)
    })
    .await
}

struct Here<'a> {
    stl: &'a Stl,
    pool: &'a Pool,
    findings: &'a Findings,
    datasets: DatasetClient,
    /// Bytes and buffers that are free while there is nothing.
    free: u64,
    buffers: usize,
}

async fn check(
    stl: &Stl,
    pool: Option<&Pool>,
    (rounds, ends): (u64, bool),
    findings: &Findings,
) -> CallResult<()> {
    let datasets = store(stl, cluster::node(stl)).await?;
    let free = datasets.space().await?.free;
    let none = || CallError::new(Status::NotFound, "the configuration gives no pool");
    let pool = pool.ok_or_else(none)?;
    let buffers = pool.free_buffers();
    let here = Here { stl, pool, findings, datasets, free, buffers };
    if !ends {
        here.refusals().await?;
        here.names().await?;
    }
    let (mut failures, mut attempt) = (0, 0);
    for round in 0..rounds {
        let limit = stl.host().now() + core::time::Duration::from_secs(60);
        while let Err(error) = here.copy(round, &mut attempt).await {
            failures += 1;
            if stl.host().now() > limit {
                return Err(error);
            }
            here.nothing_is_left(&format!("after {error}")).await?;
        }
        here.nothing_is_left("after a round").await?;
    }
    findings.figure("failures", failures);
    Ok(())
}

impl Here<'_> {
    fn refused<T: core::fmt::Debug>(&self, result: CallResult<T>, status: Status, what: &str) {
        let is_it = matches!(&result, Err(CallError { status: other, .. }) if *other == status);
        self.findings.check(is_it, format_args!("{what}: {result:?}, and not {status}"));
    }

    /// What is for cores of the node alone, what there is not, and what makes no sense.
    async fn refusals(&self) -> CallResult<()> {
        let fetch = |name, node| self.datasets.fetch_from(name, 1, 0, node);
        self.refused(fetch("none", HERE).await, Status::Invalid, "from here to here");
        self.refused(fetch("none", 99).await, Status::NotFound, "from no node");
        self.refused(fetch("none", SOURCE).await, Status::NotFound, "what there is not");
        let source = store(self.stl, NodeId(SOURCE)).await?;
        let draft = source.create("refused", 1, 0, Decider::Job { keepers: 0 }, 0).await?.draft;
        let buffer = Buffer { pool: 0, index: 0, generation: 0, length: 1 };
        self.refused(source.append(draft, buffer).await, Status::Denied, "a buffer from afar");
        self.refused(source.load_draft(draft, 0).await, Status::Denied, "one that goes afar");
        self.refused(source.load("refused", 1, 0, 0).await, Status::Denied, "the same");
        source.write(draft, 0, Bytes::from(&b"x"[..])).await?;
        source.prepare(draft, Vec::from([SOURCE])).await?;
        let send = |block| {
            let to = Destination { node: HERE, mailbox: 0x0dd, label: 1 };
            source.send("refused", 1, 0, block, to)
        };
        self.refused(send(0).await, Status::NotFound, "to a mailbox that nobody has");
        self.refused(send(1).await, Status::NotFound, "a block that there is not");
        source.remove("refused", 1, 0).await
    }

    /// A name that both nodes change: what one has done the other sees, at once.
    async fn names(&self) -> CallResult<()> {
        let here = NameClient::find(self.stl).await?;
        let at = At { node: NodeId(SOURCE), core: CoreId::BOOT };
        let there = NameClient::find_at(self.stl, at).await?;
        let making = |job| Meaning::Making { job };
        let entry = |stamp, meaning| NameEntry { stamp, meaning };
        let check = |answer: NameAnswer, expected: NameAnswer, what: &str| {
            self.findings.check(answer == expected, format_args!("{what}: {answer:?}"));
        };
        let never = NameAnswer::Done(NameEntry::default());
        check(there.look("thing").await?, never, "it has never meant anything");
        let (absent, claim) = (NameExpectation::Absent, NameAnswer::Done(entry(1, making(5))));
        for (by, what) in [(&here, "it is claimed"), (&there, "the same change once more")] {
            let claimed = by.change("thing", 7, absent, making(5)).await?;
            check(claimed, claim.clone(), what);
        }
        let refused = there.change("thing", 8, absent, making(6)).await?;
        check(refused, NameAnswer::Refused(entry(1, making(5))), "another job has it");
        let page = there.list("").await?;
        let named = matches!(&page, NamePage::Names { names, .. }
            if names.iter().any(|it| it.name == "thing" && it.entry.stamp == 1));
        self.findings.check(named, format_args!("it is listed: {page:?}"));
        let gone = there.change("thing", 9, NameExpectation::Making(5), Meaning::Absent).await?;
        check(gone, NameAnswer::Done(entry(2, Meaning::Absent)), "it is given up");
        let late = here.change("thing", 10, NameExpectation::Stamp(1), making(6)).await?;
        check(late, NameAnswer::Refused(entry(2, Meaning::Absent)), "it has changed since");
        let seen = NameAnswer::Done(entry(2, Meaning::Absent));
        check(here.look("thing").await?, seen, "as the other node has left it");
        self.refused(here.look(".jobs/1").await, Status::Invalid, "a name of stores' own");
        Ok(())
    }

    /// Has a dataset on n2, and then here.
    async fn copy(&self, round: u64, attempt: &mut u32) -> CallResult<()> {
        let (name, stl) = (format!("set {round}"), self.stl);
        let source = store(stl, NodeId(SOURCE)).await?;
        let there = match source.inspect(&name, 1, *attempt).await {
            Err(error) if error.status == Status::NotFound => {
                *attempt += 1;
                self.write(&source, &name, *attempt, round).await?
            }
            there => there?,
        };
        let is_open = !there.committed && matches!(there.owner, Decider::Job { .. });
        self.findings.check(is_open, format_args!("{there:?} is decided"));
        let key = (name.as_str(), 1, *attempt);
        let fetched = self.datasets.fetch_from(key.0, key.1, key.2, SOURCE).await?;
        let there = Listed { copies: 2, ..there };
        self.findings.check(fetched == there, format_args!("{fetched:?} is not {there:?}"));
        let again = self.datasets.fetch_from(key.0, key.1, key.2, SOURCE).await?;
        self.findings.check(again == there, format_args!("{again:?} is another time"));
        self.is_whole(&fetched, round).await?;
        self.datasets.confirm(key.0, key.1, key.2).await?;
        let committed = self.datasets.look_up(&name).await?;
        self.findings.check(committed.committed, format_args!("{committed:?} is not committed"));
        self.datasets.remove(key.0, key.1, key.2).await?;
        // If n2 is gone meanwhile, the dataset is still there when it comes back.
        let _ = source.remove(key.0, key.1, key.2).await;
        Ok(())
    }

    async fn write(
        &self,
        source: &DatasetClient,
        name: &str,
        attempt: u32,
        round: u64,
    ) -> CallResult<Listed> {
        let draft =
            source.create(name, 1, attempt, Decider::Job { keepers: 0 }, 30_000).await?.draft;
        let content: Vec<u8> = (0..BYTES).map(|at| byte(at, round)).collect();
        let mut at = 0;
        for piece in content.chunks(MOST_BYTES) {
            source.write(draft, at, Bytes::from(piece)).await?;
            at += piece.len() as u64;
        }
        // In some rounds the copy here was planned, in others it is one more.
        let nodes =
            if round.is_multiple_of(2) { Vec::from([SOURCE, HERE]) } else { Vec::from([SOURCE]) };
        source.prepare(draft, nodes).await
    }

    /// Every block is here and has its bytes.
    async fn is_whole(&self, listed: &Listed, round: u64) -> CallResult<()> {
        let Listed { name, epoch, attempt, .. } = listed;
        let blocks = self.datasets.blocks(name, *epoch, *attempt, 0).await?;
        let held = blocks.iter().all(|block| block.nodes == [SOURCE, HERE]);
        self.findings.check(held, format_args!("{name} is on {blocks:?}"));
        let mut at = 0;
        for number in 0..listed.blocks {
            let loaded = self.datasets.load(name, *epoch, *attempt, number).await?;
            let Ok(buffer) = self.pool.claim(from_call(loaded)) else {
                let stale = "the handle of a block is stale";
                return Err(CallError::new(Status::Invalid, stale));
            };
            let same = buffer.iter().zip(at..).all(|(found, at)| *found == byte(at, round));
            self.findings.check(same, format_args!("{name}: block {number} is another"));
            at += buffer.len();
        }
        self.findings.check(at == BYTES, format_args!("{name} has {at} bytes here"));
        Ok(())
    }

    /// No dataset, no space in use, no buffer.
    async fn nothing_is_left(&self, when: &str) -> CallResult<()> {
        let all = self.datasets.list(0).await?;
        let names: Vec<&String> = all.iter().map(|it| &it.name).collect();
        self.findings.check(all.is_empty(), format_args!("{names:?} are here {when}"));
        let busy = |what| CallError::new(Status::Busy, format!("{what}, {when}"));
        // What was on its way to the disk gets there.
        until(self.stl, async || {
            let free = self.datasets.space().await?.free;
            let buffers = self.pool.free_buffers();
            let wanted = (self.free, self.buffers);
            let same = (free, buffers) == wanted;
            same.then_some(()).ok_or_else(|| busy(format!("{free} {buffers}, not {wanted:?}")))
        })
        .await
    }
}
