//! The scheduling policy that gives each its share: what decides is
//! [`nile_policy::policies::Fair`]. It declares the type of all scheduling policies.

use alloc::string::String;

use nile_interfaces::scheduling::FairKernel;
pub use nile_interfaces::scheduling::TYPE;
use nile_stl::{CallResult, Start, Stl, service};

/// Each core that has a subject of it has an object that decides; this is what tells of it.
pub struct Fair;

impl Start for Fair {
    fn start(_: &Stl) -> Fair {
        Fair
    }
}

#[service(
    on = manager,
    keywords(fair = 8, interactive = 6, share = 6),
    attributes(global_priority = 20),
    policy = nile_policy::policies::Fair,
)]
impl FairKernel for Fair {
    fn explain(&self) -> CallResult<String> {
        Ok("who had the least for its weight runs next; weight is 100 unless it is given".into())
    }
}
