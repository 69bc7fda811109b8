//! Channels as tasks use them: one-way, from [`Outbound`] on one core to [`Inbound`] on another.
//!
//! The management core sets a channel up: the opener asks it ([`Core::open`]), the acceptor of the
//! same tag on the other core gets the receiving end ([`Core::accept`]). From then on messages go
//! through shared memory and nobody else is involved. A receiving end can move to another core;
//! the message that was sent around the move is never lost. When either end's core restarts or
//! drops its end, the other learns [`Status::Dead`].

use alloc::rc::Rc;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::task::Poll;
use core::time::Duration;

use nile_abi::{ChannelId, CoreId, EndpointId, Generation, Status};
use nile_platform::{Grant, Machine};
use nile_ring::{Endpoint, Message, Receiver, Region, Sender};
use nile_sync::Flag;

use crate::control::{End, Reply, Request};
use crate::core::Core;
use crate::executor::Join;
use crate::input::Input;

/// How long a sender waits before it looks again whether a full channel has room.
pub(crate) const FULL_BACKOFF: Duration = Duration::from_micros(20);

/// The incarnation of a channel's receiving end. A channel is never given twice within a boot, so
/// its number is its generation.
fn endpoint(id: EndpointId, channel: ChannelId) -> Endpoint {
    Endpoint { id, generation: Generation(channel.0) }
}

/// The largest ring that fits in `region`.
pub(crate) fn ring_in(region: &Region) -> Option<Region> {
    let cells = (region.len() / nile_ring::LINE_BYTES).checked_sub(2)?.checked_ilog2()?;
    region.slice(0, nile_ring::channel::region_len(1 << cells))
}

/// The sending end of a channel. Dropping it closes the channel.
pub struct Outbound<M: Machine> {
    core: Core<M>,
    channel: ChannelId,
    to: CoreId,
    sender: RefCell<Option<Sender>>,
    /// Raised when the receiver is gone.
    closed: Rc<Flag>,
}

/// The receiving end of a channel. Dropping it closes the channel.
pub struct Inbound<M: Machine> {
    core: Core<M>,
    offer: Offer,
    input: Option<Rc<Input>>,
}

/// A receiving end that waits for the acceptor of its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub channel: ChannelId,
    pub endpoint: EndpointId,
    pub tag: u32,
    pub from: CoreId,
    pub grant: Grant,
    /// Tells apart the stays of a receiving end that leaves and comes back.
    pub arrival: u64,
}

impl<M: Machine> Core<M> {
    /// A channel to the acceptor of `tag` on core `to`, of at least `cells` cells. Waits for the
    /// management core. Fails with `NotFound` (no such core), `Dead` (it has stopped), `Invalid`
    /// (too many cells), `NoMemory`, `NoTables`.
    pub async fn open(&self, to: CoreId, tag: u32, cells: u32) -> Result<Outbound<M>, Status> {
        let reply = self.request(Request::Open { to, tag, cells }).await?;
        let Reply::Opened { channel, endpoint: id, grant, .. } = reply else {
            return Err(Status::Invalid);
        };
        let closed = self.client.closed(channel).ok_or(Status::Dead)?;
        let attach = || {
            let ring = ring_in(&self.client.region(self, grant)?).ok_or(Status::Invalid)?;
            Sender::attach(ring, endpoint(id, channel)).map_err(|_| Status::Invalid)
        };
        match attach() {
            Ok(sender) => {
                let sender = RefCell::new(Some(sender));
                Ok(Outbound { core: self.clone(), channel, to, sender, closed })
            }
            Err(status) => {
                self.close_sender(channel);
                Err(status)
            }
        }
    }

    /// The next channel that a core opens to `tag` on this core. Waits for one.
    pub async fn accept(&self, tag: u32) -> Result<Inbound<M>, Status> {
        let offer = self.client.take_offer(tag).await;
        let region = self.client.region(self, offer.grant)?;
        let ring = ring_in(&region).ok_or(Status::Invalid)?;
        let own = endpoint(offer.endpoint, offer.channel);
        let receiver = Receiver::attach(ring, own).map_err(|_| Status::Invalid)?;
        let mut inbound = Inbound { core: self.clone(), offer, input: None };
        inbound.add_input(Rc::new(Input::new(receiver)));
        Ok(inbound)
    }

    /// Gives up an end of a channel: tells the management core, and forgets the ring's memory if
    /// that was this core's last end of it.
    pub(crate) async fn give_up(&self, request: Request) -> Result<(), Status> {
        if let Reply::Granted { grant } = self.request(request).await? {
            self.forget(grant).await?;
        }
        Ok(())
    }

    fn close_sender(&self, channel: ChannelId) -> Join<()> {
        self.close(channel, End::Sender, move |core| core.client.remove_sender(channel))
    }

    /// Tells the management core in the background that an end is closed, then does what is left
    /// to do here. When the management core restarts meanwhile, its next incarnation learns of the
    /// end and is then told.
    fn close(
        &self,
        channel: ChannelId,
        end: End,
        then: impl FnOnce(&Core<M>) + 'static,
    ) -> Join<()> {
        let core = self.clone();
        self.spawn(async move {
            while core.give_up(Request::Close { channel, end }).await == Err(Status::Dead) {}
            then(&core);
        })
    }
}

