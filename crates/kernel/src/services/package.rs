//! The kernel's half of the transport layer as a package reaches it, by system calls: it relays
//! the package's calls, and hands it the calls to the services that it publishes.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use nile_abi::call::{Event, SystemCall};
use nile_abi::{Instant, Status};
use nile_bosml::{Blob, Bytes, discovery};
use nile_order::SortedMap;
use nile_platform::Machine;
use nile_registry::Layer;
use nile_stl::frame::MAX_DATA;
use nile_stl::relay::{self, Announcement, Incoming, Keyword, Relayed};
use nile_stl::{
    CallError, CallResult, Caller, Described, Dispatched, Half, MethodNumber, Service,
    ServiceNumber, Stl,
};
use nile_sync::Waiter;

use super::buffers::{self, Buffers};
use super::channels::{self, Ends};
use crate::packages::{self, Calls, Package};

/// Calls that may wait for a package's answer.
const MOST_CALLS: usize = 1024;

/// Services that a package may have published at once.
const MOST_SERVICES: usize = 64;

/// Times that a package may publish, with success or without: each uses up a number of its core's,
/// and its document, if the node takes it, stays with the registry.
const MOST_ANNOUNCEMENTS: usize = 256;

/// Bytes of all documents that a package may publish.
const MOST_DOCUMENTS: usize = 128 * 1024;

/// What answers a package's system calls that are about services.
pub struct ServiceCalls {
    stl: Stl,
    desk: Rc<RefCell<Desk>>,
    ends: Rc<Ends>,
    buffers: Rc<Buffers>,
}

/// The calls to a package's services.
#[derive(Default)]
struct Desk {
    /// Calls that the package has not seen, by their tickets.
    arrived: VecDeque<Incoming>,
    /// Calls that it has not answered, seen or not.
    open: SortedMap<u64, Open>,
    next_ticket: u64,
    /// Who waits for a call to arrive.
    waiter: Waiter,
    /// The last event that the package was given was one of a channel.
    had_channel: bool,
    /// What it publishes, or is about to.
    services: Vec<String>,
    announcements: usize,
    /// Bytes of their documents.
    documents: usize,
    /// The package has ended.
    closed: bool,
}

/// A call that the package has not answered.
#[derive(Default)]
struct Open {
    result: Option<CallResult<Vec<u8>>>,
    waiter: Waiter,
}

impl ServiceCalls {
    /// The services of `stl`'s core, for one package.
    pub fn new(stl: &Stl) -> ServiceCalls {
        let (desk, ends, buffers) = (Rc::default(), Rc::default(), Rc::default());
        ServiceCalls { stl: stl.for_package(), desk, ends, buffers }
    }
}

impl<M: Machine> Calls<M> for ServiceCalls {
    fn call(
        &self,
        package: &Package<M>,
        call: SystemCall,
        word: u64,
        input: Vec<u8>,
        room: usize,
    ) -> packages::LocalFuture<Result<(u64, Vec<u8>), Status>> {
        let (stl, desk) = (self.stl.clone(), self.desk.clone());
        let (package, ends, owned) = (package.clone(), self.ends.clone(), self.buffers.clone());
        Box::pin(async move {
            match call {
                SystemCall::Invoke => invoke(&stl, word, &input, room).await,
                SystemCall::Wait => wait(&stl, &desk, &ends, Instant::from_nanos(word), room).await,
                SystemCall::Reply => {
                    desk.borrow_mut().answer(word, &input).map(|()| (0, Vec::new()))
                }
                SystemCall::Publish => {
                    let announcement: Announcement =
                        relay::decode(&input).map_err(|_| Status::Invalid)?;
                    let end = publish(&stl, &desk, announcement, |name| {
                        package.manifest().is_none_or(|manifest| manifest.may_publish(name))
                    });
                    let end = end.await.map(|number| number.0.to_le_bytes().to_vec());
                    Ok(told(relay::encode_end(&end), room))
                }
                SystemCall::Channel => {
                    let place = channels::answer(package, ends, input).await?;
                    if place.len() > room {
                        return Err(Status::Invalid);
                    }
                    Ok((place.len() as u64, place))
                }
                SystemCall::Pool => {
                    // What is not in its memory it has no use for.
                    let core = package.core();
                    let pool = core.pool().filter(|_| package.has_pool());
                    let pool = pool.ok_or(Status::Denied)?;
                    // Looked at first: a buffer whose name does not arrive is lost to it.
                    if room < buffers::ROOM && !buffers::gives_nothing(&input) {
                        return Err(Status::Invalid);
                    }
                    let given = owned.answer(pool, package.limits().buffers as usize, &input);
                    package.keep_buffers(owned.count());
                    let given = given?;
                    Ok((given.len() as u64, given))
                }
                _ => Err(Status::NotFound),
            }
        })
    }

