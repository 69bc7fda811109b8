//! The registry's data, and in which incarnation of its core each instance was published.

mod expelled;

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::fmt::Display;

use nile_abi::{CoreId, Generation, Instant, NodeId, Status};
use nile_bosml::discovery;
use nile_order::SortedMap;
use nile_registry::limits::MAX_ANCESTORS;
use nile_registry::priority::PRIORITY;
use nile_registry::{
    Attribute, Caller as Binder, Constraint, Event, FAILURES, FindError, Instance, InstanceId,
    LATENCY, Layer, PER_SECOND, Query, RegisterError, Registry, ServiceType, Subject, Target,
    TypeId, TypeQuery, WatchFilter, WatcherId,
};
use nile_stl::{At, CallError, CallResult, Host, Place, ServiceNumber, Stl};
use nile_sync::Notify;

use super::described;
use super::observed::Observed;
use crate::page::page;
use nile_interfaces::registry::Wanted;
use nile_interfaces::registry::{self as values, Condition, NamedValue};
use nile_interfaces::registry::{
    Binding, Change, Concerned, Found, Listed, Local, Offered, Publication, Rating, Weighted,
};

/// Instances in one answer about this node's.
const PAGE: usize = 32;

/// Instances that an error names.
const MOST_NAMED: usize = 16;

/// Changes that wait for one watcher.
const QUEUE: usize = 256;

/// What a registry knows.
#[derive(Default)]
pub(super) struct State(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    registry: Registry,
    /// Where each instance is, as its core numbers it, or its node.
    places: SortedMap<InstanceId, Place>,
    /// What this node's instances said that are of no service of its image: other nodes ask.
    unknown_elsewhere: SortedMap<InstanceId, Publication>,
    /// By the numbers that callers have, each with the core that watches.
    watchers: SortedMap<u64, (CoreId, WatcherId)>,
    next_watcher: u64,
    observed: Observed,
    /// The core that keeps the time.
    host: Option<Rc<dyn Host>>,
    /// What random numbers begin with.
    drawn: Cell<u64>,
    /// Who waits for a change.
    news: Rc<Notify>,
}

/// An error of the registry as the end of a call.
fn refused<E: Display + Into<Status>>(error: E) -> CallError {
    let message = error.to_string();
    CallError::new(error.into(), message)
}

impl State {
    /// A registry without services, that forgets those of cores which end.
    pub fn new(stl: &Stl) -> State {
        let inner = Rc::new(RefCell::new(Inner::default()));
        inner.borrow_mut().host = Some(stl.host().clone());
        let mut seed = [0; 8];
        // Without a source of it every node draws the same, which is as good for a balance.
        if stl.node().is_ok_and(|node| node.entropy(&mut seed)) {
            inner.borrow().drawn.set(u64::from_le_bytes(seed));
        }
        let dying = Rc::downgrade(&inner);
        stl.on_death(move |core, generation| {
            if let Some(inner) = dying.upgrade() {
                inner.borrow_mut().forget(core, generation);
            }
        });
        State(inner)
    }

    /// Publishes what a core has, of this node or of another one.
    pub fn publish(&self, at: impl Into<At>, publication: &Publication) -> CallResult<()> {
        self.0.borrow_mut().publish(at.into(), publication)
    }

    /// Ends an instance on another node; one that is not known is what is wanted.
    pub fn unlearn(&self, node: NodeId, number: u16) {
        let mut inner = self.0.borrow_mut();
        let is_it = |at: &Place| (at.node, at.number) == (node, ServiceNumber(number));
        let id = inner.places.iter().find(|(_, known)| is_it(known)).map(|(id, _)| *id);
        if let Some(id) = id {
            inner.remove(id);
        }
    }

    /// Ends every instance on any other node: nothing is known of them any more.
    pub fn forget_others(&self) {
        self.0.borrow_mut().remove_all(|at| !at.is_here());
    }

    /// Ends every instance on another node: it is gone, or not the one that it was.
    pub fn forget_node(&self, node: NodeId) {
        if node != Place::HERE {
            self.0.borrow_mut().remove_all(|at| at.node == node);
        }
    }

    pub fn unpublish(&self, core: CoreId, generation: u32, number: u16) -> CallResult<()> {
        let (node, generation) = (Place::HERE, Generation(generation));
        let place = Place { node, core, generation, number: ServiceNumber(number) };
        let mut inner = self.0.borrow_mut();
        let id = inner.id_at(place)?;
        inner.remove(id);
        Ok(())
    }

