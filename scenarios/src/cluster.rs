//! Several nodes: they find each other, and services are called wherever they are. Every node
//! runs this; n1 conducts, the others serve until it has left.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::Future;
use core::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::{Bytes, discovery};
use nile_interfaces::gossip::{GossipClient, MemberEntry, MemberState};
use nile_interfaces::network::NetworkClient;
use nile_interfaces::registry::{Listed, RegistryClient};
use nile_interfaces::time::TimeClient;
use nile_kernel::Core;
use nile_platform::{Machine, Outcome};
use nile_services::ackermann::AckermannClient;
use nile_stl::{At, CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::calls;
use crate::conduct::{Findings, conduct, conducts};
use crate::probe::{self, ProbeClient};
use crate::wanderer::WandererClient;

/// The node that conducts.
const CONDUCTOR: u32 = 1;

/// How often a node looks whether something has come true.
const LOOK: Duration = Duration::from_millis(10);

/// How long nodes may take to find each other, and to notice an end.
const PATIENCE: Duration = Duration::from_secs(40);

/// Calls that are made at once to have no room for others.
const CROWD: usize = 8;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let (nodes, own) = (arguments.number("nodes", 3), core.clone());
    start_with(core, nodes, "cluster", move |findings| {
        let stl = own.stl();
        async move {
            for node in 2..=nodes as u32 {
                if let Err(error) = check_node(&stl, NodeId(node), &findings).await {
                    findings.check(false, format_args!("n{node}: {error}"));
                }
            }
            if let Err(error) = check_move(&stl, &findings).await {
                findings.check(false, format_args!("moved: {error}"));
            }
            if let Err(error) = check_crowded(&stl, &findings).await {
                findings.check(false, format_args!("crowded: {error}"));
            }
            if let Err(error) = check_callers(&stl, &findings).await {
                findings.check(false, format_args!("callers: {error}"));
            }
            if let Err(error) = check_names(&stl, &findings).await {
                findings.check(false, format_args!("by name: {error}"));
            }
        }
    });
}

/// Starts this core's part of a scenario of several nodes: what n1 does once it knows all.
pub fn start_with<M: Machine, F: Future<Output = ()> + 'static>(
    core: &Core<M>,
    nodes: u64,
    name: &'static str,
    scenario: impl FnOnce(Findings) -> F + 'static,
) {
    start_through(core, nodes, name, Duration::ZERO, scenario);
}

/// The same, and the others wait for n1 for so long when it seems to be gone.
pub fn start_through<M: Machine, F: Future<Output = ()> + 'static>(
    core: &Core<M>,
    nodes: u64,
    name: &'static str,
    cut: Duration,
    scenario: impl FnOnce(Findings) -> F + 'static,
) {
    calls::serve(core);
    if !conducts(core) {
        return;
    }
    let own = core.clone();
    core.spawn(async move {
        let stl = own.stl();
        match identity(&stl).await {
            Ok(CONDUCTOR) => lead(&own, nodes, name, scenario),
            Ok(_) => serve(&own, cut).await,
            Err(error) => {
                own.machine().log(format_args!("not in a cluster: {error}"));
                own.finish(Outcome::Failure);
            }
        }
    });
}

/// Which node this is, once its network core serves.
async fn identity(stl: &Stl) -> CallResult<u32> {
    let ours = until(stl, async || {
        let network = NetworkClient::find(stl).await?;
        Ok(network.identity().await?.node)
    });
    ours.await
}

/// What `attempt` gives once it succeeds; its last failure if it never does.
pub async fn until<T>(stl: &Stl, attempt: impl AsyncFn() -> CallResult<T>) -> CallResult<T> {
    let host = stl.host();
    let limit = host.now() + PATIENCE;
    loop {
        match attempt().await {
            Err(error) if host.now() > limit => return Err(error),
            Err(_) => host.sleep_until(host.now() + LOOK).await,
            result => return result,
        }
    }
}

/// Serves until the conductor is gone, for longer than it may be cut off.
async fn serve<M: Machine>(core: &Core<M>, cut: Duration) {
    let stl = core.stl();
    let (mut met, mut seen) = (false, core.now());
    loop {
        let members = members(&stl).await.unwrap_or_default();
        let conductor = members.iter().find(|it| it.identity.node == CONDUCTOR);
        match conductor.map(|it| it.state) {
            Some(MemberState::Down) if met && core.now() - seen >= cut => {
                return core.finish(Outcome::Success);
            }
            Some(MemberState::Alive) => (met, seen) = (true, core.now()),
            _ => {}
        }
        core.sleep(LOOK).await;
    }
}

