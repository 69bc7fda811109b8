//! The calls that this core made to others and that have not ended: each ends once, by a reply,
//! by [`Status::Dead`] or [`Status::Panicked`] when its callee is gone, or by [`Status::Timeout`].

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use nile_abi::{CoreId, Generation, Instant, Status};
use nile_order::SortedSet;
use nile_ring::{Message, Request, RequestId, Requests};
use nile_sync::OneShot;

use crate::frame::{CallId, Header};
use crate::host::Host;
use crate::{CallError, CallResult};

/// Calls that one core may have unanswered.
const MOST_CALLS: u32 = 1 << 16;

/// Where a call's end is left for the task that waits for it.
type Answer = OneShot<CallResult<Vec<u8>>>;

/// A call that waits.
struct Waiting {
    callee: CoreId,
    answer: Answer,
}

/// The table of unanswered calls.
pub(crate) struct Calls {
    table: RefCell<Requests<Waiting>>,
    /// When sweeps for expired calls are due: each is a task that waits, so none is planned that
    /// would not be the first.
    sweeps: RefCell<SortedSet<Instant>>,
}

/// The end of time: when what has no deadline is over.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls { table: RefCell::new(Requests::up_to(MOST_CALLS)), sweeps: RefCell::default() }
    }

    /// Notes a call to an incarnation of `callee`. `Busy` if too many wait.
    pub(crate) fn begin(
        self: &Rc<Self>,
        host: &Rc<dyn Host>,
        callee: CoreId,
        generation: Generation,
        deadline: Instant,
    ) -> CallResult<Call> {
        let answer = Answer::default();
        let waiting = Waiting { callee, answer: answer.clone() };
        let id = self.table.borrow_mut().issue(|id| Request {
            peer: generation,
            message: Message::new(0, &id.to_bits().to_le_bytes()).expect("eight bytes fit a cell"),
            deadline,
            context: waiting,
        });
        match id {
            Ok(id) => Ok(Call { calls: self.clone(), host: host.clone(), callee, id, answer }),
            Err(_) => Err(CallError::new(Status::Busy, "too many calls wait for their end")),
        }
    }

    /// Whether a sweep has to be planned for a call with this deadline, because none will come
    /// before it.
    pub(crate) fn plan_sweep(&self, deadline: Instant) -> bool {
        let mut sweeps = self.sweeps.borrow_mut();
        let is_first = deadline < sweeps.first().copied().unwrap_or(NEVER);
        is_first && sweeps.insert(deadline)
    }

    /// The sweep that was `due` now: ends what has expired, and tells each callee that nobody waits
    /// any more.
    pub(crate) fn sweep(&self, host: &dyn Host, due: Instant) {
        self.sweeps.borrow_mut().remove(&due);
        let now = host.now();
        let mut expired = Vec::new();
        expired.extend(self.table.borrow_mut().expired(now));
        for Request { message, context: Waiting { callee, answer }, .. } in expired {
            let id = message.payload().try_into().map_or(0, u64::from_le_bytes);
            // A callee that cannot be reached works for nobody anyway.
            let cancel = Header::Cancel { id: CallId(id), caller: host.generation() };
            let _ = host.send(callee, &cancel, &[]);
            answer.give(Err(CallError::new(Status::Timeout, "no answer before the deadline")));
        }
    }

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.table.borrow().len()
    }

    /// When the next call expires, if one waits.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.table.borrow().next_deadline()
    }

    /// A reply came.
    pub(crate) fn end(&self, id: CallId, result: CallResult<Vec<u8>>) {
        let waiting = self.table.borrow_mut().complete(RequestId::from_bits(id.0));
        // A reply that is late finds nothing.
        if let Some(waiting) = waiting {
            waiting.answer.give(result);
        }
    }

    /// Every call to `callee` ends that is to its incarnation `last` or to one before: as `why`
    /// says, which is asked about each, and told whom it is to.
    pub(crate) fn end_all(
        &self,
        callee: CoreId,
        last: Generation,
        why: impl Fn(CallId, Generation) -> CallError,
    ) {
        let mut ended = Vec::new();
        let is_over = |call: &Request<Waiting>| call.context.callee == callee && call.peer <= last;
        ended.extend(self.table.borrow_mut().take_if(is_over));
        for Request { message, peer, context: Waiting { answer, .. }, .. } in ended {
            let id = message.payload().try_into().map_or(0, u64::from_le_bytes);
            answer.give(Err(why(CallId(id), peer)));
        }
    }
}

/// A call that was made. As a future it gives the call's end; dropped before that, it cancels it.
pub(crate) struct Call {
    calls: Rc<Calls>,
    host: Rc<dyn Host>,
    callee: CoreId,
    id: RequestId,
    answer: Answer,
}

impl Call {
    pub(crate) fn id(&self) -> CallId {
        CallId(self.id.to_bits())
    }

    /// Forgets the call, which was never sent.
    pub(crate) fn forget(self) {
        self.calls.table.borrow_mut().complete(self.id);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.calls.table.borrow_mut().complete(self.id).is_some() {
            // A callee that cannot be reached works for nobody anyway.
            let cancel = Header::Cancel { id: self.id(), caller: self.host.generation() };
            let _ = self.host.send(self.callee, &cancel, &[]);
        }
    }
}

impl Future for Call {
    type Output = CallResult<Vec<u8>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.answer.poll_take(context)
    }
}
