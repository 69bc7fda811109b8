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
use nile_bosml::discovery;
use nile_ipioe::CallId;
use nile_stl::frame::Header;
use nile_stl::{
    CallError, CallId as OwnCall, CallResult, Client, Gateway, Host, LocalFuture, MethodNumber,
    Origin, Place, ServiceNumber, Stl,
};

use super::Peer;
use super::call::{Call, CallFailed, Request};
use super::known::Target;
use crate::failure::Failure;

/// Beyond the deadline of a call, which ends it, for looking.
const SPARE: Duration = Duration::from_secs(1);

/// Where the end of a call is left for the client that waits for it.
type Slot = Rc<RefCell<Option<CallResult<Vec<u8>>>>>;

/// Why an instance is not asked what a client would.
pub const OTHER_VERSION: &str = "the node is of another version than this command; start it anew";

/// What a client wants to have asked.
struct Wanted {
    request: Request,
    patience: Duration,
    slot: Slot,
}

/// Makes the clients that a piece of work has.
pub struct Clients {
    stl: Stl,
    patience: Duration,
    tool: Rc<Tool>,
}

impl Clients {
    /// The client of an instance.
    pub fn at<C: Client>(&self, target: Target) -> C {
        self.within(target, self.patience)
    }

    /// The client of an instance that is waited for so long.
    pub fn within<C: Client>(&self, target: Target, patience: Duration) -> C {
        let Target { node, generation, core, number } = target;
        C::at(
            &self.stl.with_patience(patience),
            Place { node, core, generation, number: ServiceNumber(number) },
        )
    }

    /// Waits so long.
    pub async fn rest(&self, span: Duration) {
        self.tool.sleep_until(self.tool.now() + span).await;
    }
}

/// What clients of a tool reach.
struct Tool {
    start: Clock,
    wanted: RefCell<Vec<Wanted>>,
    /// When those want to go on that wait for a moment.
    dues: Rc<RefCell<Vec<Instant>>>,
}

impl Tool {
    /// How long until the first of them does.
    fn rest(&self) -> Option<Duration> {
        self.dues.take().into_iter().min().map(|due| due.since(self.now()))
    }
}

impl Peer {
    /// Does `work`, whose clients call services of nodes, and wait for them at most so long each.
    /// Fails when someone presses Ctrl-C.
    pub fn work<F: Future>(
        &mut self,
        patience: Duration,
        work: impl FnOnce(Clients) -> F,
    ) -> Result<F::Output, Failure> {
        let start = Clock::now();
        let tool = Rc::new(Tool { start, wanted: RefCell::default(), dues: Rc::default() });
        let stl = Stl::kernel(tool.clone()).with_patience(patience);
        stl.set_gateway(tool.clone());
        let mut open: Vec<(CallId, Slot)> = Vec::new();
        let clients = Clients { stl: stl.clone(), patience, tool: tool.clone() };
        let end = self.drive(&tool, work(clients), patience, &mut open);
        stl.close();
        for (call, _) in open {
            self.give_up(call);
        }
        end
    }

    /// Whether these instances have the service as the client `C` knows it. All are asked at once.
    pub fn check<C: Client>(
        &mut self,
        targets: &[Target],
        patience: Duration,
    ) -> Result<Vec<Result<(), CallFailed>>, Failure> {
        let own = discovery::to_text(C::INTERFACE.schema);
        let asked: Vec<Call> = targets.iter().copied().map(Call::discover).collect();
        let check = |schema: String| match schema == own {
            true => Ok(()),
            false => Err(CallFailed::new(Status::Invalid, OTHER_VERSION)),
        };
        let ends = self.calls(&asked, patience)?;
        Ok(ends.into_iter().map(|end| end.and_then(check)).collect())
    }

    fn drive<F: Future>(
        &mut self,
        tool: &Tool,
        work: F,
        patience: Duration,
        open: &mut Vec<(CallId, Slot)>,
    ) -> Result<F::Output, Failure> {
        let mut work = pin!(work);
        loop {
            if let Poll::Ready(end) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return Ok(end);
            }
            let mut has_ended = false;
            for Wanted { request, patience, slot } in tool.wanted.take() {
                match self.begin(request, patience) {
                    Ok(call) => open.push((call, slot)),
                    Err(failed) => {
                        *slot.borrow_mut() = Some(Err(error(failed)));
                        has_ended = true;
                    }
                }
            }
            if has_ended {
                continue;
            }
            let calls: Vec<CallId> = open.iter().map(|(call, _)| *call).collect();
            let most = patience + SPARE;
            let rest = tool.rest().unwrap_or(most);
            let ended = self.first_end(&calls, rest.min(most))?;
            let late = calls.first().filter(|_| rest >= most);
            let late = late.map(|call| (*call, Err(CallFailed::timed_out(call.node))));
            let Some((call, end)) = ended.or(late) else { continue };
            if let Some(at) = open.iter().position(|(known, _)| *known == call) {
                *open.swap_remove(at).1.borrow_mut() = Some(end.map_err(error));
            }
        }
    }
}

fn error(CallFailed { status, message }: CallFailed) -> CallError {
    CallError::new(status, message)
}

impl From<CallError> for CallFailed {
    fn from(CallError { status, message }: CallError) -> CallFailed {
        CallFailed::new(status, message)
    }
}

impl Gateway for Tool {
    fn call(
        &self,
        place: Place,
        method: MethodNumber,
        arguments: &[u8],
        _: Origin,
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

    fn sleep_until(&self, due: Instant) -> LocalFuture<'static, ()> {
        let (start, dues) = (self.start, self.dues.clone());
        Box::pin(poll_fn(move |_| match Instant::START + start.elapsed() >= due {
            true => Poll::Ready(()),
            false => {
                dues.borrow_mut().push(due);
                Poll::Pending
            }
        }))
    }

    fn send(&self, _: CoreId, _: &Header, _: &[u8]) -> Result<(), Status> {
        Err(Status::NotFound)
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        crate::say(line);
    }

    fn working_for(&self, _: Option<(CoreId, OwnCall)>) {}
}
