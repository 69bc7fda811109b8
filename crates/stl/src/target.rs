//! A found service as a typed client has it: a call on the same core is a call of a function.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;

use nile_abi::{CoreId, Status};
use nile_bosml::{Decode, Reader, Writer};
use nile_registry::Place as At;

use crate::host::Place;
use crate::invoke::MOST_MOVES;
use crate::stl::{Local, Resolved};
use crate::{CallError, CallResult, Caller, MethodNumber, Methods, Stl};

/// One half of a found service: `M` is its methods, as `dyn NameKernel`.
pub struct Target<M: ?Sized> {
    line: Line,
    /// If it is on this core.
    here: Option<(Rc<Local>, Rc<M>)>,
}

/// The way to a service, whatever its type.
struct Line {
    stl: Stl,
    name: &'static str,
    /// Where it was found: on this core, on another one, or, the other half of an instance, here.
    /// `None`: in the kernel beneath this package.
    at: Option<Place>,
    /// Whether any instance of the name is meant: then one that has moved is followed.
    follows: bool,
    /// Where it has moved to.
    moved: Cell<Option<Place>>,
}

impl<M: Methods + ?Sized> Target<M> {
    /// The nearest instance of a service. As [`Stl::invoke`], and `Dead` is not among the errors.
    pub async fn find(stl: &Stl) -> CallResult<Target<M>> {
        let resolved = stl.resolve(M::INTERFACE.name).await?;
        let mut target = Target::new(stl, resolved);
        target.line.follows = true;
        Ok(target)
    }

    /// The instance on one core, of any node.
    pub async fn find_at(stl: &Stl, at: impl Into<At>) -> CallResult<Target<M>> {
        let place = stl.find_at(at, M::INTERFACE.name).await?;
        let resolved = stl.local(place).map_or(Resolved::At(place), Resolved::Here);
        Ok(Target::new(stl, resolved))
    }

    /// The instance at a place.
    pub fn at(stl: &Stl, place: Place) -> Target<M> {
        let resolved = stl.local(place).map_or(Resolved::At(place), Resolved::Here);
        Target::new(stl, resolved)
    }

    fn new(stl: &Stl, resolved: Resolved) -> Target<M> {
        let (at, here) = match resolved {
            Resolved::Here(local) => match local.half.methods() {
                Some(methods) => (Some(local.place), Some((local, methods))),
                // This half is not here.
                None if stl.core.upstream.is_some() => (None, None),
                None => (Some(local.place), None),
            },
            Resolved::At(place) => (Some(place), None),
            Resolved::Up => (None, None),
        };
        let name = M::INTERFACE.name;
        let line = Line { stl: stl.clone(), name, at, follows: false, moved: Cell::new(None) };
        Target { line, here }
    }

    /// The methods themselves, if they are on this core: `Ok(None)` if they are elsewhere,
    /// `Dead` if they were here and no other instance is meant.
    #[inline]
    pub fn here(&self) -> CallResult<Option<&M>> {
        match &self.here {
            Some((local, methods)) if local.live.get() => Ok(Some(methods)),
            Some(_) if !self.line.follows => Err(CallError::from(Status::Dead)),
            _ => Ok(None),
        }
    }

    /// Who calls, for a direct call.
    pub fn caller(&self) -> Caller {
        self.line.stl.caller()
    }

    /// The core that the service is on, if it is not in the kernel beneath.
    pub fn core(&self) -> Option<CoreId> {
        self.place().map(|place| place.core)
    }

    /// Where the service is, if it is not in the kernel beneath.
    pub fn place(&self) -> Option<Place> {
        self.line.place()
    }

    /// Calls a method of a service that is not on this core: `encode` puts its arguments, `T` is
    /// what the reply is decoded to.
    pub async fn call<T: for<'a> Decode<'a>>(
        &self,
        method: (MethodNumber, &str),
        encode: impl FnOnce(&mut Writer),
    ) -> CallResult<T> {
        let mut out = Writer::new();
        encode(&mut out);
        let reply = self.line.exchange(method, out).await?;
        let mut input = Reader::new(&reply);
        let value = T::decode(&mut input)?;
        input.finish()?;
        Ok(value)
    }
}

impl Line {
    fn place(&self) -> Option<Place> {
        self.moved.get().or(self.at)
    }

    /// What a method says to such arguments.
    async fn exchange(
        &self,
        (method, name): (MethodNumber, &str),
        arguments: Writer,
    ) -> CallResult<Vec<u8>> {
        let arguments = arguments.into_bytes()?;
        let Some(place) = self.place() else {
            return self.stl.call_up(self.name, name, &arguments);
        };
        let (mut place, mut result) = (place, self.stl.try_at(place, method, &arguments).await);
        for _ in 0..MOST_MOVES {
            let now = self.stl.moved(self.name, place, &result).await;
            let Some(now) = now.filter(|_| self.follows) else { break };
            self.moved.set(Some(now));
            (place, result) = (now, self.stl.try_at(now, method, &arguments).await);
        }
        result.map_err(CallError::gone_is_dead)
    }
}
