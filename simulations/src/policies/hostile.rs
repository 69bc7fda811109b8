//! Policies that do wrong, each in its own manner. They know nothing of each other, nor of the
//! mechanism.

use std::time::Duration;

use nile_abi::Instant;
use nile_policy::{Answer, Ready, Scheduling, Token};

/// What a policy does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// It never answers.
    Silent,
    /// It answers tokens that it has had before, and nothing else.
    Liar,
    /// It answers each token twice.
    Twin,
    /// It forgets every other token.
    Forgetful,
    /// It keeps, and answers, what was taken from it.
    Thief,
    /// It has its subjects wait for ever.
    Hoarder,
    /// It has them wait until a moment that is past.
    Belated,
    /// It gives slices of no time and of all time.
    Slicer,
    /// It answers the youngest, so that what is old starves.
    Unjust,
}

impl Manner {
    pub const ALL: [Manner; 9] = [
        Manner::Silent,
        Manner::Liar,
        Manner::Twin,
        Manner::Forgetful,
        Manner::Thief,
        Manner::Hoarder,
        Manner::Belated,
        Manner::Slicer,
        Manner::Unjust,
    ];

    /// Whether it must be expelled, once it was asked three times while it had something.
    pub fn is_wrong(self) -> bool {
        matches!(self, Manner::Silent | Manner::Liar | Manner::Belated)
    }
}

/// A policy that does wrong.
pub struct Hostile {
    manner: Manner,
    held: Vec<Token>,
    last: Option<Token>,
    asked: u64,
}

impl Hostile {
    pub fn new(manner: Manner) -> Hostile {
        Hostile { manner, held: Vec::new(), last: None, asked: 0 }
    }
}

impl Scheduling for Hostile {
    fn enqueue(&mut self, it: &Ready) {
        self.asked += 1;
        if self.manner != Manner::Forgetful || self.asked.is_multiple_of(2) {
            self.held.push(it.token);
        }
    }

    fn dequeue(&mut self, it: &Ready) {
        if self.manner != Manner::Thief {
            self.held.retain(|token| *token != it.token);
        }
        self.last = Some(it.token);
    }

    fn next(&mut self, now: Instant) -> Option<Answer> {
        self.asked += 1;
        let mut oldest = || (!self.held.is_empty()).then(|| self.held.remove(0));
        let run = |token: Token| Answer::Run(token, None);
        match self.manner {
            Manner::Silent => None,
            Manner::Liar => self.last.map(run),
            Manner::Twin => {
                let token = self.last.take().or_else(|| {
                    self.last = oldest();
                    self.last
                });
                token.map(run)
            }
            Manner::Forgetful | Manner::Thief => oldest().map(run),
            Manner::Hoarder => Some(Answer::Wait(now + Duration::from_secs(3_600))),
            Manner::Belated => Some(Answer::Wait(Instant::START)),
            Manner::Slicer => {
                let slice =
                    if self.asked.is_multiple_of(2) { Duration::ZERO } else { Duration::MAX };
                oldest().map(|token| Answer::Run(token, Some(slice)))
            }
            Manner::Unjust => self.held.pop().map(run),
        }
    }
}
