//! The order of a type's instances on what they share: the policy manager visits them from the
//! highest global priority to the lowest (Dhara, IV.A).
//!
//! No two instances are equal in it. One that asks for a priority which is taken gets it lowered
//! by a fraction, so that it comes directly after those that asked before and still before every
//! lower one.

use core::cmp::Reverse;
use core::fmt;

/// The attribute in which an instance asks for its global priority, a whole number.
pub const PRIORITY: &str = "global_priority";

/// A global priority: `global` − `lowered` / 65,536. There are fewer instances in a registry's
/// life than fractions between two whole numbers, so there is always room.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Priority {
    /// What was asked for; more is earlier.
    pub global: i64,
    /// By how many fractions it was lowered.
    pub lowered: u16,
}

impl Priority {
    /// The highest of those that asked for `global`.
    pub(crate) fn first(global: i64) -> Priority {
        Priority { global, lowered: 0 }
    }

    /// The lowest of those that asked for `global`.
    pub(crate) fn last(global: i64) -> Priority {
        Priority { global, lowered: u16::MAX }
    }

    /// A fraction lower, if there is one.
    pub(crate) fn lower(self) -> Option<Priority> {
        Some(Priority { lowered: self.lowered.checked_add(1)?, ..self })
    }
}

impl Ord for Priority {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        (self.global, Reverse(self.lowered)).cmp(&(other.global, Reverse(other.lowered)))
    }
}

impl PartialOrd for Priority {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowered {
            0 => self.global.fmt(f),
            lowered => write!(f, "{} - {lowered}/65536", self.global),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_lowered_priority_is_directly_below(global in any::<i64>(), lowered in 0..u16::MAX) {
            let it = Priority { global, lowered };
            let lower = it.lower().unwrap();
            prop_assert!(lower < it);
            prop_assert!(global == i64::MIN || lower > Priority::first(global - 1));
            prop_assert!(Priority::last(global) <= lower && it <= Priority::first(global));
        }
    }
}
