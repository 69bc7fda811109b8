//! Two nodes that have one number. Each learns of the other by its start broadcast, and one of them
//! gives up: the one that has been there for less time, as told in the broadcast, or else, of two
//! that began together, the one of the earlier generation. Whoever keeps the number begins anew
//! with a higher generation, and so tells the other.
//!
//! A former life of this node is none: its generation is lower, and it does not answer.

use nile_abi::{Generation, Instant};

use crate::event::Event;
use crate::gossip::{Gossip, Starting};
use crate::wire::{AGE, OLDEST, Row, START};

impl Gossip {
    /// Whether a broadcast that claims this node's number is another life's start.
    pub(crate) fn is_namesake(&self, sender: &Row, flags: u8) -> bool {
        let own = &self.own;
        let is_own_number = sender.node == own.node && sender.generation != 0 && sender.live;
        is_own_number && flags & START != 0 && sender.nonce != own.nonce && !self.settings.observer
    }

    pub(crate) fn on_namesake(&mut self, now: Instant, sender: &Row, flags: u8) {
        let own = &self.own;
        let generation = Generation(sender.generation);
        if sender.generation < own.generation {
            // If it lives, it learns from this who was first; once in a round, as anybody may
            // have kept the frame.
            if self.announced != Some(self.round) {
                self.announced = Some(self.round);
                let wait = self.settings.period;
                self.starting.get_or_insert(Starting { at: now, wait });
            }
            return;
        }
        let theirs = (flags >> AGE, sender.generation, sender.nonce);
        let keeps = theirs > (self.age(now), own.generation, own.nonce);
        self.events.push_back(Event::Namesake { generation, keeps });
        match keeps {
            true => (self.starting, self.round_at) = (None, None),
            false => self.warn(sender.generation),
        }
    }

    /// How long this node has been there, as start broadcasts say it.
    pub(crate) fn age(&self, now: Instant) -> u8 {
        let rounds = now.since(self.settings.born).as_nanos() / self.settings.period.as_nanos();
        (u128::BITS - rounds.leading_zeros()).min(OLDEST) as u8
    }
}
