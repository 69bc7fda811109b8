//! Generated clients of services over the peer. They speak to a transport layer that has no
//! services and no other cores: whatever they call is on a node, and is asked for by the peer.

use std::cell::RefCell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant as Clock};

use nile_abi::{CoreId, Generation, Instant, Status};
use nile_ipioe::CallId;
use nile_stl::frame::Header;
use nile_stl::{
    CallError, CallId as OwnCall, CallResult, Gateway, Host, LocalFuture, MethodNumber, Place,
    ServiceNumber, Stl,
};

use super::Peer;
use super::call::{CallFailed, Request};
use super::known::Target;
use crate::failure::Failure;

/// Beyond the deadline of a call, which ends it, for looking.
const SPARE: Duration = Duration::from_secs(1);

/// Where the end of a call is left for the client that waits for it.
type Slot = Rc<RefCell<Option<CallResult<Vec<u8>>>>>;

/// What a client wants to have asked.
struct Wanted {
    request: Request,
    patience: Duration,
    slot: Slot,
}

/// What clients of a tool reach.
struct Tool {
    start: Clock,
    wanted: RefCell<Vec<Wanted>>,
}

impl Peer {
    /// Does `work`, whose clients call services of nodes, and wait for them at most so long each.
    pub fn work<T, F: Future<Output = CallResult<T>>>(
        &mut self,
        patience: Duration,
        work: impl FnOnce(Stl) -> F,
    ) -> Result<Result<T, CallFailed>, Failure> {
        let tool = Rc::new(Tool { start: Clock::now(), wanted: RefCell::default() });
        let stl = Stl::kernel(tool.clone()).with_patience(patience);
        stl.set_gateway(tool.clone());
        let mut open: Vec<(CallId, Slot)> = Vec::new();
        let end = self.drive(&tool, work(stl.clone()), patience, &mut open);
        stl.close();
        for (call, _) in open {
            self.give_up(call);
        }
        end.map(|end| end.map_err(|CallError { status, message }| CallFailed::new(status, message)))
    }

    fn drive<T>(
        &mut self,
        tool: &Tool,
        work: impl Future<Output = CallResult<T>>,
        patience: Duration,
        open: &mut Vec<(CallId, Slot)>,
    ) -> Result<CallResult<T>, Failure> {
        let mut work = pin!(work);
        loop {
            if let Poll::Ready(end) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return Ok(end);
            }
            let wanted = tool.wanted.take();
            let is_idle = wanted.is_empty();
            for Wanted { request, patience, slot } in wanted {
                match self.begin(request, patience) {
                    Ok(call) => open.push((call, slot)),
                    Err(failed) => *slot.borrow_mut() = Some(Err(error(failed))),
                }
            }
            if open.is_empty() {
                // What waits for no call would wait for ever.
                if is_idle {
                    return Ok(Err(Status::Failed.into()));
                }
                continue;
            }
            let calls: Vec<CallId> = open.iter().map(|(call, _)| *call).collect();
            let ended = self.first_end(&calls, patience + SPARE)?;
            let (call, end) = ended.unwrap_or_else(|| {
                self.give_up(calls[0]);
                (calls[0], Err(CallFailed::timed_out(calls[0].node)))
            });
            if let Some(at) = open.iter().position(|(known, _)| *known == call) {
                *open.swap_remove(at).1.borrow_mut() = Some(end.map_err(error));
            }
        }
    }
}

fn error(CallFailed { status, message }: CallFailed) -> CallError {
    CallError::new(status, message)
}

impl Target {
    /// The place, as clients take it.
    pub fn as_place(&self) -> Place {
        let Target { node, generation, core, number } = *self;
        Place { node, core, generation, number: ServiceNumber(number) }
    }
}

impl Gateway for Tool {
    fn call(
        &self,
        place: Place,
        method: MethodNumber,
        arguments: &[u8],
        deadline: Instant,
    ) -> LocalFuture<'static, CallResult<Vec<u8>>> {
        let Place { node, core, generation, number } = place;
        let target = Target { node, generation, core, number: number.0 };
        let request = Request { target, method: method.0, arguments: arguments.into() };
        let slot = Slot::default();
        let patience = deadline.since(self.now());
        self.wanted.borrow_mut().push(Wanted { request, patience, slot: slot.clone() });
        Box::pin(poll_fn(move |_| match slot.take() {
            Some(end) => Poll::Ready(end),
            None => Poll::Pending,
        }))
    }
}

/// A tool is no core: it has nobody to send frames to, and runs nothing beside a client's work.
impl Host for Tool {
    fn core(&self) -> CoreId {
        CoreId::BOOT
    }

    fn generation(&self) -> Generation {
        Generation::FIRST
    }

    fn cores(&self) -> usize {
        1
    }

    fn generation_of(&self, _: CoreId) -> Generation {
        Generation::FIRST
    }

    fn now(&self) -> Instant {
        Instant::START + self.start.elapsed()
    }

    fn spawn(&self, _: LocalFuture<'static, ()>) {}

    fn sleep_until(&self, _: Instant) -> LocalFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn send(&self, _: CoreId, _: &Header, _: &[u8]) -> Result<(), Status> {
        Err(Status::NotFound)
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        crate::say(line);
    }

    fn working_for(&self, _: Option<(CoreId, OwnCall)>) {}
}
