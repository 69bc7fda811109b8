//! A plan that is carried out and watched, and made anew.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_bosml::schema::{Callers, Method};
use nile_registry::Composed;
use nile_stl::{
    CallError, CallResult, Composite, LocalFuture, MethodNumber, Parts, Place, Stl, is_failure,
};
use nile_synthesis::{Goal, SynthesisError, synthesize};

use crate::contract::{Contract, Watch};
use crate::offers::{Found, Offers};
use crate::pace::Pace;

/// So long a place whose part failed is in no plan.
const SHUNNED_FOR: Duration = Duration::from_secs(2);

/// So long a place counts as slow that took fewer calls than promised: as long as the registry
/// remembers what it was told of a latency.
const SLOW_FOR: Duration = Duration::from_secs(10);

/// Plans by which one call is tried.
const MOST_PLANS: u32 = 4;

/// A call of a plan, and who is called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The service.
    pub service: String,
    /// The method.
    pub method: String,
    /// The instance.
    pub place: Place,
    number: MethodNumber,
}

/// What the calls of a part took since the last span of the pace was over.
struct Spent {
    calls: Cell<u64>,
    took_ns: Cell<u64>,
    /// The quickest call of all.
    quickest_ns: Cell<u64>,
}

impl Spent {
    fn nothing() -> Spent {
        let (calls, took_ns) = Default::default();
        Spent { calls, took_ns, quickest_ns: Cell::new(u64::MAX) }
    }

    fn note(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.calls.set(self.calls.get() + 1);
        self.took_ns.set(self.took_ns.get().saturating_add(took_ns));
        self.quickest_ns.set(self.quickest_ns.get().min(took_ns));
    }

    /// How long its calls have waited for each other.
    fn waited_ns(&self) -> u64 {
        let least = self.quickest_ns.get().saturating_mul(self.calls.get());
        self.took_ns.get().saturating_sub(least)
    }

    fn forget(&self) {
        self.calls.set(0);
        self.took_ns.set(0);
    }
}

/// A plan, as it was made.
struct Running {
    composite: Composite,
    parts: Vec<Part>,
    /// Of each part.
    spent: Vec<Spent>,
    planned_ns: u64,
    contract: Contract,
    watch: Watch,
    pace: Pace,
}

impl Running {
    fn nothing_better(&self) {
        self.watch.nothing_better();
        self.pace.nothing_better();
    }
}

/// A composite that was planned for a goal, and is again when it gets worse.
pub struct Synthesized {
    stl: Stl,
    name: String,
    goal: Goal,
    running: RefCell<Rc<Running>>,
    /// Whose calls failed, and until when they are in no plan.
    shunned: RefCell<Vec<(Place, Instant)>>,
    /// Who took so many calls in a second, fewer than promised, and until when that is believed.
    slow: RefCell<Vec<(Place, u64, Instant)>>,
    /// Whether the plan is made anew beside the calls.
    is_planning: Cell<bool>,
    plans: Cell<u32>,
    calls: Cell<u64>,
    /// Who calls it, besides the kernels of this node.
    callers: Cell<Callers>,
}