    fn ended(&self, package: &Package<M>) {
        self.buffers.end(package.core().pool().map(|pool| &**pool));
        self.ends.end(package);
        let mut desk = self.desk.borrow_mut();
        desk.closed = true;
        desk.arrived.clear();
        for open in desk.open.values_mut() {
            open.end(Err(CallError::new(Status::Dead, "the package has ended")));
        }
        // All at once: the core's next package may have services of these names.
        for name in desk.services.drain(..) {
            let stl = self.stl.clone();
            self.stl.host().spawn(Box::pin(async move {
                // The registry forgets the instance, or has done so with the core.
                let _ = stl.unpublish(&name).await;
            }));
        }
    }
}

/// The end of a call as a system call's output; one that the package has no room for is told so.
fn told(end: Vec<u8>, room: usize) -> (u64, Vec<u8>) {
    if end.len() <= room {
        return (end.len() as u64, end);
    }
    let mut short = relay::encode_end(&Err(CallError::new(
        Status::NoMemory,
        format!("the reply has {} bytes, and there is room for {room}", end.len()),
    )));
    short.truncate(room);
    (short.len() as u64, short)
}

async fn invoke(
    stl: &Stl,
    patience: u64,
    input: &[u8],
    room: usize,
) -> Result<(u64, Vec<u8>), Status> {
    let Relayed { service, method, arguments } =
        relay::decode(input).map_err(|_| Status::Invalid)?;
    let stl = stl.with_patience(Duration::from_nanos(patience));
    let end = stl.invoke(&service, &method, &arguments.0).await;
    Ok(told(relay::encode_end(&end), room))
}

/// What there is for the package: what happened to its channels, in turn with calls to its
/// services. `Timeout` if nothing comes before `until`. A call that does not fit into `room` is
/// refused; with room for no event of a channel, the wait is `Invalid`.
async fn wait(
    stl: &Stl,
    desk: &RefCell<Desk>,
    ends: &Ends,
    until: Instant,
    room: usize,
) -> Result<(u64, Vec<u8>), Status> {
    if room < Event::CHANNEL_BYTES {
        return Err(Status::Invalid);
    }
    let mut deadline = stl.host().sleep_until(until);
    poll_fn(|context| {
        let mut desk = desk.borrow_mut();
        // Neither kind keeps the other waiting for ever.
        let calls_first = core::mem::replace(&mut desk.had_channel, false);
        let call = if calls_first { desk.next_call(room) } else { None };
        if let Some(call) = call {
            return Poll::Ready(Ok((call.len() as u64, call)));
        }
        if let Some(event) = ends.next_event(context.waker()) {
            desk.had_channel = true;
            return Poll::Ready(Ok((event.len() as u64, Vec::from(event))));
        }
        if let Some(call) = desk.next_call(room) {
            return Poll::Ready(Ok((call.len() as u64, call)));
        }
        desk.waiter.wait(context.waker());
        deadline.as_mut().poll(context).map(|()| Err(Status::Timeout))
    })
    .await
}

async fn publish(
    stl: &Stl,
    desk: &Rc<RefCell<Desk>>,
    announcement: Announcement,
    may: impl Fn(&str) -> bool,
) -> CallResult<ServiceNumber> {
    let Announcement { document, subsystem, capability, keywords, type_name, attributes } =
        announcement;
    desk.borrow_mut().announce(document.len())?;
    let schema = discovery::parse(&document)?.into_owned();
    let name = String::from(&*schema.name);
    let ty = if type_name.is_empty() { &name } else { &type_name };
    if !may(ty) {
        let message = format!("the package's manifest does not name {ty}");
        return Err(CallError::new(Status::Denied, message));
    }
    let keyword = |Keyword { word, weight }| (word, weight);
    let described = Described {
        schema,
        subsystem,
        capability,
        layer: Layer::High,
        keywords: keywords.into_iter().map(keyword).collect(),
        type_name,
        attributes: attributes.into_iter().map(|it| (it.name, it.value)).collect(),
    };
    let window = desk.clone();
    // Noted before: if the package is stopped meanwhile, the service ends with it.
    desk.borrow_mut().services.push(name);
    let place = stl.publish_described(described, |place| {
        let service = Rc::new(Window { number: place.number, desk: window });
        Half { service, asks_caller: true }
    });
    let place = place.await.inspect_err(|_| drop(desk.borrow_mut().services.pop()))?;
    Ok(place.number)
}

