//! What the protocol of names has as calls carry it, and back.

use nile_interfaces::name::records::{self, Meaning, NameAnswer, NameEntry, NameExpectation};
use nile_names::{Entry, Expect, Facts, Outcome, What};
use nile_store::Version;

use super::operations::missing;

/// What the protocol expects, as calls have it.
pub fn expectation(expect: Expect) -> NameExpectation {
    match expect {
        Expect::Absent => NameExpectation::Absent,
        Expect::Stamp(stamp) => NameExpectation::Stamp(stamp),
        Expect::Any => NameExpectation::Any,
        Expect::Making(job) => NameExpectation::Making(job),
    }
}

/// What the protocol calls it.
pub fn expect(it: NameExpectation) -> Expect {
    match it {
        NameExpectation::Absent => Expect::Absent,
        NameExpectation::Stamp(stamp) => Expect::Stamp(stamp),
        NameExpectation::Any => Expect::Any,
        NameExpectation::Making(job) => Expect::Making(job),
    }
}

/// What a keeper has accepted.
pub fn told(entry: Entry) -> NameEntry {
    NameEntry { stamp: entry.stamp, meaning: meaning(entry.what) }
}

/// What the name means, as calls have it.
pub fn meaning(what: What) -> Meaning {
    let told = |it: Facts| {
        let Facts { bytes, blocks, copies, nodes } = it;
        records::Facts { bytes, blocks, copies, nodes }
    };
    match what {
        What::Absent => Meaning::Absent,
        What::Dataset { version, facts } => Meaning::Dataset {
            epoch: version.epoch.0,
            attempt: version.attempt.0,
            facts: told(facts),
        },
        What::Making { job } => Meaning::Making { job },
        What::Output { job, parts, facts } => Meaning::Output { job, parts, facts: told(facts) },
    }
}

/// The same as the protocol has it.
pub fn entry(told: NameEntry) -> Entry {
    Entry { stamp: told.stamp, change: 0, what: what(told.meaning) }
}

/// What the name means.
pub fn what(told: Meaning) -> What {
    let known = |it: records::Facts| {
        let records::Facts { bytes, blocks, copies, nodes } = it;
        Facts { bytes, blocks, copies, nodes }
    };
    match told {
        Meaning::Absent => What::Absent,
        Meaning::Dataset { epoch, attempt, facts } => {
            What::Dataset { version: Version::new(epoch, attempt), facts: known(facts) }
        }
        Meaning::Making { job } => What::Making { job },
        Meaning::Output { job, parts, facts } => What::Output { job, parts, facts: known(facts) },
    }
}

/// How an operation ended.
pub fn answer(outcome: Outcome) -> NameAnswer {
    match outcome {
        Outcome::Done(entry) => NameAnswer::Done(told(entry)),
        Outcome::Refused(entry) => NameAnswer::Refused(told(entry)),
        Outcome::NoMajority(lack) => NameAnswer::NoMajority(missing(lack)),
        Outcome::Unknown(lack) => NameAnswer::Unknown(missing(lack)),
    }
}
