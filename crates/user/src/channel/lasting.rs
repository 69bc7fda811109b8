//! Ends of channels that stay when their peer ends and begins anew.
//!
//! The peer of a lasting end has a *generation*, from 1 on. When it ends, the end is told once that
//! it is down, and which generation it was; when the next one is there, the end is up again, with
//! the next generation. Each generation has a ring of its own, of zeroed memory: so nothing that
//! was meant for one comes to the next one by itself.
//!
//! *Nothing is delivered twice, and nothing is lost that nobody took.* A receiver's position is
//! published before the message is given to it. A sender is told with the peer's end how many of
//! its messages that had not taken: the last ones that it sent. Those it may send again, and no
//! others. What a receiver took and did not come to do is its own: it may keep that
//! ([`Runtime::keep`]). A receiver gets what is left in the ring before it is told of the end.
//!
//! One package opens lasting channels to a tag, and one accepts them.

use core::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::{CoreId, Instant, Status};
use nile_ring::Message;

use super::{ChannelReceiver, ChannelSender};
use crate::threads::Runtime;

/// How long who waits for a peer does so before it looks again.
const LOOK: Duration = Duration::from_micros(100);

/// The peer of a lasting end has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Down {
    /// Which of its incarnations that was, from 1 on; 0 if there was none yet.
    pub generation: u32,
    /// How many messages it was sent and has not taken.
    pub untaken: u32,
}

/// A sending end whose peer may begin anew.
pub struct LastingSender<'s> {
    runtime: Runtime<'s>,
    to: CoreId,
    tag: u32,
    cells: u32,
    generation: u32,
    end: Option<ChannelSender<'s>>,
}

/// A receiving end whose peer may begin anew.
pub struct LastingReceiver<'s> {
    runtime: Runtime<'s>,
    tag: u32,
    generation: u32,
    end: Option<ChannelReceiver<'s>>,
}

impl<'s> Runtime<'s> {
    /// The sending end of a channel to whichever package accepts `tag` on core `to`, with room for
    /// `cells` messages, a power of two up to 16384. It has no peer before
    /// [`LastingSender::up`].
    pub fn lasting_sender(&self, to: CoreId, tag: u32, cells: u32) -> LastingSender<'s> {
        LastingSender { runtime: self.clone(), to, tag, cells, generation: 0, end: None }
    }

    /// The receiving end of a channel that another package opens to `tag` on this core. It has no
    /// peer before [`LastingReceiver::up`].
    pub fn lasting_receiver(&self, tag: u32) -> LastingReceiver<'s> {
        LastingReceiver { runtime: self.clone(), tag, generation: 0, end: None }
    }

    fn now(&self) -> Result<Instant, Status> {
        self.call(SystemCall::Now, 0, &[], &mut []).result().map(Instant::from_nanos)
    }
}

impl LastingSender<'_> {
    /// Waits until there is a peer, and gives its generation. `Timeout` if there is none before
    /// `until`: then what is sent waits for the one that comes. Else fails as
    /// [`Runtime::open_channel`] does.
    pub fn up(&mut self, until: Instant) -> Result<u32, Status> {
        loop {
            match &self.end {
                Some(end) if end.is_accepted() => return Ok(self.generation),
                Some(_) => {}
                None => match self.runtime.open_channel(self.to, self.tag, self.cells) {
                    Ok(end) => (self.end, self.generation) = (Some(end), self.generation + 1),
                    // Its core, or the management core, begins anew, too.
                    Err(Status::Busy | Status::Dead) => {}
                    Err(status) => return Err(status),
                },
            }
            let now = self.runtime.now()?;
            if now >= until {
                return Err(Status::Timeout);
            }
            self.runtime.sleep_until((now + LOOK).min(until));
        }
    }

    /// Sends a message, as [`ChannelSender::send`] does. When the peer is down, it is not sent.
    pub fn send(&mut self, message: &Message) -> Result<(), Down> {
        match self.end.as_mut().map(|end| end.send(message)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(self.down()),
        }
    }

    /// How many messages the peer has yet to take; it may be down.
    pub fn untaken(&self) -> u32 {
        self.end.as_ref().map_or(0, ChannelSender::untaken)
    }

    /// Whether the peer is known to be down, of which the package learns whenever all its threads
    /// wait.
    pub fn is_down(&self) -> bool {
        self.end.as_ref().is_none_or(ChannelSender::is_closed)
    }

    /// Closes the channel to the last peer.
    pub fn down(&mut self) -> Down {
        let untaken = self.untaken();
        self.end.take().into_iter().for_each(ChannelSender::close);
        Down { generation: self.generation, untaken }
    }
}

impl LastingReceiver<'_> {
    /// Waits until there is a peer, and gives its generation. All threads wait. `Timeout` if there
    /// is none before `until`. Else fails as [`Runtime::accept_channel`] does.
    pub fn up(&mut self, until: Instant) -> Result<u32, Status> {
        if self.end.is_none() {
            self.end = Some(self.runtime.accept_channel(self.tag, until)?);
            self.generation += 1;
        }
        Ok(self.generation)
    }

    /// The next message, as [`ChannelReceiver::receive`] gives it.
    pub fn receive(&mut self) -> Result<Message, Down> {
        match self.end.as_mut().map(ChannelReceiver::receive) {
            Some(Ok(message)) => Ok(message),
            Some(Err(_)) | None => {
                self.end.take().into_iter().for_each(ChannelReceiver::close);
                Err(Down { generation: self.generation, untaken: 0 })
            }
        }
    }
}
