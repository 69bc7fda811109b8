//! The transport layer over a made-up core: what ends a call, and what is held meanwhile.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::{Future, pending, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, Status};
use nile_bosml::schema::{CallerKind, Callers, Method, Mode, Service as Schema};
use nile_registry::{Caller as Binder, Layer};

use crate::frame::Header;
use crate::serving::MOST_SERVED;
use crate::{
    CallError, CallId, CallResult, Caller, Described, Directory, Dispatched, Half, Host,
    LocalFuture, MethodNumber, Origin, PeerEnd, Place, Published, Service, ServiceNumber, Stl,
};

const PEER: CoreId = CoreId(1);
const OLD: Generation = Generation(1);
const NEW: Generation = Generation(2);

/// A core whose time and peers the test decides.
struct Made {
    now: Rc<Cell<Instant>>,
    peer: Cell<Generation>,
    tasks: RefCell<Vec<LocalFuture<'static, ()>>>,
    sent: RefCell<Vec<Header>>,
}

impl Made {
    fn new() -> (Rc<Made>, Stl) {
        let host = Rc::new(Made {
            now: Rc::new(Cell::new(Instant::START)),
            peer: Cell::new(OLD),
            tasks: RefCell::default(),
            sent: RefCell::default(),
        });
        (host.clone(), Stl::kernel(host))
    }

    fn poll_tasks(&self) {
        let tasks = self.tasks.take();
        let left =
            tasks.into_iter().filter_map(|mut task| poll(&mut task).is_pending().then_some(task));
        let left: Vec<_> = left.collect();
        self.tasks.borrow_mut().extend(left);
    }

    /// The id of the call that was made last.
    fn last_call(&self) -> CallId {
        match self.sent.borrow().last() {
            Some(Header::Request { id, .. }) => *id,
            other => panic!("no request was sent last, but {other:?}"),
        }
    }

    fn statuses(&self) -> Vec<Status> {
        let sent = self.sent.borrow();
        let status = |header: &Header| match header {
            Header::Reply { status, .. } => Some(*status),
            _ => None,
        };
        sent.iter().filter_map(status).collect()
    }
}

impl Host for Made {
    fn core(&self) -> CoreId {
        CoreId::BOOT
    }

    fn generation(&self) -> Generation {
        OLD
    }

    fn cores(&self) -> usize {
        2
    }

    fn generation_of(&self, core: CoreId) -> Generation {
        if core == PEER { self.peer.get() } else { OLD }
    }

    fn now(&self) -> Instant {
        self.now.get()
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        self.tasks.borrow_mut().push(task);
    }

    fn sleep_until(&self, due: Instant) -> LocalFuture<'static, ()> {
        let now = self.now.clone();
        Box::pin(poll_fn(move |_| if now.get() >= due { Poll::Ready(()) } else { Poll::Pending }))
    }

    fn send(&self, _: CoreId, header: &Header, _: &[u8]) -> Result<(), Status> {
        self.sent.borrow_mut().push(*header);
        Ok(())
    }

    fn log(&self, _: fmt::Arguments<'_>) {}

    fn working_for(&self, _: Option<(CoreId, CallId)>) {}
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn place(generation: Generation) -> Place {
    Place { node: Place::HERE, core: PEER, generation, number: ServiceNumber(7) }
}

type Reply = CallResult<Vec<u8>>;

fn call(stl: &Stl, place: Place) -> LocalFuture<'static, Reply> {
    let stl = stl.clone();
    let mut call: LocalFuture<'static, Reply> =
        Box::pin(async move { stl.call_at(place, MethodNumber(0), &[]).await });
    assert!(poll(&mut call).is_pending(), "nobody has answered yet");
    call
}

fn status(end: Poll<Reply>) -> Option<Status> {
    match end {
        Poll::Ready(Err(CallError { status, .. })) => Some(status),
        Poll::Ready(Ok(_)) => Some(Status::Ok),
        Poll::Pending => None,
    }
}

/// A service whose method never ends.
struct Endless;

impl Service for Endless {
    fn dispatch(&self, _: &Caller, _: MethodNumber, _: &[u8]) -> Dispatched {
        Dispatched::Later(Box::pin(pending()))
    }
}