impl Synthesized {
    /// See [`Synthesize`](crate::Synthesize).
    pub(crate) fn plan(
        stl: Stl,
        name: String,
        mut goal: Goal,
    ) -> LocalFuture<'static, CallResult<Rc<Synthesized>>> {
        Box::pin(async move {
            let running = planned(&stl, &name, &goal, &Found::default()).await?;
            // Later plans take and give the same.
            let composed = running.composite.composed();
            let types = |values: &mut [nile_synthesis::Value], of: &[_]| {
                for (value, it) in values.iter_mut().zip(of) {
                    let it: &nile_bosml::schema::Parameter<'static> = it;
                    value.ty = Some(it.ty.clone());
                }
            };
            types(&mut goal.given, composed.parameters());
            types(&mut goal.wanted, composed.reply());
            let running = RefCell::new(Rc::new(running));
            Ok(Rc::new(Synthesized {
                stl,
                name,
                goal,
                running,
                shunned: RefCell::default(),
                slow: RefCell::default(),
                is_planning: Cell::new(false),
                plans: Cell::new(1),
                calls: Cell::default(),
                callers: Cell::new(Callers::NONE),
            }))
        })
    }

    /// What is found in what it is now; it takes and gives the same by each plan.
    pub fn composed<T>(&self, of: impl FnOnce(&Composed) -> T) -> T {
        of(self.running.borrow().composite.composed())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn stl(&self) -> &Stl {
        &self.stl
    }

    /// From now on all parts are methods that these may call.
    pub(crate) fn open_to(&self, callers: Callers) {
        self.callers.set(callers);
    }

    /// What is called now.
    pub fn parts(&self) -> Vec<Part> {
        self.running.borrow().parts.clone()
    }

    /// What is promised now.
    pub fn contract(&self) -> Contract {
        self.running.borrow().contract
    }

    /// What the plan says that a call takes, in nanoseconds.
    pub fn planned_ns(&self) -> u64 {
        self.running.borrow().planned_ns
    }

    /// Plans that it has had.
    pub fn plans(&self) -> u32 {
        self.plans.get()
    }

    /// Calls of it that have begun.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Calls it: arguments are encoded as its parameters, the reply as its reply. A call whose part
    /// fails is made again by another plan, as long as there is one and the deadline has not come.
    /// Dropping the future cancels the calls of the parts. Fails as the last part that fails.
    pub async fn call(self: &Rc<Self>, deadline: Instant, arguments: &[u8]) -> CallResult<Vec<u8>> {
        let host = self.stl.host();
        self.calls.set(self.calls.get() + 1);
        for tried in 1.. {
            let running = self.running.borrow().clone();
            let placed = Placed { stl: &self.stl, running: &running, failed: Cell::new(None) };
            let begun = host.now();
            let error = match running.composite.call(&placed, deadline, arguments).await {
                Ok(reply) => {
                    self.judge(&running, begun);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            // Else what was asked is wrong, not who was.
            let Some(place) = placed.failed.take() else { return Err(error) };
            self.shun(place);
            if tried == MOST_PLANS || host.now() >= deadline {
                self.plan_later(&running, Why::Failed(error.clone()));
                return Err(error);
            }
            if self.plan_anew(&running, Why::Failed(error.clone())).await.is_err() {
                return Err(error);
            }
        }
        Err(CallError::from(Status::Failed))
    }

    fn judge(self: &Rc<Self>, running: &Rc<Running>, begun: Instant) {
        let now = self.stl.host().now();
        let took = now.since(begun);
        let ends_span = running.pace.ends_span();
        if let Some(per_second) = running.pace.note(now, took) {
            // Calls wait for the part that takes the fewest.
            let parts = running.parts.iter().zip(&running.spent);
            if let Some((part, _)) = parts.max_by_key(|(_, spent)| spent.waited_ns()) {
                let mut slow = self.slow.borrow_mut();
                slow.retain(|(place, _, until)| *place != part.place && *until > now);
                slow.push((part.place, per_second, now + SLOW_FOR));
            }
            self.plan_later(running, Why::Slow(per_second));
        }
        if ends_span {
            running.spent.iter().for_each(Spent::forget);
        }
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if let Some(least_ns) = running.watch.note(took_ns) {
            self.plan_later(running, Why::Late(least_ns));
        }
    }

    fn shun(&self, place: Place) {
        let now = self.stl.host().now();
        let mut shunned = self.shunned.borrow_mut();
        shunned.retain(|(it, until)| *it != place && *until > now);
        shunned.push((place, now + SHUNNED_FOR));
    }

    /// What it has found of late of those who can be parts.
    fn found(&self) -> Found {
        let now = self.stl.host().now();
        let shunned = self.shunned.borrow();
        let shunned = shunned.iter().filter(|(_, until)| *until > now).map(|(it, _)| *it);
        let slow = self.slow.borrow();
        let slow = slow.iter().filter(|(.., until)| *until > now).map(|(it, most, _)| (*it, *most));
        let callers = self.callers.get();
        Found { shunned: shunned.collect(), slow: slow.collect(), callers }
    }

    /// Plans beside the calls.
    fn plan_later(self: &Rc<Self>, old: &Rc<Running>, why: Why) {
        if self.is_planning.replace(true) {
            return;
        }
        let (this, old) = (self.clone(), old.clone());
        self.stl.host().spawn(Box::pin(async move {
            // That there is no other plan was logged; the one that there is stays.
            let _ = this.plan_anew(&old, why).await;
            this.is_planning.set(false);
        }));
    }

    /// Makes a plan in place of `old`, if nobody else has.
    async fn plan_anew(&self, old: &Rc<Running>, why: Why) -> CallResult<()> {
        let is_old = || Rc::ptr_eq(&self.running.borrow(), old);
        if !is_old() {
            return Ok(());
        }
        let mut found = self.found();
        let mut goal = self.goal.clone();
        if let Why::Slow(_) = why {
            // Who is as slow is no better.
            goal.least_per_second = Some(old.contract.per_second);
        }
        let mut new = planned(&self.stl, &self.name, &goal, &found).await;
        let fails = matches!(why, Why::Failed(_));
        if fails && new.as_ref().is_err_and(|error| error.status == Status::NotFound) {
            // Rather late than never, and rather by who failed before than by nobody.
            goal.most_latency_ns = None;
            found.shunned.drain(..found.shunned.len().saturating_sub(1));
            found.slow.clear();
            new = planned(&self.stl, &self.name, &goal, &found).await;
        }
        if !is_old() {
            return Ok(());
        }
        let log = |what: &str| {
            self.stl.host().log(format_args!("composite {}: {why}; {what}", self.name));
        };
        let is_worth = |new: &Running| match why {
            Why::Failed(_) | Why::Slow(_) => true,
            Why::Late(now_ns) => Watch::is_worth(new.planned_ns, now_ns),
        };
        match new {
            Ok(new) if new.parts != old.parts && is_worth(&new) => {
                log(&format!("now {new}"));
                self.plans.set(self.plans.get() + 1);
                *self.running.borrow_mut() = Rc::new(new);
                Ok(())
            }
            Ok(_) => {
                old.nothing_better();
                log("there is nothing better");
                Ok(())
            }
            Err(error) => {
                old.nothing_better();
                log(&format!("there is no other plan: {error}"));
                Err(error)
            }
        }
    }
}

/// Why a plan is made anew.
enum Why {
    Failed(CallError),
    /// Calls take at least so many nanoseconds.
    Late(u64),
    /// So many calls are over in a second at most, and more wait.
    Slow(u64),
}

impl core::fmt::Display for Why {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Why::Failed(error) => write!(f, "{error}"),
            Why::Slow(most) => write!(f, "{most} calls in a second, not what was promised"),
            Why::Late(least) => write!(f, "calls take {} us, not what was promised", least / 1000),
        }
    }
}

