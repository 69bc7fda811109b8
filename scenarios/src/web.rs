//! A node serves a dataset over HTTP, and a package on another node, whose TCP is not ours, has it:
//! every byte is right. Meanwhile the server is stopped again and again, wherever it is, and the
//! connection goes on with each next incarnation: its memory is all that it is. The network is the
//! server's own, or that of the package `net` on either node, which is stopped in turn with it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{KeepName, NodeId, Status};
use nile_bosml::Bytes;
use nile_interfaces::core_manager::CoreManagerClient;
use nile_interfaces::dataset::MOST_BYTES;
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::{Facts, Meaning, NameAnswer, NameExpectation};
use nile_interfaces::packages::{PackagePhase, PackagesClient};
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::cluster;
use nile_stl::{CallError, CallResult, Place, Stl};

use crate::arguments::Arguments;
use crate::cluster::{start_with, until};
use crate::conduct::Findings;

/// The node that has the dataset and the client, and the one that serves.
const CLIENT: NodeId = NodeId(1);
const SERVER: NodeId = NodeId(2);

/// The name of the dataset.
const NAME: &str = "page";

/// Connections that the server's manifest has memory for.
const CONNECTIONS: u64 = 128;

const PATIENCE_MS: u32 = 5_000;

/// How long all of it may take.
const LIMIT: Duration = Duration::from_secs(100);

/// Starts this core's part: a dataset of `bytes`, and a stop of the server every `stop_us`, zero
/// for none, and at most `stops` of them: on a slow machine it may not come far in between. The
/// server has memory for so many `connections`, which a machine has as many of as its manifest
/// says. With `own=1` the client has sockets of packages, with `names=1` it looks the server up by
/// its name as well; with `v6=1` both speak IPv6. With `apart=1` the server has its network from
/// the package `net`, and so has such a client; then `net` is stopped as often as the server. With
/// `control=1` what the server keeps is dropped whenever it is stopped.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let plan = Plan {
        bytes: arguments.number("bytes", 400_003),
        stop: Duration::from_micros(arguments.number("stop_us", 0)),
        stops: arguments.number("stops", u64::MAX),
        connections: arguments.number("connections", CONNECTIONS),
        is_own: arguments.number("own", 0) > 0 || arguments.number("names", 0) > 0,
        is_named: arguments.number("names", 0) > 0,
        is_v6: arguments.number("v6", 0) > 0,
        is_apart: arguments.number("apart", 0) > 0,
        forgets: arguments.number("control", 0) > 0,
    };
    let own = core.clone();
    start_with(core, arguments.number("nodes", 2), "web", move |findings| {
        let stl = own.stl();
        async move {
            if let Err(error) = check(&stl, &findings, plan).await {
                findings.check(false, format_args!("{error}"));
            }
        }
    });
}

#[derive(Clone, Copy)]
struct Plan {
    bytes: u64,
    stop: Duration,
    stops: u64,
    connections: u64,
    is_own: bool,
    is_named: bool,
    is_v6: bool,
    is_apart: bool,
    forgets: bool,
}

/// Keeps the dataset in this node's store, and gives it its name.
async fn put(stl: &Stl, bytes: u64) -> CallResult<()> {
    let none = || CallError::new(Status::NotFound, "this node has no store");
    let store = until(stl, async || {
        let found = cluster::stores(stl).await?.into_iter().find(|store| store.is_here());
        found.map(|store| store.client).ok_or_else(none)
    })
    .await?;
    let draft = store.create(NAME, 1, 1, Decider::Here, 0).await?.draft;
    let mut at = 0;
    while at < bytes {
        let end = bytes.min(at + MOST_BYTES as u64);
        let piece: Vec<u8> = (at..end).map(nile_fetch::byte).collect();
        at = store.write(draft, at, Bytes(piece[..].into())).await?;
    }
    let listed = store.commit(draft).await?;
    let facts = Facts { bytes, blocks: listed.blocks, copies: 1, nodes: [CLIENT].into() };
    let meaning = Meaning::Dataset { epoch: 1, attempt: 1, facts };
    until(stl, async || {
        let names = NameClient::find(stl).await?;
        match names.change(NAME, 7, NameExpectation::Absent, meaning.clone()).await? {
            NameAnswer::Done(_) => Ok(()),
            other => Err(CallError::new(Status::Busy, format!("{other:?}"))),
        }
    })
    .await
}

/// The worker cores of a node.
async fn workers(stl: &Stl, node: NodeId) -> CallResult<Vec<Place>> {
    let none = || CallError::new(Status::NotFound, format!("{node} has no worker core"));
    until(stl, async || {
        let places = cluster::places(stl, "packages").await?;
        let its = places.into_iter().filter(|it| it.0 == node).map(|it| it.1);
        let its: Vec<Place> = its.collect();
        if its.is_empty() { Err(none()) } else { Ok(its) }
    })
    .await
}

