//! The protocols of an interface, calls and bulk transfer: frames in, frames out, deadlines kept,
//! and every end of a call brought to the task that waits for it. The EtherType says whose a frame
//! is.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use nile_abi::ethernet::{BULK, HEADER_BYTES};
use nile_abi::{Instant, Status};
use nile_ipioe::{CallId, End, Endpoint, Event, Refused, Request};
use nile_stl::node::Interface;
use nile_stl::{CallError, CallResult, Stl};

use super::bulk::transfers::Transfers;
use crate::alarm::Alarm;

/// Frames that are taken before what came of them is looked at.
const BATCH: usize = 64;

/// How long until a device that had no room for a frame is asked again.
const NO_ROOM: Duration = Duration::from_micros(50);

/// What the owner of a link does with what comes over it, but for the ends of its own calls.
pub type Inbox = dyn Fn(&Rc<Link>, Event);

/// An interface and the protocols over it.
pub struct Link {
    stl: Stl,
    pub endpoint: RefCell<Endpoint>,
    /// The transfers of buffers, if the node has any.
    bulk: Option<RefCell<Transfers>>,
    interface: Rc<dyn Interface>,
    /// Whom to wake when a call ends, and then how it did.
    waiting: RefCell<BTreeMap<CallId, Waiting>>,
    /// The task that takes frames and keeps the deadlines.
    pump: Alarm,
    closed: Cell<bool>,
    /// Whether the device had no room for all that is to be sent.
    crowded: Cell<bool>,
}

#[derive(Default)]
struct Waiting {
    end: Option<End>,
    waker: Option<Waker>,
}

impl Link {
    /// A link over an interface, served by a task of this core from now on.
    pub fn start(
        stl: &Stl,
        endpoint: Endpoint,
        bulk: Option<Transfers>,
        interface: Rc<dyn Interface>,
        inbox: Box<Inbox>,
    ) -> Rc<Link> {
        let link = Rc::new(Link {
            stl: stl.clone(),
            endpoint: RefCell::new(endpoint),
            bulk: bulk.map(RefCell::new),
            interface,
            waiting: RefCell::default(),
            pump: Alarm::default(),
            closed: Cell::new(false),
            crowded: Cell::new(false),
        });
        let pumped = link.clone();
        stl.host().spawn(Box::pin(async move {
            while !pumped.closed.get() {
                if pumped.turn(&*inbox) {
                    yield_now().await;
                    continue;
                }
                let frames = |context: &mut Context<'_>| pumped.interface.poll_frame(context);
                pumped.pump.wait(&pumped.stl, pumped.due(), frames).await;
            }
        }));
        link
    }

    /// Ends the link, and every call over it as if the peers were gone.
    pub fn close(&self) {
        self.closed.set(true);
        let waiting = core::mem::take(&mut *self.waiting.borrow_mut());
        for waker in waiting.into_values().filter_map(|it| it.waker) {
            waker.wake();
        }
        if let Some(bulk) = &self.bulk {
            bulk.borrow_mut().give_up();
        }
        self.pump.ring();
    }

    /// Has the pump look around: there may be something to do that it cannot know of.
    pub fn look(&self) {
        self.pump.ring();
    }

    pub fn now(&self) -> Instant {
        self.stl.host().now()
    }

    /// Calls a method on another node.
    pub fn call(self: &Rc<Self>, request: Request, data: Vec<u8>) -> CallResult<Call> {
        let call = self.endpoint.borrow_mut().call(self.now(), request, data).map_err(refused)?;
        self.waiting.borrow_mut().insert(call, Waiting::default());
        self.flush();
        Ok(Call { link: self.clone(), id: call })
    }

    /// Does something with the protocol, and sends what came of it.
    pub fn with<T>(&self, act: impl FnOnce(&mut Endpoint, Instant) -> T) -> T {
        let result = act(&mut self.endpoint.borrow_mut(), self.now());
        self.flush();
        result
    }

    /// Does something with the transfers, and sends what came of it. `None` if there are none.
    pub fn with_bulk<T>(&self, act: impl FnOnce(&mut Transfers, Instant) -> T) -> Option<T> {
        let result = act(&mut self.bulk.as_ref()?.borrow_mut(), self.now());
        self.flush();
        Some(result)
    }

