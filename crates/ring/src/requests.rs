//! The request table: what a sender asked and has no answer to yet (NewtOS thesis, section 2.1).
//!
//! The table is private to the sender. It is what makes a restart of the peer survivable: every
//! unanswered request comes back out, to be asked again or to be failed, and an answer that comes
//! too late finds nothing.

use alloc::vec::Vec;
use core::fmt;

use nile_abi::{Generation, Instant};

use crate::cell::Message;

/// Names one request for as long as it is unanswered; never used for another one after that
/// (until 2³² more have used its place). Travels in the message and comes back in the answer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId {
    index: u32,
    /// How many requests had this place before.
    generation: u32,
}

impl RequestId {
    /// The id as it travels.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The id that travelled as `bits`. Whether it names a request is for the table to find out.
    pub fn from_bits(bits: u64) -> RequestId {
        RequestId { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// A request that waits for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<C> {
    /// The incarnation of the peer that was asked.
    pub peer: Generation,
    /// What was sent.
    pub message: Message,
    /// When the caller stops waiting.
    pub deadline: Instant,
    /// What the caller needs to go on.
    pub context: C,
}

/// Every place of the table waits for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Busy;

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("too many requests are unanswered")
    }
}

/// A limited number of places for unanswered requests.
#[derive(Debug)]
pub struct Requests<C> {
    limit: u32,
    places: Vec<Place<C>>,
    /// Indices of the places without a request.
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<C> {
    generation: u32,
    request: Option<Request<C>>,
}

impl<C> Requests<C> {
    /// A table for `capacity` unanswered requests. All of its memory is taken here.
    pub fn with_capacity(capacity: u32) -> Requests<C> {
        Requests {
            limit: capacity,
            places: (0..capacity).map(|_| Place { generation: 0, request: None }).collect(),
            free: (0..capacity).rev().collect(),
        }
    }

    /// A table that grows to `limit` unanswered requests, and does not shrink.
    pub fn up_to(limit: u32) -> Requests<C> {
        Requests { limit, places: Vec::new(), free: Vec::new() }
    }

    /// How many requests wait for an answer.
    pub fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Notes a request before it is sent. `request` makes it, given the id that its message is
    /// to carry; it is not called when the table is full.
    pub fn issue(
        &mut self,
        request: impl FnOnce(RequestId) -> Request<C>,
    ) -> Result<RequestId, Busy> {
        if self.free.is_empty() && self.places.len() < self.limit as usize {
            self.free.push(self.places.len() as u32);
            self.places.push(Place { generation: 0, request: None });
        }
        let index = *self.free.last().ok_or(Busy)?;
        let place = &mut self.places[index as usize];
        let id = RequestId { index, generation: place.generation };
        place.request = Some(request(id));
        self.free.pop();
        Ok(id)
    }

    /// The request `id`, if it is unanswered: to send its message.
    pub fn get(&self, id: RequestId) -> Option<&Request<C>> {
        let place = self.places.get(id.index as usize)?;
        place.request.as_ref().filter(|_| place.generation == id.generation)
    }

    /// Takes out the request that an answer names and gives its context; `None` for an answer
    /// that is late, came twice or was made up. Also for a request that could not be sent.
    pub fn complete(&mut self, id: RequestId) -> Option<C> {
        self.get(id)?;
        self.take(id.index).map(|request| request.context)
    }

    /// Takes out every request to an incarnation of the peer other than `alive`: each is to be
    /// issued again or failed as [`Dead`](nile_abi::Status::Dead). What the caller does not
    /// take from the iterator stays in the table.
    pub fn peer_restarted(&mut self, alive: Generation) -> impl Iterator<Item = Request<C>> {
        self.take_if(move |request| request.peer != alive)
    }

    /// Takes out every request whose deadline is not after `now`, in no particular order. What
    /// the caller does not take from the iterator stays in the table.
    pub fn expired(&mut self, now: Instant) -> impl Iterator<Item = Request<C>> {
        self.take_if(move |request| request.deadline <= now)
    }

