//! Sampling of one core: a tick, and the ring in which each notes what it interrupts. Who is not
//! asked to has neither.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::OnceCell;
use core::time::Duration;

use nile_abi::Status;
use nile_platform::Machine;
use nile_platform::samples::{RING_BYTES, Ring, Sample};

use crate::core::Core;
use crate::memory::Frame;

/// What a core needs for being sampled.
pub(crate) struct Sampling<M: Machine> {
    /// The memory of the ring, once there is one: the machine has it as long as the incarnation.
    ring: OnceCell<&'static Frame<M>>,
    /// The tick of a core that is not sampled.
    tick: Option<Duration>,
}

impl<M: Machine> Sampling<M> {
    /// Of a core with this tick, if it has one.
    pub fn new(tick: Option<Duration>) -> Sampling<M> {
        Sampling { ring: OnceCell::new(), tick }
    }

    fn ring(&self) -> Option<Ring<'static>> {
        Ring::of(self.ring.get()?.words())
    }
}

impl<M: Machine> Core<M> {
    /// Samples this core from now on, after each such period that it does not sleep through;
    /// without one, no more. Waits for the management core. `Denied` if the machine cannot do that;
    /// `NoMemory`, `NoTables`.
    pub async fn sample(&self, period: Option<Duration>) -> Result<(), Status> {
        let Sampling { ring, tick } = &self.sampling;
        if period.is_some() && ring.get().is_none() {
            let frame = self.allocate_run(RING_BYTES as u64).await?;
            // Another call may have got one meanwhile; then this one goes back.
            if ring.get().is_none() {
                let _ = ring.set(Box::leak(Box::new(frame)));
            }
        }
        let ring = period.and_then(|_| self.sampling.ring.get()).map(|frame| frame.region());
        if !self.machine.sample(ring) {
            return Err(Status::Denied);
        }
        self.machine.set_tick(period.or(*tick));
        Ok(())
    }

    /// Samples from the number `from` on, which starts at 1: at most so many; the number of the
    /// next one, and how many are lost between them.
    pub fn samples(&self, from: u64, most: usize) -> (Vec<Sample>, u64, u64) {
        let (mut samples, mut next) = (Vec::new(), from.max(1));
        let Some(ring) = self.sampling.ring() else { return (samples, next, 0) };
        let lost = ring.read(&mut next, most, |sample| samples.push(sample));
        (samples, next, lost)
    }
}
