//! The receiving end of a channel.

use core::fmt;

use crate::cell::{self, Header, Message};
use crate::channel::{BadSize, Endpoint, Ring};
use crate::region::Region;
use crate::sync::Ordering::{Acquire, Release};

/// The only reader of a ring's cells. It may be dropped on one core and attached on another,
/// which goes on where this one stopped.
#[derive(Debug)]
pub struct Receiver {
    ring: Ring,
    own: Endpoint,
    /// Position of the next message.
    next: u32,
}

/// A cell came that is no message for this receiver. It is consumed; the next call goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveError {
    /// The cell names a length that no cell holds.
    Corrupt,
    /// The message was meant for another incarnation of this receiver: answer it
    /// [`Dead`](nile_abi::Status::Dead), never act on it.
    Stale(Message),
}

impl fmt::Display for ReceiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReceiveError::Corrupt => "the cell's length is impossible",
            ReceiveError::Stale(_) => "the message was meant for another incarnation",
        })
    }
}

impl Receiver {
    /// The receiving end of the ring in `region`, which is zeroed memory or was left by an
    /// earlier receiver that receives no more. Only messages for the incarnation `own` are
    /// delivered.
    pub fn attach(region: Region, own: Endpoint) -> Result<Receiver, BadSize> {
        let ring = Ring::attach(region)?;
        let next = ring.receiver_line()[0].load(Acquire) as u32;
        Ok(Receiver { ring, own, next })
    }

    /// Which incarnation this is.
    pub fn own(&self) -> Endpoint {
        self.own
    }

    /// Whether a cell waits to be received: one load of a line that stays in this core's cache
    /// until a message changes it.
    #[inline]
    pub fn is_ready(&self) -> bool {
        let header = Header::load(self.ring.cell(self.next));
        header.sequence == self.next.wrapping_add(1)
    }

    /// Takes the next message, if there is one. Never blocks.
    #[inline]
    pub fn try_recv(&mut self) -> Result<Option<Message>, ReceiveError> {
        let cell = self.ring.cell(self.next);
        let header = Header::load(cell);
        if header.sequence != self.next.wrapping_add(1) {
            return Ok(None);
        }
        let message = cell::read(cell, header);
        self.next = self.next.wrapping_add(1);
        // Release: the cell may be written again only after it has been read.
        self.ring.receiver_line()[0].store(u64::from(self.next), Release);
        match message {
            None => Err(ReceiveError::Corrupt),
            Some(message) if header.generation != self.own.stamp() => {
                Err(ReceiveError::Stale(message))
            }
            Some(message) => Ok(Some(message)),
        }
    }

    /// Gives the ring's memory back, for another core to attach.
    pub fn detach(self) -> Region {
        self.ring.into_region()
    }
}
