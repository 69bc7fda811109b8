//! What it costs to move buffers to another node: n1 sends so many megabytes from its pool to that
//! of n2, which reads nothing of them. Their bytes are checked once, at the end.
//!
//! `round-ns` is the middle round's time, `round-bytes` what it moved.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_kernel::{Core, Join};
use nile_platform::Machine;
use nile_services::bulk::port::Port;
use nile_stl::{CallError, CallResult, Stl};

use crate::arguments::Arguments;
use crate::cluster::{start_with, until};
use crate::conduct::Findings;

/// The mailboxes of n2, and of n1 for what comes back at the end.
const SINK: u64 = 1;
const BACK: u64 = 2;

/// A label that has the buffer sent back.
const RETURN: u64 = 1;

const PATIENCE: Duration = Duration::from_secs(30);

/// How soon a sender looks again for a free buffer.
const LOOK: Duration = Duration::from_micros(10);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let rounds = arguments.number("rounds", 5).max(1);
    let bytes = arguments.number("megabytes", 64).max(1) << 20;
    let stl = core.stl().with_patience(PATIENCE);
    if core.id() == CoreId::BOOT {
        let (stl, own) = (stl.clone(), core.clone());
        core.spawn(async move {
            if let Err(error) = swallow(&stl).await {
                own.machine().log(format_args!("the sink: {error}"));
            }
        });
    }
    let own = core.clone();
    start_with(core, arguments.number("nodes", 2), "bulk-cost", move |findings| async move {
        let measured = measure(&own, &stl, [rounds, bytes], &findings).await;
        findings.expect(measured, "transfers");
    });
}

/// Takes what comes, and sends back what is to be sent back.
async fn swallow(stl: &Stl) -> CallResult<()> {
    let port = until(stl, async || Port::find(stl).await).await?;
    let sink = port.open(SINK).await?;
    loop {
        match sink.next().await {
            Ok(came) if came.label == RETURN => {
                let bytes = came.buffer.len();
                port.send(came.from, BACK, 0, came.buffer, bytes).await?;
            }
            Err(error) if error.status != Status::Timeout => return Err(error),
            _ => {}
        }
    }
}

async fn measure<M: Machine>(
    core: &Core<M>,
    stl: &Stl,
    [rounds, bytes]: [u64; 2],
    findings: &Findings,
) -> CallResult<()> {
    /// As many buffers are on their way.
    const SENDERS: usize = 6;
    let port = until(stl, async || Port::find(stl).await).await?;
    let back = port.open(BACK).await?;
    let there = NodeId(2);
    let no_buffer = || CallError::new(Status::NoMemory, "all buffers are taken");
    until(stl, async || {
        let buffer = port.pool().alloc().ok_or_else(no_buffer)?;
        port.send(there, SINK, 0, buffer, 0).await
    })
    .await?;
    let buffers = bytes.div_ceil(port.pool().buffer_size() as u64);
    let mut times = Vec::new();
    // The first round warms up.
    for _ in 0..=rounds {
        let left = Rc::new(Cell::new(buffers));
        let begin = core.now();
        let senders: Vec<Join<CallResult<()>>> = (0..SENDERS)
            .map(|_| core.spawn(send(core.clone(), port.clone(), there, left.clone())))
            .collect();
        for sender in senders {
            sender.await?;
        }
        times.push((core.now() - begin).as_nanos() as u64);
    }
    times.remove(0);
    times.sort_unstable();
    findings.figure("round-ns", times[times.len() / 2]);
    findings.figure("round-bytes", buffers * port.pool().buffer_size() as u64);

    let mut buffer = port.pool().alloc().ok_or_else(no_buffer)?;
    for (at, place) in buffer.iter_mut().enumerate() {
        *place = (at * 7 + (at >> 8)) as u8;
    }
    let bytes = buffer.len();
    port.send(there, SINK, RETURN, buffer, bytes).await?;
    let came = back.next().await?.buffer;
    let same = came.iter().enumerate().all(|(at, byte)| *byte == (at * 7 + (at >> 8)) as u8);
    findings.check(same && came.len() == bytes, format_args!("it came back otherwise"));
    Ok(())
}

async fn send<M: Machine>(
    core: Core<M>,
    port: Port,
    there: NodeId,
    left: Rc<Cell<u64>>,
) -> CallResult<()> {
    while let Some(rest) = left.get().checked_sub(1) {
        let Some(buffer) = port.pool().alloc() else {
            core.sleep(LOOK).await;
            continue;
        };
        left.set(rest);
        let bytes = buffer.len();
        port.send(there, SINK, 0, buffer, bytes).await?;
    }
    Ok(())
}