    pub fn find(&self, asker: Binder, name: &str, near: CoreId) -> CallResult<Found> {
        let inner = self.0.borrow();
        let found = inner.registry.find_named(name, Some(near.into())).map_err(refused)?;
        inner.permitted(asker, name, &found)
    }

    pub fn find_at(&self, asker: Binder, name: &str, at: At) -> CallResult<Found> {
        let inner = self.0.borrow();
        let found = inner.registry.find_named(name, Some(at)).map_err(refused)?;
        if found.handle.location.place() != at {
            return Err(CallError::new(Status::NotFound, format!("no {name} on {at}")));
        }
        inner.permitted(asker, name, &found)
    }

    /// Notes how instances were found to serve; those that have ended meanwhile are nobody's.
    pub fn observe(&self, core: CoreId, ratings: &[Rating]) {
        let inner = &mut *self.0.borrow_mut();
        let now = inner.now();
        for rating in ratings {
            let place = Place::from(rating.found);
            if let Ok(id) = inner.id_at(place) {
                inner.observed.note(&mut inner.registry, id, core, rating, now);
            }
        }
    }

    /// Instances with pure methods behind the first ones, as many as fit a reply.
    pub fn offers(&self, skip: usize) -> Vec<Offered> {
        let inner = &mut *self.0.borrow_mut();
        inner.age();
        let inner = &*inner;
        let layers = [Layer::High, Layer::Low].into_iter();
        let types = layers.flat_map(|layer| inner.registry.types(layer));
        let pure = types.filter(|(_, ty)| ty.profile.methods.iter().any(|it| it.pure));
        let instances = pure
            .flat_map(|(id, ty)| inner.registry.instances(id).map(move |instance| (ty, instance)));
        let offered = instances.filter_map(|(ty, it)| {
            let number = |name| it.number(name).and_then(|it| u64::try_from(it).ok());
            // What takes no time, or no calls, says nothing.
            let known = |name| number(name).filter(|it| *it != 0);
            Some(Offered {
                name: it.name().into(),
                found: inner.place(it.handle().instance).ok()?,
                layer: ty.layer,
                latency_ns: known(LATENCY),
                failures_ppm: u32::try_from(number(FAILURES).unwrap_or(0)).unwrap_or(u32::MAX),
                per_second: known(PER_SECOND),
                measured: it.quality().is_some(),
            })
        });
        page(offered.skip(skip))
    }

    pub fn search(&self, asker: Binder, wanted: &Wanted, near: CoreId) -> CallResult<Found> {
        let mut inner = self.0.borrow_mut();
        inner.age();
        let found = inner.find(wanted, near)?;
        inner.permitted(asker, &wanted.type_name, &found)
    }

    pub fn bind(
        &self,
        asker: Binder,
        subject: u64,
        wanted: &Wanted,
        parameters: &[NamedValue],
        near: CoreId,
    ) -> CallResult<Binding> {
        let mut inner = self.0.borrow_mut();
        inner.age();
        let found = inner.find(wanted, near)?;
        let rules = inner.registry.parameter_rules(found.ty);
        let parameters = values::attributes(parameters, rules);
        let target = Target::Instance(found.handle.instance);
        let bound = inner.registry.bind(asker, Subject(subject), &target, &parameters);
        let bound = bound.map_err(refused)?;
        let name_of = |id| inner.registry.instance(id).map(|instance| instance.name().to_string());
        Ok(Binding {
            found: inner.place(bound.handle.instance)?,
            name: name_of(bound.handle.instance).unwrap_or_default(),
            unbound: bound.unbound.and_then(|it| name_of(it.handle.instance)),
        })
    }

    pub fn order(&self, type_name: &str) -> CallResult<Vec<Listed>> {
        let inner = self.0.borrow();
        let ty = inner.type_named(type_name)?;
        Ok(page(inner.listed(inner.registry.by_priority(ty))))
    }

    /// The keywords of all policies of a type, as many as fit a reply.
    pub fn keywords(&self, type_name: &str) -> CallResult<Vec<String>> {
        let inner = self.0.borrow();
        let ty = inner.type_named(type_name)?;
        let all = inner.registry.by_priority(ty);
        let words = all.flat_map(|(_, it)| inner.registry.keywords(it.handle().instance));
        let words: BTreeSet<&str> = words.map(|(word, _)| word).collect();
        Ok(page(words.into_iter().map(String::from)))
    }

