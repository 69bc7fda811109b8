//! From a subject to an instance. A subject, a task for example, uses one instance of a type at a
//! time: binding it to another unbinds it first (Dhara, III.C). Types that extend one and the same
//! are one type in this: a subject is bound to one of all their instances.
//!
//! What the service behind the registry does with an unbind and a bind, for example to take a task
//! out of one policy's queue and put it into another's, it does in the order in which
//! [`Bound`] names them. A bind that is refused has unbound nothing.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::attribute::{self, Attribute, Others};
use crate::error::BindError;
use crate::find::Query;
use crate::layer::Caller;
use crate::limits::MAX_BINDINGS;
use crate::registry::Registry;
use crate::service::{Handle, InstanceId, TypeId};

/// Who is bound to instances: a task, a job, a core. What the number means is the service's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Subject(pub u64);

/// What is to be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target<'a> {
    /// What a query finds.
    Query(Query<'a>),
    /// This one.
    Instance(InstanceId),
}

/// A subject is bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bound {
    /// What comes first: the end of what the subject had bound of the same type.
    pub unbound: Option<Unbound>,
    /// The type.
    pub ty: TypeId,
    /// What the subject has bound now.
    pub handle: Handle,
}

/// A subject is bound no longer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unbound {
    /// Who.
    pub subject: Subject,
    /// The type.
    pub ty: TypeId,
    /// What it had bound: as the instance is, or was when it was unpublished.
    pub handle: Handle,
    /// With which parameters.
    pub parameters: Box<[Attribute]>,
}

/// What a handle is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandleState {
    /// The instance is where the handle says.
    Live,
    /// The instance has moved; this is its handle.
    Moved(Handle),
    /// The instance was unpublished.
    Dead,
}

struct Binding {
    instance: InstanceId,
    parameters: Box<[Attribute]>,
}

/// All that is bound.
#[derive(Default)]
pub(crate) struct Bindings {
    /// By the farthest type that the instance's extends.
    by_subject: BTreeMap<(Subject, TypeId), Binding>,
    by_instance: BTreeSet<(InstanceId, Subject)>,
}

impl Bindings {
    fn remove(&mut self, subject: Subject, root: TypeId) -> Option<Binding> {
        let binding = self.by_subject.remove(&(subject, root))?;
        self.by_instance.remove(&(binding.instance, subject));
        Some(binding)
    }

    /// Unbinds all subjects of an instance.
    pub(crate) fn drop_instance(
        &mut self,
        (ty, root): (TypeId, TypeId),
        handle: Handle,
    ) -> Vec<Unbound> {
        let range = (handle.instance, Subject(0))..=(handle.instance, Subject(u64::MAX));
        let subjects: Vec<_> = self.by_instance.range(range).map(|(_, it)| *it).collect();
        let unbind = |subject| {
            let Binding { parameters, .. } = self.remove(subject, root)?;
            Some(Unbound { subject, ty, handle, parameters })
        };
        subjects.into_iter().filter_map(unbind).collect()
    }
}

impl Registry {
    /// Binds a subject, which first loses what it had bound of the same type, even if that is the
    /// same instance. `parameters` must be what the type asks for.
    pub fn bind(
        &mut self,
        caller: Caller,
        subject: Subject,
        target: &Target<'_>,
        parameters: &[Attribute],
    ) -> Result<Bound, BindError> {
        let (ty, handle) = match target {
            Target::Query(query) => {
                let found = self.find(query).map_err(BindError::Find)?;
                (found.ty, found.handle)
            }
            Target::Instance(id) => {
                let ty = self.type_of(*id).ok_or(BindError::UnknownInstance)?;
                let instance = self.instance(*id).ok_or(BindError::UnknownInstance)?;
                (ty, instance.handle)
            }
        };
        caller.may_bind(ty.layer).map_err(BindError::Layer)?;
        let rules = self.parameter_rules(ty);
        attribute::check(parameters, rules, Others::Refused).map_err(BindError::Parameter)?;
        let root = self.root(ty);
        let is_new = !self.bindings.by_subject.contains_key(&(subject, root));
        if is_new && self.bindings.by_subject.len() >= MAX_BINDINGS {
            return Err(BindError::TooManyBindings);
        }
        let unbound = self.unbind(subject, root);
        let binding = Binding { instance: handle.instance, parameters: parameters.into() };
        self.bindings.by_subject.insert((subject, root), binding);
        self.bindings.by_instance.insert((handle.instance, subject));
        Ok(Bound { unbound, ty, handle })
    }

    /// Unbinds a subject from what it has bound of a type; nothing if it has nothing bound.
    pub fn unbind(&mut self, subject: Subject, ty: TypeId) -> Option<Unbound> {
        self.binding(subject, ty)?;
        let root = self.root(ty);
        let Binding { instance, parameters } = self.bindings.remove(subject, root)?;
        let (ty, handle) = (self.type_of(instance)?, self.instance(instance)?.handle);
        Some(Unbound { subject, ty, handle, parameters })
    }

    /// What a subject has bound of a type, as it is now, and with which parameters.
    pub fn binding(&self, subject: Subject, ty: TypeId) -> Option<(Handle, &[Attribute])> {
        let key = (subject, self.root(ty));
        let Binding { instance, parameters } = self.bindings.by_subject.get(&key)?;
        if !self.is_a(self.type_of(*instance)?, ty) {
            return None;
        }
        Some((self.instance(*instance)?.handle, parameters))
    }

    /// Whoever is bound to an instance.
    pub fn subjects(&self, id: InstanceId) -> impl Iterator<Item = Subject> {
        let range = (id, Subject(0))..=(id, Subject(u64::MAX));
        self.bindings.by_instance.range(range).map(|(_, subject)| *subject)
    }

    /// What a handle is good for. One of another registry is dead.
    pub fn state_of(&self, handle: Handle) -> HandleState {
        match self.instance(handle.instance).map(|instance| instance.handle) {
            Some(now) if now == handle => HandleState::Live,
            Some(now) => HandleState::Moved(now),
            None => HandleState::Dead,
        }
    }
}
