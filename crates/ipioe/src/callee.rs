//! The callee's half: each call is done at most once, its reply is repeated as long as its caller
//! may ask for it, and memory that is full refuses instead of forgetting.

use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Instant, NodeId, Status};

use crate::caller::should_acknowledge;
use crate::endpoint::Endpoint;
use crate::event::{Event, ReplyRefused, ServingId};
use crate::message::{Incoming, Outgoing, Taken};
use crate::peer::{Answer, Entry, Served, Session, State};
use crate::rtt::back_off;
use crate::settings::{MAX_PATIENCE, MOST_RETRY};
use crate::timers::Timer;
use crate::transmit::{Acknowledge, Refusal, Work};
use crate::wire::{Asker, MAX_MESSAGE, Segment, Subject};

/// What a request's header says.
pub(crate) struct Asked {
    pub node: NodeId,
    pub id: u32,
    pub source_core: CoreId,
    pub core: CoreId,
    pub service: u16,
    pub method: u16,
    pub patience: u32,
    pub oldest: u32,
    pub asker: Asker,
    pub encoded: bool,
    pub segment: Option<Segment>,
}

impl Endpoint {
    /// Answers a call that [`Event::Request`] told of. If there is no room for an answer that may
    /// have to be repeated, its caller gets `NoMemory` instead.
    pub fn reply(
        &mut self,
        now: Instant,
        serving: ServingId,
        status: Status,
        encoded: bool,
        data: Vec<u8>,
    ) -> Result<(), ReplyRefused> {
        if data.len() > MAX_MESSAGE {
            return Err(ReplyRefused::TooLong);
        }
        let step = self.step();
        let session = self.peers.get_mut(&serving.node).and_then(|peer| peer.session.as_mut());
        let session = session.filter(|it| it.incarnation.generation == serving.generation);
        let session = session.ok_or(ReplyRefused::Gone)?;
        let entry = session.served.entries.get_mut(&serving.number).ok_or(ReplyRefused::Gone)?;
        if !matches!(entry.state, State::Working) {
            return Err(ReplyRefused::Gone);
        }
        let bytes = self.usage.bytes + data.len();
        let (status, data) = if bytes <= self.limits.bytes {
            self.usage.bytes = bytes;
            (status, data)
        } else {
            (Status::NoMemory, Vec::new())
        };
        let message = Outgoing::new(data, step);
        if message.count() > 1 {
            let due = (now + session.rtt.patience()).min(entry.deadline);
            let timer = Timer::Entry(serving.node, serving.number);
            self.timers.clear(entry.due, timer);
            self.timers.set(due, timer);
            entry.due = due;
        }
        entry.state =
            State::Replied(Answer { status, encoded, message, tries: 0, is_queued: true });
        self.work.push_back(Work::Reply(serving.node, serving.number));
        Ok(())
    }

    /// A request came, or a segment of one.
    pub(crate) fn on_request(&mut self, now: Instant, it: &Asked, data: &[u8]) {
        let patience = Duration::from_micros(u64::from(it.patience));
        let ahead = it.id.wrapping_sub(it.oldest);
        if ahead >= 1 << 31 || patience > MAX_PATIENCE {
            self.counters.malformed += 1;
            return;
        }
        self.with_session(it.node, |served| served.begin(it.oldest));
        self.raise_floor(it.node, it.oldest);
        let Some(session) = self.peers.get_mut(&it.node).and_then(|peer| peer.session.as_mut())
        else {
            return;
        };
        let served = &mut session.served;
        let number = served.number(it.id).filter(|number| !served.ended.contains(*number));
        let Some(number) = number else {
            self.counters.duplicates += 1;
            return;
        };
        if served.entries.contains_key(&number) {
            return self.on_request_again(it, number, data);
        }
        if patience.is_zero() {
            self.counters.late += 1;
            return;
        }

        let bytes = it.segment.map_or(0, |segment| segment.total as usize);
        let has_room = self.usage.remembered < self.limits.remembered
            && self.events.len() < self.limits.queue * 2
            && self.usage.bytes + bytes <= self.limits.bytes;
        if !has_room {
            return self.refuse(it, number);
        }
        let deadline = now + patience;
        let state = match it.segment {
            None => State::Working,
            Some(segment) => {
                let Some(message) = Incoming::new(segment, data.len()) else { return };
                State::Assembling(message)
            }
        };
        let entry = Entry {
            state,
            source_core: it.source_core,
            core: it.core,
            service: it.service,
            method: it.method,
            encoded: it.encoded,
            asker: it.asker,
            deadline,
            due: deadline,
        };
        self.timers.set(deadline, Timer::Entry(it.node, number));
        self.usage.bytes += bytes;
        self.usage.remembered += 1;
        if it.segment.is_none() {
            let serving =
                ServingId { node: it.node, generation: session.incarnation.generation, number };
            let event = request(serving, &entry, data.to_vec());
            served.entries.insert(number, entry);
            self.tell(event);
        } else {
            served.entries.insert(number, entry);
            self.on_request_again(it, number, data);
        }
    }

