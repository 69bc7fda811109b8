//! What a scheduler gives: turns, and what they are of.

use core::time::Duration;

use nile_abi::Instant;

use crate::{ClassId, Subject, Token};

/// A turn that was given, to be handed back when it is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    pub(crate) token: Token,
    pub(crate) class: ClassId,
    /// Whose turn it is.
    pub subject: Subject,
}

impl Turn {
    /// By whose answer, or in place of whose, it was given.
    pub fn class(&self) -> ClassId {
        self.class
    }
}

/// What runs next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picked<T> {
    /// What was ready.
    pub task: T,
    /// What is handed back when it has run.
    pub turn: Turn,
    /// How long it may run while others wait, where turns can be ended.
    pub slice: Duration,
}

/// What is to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next<T> {
    /// This runs.
    Run(Picked<T>),
    /// Nothing may run before then, unless something else becomes ready.
    Wait(Instant),
    /// Nothing is ready.
    Nothing,
}

/// What asking a class has given.
pub(crate) enum Asked {
    Run(Token, Duration),
    Wait(Instant),
}