/// A service of a package as the kernel's callers see it.
struct Window {
    number: ServiceNumber,
    desk: Rc<RefCell<Desk>>,
}

impl Service for Window {
    fn dispatch(&self, caller: &Caller, method: MethodNumber, arguments: &[u8]) -> Dispatched {
        let mut desk = self.desk.borrow_mut();
        match desk.accept(self.number, caller, method, arguments) {
            Ok(ticket) => Dispatched::Later(Box::pin(Answered { ticket, desk: self.desk.clone() })),
            Err(error) => Dispatched::Done(Err(error)),
        }
    }
}

impl Desk {
    /// The next call, as an event of at most `room` bytes.
    fn next_call(&mut self, room: usize) -> Option<Vec<u8>> {
        while let Some(incoming) = self.arrived.pop_front() {
            match relay::encode(&incoming) {
                Ok(bytes) if bytes.len() < room => {
                    return Some([&[Event::CALL], bytes.as_slice()].concat());
                }
                _ => self.end(
                    incoming.ticket,
                    Err(CallError::new(Status::NoMemory, "the package has no room for the call")),
                ),
            }
        }
        None
    }

    /// The package is about to publish something, with a document of so many bytes.
    fn announce(&mut self, bytes: usize) -> CallResult<()> {
        if self.services.len() >= MOST_SERVICES || self.announcements >= MOST_ANNOUNCEMENTS {
            return Err(CallError::new(Status::Busy, "the package publishes too many services"));
        }
        if bytes > MOST_DOCUMENTS - self.documents {
            let message = format!("documents of more than {MOST_DOCUMENTS} bytes");
            return Err(CallError::new(Status::NoMemory, message));
        }
        self.announcements += 1;
        self.documents += bytes;
        Ok(())
    }

    fn accept(
        &mut self,
        service: ServiceNumber,
        caller: &Caller,
        method: MethodNumber,
        arguments: &[u8],
    ) -> CallResult<u64> {
        if self.closed {
            return Err(CallError::new(Status::Dead, "the package has ended"));
        }
        if self.open.len() >= MOST_CALLS {
            return Err(CallError::new(Status::Busy, "too many calls wait for the package"));
        }
        self.next_ticket += 1;
        let ticket = self.next_ticket;
        self.arrived.push_back(Incoming {
            ticket,
            service: service.0,
            method: method.0,
            core: caller.core.0,
            origin: caller.origin as u8,
            deadline: caller.deadline.as_nanos(),
            arguments: Blob::from(Bytes::from(arguments)),
        });
        self.open.insert(ticket, Open::default());
        self.waiter.wake();
        Ok(ticket)
    }

    /// The package's answer. `NotFound` for a call that is answered, or whose caller has left.
    fn answer(&mut self, ticket: u64, end: &[u8]) -> Result<(), Status> {
        if end.len() > MAX_DATA + 2 {
            return Err(Status::Invalid);
        }
        let open = self.open.get_mut(&ticket).filter(|open| open.result.is_none());
        open.ok_or(Status::NotFound)?.end(relay::decode_end(end));
        Ok(())
    }

    fn end(&mut self, ticket: u64, result: CallResult<Vec<u8>>) {
        if let Some(open) = self.open.get_mut(&ticket) {
            open.end(result);
        }
    }
}

impl Open {
    fn end(&mut self, result: CallResult<Vec<u8>>) {
        self.result = Some(result);
        self.waiter.wake();
    }
}

/// The end of a call to a package. Dropped before it, the call is cancelled.
struct Answered {
    ticket: u64,
    desk: Rc<RefCell<Desk>>,
}

impl Future for Answered {
    type Output = CallResult<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut desk = self.desk.borrow_mut();
        let Some(open) = desk.open.get_mut(&self.ticket) else {
            return Poll::Ready(Err(CallError::new(Status::Dead, "the package has ended")));
        };
        match open.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                open.waiter.wait(context.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        let mut desk = self.desk.borrow_mut();
        desk.open.remove(&self.ticket);
        desk.arrived.retain(|incoming| incoming.ticket != self.ticket);
    }
}
