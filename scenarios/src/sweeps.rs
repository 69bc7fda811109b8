//! Sweeps that race: three nodes have datasets on their disks whose names nobody has ever decided,
//! as disks of another cluster have. Each node's sweep finds that at about the same time and
//! adopts the names, while n1 claims one of them. A name is adopted once, as the latest that is
//! there whole; what it means stays, what it does not mean goes, and a claim is never overwritten.
//!
//! With `away=1` n2 is cut off for a moment, in which a name is removed that it has a dataset of:
//! that goes when n2 is back, also if nobody has held n2 for dead.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::Bytes;
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::{Facts, Meaning, NameAnswer, NameEntry, NameExpectation};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::cluster;
use nile_stl::{At, CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::cluster::{start_through, until};
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

/// For how long the node may be cut off that is away, at most.
const MOST_AWAY: Duration = Duration::from_secs(30);

/// Starts this core's part. `at=` is when the name is claimed, or removed, in microseconds since n1
/// began.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let at = Duration::from_micros(arguments.number("at", 4_000_000));
    let (own, begun) = (core.clone(), core.now());
    let is_away = arguments.number("away", 0) != 0;
    start_through(core, u64::from(NODES), "sweeps", MOST_AWAY, move |findings| {
        let stl = own.stl();
        async move {
            let checked = match is_away {
                true => check_away(&stl, &findings, begun + at).await,
                false => check(&stl, &findings, begun + at).await,
            };
            if let Err(error) = checked {
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

/// A dataset of n2 whose name is removed `at` a moment at which n2 cannot be reached.
async fn check_away(stl: &Stl, findings: &Findings, at: nile_abi::Instant) -> CallResult<()> {
    let (name, epoch, attempt) = ("gone", 1, 1);
    let store = stores(stl).await?.swap_remove(1);
    let draft = store.create(name, epoch, attempt, Decider::Name, 0).await?.draft;
    store.write(draft, 0, Bytes::from(name.as_bytes())).await?;
    store.prepare(draft, Vec::from([2])).await?;
    let here = names(stl, 1).await?;
    let facts = Facts { copies: 1, nodes: Vec::from([NodeId(2)]), ..Facts::default() };
    let dataset = Meaning::Dataset { epoch, attempt, facts };
    let stamp = match here.change(name, 1, NameExpectation::Absent, dataset).await? {
        NameAnswer::Done(entry) => entry.stamp,
        other => return Err(CallError::new(Status::Failed, format!("named: {other:?}"))),
    };
    store.confirm(name, epoch, attempt).await?;
    stl.host().sleep_until(at).await;
    let expected = NameExpectation::Stamp(stamp);
    let removed = here.change(name, 2, expected, Meaning::Absent).await?;
    findings.check(matches!(removed, NameAnswer::Done(_)), format_args!("removed: {removed:?}"));
    let left = until(stl, async || match store.inspect(name, epoch, attempt).await {
        Err(error) if error.status == Status::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(CallError::new(Status::Busy, "it is still on n2")),
    });
    left.await
}

async fn check(stl: &Stl, findings: &Findings, at: nile_abi::Instant) -> CallResult<()> {
    let stores = stores(stl).await?;
    for (node, name, epoch) in THERE {
        let store = &stores[node as usize - 1];
        let draft = store.create(name, epoch, 1, Decider::Here, 0).await?.draft;
        store.write(draft, 0, Bytes::from(name.as_bytes())).await?;
        store.commit(draft).await?;
    }
    stl.host().sleep_until(at).await;
    let claim = Meaning::Making { job: CLAIMS };
    let there = names(stl, 2).await?;
    let claimed = there.change("claimed", 1, NameExpectation::Absent, claim).await?;
    let is_ours = matches!(claimed, NameAnswer::Done(_));
    findings.figure("claimed", u64::from(is_ours));
    let is_right = |name: &str, entry: &NameEntry| match (name, &entry.meaning) {
        ("two", Meaning::Dataset { epoch, .. }) => *epoch == 9,
        ("torn", Meaning::Output { job: 3, parts: 2, .. }) => true,
        ("claimed", Meaning::Making { job }) => is_ours && *job == CLAIMS,
        ("claimed", Meaning::Dataset { epoch, .. }) => !is_ours && *epoch == 5,
        _ => false,
    };
    for name in ["two", "torn", "claimed"] {
        let first = until(stl, async || match there.look(name).await? {
            NameAnswer::Done(entry) if entry.stamp > 0 => Ok(entry),
            _ => Err(CallError::new(Status::NotFound, format!("{name} means nothing"))),
        });
        let first = first.await?;
        findings.check(is_right(name, &first), format_args!("{name} means {first:?}"));
    }
    // Whatever another sweep would do is done.
    stl.host().pause(Duration::from_secs(45)).await;
    for node in 1..=NODES {
        for name in ["two", "torn", "claimed"] {
            let seen = names(stl, node).await?.look(name).await?;
            let holds =
                matches!(&seen, NameAnswer::Done(it) if it.stamp == 1 && is_right(name, it));
            findings.check(holds, format_args!("n{node}: {name} was changed: {seen:?}"));
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
