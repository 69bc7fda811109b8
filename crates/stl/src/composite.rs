//! Services made of services (Dhara, III.A), carried out: the calls of a composition are calls of
//! this layer, so its parts may be anywhere, and may be compositions themselves. What a part gives
//! is taken apart by its schema and put together again as the next one takes it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::poll_fn;
use core::task::Poll;

use nile_abi::{CoreId, Instant, NodeId, Status};
use nile_bosml::schema::{Method, Mode, Parameter, Service as Schema, Type};
use nile_bosml::{Reader, Value, check_binary, discovery};
use nile_registry::composition::{Call, CallId, Reference, Shape, Slot, Slots, Step};
use nile_registry::limits::MAX_PARTS;
use nile_registry::{
    Caller as Binder, Composed, Composition, Layer, NewInstance, Plan, Registry, ServiceType,
    TypeQuery,
};

use crate::{
    CallError, CallResult, Caller, Described, Dispatched, Half, LocalFuture, MethodNumber, Place,
    Service, Stl,
};

/// An encoded value.
type Encoded = Rc<[u8]>;

/// A composition as a service: what its type is, besides its schema.
#[derive(Clone, Debug)]
pub struct CompositeType {
    /// What the service does, for people.
    pub doc: String,
    /// The subsystem that its type belongs to.
    pub subsystem: String,
    /// The task that its type performs.
    pub capability: String,
    /// How far above the hardware it is: its parts are of this layer or of the one below.
    pub layer: Layer,
    /// What characterizes it, each with its weight.
    pub keywords: Vec<(String, u16)>,
}

impl CompositeType {
    /// A service of this type with one method, which is the composition, of its name. Fails with
    /// `Invalid` if that is no schema.
    pub fn described(self, composed: &Composed) -> CallResult<Described> {
        let CompositeType { doc, subsystem, capability, layer, keywords } = self;
        let method = composed.method(doc.clone(), Mode::Kernel);
        let name = Cow::Owned(composed.name().to_string());
        let methods = Cow::Owned(alloc::vec![method]);
        let schema = Schema { name, doc: Cow::Owned(doc), methods };
        schema.check()?;
        let (type_name, attributes) = Default::default();
        Ok(Described { schema, subsystem, capability, layer, keywords, type_name, attributes })
    }
}

/// A composition whose parts were found and fit.
pub struct Composite {
    composed: Composed,
    /// What the parts said of themselves when they were composed.
    parts: Registry,
}

impl Stl {
    /// Finds the parts of a composition and checks that they fit, end to end. Fails with
    /// `NotFound` or `Invalid`, naming the parts and the parameter; as [`Stl::invoke`] if a part
    /// cannot be asked for its schema.
    pub async fn compose(&self, composition: &Composition) -> CallResult<Composite> {
        let mut parts = Registry::new();
        for (part, service) in components(composition) {
            if parts.find_type(TypeQuery::Name(service)).is_some() {
                continue;
            }
            match self.discover(service).await {
                Ok(document) => learn(&mut parts, service, discovery::parse(&document)?)?,
                // Composing says which part wants it.
                Err(error) if error.status == Status::NotFound => {}
                Err(error) => return Err(of_part(part, error)),
            }
        }
        let composed = parts.compose(composition).map_err(|error| {
            let message = format!("{}: {error}", composition.name);
            CallError::new(error.into(), message)
        })?;
        Ok(Composite { composed, parts })
    }

    /// Publishes a composition on this core as a service of its name with one method of its name.
    /// Its parts are found and called as services of its layer may be: one of another layer is
    /// `Denied`. Fails as [`Stl::compose`] and [`Stl::publish`].
    ///
    /// A call runs the parts on whichever cores they are, those that do not feed each other at
    /// one time. It ends with the status of the first part that fails and a message that names
    /// it; the other parts' calls are then cancelled, as all are when the caller cancels. The
    /// caller's deadline is that of every part.
    pub async fn publish_composite(
        &self,
        composition: &Composition,
        ty: CompositeType,
    ) -> CallResult<Place> {
        let own = |(_, service): (&str, &str)| *service == *composition.name;
        if components(composition).any(own) {
            let message = format!("{} would be a part of itself", composition.name);
            return Err(CallError::new(Status::Invalid, message));
        }
        let stl = self.acting_as(Binder::Service(ty.layer));
        let composite = Rc::new(stl.compose(composition).await?);
        let described = ty.described(&composite.composed)?;
        self.publish_described(described, |_| {
            let service = Rc::new(Published { composite, stl });
            Half { service, asks_caller: true }
        })
        .await
    }
}

