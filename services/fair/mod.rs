//! The scheduling policy that gives each its share, and the type of all scheduling policies: what
//! decides is [`nile_policy::policies::Fair`].

use alloc::string::String;

use nile_stl::{Start, Stl, service};

/// Each core that has a subject of it has an object that decides; this is what tells of it.
pub struct Fair;

impl Start for Fair {
    fn start(_: &Stl) -> Fair {
        Fair
    }
}

/// Subjects run in proportion to their weights.
#[service(
    subsystem = "processes",
    capability = "scheduling",
    layer = high,
    on = manager,
    keywords(fair = 8, interactive = 6, share = 6),
    attributes(global_priority = 20),
    policy = nile_policy::policies::Fair,
    type(
        name = "scheduling",
        attributes(global_priority: int in 0..=99),
        parameters(
            optional local_priority: int in 0..=99,
            optional weight: int in 1..=10_000,
            optional period_us: int in 1_000..=3_600_000_000,
            optional budget_us: int in 100..=3_600_000_000,
            optional deadline_us: int in 1..=86_400_000_000,
        ),
    ),
)]
impl Fair {
    /// How it decides, for people.
    #[stl_k(reply = "text", allow(package, operator, peer))]
    fn explain(&self) -> String {
        "who had the least for its weight runs next; weight is 100 unless it is given".into()
    }
}
