//! The scheduling policy for long batches, beneath all others: what decides is
//! [`nile_policy::policies::Fifo`].

use alloc::string::String;

use nile_stl::{Start, Stl, service};

/// Each core that has a subject of it has an object that decides; this is what tells of it.
pub struct Fifo;

impl Start for Fifo {
    fn start(_: &Stl) -> Fifo {
        Fifo
    }
}

/// Tasks run in the order in which they became ready, when nobody else has any.
#[service(
    type = crate::fair::TYPE,
    on = manager,
    keywords(batch = 8, throughput = 6),
    attributes(global_priority = 10),
    policy = nile_policy::policies::Fifo,
)]
impl Fifo {
    /// How it decides, for people.
    #[stl_k(reply = "text", allow(package, operator, peer))]
    fn explain(&self) -> String {
        "who has been ready longest runs next, behind all other policies and the default".into()
    }
}
