//! Composites that are planned for a goal and published as services (Dhara, I and VI).

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use nile_abi::Status;
use nile_stl::{CallError, CallResult, Record, service};
use nile_synthesis::{Goal, Objective, Value};

/// What a plan is for.
#[derive(Record, Clone, Default, PartialEq, Eq, Debug)]
pub struct GoalEntry {
    /// The values that there are, as people write them: `m`, or `m:uint_64`.
    pub given: Vec<String>,
    /// The values that are wanted.
    pub wanted: Vec<String>,
    /// Whether the calls in a second are to be the most, in place of the time the least.
    pub throughput: bool,
    /// The longest time that it may take, in nanoseconds.
    pub most_latency_ns: Option<u64>,
    /// The fewest calls in a second that it can take.
    pub least_per_second: Option<u64>,
    /// How many of a million calls of a part may fail.
    pub most_failures_ppm: Option<u32>,
}

/// A call that a composite makes.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct PartEntry {
    /// The service.
    pub service: String,
    /// Its method.
    pub method: String,
    /// The node of the instance; 0 for the composite's own.
    pub node: u32,
    /// Its core.
    pub core: u16,
}

/// A composite that is published.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CompositeEntry {
    /// The name by which it is called.
    pub name: String,
    /// What it calls now.
    pub parts: Vec<PartEntry>,
    /// A call takes at most so many nanoseconds, as it promises.
    pub latency_ns: u64,
    /// It takes so many calls in a second, if it promises that.
    pub per_second: Option<u64>,
    /// How many plans it has had.
    pub plans: u32,
    /// Calls of it that have begun.
    pub calls: u64,
}

/// Composites that are planned for a goal and published as services.
#[service(subsystem = "naming", capability = "composition", layer = high)]
pub trait Composer {
    /// Plans the best composite for a goal over what this node knows, and publishes it on this core
    /// as a service of this name with one method of its name. It is planned anew when a part fails,
    /// or it does not keep what it promises. `NotFound` (no plan), `Invalid` (the goal or the
    /// name), `Exists`, `Denied` (a name of the node's), `NoMemory` (there are too many).
    #[stl_k(reply = "composite", allow(operator, peer))]
    async fn publish(&self, name: String, goal: GoalEntry) -> CallResult<CompositeEntry>;

    /// Ends a composite of this core; whether there was one of this name.
    #[stl_k(reply = "was_published", allow(operator, peer))]
    async fn withdraw(&self, name: String) -> CallResult<bool>;

    /// The composites of this core in the order of their names, some at a time: those behind the
    /// name `after`. None: there are no more.
    #[stl_k(reply = "composites", allow(package, operator, peer))]
    fn list(&self, after: &str) -> Vec<CompositeEntry>;
}

impl From<&Goal> for GoalEntry {
    fn from(goal: &Goal) -> GoalEntry {
        let texts = |values: &[Value]| values.iter().map(Value::to_string).collect();
        GoalEntry {
            given: texts(&goal.given),
            wanted: texts(&goal.wanted),
            throughput: goal.objective == Objective::Throughput,
            most_latency_ns: goal.most_latency_ns,
            least_per_second: goal.least_per_second,
            most_failures_ppm: goal.most_failures_ppm,
        }
    }
}

/// Fails with `Invalid` if a value is none.
impl TryFrom<GoalEntry> for Goal {
    type Error = CallError;

    fn try_from(entry: GoalEntry) -> CallResult<Goal> {
        let value = |text: &String| text.parse::<Value>();
        let values = |texts: &[String]| texts.iter().map(value).collect::<Result<Vec<_>, _>>();
        let wrong = |what: String| CallError::new(Status::Invalid, format!("the goal: {what}"));
        Ok(Goal {
            given: values(&entry.given).map_err(wrong)?,
            wanted: values(&entry.wanted).map_err(wrong)?,
            objective: if entry.throughput { Objective::Throughput } else { Objective::Latency },
            most_latency_ns: entry.most_latency_ns,
            least_per_second: entry.least_per_second,
            most_failures_ppm: entry.most_failures_ppm,
        })
    }
}

impl ComposerClient {
    /// Every composite of the core. Each page is a call.
    pub async fn list_all(&self) -> CallResult<Vec<CompositeEntry>> {
        let mut all: Vec<CompositeEntry> = Vec::new();
        loop {
            let after = all.last().map_or(String::new(), |it| it.name.clone());
            let more = self.list(&after).await?;
            if more.is_empty() {
                return Ok(all);
            }
            all.extend(more);
        }
    }
}
