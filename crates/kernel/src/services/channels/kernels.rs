//! Channels between a package and a service of another core's kernel. To the package such a channel
//! is one like any other: a ring in user memory and a line beside it. What is different is at the
//! other end, which a kernel has in its own half.
//!
//! The tags of these channels are kernels' ([`is_kernels`]), so that no package can take the place
//! of a service towards another package, nor that of a package towards a service.
//!
//! The package may write what it likes into the ring at any time: a kernel reads each cell once,
//! and believes nothing of it.

use super::*;

use core::future::poll_fn;
use core::task::{Context, Poll};

use nile_ring::Region;
use nile_ring::user::{USER_END, UserChannel, UserReceiver, UserSender};
use nile_stl::LocalFuture;
use nile_stl::node::{self, FromPackage as _};

use crate::channel::FULL_BACKOFF;
use crate::memory::Frame;

/// The receiving end of a channel that a package has opened. Dropping it closes the channel.
pub(crate) struct FromPackage<M: Machine> {
    core: Core<M>,
    inlet: Rc<Inlet>,
    ring: RefCell<UserReceiver>,
    /// The ring says that this end sleeps.
    sleeps: Cell<bool>,
}

/// The sending end of a channel that a package may accept. Dropping it closes the channel.
pub(crate) struct ToPackage<M: Machine> {
    line: Outbound<M>,
    ring: RefCell<UserSender>,
    /// The ring's memory, until this end is closed.
    frame: Option<Frame<M>>,
}

impl<M: Machine> Core<M> {
    /// The next channel that a package of another core opens to `tag` on this core. Waits for one.
    /// `Invalid` unless the tag is a kernel's; `NoTables`, `NoMemory`.
    pub(crate) async fn accept_from_package(&self, tag: u32) -> Result<FromPackage<M>, Status> {
        if !is_kernels(tag) {
            return Err(Status::Invalid);
        }
        let offers = self.services.rings.clone();
        loop {
            let inlet = offers.comes.until(|| offers.find(tag, false, |_| true)).await;
            let core = self.clone();
            // A task of its own: whoever waits for this may wait no more.
            let task = self.spawn(async move {
                let ring = core.take_end(&inlet).await.inspect_err(|_| inlet.leave())?;
                let (ring, sleeps) = (RefCell::new(ring), Cell::new(false));
                Ok(FromPackage { core, inlet, ring, sleeps })
            });
            match task.await {
                // Its opener was gone before it could be accepted.
                Err(Status::NotFound) => {}
                result => return result,
            }
        }
    }

    async fn take_end(&self, inlet: &Inlet) -> Result<UserReceiver, Status> {
        let Offer { cells, grant, .. } = inlet.offer;
        let Source::Line(line) = inlet.source else { return Err(Status::Invalid) };
        self.join_grant(line, grant).await?;
        let end = || {
            let channel = ring_of(&self.client.region(self, grant)?, cells)?;
            channel.receiver(USER_END).map_err(|_| Status::Invalid)
        };
        let end = end();
        if end.is_err() {
            // What is left of it is the management core's to know.
            let _ = self.take_back(grant).await;
        }
        end
    }

    /// A channel to the package on core `to` that accepts `tag`, with room for `cells` messages, a
    /// power of two. Does not wait for the acceptor. `Invalid` (such a number of cells, a tag that
    /// is no kernel's, or this core), else it fails as [`Core::open`] does.
    pub(crate) async fn open_to_package(
        &self,
        to: CoreId,
        tag: u32,
        cells: u32,
    ) -> Result<ToPackage<M>, Status> {
        let fits = cells.is_power_of_two() && cells <= MOST_CELLS;
        if !fits || !is_kernels(tag) || to == self.id() {
            return Err(Status::Invalid);
        }
        let frame = self.allocate_run(ring_bytes(cells)).await?;
        let channel = ring_of(frame.region(), cells)?;
        let ring = channel.sender(USER_END).map_err(|_| Status::Invalid)?;
        let line = self.open(to, TAG, LINE_CELLS).await?;
        let end = ToPackage { line, ring: RefCell::new(ring), frame: Some(frame) };
        let grant = end.frame.as_ref().map(Frame::grant).ok_or(Status::Invalid)?;
        end.line.try_send(&Offer { tag, cells, by_kernel: true, grant }.message())?;
        Ok(end)
    }
}

/// The channel in a grant that has room for one, and more.
fn ring_of(region: &Region, cells: u32) -> Result<UserChannel, Status> {
    let ring = region.slice(0, ring_bytes(cells) as usize).ok_or(Status::Invalid)?;
    UserChannel::over(&ring).map_err(|_| Status::Invalid)
}

impl<M: Machine> FromPackage<M> {
    fn next(&self, context: &mut Context<'_>) -> Poll<Result<Message, Status>> {
        loop {
            if let Some(message) = self.try_receive()? {
                return Poll::Ready(Ok(message));
            }
            self.inlet.kernel.wait(context.waker());
            if self.ring.borrow().fall_asleep() {
                self.sleeps.set(true);
                return Poll::Pending;
            }
        }
    }
}

impl<M: Machine> node::FromPackage for FromPackage<M> {
    fn from(&self) -> CoreId {
        self.inlet.from
    }

    fn try_receive(&self) -> Result<Option<Message>, Status> {
        let mut ring = self.ring.borrow_mut();
        if self.sleeps.take() {
            ring.wake_up();
        }
        // What was sent before the end is there when the end is known.
        let is_over = self.inlet.dead.get();
        match ring.try_receive() {
            Ok(None) if is_over => Err(Status::Dead),
            other => other.map_err(|_| Status::Invalid),
        }
    }

    fn receive(&self) -> LocalFuture<'_, Result<Message, Status>> {
        Box::pin(poll_fn(|context| self.next(context)))
    }
}

impl<M: Machine> Drop for FromPackage<M> {
    fn drop(&mut self) {
        self.inlet.leave();
        let (core, grant) = (self.core.clone(), self.inlet.offer.grant);
        self.core.spawn(async move {
            if let Err(status) = core.take_back(grant).await {
                core.machine.log(format_args!("{grant:?} is not given back: {status}"));
            }
        });
    }
}

impl<M: Machine> node::ToPackage for ToPackage<M> {
    fn to(&self) -> CoreId {
        self.line.to()
    }

    fn try_send(&self, message: &Message) -> Result<(), Status> {
        if self.line.is_closed() {
            return Err(Status::Dead);
        }
        let wake = || {
            // If the line is full there is a wake-up under way; if it is closed, that is found out.
            let _ = self.line.try_send(&wake_up());
        };
        self.ring.borrow_mut().send(message, wake).map_err(|_| Status::Busy)
    }

    fn send<'a>(&'a self, message: &'a Message) -> LocalFuture<'a, Result<(), Status>> {
        Box::pin(async {
            loop {
                match self.try_send(message) {
                    Err(Status::Busy) => self.line.core().sleep(FULL_BACKOFF).await,
                    result => return result,
                }
            }
        })
    }
}

impl<M: Machine> Drop for ToPackage<M> {
    fn drop(&mut self) {
        let (closing, frame) = (self.line.close(), self.frame.take());
        self.line.core().spawn(async move {
            // The acceptor's core enters the ring only as long as the line is open.
            if let Some(closing) = closing {
                closing.await;
            }
            drop(frame);
        });
    }
}
