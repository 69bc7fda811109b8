//! Scheduling policies, each a service: who runs next. FAIR declares what they have in common.

pub mod fair;
pub mod fifo;
pub mod real_time;