    /// Looks at the transfers. `None` if there are none.
    pub fn look_at_bulk<T>(&self, act: impl FnOnce(&mut Transfers) -> Option<T>) -> Option<T> {
        act(&mut self.bulk.as_ref()?.borrow_mut())
    }

    /// Takes a batch of what has come, and sends what is to be sent. Whether more may have come.
    fn turn(self: &Rc<Self>, inbox: &Inbox) -> bool {
        let now = self.now();
        let taken = self.interface.receive(BATCH, &mut |frame| match &self.bulk {
            Some(bulk) if is_bulk(frame) => bulk.borrow_mut().receive(now, frame),
            _ => self.endpoint.borrow_mut().receive(now, frame),
        });
        self.endpoint.borrow_mut().on_time(now);
        if let Some(bulk) = &self.bulk {
            bulk.borrow_mut().turn(now);
        }
        loop {
            let event = self.endpoint.borrow_mut().poll();
            match event {
                Some(Event::Ended { call, end }) => self.ended(call, end),
                Some(event) => inbox(self, event),
                None => break,
            }
        }
        self.send();
        taken == BATCH
    }

    fn ended(&self, call: CallId, end: End) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&call) {
            waiting.end = Some(end);
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
        }
    }

    fn send(&self) {
        let now = self.now();
        let mut endpoint = self.endpoint.borrow_mut();
        let mut bulk = self.bulk.as_ref().map(RefCell::borrow_mut);
        let sent = self.interface.transmit(&mut |frame| {
            endpoint.transmit(now, frame).or_else(|| bulk.as_mut()?.transmit(now, frame))
        });
        self.crowded.set(!sent);
    }

    /// Sends what is to be sent. The pump is told if it has to look sooner than it meant to.
    fn flush(&self) {
        self.send();
        self.pump.plan(self.due());
    }

    fn due(&self) -> Option<Instant> {
        let due = self.endpoint.borrow().next_due();
        let bulk = self.bulk.as_ref().and_then(|it| it.borrow().next_due(self.now()));
        let retry = self.crowded.get().then(|| self.now() + NO_ROOM);
        [due, bulk, retry].into_iter().flatten().min()
    }
}

/// Lets the core's other tasks go on: whoever floods the network must not hold them up.
async fn yield_now() {
    let mut is_over = false;
    poll_fn(|context| {
        if core::mem::replace(&mut is_over, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Whether a frame is one of bulk transfer.
fn is_bulk(frame: &[u8]) -> bool {
    let kind = frame.get(HEADER_BYTES - 2..HEADER_BYTES);
    kind == Some(&BULK.to_be_bytes())
}

/// A call to another node. As a future it gives the call's end; dropped before that, it cancels it.
pub struct Call {
    link: Rc<Link>,
    id: CallId,
}

impl Future for Call {
    type Output = CallResult<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = self.link.waiting.borrow_mut();
        let Some(mine) = waiting.get_mut(&self.id) else {
            return Poll::Ready(Err(CallError::from(Status::Dead)));
        };
        match mine.end.take() {
            None => {
                mine.waker = Some(context.waker().clone());
                Poll::Pending
            }
            Some(end) => {
                waiting.remove(&self.id);
                Poll::Ready(result(self.id, end))
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.link.waiting.borrow_mut().remove(&self.id).is_some() {
            self.link.with(|endpoint, now| endpoint.cancel(now, self.id));
        }
    }
}

/// What an endpoint does not take, as the end of a call.
pub fn refused(refused: Refused) -> CallError {
    let status = match refused {
        Refused::TooLong | Refused::NotAPeer => Status::Invalid,
        Refused::Late => Status::Timeout,
        Refused::Full | Refused::TooManyPeers => Status::Busy,
    };
    CallError::new(status, alloc::format!("{refused}"))
}

fn result(call: CallId, end: End) -> CallResult<Vec<u8>> {
    let node = call.node;
    match end {
        End::Answered { status: Status::Ok, data, .. } => Ok(data),
        End::Answered { status, data, .. } => Err(CallError::from_wire(status, &data)),
        End::Dead => {
            let message = alloc::format!("{node} is gone, or not the one that it was");
            Err(CallError::new(Status::Dead, message))
        }
        End::TimedOut => {
            let message = alloc::format!("no answer from {node} before the deadline");
            Err(CallError::new(Status::Timeout, message))
        }
    }
}