/// Starts `net` on a node, on its last worker core: where that is.
async fn start_net(stl: &Stl, node: NodeId, connections: u64) -> CallResult<Option<Place>> {
    let Some(place) = workers(stl, node).await?.pop() else { return Ok(None) };
    let told = format!("{connections}");
    let packages = PackagesClient::at(stl, place);
    packages.start("net", Bytes(told.as_bytes().into()), PATIENCE_MS, true).await?;
    // Whoever does not find it has a network of its own.
    until(stl, async || {
        let nets = cluster::places(stl, "net").await?;
        let none = || CallError::new(Status::NotFound, format!("{node} has no net"));
        nets.iter().find(|it| it.0 == node).map(|_| ()).ok_or_else(none)
    })
    .await?;
    Ok(Some(place))
}

/// A package of a node is stopped in the midst of what it does, if it runs.
async fn kill(stl: &Stl, manager: &CoreManagerClient, place: Place, name: &str) -> CallResult<()> {
    let states = PackagesClient::at(stl, place).list().await?;
    match states.into_iter().find(|it| it.name == name && it.state == PackagePhase::Runs) {
        Some(state) => manager.stop_package(place.core.0, state.number).await,
        None => Ok(()),
    }
}

async fn manager(stl: &Stl, node: NodeId) -> CallResult<CoreManagerClient> {
    let managers = cluster::places(stl, "core_manager").await?;
    let manager = managers.into_iter().find(|it| it.0 == node).map(|it| it.1);
    let manager = manager.ok_or_else(|| CallError::from(Status::NotFound))?;
    Ok(CoreManagerClient::at(stl, manager))
}

async fn check(stl: &Stl, findings: &Findings, plan: Plan) -> CallResult<()> {
    put(stl, plan.bytes).await?;
    let (here, there) = (workers(stl, CLIENT).await?[0], workers(stl, SERVER).await?[0]);
    let server = PackagesClient::at(stl, there);
    let client = PackagesClient::at(stl, here);
    let told = format!("80 {}", plan.connections);
    let mut nets = Vec::new();
    for node in [SERVER, CLIENT] {
        if plan.is_apart && (node == SERVER || plan.is_own) {
            let net = start_net(stl, node, plan.connections).await?;
            nets.extend(net.map(|place| (node, place)));
        }
    }
    server.start("web", Bytes(told.as_bytes().into()), PATIENCE_MS, plan.is_apart).await?;
    let kind = match (plan.is_own, plan.is_named, plan.is_v6) {
        (_, true, _) => "named",
        (true, false, false) => "own",
        (true, false, true) => "own6",
        (false, false, false) => "stock",
        (false, false, true) => "stock6",
    };
    let argument = format!("{} 80 {NAME} {} {kind}", SERVER.0, plan.bytes);
    client.start("fetch", Bytes(argument.as_bytes().into()), PATIENCE_MS, plan.is_apart).await?;

    let host = stl.host();
    let begun = host.now();
    let own = manager(stl, SERVER).await?;
    let keep = format!("{}", KeepName::new("web", "connections").ok_or(Status::Invalid)?);
    let mut stops = 0;
    let said: Option<String> = loop {
        let fetch = client.list().await?.into_iter().find(|it| it.name == "fetch");
        match fetch {
            None => break None,
            Some(state) if state.begun > 1 || host.now().since(begun) > LIMIT => {
                break Some(format!("{} after {} attempts", state.said, state.begun));
            }
            Some(_) if plan.stop.is_zero() || stops == plan.stops => {
                host.sleep_until(host.now() + LOOK).await
            }
            Some(_) => {
                host.sleep_until(host.now() + plan.stop).await;
                if plan.forgets {
                    server.stop("web").await?;
                    own.drop_keep(keep.clone()).await?;
                    let told = Bytes(told.as_bytes().into());
                    server.start("web", told, PATIENCE_MS, plan.is_apart).await?;
                } else {
                    // Each in its turn.
                    let victims = nets.len() + 1;
                    match nets.get(stops as usize % victims) {
                        Some((node, place)) => {
                            kill(stl, &manager(stl, *node).await?, *place, "net").await?;
                        }
                        None => kill(stl, &own, there, "web").await?,
                    }
                }
                stops += 1;
            }
        }
    };
    findings.check(said.is_none(), format_args!("the client has not had it: {said:?}"));
    findings.check(
        plan.stop.is_zero() || stops > 1,
        format_args!("the server was to be stopped in the midst, and was {stops} times"),
    );
    findings.figure("stops", stops);
    findings.figure("took_us", host.now().since(begun).as_micros() as u64);
    server.stop("web").await?;
    for (node, place) in nets {
        PackagesClient::at(stl, place).stop("net").await?;
        let keep = format!("{}", KeepName::new("net", "connections").ok_or(Status::Invalid)?);
        manager(stl, node).await?.drop_keep(keep).await?;
    }
    own.drop_keep(keep).await
}

/// How often it is looked whether the client has ended.
const LOOK: Duration = Duration::from_millis(5);