    pub fn share(
        &self,
        asker: Binder,
        type_name: &str,
        values: &[NamedValue],
    ) -> CallResult<Vec<NamedValue>> {
        let mut inner = self.0.borrow_mut();
        let ty = inner.type_named(type_name)?;
        for value in values {
            permit(asker, type_name, ty)?;
            let Attribute { name, value } = value.attribute(&[]);
            inner.registry.set_state(ty, &name, value).map_err(refused)?;
        }
        Ok(inner.registry.state(ty).unwrap_or_default().iter().map(NamedValue::from).collect())
    }

    pub fn unbind(&self, subject: u64, type_name: &str) -> CallResult<bool> {
        let mut inner = self.0.borrow_mut();
        let ty = inner.type_named(type_name)?;
        Ok(inner.registry.unbind(Subject(subject), ty).is_some())
    }

    /// The instances behind the first ones, as many as fit a reply.
    pub fn list(&self, skip: usize) -> Vec<Listed> {
        let inner = self.0.borrow();
        let types = Layer::ALL.into_iter().flat_map(|layer| inner.registry.types(layer));
        let each = |(id, _)| inner.registry.instances(id).map(move |it| (id, it));
        page(inner.listed(types.flat_map(each)).skip(skip))
    }

    /// Where the instances of a name are from a core on, as many as fit a reply.
    pub fn instances(&self, name: &str, from: At) -> Vec<Found> {
        let inner = self.0.borrow();
        let named = inner.registry.named(name, from);
        page(named.filter_map(|it| inner.place(it.handle().instance).ok()))
    }

    /// What an instance of this node said of itself when it was published.
    pub fn publication(&self, core: CoreId, name: &str) -> CallResult<Publication> {
        let inner = self.0.borrow();
        let mut said = inner.unknown_elsewhere.iter();
        let is_it = |id: &InstanceId, it: &Publication| {
            it.name == name && inner.places.get(id).is_some_and(|at| at.core == core)
        };
        let found = said.find(|(id, it)| is_it(id, it)).map(|(_, it)| it.clone());
        let missing = || format!("{name} on core {core} said nothing of itself");
        found.ok_or_else(|| CallError::new(Status::NotFound, missing()))
    }

    /// Instances of this node from one on, in the order of their numbers; as many as fit a reply.
    pub fn local(&self, from: u32) -> Vec<Local> {
        let inner = self.0.borrow();
        let here = inner.places.range(InstanceId(from)..).filter(|(_, place)| place.is_here());
        let local = here.filter_map(|(id, place)| {
            let instance = inner.registry.instance(*id)?;
            let ty = inner.registry.service_type(inner.registry.type_of(*id)?)?;
            let keywords = inner.registry.keywords(*id);
            let weighted = |(word, weight): (&str, u16)| Weighted { word: word.into(), weight };
            let attributes = instance.attributes().iter();
            Some(Local {
                id: id.0,
                found: Found::from(*place),
                name: instance.name().into(),
                type_name: ty.name.to_string(),
                subsystem: ty.subsystem.to_string(),
                capability: ty.capability.to_string(),
                layer: ty.layer,
                extends: lineage(ty),
                keywords: keywords.map(weighted).collect(),
                attributes: attributes.map(NamedValue::from).collect(),
            })
        });
        local.take(PAGE).collect()
    }

    pub fn watch(&self, core: CoreId, type_name: &str) -> CallResult<u64> {
        let mut inner = self.0.borrow_mut();
        let filter = match type_name {
            "" => WatchFilter::All,
            name => WatchFilter::Type(inner.type_named(name)?),
        };
        let id = inner.registry.watch(filter, QUEUE).map_err(refused)?;
        inner.next_watcher += 1;
        let number = inner.next_watcher;
        inner.watchers.insert(number, (core, id));
        Ok(number)
    }

    /// What has happened since the last time; perhaps nothing.
    pub fn changes(&self, watcher: u64) -> CallResult<Vec<Change>> {
        let mut inner = self.0.borrow_mut();
        let id = inner.watcher(watcher)?;
        let mut changes = Vec::new();
        while let Some(event) = inner.registry.next_event(id).map_err(refused)? {
            let of = |name: &str, at: At| Concerned {
                name: name.into(),
                node: at.node.0,
                core: at.core.0,
            };
            changes.push(match event {
                Event::Publish { name, handle, .. } => {
                    Change::Published(of(&name, handle.location.place()))
                }
                Event::Unpublish { name, handle, .. } => {
                    Change::Unpublished(of(&name, handle.location.place()))
                }
                Event::Move { name, to, .. } => Change::Moved(of(&name, to.location.place())),
                Event::Expel { name, handle, .. } => {
                    Change::Expelled(of(&name, handle.location.place()))
                }
                Event::Missed(count) => Change::Missed(count),
            });
        }
        Ok(changes)
    }

