//! The node's clock, and waiting for a moment of it. Times are nanoseconds since the node's start,
//! the same on all of its cores.

use nile_stl::{CallResult, service};

/// The node's clock.
#[service(subsystem = "time", capability = "clock", layer = low)]
pub trait Time {
    /// Nanoseconds since the node's start.
    #[stl_k(reply = "nanos", allow(package, operator, peer))]
    fn now(&self) -> u64;

    /// Answers at this moment or after it, never before, with the time then.
    #[stl_k(reply = "nanos", allow(package, operator, peer))]
    async fn sleep_until(&self, nanos: u64) -> u64;

    /// Answers between these moments, when this core is awake anyway or at the second one, with
    /// the time then. Fails with `Invalid` if the second one is before the first one.
    #[stl_k(reply = "nanos", allow(package, operator, peer))]
    async fn sleep_in(&self, from: u64, until: u64) -> CallResult<u64>;

    /// Nanoseconds since this core's incarnation began to serve.
    #[stl_k(reply = "nanos", allow(package, operator, peer))]
    fn uptime(&self) -> u64;
}