async fn members(stl: &Stl) -> CallResult<Vec<MemberEntry>> {
    GossipClient::find(stl).await?.everyone().await
}

fn lead<M: Machine, F: Future<Output = ()> + 'static>(
    core: &Core<M>,
    nodes: u64,
    name: &'static str,
    scenario: impl FnOnce(Findings) -> F + 'static,
) {
    let leader = core.clone();
    conduct(core, name, move |findings| async move {
        let stl = leader.stl();
        if let Err(error) = all_known(&stl, nodes).await {
            findings.check(false, format_args!("not all nodes: {error}"));
        }
        findings.figure("known_after_us", leader.now().as_nanos() / 1000);
        scenario(findings.clone()).await;
        if let Err(error) = leave(&stl).await {
            findings.check(false, format_args!("leaving: {error}"));
        }
        // What says so is on its way.
        leader.sleep(LOOK).await;
    });
}

/// Waits until this node knows every node.
pub async fn all_known(stl: &Stl, nodes: u64) -> CallResult<()> {
    until(stl, async || {
        let members = members(stl).await?;
        let known = members.iter().filter(|it| it.state == MemberState::Alive);
        match known.count() as u64 {
            count if count == nodes => Ok(()),
            count => Err(CallError::new(Status::Busy, format!("{count} of {nodes} known"))),
        }
    })
    .await
}

/// Calls services on every core of another node.
async fn check_node(stl: &Stl, node: NodeId, findings: &Findings) -> CallResult<()> {
    let at = |core: u16| At { node, core: CoreId(core) };
    // The last service that a node publishes says that it has them all.
    until(stl, async || stl.find_at(at(0), probe::REGISTRATION.name()).await).await?;
    let registry = RegistryClient::find_at(stl, at(0)).await?;
    let theirs = registry.list_all().await?;
    let probes = theirs.iter().filter(|it| it.name == "probe" && it.found.node == 0);
    let cores: Vec<u16> = probes.map(|it| it.found.core).collect();
    findings.check(!cores.is_empty(), format_args!("{node} has no probes"));
    for core in cores {
        let probe = until(stl, async || ProbeClient::find_at(stl, at(core)).await).await?;
        findings.check(probe.next(41).await == Ok(42), format_args!("{node}: next"));
        for length in [0, 1, 1400, 1500, 9000, 60_000] {
            let data: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let echo = probe.echo(Bytes::from(&data[..])).await?;
            findings.check(echo.0 == data, format_args!("{node}: {length} bytes differ"));
        }
        let refused = probe.r#move(1, 2, 0, "").await.map_err(|error| error.status);
        findings.check(refused == Err(Status::Exists), format_args!("{node}: {refused:?}"));
        // A service there that calls one of its own.
        findings.check(probe.relay(2, 3).await == Ok(9), format_args!("{node}: relay"));
        let late = stl.with_patience(Duration::from_millis(50));
        let late = ProbeClient::find_at(&late, at(core)).await?.wait(10_000_000).await;
        let late = late.map_err(|error| error.status);
        findings.check(late == Err(Status::Timeout), format_args!("{node}: {late:?}"));
        until(stl, async || match probe.waiting().await? {
            0 => Ok(()),
            _ => Err(CallError::new(Status::Busy, "what was cancelled goes on")),
        })
        .await?;
    }
    let time = TimeClient::find_at(stl, at(0)).await?;
    findings.check(time.now().await? > 0, format_args!("{node}: its clock stands"));
    // What a core of a node may do, another node may not.
    let watch = registry.watch("").await.map_err(|error| error.status);
    findings.check(watch == Err(Status::Denied), format_args!("{node}: watch: {watch:?}"));
    Ok(())
}

/// A service that is on another node and then on this one: who is bound to it follows.
async fn check_move(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let there = At { node: NodeId(2), core: CoreId::BOOT };
    let (there, here) =
        (ProbeClient::find_at(stl, there).await?, ProbeClient::find_at(stl, CoreId::BOOT).await?);
    there.host_wanderer().await?;
    let bound = until(stl, async || WandererClient::find(stl).await).await?;
    let node = bound.place().map(|place| place.node);
    findings.check(node == Some(NodeId(2)), format_args!("the wanderer is on {node:?}"));
    bound.seat().await?;
    here.host_wanderer().await?;
    bound.seat().await?;
    let stays = bound.place().is_some_and(|place| !place.is_here());
    findings.check(stays, format_args!("who is bound to one that is there looked for another"));
    there.dismiss_wanderer().await?;
    bound.seat().await?;
    let follows = bound.place().is_some_and(|place| place.is_here());
    findings.check(follows, format_args!("the wanderer is here, and was not followed"));
    here.dismiss_wanderer().await?;
    let gone = bound.seat().await.map_err(|error| error.status);
    findings.check(gone == Err(Status::Dead), format_args!("nobody says {gone:?}"));
    Ok(())
}