/// The components of a composition and their services, in the order in which they are composed;
/// no more than a composition may have.
fn components(composition: &Composition) -> impl Iterator<Item = (&str, &str)> {
    let mut left = alloc::vec![composition];
    let parts = core::iter::from_fn(move || {
        let it = left.pop()?;
        match &it.shape {
            Shape::Component(..) => {}
            Shape::Lengthwise(parts) | Shape::Widthwise(parts) => left.extend(parts.iter().rev()),
            Shape::Orchestrated(it) | Shape::Network(it) => {
                left.extend(it.parts.iter().rev().map(|(part, _)| part))
            }
        }
        Some(it)
    });
    parts.take(MAX_PARTS).filter_map(|it| match &it.shape {
        Shape::Component(service, _) => Some((&*it.name, name_of(service))),
        _ => None,
    })
}

/// What a component's service is called: a type and its instances have one name on a node.
fn name_of(service: &Reference) -> &str {
    let (Reference::Type(name) | Reference::Instance(name)) = service;
    name
}

/// Notes what a service said of itself.
fn learn(parts: &mut Registry, service: &str, schema: Schema<'_>) -> CallResult<()> {
    let name = || Cow::Owned(String::from(service));
    let ty = ServiceType {
        name: name(),
        subsystem: Cow::Borrowed("parts"),
        capability: name(),
        // A schema does not say the layer; the rule of the layers is kept by whoever finds it.
        layer: Layer::High,
        extends: None,
        description: Cow::Borrowed(""),
        profile: schema.into_owned(),
        state: Cow::Borrowed(&[]),
        attributes: Cow::Borrowed(&[]),
        parameters: Cow::Borrowed(&[]),
        default_instance: None,
    };
    let instance = NewInstance {
        name: name(),
        working: Cow::Borrowed(""),
        attributes: Cow::Borrowed(&[]),
        keywords: Cow::Borrowed(&[]),
    };
    let refused = |status, error: &dyn ToString| CallError::new(status, error.to_string());
    let id = parts.register(ty).map_err(|error| refused(error.clone().into(), &error))?;
    let anywhere = nile_registry::Place { node: NodeId(0), core: CoreId(0) };
    let published = parts.publish(id, instance, anywhere);
    published.map(|_| ()).map_err(|error| refused(error.clone().into(), &error))
}

fn of_part(part: &str, error: CallError) -> CallError {
    let CallError { status, message } = error;
    let message = match &*message {
        "" => format!("part {part}"),
        message => format!("part {part}: {message}"),
    };
    CallError::new(status, message)
}

impl Composite {
    /// The whole: its name, what it takes and gives.
    pub fn composed(&self) -> &Composed {
        &self.composed
    }

    /// Carries the composition out: calls its parts, waiting for each until `deadline` at most.
    /// `arguments` are encoded as its parameters, the reply as its reply. Dropping the
    /// future cancels the calls. Fails with `Invalid` (wrong arguments), and as the first part
    /// that fails, which the message names.
    pub async fn call(
        &self,
        parts: &dyn Parts,
        deadline: Instant,
        arguments: &[u8],
    ) -> CallResult<Vec<u8>> {
        let input = split(self.composed.parameters(), arguments)?;
        let begun = Plan::new(&self.composed, &input);
        let mut plan = begun.map_err(|error| CallError::new(Status::Invalid, error.to_string()))?;
        let mut calls = Calls::default();
        // Of the part that failed first: the plan keeps only its status.
        let mut failure = None;
        loop {
            match plan.step() {
                Step::Call(call) => calls.0.push((call.id, self.begin(parts, deadline, call))),
                Step::Wait => {
                    for (id, outcome) in calls.next().await {
                        let outcome = outcome.map_err(|error| {
                            let status = error.status;
                            failure.get_or_insert(error);
                            status
                        });
                        // A reply has all values: it was split by the same schema.
                        let _ = plan.finish(id, outcome);
                    }
                }
                Step::Done(reply) => return join(self.composed.reply(), &reply),
                Step::Failed(part, status) => {
                    return Err(of_part(part, failure.unwrap_or(CallError::from(status))));
                }
            }
        }
    }

    fn begin<'c>(
        &'c self,
        parts: &'c dyn Parts,
        deadline: Instant,
        call: Call<'c, Encoded>,
    ) -> LocalFuture<'c, CallResult<Slots<Encoded>>> {
        let (service, name) = (name_of(call.service), call.method);
        Box::pin(async move {
            let unknown = || CallError::new(Status::NotFound, format!("no {service}.{name}"));
            let method = self.method(service, name).ok_or_else(unknown)?;
            let arguments = join(&method.parameters, &call.input)?;
            let reply = parts.call(service, method, deadline, arguments).await?;
            split(&method.reply, &reply)
        })
    }

    fn method(&self, service: &str, name: &str) -> Option<&Method<'static>> {
        let id = self.parts.find_type(TypeQuery::Name(service))?;
        Some(self.parts.service_type(id)?.profile.method(name)?.1)
    }
}