fn serve_endless(stl: &Stl) -> Place {
    serve_endless_for(stl, Callers::NONE)
}

/// The same; those may call its method.
fn serve_endless_for(stl: &Stl, callers: Callers) -> Place {
    let method = Method {
        name: Cow::Borrowed("wait"),
        doc: Cow::Borrowed(""),
        mode: Mode::Kernel,
        callers,
        pure: false,
        parameters: Cow::Borrowed(&[]),
        reply: Cow::Borrowed(&[]),
    };
    let methods = Cow::Owned(alloc::vec![method]);
    let described = Described {
        schema: Schema { name: Cow::Borrowed("endless"), doc: Cow::Borrowed(""), methods },
        subsystem: String::new(),
        capability: String::new(),
        layer: Layer::High,
        keywords: Vec::new(),
        type_name: String::new(),
        attributes: Vec::new(),
    };
    let publish = stl
        .publish_described(described, |_| Half { service: Rc::new(Endless), asks_caller: false });
    match poll(&mut Box::pin(publish)) {
        Poll::Ready(Ok(place)) => place,
        _ => panic!("nobody has to be told"),
    }
}

fn request(at: Place, id: u64, caller: Generation) -> Header {
    Header::Request {
        id: CallId(id),
        service: at.number,
        generation: at.generation,
        caller,
        method: MethodNumber(0),
        deadline: Instant::from_nanos(u64::MAX),
        origin: Origin::Kernel,
    }
}

#[test]
fn a_call_that_waits_long_costs_one_task_whatever_expires_before() {
    let (host, stl) = Made::new();
    let mut long = call(&stl.with_patience(Duration::from_secs(3600)), place(OLD));
    for round in 1..=100 {
        let mut short = call(&stl.with_patience(Duration::from_millis(1)), place(OLD));
        host.now.set(Instant::START + Duration::from_millis(round));
        host.poll_tasks();
        assert_eq!(status(poll(&mut short)), Some(Status::Timeout));
        assert!(host.tasks.borrow().len() <= 2, "{} tasks", host.tasks.borrow().len());
    }
    assert_eq!(status(poll(&mut long)), None);
    host.now.set(Instant::START + Duration::from_secs(3600));
    host.poll_tasks();
    assert_eq!(status(poll(&mut long)), Some(Status::Timeout));
    host.poll_tasks();
    assert!(host.tasks.borrow().is_empty());
}

#[test]
fn without_patience_a_call_ends_at_once() {
    let (host, stl) = Made::new();
    let mut call = call(&stl.with_patience(Duration::ZERO), place(OLD));
    host.poll_tasks();
    assert_eq!(status(poll(&mut call)), Some(Status::Timeout));
}

#[test]
fn the_end_of_an_incarnation_ends_the_calls_to_it_alone() {
    let (host, stl) = Made::new();
    let mut blamed = call(&stl, place(OLD));
    let culprit = host.last_call();
    let mut old = call(&stl, place(OLD));
    let mut new = call(&stl, place(NEW));
    stl.peer_ended(PEER, OLD, PeerEnd::By(culprit));
    assert_eq!(status(poll(&mut blamed)), Some(Status::Panicked));
    assert_eq!(status(poll(&mut old)), Some(Status::Dead));
    assert_eq!(status(poll(&mut new)), None);
    stl.link_lost(PEER, Status::NoMemory);
    assert_eq!(status(poll(&mut new)), Some(Status::NoMemory));
}

#[test]
fn what_a_dead_incarnation_sent_is_not_its_successors() {
    let (host, stl) = Made::new();
    let endless = serve_endless(&stl);
    host.peer.set(NEW);
    stl.deliver(PEER, &request(endless, 5, OLD), &[]);
    assert!(host.tasks.borrow().is_empty(), "it works for nobody");
    stl.deliver(PEER, &request(endless, 5, NEW), &[]);
    host.poll_tasks();
    stl.deliver(PEER, &Header::Cancel { id: CallId(5), caller: OLD }, &[]);
    host.poll_tasks();
    assert_eq!(host.tasks.borrow().len(), 1, "another call was cancelled");
    stl.deliver(PEER, &Header::Cancel { id: CallId(5), caller: NEW }, &[]);
    host.poll_tasks();
    assert!(host.tasks.borrow().is_empty());
    assert!(host.sent.borrow().is_empty());
}

