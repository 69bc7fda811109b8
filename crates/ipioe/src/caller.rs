//! The caller's half: calls are sent, sent again, and end once.

use nile_abi::{CoreId, Generation, Instant, NodeId, Status};

use crate::endpoint::Endpoint;
use crate::event::{CallId, End, Event};
use crate::message::{Incoming, Taken};
use crate::peer::Call;
use crate::rtt::back_off;
use crate::settings::{MOST_QUESTION, MOST_RETRY};
use crate::timers::{Timer, Timers};
use crate::transmit::{Acknowledge, Work};
use crate::wire::{Segment, Subject};

/// What a reply's header says.
pub(crate) struct Reply {
    pub node: NodeId,
    pub id: u32,
    pub source_core: CoreId,
    pub core: CoreId,
    pub service: u16,
    pub status: u16,
    pub encoded: bool,
    pub segment: Option<Segment>,
}

/// How many segments come between two acknowledgements.
pub(crate) const SEGMENTS_PER_ACKNOWLEDGE: u32 = 8;

impl Call {
    /// Moves the call's timer, to its deadline at the latest.
    fn set_due(&mut self, timers: &mut Timers, at: Instant, timer: Timer) {
        timers.clear(self.due, timer);
        self.due = at.min(self.deadline);
        timers.set(self.due, timer);
    }
}