    /// A request that is remembered: a segment that was missing, or one that was sent again.
    fn on_request_again(&mut self, it: &Asked, number: u64, data: &[u8]) {
        let Some(session) = self.peers.get_mut(&it.node).and_then(|peer| peer.session.as_mut())
        else {
            return;
        };
        let Some(entry) = session.served.entries.get_mut(&number) else { return };
        let said = (it.source_core, it.core, it.service, it.method, it.encoded, it.asker);
        let Entry { source_core, core, service, method, encoded, asker, .. } = *entry;
        if said != (source_core, core, service, method, encoded, asker) {
            self.counters.unexpected += 1;
            return;
        }
        match (&mut entry.state, it.segment) {
            (State::Assembling(message), Some(segment)) => {
                let taken = message.take(segment, data);
                if taken == Taken::Contradicts {
                    self.counters.unexpected += 1;
                    return;
                }
                self.counters.duplicates += u64::from(taken == Taken::Known);
                let (is_complete, progress) = (message.is_complete(), message.progress());
                if is_complete || should_acknowledge(message, taken, segment) {
                    self.acknowledge_request(it, progress);
                }
                if is_complete {
                    self.assembled(it.node, number);
                }
            }
            (State::Assembling(_), None) => self.counters.unexpected += 1,
            (State::Working, segment) => {
                self.counters.duplicates += 1;
                let count = segment.map_or(1, |segment| segment.count);
                self.acknowledge_request(it, (count, 0));
            }
            (State::Replied(answer), _) => {
                self.counters.duplicates += 1;
                answer.tries += 1;
                answer.message.resend();
                if !core::mem::replace(&mut answer.is_queued, true) {
                    self.work.push_back(Work::Reply(it.node, number));
                }
            }
        }
    }

    fn acknowledge_request(&mut self, it: &Asked, (segment, bitmap): (u16, u32)) {
        let (node, id, subject) = (it.node, it.id, Subject::Request);
        self.offer(Work::Acknowledge(Acknowledge { node, subject, id, segment, bitmap }));
    }

    /// All segments of a request have come.
    fn assembled(&mut self, node: NodeId, number: u64) {
        let Some(session) = self.peers.get_mut(&node).and_then(|peer| peer.session.as_mut()) else {
            return;
        };
        let generation = session.incarnation.generation;
        let Some(entry) = session.served.entries.get_mut(&number) else { return };
        let State::Assembling(message) = core::mem::replace(&mut entry.state, State::Working)
        else {
            return;
        };
        self.usage.bytes -= message.len();
        let event = request(ServingId { node, generation, number }, entry, message.into_data());
        self.tell(event);
    }

    /// Answers Busy, and sees to it that the call will not be done later either.
    fn refuse(&mut self, it: &Asked, number: u64) {
        if self.usage.remembered >= self.limits.remembered * 2 {
            // Not even that can be remembered: silence is the only answer that is safe.
            self.counters.dropped += 1;
            return;
        }
        self.counters.busy += 1;
        self.with_session(it.node, |served| served.ended.insert(number));
        self.offer(Work::Refusal(Refusal {
            node: it.node,
            id: it.id,
            status: Status::Busy,
            source_core: it.source_core,
            core: it.core,
            service: it.service,
        }));
    }

    /// Changes what is remembered of a peer's calls, and keeps account of how much that is.
    fn with_session(&mut self, node: NodeId, change: impl FnOnce(&mut Served)) {
        let session = self.peers.get_mut(&node).and_then(|peer| peer.session.as_mut());
        if let Some(Session { served, .. }) = session {
            let before = served.size();
            change(served);
            self.usage.remembered = self.usage.remembered + served.size() - before;
        }
    }

    /// A caller says that all its calls before `oldest` have ended.
    fn raise_floor(&mut self, node: NodeId, oldest: u32) {
        let mut released = Vec::new();
        self.with_session(node, |served| {
            let Some(floor) = served.number(oldest) else { return };
            while let Some(entry) = served.entries.first_entry() {
                if *entry.key() >= floor {
                    break;
                }
                released.push(entry.remove_entry());
            }
            served.ended.raise(floor);
        });
        for (number, entry) in released {
            self.release(node, number, &entry);
        }
    }