impl<M: Machine> Outbound<M> {
    /// The channel's name.
    pub fn channel(&self) -> ChannelId {
        self.channel
    }

    /// The core that accepted the channel.
    pub fn to(&self) -> CoreId {
        self.to
    }

    /// Sends one message and wakes the receiver in the way it needs. `Busy` when the channel is
    /// full, `Dead` when its receiver is gone. Never blocks.
    pub fn try_send(&self, message: &Message) -> Result<(), Status> {
        if self.closed.is_raised() {
            return Err(Status::Dead);
        }
        let notifier = self.core.machine.board().notifier();
        let mut sender = self.sender.borrow_mut();
        let sender = sender.as_mut().ok_or(Status::Dead)?;
        sender.send(message, notifier, &self.core.machine).map_err(|_| Status::Busy)
    }

    /// Puts as many messages as there is room for and wakes the receiver once for them; gives the
    /// first for which there was none. `Dead` when the receiver is gone. Never blocks.
    pub fn try_send_all(
        &self,
        messages: &mut impl Iterator<Item = Message>,
    ) -> Result<Option<Message>, Status> {
        if self.closed.is_raised() {
            return Err(Status::Dead);
        }
        let mut sender = self.sender.borrow_mut();
        let sender = sender.as_mut().ok_or(Status::Dead)?;
        let mut sent = false;
        let rest = messages.find(|message| {
            let put = sender.try_send(message).is_ok();
            sent |= put;
            !put
        });
        if sent {
            sender.notify(self.core.machine.board().notifier(), &self.core.machine);
        }
        Ok(rest)
    }

    /// Whether the receiver is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_raised()
    }

    /// The core that sends.
    pub(crate) fn core(&self) -> &Core<M> {
        &self.core
    }

    /// Whether the receiver has taken all that was sent, or is gone.
    pub(crate) fn is_drained(&self) -> bool {
        self.closed.is_raised() || self.sender.borrow().as_ref().is_none_or(Sender::is_drained)
    }

    /// Waits until the receiver is gone. One task at a time can wait.
    pub fn closed(&self) -> impl Future<Output = ()> + use<M> {
        let closed = self.closed.clone();
        async move { closed.raised().await }
    }

    /// Sends one message, waiting while the channel is full.
    pub async fn send(&self, message: &Message) -> Result<(), Status> {
        loop {
            match self.try_send(message) {
                Err(Status::Busy) => self.core.sleep(FULL_BACKOFF).await,
                result => return result,
            }
        }
    }

    /// Closes the channel: nothing is sent any more. What it gives ends when the management core
    /// knows of it; nothing if the channel was closed here before.
    pub(crate) fn close(&self) -> Option<Join<()>> {
        self.sender.take()?;
        Some(self.core.close_sender(self.channel))
    }
}

impl<M: Machine> Drop for Outbound<M> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<M: Machine> Inbound<M> {
    /// The channel's name.
    pub fn channel(&self) -> ChannelId {
        self.offer.channel
    }

    /// The core that opened the channel.
    pub fn from(&self) -> CoreId {
        self.offer.from
    }

    /// The next message, if there is one. `Dead` when the sender is gone and the ring is empty.
    pub fn try_receive(&self) -> Result<Option<Message>, Status> {
        self.input.as_ref().map_or(Err(Status::Dead), |input| input.try_receive())
    }

    /// The next message. Waits for it.
    pub async fn receive(&self) -> Result<Message, Status> {
        let input = self.input.as_ref().ok_or(Status::Dead)?;
        poll_fn(|context| match input.try_receive() {
            Ok(Some(message)) => Poll::Ready(Ok(message)),
            Ok(None) => {
                input.wait(context.waker());
                Poll::Pending
            }
            Err(status) => Poll::Ready(Err(status)),
        })
        .await
    }

    /// Moves this end to core `to`, whose acceptor of the channel's tag goes on where this one
    /// stopped. Waits for the management core. When it fails, this end is as it was: `NotFound`
    /// (no such core), `Invalid` (it is there already), `Dead` (it has stopped), `NoTables`.
    pub async fn move_to(mut self, to: CoreId) -> Result<(), (Inbound<M>, Status)> {
        let (core, channel) = (self.core.clone(), self.offer.channel);
        let Some(input) = self.remove_input() else { return Err((self, Status::Dead)) };
        match core.give_up(Request::Move { channel, to }).await {
            Ok(()) => {
                core.client.remove_receiver(self.offer);
                Ok(())
            }
            Err(status) => {
                self.add_input(input);
                Err((self, status))
            }
        }
    }

    fn add_input(&mut self, input: Rc<Input>) {
        self.core.inputs.borrow_mut().push(input.clone());
        self.core.client.set_input(self.offer, Some(&input));
        self.input = Some(input);
    }

    /// Takes the receiver off the loop.
    fn remove_input(&mut self) -> Option<Rc<Input>> {
        let input = self.input.take()?;
        self.core.inputs.borrow_mut().retain(|other| !Rc::ptr_eq(other, &input));
        self.core.client.set_input(self.offer, None);
        Some(input)
    }
}

impl<M: Machine> Drop for Inbound<M> {
    fn drop(&mut self) {
        if self.remove_input().is_some() {
            let offer = self.offer;
            let forget = move |core: &Core<M>| core.client.remove_receiver(offer);
            self.core.close(offer.channel, End::Receiver, forget);
        }
    }
}
