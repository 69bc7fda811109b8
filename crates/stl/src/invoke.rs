//! Calls to services: by name or by number, here or elsewhere; the caller cannot tell.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::task::Poll;

use nile_abi::{CoreId, Instant, Status};
use nile_bosml::schema::{CallerKind, Mode};
use nile_bosml::{Decode, Encode, Reader, Writer, discovery};
use nile_registry::Place as At;

use crate::calls::Call;
use crate::documents::Document;
use crate::frame::{Header, MAX_DATA};
use crate::host::Place;
use crate::stl::{FIRST_SERVICE, Local, Resolved};
use crate::{
    CallError, CallResult, Caller, Dispatched, Interface, LocalFuture, MethodNumber, Origin, Stl,
};

/// How often a call follows its service that has gone each time, before it gives up.
pub(crate) const MOST_MOVES: usize = 8;

/// The name of the method that every service has: its schema as a discovery document.
pub const DISCOVER: &str = "discover";

impl Local {
    /// The number of a method, and where it runs.
    #[inline]
    fn known(&self, name: &str) -> Option<(MethodNumber, Mode)> {
        let methods = self.published.schema().methods.iter().enumerate();
        let mut named = methods.filter(|(_, method)| is_same(&method.name, name));
        named.next().map(|(number, method)| (MethodNumber(number as u16), method.mode))
    }

    /// The same; every service has one to discover it.
    fn method(&self, name: &str) -> CallResult<(MethodNumber, Mode)> {
        match self.known(name) {
            Some(known) => Ok(known),
            None if name == DISCOVER => Ok((MethodNumber::DISCOVER, Mode::Kernel)),
            None => Err(no_method(&self.published.schema().name, name)),
        }
    }
}

/// Whether two names are the same; of texts in this image that is often one text.
#[inline]
fn is_same(known: &str, name: &str) -> bool {
    known.len() == name.len() && (core::ptr::eq(known, name) || known == name)
}

#[cold]
fn no_method(service: &str, method: &str) -> CallError {
    CallError::new(Status::NotFound, format!("{service} has no method {method}"))
}

/// One encoded value.
fn encode_one(value: &impl Encode) -> CallResult<Vec<u8>> {
    let mut out = Writer::new();
    value.encode(&mut out);
    Ok(out.into_bytes()?)
}

/// The one value that `bytes` are.
fn decode_one<'a, T: Decode<'a>>(bytes: &'a [u8]) -> CallResult<T> {
    let mut input = Reader::new(bytes);
    let value = T::decode(&mut input)?;
    input.finish()?;
    Ok(value)
}

