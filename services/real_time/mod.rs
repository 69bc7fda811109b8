//! The scheduling policy for what is urgent, above all others: what decides is
//! [`nile_policy::policies::RealTime`].

use alloc::string::String;

use nile_stl::{Start, Stl, service};

/// Each core that has a subject of it has an object that decides; this is what tells of it.
pub struct RealTime;

impl Start for RealTime {
    fn start(_: &Stl) -> RealTime {
        RealTime
    }
}

/// Tasks run by priority before all that is not real time.
#[service(
    type = crate::fair::TYPE,
    on = manager,
    keywords(realtime = 8, latency = 6),
    attributes(global_priority = 30),
    policy = nile_policy::policies::RealTime,
)]
impl RealTime {
    /// How it decides, for people.
    #[stl_k(reply = "text", allow(package, operator, peer))]
    fn explain(&self) -> String {
        "the highest local_priority runs next, 0 unless it is given; others keep 5% each".into()
    }
}
