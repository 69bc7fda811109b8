//! A policy that is decided elsewhere, ahead: by a package, which says in what order subjects have
//! their next turns. Nobody waits for it. Where the order is at its end, whatever has been ready
//! longest runs; so one that is slow, or dead, harms nobody. One that names a subject which was
//! never its own does wrong, which counts against the policy as any wrong answer.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use nile_abi::Instant;

use crate::{Answer, Parameters, Ran, Ready, Refusal, SLICE, Scheduling, Subject, Token};

/// The most turns that an order has; what follows is left out.
const MOST_TURNS: usize = 256;

/// A subject as whoever makes the order is told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Load {
    /// Which it is.
    pub subject: Subject,
    /// How much of it is ready.
    pub ready: u32,
    /// How long it has run since it was bound.
    pub had: Duration,
}

/// What the policy and whoever makes its order have in common.
#[derive(Default)]
pub struct Plan(RefCell<State>);

#[derive(Default)]
struct State {
    subjects: Vec<(Subject, Duration)>,
    /// Oldest first.
    ready: Vec<Ready>,
    /// Who has the next turns, the last one first.
    order: Vec<Subject>,
    /// Wrong orders that the policy has yet to answer for.
    wrong: u32,
    /// What had the last turn, which is no answer any more.
    last: Option<Token>,
    /// Whether a turn was given since an order was last asked for.
    is_used: bool,
    waker: Option<Waker>,
}

impl Plan {
    /// Pending until the order is used up by half, and turns were given since it was asked for:
    /// then it is time for another one, for these.
    pub fn poll_wanted(&self, context: &mut Context<'_>) -> Poll<Vec<Load>> {
        let mut state = self.0.borrow_mut();
        if !state.is_used || state.order.len() > MOST_TURNS / 2 {
            state.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.is_used = false;
        let ready = |subject| state.ready.iter().filter(|it| it.subject == subject).count();
        let load = |&(subject, had): &(Subject, Duration)| Load {
            subject,
            ready: u32::try_from(ready(subject)).unwrap_or(u32::MAX),
            had,
        };
        Poll::Ready(state.subjects.iter().map(load).collect())
    }

    /// The order of the next turns, in place of what is left of the one before.
    pub fn give(&self, order: impl IntoIterator<Item = Subject>) {
        let mut state = self.0.borrow_mut();
        let mut order: Vec<Subject> = order.into_iter().take(MOST_TURNS).collect();
        order.reverse();
        let is_its = |it: &Subject| state.subjects.iter().any(|(subject, _)| subject == it);
        match order.iter().all(is_its) {
            true => state.order = order,
            false => state.wrong += 1,
        }
    }
}

/// A policy whose order is made elsewhere.
pub struct Ahead(Rc<Plan>);

impl Ahead {
    /// One that has turns in the order that the plan is given.
    pub fn new(plan: Rc<Plan>) -> Ahead {
        Ahead(plan)
    }
}

impl Scheduling for Ahead {
    fn admit(&mut self, subject: Subject, _: &Parameters, _: Instant) -> Result<(), Refusal> {
        let mut state = self.0.0.borrow_mut();
        if state.subjects.iter().all(|(known, _)| *known != subject) {
            state.subjects.push((subject, Duration::ZERO));
        }
        Ok(())
    }

    fn leave(&mut self, subject: Subject) {
        let mut state = self.0.0.borrow_mut();
        state.subjects.retain(|(known, _)| *known != subject);
        state.order.retain(|known| *known != subject);
    }

    fn enqueue(&mut self, it: &Ready) {
        self.0.0.borrow_mut().ready.push(*it);
    }

    fn dequeue(&mut self, it: &Ready) {
        self.0.0.borrow_mut().ready.retain(|ready| ready.token != it.token);
    }

    fn next(&mut self, _: Instant) -> Option<Answer> {
        let mut state = self.0.0.borrow_mut();
        if state.wrong > 0 {
            state.wrong -= 1;
            return state.last.map(|token| Answer::Run(token, None));
        }
        let mut place = None;
        while place.is_none()
            && let Some(subject) = state.order.pop()
        {
            place = state.ready.iter().position(|it| it.subject == subject);
        }
        if state.ready.is_empty() {
            return None;
        }
        let next = state.ready.remove(place.unwrap_or(0));
        state.is_used = true;
        // Woken while the policy decides, which only puts somebody on a list.
        let waker = if state.order.len() <= MOST_TURNS / 2 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Some(Answer::Run(next.token, Some(SLICE)))
    }

    fn ran(&mut self, it: &Ran) {
        let mut state = self.0.0.borrow_mut();
        state.last = Some(it.token);
        if let Some((_, had)) = state.subjects.iter_mut().find(|(known, _)| *known == it.subject) {
            *had += it.span;
        }
    }
}
