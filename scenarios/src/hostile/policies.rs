//! Scheduling policies that do wrong, each in a way of its own.

use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::Instant;
use nile_policy::{Answer, Manager, Parameters, Ready, Refusal, Scheduling, Token};

/// What a policy does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// Answers nothing.
    Silent,
    /// Answers what has had its turn.
    Liar,
    /// Answers everything twice.
    Twin,
    /// Forgets every other token that it is given.
    Forgetful,
    /// Answers what was taken from it.
    Thief,
    /// Has its subjects wait for an hour, again and again.
    Hoarder,
    /// Binds itself and others while it decides.
    Flapper,
    /// Takes memory with each decision.
    Glutton,
    /// Gives slices without end.
    Eternal,
    /// Gives slices of no time.
    Zero,
    /// Panics.
    Panicker,
    /// Does not return.
    Looper,
}

/// The most that a glutton takes, and with each decision.
const MOST_PIECES: usize = 32;
const PIECE: usize = 64 << 10;

/// A policy that does wrong.
pub struct Hostile {
    pub how: How,
    /// What a looper does.
    pub loops: fn(),
    pub manager: Rc<dyn Manager>,
    /// Whether anybody was bound by a policy that decides.
    pub has_bound: Rc<Cell<bool>>,
    pub given: Vec<Token>,
    pub kept: Option<Token>,
    pub pieces: Vec<Vec<u8>>,
    pub count: u32,
}

impl Hostile {
    fn bind(&self) {
        for subject in ["red", "blue"] {
            let bound = self.manager.bind(subject, "fair", &Parameters::none());
            let unbound = self.manager.unbind(subject);
            if bound != Err(Refusal::Deciding) || unbound {
                self.has_bound.set(true);
            }
        }
    }

    /// What a policy answers that does right.
    fn oldest(&mut self, slice: Option<Duration>) -> Option<Answer> {
        (!self.given.is_empty()).then(|| Answer::Run(self.given.remove(0), slice))
    }
}

impl Scheduling for Hostile {
    fn enqueue(&mut self, it: &Ready) {
        self.count += 1;
        match self.how {
            How::Liar => drop(self.kept.get_or_insert(it.token)),
            How::Forgetful if self.count.is_multiple_of(2) => {}
            _ => self.given.push(it.token),
        }
    }

    fn dequeue(&mut self, it: &Ready) {
        self.given.retain(|token| *token != it.token);
        if self.how == How::Thief {
            self.kept = Some(it.token);
        }
    }

    fn next(&mut self, now: Instant) -> Option<Answer> {
        match self.how {
            How::Silent => None,
            How::Liar => self.kept.map(|token| Answer::Run(token, None)),
            How::Thief if self.kept.is_some() => self.kept.map(|token| Answer::Run(token, None)),
            How::Twin => match self.kept.take() {
                Some(token) => Some(Answer::Run(token, None)),
                None => {
                    self.kept = self.given.first().copied();
                    self.oldest(None)
                }
            },
            How::Hoarder => Some(Answer::Wait(now + Duration::from_secs(3_600))),
            How::Flapper => {
                self.bind();
                self.oldest(None)
            }
            How::Glutton => {
                if self.pieces.len() < MOST_PIECES {
                    self.pieces.push(vec![1; PIECE]);
                }
                self.oldest(None)
            }
            How::Eternal => self.oldest(Some(Duration::MAX)),
            How::Zero => self.oldest(Some(Duration::ZERO)),
            How::Panicker => panic!("on purpose"),
            How::Looper => {
                (self.loops)();
                None
            }
            How::Forgetful | How::Thief => self.oldest(None),
        }
    }
}
