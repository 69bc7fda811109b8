//! A result: ours beside the peer's, and whether their ratio meets the target.

use std::fmt;
use std::io::{self, Write};

use serde::Serialize;

use crate::rounds::by_part;

/// Begins a report on a stream that carries other text too (RFC 7464).
const REPORT_MARK: &str = "\x1e";

/// What a ratio must be.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Target {
    /// Less is better.
    AtMost(f64),
    /// More is better.
    AtLeast(f64),
    /// Nothing: it is only measured, and there is no control.
    None,
}

impl Target {
    fn is_met_by(self, ratio: f64) -> bool {
        match self {
            Target::AtMost(limit) => ratio <= limit,
            Target::AtLeast(limit) => ratio >= limit,
            Target::None => ratio.is_finite(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::AtMost(limit) => write!(f, "at most {limit:?}"),
            Target::AtLeast(limit) => write!(f, "at least {limit:?}"),
            Target::None => f.write_str("none"),
        }
    }
}

/// What a benchmark is measured against.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Peer {
    /// Who it is.
    pub name: String,
    /// What it reached, in the figure's unit.
    pub value: f64,
}

/// One result, as the command line's contract has it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    name: String,
    unit: &'static str,
    ours: f64,
    peer: Peer,
    ratio: f64,
    target: String,
    pass: bool,
    /// What was measured at most in 1% to 100% of the rounds, and of whom, where that is of
    /// interest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    spread: Vec<(&'static str, Vec<f64>)>,
}

impl Figure {
    /// A result whose ratio is that of the two values.
    pub fn new(
        name: impl Into<String>,
        unit: &'static str,
        ours: f64,
        peer: Peer,
        target: Target,
    ) -> Figure {
        let ratio = ours / peer.value;
        Figure::with_ratio(name, unit, ours, peer, ratio, target)
    }

    /// A result whose ratio was taken round by round.
    pub fn with_ratio(
        name: impl Into<String>,
        unit: &'static str,
        ours: f64,
        peer: Peer,
        ratio: f64,
        target: Target,
    ) -> Figure {
        let pass = target.is_met_by(ratio);
        Figure {
            name: name.into(),
            unit,
            ours,
            peer,
            ratio,
            target: target.to_string(),
            pass,
            spread: Vec::new(),
        }
    }

    /// The same with how the times are spread of each who was measured, which whoever looks on is
    /// told, too.
    #[must_use]
    pub fn spread(mut self, all: &[(&'static str, &[f64])]) -> Figure {
        for (who, times) in all {
            let parts = by_part(times);
            let [p50, p90, p99, most] =
                [50, 90, 99, 100].map(|part| parts.get(part - 1).copied().unwrap_or(f64::NAN));
            let Figure { name, unit, .. } = &self;
            eprintln!(
                "  {name}, {who}: p50 {p50:.2}, p90 {p90:.2}, p99 {p99:.2}, most {most:.2} {unit}"
            );
            self.spread.push((who, parts));
        }
        self
    }

    /// Sends it to whoever started this program. One that has gone away needs no results.
    pub fn send(&self) {
        let document = serde_json::to_string(self).expect("text, numbers and a boolean");
        let _ = io::stdout().write_all(format!("{REPORT_MARK}{document}\n").as_bytes());
    }
}

/// Why a benchmark could not be run.
#[derive(Debug)]
pub enum Failure {
    /// Two threads are to run at once, and this process may use one CPU.
    OneCpu,
    /// Linux refused something.
    System(io::Error),
    /// A node did not do what it was started for.
    Node(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::OneCpu => f.write_str("it needs two CPUs, and this process may use one"),
            Failure::System(error) => error.fmt(f),
            Failure::Node(message) => f.write_str(message),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::System(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_met_up_to_its_limit() {
        let figure = |ours, target| {
            Figure::new("f", "ns", ours, Peer { name: "p".into(), value: 2.0 }, target)
        };
        assert!(figure(4.0, Target::AtMost(2.0)).pass);
        assert!(!figure(4.1, Target::AtMost(2.0)).pass);
        assert!(figure(1.8, Target::AtLeast(0.9)).pass);
        assert!(!figure(1.7, Target::AtLeast(0.9)).pass);
        assert!(!figure(f64::NAN, Target::AtMost(2.0)).pass);
        assert!(figure(9.0, Target::None).pass && !figure(f64::NAN, Target::None).pass);
        assert_eq!(figure(1.0, Target::AtLeast(0.9)).target, "at least 0.9");
        assert_eq!(figure(1.0, Target::AtMost(2.0)).target, "at most 2.0");
    }
}
