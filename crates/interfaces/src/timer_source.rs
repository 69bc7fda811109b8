//! A timer that can end the sleep of cores (Dhara, IV.D). Each that the machine has is an instance
//! of this type on the managing core, named as the machine names it.

use alloc::string::String;

use nile_stl::node::TimerSource as Machines;
use nile_stl::{CallResult, Record, service};

/// The keyword of all of them: it counts the more, the less arming costs.
pub const CHEAP: &str = "cheap";

/// A timer, and what it can do.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct SourceEntry {
    /// Its name.
    pub name: String,
    /// How late it may be by itself.
    pub resolution_ns: u64,
    /// The longest that it waits at once.
    pub longest_ms: u64,
    /// What arming it costs, in instructions or as if it were.
    pub cost: u32,
    /// Whether some cores alone have it.
    pub shared: bool,
}

impl From<&Machines> for SourceEntry {
    fn from(it: &Machines) -> SourceEntry {
        SourceEntry {
            name: it.name.into(),
            resolution_ns: it.resolution_nanos(),
            longest_ms: it.longest_millis(),
            cost: it.cost,
            shared: it.shared,
        }
    }
}

/// A timer.
#[service(
    subsystem = "timers",
    capability = "timer source",
    layer = micro,
    type(attributes(
        optional resolution_ns: int,
        optional longest_ms: int,
        optional cost: int,
        optional shared: bool,
    )),
)]
pub trait TimerSource {
    /// What it can do.
    #[stl_k(reply = "source", allow(package, operator, peer))]
    fn describe(&self) -> CallResult<SourceEntry>;
}
