//! A service for the scenarios: it echoes, waits, calls another service, and fails on purpose.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::Cell;
use core::future::pending;
use core::time::Duration;

use nile_abi::{CoreId, Instant, Status};
use nile_bosml::{Blob, Bytes};
use nile_kernel::Core;
use nile_platform::Misbehave;
use nile_registry::Caller as Binder;
use nile_services::ackermann::AckermannClient;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use crate::wanderer;

/// The service.
pub struct Probe {
    stl: Stl,
    /// Calls of `wait` that go on.
    waiting: Cell<u64>,
    /// How the call of `ask_manager` ended, if it has.
    end: Rc<Cell<Option<Status>>>,
}

impl Start for Probe {
    fn start(stl: &Stl) -> Probe {
        Probe { stl: stl.clone(), waiting: Cell::new(0), end: Rc::default() }
    }
}

/// Counts one call as long as it goes on.
struct Counted<'a>(&'a Cell<u64>);

impl Counted<'_> {
    fn new(count: &Cell<u64>) -> Counted<'_> {
        count.set(count.get() + 1);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What uses up the stack of this core.
struct Overrun(Box<dyn Fn()>);

/// Lets the probe of this core use up its stack.
pub fn let_overrun<M: Misbehave>(core: &Core<M>) {
    let owner = core.clone();
    let make = || Ok(Rc::new(Overrun(Box::new(move || owner.machine().overrun_stack()))));
    if let Ok(overrun) = core.stl().shared(make) {
        core.spawn(async move {
            // The services share it as long as somebody keeps it.
            let _overrun = overrun;
            pending::<()>().await;
        });
    }
}

/// What scenarios call.
#[service(
    subsystem = "tests",
    capability = "probing",
    layer = high,
    on = every,
    keywords(probe = 1)
)]
impl Probe {
    /// Gives back what it gets.
    #[stl_k(reply = "data", allow(package, operator, peer))]
    fn echo(&self, data: Bytes<'_>) -> Blob {
        data.into()
    }

    /// One more.
    #[stl_k(allow(package, operator, peer))]
    fn next(&self, number: u64) -> u64 {
        number.wrapping_add(1)
    }

    /// Adds "what has names" that 'keywords' and <generated code> have, too.
    #[stl_k(reply = "sum", allow(package, operator, peer))]
    fn r#move(
        &self,
        caller: &Caller,
        r#type: u64,
        state: u64,
        service: u64,
        input: &str,
    ) -> Result<u64, Status> {
        if service == 0 {
            return Err(Status::Exists);
        }
        Ok(u64::from(caller.core.0) + r#type + state + service + input.len() as u64)
    }

    /// Calls another service.
    #[stl_k(allow(package, operator, peer))]
    async fn relay(&self, m: u64, n: u64) -> CallResult<u64> {
        AckermannClient::find(&self.stl).await?.compute(m, n).await
    }

    /// Calls the probes of all cores so many times each, at once: how many answered rightly.
    #[stl_k(reply = "good", allow(package, operator, peer))]
    async fn flood(&self, each: u64) -> CallResult<u64> {
        crate::flood::flood(&self.stl, each).await
    }

    /// Calls the probes of all other cores without rest until then: how the calls ended.
    #[stl_k(reply = "ends", allow(package, operator, peer))]
    async fn churn(&self, until_nanos: u64) -> crate::calls_churn::Ends {
        crate::calls_churn::churn(&self.stl, Instant::from_nanos(until_nanos)).await
    }

    /// Calls the service of the registry's layer, which skips one.
    #[stl_k(reply = "text", allow(package, operator, peer))]
    async fn skip_a_layer(&self) -> CallResult<alloc::string::String> {
        self.stl.discover("registry").await
    }

    /// Publishes the wanderer on this core.
    #[stl_k(allow(package, operator, peer))]
    async fn host_wanderer(&self) -> CallResult<()> {
        let Some(make) = wanderer::REGISTRATION.kernel else { return Ok(()) };
        self.stl.acting_as(Binder::Operator).publish(&wanderer::REGISTRATION, make).await?;
        Ok(())
    }

    /// Unpublishes it.
    #[stl_k(allow(package, operator, peer))]
    async fn dismiss_wanderer(&self) -> CallResult<()> {
        self.stl.acting_as(Binder::Operator).unpublish(wanderer::REGISTRATION.name()).await
    }

    /// Answers after so long.
    #[stl_k(allow(package, operator, peer))]
    async fn wait(&self, micros: u64) -> u64 {
        let _counted = Counted::new(&self.waiting);
        let host = self.stl.host();
        host.sleep_until(host.now() + Duration::from_micros(micros)).await;
        micros
    }

    /// How many calls of `wait` go on: those that were cancelled do not.
    #[stl_k(allow(package, operator, peer))]
    fn waiting(&self) -> u64 {
        self.waiting.get()
    }

    /// Has the managing core's probe called, and keeps how that ends. (It does not wait for it:
    /// it is the managing core that asks for this, and its end would cancel it.)
    #[stl_k(allow(package, operator, peer))]
    async fn ask_manager(&self) -> CallResult<()> {
        let probe = ProbeClient::find_at(&self.stl, CoreId::BOOT).await?;
        let kept = self.end.clone();
        self.stl.host().spawn(Box::pin(async move {
            let end = probe.wait(60_000_000).await;
            kept.set(Some(end.map_or_else(|error| error.status, |_| Status::Ok)));
        }));
        Ok(())
    }

    /// How the call of the managing core ended, as a status code.
    #[stl_k(allow(package, operator, peer))]
    async fn end_of_call(&self) -> u16 {
        loop {
            if let Some(end) = self.end.get() {
                return end.code();
            }
            let host = self.stl.host();
            host.sleep_until(host.now() + Duration::from_micros(100)).await;
        }
    }

    /// Ends this instance and publishes another one.
    #[stl_k(allow(package, operator, peer))]
    async fn renew(&self) -> CallResult<()> {
        self.stl.unpublish(REGISTRATION.name()).await?;
        let make = REGISTRATION.kernel.ok_or(CallError::from(Status::Invalid))?;
        self.stl.publish(&REGISTRATION, make).await.map(|_| ())
    }

    /// Never answers: the core restarts.
    #[stl_k(allow(package, operator, peer))]
    fn panic(&self) {
        panic!("a scenario wants it");
    }

    /// The same, but first it waits.
    #[stl_k(allow(package, operator, peer))]
    async fn panic_later(&self, micros: u64) {
        self.wait(micros).await;
        panic!("a scenario wants it");
    }

    /// Never answers either: uses up the stack of its core.
    #[stl_k(allow(package, operator, peer))]
    fn overrun_stack(&self) -> CallResult<()> {
        let refused = || CallError::new(Status::Denied, "this scenario overruns no stack");
        let overrun = self.stl.shared::<Overrun>(|| Err(refused()))?;
        (overrun.0)();
        Ok(())
    }

    /// How many buffers of the node's pool nobody has.
    #[stl_k(allow(package, operator, peer))]
    fn free_buffers(&self) -> CallResult<u64> {
        let missing = || CallError::new(Status::NotFound, "this node has no pool");
        Ok(self.stl.node()?.pool().ok_or_else(missing)?.free_buffers() as u64)
    }
}
