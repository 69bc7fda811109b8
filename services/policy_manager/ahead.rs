//! Policies of packages. Each is asked ahead for an order of turns, by a call that no turn waits
//! for; one that is late, or gone, leaves turns to go by age.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::future::poll_fn;
use core::time::Duration;

use nile_abi::Window;
use nile_interfaces::scheduling::{ORDER, Waiting};
use nile_policy::policies::{Load, Plan};
use nile_policy::{DEFAULT_PRIORITY, Manager, Subject};
use nile_stl::{CallError, CallResult, Place, Stl, relay};

/// How long an answer may take, and the rest between two questions.
const PATIENCE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_millis(1);

/// Calls that fail one after the other before the policy is asked no more.
const MOST_FAILURES: u32 = 3;

/// A policy of a package that somebody here is bound to.
pub(super) struct Elsewhere {
    pub name: String,
    pub plan: Rc<Plan>,
    place: Cell<Place>,
    is_asked: Cell<bool>,
}

/// The global priority of all of them: beneath the default, since what brings their orders is the
/// default's.
pub(super) const PRIORITY: i64 = DEFAULT_PRIORITY - 1;

impl Elsewhere {
    pub fn new(name: &str, place: Place) -> Elsewhere {
        let (plan, place, is_asked) = (Rc::default(), Cell::new(place), Cell::default());
        Elsewhere { name: name.into(), plan, place, is_asked }
    }

    /// Has the instance at this place asked from now on.
    pub fn ask_at(self: &Rc<Self>, place: Place, stl: &Stl, manager: Rc<dyn Manager>) {
        self.place.set(place);
        if self.is_asked.replace(true) {
            return;
        }
        let (own, stl) = (self.clone(), stl.with_patience(PATIENCE));
        let host = stl.host().clone();
        host.spawn(Box::pin(async move {
            let error = own.ask(&stl, &*manager).await;
            own.is_asked.set(false);
            let name = &own.name;
            stl.host().log(format_args!("policy {name} is asked no more: {error}"));
        }));
    }

    /// Asks for orders until that fails.
    async fn ask(&self, stl: &Stl, manager: &dyn Manager) -> CallError {
        let mut failures = 0;
        loop {
            let loads = poll_fn(|context| self.plan.poll_wanted(context)).await;
            match self.order(stl, manager, &loads).await {
                Ok(order) => {
                    failures = 0;
                    self.plan.give(order.into_iter().map(Subject));
                }
                Err(error) => {
                    failures += 1;
                    if failures == MOST_FAILURES {
                        return error;
                    }
                }
            }
            let host = stl.host();
            host.sleep_in(Window::within(host.now() + REST, REST)).await;
        }
    }

    async fn order(
        &self,
        stl: &Stl,
        manager: &dyn Manager,
        loads: &[Load],
    ) -> CallResult<Vec<u32>> {
        let names = manager.subjects();
        let waiting = loads.iter().map(|it| Waiting {
            subject: it.subject.0,
            name: names.get(it.subject.0 as usize).map(|it| it.name.clone()).unwrap_or_default(),
            ready: it.ready,
            had_ns: u64::try_from(it.had.as_nanos()).unwrap_or(u64::MAX),
        });
        let waiting: Vec<Waiting> = waiting.collect();
        let arguments = relay::encode(&waiting)?;
        let reply = stl.invoke_in(self.place.get(), &self.name, ORDER, &arguments).await?;
        Ok(relay::decode(&reply)?)
    }
}