/// Each kind of caller, on the own node or on another, is held against each set of those who may.
#[test]
fn who_is_not_named_is_denied_before_the_service_sees_the_call() {
    let origins = [
        (Origin::Kernel, None),
        (Origin::Package, Some(CallerKind::Package)),
        (Origin::PeersPackage, Some(CallerKind::Package)),
        (Origin::Operator, Some(CallerKind::Operator)),
        (Origin::Peer, Some(CallerKind::Peer)),
    ];
    for set in 0..8 {
        let all = CallerKind::ALL.into_iter().filter(|kind| set & *kind as u8 != 0);
        let callers = all.fold(Callers::NONE, Callers::with);
        for (origin, kind) in origins {
            let (host, stl) = Made::new();
            let endless = serve_endless_for(&stl, callers);
            let Header::Request { id, service, generation, caller, method, deadline, .. } =
                request(endless, 5, OLD)
            else {
                panic!("it is a request")
            };
            let asked =
                Header::Request { id, service, generation, caller, method, deadline, origin };
            stl.deliver(PEER, &asked, &[]);
            host.poll_tasks();
            let may = kind.is_none_or(|kind| callers.has(kind));
            let denied: &[Status] = if may { &[] } else { &[Status::Denied] };
            assert_eq!(host.statuses(), denied, "{origin:?} where {callers} may");
            assert_eq!(host.tasks.borrow().len(), usize::from(may), "{origin:?}: {callers}");
        }
    }
}

#[test]
fn a_core_serves_no_more_calls_than_it_can() {
    let (host, stl) = Made::new();
    let endless = serve_endless(&stl);
    for id in 0..=MOST_SERVED as u64 {
        stl.deliver(PEER, &request(endless, id, OLD), &[]);
    }
    assert_eq!(host.statuses(), [Status::Busy]);
    host.poll_tasks();
    stl.deliver(PEER, &Header::Cancel { id: CallId(0), caller: OLD }, &[]);
    stl.deliver(PEER, &request(endless, u64::MAX, OLD), &[]);
    assert_eq!(host.statuses(), [Status::Busy]);
}

/// Whoever knows where the services are, which move each time that somebody asks.
#[derive(Default)]
struct Moving(Cell<u16>);

impl Directory for Moving {
    fn find(&self, _: Binder, _: &str) -> LocalFuture<'static, CallResult<Place>> {
        self.0.set(self.0.get() + 1);
        let place = Place { number: ServiceNumber(self.0.get()), ..place(OLD) };
        Box::pin(async move { Ok(place) })
    }

    fn find_at(
        &self,
        caller: Binder,
        _: crate::At,
        name: &str,
    ) -> LocalFuture<'static, CallResult<Place>> {
        self.find(caller, name)
    }

    fn publish(&self, _: Published, _: Place) -> LocalFuture<'static, CallResult<()>> {
        Box::pin(async { Ok(()) })
    }

    fn unpublish(&self, _: Place) -> LocalFuture<'static, CallResult<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// What is called there.
#[crate::service(subsystem = "tests", capability = "anything")]
trait Anything {
    /// The next number.
    #[stl_k(allow(package, operator, peer))]
    fn next(&self) -> u64;
}

#[test]
fn a_service_that_was_dead_is_looked_for_anew() {
    let (host, stl) = Made::new();
    let directory = Rc::new(Moving::default());
    stl.set_directory(directory.clone());
    for (asked, end) in [(1, Status::Ok), (1, Status::Dead), (2, Status::Ok)] {
        let stl_there = stl.clone();
        let mut call: LocalFuture<'static, CallResult<u64>> =
            Box::pin(async move { AnythingClient::find(&stl_there).await?.next().await });
        assert!(poll(&mut call).is_pending());
        assert_eq!(directory.0.get(), asked);
        let reply = Header::Reply { id: host.last_call(), caller: OLD, status: end };
        stl.deliver(PEER, &reply, if end == Status::Ok { &[0; 8] } else { &[] });
        let Poll::Ready(result) = poll(&mut call) else { panic!("it was answered") };
        assert_eq!(result.map_or_else(|error| error.status, |_| Status::Ok), end);
    }
}