/// The way to this node's network core is full, and something is published meanwhile: other nodes
/// learn of it later, from a node in the same generation.
async fn check_crowded(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let network = NetworkClient::find(stl).await?;
    let before = network.identity().await?;
    let Some(place) = network.place().filter(|it| it.core != stl.host().core()) else {
        return Ok(());
    };
    let (host, full) = (stl.host().clone(), Rc::new(Cell::new(0)));
    let until_then = host.now() + LOOK / 5;
    for _ in 0..CROWD {
        let (host, full) = (host.clone(), full.clone());
        let probe = ProbeClient::find_at(stl, place.core).await?;
        host.clone().spawn(Box::pin(async move {
            loop {
                if probe.echo(Bytes::from(&[7; 60_000][..])).await.is_err() {
                    full.set(full.get() + 1);
                    host.sleep_until(host.now() + Duration::from_micros(50)).await;
                }
                if host.now() >= until_then {
                    return;
                }
            }
        }));
    }
    let here = ProbeClient::find_at(stl, CoreId::BOOT).await?;
    here.host_wanderer().await?;
    let there = At { node: NodeId(2), core: CoreId::BOOT };
    until(stl, async || {
        let known = RegistryClient::find_at(stl, there).await?.list_all().await?;
        let is_ours = |it: &Listed| it.name == "wanderer" && it.found.node == CONDUCTOR;
        let missing = || CallError::new(Status::NotFound, "n2 does not know the wanderer");
        known.iter().any(is_ours).then_some(()).ok_or_else(missing)
    })
    .await?;
    findings.check(full.get() > 0, format_args!("the way to the network core was never full"));
    let after = until(stl, async || network.identity().await).await?;
    findings.check(before == after, format_args!("{before:?} has become {after:?}"));
    here.dismiss_wanderer().await
}

/// Calls by name, here and there.
async fn check_names(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let there = At { node: NodeId(2), core: CoreId(0) };
    let compute = AckermannClient::find_at(stl, there).await?;
    findings.check(compute.compute(2, 3).await == Ok(9), format_args!("ackermann"));
    let near = AckermannClient::find(stl).await?.place();
    let is_here = near.is_some_and(|place| place.is_here());
    findings.check(is_here, format_args!("the nearest instance is {near:?}"));
    let document: String = {
        let reply = stl.invoke_at(there, "ackermann", "discover", &[]).await?;
        let mut input = nile_bosml::Reader::new(&reply);
        nile_bosml::Decode::decode(&mut input)?
    };
    findings.check(discovery::parse(&document).is_ok(), format_args!("no schema: {document}"));
    let nobody = At { node: NodeId(99), core: CoreId(0) };
    let missing = stl.find_at(nobody, "ackermann").await.map_err(|error| error.status);
    findings.check(missing == Err(Status::NotFound), format_args!("n99: {missing:?}"));
    Ok(())
}

/// Who asks is told to the other node, which refuses whom a method is not for.
async fn check_callers(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let there = At { node: NodeId(2), core: CoreId(0) };
    let manager = stl.find_at(there, "core_manager").await?;
    let memory = stl.find_at(there, "physical_memory").await?;
    let package = stl.for_package();
    let listed = package.invoke_in(manager, "core_manager", "list", &[]).await;
    findings.check(listed.is_ok(), format_args!("a package lists no cores: {listed:?}"));
    let (core, word) = (1u16.to_le_bytes(), 9u64.to_le_bytes());
    for (who, stl, place, method, arguments) in [
        ("a package", &package, manager, ("core_manager", "end_core"), &core[..]),
        ("a peer", stl, memory, ("physical_memory", "free"), &word[..]),
    ] {
        let error = stl.invoke_in(place, method.0, method.1, arguments).await.err();
        let is_refused = error.as_ref().is_some_and(|error| {
            error.status == Status::Denied && error.message.contains(&format!("not for {who}"))
        });
        findings.check(is_refused, format_args!("{who} calls {method:?}: {error:?}"));
    }
    Ok(())
}

async fn leave(stl: &Stl) -> CallResult<()> {
    GossipClient::find(stl).await?.leave().await
}
