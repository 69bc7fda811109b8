//! The sending end of a channel.

use core::fmt;

use crate::cell::{self, Header, Message};
use crate::channel::{BadSize, Endpoint, Ring};
use crate::notify::{Notifier, Signal};
use crate::region::Region;
use crate::sync::Ordering::{Acquire, Relaxed};

/// The only writer of a ring's cells. It may be dropped on one core and attached on another,
/// which goes on where this one stopped.
#[derive(Debug)]
pub struct Sender {
    ring: Ring,
    to: Endpoint,
    /// Position of the next message.
    next: u32,
    /// The receiver's position when last looked at; looking costs a cache miss.
    received: u32,
}

/// Every cell holds a message that the receiver has not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the channel is full")
    }
}

impl Sender {
    /// The sending end of the ring in `region`, which is zeroed memory or was left by an earlier
    /// sender that sends no more. Messages are meant for the incarnation `to`.
    pub fn attach(region: Region, to: Endpoint) -> Result<Sender, BadSize> {
        let ring = Ring::attach(region)?;
        let mut next = ring.sender_line()[0].load(Acquire) as u32;
        // A sender that stopped between a cell and its position has published all the same.
        for _ in 0..ring.capacity() {
            if Header::load(ring.cell(next)).sequence != next.wrapping_add(1) {
                break;
            }
            next = next.wrapping_add(1);
        }
        let received = ring.receiver_line()[0].load(Acquire) as u32;
        Ok(Sender { ring, to, next, received })
    }

    /// The incarnation that messages are meant for.
    pub fn to(&self) -> Endpoint {
        self.to
    }

    /// Publishes `message` without waking anyone: for a batch, or a receiver that polls. Follow
    /// it with [`Sender::notify`] if the receiver may sleep. Never blocks.
    #[inline]
    pub fn try_send(&mut self, message: &Message) -> Result<(), Full> {
        if self.next.wrapping_sub(self.received) >= self.ring.capacity() {
            self.look_for_room()?;
        }
        cell::publish(self.ring.cell(self.next), self.next, self.to.stamp(), message);
        self.next = self.next.wrapping_add(1);
        self.ring.sender_line()[0].store(u64::from(self.next), Relaxed);
        Ok(())
    }

    /// Reads how far the receiver is. A position that no receiver can have counts as full, so a
    /// peer that lies harms its own channel alone.
    #[cold]
    fn look_for_room(&mut self) -> Result<(), Full> {
        self.received = self.ring.receiver_line()[0].load(Acquire) as u32;
        if self.next.wrapping_sub(self.received) >= self.ring.capacity() {
            return Err(Full);
        }
        Ok(())
    }

    /// Whether the receiver has taken all that was published.
    pub fn is_drained(&self) -> bool {
        self.ring.receiver_line()[0].load(Acquire) as u32 == self.next
    }

    /// How many messages were published that the receiver has not taken: when there is none any
    /// more, those that nobody will. A position that no receiver can have counts as none taken.
    pub fn untaken(&self) -> u32 {
        let taken = self.ring.receiver_line()[0].load(Acquire) as u32;
        self.next.wrapping_sub(taken).min(self.ring.capacity())
    }

    /// Wakes the receiver, in the way it needs, for what was published so far. Never blocks.
    #[inline]
    pub fn notify(&self, notifier: &Notifier, signal: &impl Signal) {
        let stamp = u64::from(self.to.id.0) << 32 | u64::from(self.next);
        notifier.notify(self.to.id, stamp, signal);
    }

    /// Publishes `message` and wakes the receiver, in the way it needs. Never blocks.
    #[inline]
    pub fn send(
        &mut self,
        message: &Message,
        notifier: &Notifier,
        signal: &impl Signal,
    ) -> Result<(), Full> {
        self.try_send(message)?;
        self.notify(notifier, signal);
        Ok(())
    }

    /// Gives the ring's memory back, for another core to attach.
    pub fn detach(self) -> Region {
        self.ring.into_region()
    }
}
