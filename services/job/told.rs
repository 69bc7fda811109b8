//! A job's phases, attempts and claim, as calls carry them.

use nile_interfaces::job::records::{AttemptKind, AttemptOutcome, JobPhase, JobPolicy};
use nile_job::{Kind, Outcome, Phase, Share};

pub(super) fn phase(of: Phase) -> JobPhase {
    match of {
        Phase::Inheriting => JobPhase::Inheriting,
        Phase::Sampling => JobPhase::Sampling,
        Phase::Mapping => JobPhase::Mapping,
        Phase::Reducing => JobPhase::Reducing,
        Phase::Ending => JobPhase::Ending,
        Phase::Over => JobPhase::Over,
    }
}

pub(super) fn kind(of: Kind) -> AttemptKind {
    match of {
        Kind::Sample => AttemptKind::Sample,
        Kind::Map => AttemptKind::Map,
        Kind::Reduce => AttemptKind::Reduce,
    }
}

/// None: the attempt is not over.
pub(super) fn outcome(of: Option<Outcome>) -> AttemptOutcome {
    match of {
        None => AttemptOutcome::Open,
        Some(Outcome::Done) => AttemptOutcome::Done,
        Some(Outcome::Failed) => AttemptOutcome::Failed,
        Some(Outcome::Stopped) => AttemptOutcome::Stopped,
        Some(Outcome::Lost) => AttemptOutcome::Lost,
    }
}

pub(super) fn policy(of: Share) -> JobPolicy {
    match of {
        Share::Fair { weight } => JobPolicy::Fair { weight },
        Share::EarliestDeadline { deadline_ms } => JobPolicy::EarliestDeadline { deadline_ms },
        Share::Fifo => JobPolicy::Fifo,
    }
}

pub(super) fn share(of: JobPolicy) -> Share {
    match of {
        JobPolicy::Fair { weight } => Share::Fair { weight },
        JobPolicy::EarliestDeadline { deadline_ms } => Share::EarliestDeadline { deadline_ms },
        JobPolicy::Fifo => Share::Fifo,
    }
}
