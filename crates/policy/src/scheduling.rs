//! What a scheduling policy is: it is told what becomes ready, and says which of that runs next.

use core::time::Duration;

use nile_abi::Instant;

use crate::{Parameter, Parameters, Refusal};

/// Whom a policy serves: a service on a core, a package, a job. Whoever schedules numbers them,
/// densely, from zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Subject(pub u32);

/// Something that is ready, once: the mechanism alone makes these, and one that was answered
/// before, or that another policy has, is worth nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// What a policy is told of something that is ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ready {
    /// By what the policy names it.
    pub token: Token,
    /// Whose it is.
    pub subject: Subject,
    /// Since when it has been ready.
    pub since: Instant,
}

/// A policy's answer to the question what runs next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// This runs, until it waits or, where turns can be ended, for so long at most.
    Run(Token, Option<Duration>),
    /// Nothing of what the policy has may run before then.
    Wait(Instant),
}

/// Why a turn ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It waits for something.
    Waits,
    /// It is ready again.
    Yields,
    /// Its slice was over; it is ready again.
    Preempted,
    /// It has ended.
    Ended,
}

/// A turn that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ran {
    /// What ran; not a token that could be answered any more.
    pub token: Token,
    /// Whose turn it was.
    pub subject: Subject,
    /// When it was over.
    pub end: Instant,
    /// How long it took.
    pub span: Duration,
    /// Why it ended.
    pub why: Stop,
}

/// A scheduling policy: one object for each that schedules, as for each core. It never waits, and
/// it holds nothing but tokens; what they stand for is the mechanism's.
pub trait Scheduling {
    /// The parameters that a subject may give when it is bound; others are refused before the
    /// policy is asked.
    fn parameters(&self) -> &'static [Parameter] {
        &[]
    }

    /// Whether what has been ready longest runs next, whosever it is. Then it is not asked: the
    /// mechanism knows.
    fn is_by_age(&self) -> bool {
        false
    }

    /// Whether its subjects never have more than they were promised, which leaves room for others:
    /// then what waits for its reserve waits behind them. The mechanism looks whether that is so.
    fn is_bounded(&self) -> bool {
        false
    }

    /// Whether a subject that alone has something ready goes on, turn after turn in the order of
    /// age, without a question for each: they count as one turn.
    fn goes_on(&self) -> bool {
        false
    }

    /// Takes a subject, or changes the parameters of one that it has. A refusal changes nothing.
    fn admit(
        &mut self,
        subject: Subject,
        parameters: &Parameters,
        now: Instant,
    ) -> Result<(), Refusal> {
        let _ = (subject, parameters, now);
        Ok(())
    }

    /// A subject is bound elsewhere, or gone. All it had was dequeued before.
    fn leave(&mut self, subject: Subject) {
        let _ = subject;
    }

    /// Something of a subject that was admitted is ready.
    fn enqueue(&mut self, it: &Ready);

    /// That is not the policy's any more.
    fn dequeue(&mut self, it: &Ready);

    /// What runs next, which is the policy's no more; `None` only if it has nothing.
    fn next(&mut self, now: Instant) -> Option<Answer>;

    /// A turn that the policy gave, or that the mechanism gave in its place, is over.
    fn ran(&mut self, it: &Ran) {
        let _ = it;
    }
}
