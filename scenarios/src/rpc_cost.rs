//! What calls to another node cost: n1 calls a service of n2 that gives 64 bytes back, one call at
//! a time and many at once.
//!
//! `round-trip` is the middle round's time for one call, `batched` for one of many, both in
//! hundredths of a nanosecond.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, NodeId};
use nile_bosml::Bytes;
use nile_kernel::{Core, Join};
use nile_platform::Machine;
use nile_stl::{At, CallResult, Stl};

use crate::arguments::Arguments;
use crate::cluster;
use crate::conduct::Findings;
use crate::probe::ProbeClient;

/// What goes there and back.
const ARGUMENT: [u8; 64] = [0x5a; 64];

/// How long a window's calls may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let rounds = arguments.number("rounds", 20).max(1);
    let calls = arguments.number("calls", 100).max(1);
    let window = arguments.number("window", 64).max(1);
    cluster::start_with(core, arguments.number("nodes", 2), "rpc-cost", {
        let core = core.clone();
        move |findings| {
            let core = core.clone();
            async move {
                let measured = measure(&core, [rounds, calls, window], &findings).await;
                findings.expect(measured, "calls");
            }
        }
    });
}

async fn measure<M: Machine>(
    core: &Core<M>,
    [rounds, calls, window]: [u64; 3],
    findings: &Findings,
) -> CallResult<()> {
    let stl = core.stl().with_patience(PATIENCE);
    let there = At { node: NodeId(2), core: CoreId::BOOT };
    let echo = cluster::until(&stl, async || ProbeClient::find_at(&stl, there).await).await?;
    let mut single = Vec::new();
    let mut batched = Vec::new();
    // The first round warms up.
    for _ in 0..=rounds {
        let begin = core.now();
        for _ in 0..calls {
            let reply = echo.echo(Bytes::from(&ARGUMENT[..])).await?;
            findings.check(reply.0 == ARGUMENT, format_args!("it came back otherwise"));
        }
        single.push(hundredths(core.now() - begin, calls));
        let begin = core.now();
        let tasks: Vec<Join<CallResult<()>>> =
            (0..window).map(|_| core.spawn(one_of_many(stl.clone(), there, calls))).collect();
        for task in tasks {
            task.await?;
        }
        batched.push(hundredths(core.now() - begin, calls * window));
    }
    for (name, mut times) in [("round-trip", single), ("batched", batched)] {
        times.remove(0);
        times.sort_unstable();
        findings.figure(name, times[times.len() / 2]);
    }
    Ok(())
}

async fn one_of_many(stl: Stl, there: At, calls: u64) -> CallResult<()> {
    let echo = ProbeClient::find_at(&stl, there).await?;
    for _ in 0..calls {
        echo.echo(Bytes::from(&ARGUMENT[..])).await?;
    }
    Ok(())
}

/// Hundredths of a nanosecond for each of so many.
fn hundredths(took: Duration, count: u64) -> u64 {
    u64::try_from(took.as_nanos() * 100 / u128::from(count)).unwrap_or(u64::MAX)
}