    /// Notified of every change.
    pub fn news(&self) -> Rc<Notify> {
        self.0.borrow().news.clone()
    }

    pub fn unwatch(&self, watcher: u64) -> CallResult<()> {
        let mut inner = self.0.borrow_mut();
        let id = inner.watcher(watcher)?;
        inner.watchers.remove(&watcher);
        let ended = inner.registry.unwatch(id).map_err(refused);
        // Who waits for this watcher's changes learns that it has ended.
        inner.changed();
        ended
    }
}

impl Inner {
    fn publish(&mut self, at: At, publication: &Publication) -> CallResult<()> {
        let Publication { name, document, generation, number, .. } = publication;
        let (generation, number) = (Generation(*generation), ServiceNumber(*number));
        let place = Place { node: at.node, core: at.core, generation, number };
        let (ty, new) = match document.as_str() {
            "" => {
                let known = crate::ALL.into_iter().find(|known| known.name() == name);
                let unknown = || {
                    let message = format!("{name} is no service of this image, and says no schema");
                    CallError::new(Status::NotFound, message)
                };
                described::known(known.ok_or_else(unknown)?)
            }
            document => described::unknown(discovery::parse(document)?.into_owned(), publication)?,
        };
        let ty = self.register(ty)?;
        // A core has one instance of a name: what it published before is gone, told or not.
        let old = self.registry.named(name, at).next().map(|it| it.handle());
        if let Some(old) = old.filter(|it| it.location.place() == at) {
            // It asks again because it did not hear the answer, or has something to add.
            if self.places.get(&old.instance) == Some(&place) {
                self.learn_expelled(old.instance, publication);
                return Ok(());
            }
            self.remove(old.instance);
        }
        let handle = self.registry.publish(ty, new, at).map_err(refused)?;
        self.places.insert(handle.instance, place);
        if place.is_here() && !document.is_empty() {
            self.unknown_elsewhere.insert(handle.instance, publication.clone());
        }
        self.learn_expelled(handle.instance, publication);
        self.changed();
        Ok(())
    }

    /// The type, registered if it was not, as are those that it extends. `Exists` if there is
    /// another one of the name.
    fn register(&mut self, ty: ServiceType) -> CallResult<TypeId> {
        let ancestors: Vec<_> = ty.ancestors().collect();
        if ancestors.len() > MAX_ANCESTORS {
            return Err(refused(RegisterError::TooDeep));
        }
        for ancestor in ancestors.into_iter().rev() {
            self.register_one(ancestor.clone())?;
        }
        self.register_one(ty)
    }

    fn register_one(&mut self, ty: ServiceType) -> CallResult<TypeId> {
        let Some(known) = self.registry.find_type(TypeQuery::Name(&ty.name)) else {
            return self.registry.register(ty).map_err(refused);
        };
        let other = self.registry.service_type(known).and_then(|it| described::differ(it, &ty));
        match other {
            None => Ok(known),
            Some(what) => {
                let message = format!("the type {} is registered with other {what}", ty.name);
                Err(CallError::new(Status::Exists, message))
            }
        }
    }

    fn remove(&mut self, id: InstanceId) {
        self.places.remove(&id);
        self.observed.forget(id);
        self.unknown_elsewhere.remove(&id);
        // One that is not there any more is what is wanted.
        let _ = self.registry.unpublish(id);
        self.changed();
    }

    fn remove_all(&mut self, gone: impl Fn(&Place) -> bool) {
        let ids = self.places.iter().filter_map(|(id, at)| gone(at).then_some(*id));
        for id in ids.collect::<Vec<_>>() {
            self.remove(id);
        }
    }

    fn forget(&mut self, core: CoreId, generation: Generation) {
        self.remove_all(|at| at.is_here() && (at.core, at.generation) == (core, generation));
        // Its next incarnation is heard of after this.
        for (_, (_, id)) in self.watchers.extract(|_, (watches, _)| *watches == core) {
            let _ = self.registry.unwatch(id);
        }
    }

    fn changed(&mut self) {
        self.news.notify();
    }

    fn permitted(
        &self,
        asker: Binder,
        name: &str,
        found: &nile_registry::Found,
    ) -> CallResult<Found> {
        permit(asker, name, found.ty)?;
        self.place(found.handle.instance)
    }

