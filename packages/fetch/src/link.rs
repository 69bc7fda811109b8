//! smoltcp's device over the frames of the kernel.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;
use nile_bosml::Bytes;
use nile_interfaces::frames::{FramesClient, pack, unpack};
use nile_stl::CallResult;
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant as EngineTime;

/// The time as smoltcp has it.
pub fn engine_time(now: Instant) -> EngineTime {
    EngineTime::from_micros(i64::try_from(now.as_nanos() / 1000).unwrap_or(i64::MAX))
}

/// Frames that have come and that are to go.
pub struct Link {
    max_frame: usize,
    came: VecDeque<Vec<u8>>,
    goes: VecDeque<Vec<u8>>,
}

impl Link {
    /// One without frames, each of so many bytes at most.
    pub fn new(max_frame: usize) -> Link {
        Link { max_frame: max_frame.min(1514), came: VecDeque::new(), goes: VecDeque::new() }
    }

    /// Sends what is to go, and takes what has come, which is waited for so long.
    pub async fn exchange(
        &mut self,
        frames: &FramesClient,
        ticket: u64,
        patience: Duration,
    ) -> CallResult<()> {
        let mut batch = Vec::new();
        while self.goes.front().is_some_and(|frame| pack(&mut batch, frame)) {
            self.goes.pop_front();
        }
        let patience = if self.goes.is_empty() { patience } else { Duration::ZERO };
        let patience = patience.as_micros() as u32;
        let came = frames.exchange(ticket, Bytes(batch[..].into()), patience).await?;
        self.came.extend(unpack(&came.frames.0).map(Vec::from));
        Ok(())
    }
}

pub struct Came(Vec<u8>);

pub struct Room<'a>(&'a mut VecDeque<Vec<u8>>);

impl RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl TxToken for Room<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut frame = vec![0; length];
        let result = fill(&mut frame);
        self.0.push_back(frame);
        result
    }
}

impl Device for Link {
    type RxToken<'a> = Came;
    type TxToken<'a> = Room<'a>;

    fn receive(&mut self, _: EngineTime) -> Option<(Came, Room<'_>)> {
        Some((Came(self.came.pop_front()?), Room(&mut self.goes)))
    }

    fn transmit(&mut self, _: EngineTime) -> Option<Room<'_>> {
        Some(Room(&mut self.goes))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut can = DeviceCapabilities::default();
        can.medium = Medium::Ethernet;
        can.max_transmission_unit = self.max_frame;
        can
    }
}
