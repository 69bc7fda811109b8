//! The time service: the node's clock, and waiting for a moment of it. Times are nanoseconds since
//! the node's start, the same on all of its cores.

use alloc::format;

use nile_abi::{Instant, Status, Window};
use nile_interfaces::time::TimeKernel;
use nile_stl::{CallError, CallResult, Start, Stl, service};

/// The clock of a core.
pub struct Time {
    stl: Stl,
    /// When this core's incarnation started the service.
    started: Instant,
}

impl Start for Time {
    fn start(stl: &Stl) -> Time {
        Time { stl: stl.clone(), started: stl.host().now() }
    }
}

#[service(on = every, keywords(time = 5, clock = 3, timer = 3, sleep = 2))]
impl TimeKernel for Time {
    fn now(&self) -> u64 {
        self.stl.host().now().as_nanos()
    }

    async fn sleep_until(&self, nanos: u64) -> u64 {
        let host = self.stl.host();
        host.sleep_until(Instant::from_nanos(nanos)).await;
        host.now().as_nanos()
    }

    async fn sleep_in(&self, from: u64, until: u64) -> CallResult<u64> {
        if until < from {
            let message = format!("until is {until}, which is before from, {from}");
            return Err(CallError::new(Status::Invalid, message));
        }
        let host = self.stl.host();
        let window = Window::between(Instant::from_nanos(from), Instant::from_nanos(until));
        host.sleep_in(window).await;
        Ok(host.now().as_nanos())
    }

    fn uptime(&self) -> u64 {
        self.now() - self.started.as_nanos()
    }
}