    /// The instance that is wanted near a core.
    fn find(&self, wanted: &Wanted, near: CoreId) -> CallResult<nile_registry::Found> {
        let Wanted { type_name, keywords, conditions, least } = wanted;
        let ty = self.type_named(type_name)?;
        let words: Vec<&str> = keywords.iter().map(String::as_str).collect();
        let mut values = Vec::new();
        for Condition { relation, value } in conditions {
            values.push((*relation, value.attribute(self.registry.attribute_rules(ty))));
        }
        let constraints = values.iter().map(|(relation, Attribute { name, value })| Constraint {
            name,
            relation: *relation,
            value,
        });
        let constraints: Vec<_> = constraints.collect();
        let query = Query::of(TypeQuery::Id(ty)).keywords(&words).constraints(&constraints);
        let query = match least {
            None => query,
            Some(least) => query.least(least, self.draw()),
        };
        self.registry.find(&query.prefer(near.into())).map_err(|error| match error {
            FindError::NoMatch => self.no_match(ty),
            error => refused(error),
        })
    }

    /// Nothing of a type is as it was wanted; what there is.
    fn no_match(&self, ty: TypeId) -> CallError {
        let error = FindError::NoMatch;
        let known = self.registry.by_priority(ty).map(|(_, it)| it);
        let mut said = Vec::new();
        for it in known.chain(self.registry.instances(ty)) {
            let name = it.name();
            let line = match it.number(PRIORITY) {
                Some(priority) => format!("{name} ({PRIORITY}={priority})"),
                None => name.to_string(),
            };
            if said.len() < MOST_NAMED && !said.contains(&line) {
                said.push(line);
            }
        }
        let there_is =
            if said.is_empty() { String::new() } else { format!("; there is {}", said.join(", ")) };
        CallError::new(error.clone().into(), format!("{error}{there_is}"))
    }

    fn now(&self) -> Instant {
        self.host.as_ref().map_or(Instant::START, |host| host.now())
    }

    /// Forgets what was measured long ago.
    fn age(&mut self) {
        let now = self.now();
        self.observed.age(&mut self.registry, now);
    }

    /// A random number (SplitMix64).
    fn draw(&self) -> u64 {
        self.drawn.set(self.drawn.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mixed = self.drawn.get();
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Instances with their types, as they are told.
    fn listed<'a>(
        &'a self,
        all: impl Iterator<Item = (TypeId, &'a Instance)>,
    ) -> impl Iterator<Item = Listed> {
        all.filter_map(|(id, instance)| {
            let handle = instance.handle();
            let ty = self.registry.service_type(id)?;
            let keywords = self.registry.keywords(handle.instance);
            Some(Listed {
                name: instance.name().into(),
                type_name: ty.name.to_string(),
                extends: lineage(ty),
                layer: ty.layer,
                working: instance.working().into(),
                found: self.place(handle.instance).ok()?,
                keywords: keywords.map(|(word, _)| word.into()).collect(),
            })
        })
    }

    fn id_at(&self, place: Place) -> CallResult<InstanceId> {
        let found = self.places.iter().find(|(_, known)| **known == place);
        found.map(|(id, _)| *id).ok_or_else(missing)
    }

    fn place(&self, id: InstanceId) -> CallResult<Found> {
        Ok(Found::from(*self.places.get(&id).ok_or_else(missing)?))
    }

    fn type_named(&self, name: &str) -> CallResult<TypeId> {
        let missing = || CallError::new(Status::NotFound, format!("no service type {name}"));
        self.registry.find_type(TypeQuery::Name(name)).ok_or_else(missing)
    }

    fn watcher(&self, number: u64) -> CallResult<WatcherId> {
        let missing = || CallError::new(Status::NotFound, format!("no watcher {number}"));
        self.watchers.get(&number).map(|(_, id)| *id).ok_or_else(missing)
    }
}

fn missing() -> CallError {
    CallError::new(Status::NotFound, "there is no such instance")
}

/// What a type extends, the nearest first.
fn lineage(ty: &ServiceType) -> Vec<String> {
    ty.ancestors().map(|it| it.name.to_string()).collect()
}

/// Whether somebody may bind instances of a type.
fn permit(asker: Binder, name: &str, ty: TypeId) -> CallResult<()> {
    let may = asker.may_bind(ty.layer());
    may.map_err(|error| CallError::new(Status::Denied, format!("{name}: {error}")))
}

#[cfg(test)]
mod tests;
