//! The options of `nile compose`.

use std::str::FromStr;

use clap::{Args, ValueEnum};
use nile_synthesis::{Goal, Objective, Value};

use crate::cluster::args::Query;

#[derive(Args)]
pub struct Compose {
    /// The values that there are, by what they mean, as m,n; or m:uint_64 if there are several
    /// types of it.
    #[arg(long, value_name = "VALUES", value_delimiter = ',')]
    pub from: Vec<Value>,
    /// The values that are wanted.
    #[arg(long, value_name = "VALUES", value_delimiter = ',')]
    #[arg(required_unless_present_any = ["published", "withdraw"])]
    pub to: Vec<Value>,
    /// What the plan may have at most: latency=2ms, or failures=100 of a million calls.
    #[arg(long = "at-most", value_name = "LIMIT")]
    pub most: Vec<Most>,
    /// What each part must have at least: throughput=1000 calls in a second.
    #[arg(long = "at-least", value_name = "LIMIT")]
    pub least: Vec<Least>,
    /// What is to be best.
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    pub best: Best,
    /// Publish the plan as a service of this name with one method of this name, that all can call.
    /// A node keeps it, and plans it anew when a part fails or is slower than promised.
    #[arg(long, value_name = "NAME", conflicts_with = "explain")]
    pub publish: Option<String>,
    /// End the composite of this name.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "to", "publish", "explain"])]
    pub withdraw: Option<String>,
    /// Show the composites that are published, and what each calls now.
    #[arg(long, conflicts_with_all = ["from", "to", "publish", "withdraw", "explain"])]
    pub published: bool,
    /// Show when each part begins and ends, and what there was to choose from.
    #[arg(long)]
    pub explain: bool,
    #[command(flatten)]
    pub query: Query,
}

/// What is to be best.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Best {
    /// The time until all that is wanted is there.
    #[default]
    Latency,
    /// The calls in a second.
    Throughput,
}

/// What there may be at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Most {
    /// Nanoseconds until all that is wanted is there.
    Latency(u64),
    /// Failures of a million calls of each part.
    Failures(u32),
}

/// Calls in a second that each part must take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Least(pub u64);

impl Compose {
    /// What is wanted.
    pub fn goal(&self) -> Goal {
        let mut goal =
            Goal { given: self.from.clone(), wanted: self.to.clone(), ..Goal::default() };
        goal.objective = match self.best {
            Best::Latency => Objective::Latency,
            Best::Throughput => Objective::Throughput,
        };
        // Of several limits all hold.
        for limit in &self.most {
            match *limit {
                Most::Latency(most) => {
                    goal.most_latency_ns = Some(goal.most_latency_ns.unwrap_or(most).min(most));
                }
                Most::Failures(most) => {
                    goal.most_failures_ppm = Some(goal.most_failures_ppm.unwrap_or(most).min(most));
                }
            }
        }
        goal.least_per_second = self.least.iter().map(|least| least.0).max();
        goal
    }
}

impl FromStr for Most {
    type Err = String;

    fn from_str(text: &str) -> Result<Most, String> {
        match text.split_once('=') {
            Some(("latency", time)) => nanoseconds(time).map(Most::Latency),
            Some(("failures", count)) => match count.parse() {
                Ok(count) if count <= 1_000_000 => Ok(Most::Failures(count)),
                _ => Err(format!("`{count}` is no number up to 1000000")),
            },
            _ => Err("write latency=2ms or failures=100".into()),
        }
    }
}

impl FromStr for Least {
    type Err = String;

    fn from_str(text: &str) -> Result<Least, String> {
        let count = text.strip_prefix("throughput=").ok_or("write throughput=1000")?;
        count.parse().map(Least).map_err(|_| format!("`{count}` is no number of calls"))
    }
}

/// A time as 2ms.
fn nanoseconds(text: &str) -> Result<u64, String> {
    let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
    let wrong = || format!("`{text}` is no time; write it as 500us, 2ms or 1s");
    let found = units.into_iter().find_map(|(unit, ns)| Some((text.strip_suffix(unit)?, ns)));
    let (count, ns) = found.ok_or_else(wrong)?;
    count.parse().ok().and_then(|count: u64| count.checked_mul(ns)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_bosml::schema::Type;

    #[test]
    fn limits_are_numbers_with_units() {
        assert_eq!("latency=2ms".parse(), Ok(Most::Latency(2_000_000)));
        assert_eq!("latency=7ns".parse(), Ok(Most::Latency(7)));
        assert_eq!("failures=100".parse(), Ok(Most::Failures(100)));
        assert_eq!("throughput=9".parse(), Ok(Least(9)));
        for wrong in ["latency", "latency=2", "latency=-1ms", "latency=99999999999999s", "cost=1"] {
            assert!(wrong.parse::<Most>().is_err(), "{wrong}");
        }
        assert!("failures=1000001".parse::<Most>().is_err());
        assert!("throughput=many".parse::<Least>().is_err());
    }

    #[test]
    fn a_value_is_a_meaning_and_perhaps_a_type() {
        let value = |text: &str| text.parse::<Value>();
        assert_eq!(value("m"), Ok(Value::of("m")));
        let typed = Value { meaning: "m".into(), ty: Some(Type::Uint64) };
        assert_eq!(typed.to_string(), "m:uint_64");
        assert_eq!(value("m:uint_64"), Ok(typed));
        assert!(value("").is_err() && value(":string").is_err());
        assert!(value("m:number").unwrap_err().contains("uint_64"));
    }
}