impl core::fmt::Display for Running {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for Part { service, method, place, .. } in &self.parts {
            write!(f, "{service}.{method} on ")?;
            match place.is_here() {
                true => write!(f, "core {}, ", place.core)?,
                false => write!(f, "core {} of {}, ", place.core, place.node)?,
            }
        }
        write!(f, "{}", self.contract)
    }
}

/// The best plan for a goal, by what was found.
async fn planned(stl: &Stl, name: &str, goal: &Goal, found: &Found) -> CallResult<Running> {
    let offers = Offers::ask(stl, goal, found).await?;
    let plan = synthesize(name, goal, &offers.all).map_err(|error| {
        use SynthesisError::{Ambiguous, NothingWanted, TooManyParts, Twice};
        let status = match &error {
            NothingWanted | Ambiguous(_) | Twice(_) | TooManyParts(_) => Status::Invalid,
            _ => Status::NotFound,
        };
        CallError::new(status, error.to_string())
    })?;
    let mut parts = Vec::new();
    for step in &plan.steps {
        if let Some((place, number)) = offers.place_of(step.offer) {
            let (service, method) =
                (step.offer.service.clone(), step.offer.method.name.to_string());
            parts.push(Part { service, method, place, number });
        }
    }
    let composite = stl.compose(&plan.composition).await?;
    let contract = Contract::of(goal, &plan);
    let (watch, pace) = (Watch::of(&contract), Pace::of(contract.per_second));
    let spent = parts.iter().map(|_| Spent::nothing()).collect();
    Ok(Running { composite, parts, spent, planned_ns: plan.latency_ns, contract, watch, pace })
}

/// The parts of a plan where it has them.
struct Placed<'r> {
    stl: &'r Stl,
    running: &'r Running,
    /// Whose call failed first.
    failed: Cell<Option<Place>>,
}

impl Parts for Placed<'_> {
    fn call<'c>(
        &'c self,
        service: &'c str,
        method: &'c Method<'static>,
        deadline: Instant,
        arguments: Vec<u8>,
    ) -> LocalFuture<'c, CallResult<Vec<u8>>> {
        Box::pin(async move {
            let mut parts = self.running.parts.iter().zip(&self.running.spent);
            let is_it = |(it, _): &(&Part, _)| it.service == service && it.method == *method.name;
            let unknown = || CallError::new(Status::NotFound, format!("no part {service}"));
            let (part, spent) = parts.find(is_it).ok_or_else(unknown)?;
            let begun = self.stl.host().now();
            let stl = self.stl.with_patience(deadline.since(begun));
            let result = stl.try_at(part.place, part.number, &arguments).await;
            if result.is_ok() {
                spent.note(self.stl.host().now().since(begun));
            }
            let elsewhere =
                |error: &CallError| is_failure(error.status) || error.status == Status::Gone;
            if result.as_ref().is_err_and(elsewhere) && self.failed.get().is_none() {
                self.failed.set(Some(part.place));
            }
            // It is this one that was meant.
            result.map_err(|error| match error.status {
                Status::Gone => CallError { status: Status::Dead, ..error },
                _ => error,
            })
        })
    }
}
