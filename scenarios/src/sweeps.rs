//! Sweeps that race: three nodes have datasets on their disks whose names nobody has ever decided,
//! as disks of another cluster have. Each node's sweep finds that at about the same time and
//! adopts the names, while n1 claims one of them. A name is adopted once, as the latest that is
//! there whole; what it means stays, what it does not mean goes, and a claim is never overwritten.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::Bytes;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::{
    Expected, NameAnswer, NameEntry, NameExpectation, NameKind, NameOutcome,
};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::cluster;
use nile_stl::{At, CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::cluster::{start_with, until};
use crate::conduct::Findings;

/// The nodes, all of which keep names.
const NODES: u32 = 3;

/// The job that claims a name.
const CLAIMS: u64 = 77;

/// What is on the disks: node, name and epoch. Each has the attempt 1.
const THERE: [(u32, &str, u64); 8] = [
    (1, "two", 5),
    (2, "two", 9),
    (1, "torn/0-of-2", 3),
    (2, "torn/1-of-2", 3),
    (3, "torn/0-of-2", 8),
    (1, "claimed", 5),
    (2, "claimed", 5),
    (3, "claimed", 5),
];

/// Starts this core's part. `at=` is when the name is claimed, in microseconds since n1 began.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let at = Duration::from_micros(arguments.number("at", 4_000_000));
    let (own, begun) = (core.clone(), core.now());
    start_with(core, u64::from(NODES), "sweeps", move |findings| {
        let stl = own.stl();
        async move {
            if let Err(error) = check(&stl, &findings, begun + at).await {
                findings.check(false, format_args!("{error}"));
            }
        }
    });
}

/// The store of each node, once all have one.
async fn stores(stl: &Stl) -> CallResult<Vec<DatasetClient>> {
    until(stl, async || {
        let mut found = cluster::stores(stl).await?;
        found.sort_by_key(|it| it.node);
        let all = found.len() == NODES as usize;
        let missing = || CallError::new(Status::NotFound, "a node has no store yet");
        all.then(|| found.into_iter().map(|it| it.client).collect()).ok_or_else(missing)
    })
    .await
}

async fn names(stl: &Stl, node: u32) -> CallResult<NameClient> {
    if cluster::node(stl) == NodeId(node) {
        return NameClient::find(stl).await;
    }
    NameClient::find_at(stl, At { node: NodeId(node), core: CoreId::BOOT }).await
}

async fn check(stl: &Stl, findings: &Findings, at: nile_abi::Instant) -> CallResult<()> {
    let stores = stores(stl).await?;
    for (node, name, epoch) in THERE {
        let store = &stores[node as usize - 1];
        let draft = store.create(name, epoch, 1, Decider::HERE, 0).await?.draft;
        store.write(draft, 0, Bytes::from(name.as_bytes())).await?;
        store.commit(draft).await?;
    }
    stl.host().sleep_until(at).await;
    let absent = NameExpectation { kind: Expected::Absent, number: 0 };
    let claim = NameEntry { kind: NameKind::Making, epoch: CLAIMS, ..NameEntry::default() };
    let there = names(stl, 2).await?;
    let claimed = there.change("claimed", 1, absent, claim).await?;
    let is_ours = claimed.outcome == NameOutcome::Done;
    findings.figure("claimed", u64::from(is_ours));
    let is_right = |name: &str, entry: &NameEntry| match (name, entry.kind) {
        ("two", NameKind::Dataset) => entry.epoch == 9,
        ("torn", NameKind::Output) => entry.epoch == 3 && entry.parts == 2,
        ("claimed", NameKind::Making) => is_ours && entry.epoch == CLAIMS,
        ("claimed", NameKind::Dataset) => !is_ours && entry.epoch == 5,
        _ => false,
    };
    for name in ["two", "torn", "claimed"] {
        let first = until(stl, async || {
            let seen = there.look(name).await?;
            let open = || CallError::new(Status::NotFound, format!("{name} means nothing"));
            (seen.entry.stamp > 0).then_some(seen).ok_or_else(open)
        });
        let first = first.await?;
        findings.check(is_right(name, &first.entry), format_args!("{name} means {first:?}"));
    }
    // Whatever another sweep would do is done.
    stl.host().pause(Duration::from_secs(45)).await;
    for node in 1..=NODES {
        for name in ["two", "torn", "claimed"] {
            let NameAnswer { entry, .. } = names(stl, node).await?.look(name).await?;
            let holds = entry.stamp == 1 && is_right(name, &entry);
            findings.check(holds, format_args!("n{node}: {name} was changed: {entry:?}"));
        }
    }
    for (node, name, epoch) in THERE {
        let goes = (name, epoch) == ("torn/0-of-2", 8);
        let found = stores[node as usize - 1].inspect(name, epoch, 1).await;
        let holds = match &found {
            Ok(it) => it.committed && !goes,
            Err(error) => error.status == Status::NotFound && goes,
        };
        findings.check(holds, format_args!("n{node}: {name} of {epoch}: {found:?}"));
    }
    Ok(())
}
