//! Calls between nodes over this core's line: the protocol's endpoint, and every end of a call
//! brought to the task that waits for it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use nile_abi::ethernet::CALLS;
use nile_abi::{Instant, Status, Window};
use nile_ipioe::{CallId, End, Endpoint, Event, Refused, Request};
use nile_order::SortedMap;
use nile_stl::{CallError, CallResult};
use nile_sync::Waiter;

use crate::line::{Line, Protocol};

/// What the owner of the calls does with what comes, but for the ends of its own.
pub type Inbox = dyn Fn(&Rc<Calls>, Event);

/// The calls of one incarnation of this node.
pub struct Calls {
    pub line: Rc<Line>,
    pub endpoint: RefCell<Endpoint>,
    /// Whom to wake when a call ends, and then how it did.
    waiting: RefCell<SortedMap<CallId, Waiting>>,
    inbox: Box<Inbox>,
    closed: Cell<bool>,
}

#[derive(Default)]
struct Waiting {
    end: Option<End>,
    waiter: Waiter,
}

impl Calls {
    /// The calls over a line from now on.
    pub fn start(line: Rc<Line>, endpoint: Endpoint, inbox: Box<Inbox>) -> Rc<Calls> {
        let calls = Rc::new(Calls {
            line,
            endpoint: RefCell::new(endpoint),
            waiting: RefCell::default(),
            inbox,
            closed: Cell::new(false),
        });
        calls.line.attach(CALLS, &calls);
        calls
    }

    /// Ends every call as if the peers were gone.
    pub fn close(&self) {
        self.closed.set(true);
        self.line.detach(CALLS);
        let waiting = core::mem::take(&mut *self.waiting.borrow_mut());
        for it in waiting.into_values() {
            it.waiter.wake();
        }
    }

    /// Calls a method on another node.
    pub fn call(self: &Rc<Self>, request: Request, data: Vec<u8>) -> CallResult<Call> {
        let now = self.line.now();
        let call = self.endpoint.borrow_mut().call(now, request, data).map_err(refused)?;
        self.waiting.borrow_mut().insert(call, Waiting::default());
        self.line.flush();
        Ok(Call { calls: self.clone(), id: call })
    }

    /// Does something with the protocol, and sends what came of it.
    pub fn with<T>(&self, act: impl FnOnce(&mut Endpoint, Instant) -> T) -> T {
        let result = act(&mut self.endpoint.borrow_mut(), self.line.now());
        self.line.flush();
        result
    }

    fn ended(&self, call: CallId, end: End) {
        if let Some(waiting) = self.waiting.borrow_mut().get_mut(&call) {
            waiting.end = Some(end);
            waiting.waiter.wake();
        }
    }
}

impl Protocol for Calls {
    fn receive(&self, now: Instant, frame: &[u8]) {
        self.endpoint.borrow_mut().receive(now, frame);
    }

    fn turn(self: Rc<Self>, now: Instant) {
        self.endpoint.borrow_mut().on_time(now);
        while !self.closed.get() {
            let event = self.endpoint.borrow_mut().poll();
            match event {
                Some(Event::Ended { call, end }) => self.ended(call, end),
                Some(event) => (self.inbox)(&self, event),
                None => break,
            }
        }
    }

    fn transmit(&self, now: Instant, frame: &mut [u8]) -> Option<usize> {
        self.endpoint.borrow_mut().transmit(now, frame)
    }

    fn next_due(&self, _now: Instant) -> Option<Window> {
        self.endpoint.borrow().next_window()
    }
}

/// A call to another node. As a future it gives the call's end; dropped before that, it cancels it.
pub struct Call {
    calls: Rc<Calls>,
    id: CallId,
}

impl Future for Call {
    type Output = CallResult<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut waiting = self.calls.waiting.borrow_mut();
        let Some(mine) = waiting.get_mut(&self.id) else {
            return Poll::Ready(Err(CallError::from(Status::Dead)));
        };
        match mine.end.take() {
            None => {
                mine.waiter.wait(context.waker());
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
        if self.calls.waiting.borrow_mut().remove(&self.id).is_some() {
            self.calls.with(|endpoint, now| endpoint.cancel(now, self.id));
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
            let message = alloc::format!("{node} is held for dead, or has begun anew");
            Err(CallError::new(Status::Dead, message))
        }
        End::TimedOut => {
            let message = alloc::format!("no answer from {node} before the deadline");
            Err(CallError::new(Status::Timeout, message))
        }
    }
}