impl Endpoint {
    /// Sends a call that waits, if the incarnation that it wants has been met; ends it if that is
    /// gone; else has the peer met.
    pub(crate) fn bind(&mut self, now: Instant, node: NodeId, number: u64) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(call) = peer.calls.get_mut(&number) else { return };
        let lives = peer.session.as_ref().map(|session| session.incarnation.generation);
        match (lives, call.wanted) {
            (Some(lives), Some(wanted)) if wanted < lives => {
                self.end_call(now, node, number, End::Dead);
            }
            (Some(lives), wanted) if wanted.is_none_or(|wanted| wanted == lives) => {
                let patience = peer.session.as_ref().map(|session| session.rtt.patience());
                call.bound = Some(lives);
                let due = now + patience.unwrap_or_default();
                call.set_due(&mut self.timers, due, Timer::Call(node, number));
                self.queue_request(node, number);
            }
            _ => self.greet(now, node),
        }
    }

    /// Takes a call out. Its callee will be told, if it may know of it.
    pub(crate) fn forget_call(&mut self, now: Instant, node: NodeId, number: u64) -> Option<Call> {
        let peer = self.peers.get_mut(&node)?;
        let call = peer.calls.remove(&number)?;
        self.timers.clear(call.due, Timer::Call(node, number));
        self.usage.calls -= 1;
        self.usage.bytes -= call.reply.as_ref().map_or(0, |(_, _, reply)| reply.len());
        let lives = peer.session.as_ref().map(|session| session.incarnation.generation);
        if call.sent.is_some() && call.bound == lives {
            let place = peer.untold.partition_point(|other| *other < number);
            peer.untold.insert(place, number);
            if !core::mem::replace(&mut peer.is_telling, true) {
                self.plan_telling(now, node);
            }
        }
        Some(call)
    }

    /// Ends a call, unless it has ended.
    pub(crate) fn end_call(&mut self, now: Instant, node: NodeId, number: u64, end: End) {
        if self.forget_call(now, node, number).is_some() {
            self.tell(Event::Ended { call: CallId { node, number }, end });
        }
    }

    /// An incarnation is gone, and with it the calls that it was sent.
    pub(crate) fn end_calls_to(&mut self, now: Instant, node: NodeId, gone: Generation) {
        let Some(peer) = self.peers.get(&node) else { return };
        let lost = peer.calls.iter().filter(|(_, call)| call.bound == Some(gone));
        let lost: alloc::vec::Vec<u64> = lost.map(|(number, _)| *number).collect();
        for number in lost {
            self.end_call(now, node, number, End::Dead);
        }
    }

    /// A call's timer: its time is over, or it is sent again.
    pub(crate) fn call_due(&mut self, now: Instant, node: NodeId, number: u64) {
        let jitter = self.jitter.next();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        let Some(call) = peer.calls.get_mut(&number) else { return };
        if now >= call.deadline {
            return self.end_call(now, node, number, End::TimedOut);
        }
        let Some(session) = &peer.session else { return };
        let first = session.rtt.patience();
        call.tries += 1;
        call.was_resent = true;
        let most = if call.message.is_complete() {
            call.message.ask();
            MOST_QUESTION
        } else {
            call.message.resend();
            MOST_RETRY
        };
        let wait = back_off(first, call.tries, most, jitter);
        call.set_due(&mut self.timers, now + wait, Timer::Call(node, number));
        self.queue_request(node, number);
    }

    /// The peer has segments of a request.
    pub(crate) fn request_acknowledged(
        &mut self,
        now: Instant,
        node: NodeId,
        id: u32,
        segment: u16,
        bitmap: u32,
    ) {
        let call = self.peers.get_mut(&node).and_then(|peer| {
            let number = peer.number(id)?;
            Some((number, peer.session.as_ref()?.rtt.patience(), peer.calls.get_mut(&number)?))
        });
        let Some((number, patience, call)) = call else {
            self.counters.late += 1;
            return;
        };
        call.message.acknowledge(segment, bitmap);
        if call.message.is_complete() {
            // The callee works: from now on it is only asked whether it has an answer.
            let wait = back_off(patience, call.tries + 1, MOST_QUESTION, 25);
            call.set_due(&mut self.timers, now + wait, Timer::Call(node, number));
        } else {
            call.tries = 0;
            call.set_due(&mut self.timers, now + patience, Timer::Call(node, number));
            self.queue_request(node, number);
        }
    }

    /// A reply came, or a segment of one.
    pub(crate) fn on_reply(&mut self, now: Instant, it: &Reply, data: &[u8]) {
        let Some(peer) = self.peers.get_mut(&it.node) else { return };
        let number = peer.number(it.id);
        let call = number.and_then(|number| Some((number, peer.calls.get_mut(&number)?)));
        let Some((number, call)) = call else {
            self.counters.late += 1;
            self.say_ended(it.node, it.id);
            return;
        };
        let lives = peer.session.as_ref().map(|session| session.incarnation.generation);
        let same = (it.source_core, it.core, it.service);
        let status = Status::from_code(it.status);
        let (Some(status), true) =
            (status, call.bound == lives && same == (call.core, call.source_core, call.service))
        else {
            self.counters.unexpected += 1;
            return;
        };
        let Some(segment) = it.segment else {
            if let (Some(session), Some(sent), false) =
                (&mut peer.session, call.sent, call.was_resent)
            {
                session.rtt.sample(now.since(sent));
            }
            let end = End::Answered { status, encoded: it.encoded, data: data.to_vec() };
            return self.end_call(now, it.node, number, end);
        };

        if call.reply.is_none() {
            let bytes = self.usage.bytes + segment.total as usize;
            let Some(reply) =
                Incoming::new(segment, data.len()).filter(|_| bytes <= self.limits.bytes)
            else {
                self.counters.dropped += 1;
                return;
            };
            self.usage.bytes = bytes;
            call.reply = Some((status, it.encoded, reply));
            // The whole request has come, or there would be no reply.
            call.message.acknowledge_all();
        }
        let Some((first_status, encoded, reply)) = &mut call.reply else { return };
        let taken = if (*first_status, *encoded) == (status, it.encoded) {
            reply.take(segment, data)
        } else {
            Taken::Contradicts
        };
        if taken == Taken::Contradicts {
            self.counters.unexpected += 1;
            return;
        }
        if !reply.is_complete() {
            if should_acknowledge(reply, taken, segment) {
                let (segment, bitmap) = reply.progress();
                let (node, id, subject) = (it.node, it.id, Subject::Reply);
                self.offer(Work::Acknowledge(Acknowledge { node, subject, id, segment, bitmap }));
            }
            return;
        }
        let encoded = *encoded;
        let Some(mut call) = self.forget_call(now, it.node, number) else { return };
        let Some((_, _, reply)) = call.reply.take() else { return };
        let end = End::Answered { status, encoded, data: reply.into_data() };
        self.tell(Event::Ended { call: CallId { node: it.node, number }, end });
        self.say_ended(it.node, it.id);
    }

    /// Tells a callee at once that a call has ended.
    fn say_ended(&mut self, node: NodeId, id: u32) {
        let subject = Subject::Ended;
        self.offer(Work::Acknowledge(Acknowledge { node, subject, id, segment: 0, bitmap: 0 }));
    }

    /// Tells a callee which calls have ended and have not been told.
    pub(crate) fn tell_ended(&mut self, node: NodeId) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.is_telling = false;
        let mut untold = core::mem::take(&mut peer.untold).into_iter().peekable();
        while let Some(first) = untold.next() {
            let mut bitmap = 0;
            while let Some(next) = untold.next_if(|next| next - first <= 32) {
                bitmap |= 1 << (next - first - 1);
            }
            let (id, subject) = (first as u32, Subject::Ended);
            self.offer(Work::Acknowledge(Acknowledge { node, subject, id, segment: 0, bitmap }));
        }
    }
}

/// Whether the sender of a message should now hear what has come of it.
pub(crate) fn should_acknowledge(message: &Incoming, taken: Taken, segment: Segment) -> bool {
    taken == Taken::Known
        || segment.index + 1 == segment.count
        || message.received().is_multiple_of(SEGMENTS_PER_ACKNOWLEDGE)
}
