//! Why there is no plan.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use nile_registry::limits::MAX_PARTS;

/// Why there is no plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SynthesisError {
    /// Nothing is wanted.
    NothingWanted,
    /// No pure method takes or gives a value of this meaning; these are the meanings that there
    /// are.
    Unknown(String, Vec<String>),
    /// Values of this meaning are of several types, and the goal does not say which.
    Ambiguous(String),
    /// This value is given twice.
    Twice(String),
    /// No methods that are good enough lead to this value from what is given.
    Unreachable(String),
    /// The quickest plan takes so many nanoseconds, more than the limit.
    TooSlow {
        /// What it takes.
        best_ns: u64,
        /// What it may take.
        limit_ns: u64,
    },
    /// The plan has so many parts, more than a composition can have.
    TooManyParts(usize),
}

impl fmt::Display for SynthesisError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SynthesisError::NothingWanted => f.write_str("nothing is wanted; name a value"),
            SynthesisError::Unknown(meaning, known) => {
                write!(f, "no pure method takes or gives `{meaning}`; there are: ")?;
                match known.as_slice() {
                    [] => f.write_str("none"),
                    known => f.write_str(&known.join(", ")),
                }
            }
            SynthesisError::Ambiguous(meaning) => {
                write!(f, "`{meaning}` is of several types; say which, as in `{meaning}:string`")
            }
            SynthesisError::Twice(meaning) => write!(f, "`{meaning}` is given twice"),
            SynthesisError::Unreachable(meaning) => {
                write!(f, "no pure methods that are good enough lead to `{meaning}`; ")?;
                f.write_str("give more values, or allow more")
            }
            SynthesisError::TooSlow { best_ns, limit_ns } => {
                write!(f, "the quickest plan takes {best_ns} ns, more than {limit_ns} ns")
            }
            SynthesisError::TooManyParts(parts) => {
                write!(f, "the plan has {parts} parts, of {MAX_PARTS} at most")
            }
        }
    }
}
