//! Messages of a cache line between members: to one, to some, to all (RainForest 5.2, *FICM*).
//! Between each two members there is a ring each way, so no member writes what another one does,
//! and one that takes nothing keeps only its own senders waiting.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::{EndpointId, Generation};
use nile_ring::{Endpoint, Message, Receiver, Region, Sender, channel};

/// Messages that one member may have sent another that has taken none.
pub const CELLS: usize = 32;

/// Lives of members are not told apart: what was sent to the one before, the next one receives.
const ANY: Endpoint = Endpoint { id: EndpointId(0), generation: Generation(0) };

/// Why a message was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotSent {
    /// There is no such member, or it is the sender.
    Nobody,
    /// It has as many that it has not taken.
    Full,
}

impl fmt::Display for NotSent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotSent::Nobody => f.write_str("there is no such member"),
            NotSent::Full => write!(f, "the member has {CELLS} messages that it has not taken"),
        }
    }
}

impl core::error::Error for NotSent {}

/// One member's end of the rings to and from all others.
#[derive(Debug)]
pub struct Post {
    own: usize,
    out: Vec<Sender>,
    incoming: Vec<Receiver>,
    /// Whose messages are looked for first, and who has spoken last.
    first: usize,
    last: usize,
}

impl Post {
    /// Bytes of the region for so many members.
    pub const fn region_len(members: usize) -> usize {
        members * members * channel::region_len(CELLS)
    }

    /// The end of the member `own` of so many, in a region of zeros, or one that they have already.
    /// An earlier life of this member uses it no more. `None` if there is no such member, or no
    /// room for all.
    pub fn attach(region: &Region, members: usize, own: usize) -> Option<Post> {
        if own >= members || region.len() < Post::region_len(members) {
            return None;
        }
        let ring = |from: usize, to: usize| {
            let bytes = channel::region_len(CELLS);
            region.slice((from * members + to) * bytes, bytes)
        };
        let out = (0..members).map(|to| Sender::attach(ring(own, to)?, ANY).ok());
        let incoming = (0..members).map(|from| Receiver::attach(ring(from, own)?, ANY).ok());
        Some(Post {
            own,
            out: out.collect::<Option<_>>()?,
            incoming: incoming.collect::<Option<_>>()?,
            first: 0,
            last: own,
        })
    }

    /// Which member this is.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Sends a message to one member.
    #[inline]
    pub fn send(&mut self, to: usize, message: &Message) -> Result<(), NotSent> {
        let own = self.own;
        let ring = self.out.get_mut(to).filter(|_| to != own).ok_or(NotSent::Nobody)?;
        ring.try_send(message).map_err(|_| NotSent::Full)
    }

    /// Sends it to some; those that it was not sent to.
    pub fn multicast(
        &mut self,
        to: impl IntoIterator<Item = usize>,
        message: &Message,
    ) -> Vec<(usize, NotSent)> {
        let sent = to.into_iter().map(|to| (to, self.send(to, message)));
        sent.filter_map(|(to, sent)| Some((to, sent.err()?))).collect()
    }

    /// Sends it to all others; those that had no room for it.
    pub fn broadcast(&mut self, message: &Message) -> Vec<(usize, NotSent)> {
        let own = self.own;
        self.multicast((0..self.out.len()).filter(|to| *to != own), message)
    }

    /// The next message, and whose it is. Those of one member come in their order.
    ///
    /// All members are looked at in turn. Who has spoken last is the likeliest to speak next, and
    /// between any two others it is looked at again: so who waits for an answer does not wait until
    /// all others were looked at, too.
    #[inline]
    pub fn receive(&mut self) -> Option<(usize, Message)> {
        let count = self.incoming.len();
        for from in (self.first..count).chain(0..self.first) {
            for from in [from, self.last] {
                if let Some(message) = self.take(from) {
                    // It is the next one's turn, whoever has spoken: nobody's wait for ever.
                    self.first = (self.first + 1) % count;
                    self.last = from;
                    return Some((from, message));
                }
            }
        }
        None
    }

    /// The next message of a member. What is no message is passed over.
    #[inline]
    fn take(&mut self, from: usize) -> Option<Message> {
        self.incoming[from].try_recv().ok().flatten().filter(|_| from != self.own)
    }
}
