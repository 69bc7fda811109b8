//! Policies of a type that only these tests have, each a service: who runs next. EVEN declares what
//! they have in common.

pub mod even;
pub mod queued;
pub mod urgent;
