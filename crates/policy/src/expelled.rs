//! Why a policy was expelled, and what it decided last.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::Instant;

use crate::Subject;

/// Why a policy was expelled: its third failure, or its last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expulsion {
    /// It had something ready and answered nothing.
    Silent,
    /// It answered what is not ready, or not its own.
    Wrong,
    /// It ended an incarnation of its core, at once.
    Fatal,
}

impl fmt::Display for Expulsion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expulsion::Silent => "it gave nothing although it had something that is ready",
            Expulsion::Fatal => "it panicked or did not return, which ended its core",
            Expulsion::Wrong => "it gave what is not ready, or not its own",
        })
    }
}

/// An expulsion.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expelled {
    /// Why.
    pub why: Expulsion,
    /// How many subjects went to the default; none if its core has ended, and they with it.
    pub subjects: u32,
    /// When; if its core has ended, when the next incarnation began.
    pub at: Instant,
    /// What it decided last, the oldest first: [`MOST_DECISIONS`] at most; nothing if its core has
    /// ended.
    pub last: Vec<Decision>,
}

/// An answer of a policy, and what was wrong with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Something ready of this subject's.
    Run(Subject),
    /// Nothing, although it had something.
    Nothing,
    /// That all are to wait until a moment that has passed.
    Past,
    /// What was not ready any more, or never was.
    Gone,
    /// What another policy had, of this subject's.
    Foreign(Subject),
}

impl Decision {
    /// It in a word or two, by what its subject is called.
    pub fn said<'a>(&self, name_of: impl FnOnce(Subject) -> &'a str) -> Said<'a> {
        match self {
            Decision::Run(subject) => Said("", name_of(*subject)),
            Decision::Nothing => Said("", "(nothing)"),
            Decision::Past => Said("", "(a time that has passed)"),
            Decision::Gone => Said("", "(what is not ready)"),
            Decision::Foreign(subject) => Said("another policy's ", name_of(*subject)),
        }
    }
}

/// A decision in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Said<'a>(&'static str, &'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, self.1)
    }
}

/// How many of a policy's last decisions are kept: a power of two.
pub const MOST_DECISIONS: usize = 32;

/// The last decisions of a policy. A right one costs a store; wrong ones are few.
pub(crate) struct Decisions {
    /// Whose turn each was, by how many right ones came before it.
    right: [Subject; MOST_DECISIONS],
    /// The wrong ones, each with how many right ones came before it.
    wrong: Vec<(u64, Decision)>,
}

impl Decisions {
    pub const fn new() -> Decisions {
        Decisions { right: [Subject(0); MOST_DECISIONS], wrong: Vec::new() }
    }

    /// Notes a right one, before which there were so many.
    #[inline]
    pub fn note(&mut self, before: u64, subject: Subject) {
        self.right[before as usize % MOST_DECISIONS] = subject;
    }

    /// Notes a wrong one, before which there were so many right ones.
    pub fn note_wrong(&mut self, before: u64, decision: Decision) {
        self.wrong.push((before, decision));
    }

    /// The last ones, the oldest first, when there were so many right ones.
    pub fn last(&self, right: u64) -> Vec<Decision> {
        let first = right.saturating_sub(MOST_DECISIONS as u64);
        let mut all = Vec::new();
        for before in first..=right {
            let wrong = self.wrong.iter().filter(|(place, _)| *place == before);
            all.extend(wrong.map(|(_, decision)| *decision));
            if before < right {
                all.push(Decision::Run(self.right[before as usize % MOST_DECISIONS]));
            }
        }
        all.split_off(all.len().saturating_sub(MOST_DECISIONS))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn the_last_decisions_stand_in_their_order() {
        let mut decisions = Decisions::new();
        assert_eq!(decisions.last(0), []);
        let run = |number| Decision::Run(Subject(number));
        let mut all = Vec::new();
        for number in 0..100 {
            if [0, 70, 99].contains(&number) {
                decisions.note_wrong(u64::from(number), Decision::Nothing);
                all.push(Decision::Nothing);
            }
            decisions.note(u64::from(number), Subject(number));
            all.push(run(number));
            let from = all.len().saturating_sub(MOST_DECISIONS);
            assert_eq!(decisions.last(u64::from(number) + 1), all[from..], "{number}");
        }
    }

    #[test]
    fn a_decision_names_whose_it_is() {
        for (decision, said) in [
            (Decision::Run(Subject(1)), "blue"),
            (Decision::Nothing, "(nothing)"),
            (Decision::Foreign(Subject(1)), "another policy's blue"),
        ] {
            assert_eq!(
                decision.said(|it| if it == Subject(1) { "blue" } else { "" }).to_string(),
                said
            );
        }
    }
}
