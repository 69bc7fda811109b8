//! Packages of a core that lend it to each other. One that wakes a neighbour by a channel, or waits
//! while a neighbour is ready, would else make way for a pass of the core's loop, which polls the
//! task of the other. Instead the task that has the core goes on with the turns of both.
//!
//! What is *lent* is a package whose task waits for what a neighbour does. While it is, it *rests*
//! in a `wait` until a neighbour wakes it, or is *ready* for its next turn. All of that happens in
//! one poll of one task, the lender's, in which nobody else has the core. When that ends, each
//! package is with its own task again, which goes on as if it had taken those turns itself.
//!
//! The lender makes way when its slice is over, a turn was interrupted, a timer is due, or anything
//! else on this core has work. So nothing waits for longer than it does for a package that makes
//! system calls. What needs more than the two packages, and every fault, is for the package's own
//! task. Where a policy decides who is next nothing is lent.
//!
//! Calls that ask for nothing but the time are answered on that way, too.

use core::cell::{Cell, RefCell};
use core::task::Context;

use nile_abi::call::{Answer, SystemCall, UserSlot};
use nile_abi::{ChannelId, Instant, Status};
use nile_platform::user::{Ask, Exit};
use nile_platform::{Hosting, Machine, User};
use nile_sync::Waiter;

use super::turns::{CALLS_PER_PASS, has_work};
use super::{Package, Running};

/// How turns have left a package with its own task.
#[derive(Clone, Copy)]
pub(super) enum Left {
    /// Ready for its next turn, which begins with this answer.
    Ready(Answer),
    /// The last one has ended so.
    Exit(Exit),
    /// It has no memory to run in.
    Gone,
}

/// Where a package stands that does not run.
#[derive(Clone, Copy, Default)]
enum Standing {
    /// Its own task has it.
    #[default]
    Own,
    /// Its own task has it, and waits to answer this call.
    Waits(Ask),
    /// It is lent, and waits by this call.
    Rests(Ask),
    /// It is lent, and to be given back so.
    Lent(Left),
}

/// What a package is lent by.
#[derive(Default)]
pub(super) struct Lending {
    standing: Cell<Standing>,
    /// Its task, which waits to have it back.
    owner: Waiter,
    /// Whether it has made a call that its task does not know of.
    has_called: Cell<bool>,
}

impl Lending {
    /// The package's task waits to answer `ask`; a neighbour's may do so before.
    pub fn wait(&self, ask: Ask) {
        self.standing.set(Standing::Waits(ask));
    }

    /// The package's task waits no more.
    pub fn keep(&self) {
        self.standing.set(Standing::Own);
        self.owner.forget();
    }

    /// How the package was left, if it was lent; else the task of `context` waits for that, too.
    pub fn take_back(&self, context: &mut Context<'_>) -> Option<Left> {
        match self.standing.get() {
            Standing::Own => None,
            Standing::Waits(_) => {
                self.owner.wait(context.waker());
                None
            }
            _ => Some(self.left()),
        }
    }

    /// How the package was left that was lent.
    fn left(&self) -> Left {
        match self.standing.take() {
            Standing::Lent(left) => left,
            Standing::Rests(ask) | Standing::Waits(ask) => Left::Exit(Exit::Call(ask)),
            Standing::Own => Left::Gone,
        }
    }

    /// Whether it has made a call of which its task does not know; once.
    pub fn has_called(&self) -> bool {
        self.has_called.take()
    }
}

/// The packages of a core that have turns, by their slots.
pub(crate) struct Neighbours<M: Machine>(RefCell<[Option<Package<M>>; UserSlot::COUNT]>);

impl<M: Machine> Default for Neighbours<M> {
    fn default() -> Neighbours<M> {
        Neighbours(RefCell::default())
    }
}

impl<M: Machine> Neighbours<M> {
    fn at(&self, slot: UserSlot) -> Option<Package<M>> {
        self.0.borrow()[slot.index()].clone()
    }

    /// The first that is lent and ready of those behind `slot`, in a circle, and its answer.
    fn ready_behind(&self, slot: UserSlot) -> Option<(Package<M>, Answer)> {
        let all = self.0.borrow();
        let (before, behind) = all.split_at(slot.index());
        let mut others = behind.iter().chain(before).flatten().filter(|it| !it.is_stopped());
        others.find_map(|it| match it.0.lending.standing.get() {
            Standing::Lent(Left::Ready(answer)) => Some((it.clone(), answer)),
            _ => None,
        })
    }

    /// Has the tasks of all that are lent go on with them.
    fn give_back(&self) {
        for package in self.0.borrow().iter().flatten() {
            let Lending { standing, owner, .. } = &package.0.lending;
            if matches!(standing.get(), Standing::Rests(_) | Standing::Lent(_)) {
                owner.wake();
            }
        }
    }
}

/// A package is among its core's neighbours as long as this is there.
pub(super) struct Present<'a, M: Machine>(&'a Package<M>);

