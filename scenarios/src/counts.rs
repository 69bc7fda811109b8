//! What the kernel's own operations cost on one core that nobody disturbs. In an emulator that
//! counts instructions as time (`nile boot --count-instructions`) the figures are instructions,
//! and the same on every run; on other machines they are nanoseconds like any others.
//!
//! A figure is hundredths for one operation, so that small changes show.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;

use nile_abi::{Instant, PageSize, Status, Window};
use nile_kernel::Core;
use nile_kernel::timers::Timers;
use nile_platform::Machine;
use nile_sync::yield_now;

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::{heard, say};

const TAG: u32 = 5;

/// Cells of the channels.
const CELLS: u32 = 32;

/// Deadlines that are armed beside the one that is measured.
const OTHER_TIMERS: u64 = 64;

/// Starts this core's part: only the conductor has one.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let operations = arguments.number("ops", 200).max(1);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "counts", move |findings| async move {
            let counter = Counter { core, operations, findings };
            if let Err(status) = counter.count_all().await {
                counter.findings.check(false, format_args!("an operation failed: {status}"));
            }
        });
    }
}

struct Counter<M: Machine> {
    core: Core<M>,
    operations: u64,
    findings: Findings,
}

impl<M: Machine> Counter<M> {
    async fn count_all(&self) -> Result<(), Status> {
        let core = &self.core;
        let free = self.free_bytes().await?;

        let (out, back) = (core.open(core.id(), TAG, CELLS).await?, core.accept(TAG).await?);
        self.count("message", async |number| {
            out.try_send(&say(number))?;
            let message = back.try_receive()?.ok_or(Status::NotFound)?;
            if heard(&message) == Some(number) { Ok(()) } else { Err(Status::Invalid) }
        })
        .await?;
        drop((out, back));
        self.settle(free).await?;

        self.count("task", async |number| {
            let answer = core.spawn(async move { number + 1 }).await;
            if answer == number + 1 { Ok(()) } else { Err(Status::Invalid) }
        })
        .await?;

        let mut timers = Timers::default();
        let due = |number: u64| Instant::START + Duration::from_nanos(number);
        let armed = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        for other in 0..OTHER_TIMERS {
            timers.arm(Window::at(due(u64::from(u32::MAX) + other)), 0, armed.clone());
        }
        self.count("timer", async |number| {
            timers.arm(Window::at(due(number)), 0, armed.clone());
            if timers.fire_one(due(number)) { Ok(()) } else { Err(Status::Timeout) }
        })
        .await?;

        // Many are held at once: what one costs depends on which are in use and on the shape of
        // the tree that they are kept in, by up to an eighth, and that on where the image ends.
        let mut held = Vec::new();
        self.count("allocate", async |_| {
            held.push(core.allocate(PageSize::Small).await?);
            Ok(())
        })
        .await?;
        self.count("release", async |_| match held.pop() {
            Some(frame) => frame.release().await,
            None => Err(Status::NotFound),
        })
        .await?;

        self.count("channel", async |_| {
            let (out, back) = (core.open(core.id(), TAG, CELLS).await?, core.accept(TAG).await?);
            drop((out, back));
            self.settle(free).await
        })
        .await
    }

    /// Does the operation many times, and once before to warm up, and notes what one took.
    async fn count(
        &self,
        name: &str,
        mut operation: impl AsyncFnMut(u64) -> Result<(), Status>,
    ) -> Result<(), Status> {
        operation(0).await?;
        yield_now().await;
        let before = self.core.now();
        for number in 1..=self.operations {
            operation(number).await?;
        }
        let took = self.core.now().since(before).as_nanos() as u64;
        self.findings.figure(String::from(name), took * 100 / self.operations);
        Ok(())
    }

    /// Waits until the ends that were dropped are closed, which this core's tasks see to: then as
    /// much memory is `free` as was before they were opened.
    async fn settle(&self, free: u64) -> Result<(), Status> {
        while self.free_bytes().await? < free {}
        Ok(())
    }

    async fn free_bytes(&self) -> Result<u64, Status> {
        Ok(self.core.memory_statistics().await?.free_bytes)
    }
}
