//! The type of all scheduling policies, which `fair` declares (Dhara, IV.A), and what policies of
//! packages are asked.
//!
//! A package's policy is an instance of this type with one more method, `order`: it is given the
//! subjects that are bound to it, [`Waiting`], and says in which order they are to have their next
//! turns, each as often as its number is in there. It is asked ahead, and nobody waits for it:
//! whoever comes behind the end of the order has turns by age.

use alloc::string::String;

use nile_stl::{CallResult, Record, service};

/// The method that policies of packages have besides.
pub const ORDER: &str = "order";

/// The most turns that are asked for at once.
pub const MOST_TURNS: usize = 256;

/// A subject that is bound to a package's policy.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// By what the policy names it.
    pub subject: u32,
    /// Its name on its core.
    pub name: String,
    /// How much of it is ready.
    pub ready: u32,
    /// Nanoseconds that it has run since it was bound.
    pub had_ns: u64,
}

/// Subjects run in proportion to their weights.
#[service(
    subsystem = "processes",
    capability = "scheduling",
    layer = high,
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
pub trait Fair {
    /// How it decides, for people.
    #[stl_k(reply = "text", allow(package, operator, peer))]
    fn explain(&self) -> CallResult<String>;
}