    /// The earliest deadline of all requests.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.places.iter().filter_map(|place| Some(place.request.as_ref()?.deadline)).min()
    }

    /// Takes out every request that is `wanted`, in no particular order. What the caller does not
    /// take from the iterator stays in the table.
    pub fn take_if(
        &mut self,
        wanted: impl Fn(&Request<C>) -> bool,
    ) -> impl Iterator<Item = Request<C>> {
        (0..self.places.len() as u32).filter_map(move |index| {
            let request = self.places[index as usize].request.as_ref();
            if request.is_some_and(&wanted) { self.take(index) } else { None }
        })
    }

    fn take(&mut self, index: u32) -> Option<Request<C>> {
        let place = &mut self.places[index as usize];
        let request = place.request.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(index);
        Some(request)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const OLD: Generation = Generation(1);
    const NEW: Generation = Generation(2);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn ask(table: &mut Requests<u32>, peer: Generation, deadline: u64, context: u32) -> RequestId {
        let id = table.issue(|id| Request {
            peer,
            message: Message::new(1, &id.to_bits().to_le_bytes()).unwrap(),
            deadline: at(deadline),
            context,
        });
        id.unwrap()
    }

    #[test]
    fn an_answer_finds_its_request_once() {
        let mut table = Requests::with_capacity(4);
        let first = ask(&mut table, OLD, 10, 100);
        let second = ask(&mut table, OLD, 10, 200);
        assert_eq!(table.get(first).unwrap().message.payload(), first.to_bits().to_le_bytes());
        assert_eq!(table.complete(RequestId::from_bits(second.to_bits())), Some(200));
        assert_eq!(table.complete(second), None, "twice");
        let third = ask(&mut table, OLD, 10, 300);
        assert_eq!(table.complete(second), None, "its place has another request");
        assert_eq!(table.complete(RequestId::from_bits(u64::MAX)), None, "made up");
        assert_eq!((table.complete(first), table.complete(third)), (Some(100), Some(300)));
        assert!(table.is_empty());
    }

    #[test]
    fn a_full_table_is_busy_until_an_answer_comes() {
        full_at_two(Requests::with_capacity(2));
        full_at_two(Requests::up_to(2));
    }

    fn full_at_two(mut table: Requests<u32>) {
        let first = ask(&mut table, OLD, 10, 1);
        ask(&mut table, OLD, 10, 2);
        assert_eq!(table.issue(|_| unreachable!("the table is full")), Err(Busy));
        assert_eq!(table.complete(first), Some(1));
        ask(&mut table, OLD, 10, 3);
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn a_restart_gives_back_what_the_old_incarnation_owes() {
        let mut table = Requests::with_capacity(4);
        let lost = ask(&mut table, OLD, 10, 1);
        ask(&mut table, OLD, 10, 2);
        let kept = ask(&mut table, NEW, 10, 3);
        let mut owed: Vec<u32> = table.peer_restarted(NEW).map(|it| it.context).collect();
        owed.sort();
        assert_eq!(owed, [1, 2]);
        assert_eq!(table.complete(lost), None, "the old incarnation answers too late");
        assert_eq!(table.complete(kept), Some(3));
    }

    #[test]
    fn deadlines_pass_at_their_time() {
        let mut table = Requests::with_capacity(4);
        let slow = ask(&mut table, OLD, 30, 3);
        ask(&mut table, OLD, 10, 1);
        ask(&mut table, OLD, 20, 2);
        assert_eq!(table.next_deadline(), Some(at(10)));
        assert_eq!(table.expired(at(9)).count(), 0);
        let mut over: Vec<u32> = table.expired(at(20)).map(|it| it.context).collect();
        over.sort();
        assert_eq!(over, [1, 2]);
        assert_eq!(table.next_deadline(), Some(at(30)));
        assert_eq!(table.complete(slow), Some(3));
        assert_eq!(table.next_deadline(), None);
    }
}
