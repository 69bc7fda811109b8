//! What the protocol of names has as calls carry it, and back.

use alloc::vec::Vec;

use nile_abi::NodeId;
use nile_interfaces::name::records::{
    Expected, NameAnswer, NameEntry, NameExpectation, NameKind, NameOutcome,
};
use nile_names::{Entry, Expect, Facts, Outcome, What};
use nile_store::Version;

use super::operations::numbers;

/// What the protocol expects, as calls have it.
pub fn expectation(expect: Expect) -> NameExpectation {
    let (kind, number) = match expect {
        Expect::Absent => (Expected::Absent, 0),
        Expect::Stamp(stamp) => (Expected::Stamp, stamp),
        Expect::Any => (Expected::Any, 0),
        Expect::Making(job) => (Expected::Making, job),
    };
    NameExpectation { kind, number }
}

/// What the protocol calls it.
pub fn expect(it: &NameExpectation) -> Expect {
    match it.kind {
        Expected::Absent => Expect::Absent,
        Expected::Stamp => Expect::Stamp(it.number),
        Expected::Any => Expect::Any,
        Expected::Making => Expect::Making(it.number),
    }
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
            kind: NameKind::Dataset,
            epoch: version.epoch.0,
            attempt: version.attempt.0,
            ..facts(about)
        },
        What::Making { job } => NameEntry { kind: NameKind::Making, epoch: *job, ..none },
        What::Output { job, parts, facts: about } => {
            NameEntry { kind: NameKind::Output, epoch: *job, parts: *parts, ..facts(about) }
        }
    }
}

/// The same as the protocol has it.
pub fn entry(told: &NameEntry) -> Entry {
    Entry { stamp: told.stamp, change: 0, what: what(told) }
}

/// What the name means.
pub fn what(told: &NameEntry) -> What {
    let facts = || Facts {
        bytes: told.bytes,
        blocks: told.blocks,
        copies: u8::try_from(told.copies).unwrap_or(u8::MAX),
        nodes: told.nodes.iter().copied().map(NodeId).collect(),
    };
    match told.kind {
        NameKind::Absent => What::Absent,
        NameKind::Dataset => What::Dataset(Version::new(told.epoch, told.attempt), facts()),
        NameKind::Making => What::Making { job: told.epoch },
        NameKind::Output => What::Output { job: told.epoch, parts: told.parts, facts: facts() },
    }
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
        Outcome::Done(entry) => answer(NameOutcome::Done, entry),
        Outcome::Refused(entry) => answer(NameOutcome::Refused, entry),
        Outcome::NoMajority(lack) => lacking(NameOutcome::NoMajority, &numbers(lack)),
        Outcome::Unknown(lack) => lacking(NameOutcome::Unknown, &numbers(lack)),
    }
}
