//! Why the parts of a composition do not fit: which two, and in what.

use alloc::string::String;
use core::fmt;

use nile_abi::Status;

use crate::attribute::bad_name;
use crate::limits::{MAX_DEPTH, MAX_PARTS};

/// Why one value cannot be another's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Problem {
    /// It is not there.
    Missing,
    /// It is of another type.
    OtherType,
    /// No value that one may have is allowed for the other.
    OtherRange,
}

/// Why a composition was not composed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ComposeError {
    /// Compositions nest deeper than [`MAX_DEPTH`].
    TooDeep,
    /// There are more than [`MAX_PARTS`] parts.
    TooManyParts,
    /// A part's name is empty or too long.
    BadName(String),
    /// This composition has no parts.
    NoParts(String),
    /// The composition has two parts of one name.
    PartTwice {
        /// The composition.
        whole: String,
        /// The name.
        part: String,
    },
    /// There is no such type or instance.
    UnknownService {
        /// The part.
        part: String,
        /// The type's or instance's name.
        service: String,
    },
    /// The service has no such method.
    UnknownMethod {
        /// The part.
        part: String,
        /// The method's name.
        method: String,
    },
    /// A value that one part is to hand to another does not fit.
    Chain {
        /// Who gives.
        from: String,
        /// Who takes.
        to: String,
        /// Which value.
        parameter: String,
        /// Why.
        problem: Problem,
    },
    /// Two parts that stand side by side do not take the same.
    Sides {
        /// The first part, which says what all take.
        first: String,
        /// The other.
        part: String,
        /// Which parameter.
        parameter: String,
        /// Why.
        problem: Problem,
    },
    /// An output of one part of an orchestrated service is declared as an input of another. Chain
    /// them lengthwise to one part instead.
    Feeds {
        /// Who gives.
        from: String,
        /// Who takes.
        to: String,
        /// The parameter that would get it.
        parameter: String,
    },
    /// It is not said where this value comes from.
    Unwired {
        /// Who takes.
        to: String,
        /// Which parameter, or which value of the reply.
        parameter: String,
    },
    /// It is said twice where this value comes from, or there is no such value.
    BadWire {
        /// Who was to take.
        to: String,
        /// Which parameter, or which value of the reply.
        parameter: String,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Problem::Missing => "it is not there",
            Problem::OtherType => "it is of another type",
            Problem::OtherRange => "their ranges have no value in common",
        })
    }
}

impl fmt::Display for ComposeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ComposeError::TooDeep => write!(f, "compositions nest deeper than {MAX_DEPTH}"),
            ComposeError::TooManyParts => write!(f, "more than {MAX_PARTS} parts"),
            ComposeError::BadName(name) => bad_name(f, "part", name),
            ComposeError::NoParts(whole) => write!(f, "`{whole}` has no parts"),
            ComposeError::PartTwice { whole, part } => {
                write!(f, "`{whole}` has two parts `{part}`")
            }
            ComposeError::UnknownService { part, service } => {
                write!(f, "part `{part}`: there is no service `{service}`")
            }
            ComposeError::UnknownMethod { part, method } => {
                write!(f, "part `{part}`: its service has no method `{method}`")
            }
            ComposeError::Chain { from, to, parameter, problem } => {
                write!(f, "`{to}` takes `{parameter}` from `{from}`: {problem}")
            }
            ComposeError::Sides { first, part, parameter, problem } => {
                write!(f, "`{part}` and `{first}` must take the same `{parameter}`: {problem}")
            }
            ComposeError::Feeds { from, to, parameter } => {
                write!(f, "an output of `{from}` feeds `{parameter}` of `{to}`; chain them instead")
            }
            ComposeError::Unwired { to, parameter } => {
                write!(f, "nothing says where `{parameter}` of `{to}` comes from")
            }
            ComposeError::BadWire { to, parameter } => {
                write!(f, "`{to}` has no `{parameter}` to set, or it is set twice")
            }
        }
    }
}

impl From<ComposeError> for Status {
    fn from(error: ComposeError) -> Status {
        match error {
            ComposeError::UnknownService { .. } | ComposeError::UnknownMethod { .. } => {
                Status::NotFound
            }
            _ => Status::Invalid,
        }
    }
}