impl<M: Machine> Present<'_, M> {
    pub fn new(package: &Package<M>) -> Present<'_, M> {
        let all = &package.0.core.neighbours.0;
        all.borrow_mut()[package.slot().index()] = Some(package.clone());
        Present(package)
    }
}

impl<M: Machine> Drop for Present<'_, M> {
    fn drop(&mut self) {
        let all = &self.0.0.core.neighbours.0;
        all.borrow_mut()[self.0.slot().index()] = None;
    }
}

/// Whose turn follows a call that was answered at once, and with what answer.
enum Next<M: Machine> {
    Same(Answer),
    Other(Package<M>, Answer),
}

impl<M: Machine> Package<M> {
    /// Takes a turn of this package and, as long as nobody else is to have the core, those that
    /// follow: its own, and its neighbours'. Counts the calls that it answers.
    pub(super) fn take_stretch(
        &self,
        mut answer: Answer,
        until: Option<Instant>,
        calls: &mut u32,
    ) -> Left {
        let core = &self.0.core;
        let mut lent: Option<Package<M>> = None;
        let left = loop {
            let on = lent.as_ref().unwrap_or(self);
            let Ok(exit) = on.turn(answer, until) else { break Left::Gone };
            let next = match exit {
                Exit::Call(ask) => on.answer_at_once(ask, until),
                _ => None,
            };
            let Some(next) = next else { break Left::Exit(exit) };
            answer = match next {
                Next::Same(answer) => answer,
                Next::Other(other, answer) => {
                    on.let_go(&other);
                    other.0.lending.standing.set(Standing::Own);
                    lent = Some(other);
                    answer
                }
            };
            *calls += 1;
            let is_over = *calls >= CALLS_PER_PASS || until.is_some_and(|it| it <= core.now());
            if is_over || has_work(core) {
                break Left::Ready(answer);
            }
        };
        let Some(last) = lent else { return left };
        last.0.lending.standing.set(Standing::Lent(left));
        if last.slot() != self.slot() {
            last.let_go(self);
        }
        let left = self.0.lending.left();
        core.neighbours.give_back();
        left
    }

    #[inline]
    fn turn(&self, answer: Answer, until: Option<Instant>) -> Result<Exit, Status> {
        let core = &self.0.core;
        let record = core.machine.board().record(core.id());
        record.set_hosting(Hosting::Turn);
        let exit = self.0.space.with_user(|user| user.run(answer, until));
        record.set_hosting(Hosting::Package);
        exit
    }

    /// Answers a call that needs no task: one that asks for nothing but the time, or after which a
    /// neighbour may have the core.
    fn answer_at_once(&self, ask: Ask, until: Option<Instant>) -> Option<Next<M>> {
        let Running { core, calls, lending, counters, .. } = &*self.0;
        let call = SystemCall::from_number(ask.number)?;
        let next = match call {
            SystemCall::Nothing => Next::Same(Answer::ok(ask.word)),
            SystemCall::Now => Next::Same(Answer::ok(core.now().as_nanos())),
            SystemCall::Wake if self.lends() => {
                let channel = u32::try_from(ask.word).ok()?;
                let woken = core.neighbours.at(calls.wake_neighbour(ChannelId(channel))?)?;
                self.give_way(woken)?
            }
            SystemCall::Wait if self.lends() && calls.waits_for_channels() => {
                match calls.next_of_channels() {
                    Some(event) => Next::Same(Answer::ok(event)),
                    // Its task has a timer for what is due before.
                    None if until.is_none_or(|until| until.as_nanos() > ask.word) => return None,
                    None => {
                        let (other, answer) = core.neighbours.ready_behind(self.slot())?;
                        lending.standing.set(Standing::Rests(ask));
                        Next::Other(other, answer)
                    }
                }
            }
            _ => return None,
        };
        core.machine.board().record(core.id()).count_system_call();
        counters.count(call);
        lending.has_called.set(true);
        Some(next)
    }

    /// Whether it has neighbours that it lends the core.
    fn lends(&self) -> bool {
        let core = &self.0.core;
        core.client.packages() > 1 && !core.executor.is_bound()
    }

    /// Whether it is to have no turn any more.
    fn is_stopped(&self) -> bool {
        self.0.control.stopped.is_raised()
    }

    /// Lends `woken`, for which something is noted, if it waits. `None` if its own task is to look:
    /// it waits for more than channels, or is to end.
    fn give_way(&self, woken: Package<M>) -> Option<Next<M>> {
        if woken.is_stopped() {
            return None;
        }
        let done = Answer::ok(0);
        if !matches!(woken.0.lending.standing.get(), Standing::Waits(_) | Standing::Rests(_)) {
            return Some(Next::Same(done));
        }
        let its = &woken.0.calls;
        let event = if its.waits_for_channels() { its.next_of_channels() } else { None };
        let answer = Answer::ok(event?);
        self.0.lending.standing.set(Standing::Lent(Left::Ready(done)));
        Some(Next::Other(woken, answer))
    }

    /// A neighbour has the core from now on.
    fn let_go(&self, other: &Package<M>) {
        let now = self.0.core.now();
        self.0.counters.stop(now);
        other.0.counters.start(now);
    }
}
