//! Channels as a package's threads use them: opened and accepted by system calls, and then without.
//!
//! A receiver that sleeps is a parked thread; only when every thread of the package waits, the
//! package itself does, in the system call from which an event of the channel brings it back.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::time::Duration;

use nile_abi::call::{ChannelCall, ChannelPlace, Event, System, SystemCall};
use nile_abi::{ChannelId, CoreId, Instant, Status};
use nile_ring::Message;
use nile_ring::user::USER_END;

use super::{UserChannel, UserReceiver, UserSender};
use crate::threads::{Runtime, Thread};

/// How often a sender looks whether a full channel has room before it sleeps for a moment.
const POLLS: usize = 256;

/// That moment.
const FULL_BACKOFF: Duration = Duration::from_micros(20);

/// The ends that a package has, by the kernel's names.
#[derive(Default)]
pub(crate) struct Watched(RefCell<BTreeMap<ChannelId, Rc<Watch>>>);

/// What the kernel says of an end.
#[derive(Default)]
struct Watch {
    closed: Cell<bool>,
    /// The thread that sleeps until a message comes.
    sleeper: RefCell<Option<Thread>>,
}

impl Watched {
    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Takes an event, if it is one of a channel.
    pub fn happened(&self, runtime: &Runtime<'_>, event: Event<'_>) -> bool {
        let (channel, closed) = match event {
            Event::Woken(channel) => (channel, false),
            Event::Closed(channel) => (channel, true),
            Event::Call(_) | Event::Ended(..) => return false,
        };
        // Nobody sleeps: then nobody will without having looked at the ring.
        if let Some(watch) = self.0.borrow().get(&channel) {
            watch.closed.set(watch.closed.get() || closed);
            if let Some(sleeper) = watch.sleeper.take() {
                runtime.unpark(&sleeper);
            }
        }
        true
    }
}

/// An end of a channel, whichever.
struct End<'s> {
    runtime: Runtime<'s>,
    channel: ChannelId,
    peer: CoreId,
    watch: Rc<Watch>,
}

/// The sending end of a channel to another package, or to a service of a kernel. It is the
/// package's until [`ChannelSender::close`]; dropping it closes nothing.
pub struct ChannelSender<'s> {
    end: End<'s>,
    ring: UserSender,
}

/// The receiving end of a channel from another package, or from a service of a kernel. It is the
/// package's until [`ChannelReceiver::close`]; dropping it closes nothing.
pub struct ChannelReceiver<'s> {
    end: End<'s>,
    ring: UserReceiver,
}

impl<'s> Runtime<'s> {
    /// A channel to the package that accepts `tag` on core `to`, which may be this core: then to
    /// another package of it, which has its turns when this one waits. A
    /// [kernel's tag](nile_abi::call::is_kernels) is accepted by a service of the kernel there. It
    /// has room for `cells` messages, a power of two up to 16384. Does not wait for the acceptor;
    /// all threads wait for the kernel. `Invalid` (such a number of cells, or a kernel's tag on
    /// this core), `NotFound` (no such core), `Busy` (too many ends), `NoMemory`, `NoTables`,
    /// `Dead` (the core has stopped).
    pub fn open_channel(
        &self,
        to: CoreId,
        tag: u32,
        cells: u32,
    ) -> Result<ChannelSender<'s>, Status> {
        let (end, channel) = self.end(ChannelCall::Open { to, tag, cells })?;
        let ring = channel.sender(USER_END).map_err(|_| Status::Invalid)?;
        Ok(ChannelSender { end, ring })
    }

    /// The receiving end of a channel that another package, or for a kernel's tag a kernel, has
    /// opened to `tag` on this core, or will open before `until`. All threads wait for it.
    /// `Timeout` if none came, `Busy` (too many ends), `NoMemory`, `NoTables`.
    pub fn accept_channel(&self, tag: u32, until: Instant) -> Result<ChannelReceiver<'s>, Status> {
        let (end, channel) = self.end(ChannelCall::Accept { tag, until })?;
        let ring = channel.receiver(USER_END).map_err(|_| Status::Invalid)?;
        Ok(ChannelReceiver { end, ring })
    }

    fn end(&self, call: ChannelCall) -> Result<(End<'s>, UserChannel), Status> {
        let mut place = [0; ChannelPlace::BYTES];
        self.call(SystemCall::Channel, 0, &call.encode(), &mut place).result()?;
        let place = ChannelPlace::decode(&place).ok_or(Status::Invalid)?;
        let base = self.memory(place.at, place.bytes).ok_or(Status::Invalid)?;
        // SAFETY: the kernel has mapped these bytes there for this channel, whole pages that stay
        // until the end is closed, which takes the channel.
        let channel = unsafe { UserChannel::at(base, place.bytes) };
        let channel = channel.map_err(|_| Status::Invalid)?;
        let watch = Rc::new(Watch::default());
        self.watched().0.borrow_mut().insert(place.channel, watch.clone());
        let (runtime, peer) = (self.clone(), place.peer);
        Ok((End { runtime, channel: place.channel, peer, watch }, channel))
    }
}