/// How the parts of a composition are called.
pub trait Parts {
    /// Calls a method of a service; over by `deadline`.
    fn call<'c>(
        &'c self,
        service: &'c str,
        method: &'c Method<'static>,
        deadline: Instant,
        arguments: Vec<u8>,
    ) -> LocalFuture<'c, CallResult<Vec<u8>>>;
}

/// By their names, wherever they are. A pure part whose instance has ended is called once more, at
/// the next best one.
impl Parts for Stl {
    fn call<'c>(
        &'c self,
        service: &'c str,
        method: &'c Method<'static>,
        deadline: Instant,
        arguments: Vec<u8>,
    ) -> LocalFuture<'c, CallResult<Vec<u8>>> {
        Box::pin(async move {
            let stl = self.with_patience(deadline.since(self.host().now()));
            let reply = stl.invoke(service, &method.name, &arguments).await;
            if !method.pure || !reply.as_ref().is_err_and(|error| may_be_elsewhere(error.status)) {
                return reply;
            }
            // Its place is forgotten: this finds the next best one.
            let stl = self.with_patience(deadline.since(self.host().now()));
            stl.invoke(service, &method.name, &arguments).await
        })
    }
}

/// Whether a call ended so because of where it was made.
fn may_be_elsewhere(status: Status) -> bool {
    matches!(status, Status::Dead | Status::Gone | Status::Panicked)
}

/// The calls of a plan that are not over.
#[derive(Default)]
struct Calls<'c>(Vec<(CallId, LocalFuture<'c, CallResult<Slots<Encoded>>>)>);

impl Calls<'_> {
    /// Waits until at least one is over. All are begun before the first is waited for.
    async fn next(&mut self) -> Vec<(CallId, CallResult<Slots<Encoded>>)> {
        poll_fn(|context| {
            let mut over = Vec::new();
            self.0.retain_mut(|(id, call)| match call.as_mut().poll(context) {
                Poll::Ready(result) => {
                    over.push((*id, result));
                    false
                }
                Poll::Pending => true,
            });
            if over.is_empty() { Poll::Pending } else { Poll::Ready(over) }
        })
        .await
    }
}

/// The values that `bytes` are, by their names in the schema.
fn split(schema: &[Parameter<'_>], bytes: &[u8]) -> CallResult<Slots<Encoded>> {
    check_binary(schema, bytes)?;
    let mut input = Reader::new(bytes);
    let mut slots = Slots::with_capacity(schema.len());
    for it in schema {
        let start = input.offset();
        Value::decode(&mut input, &it.ty, it.range)?;
        let value = Encoded::from(&bytes[start..input.offset()]);
        slots.push((String::from(&*it.name), Slot::Value(value)));
    }
    Ok(slots)
}

/// The message that the values of a schema are, whatever their order.
fn join(schema: &[Parameter<'_>], slots: &Slots<Encoded>) -> CallResult<Vec<u8>> {
    let mut bytes = Vec::new();
    put(schema, slots, &mut bytes)?;
    check_binary(schema, &bytes)?;
    Ok(bytes)
}

/// A record is its fields, one after the other.
fn put(schema: &[Parameter<'_>], slots: &Slots<Encoded>, out: &mut Vec<u8>) -> CallResult<()> {
    for it in schema {
        let slot = slots.iter().find(|(name, _)| *name == it.name).map(|(_, slot)| slot);
        match (slot, &it.ty) {
            (Some(Slot::Value(value)), _) => out.extend_from_slice(value),
            (Some(Slot::Record(fields)), Type::Record(schema)) => put(schema, fields, out)?,
            _ => {
                let message = format!("there is no value for {}", it.name);
                return Err(CallError::new(Status::Invalid, message));
            }
        }
    }
    Ok(())
}

/// A composition that is callable.
struct Published {
    composite: Rc<Composite>,
    stl: Stl,
}

impl Service for Published {
    fn dispatch(&self, caller: &Caller, method: MethodNumber, arguments: &[u8]) -> Dispatched {
        let name = self.composite.composed.name();
        if method != MethodNumber(0) {
            let message = format!("{name} has no method of number {}", method.0);
            return Dispatched::Done(Err(CallError::new(Status::NotFound, message)));
        }
        let (composite, stl) = (self.composite.clone(), self.stl.clone());
        let (deadline, arguments) = (caller.deadline, Vec::from(arguments));
        Dispatched::Later(Box::pin(async move { composite.call(&stl, deadline, &arguments).await }))
    }
}
