//! The calls to a package's services: those that it has not seen, and those that it works on. Where
//! the package *stays*, so do its services and what it has not seen, until its next incarnation
//! offers them again: whoever calls meanwhile waits, and is told nothing.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use nile_abi::Status;
use nile_abi::call::Event;
use nile_bosml::{Blob, Bytes};
use nile_order::SortedMap;
use nile_stl::frame::MAX_DATA;
use nile_stl::relay::{self, Announcement, Incoming};
use nile_stl::{CallError, CallResult, Caller, Dispatched, MethodNumber, Service, ServiceNumber};
use nile_sync::Waiter;

/// Calls that may wait for a package's answer.
const MOST_CALLS: usize = 1024;

/// Services that a package may have published at once.
const MOST_SERVICES: usize = 64;

/// Times that a package may publish, with success or without: each uses up a number of its core's,
/// and its document, if the node takes it, stays with the registry.
const MOST_ANNOUNCEMENTS: usize = 256;

/// Bytes of all documents that a package may publish.
const MOST_DOCUMENTS: usize = 128 * 1024;

/// The calls to a package's services.
#[derive(Default)]
pub(crate) struct Desk {
    /// Calls that the package has not seen, by their tickets.
    arrived: VecDeque<Incoming>,
    /// Calls that it has not answered, seen or not.
    open: SortedMap<u64, Open>,
    next_ticket: u64,
    /// Who waits for a call to arrive.
    pub waiter: Waiter,
    /// The last event that the package was given was one of a channel.
    pub had_channel: bool,
    /// It was the end of a call that the package has begun.
    pub had_end: bool,
    /// The package gets no more calls: its next incarnation does.
    is_paused: bool,
    /// What it publishes, or is about to.
    offers: Vec<Offer>,
    announcements: usize,
    /// Bytes of their documents.
    documents: usize,
    /// The package has ended.
    closed: bool,
}

/// A service that the package publishes, or an earlier incarnation of it has.
struct Offer {
    name: String,
    said: Announcement,
    /// Its number; none as long as it is not published.
    number: Option<ServiceNumber>,
    /// Whether the present incarnation offers it.
    is_claimed: bool,
}

/// A call that the package has not answered.
#[derive(Default)]
struct Open {
    result: Option<CallResult<Vec<u8>>>,
    waiter: Waiter,
}