impl End<'_> {
    fn call(&self, call: ChannelCall) -> Result<(), Status> {
        let input = call.encode();
        self.runtime.call(SystemCall::Channel, 0, &input, &mut []).result().map(|_| ())
    }

    fn close(self) {
        self.runtime.watched().0.borrow_mut().remove(&self.channel);
        // The kernel knows every end that it has named.
        let _ = self.call(ChannelCall::Close(self.channel));
    }
}

impl ChannelSender<'_> {
    /// The kernel's name for this end.
    pub fn channel(&self) -> ChannelId {
        self.end.channel
    }

    /// The core of the receiver.
    pub fn to(&self) -> CoreId {
        self.end.peer
    }

    /// Sends a message: it is in the ring when this returns. `Busy` when that is full; `Dead` when
    /// the receiver is known to be gone, of which the package learns whenever all its threads
    /// wait, and when a receiver that slept is to be woken. Makes a system call only for that.
    pub fn try_send(&mut self, message: &Message) -> Result<(), Status> {
        let ChannelSender { end, ring } = self;
        if end.watch.closed.get() {
            return Err(Status::Dead);
        }
        let wake = || {
            let channel = u64::from(end.channel.0);
            let woken = end.runtime.call(SystemCall::Wake, channel, &[], &mut []);
            if woken.result() == Err(Status::Dead) {
                end.watch.closed.set(true);
            }
        };
        ring.send(message, wake).map_err(|_| Status::Busy)
    }

    /// Sends a message. While the ring is full the thread polls, and then sleeps now and then.
    /// Fails with `Dead`.
    pub fn send(&mut self, message: &Message) -> Result<(), Status> {
        loop {
            for _ in 0..POLLS {
                match self.try_send(message) {
                    Err(Status::Busy) => self.end.runtime.poll_later(),
                    result => return result,
                }
            }
            let runtime = &self.end.runtime;
            let now = runtime.call(SystemCall::Now, 0, &[], &mut []).result()?;
            runtime.sleep_until(Instant::from_nanos(now) + FULL_BACKOFF);
        }
    }

    /// Whether somebody has accepted the channel. Makes no system call.
    pub fn is_accepted(&self) -> bool {
        self.ring.is_accepted()
    }

    /// How many messages the receiver has not taken: of one that is gone, those that it never
    /// will. Makes no system call.
    pub fn untaken(&self) -> u32 {
        self.ring.untaken()
    }

    /// Whether the receiver is known to be gone.
    pub fn is_closed(&self) -> bool {
        self.end.watch.closed.get()
    }

    /// Closes the channel: its receiver learns that after the last message.
    pub fn close(self) {
        let ChannelSender { end, ring } = self;
        // What is in it is not to be reached any more.
        drop(ring);
        end.close();
    }
}

impl ChannelReceiver<'_> {
    /// The kernel's name for this end.
    pub fn channel(&self) -> ChannelId {
        self.end.channel
    }

    /// The core of the sender.
    pub fn from(&self) -> CoreId {
        self.end.peer
    }

    /// The next message, if there is one; what cannot be one is dropped. `Dead` when there is none
    /// and the sender is known to be gone, of which the package learns whenever all its threads
    /// wait. Makes no system call.
    pub fn try_receive(&mut self) -> Result<Option<Message>, Status> {
        match self.ring.try_receive() {
            Ok(Some(message)) => Ok(Some(message)),
            Ok(None) if self.end.watch.closed.get() => Err(Status::Dead),
            // After a cell that makes no sense there may be others.
            Ok(None) | Err(_) => Ok(None),
        }
    }

    /// The next message. The thread sleeps until there is one; `Dead` when there will be none.
    pub fn receive(&mut self) -> Result<Message, Status> {
        loop {
            if let Some(message) = self.try_receive()? {
                return Ok(message);
            }
            let End { runtime, watch, .. } = &self.end;
            let slept = self.ring.sleep(|| {
                *watch.sleeper.borrow_mut() = Some(runtime.current());
                runtime.park();
                watch.sleeper.take();
            });
            if !slept {
                runtime.poll_later();
            }
        }
    }

    /// Closes the channel: its sender learns that.
    pub fn close(self) {
        let ChannelReceiver { end, ring } = self;
        // As above.
        drop(ring);
        end.close();
    }
}

impl fmt::Debug for ChannelSender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelSender({:?})", self.end.channel)
    }
}

impl fmt::Debug for ChannelReceiver<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChannelReceiver({:?})", self.end.channel)
    }
}
