//! The user half of the service transport layer, STL_U (NileOS paper, III.B and III.F): methods of
//! user mode are dispatched here, without a system call; what needs the kernel is relayed to it by
//! one.
//!
//! [`with_services`] gives a package a transport layer for as long as a function runs. The package
//! calls services by it, publishes its own, and [serves](Services::serve) calls to them: each call
//! runs in a thread of its own.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::future::Future;
use core::mem;
use core::time::Duration;

use nile_abi::call::{Answer, Event, System, SystemCall};
use nile_abi::{CoreId, Generation, Instant, Status};
use nile_bosml::{Blob, discovery};
use nile_stl::frame::{CallId, Header, MAX_DATA};
use nile_stl::relay::{self, Announcement, Incoming, Keyword, Relayed, Said};
use nile_stl::{
    CallError, CallResult, Caller, Dispatched, Half, Host, LocalFuture, MethodNumber, Origin,
    Place, Registration, Stl, Upstream,
};

use crate::Runtime;

/// The most bytes of the end of a call: a message and what stands before it.
const END_BYTES: usize = MAX_DATA + 64;

/// The services of a package.
pub struct Services {
    bridge: Rc<Bridge>,
    stl: Stl,
    /// What the package has published, by the kernel's numbers.
    published: Rc<RefCell<Vec<(u16, Place)>>>,
}

/// The way to the runtime. What the transport layer holds must not borrow, so the runtime is taken
/// back when the layer's time is over.
struct Bridge {
    runtime: RefCell<Option<Runtime<'static>>>,
    core: CoreId,
    /// Whether a call has only its thread wait.
    waits_alone: Cell<bool>,
}

/// Gives `body` the services of a package that runs on `core`.
pub fn with_services<T>(
    runtime: &Runtime<'_>,
    core: CoreId,
    body: impl FnOnce(&Services) -> T,
) -> T {
    // SAFETY: the lifetime is only that of the runtime's system. The bridge is emptied before
    // this function returns or unwinds, and nothing gets the runtime out of it but for the length
    // of a call that the runtime's own threads make.
    let lent = unsafe { mem::transmute::<Runtime<'_>, Runtime<'static>>(runtime.clone()) };
    let bridge =
        Rc::new(Bridge { runtime: RefCell::new(Some(lent)), core, waits_alone: Cell::new(false) });
    let _end = TakeBack(bridge.clone());
    let stl = Stl::user(bridge.clone(), bridge.clone());
    let services = Services { bridge, stl, published: Rc::default() };
    let result = body(&services);
    services.stl.close();
    result
}

struct TakeBack(Rc<Bridge>);

impl Drop for TakeBack {
    fn drop(&mut self) {
        self.0.runtime.borrow_mut().take();
    }
}

impl Bridge {
    /// The runtime, as long as [`with_services`] runs.
    fn runtime(&self) -> Option<Runtime<'static>> {
        self.runtime.borrow().clone()
    }

    fn call(&self, call: SystemCall, word: u64, input: &[u8], output: &mut [u8]) -> Answer {
        match self.runtime() {
            Some(runtime) => runtime.call(call, word, input, output),
            None => Answer::failed(Status::Dead),
        }
    }

    /// A system call whose output is the end of a call.
    fn call_to_end(&self, call: SystemCall, word: u64, input: &[u8]) -> CallResult<Vec<u8>> {
        let mut end = vec![0; END_BYTES];
        let bytes = self.call(call, word, input, &mut end).result()?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(end.len());
        relay::decode_end(&end[..bytes])
    }
}

impl Host for Bridge {
    fn core(&self) -> CoreId {
        self.core
    }

    /// A package knows no generations: it ends with its core's incarnation.
    fn generation(&self) -> Generation {
        Generation::FIRST
    }

    fn cores(&self) -> usize {
        usize::from(self.core.0) + 1
    }

    fn generation_of(&self, _: CoreId) -> Generation {
        Generation::FIRST
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        self.call(SystemCall::Log, 0, line.to_string().as_bytes(), &mut []);
    }

    fn now(&self) -> Instant {
        let now = self.call(SystemCall::Now, 0, &[], &mut []).result();
        Instant::from_nanos(now.unwrap_or(u64::MAX))
    }

    fn spawn(&self, task: LocalFuture<'static, ()>) {
        if let Some(runtime) = self.runtime() {
            runtime.spawn(move |runtime| runtime.block_on(task));
        }
    }

    fn sleep_until(&self, due: Instant) -> LocalFuture<'static, ()> {
        let runtime = self.runtime();
        Box::pin(async move {
            if let Some(runtime) = runtime {
                runtime.sleep_until(due);
            }
        })
    }

    /// A package has no link to other cores: its kernel has.
    fn send(&self, _: CoreId, _: &Header, _: &[u8]) -> Result<(), Status> {
        Err(Status::Denied)
    }

    /// A package that faults ends, and with it every call to it.
    fn working_for(&self, _: Option<(CoreId, CallId)>) {}
}

