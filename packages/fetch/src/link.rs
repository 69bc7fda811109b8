//! The frames of smoltcp's device go to the kernel's service and come from it.

use alloc::vec::Vec;
use core::time::Duration;

use nile_bosml::Bytes;
use nile_interfaces::frames::{FramesClient, pack, unpack};
use nile_net::Queues;
use nile_stl::CallResult;

/// Sends what is to go, and takes what has come, which is waited for so long.
pub async fn exchange(
    queues: &mut Queues,
    frames: &FramesClient,
    ticket: u64,
    patience: Duration,
) -> CallResult<()> {
    let mut batch = Vec::new();
    while queues.goes.front().is_some_and(|frame| pack(&mut batch, frame)) {
        queues.goes.pop_front();
    }
    let patience = if queues.goes.is_empty() { patience } else { Duration::ZERO };
    let patience = patience.as_micros() as u32;
    let came = frames.exchange(ticket, Bytes(batch[..].into()), patience).await?;
    queues.came.extend(unpack(&came.frames.0).map(Vec::from));
    Ok(())
}
