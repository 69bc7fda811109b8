//! What happens when nothing comes: something is said again, or a transfer ends.

use alloc::vec::Vec;

use nile_abi::Instant;
use rand_xoshiro::rand_core::Rng;

use super::Endpoint;
use crate::event::{IncomingId, OutgoingId, Transfer, Why};

impl Endpoint {
    /// When [`Endpoint::on_time`] or [`Endpoint::transmit`] has something to do although nothing
    /// came and nothing was asked for; not after that, and perhaps a little before.
    pub fn next_due(&self) -> Option<Instant> {
        [self.due, self.grant_due].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Instant) {
        if self.due.is_none_or(|due| due > now) {
            return;
        }
        self.due = None;
        let mut over: Vec<Transfer> = Vec::new();
        let mut say: Vec<Transfer> = Vec::new();
        for (number, outgoing) in self.outgoing.iter_mut() {
            let transfer = Transfer::Out(OutgoingId(*number));
            let ends = outgoing.heard + self.settings.idle;
            if ends <= now {
                over.push(transfer);
                continue;
            }
            if outgoing.due <= now {
                outgoing.expire(now, self.random.next_u32());
                say.push(transfer);
            }
            let next = outgoing.due.min(ends);
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
        }
        for (id, incoming) in self.incoming.iter_mut() {
            let ends = incoming.heard + self.settings.idle;
            if ends <= now {
                over.push(Transfer::In(*id));
                continue;
            }
            if incoming.expires() <= now {
                let before = incoming.on_the_way();
                incoming.expire(now);
                self.pace.account(before, incoming.on_the_way());
                say.push(Transfer::In(*id));
            }
            let next = incoming.expires().min(ends);
            self.due = Some(self.due.map_or(next, |due| due.min(next)));
        }
        over.into_iter().for_each(|transfer| self.fail(transfer, Why::Timeout, None));
        for transfer in say {
            match transfer {
                Transfer::Out(id) => self.ask(id),
                Transfer::In(id) => self.remind(id),
            }
        }
    }

    /// Has the receiver say something: by a block that it may have, else by an announcement.
    fn ask(&mut self, id: OutgoingId) {
        let asks = self.outgoing.get(&id.0).is_some_and(|outgoing| !outgoing.can_send());
        self.goes_on(id.0, asks);
    }

    fn remind(&mut self, id: IncomingId) {
        self.want(id);
        self.say(id);
    }
}