impl Stl {
    /// Calls a method by the names of service and method, wherever the service is: with encoded
    /// arguments, for an encoded reply. Fails with `NotFound`, `Denied` (the rule of the layers,
    /// or the method is of the other half), `Invalid` (wrong arguments), `Dead`, `Panicked`,
    /// `Timeout`, `Busy`, or as the method says.
    #[inline]
    pub fn invoke<'a>(
        &'a self,
        service: &'a str,
        method: &'a str,
        arguments: &'a [u8],
    ) -> impl Future<Output = CallResult<Vec<u8>>> + 'a {
        let mut begun: Option<LocalFuture<'a, CallResult<Vec<u8>>>> = None;
        poll_fn(move |context| {
            if let Some(call) = &mut begun {
                return call.as_mut().poll(context);
            }
            let call = match self.installed_as(service) {
                Some(local) => match self.invoke_on(&local, service, method, arguments) {
                    // Most calls are over at once, here; nothing is set up for them.
                    Dispatched::Done(result) => return Poll::Ready(result),
                    Dispatched::Later(call) => call,
                },
                None => Box::pin(self.invoke_there(service, method, arguments)),
            };
            begun.insert(call).as_mut().poll(context)
        })
    }

    /// Begins a method of a service on this core.
    #[inline(never)]
    fn invoke_on(
        &self,
        local: &Local,
        service: &str,
        method: &str,
        arguments: &[u8],
    ) -> Dispatched {
        if let Err(error) = self.check_layer(&local.published) {
            return Dispatched::Done(Err(error));
        }
        // Of most calls nothing more has to be known than which method it is.
        if self.origin == Origin::Kernel
            && !local.half.asks_caller
            && let Some((number, _)) = local.known(method)
        {
            return local.half.service.dispatch(&Caller::UNKNOWN, number, arguments);
        }
        self.invoke_otherwise(local, service, method, arguments)
    }

    /// The same for a call that a package makes, a method that asks who calls, and names that are
    /// no method's.
    #[inline(never)]
    fn invoke_otherwise(
        &self,
        local: &Local,
        service: &str,
        method: &str,
        arguments: &[u8],
    ) -> Dispatched {
        match local.method(method) {
            Ok((_, mode)) if self.core.upstream.is_some() && mode == Mode::Kernel => {
                Dispatched::Done(self.call_up(service, method, arguments))
            }
            Ok((number, _)) => self.begin(local, number, arguments),
            Err(error) => Dispatched::Done(Err(error)),
        }
    }

    /// The rest of [`Stl::invoke`]: a service that is not on this core.
    async fn invoke_there(
        &self,
        service: &str,
        method: &str,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        match self.resolve(service).await? {
            // It came meanwhile.
            Resolved::Here(local) => {
                let (number, _) = local.method(method)?;
                self.call_here(&local, number, arguments).await
            }
            Resolved::Up => self.call_up(service, method, arguments),
            Resolved::At(mut place) => {
                let mut result = self.invoke_in(place, service, method, arguments).await;
                for _ in 0..MOST_MOVES {
                    let Some(now) = self.moved(service, place, &result).await else { break };
                    (place, result) = (now, self.invoke_in(now, service, method, arguments).await);
                }
                result.map_err(CallError::gone_is_dead)
            }
        }
    }

    /// Where a service is now that a call did not find at `place`; `None` if it is nowhere else, or
    /// the call ended otherwise: one that may have been done is not made twice. A place that ended
    /// a call so is not looked at again.
    pub(crate) async fn moved<T>(
        &self,
        service: &str,
        place: Place,
        result: &CallResult<T>,
    ) -> Option<Place> {
        let status = result.as_ref().err()?.status;
        if !matches!(status, Status::Dead | Status::Gone) {
            return None;
        }
        self.forget_place(service, place);
        if status == Status::Dead {
            return None;
        }
        let now = match self.resolve(service).await.ok()? {
            Resolved::Here(local) => local.place,
            Resolved::At(now) => now,
            Resolved::Up => return None,
        };
        (now != place).then_some(now)
    }

    /// The same for the instance on one core, of any node. `NotFound` if that core has none;
    /// `Denied` for a package, which has its own core.
    pub async fn invoke_at(
        &self,
        at: impl Into<At>,
        service: &str,
        method: &str,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        if self.core.upstream.is_some() {
            return Err(CallError::new(Status::Denied, "a package cannot pin a core"));
        }
        let place = self.find_at(at, service).await?;
        let result = self.invoke_in(place, service, method, arguments).await;
        result.map_err(CallError::gone_is_dead)
    }

    /// What a service says about itself: a discovery document.
    pub async fn discover(&self, service: &str) -> CallResult<String> {
        decode_one(&self.invoke(service, DISCOVER, &[]).await?)
    }

    /// What the instance at a place says about itself: a discovery document, which it is asked for
    /// if it was not lately. Fails as [`Stl::try_at`].
    pub async fn document_at(&self, place: Place) -> CallResult<Rc<str>> {
        Ok(self.described_at(place).await?.text.clone())
    }

    async fn described_at(&self, place: Place) -> CallResult<Rc<Document>> {
        if let Some(known) = self.core.documents.get(place) {
            return Ok(known);
        }
        let reply = self.try_at(place, MethodNumber::DISCOVER, &[]).await?;
        let document = Rc::new(Document::parse(decode_one(&reply)?)?);
        self.core.documents.put(place, &document);
        Ok(document)
    }

    /// Calls a method by its name on the instance of a service at a place that is known. `Gone` if
    /// it is not there; else as [`Stl::invoke`].
    pub async fn invoke_in(
        &self,
        place: Place,
        service: &str,
        method: &str,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        let number = if method == DISCOVER {
            MethodNumber::DISCOVER
        } else if let Some(local) = self.local(place) {
            local.method(method)?.0
        } else {
            // The owner of the instance numbers its methods, and says so in its schema.
            let described = self.described_at(place).await?;
            described.method(method).ok_or_else(|| no_method(service, method))?
        };
        self.try_at(place, number, arguments).await
    }

    /// Direct dispatch, on this core.
    async fn call_here(
        &self,
        local: &Local,
        method: MethodNumber,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        match self.begin(local, method, arguments) {
            Dispatched::Done(result) => result,
            Dispatched::Later(future) => future.await,
        }
    }

    #[inline]
    fn begin(&self, local: &Local, method: MethodNumber, arguments: &[u8]) -> Dispatched {
        let caller = if local.half.asks_caller { self.caller() } else { Caller::UNKNOWN };
        self.dispatch(local, self.origin, &caller, method, arguments)
    }

    /// Whether the rule of the layers lets the caller call a service. `Denied` if not.
    pub fn may_call(&self, service: &Interface) -> CallResult<()> {
        self.may_bind(service.name, service.layer)
    }

    /// Who calls when a task of this core calls on this core.
    pub fn caller(&self) -> Caller {
        let (core, origin) = (self.core.host.core(), self.origin);
        Caller { core, origin, deadline: self.deadline() }
    }

    /// Begins a method of an instance here, for a caller elsewhere; nothing if it is gone.
    pub fn dispatch_at(
        &self,
        place: Place,
        caller: &Caller,
        method: MethodNumber,
        arguments: &[u8],
    ) -> Option<Dispatched> {
        let local = self.local(place)?;
        Some(self.dispatch(&local, caller.origin, caller, method, arguments))
    }

    #[inline]
    pub(crate) fn dispatch(
        &self,
        local: &Local,
        origin: Origin,
        caller: &Caller,
        method: MethodNumber,
        arguments: &[u8],
    ) -> Dispatched {
        if method == MethodNumber::DISCOVER {
            return Dispatched::Done(encode_one(&discovery::to_text(local.published.schema())));
        }
        if let Some(kind) = origin.kind()
            && let Err(error) = self.check_allowed(local, kind, method)
        {
            return Dispatched::Done(Err(error));
        }
        local.half.service.dispatch(caller, method, arguments)
    }

    /// Whether the declaration of a method allows these callers. `Denied` if not. Within a package
    /// its own services may be called by all of it.
    #[inline(never)]
    fn check_allowed(
        &self,
        local: &Local,
        kind: CallerKind,
        method: MethodNumber,
    ) -> CallResult<()> {
        let schema = local.published.schema();
        // One that is not there is told by whoever dispatches.
        let declared = schema.methods.get(usize::from(method.0));
        match declared.filter(|it| self.core.upstream.is_none() && !it.callers.has(kind)) {
            Some(it) => Err(CallError::not_allowed(&schema.name, it, kind)),
            None => Ok(()),
        }
    }

    /// Relays a call to the kernel beneath this package.
    pub(crate) fn call_up(
        &self,
        service: &str,
        method: &str,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        match &self.core.upstream {
            Some(upstream) => upstream.relay(service, method, arguments, self.patience()),
            None => Err(CallError::new(Status::NotFound, format!("no service {service}"))),
        }
    }

    /// Calls a method of the instance at a place by its number: as [`Stl::invoke`], and `Dead` if
    /// it is not there.
    pub async fn call_at(
        &self,
        place: Place,
        method: MethodNumber,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        self.try_at(place, method, arguments).await.map_err(CallError::gone_is_dead)
    }

    /// The same, with `Gone` if it is not there: then nothing was done, and it can be looked for.
    pub async fn try_at(
        &self,
        place: Place,
        method: MethodNumber,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        let host = &self.core.host;
        if place.is_here() && place.core == host.core() {
            let local = self.local(place).ok_or_else(CallError::instance_gone)?;
            return self.call_here(&local, method, arguments).await;
        }
        let deadline = self.deadline();
        let begun = deadline.before(self.patience());
        let is_timed = self.core.measures.takes(begun);
        let result = if place.is_here() {
            let call = self.send(place, method, arguments, deadline)?;
            call.await
        } else {
            let alone = || CallError::new(Status::NotFound, "this node is not in a cluster");
            let gateway = self.gateway().ok_or_else(alone)?;
            gateway.call(place, method, arguments, self.origin, deadline).await
        };
        if is_timed || result.is_err() {
            self.note_end(place, is_timed.then_some(begun), &result);
        }
        result
    }

    /// Sends a call to another core of this node.
    fn send(
        &self,
        place: Place,
        method: MethodNumber,
        arguments: &[u8],
        deadline: Instant,
    ) -> CallResult<Call> {
        let host = &self.core.host;
        if arguments.len() > MAX_DATA {
            let message = format!("{} bytes of arguments, of {MAX_DATA} at most", arguments.len());
            return Err(CallError::new(Status::Invalid, message));
        }
        let call = self.core.calls.begin(host, place.core, place.generation, deadline)?;
        let request = Header::Request {
            id: call.id(),
            service: place.number,
            generation: place.generation,
            caller: host.generation(),
            method,
            deadline,
            origin: self.origin,
        };
        if let Err(status) = host.send(place.core, &request, arguments) {
            call.forget();
            return Err(CallError::new(status, format!("core {} cannot be reached", place.core)));
        }
        if self.core.calls.plan_sweep(deadline) {
            self.sweep_at(deadline);
        }
        Ok(call)
    }

    /// Notes how a call to another core or node ended, begun then if it was timed. The registry is
    /// told, not chosen.
    #[inline(never)]
    fn note_end(&self, place: Place, begun: Option<Instant>, result: &CallResult<Vec<u8>>) {
        let registry = (Place::HERE, CoreId::BOOT, FIRST_SERVICE);
        if (place.node, place.core, place.number) == registry {
            return;
        }
        let now = self.core.host.now();
        let end = result.as_ref().err().map_or(Status::Ok, |error| error.status);
        let took = begun.map(|begun| now.since(begun));
        if self.core.measures.note(now, place, took, end) {
            let stl = self.clone();
            // It is told again if it was not heard.
            self.core.host.spawn(Box::pin(async move {
                let _ = stl.report_quality().await;
            }));
        }
    }

    /// Ends expired calls once `due` has come, and again when the next one expires.
    fn sweep_at(&self, due: Instant) {
        let stl = self.clone();
        self.core.host.spawn(Box::pin(async move {
            let (host, calls) = (&stl.core.host, &stl.core.calls);
            host.sleep_until(due).await;
            calls.sweep(&**host, due);
            if let Some(next) = calls.next_deadline().filter(|next| calls.plan_sweep(*next)) {
                stl.sweep_at(next);
            }
        }));
    }
}
