//! What one end of a session says to the other: items that arrive once and in order, however
//! messages are lost, doubled and reordered. Every message has all that is not acknowledged, up to
//! some bytes, so that a lost one needs no repair of its own.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;

/// Bytes of items after which a message takes no more. Messages have at most 64 KiB.
const MOST_BYTES: usize = 24 << 10;

/// Items of a message.
pub(crate) const MOST_ITEMS: usize = 64;

/// Times the wait for an answer is doubled.
const MOST_DOUBLINGS: u32 = 4;

/// What a lane carries.
pub trait Item: Clone {
    /// About how many bytes it has in a message.
    fn weight(&self) -> usize;
}

/// What a message has of a lane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Batch<T> {
    /// The number of the first item.
    pub first: u64,
    /// The items.
    pub items: Vec<T>,
    /// How many items of the other direction have been taken.
    pub taken: u64,
}

/// One end: what is to be said, and how much was heard.
#[derive(Debug)]
pub struct Lane<T> {
    first: u64,
    items: VecDeque<T>,
    /// How many of `items` have been sent at least once.
    sent: usize,
    taken: u64,
    /// When everything is sent again.
    again: Option<Instant>,
    doublings: u32,
    /// Whether the other end waits for an answer.
    owes: bool,
}

impl<T> Default for Lane<T> {
    fn default() -> Lane<T> {
        Lane {
            first: 0,
            items: VecDeque::new(),
            sent: 0,
            taken: 0,
            again: None,
            doublings: 0,
            owes: false,
        }
    }
}

impl<T: Item> Lane<T> {
    /// Puts an item behind the others.
    pub fn push(&mut self, item: T) {
        self.items.push_back(item);
    }

    /// Whether all that was said has been heard.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Says something even if there is nothing to say.
    pub fn answer(&mut self) {
        self.owes = true;
    }

    /// Takes what a message of the other end says: gives the items that are new, in order.
    pub fn receive<R>(&mut self, batch: Batch<R>) -> Vec<R> {
        // Nobody can have taken what was not sent.
        let taken = batch.taken.min(self.first + self.sent as u64);
        while self.first < taken {
            self.items.pop_front();
            (self.first, self.sent, self.doublings) = (self.first + 1, self.sent - 1, 0);
        }
        if self.sent == 0 {
            self.again = None;
        }
        self.owes |= !batch.items.is_empty();
        let Some(known) = self.taken.checked_sub(batch.first) else { return Vec::new() };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        let new: Vec<R> = batch.items.into_iter().skip(known).collect();
        self.taken += new.len() as u64;
        new
    }

    /// When there is something to say again.
    pub fn due(&self) -> Option<Instant> {
        self.again
    }

    /// What is to be said now, if anything.
    pub fn fill(&mut self, now: Instant, patience: Duration) -> Option<Batch<T>> {
        let is_late = self.again.is_some_and(|again| again <= now);
        let has_room = self.sent < MOST_ITEMS && self.sent < self.items.len();
        // What does not fit waits for an answer, as there is one on its way.
        let is_news = has_room && self.sent_bytes() < MOST_BYTES;
        if !(is_late || is_news || self.owes) {
            return None;
        }
        if is_late {
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
        }
        self.owes = false;
        let mut bytes = 0;
        let mut fits = |item: &&T| {
            let fits = bytes < MOST_BYTES;
            bytes += item.weight();
            fits
        };
        let items: Vec<T> =
            self.items.iter().take(MOST_ITEMS).take_while(|item| fits(item)).cloned().collect();
        self.sent = self.sent.max(items.len());
        if is_late || (!items.is_empty() && self.again.is_none()) {
            self.again = Some(now + patience * (1 << self.doublings));
        }
        Some(Batch { first: self.first, items, taken: self.taken })
    }

    fn sent_bytes(&self) -> usize {
        self.items.iter().take(self.sent).map(Item::weight).sum()
    }
}
