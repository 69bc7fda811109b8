//! The scheduling policy for what is to be done by a time: what decides is
//! [`nile_policy::policies::EarliestDeadline`].

use alloc::string::String;

use nile_stl::{Start, Stl, service};

/// Each core that has a subject of it has an object that decides; this is what tells of it.
pub struct EarliestDeadline;

impl Start for EarliestDeadline {
    fn start(_: &Stl) -> EarliestDeadline {
        EarliestDeadline
    }
}

/// Whose deadline is the earliest runs, within the budget that it was promised.
#[service(
    type = crate::fair::TYPE,
    on = manager,
    keywords(deadline = 8, periodic = 6, budget = 4),
    attributes(global_priority = 25),
    policy = nile_policy::policies::EarliestDeadline,
)]
impl EarliestDeadline {
    /// How it decides, for people.
    #[stl_k(reply = "text", allow(package, operator, peer))]
    fn explain(&self) -> String {
        "the earliest deadline runs next: deadline_us from the bind on, or budget_us in each \
         period_us, of which 95% of a core are promised at most"
            .into()
    }
}