/// A service of a package as the kernel's callers see it.
pub(super) struct Window {
    pub number: ServiceNumber,
    pub desk: Rc<RefCell<Desk>>,
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
    pub fn next_call(&mut self, room: usize) -> Option<Vec<u8>> {
        if self.is_paused {
            return None;
        }
        loop {
            let is_offered = |call: &Incoming| self.is_claimed(call.service);
            let place = self.arrived.iter().position(is_offered)?;
            let incoming = self.arrived.remove(place)?;
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
    }

    /// Whether any call waits to be seen.
    pub fn has_calls(&self) -> bool {
        !self.arrived.is_empty()
    }

    fn is_claimed(&self, service: u16) -> bool {
        let is_it = |it: &&Offer| it.number == Some(ServiceNumber(service));
        // One that is called before its publication is over is its package's.
        self.offers.iter().find(is_it).is_none_or(|it| it.is_claimed)
    }

    /// The package gets no more calls. What comes waits for its next incarnation.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    /// How many calls it has seen and not answered.
    pub fn works_on(&self) -> usize {
        let open = self.open.values().filter(|open| open.result.is_none());
        open.count().saturating_sub(self.arrived.len())
    }

    /// The number of a service that an earlier incarnation has published just so; it is offered
    /// again.
    pub fn claim(&mut self, said: &Announcement) -> Option<ServiceNumber> {
        let is_it = |it: &&mut Offer| !it.is_claimed && it.said == *said;
        let offer = self.offers.iter_mut().find(is_it)?;
        offer.is_claimed = true;
        self.waiter.wake();
        offer.number
    }

    /// Whether an earlier incarnation has published another service by this name, which is to end:
    /// calls to it have come to nothing.
    pub fn drops(&mut self, name: &str) -> bool {
        let is_it = |it: &Offer| !it.is_claimed && it.name == name;
        let Some(place) = self.offers.iter().position(is_it) else { return false };
        let offer = self.offers.swap_remove(place);
        let is_its = |call: &Incoming| offer.number == Some(ServiceNumber(call.service));
        let tickets: Vec<u64> =
            self.arrived.iter().filter(|it| is_its(it)).map(|it| it.ticket).collect();
        self.arrived.retain(|call| !is_its(call));
        for ticket in tickets {
            self.end(ticket, Err(CallError::new(Status::Dead, "the service was replaced")));
        }
        true
    }

    /// The package is about to publish this.
    pub fn begin_to_offer(&mut self, name: String, said: Announcement) {
        self.offers.push(Offer { name, said, number: None, is_claimed: true });
    }

    /// It has been published by this number, or could not be.
    pub fn has_offered(&mut self, name: &str, number: Option<ServiceNumber>) {
        let is_it = |it: &Offer| it.name == name && it.number.is_none();
        let Some(place) = self.offers.iter().position(is_it) else { return };
        match number {
            Some(number) => self.offers[place].number = Some(number),
            None => drop(self.offers.swap_remove(place)),
        }
    }

    /// The package has ended. If it stays, what it offers is there for its next incarnation, and so
    /// are the calls that it has not seen. Gives the services that end.
    pub fn end_package(&mut self, stays: bool) -> Vec<String> {
        let gone = || CallError::new(Status::Dead, "the package has ended");
        let seen = |ticket: &u64| !stays || self.arrived.iter().all(|it| it.ticket != *ticket);
        let tickets: Vec<u64> = self.open.keys().copied().filter(seen).collect();
        for ticket in tickets {
            self.end(ticket, Err(gone()));
        }
        let (stay, end) = core::mem::take(&mut self.offers)
            .into_iter()
            .partition::<Vec<_>, _>(|offer| stays && offer.number.is_some());
        self.offers = stay;
        self.offers.iter_mut().for_each(|offer| offer.is_claimed = false);
        self.announcements = self.offers.len();
        self.documents = self.offers.iter().map(|offer| offer.said.document.len()).sum();
        self.is_paused = false;
        if !stays {
            self.closed = true;
            self.arrived.clear();
        }
        end.into_iter().map(|offer| offer.name).collect()
    }

    /// The package is about to publish something, with a document of so many bytes.
    pub fn announce(&mut self, bytes: usize) -> CallResult<()> {
        if self.offers.len() >= MOST_SERVICES || self.announcements >= MOST_ANNOUNCEMENTS {
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
    pub fn answer(&mut self, ticket: u64, end: &[u8]) -> Result<(), Status> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 4096;

    fn said(document: &str) -> Announcement {
        Announcement {
            document: document.into(),
            subsystem: String::new(),
            capability: String::new(),
            keywords: Vec::new(),
            type_name: String::new(),
            attributes: Vec::new(),
        }
    }

    /// One with a service of this number.
    fn desk(number: ServiceNumber) -> Desk {
        let mut desk = Desk::default();
        desk.announce(3).unwrap();
        desk.begin_to_offer("it".into(), said("one"));
        desk.has_offered("it", Some(number));
        desk
    }

    fn call(desk: &mut Desk, number: ServiceNumber) -> u64 {
        desk.accept(number, &Caller::UNKNOWN, MethodNumber(0), &[]).unwrap()
    }

    #[test]
    fn what_a_package_that_stays_has_not_seen_is_for_the_next_one() {
        let number = ServiceNumber(7);
        let mut desk = desk(number);
        let tickets = [(); 3].map(|()| call(&mut desk, number));
        assert!(desk.next_call(ROOM).is_some());
        assert_eq!(desk.works_on(), 1);
        desk.pause();
        assert!(desk.next_call(ROOM).is_none());
        assert!(desk.end_package(true).is_empty());
        let has_ended = |desk: &Desk, ticket| desk.open.get(&ticket).unwrap().result.is_some();
        assert_eq!(tickets.map(|ticket| has_ended(&desk, ticket)), [true, false, false]);
        // The next one has not offered it yet.
        assert!(desk.next_call(ROOM).is_none());
        assert_eq!(desk.claim(&said("another")), None);
        assert_eq!(desk.claim(&said("one")), Some(number));
        assert_eq!(desk.claim(&said("one")), None, "twice is once too often");
        assert!(desk.next_call(ROOM).is_some() && desk.next_call(ROOM).is_some());
        assert_eq!((desk.next_call(ROOM), desk.works_on()), (None, 2));
        desk.answer(tickets[1], &relay::encode_end(&Ok(Vec::new()))).unwrap();
        assert_eq!(desk.works_on(), 1);
    }

    #[test]
    fn a_service_that_is_offered_otherwise_is_another_one() {
        let number = ServiceNumber(7);
        let mut desk = desk(number);
        let ticket = call(&mut desk, number);
        assert!(!desk.drops("it"), "it is offered now");
        desk.end_package(true);
        assert!(desk.drops("it") && !desk.drops("it"));
        assert!(desk.open.get(&ticket).unwrap().result.is_some(), "whoever called is told");
        assert!(desk.next_call(ROOM).is_none());
    }

    #[test]
    fn nothing_is_left_of_one_that_does_not_stay() {
        let number = ServiceNumber(7);
        let mut desk = desk(number);
        let ticket = call(&mut desk, number);
        desk.begin_to_offer("half".into(), said("two"));
        assert_eq!(desk.end_package(false), ["it", "half"]);
        assert!(desk.open.get(&ticket).unwrap().result.is_some());
        assert!(desk.accept(number, &Caller::UNKNOWN, MethodNumber(0), &[]).is_err());
    }
}
