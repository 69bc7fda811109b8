//! What the protocol of names has as calls carry it, and back.

use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_interfaces::name::records::{
    NameAnswer, NameEntry, NameExpectation, expected, kind, outcome,
};
use nile_names::{Entry, Expect, Facts, Outcome, What};
use nile_store::Version;

use super::operations::numbers;

/// What the protocol expects, as calls have it.
pub fn expectation(expect: Expect) -> NameExpectation {
    let (kind, number) = match expect {
        Expect::Absent => (expected::ABSENT, 0),
        Expect::Stamp(stamp) => (expected::STAMP, stamp),
        Expect::Any => (expected::ANY, 0),
        Expect::Making(job) => (expected::MAKING, job),
    };
    NameExpectation { kind, number }
}

/// What the protocol calls it; `None` if there is no such kind.
pub fn expect(it: &NameExpectation) -> Option<Expect> {
    Some(match it.kind {
        expected::ABSENT => Expect::Absent,
        expected::STAMP => Expect::Stamp(it.number),
        expected::ANY => Expect::Any,
        expected::MAKING => Expect::Making(it.number),
        _ => return None,
    })
}

/// What a keeper has accepted.
pub fn told(entry: &Entry) -> NameEntry {
    let none = NameEntry { stamp: entry.stamp, ..NameEntry::default() };
    let facts = |it: &Facts| NameEntry {
        bytes: it.bytes,
        blocks: it.blocks,
        copies: it.copies.into(),
        nodes: it.nodes.iter().map(|node| node.0).collect(),
        ..none.clone()
    };
    match &entry.what {
        What::Absent => none,
        What::Dataset(version, about) => NameEntry {
            kind: kind::DATASET,
            epoch: version.epoch.0,
            attempt: version.attempt.0,
            ..facts(about)
        },
        What::Making { job } => NameEntry { kind: kind::MAKING, epoch: *job, ..none },
        What::Output { job, parts, facts: about } => {
            NameEntry { kind: kind::OUTPUT, epoch: *job, parts: *parts, ..facts(about) }
        }
    }
}

/// The same as the protocol has it; what is of no known kind means nothing.
pub fn entry(told: &NameEntry) -> Entry {
    let what = what(told).unwrap_or(What::Absent);
    Entry { stamp: told.stamp, change: 0, what }
}

/// What the name means; `None` if there is no such kind.
pub fn what(told: &NameEntry) -> Option<What> {
    let facts = || Facts {
        bytes: told.bytes,
        blocks: told.blocks,
        copies: u8::try_from(told.copies).unwrap_or(u8::MAX),
        nodes: told.nodes.iter().copied().map(NodeId).collect(),
    };
    Some(match told.kind {
        kind::ABSENT => What::Absent,
        kind::DATASET => What::Dataset(Version::new(told.epoch, told.attempt), facts()),
        kind::MAKING => What::Making { job: told.epoch },
        kind::OUTPUT => What::Output { job: told.epoch, parts: told.parts, facts: facts() },
        _ => return None,
    })
}

/// How an operation ended.
pub fn answer(outcome: &Outcome) -> NameAnswer {
    let answer =
        |outcome, entry: &Entry| NameAnswer { outcome, entry: told(entry), missing: Vec::new() };
    let lacking = |outcome, missing: &[u32]| NameAnswer {
        outcome,
        entry: NameEntry::default(),
        missing: missing.into(),
    };
    match outcome {
        Outcome::Done(entry) => answer(outcome::DONE, entry),
        Outcome::Refused(entry) => answer(outcome::REFUSED, entry),
        Outcome::NoMajority(lack) => lacking(outcome::NO_MAJORITY, &numbers(lack)),
        Outcome::Unknown(lack) => lacking(outcome::UNKNOWN, &numbers(lack)),
    }
}
