//! What a simulation found: the document that `nile sim --json` prints.

use serde::{Deserialize, Serialize};

/// The result of all runs of a scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// The seed of the first run.
    pub seed: u64,
    /// How many nodes took part.
    pub nodes: u32,
    /// How many runs there were.
    pub runs: u32,
    /// The runs that broke an invariant, by seed.
    pub failed: Vec<Failure>,
    /// The hash of all events of all runs: 16 hexadecimal digits, because a JSON number does not
    /// hold 64 bits everywhere.
    pub trace_hash: String,
    /// How many nodes sent, where that was an option.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub senders: Option<u32>,
    /// What was measured. One that misses its target is among the failures, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

/// A run that broke an invariant.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// Which invariant, and how it was broken.
    pub invariant: String,
}

/// Something measured in the runs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its value, in `unit`; over several runs the worst, or the last if it has no target, or the
    /// sum of a count.
    pub value: f64,
    /// The unit of the value.
    pub unit: String,
    /// What the value must be, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
    /// Whether it counts something, of all runs together.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_count: bool,
}

/// A bound of a figure.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The value is this or more.
    AtLeast(f64),
    /// The value is this or less.
    AtMost(f64),
}

impl Figure {
    /// A figure without a target.
    pub fn new(name: &str, value: f64, unit: &str) -> Figure {
        Figure { name: name.into(), value, unit: unit.into(), target: None, is_count: false }
    }

    /// How often something has happened, which is told of all runs together.
    pub fn count(name: &str, count: u64) -> Figure {
        Figure { is_count: true, ..Figure::new(name, count as f64, "in all") }
    }

    /// The same with a target.
    #[must_use]
    pub fn with_target(self, target: Target) -> Figure {
        Figure { target: Some(target), ..self }
    }

    /// Whether the value meets its target. What is not a number meets none.
    pub fn holds(&self) -> bool {
        match self.target {
            None => true,
            Some(Target::AtLeast(bound)) => self.value >= bound,
            Some(Target::AtMost(bound)) => self.value <= bound,
        }
    }

    /// Of two values of one figure, the one that says more: the worse one.
    pub(crate) fn worse(&self, other: f64) -> bool {
        match self.target {
            None => true,
            Some(Target::AtLeast(_)) => other < self.value || other.is_nan(),
            Some(Target::AtMost(_)) => other > self.value || other.is_nan(),
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::AtLeast(bound) => write!(f, "at least {bound:.4}"),
            Target::AtMost(bound) => write!(f, "at most {bound:.4}"),
        }
    }
}
