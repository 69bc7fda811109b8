//! How calls end badly: the instance is unpublished, its core restarts, a method panics. Each call
//! ends once and says why, and the service is found again.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Status};
use nile_kernel::Core;
use nile_platform::Misbehave;
use nile_stl::{CallError, CallResult, Stl};

use crate::calls::{probe_on, serve};
use crate::conduct::{Findings, conduct, conducts};
use crate::probe;
use crate::wanderer::WandererClient;

/// Longer than anything here takes.
const LONG: u64 = 5_000_000;

/// How a method ends its core.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// While it is dispatched.
    Panic,
    /// In a task of its own.
    PanicLater,
    /// By calling itself without end.
    StackOverrun,
}

/// Starts this core's part.
pub fn start<M: Misbehave>(core: &Core<M>) {
    probe::let_overrun(core);
    serve(core);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "ends", move |findings| async move {
            let stl = core.stl();
            for peer in core.peers() {
                if let Err(error) = unpublished(&stl, peer, &findings).await {
                    findings.check(false, format_args!("core {peer}, unpublished: {error}"));
                }
            }
            if let Err(error) = moved(&stl, &findings).await {
                findings.check(false, format_args!("moved: {error}"));
            }
            for peer in core.peers().filter(|peer| *peer != core.id()) {
                for failure in [Failure::Panic, Failure::PanicLater, Failure::StackOverrun] {
                    if let Err(error) = panicked(&core, peer, failure, &findings).await {
                        findings.check(false, format_args!("core {peer}, panicked: {error}"));
                    }
                }
            }
        });
    }
}

fn status<T>(result: &CallResult<T>) -> Status {
    result.as_ref().map_or_else(|error| error.status, |_| Status::Ok)
}

/// A bound client of an instance that is unpublished, and of one that is published after it.
async fn unpublished(stl: &Stl, core: CoreId, findings: &Findings) -> CallResult<()> {
    let probe = probe_on(stl, core).await?;
    let before = stl.find_at(core, probe::REGISTRATION.name()).await?;
    findings.check(probe.next(1).await? == 2, format_args!("{core} does not count"));
    let renewed = probe.renew().await;
    // The instance that answers is the one that goes: its last answer may still come.
    let fine = matches!(status(&renewed), Status::Ok | Status::Dead);
    findings.check(fine, format_args!("{core} renews: {renewed:?}"));
    let again = probe_on(stl, core).await?;
    let after = loop {
        match stl.find_at(core, probe::REGISTRATION.name()).await {
            Ok(place) if place != before => break place,
            Ok(_) | Err(CallError { status: Status::NotFound, .. }) => {
                let host = stl.host();
                host.sleep_until(host.now() + Duration::from_micros(100)).await;
            }
            Err(error) => return Err(error),
        }
    };
    let dead = probe.next(1).await;
    let told = status(&dead) == Status::Dead;
    findings.check(told, format_args!("{core}: the old instance says {dead:?}"));
    drop(again);
    let found = probe::ProbeClient::at(stl, after);
    findings.check(found.next(2).await? == 3, format_args!("{core}: the new instance is wrong"));
    Ok(())
}

/// A client that means any instance follows one that is published elsewhere; one that means a place
/// does not. The wanderer is a service that goes from core to core.
async fn moved(stl: &Stl, findings: &Findings) -> CallResult<()> {
    let cores: Vec<CoreId> = (0..stl.host().cores()).map(|core| CoreId(core as u16)).collect();
    probe_on(stl, cores[0]).await?.host_wanderer().await?;
    let any = WandererClient::find(stl).await?;
    let pinned = WandererClient::find_at(stl, cores[0]).await?;
    findings.check(any.seat().await? == cores[0].0, format_args!("it is not where it began"));
    // A node of one core has nowhere to move to.
    for core in cores.iter().skip(1).chain(cores.iter().take(usize::from(cores.len() > 1))) {
        let from = any.core();
        probe_on(stl, *core).await?.host_wanderer().await?;
        if let Some(from) = from.filter(|from| from != core) {
            probe_on(stl, from).await?.dismiss_wanderer().await?;
        }
        let seat = any.seat().await?;
        findings.check(seat == core.0, format_args!("it is on {core}, and called on c{seat}"));
    }
    let old = pinned.seat().await.map_err(|error| error.status);
    let dead = cores.len() == 1 || old == Err(Status::Dead);
    findings.check(dead, format_args!("the place that was meant says {old:?}"));
    probe_on(stl, cores[0]).await?.dismiss_wanderer().await?;
    let gone = any.seat().await.map_err(|error| error.status);
    findings.check(gone == Err(Status::Dead), format_args!("nobody says {gone:?}"));
    Ok(())
}

/// A method that panics ends its own call with `Panicked`, others of its core with `Dead`; the
/// core comes back.
async fn panicked<M: Misbehave>(
    core: &Core<M>,
    peer: CoreId,
    failure: Failure,
    findings: &Findings,
) -> CallResult<()> {
    let stl = core.stl();
    let record = core.machine().board().record(peer);
    let generation = record.generation();
    let (waits, fails) = (probe_on(&stl, peer).await?, probe_on(&stl, peer).await?);
    let waiting = core.spawn(async move { waits.wait(LONG).await.map(|_| ()) });
    // The other call is there before the one that ends both.
    probe_on(&stl, peer).await?.next(0).await?;
    let result = match failure {
        Failure::Panic => fails.panic().await,
        Failure::PanicLater => fails.panic_later(500).await,
        Failure::StackOverrun => fails.overrun_stack().await,
    };
    let told = status(&result) == Status::Panicked;
    findings.check(told, format_args!("{peer}: {failure:?} of a method says {result:?}"));
    let other = waiting.await;
    let told = status(&other) == Status::Dead;
    findings.check(told, format_args!("{peer}: the other call says {other:?}"));
    let renewed = record.generation() != generation;
    findings.check(renewed, format_args!("{peer} did not restart"));
    let again = loop {
        match probe_on(&stl, peer).await?.next(4).await {
            Err(CallError { status: Status::Dead, .. }) => core.sleep(RETRY).await,
            result => break result?,
        }
    };
    findings.check(again == 5, format_args!("{peer} does not count any more"));
    Ok(())
}

/// How long until what the registry says is looked at again.
const RETRY: Duration = Duration::from_micros(200);
