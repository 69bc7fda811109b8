//! What is said when a subject is bound to a policy, and why it may be refused.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::fmt;

/// A parameter that a policy knows: its name, and what it may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// Its name, as `weight`.
    pub name: &'static str,
    /// The least that it may be.
    pub least: i64,
    /// The most that it may be.
    pub most: i64,
}

impl Parameter {
    /// One of this name, within these bounds.
    pub const fn new(name: &'static str, least: i64, most: i64) -> Parameter {
        Parameter { name, least, most }
    }
}

/// Named numbers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Parameters(Vec<(Cow<'static, str>, i64)>);

impl Parameters {
    /// No parameters: each is as the policy has it.
    pub const fn none() -> Parameters {
        Parameters(Vec::new())
    }

    /// With one more.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, value: i64) -> Parameters {
        self.0.push((name.into(), value));
        self
    }

    /// The value of this name, if it is given.
    pub fn get(&self, name: &str) -> Option<i64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// All of them, as they were given.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.0.iter().map(|(name, value)| (&**name, *value))
    }

    /// Whether each is known and within its bounds.
    pub(crate) fn check(&self, known: &'static [Parameter]) -> Result<(), Refusal> {
        for (name, value) in &self.0 {
            let Some(parameter) = known.iter().find(|it| it.name == name) else {
                return Err(Refusal::Unknown { name: name.clone(), known });
            };
            if !(parameter.least..=parameter.most).contains(value) {
                return Err(Refusal::OutOfRange { parameter: *parameter, value: *value });
            }
        }
        Ok(())
    }
}

/// Why a subject was not bound. What it was bound to before, it is bound to still.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// There is no such policy here.
    NoPolicy,
    /// There is no such subject here.
    NoSubject,
    /// The policy was expelled, and has not been published anew.
    Expelled,
    /// A policy that decides binds nobody.
    Deciding,
    /// The policy knows no such parameter.
    Unknown {
        /// The parameter.
        name: Cow<'static, str>,
        /// Those that it knows.
        known: &'static [Parameter],
    },
    /// A parameter is beyond its bounds.
    OutOfRange {
        /// The parameter.
        parameter: Parameter,
        /// What was given.
        value: i64,
    },
    /// Parameters that only make sense together were not given together.
    Incomplete(&'static str),
    /// What was asked for cannot be kept beside what was promised before: the shares of the core,
    /// in parts of a million.
    Overcommitted {
        /// What is promised already.
        promised: u64,
        /// What was asked for.
        asked: u64,
        /// The most that may be promised.
        most: u64,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoPolicy => f.write_str("there is no such policy here"),
            Refusal::NoSubject => f.write_str("there is no such subject here"),
            Refusal::Expelled => {
                f.write_str("the policy was expelled; publish it anew before binding to it")
            }
            Refusal::Deciding => f.write_str("a policy binds nobody while it decides"),
            Refusal::Unknown { name, known: [] } => {
                write!(f, "the policy takes no parameter, and so no {name}")
            }
            Refusal::Unknown { name, known } => {
                write!(f, "the policy takes no parameter {name}; it takes ")?;
                for (index, parameter) in known.iter().enumerate() {
                    let comma = if index == 0 { "" } else { ", " };
                    write!(f, "{comma}{}", parameter.name)?;
                }
                Ok(())
            }
            Refusal::OutOfRange { parameter: Parameter { name, least, most }, value } => {
                write!(f, "{name} is {value}; it must be from {least} to {most}")
            }
            Refusal::Incomplete(which) => f.write_str(which),
            Refusal::Overcommitted { promised, asked, most } => write!(
                f,
                "{asked} millionths of the core are asked for and {promised} are promised \
                 already, of {most} at most; ask for a smaller budget or a longer period"
            ),
        }
    }
}

impl core::error::Error for Refusal {}