impl Upstream for Bridge {
    fn relay(
        &self,
        service: &str,
        method: &str,
        arguments: &[u8],
        patience: Duration,
    ) -> CallResult<Vec<u8>> {
        let call = Relayed {
            service: service.into(),
            method: method.into(),
            arguments: Blob(arguments.to_vec()),
        };
        let patience = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
        let call = relay::encode(&call)?;
        match self.runtime().filter(|_| self.waits_alone.get()) {
            Some(runtime) => relay::decode_end(&runtime.invoke_alone(patience, &call)?),
            None => self.call_to_end(SystemCall::Invoke, patience, &call),
        }
    }
}

impl Services {
    /// The package's transport layer.
    pub fn stl(&self) -> &Stl {
        &self.stl
    }

    /// Whether from now on a call has only the thread wait that makes it, and the others go on: for
    /// packages whose threads hold nothing across a call that another one needs, and for calls to
    /// packages of the same core, which have no turn before the caller waits. Each call takes two
    /// system calls in place of one.
    pub fn wait_alone(&self, alone: bool) {
        self.bridge.waits_alone.set(alone);
    }

    /// What the future gives. The calling thread waits for it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self.bridge.runtime() {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("the runtime is taken back when these services are gone"),
        }
    }

    /// Makes a service of this package's callable from everywhere: its methods of user mode. The
    /// package's manifest must name it, or its type if another service declares that. Fails with
    /// what the kernel's half says.
    pub fn publish(
        &self,
        registration: &'static Registration,
        make: fn(&Stl) -> Half,
    ) -> CallResult<()> {
        let keyword = |(word, weight): &(&str, u32)| Keyword {
            word: String::from(*word),
            weight: u16::try_from(*weight).unwrap_or(u16::MAX),
        };
        // A type of another name is another service's, which the node has.
        let ty = registration.interface.ty.map_or("", |ty| &ty.name);
        let is_own = ty == registration.interface.name;
        let type_name = if is_own { String::new() } else { String::from(ty) };
        let announcement = Announcement {
            document: discovery::to_text(registration.interface.schema),
            subsystem: registration.interface.subsystem.into(),
            capability: registration.interface.capability.into(),
            keywords: registration.keywords.iter().map(keyword).collect(),
            type_name,
            attributes: registration
                .attributes
                .iter()
                .map(|it| Said { name: it.name.to_string(), value: it.value.to_string() })
                .collect(),
        };
        let input = relay::encode(&announcement)?;
        let number = self.bridge.call_to_end(SystemCall::Publish, 0, &input)?;
        let number = number.as_slice().try_into().map(u16::from_le_bytes);
        let number = number.map_err(|_| CallError::from(Status::Invalid))?;
        let place = self.stl.install(registration, make)?;
        self.published.borrow_mut().push((number, place));
        Ok(())
    }

    /// From now on, calls to what is published are answered while the package's threads wait.
    pub fn serve(&self) {
        let Some(runtime) = self.bridge.runtime() else { return };
        let (published, stl, bridge) =
            (self.published.clone(), self.stl.clone(), self.bridge.clone());
        runtime.on_event(move |runtime, event| {
            // Only the kernel sends events, and what is no call does not come here.
            let Some(Event::Call(call)) = Event::decode(event) else { return };
            let Ok(incoming) = relay::decode::<Incoming>(call) else { return };
            let known = published.borrow();
            let place = known.iter().find(|(number, _)| *number == incoming.service);
            let place = place.map(|(_, place)| *place);
            let (stl, bridge) = (stl.clone(), bridge.clone());
            runtime.spawn(move |runtime| answer(runtime, &stl, &bridge, place, incoming));
        });
    }
}

fn answer(
    runtime: &Runtime<'static>,
    stl: &Stl,
    bridge: &Bridge,
    place: Option<Place>,
    incoming: Incoming,
) {
    let caller = Caller {
        core: CoreId(incoming.core),
        // What is no number of an origin is nobody who may do more than a package.
        origin: Origin::from_number(incoming.origin).unwrap_or(Origin::Package),
        deadline: Instant::from_nanos(incoming.deadline),
    };
    let method = MethodNumber(incoming.method);
    let arguments = &incoming.arguments.0;
    let dispatched = place.and_then(|place| stl.dispatch_at(place, &caller, method, arguments));
    let end = match dispatched {
        Some(Dispatched::Done(result)) => result,
        Some(Dispatched::Later(future)) => runtime.block_on(future),
        None => Err(CallError::instance_gone()),
    };
    // A caller that does not wait any more has nobody to tell.
    bridge.call(SystemCall::Reply, incoming.ticket, &relay::encode_end(&end), &mut []);
}
