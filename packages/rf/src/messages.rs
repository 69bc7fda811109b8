//! Messages of a cache line, to one member, some, or all (RainForest 5.2: FICM).

use alloc::vec::Vec;

use nile_abi::Instant;
use nile_abi::call::System;
use nile_rfcom::{CELLS, Post};
use nile_ring::Message;
use nile_user::{Runtime, log};

use crate::{Act, OTHER, wait};

/// Kinds of messages: a text; a member that takes numbers, and one that takes nothing; a number.
pub const TEXT: u8 = 0;
const TAKES: u8 = 1;
const IS_DEAF: u8 = 2;
const NUMBER: u8 = 3;

/// A member's messages, and what it waits by.
pub struct Member<'a, 's> {
    pub system: &'s dyn System,
    pub runtime: &'a Runtime<'s>,
    pub post: Post,
}

impl Member<'_, '_> {
    /// Does what is to be done with messages; the exit code. `None` if that is nothing.
    pub fn act(&mut self, act: Act) -> Option<u64> {
        let done = match act {
            Act::Say(message) => {
                // It has room for whoever comes, so nobody knows who is there.
                let missed = self.post.broadcast(&message).len();
                let _ = log!(self.system, "said to all others, of whom {missed} had no room");
                Ok(())
            }
            Act::Hear { messages, text } => self.hear(messages, text),
            Act::Drain { messages } => self.drain(messages),
            Act::Deaf => {
                self.post.broadcast(&short(IS_DEAF, 0));
                loop {
                    self.runtime.sleep_until(Instant::from_nanos(u64::MAX));
                }
            }
            Act::Flood { messages, members } => self.flood(messages, members),
            _ => return None,
        };
        Some(done.err().unwrap_or_default())
    }

    fn wait<T>(&mut self, mut look: impl FnMut(&mut Post) -> Option<T>) -> Result<T, u64> {
        wait(self.system, self.runtime, || look(&mut self.post))
    }

    /// The next message of these kinds, and whose it is.
    fn next(&mut self, kinds: &[u8]) -> Result<(usize, Message), u64> {
        self.wait(|post| post.receive().filter(|(_, message)| kinds.contains(&message.kind())))
    }

    fn hear(&mut self, messages: u64, wanted: Option<Message>) -> Result<(), u64> {
        for _ in 0..messages {
            let (from, message) = self.next(&[TEXT])?;
            let text = core::str::from_utf8(message.payload()).unwrap_or("no text");
            let _ = log!(self.system, "member {from} says: {text}");
            if wanted.is_some_and(|wanted| wanted.payload() != message.payload()) {
                return Err(OTHER);
            }
        }
        Ok(())
    }

    /// Takes numbers: each has to come, once and in its order.
    fn drain(&mut self, messages: u64) -> Result<(), u64> {
        self.post.broadcast(&short(TAKES, 0));
        for number in 0..messages {
            let (from, message) = self.next(&[NUMBER])?;
            if message.payload() != number.to_le_bytes() {
                let _ = log!(self.system, "member {from} sends {message:?}, and not {number}");
                return Err(OTHER);
            }
        }
        let _ = log!(self.system, "{messages} messages came in their order");
        Ok(())
    }

    /// Sends numbers to so many members as fast as they take them. One that takes nothing gets as
    /// many as there is room for, and keeps nobody waiting.
    fn flood(&mut self, messages: u64, members: usize) -> Result<(), u64> {
        let (mut all, mut deaf) = (Vec::new(), Vec::new());
        while all.len() + deaf.len() < members {
            let (from, message) = self.next(&[TAKES, IS_DEAF])?;
            let group = if message.kind() == TAKES { &mut all } else { &mut deaf };
            if !group.contains(&from) {
                group.push(from);
            }
        }
        let mut lost = 0;
        for number in 0..messages {
            let message = short(NUMBER, number);
            lost += self.post.multicast(deaf.iter().copied(), &message).len() as u64;
            let mut left = all.clone();
            self.wait(|post| {
                let full = post.multicast(left.drain(..), &message);
                left = full.into_iter().map(|(member, _)| member).collect();
                left.is_empty().then_some(())
            })?;
        }
        let _ = log!(self.system, "{messages} messages to {members} members, {lost} had no room");
        let missed = messages.saturating_sub(CELLS as u64) * deaf.len() as u64;
        if lost == missed { Ok(()) } else { Err(OTHER) }
    }
}

fn short(kind: u8, number: u64) -> Message {
    Message::new(kind, &number.to_le_bytes()).expect("a number fits a cell")
}
