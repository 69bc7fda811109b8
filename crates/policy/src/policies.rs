//! The scheduling policies that a node has from the start (Dhara, IV.A), in the order of their
//! global priorities.

mod ahead;
mod earliest_deadline;
mod fair;
mod fifo;
mod real_time;

pub use ahead::{Ahead, Load, Plan};
pub use earliest_deadline::EarliestDeadline;
pub use fair::Fair;
pub use fifo::Fifo;
pub use real_time::RealTime;
