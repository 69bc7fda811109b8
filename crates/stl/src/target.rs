//! A found service as a typed client has it: a call on the same core is a call of a function.

use alloc::rc::Rc;
use core::any::Any;
use core::cell::Cell;

use nile_abi::{CoreId, Status};
use nile_bosml::{Decode, Reader, Writer};
use nile_registry::Place as At;

use crate::host::Place;
use crate::stl::{Local, Resolved};
use crate::{CallError, CallResult, Caller, MethodNumber, Service, Stl};

/// The instance's service, if it is of this type.
fn service_of<S: Service>(local: &Local) -> Option<Rc<S>> {
    let service: Rc<dyn Any> = local.half.service.clone();
    service.downcast().ok()
}

/// One half of a found service: `S` is the service that `#[service]` made of that half.
pub struct Target<S> {
    stl: Stl,
    name: &'static str,
    to: To<S>,
    /// Whether any instance of the name is meant: then one that has moved is followed.
    follows: bool,
    /// Where it has moved to.
    moved: Cell<Option<Place>>,
}

enum To<S> {
    /// On this core.
    Here(Rc<Local>, Rc<S>),
    /// On another core, or the other half of an instance here.
    At(Place),
    /// In the kernel beneath this package.
    Up,
}

impl<S: Service> Target<S> {
    /// The nearest instance of a service. As [`Stl::invoke`], and `Dead` is not among the errors.
    pub async fn find(stl: &Stl, name: &'static str) -> CallResult<Target<S>> {
        let resolved = stl.resolve(name).await?;
        Ok(Target { follows: true, ..Target::new(stl, name, resolved) })
    }

    /// The instance on one core, of any node.
    pub async fn find_at(
        stl: &Stl,
        at: impl Into<At>,
        name: &'static str,
    ) -> CallResult<Target<S>> {
        let place = stl.find_at(at, name).await?;
        let resolved = stl.local(place).map_or(Resolved::At(place), Resolved::Here);
        Ok(Target::new(stl, name, resolved))
    }

    /// The instance at a place.
    pub fn at(stl: &Stl, name: &'static str, place: Place) -> Target<S> {
        let resolved = stl.local(place).map_or(Resolved::At(place), Resolved::Here);
        Target::new(stl, name, resolved)
    }

    fn new(stl: &Stl, name: &'static str, resolved: Resolved) -> Target<S> {
        let to = match resolved {
            Resolved::Here(local) => match service_of(&local) {
                Some(service) => To::Here(local, service),
                // This half is not here.
                None if stl.core.upstream.is_some() => To::Up,
                None => To::At(local.place),
            },
            Resolved::At(place) => To::At(place),
            Resolved::Up => To::Up,
        };
        Target { stl: stl.clone(), name, to, follows: false, moved: Cell::new(None) }
    }

    /// The service itself, if it is on this core: `Ok(None)` if it is elsewhere, `Dead` if it was
    /// here and no other instance is meant.
    #[inline]
    pub fn here(&self) -> CallResult<Option<&S>> {
        match &self.to {
            To::Here(local, service) if local.live.get() => Ok(Some(service)),
            To::Here(..) if !self.follows => Err(CallError::from(Status::Dead)),
            _ => Ok(None),
        }
    }

    /// Who calls, for a direct call.
    pub fn caller(&self) -> Caller {
        self.stl.caller()
    }

    /// The core that the service is on, if it is not in the kernel beneath.
    pub fn core(&self) -> Option<CoreId> {
        self.place().map(|place| place.core)
    }

    /// Where the service is, if it is not in the kernel beneath.
    pub fn place(&self) -> Option<Place> {
        if self.moved.get().is_some() {
            return self.moved.get();
        }
        match &self.to {
            To::Here(local, _) => Some(local.place),
            To::At(place) => Some(*place),
            To::Up => None,
        }
    }

    /// Calls a method of a service that is not on this core: `encode` puts its arguments, `T` is
    /// what the reply is decoded to.
    pub async fn call<T: for<'a> Decode<'a>>(
        &self,
        (method, name): (MethodNumber, &str),
        encode: impl FnOnce(&mut Writer),
    ) -> CallResult<T> {
        let mut out = Writer::new();
        encode(&mut out);
        let arguments = out.into_bytes()?;
        let reply = match self.place() {
            Some(place) => {
                let mut result = self.stl.try_at(place, method, &arguments).await;
                let now = self.stl.moved(self.name, place, &result).await;
                if let Some(now) = now.filter(|_| self.follows) {
                    self.moved.set(Some(now));
                    result = self.stl.try_at(now, method, &arguments).await;
                }
                result.map_err(CallError::gone_is_dead)?
            }
            None => self.stl.call_up(self.name, name, &arguments)?,
        };
        let mut input = Reader::new(&reply);
        let value = T::decode(&mut input)?;
        input.finish()?;
        Ok(value)
    }
}