    /// A caller says that calls have ended.
    pub(crate) fn calls_ended(&mut self, node: NodeId, id: u32, bitmap: u32) {
        let limit = self.limits.remembered * 2;
        let later = (0..32).filter(|bit| bitmap >> bit & 1 != 0).map(|bit| bit + 1);
        for id in core::iter::once(0).chain(later).map(|after| id.wrapping_add(after)) {
            let has_room = self.usage.remembered < limit;
            let mut released = None;
            self.with_session(node, |served| {
                let Some(number) = served.number(id).filter(|_| served.has_begun) else { return };
                released = served.entries.remove(&number).map(|entry| (number, entry));
                if released.is_some() || has_room {
                    served.ended.insert(number);
                }
            });
            if let Some((number, entry)) = released {
                self.release(node, number, &entry);
            }
        }
    }

    /// The peer has segments of a reply.
    pub(crate) fn reply_acknowledged(
        &mut self,
        now: Instant,
        node: NodeId,
        id: u32,
        segment: u16,
        bitmap: u32,
    ) {
        let entry = self.peers.get_mut(&node).and_then(|peer| {
            let session = peer.session.as_mut()?;
            let number = session.served.number(id)?;
            let patience = session.rtt.patience();
            Some((number, patience, session.served.entries.get_mut(&number)?))
        });
        let Some((number, patience, entry)) = entry else { return };
        let State::Replied(answer) = &mut entry.state else {
            self.counters.unexpected += 1;
            return;
        };
        answer.message.acknowledge(segment, bitmap);
        answer.tries = 0;
        let due = (now + patience).min(entry.deadline);
        let timer = Timer::Entry(node, number);
        self.timers.clear(entry.due, timer);
        self.timers.set(due, timer);
        entry.due = due;
        if !core::mem::replace(&mut answer.is_queued, true) {
            self.work.push_back(Work::Reply(node, number));
        }
    }

    /// An entry's timer: its time is over, or its reply is sent again.
    pub(crate) fn entry_due(&mut self, now: Instant, node: NodeId, number: u64) {
        let jitter = self.jitter.next();
        let Some(session) = self.peers.get_mut(&node).and_then(|peer| peer.session.as_mut()) else {
            return;
        };
        let Some(entry) = session.served.entries.get_mut(&number) else { return };
        if let State::Replied(answer) = &mut entry.state
            && now < entry.deadline
        {
            answer.tries += 1;
            answer.message.resend();
            let wait = back_off(session.rtt.patience(), answer.tries, MOST_RETRY, jitter);
            entry.due = (now + wait).min(entry.deadline);
            self.timers.set(entry.due, Timer::Entry(node, number));
            if !core::mem::replace(&mut answer.is_queued, true) {
                self.work.push_back(Work::Reply(node, number));
            }
            return;
        }
        let mut released = None;
        self.with_session(node, |served| {
            released = served.entries.remove(&number);
            served.ended.insert(number);
        });
        if let Some(entry) = released {
            self.release(node, number, &entry);
        }
    }

    /// A call that is remembered no more, except that it is over.
    fn release(&mut self, node: NodeId, number: u64, entry: &Entry) {
        self.timers.clear(entry.due, Timer::Entry(node, number));
        self.usage.bytes -= entry.bytes();
        let session = self.peers.get(&node).and_then(|peer| peer.session.as_ref());
        if let (State::Working, Some(session)) = (&entry.state, session) {
            let generation = session.incarnation.generation;
            self.tell(Event::Cancelled { serving: ServingId { node, generation, number } });
        }
    }

    /// Forgets a session: a peer's incarnation is gone, or nothing of it is needed.
    pub(crate) fn drop_session(&mut self, session: Session) {
        let Session { incarnation, served, partial, sequence, .. } = session;
        let (node, generation) = (incarnation.node, incarnation.generation);
        self.first_sequence = self.first_sequence.max(sequence);
        self.usage.remembered -= served.size();
        for (number, entry) in served.entries {
            self.timers.clear(entry.due, Timer::Entry(node, number));
            self.usage.bytes -= entry.bytes();
            if matches!(entry.state, State::Working) {
                self.tell(Event::Cancelled { serving: ServingId { node, generation, number } });
            }
        }
        for (id, (message, due)) in partial {
            self.timers.clear(due, Timer::Partial(node, id));
            self.usage.bytes -= message.len();
        }
    }
}

fn request(serving: ServingId, entry: &Entry, data: Vec<u8>) -> Event {
    Event::Request {
        serving,
        source_core: entry.source_core,
        core: entry.core,
        service: entry.service,
        method: entry.method,
        encoded: entry.encoded,
        asker: entry.asker,
        deadline: entry.deadline,
        data,
    }
}
