//! The registry of a node: three layers, each with its own types, and what is published in them.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use nile_abi::Generation;
use nile_bosml::schema::begins_with;
use nile_order::SortedMap;

use crate::attribute::{self, Attribute, AttributeError, AttributeRule, AttributeValue, cut};
use crate::bind::Bindings;
use crate::bind::Unbound;
use crate::entry::Entry;
use crate::error::{
    MoveError, PublishError, RegisterError, StateError, UnknownInstance, UnregisterError,
};
use crate::layer::Layer;
use crate::limits::{MAX_ANCESTORS, MAX_INSTANCES, MAX_TEXT, MAX_TYPES};
use crate::priority::{PRIORITY, Priority};
use crate::service::{
    EXPELLED, Handle, Instance, InstanceId, Location, NewInstance, Place, Quality, ServiceNumber,
    ServiceType, TypeId,
};
use crate::watch::{Event, Watchers};

/// The types of one layer (the `SOA_Root` of Dhara, III.C).
#[derive(Default)]
pub(crate) struct LayerRegistry {
    /// At the index of their number; empty where a type was unregistered.
    types: Vec<Option<Entry>>,
    pub(crate) by_capability: SortedMap<Box<str>, SortedMap<Box<str>, TypeId>>,
}

/// See the module. Nothing in it blocks.
#[derive(Default)]
pub struct Registry {
    layers: [LayerRegistry; 3],
    pub(crate) by_name: SortedMap<Box<str>, TypeId>,
    /// The type of each instance that was ever published; empty where it was unpublished.
    directory: Vec<Option<TypeId>>,
    count: usize,
    /// Whoever has a name, by place.
    pub(crate) names: BTreeMap<Arc<str>, BTreeSet<(Place, TypeId, InstanceId)>>,
    pub(crate) bindings: Bindings,
    pub(crate) watchers: Watchers,
}

/// An instance that is not published any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unpublished {
    /// Its type.
    pub ty: TypeId,
    /// Its name.
    pub name: Arc<str>,
    /// Where it was. The handle is dead.
    pub handle: Handle,
    /// Whoever was bound to it and is no longer.
    pub unbound: Vec<Unbound>,
}

/// An instance that is now on another core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// What it was. The handle is stale.
    pub from: Handle,
    /// What it is: one generation later.
    pub to: Handle,
}

impl Registry {
    /// A registry without types.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// Registers a type in the registry of its layer. Fails if a name, capability or limit is in
    /// the way.
    pub fn register(&mut self, ty: ServiceType) -> Result<TypeId, RegisterError> {
        ty.check()?;
        if self.by_name.contains_key(ty.name.as_ref()) {
            return Err(RegisterError::NameTaken(ty.name.into()));
        }
        let layer = &mut self.layers[ty.layer as usize];
        let subsystem = layer.by_capability.get(ty.subsystem.as_ref());
        if subsystem.is_some_and(|capabilities| capabilities.contains_key(ty.capability.as_ref())) {
            let taken = (ty.subsystem.into(), ty.capability.into());
            return Err(RegisterError::CapabilityTaken(taken.0, taken.1));
        }
        if layer.types.len() >= MAX_TYPES {
            return Err(RegisterError::TooManyTypes);
        }
        let index = u16::try_from(layer.types.len()).map_err(|_| RegisterError::TooManyTypes)?;
        let id = TypeId { layer: ty.layer, index };
        let parent = self.parent_of(&ty)?;
        if let Some(parent) = parent.and_then(|parent| self.entry_mut(parent)) {
            parent.children.push(id);
        }
        let layer = &mut self.layers[ty.layer as usize];
        let capabilities = layer.by_capability.entry(ty.subsystem.as_ref().into()).or_default();
        capabilities.insert(ty.capability.as_ref().into(), id);
        self.by_name.insert(ty.name.as_ref().into(), id);
        layer.types.push(Some(Entry::new(ty, parent)));
        Ok(id)
    }

    /// The type that another one extends, if it can.
    fn parent_of(&self, ty: &ServiceType) -> Result<Option<TypeId>, RegisterError> {
        let Some(parent) = &ty.extends else { return Ok(None) };
        let name = || cut(&parent.get().name);
        let unknown = || RegisterError::UnknownParent(name());
        let id = self.by_name.get(&*parent.get().name).copied().ok_or_else(unknown)?;
        let known = self.service_type(id).ok_or_else(unknown)?;
        if known.layer != ty.layer {
            return Err(RegisterError::OtherLayer(name()));
        }
        if !begins_with(&ty.profile, &known.profile) {
            return Err(RegisterError::OtherMethods(name()));
        }
        if self.lineage(id).count() > MAX_ANCESTORS {
            return Err(RegisterError::TooDeep);
        }
        for (own, theirs) in [
            (&ty.attributes, self.rules(id, |it| &it.attributes)),
            (&ty.parameters, self.rules(id, |it| &it.parameters)),
        ] {
            let mut theirs = theirs;
            if let Some(twice) = theirs.find(|it| own.iter().any(|own| own.name == it.name)) {
                let twice = AttributeError::Twice(twice.name.as_ref().into());
                return Err(RegisterError::Attribute(twice));
            }
        }
        Ok(Some(id))
    }

    /// A type and those that it extends, the nearest first.
    pub fn lineage(&self, ty: TypeId) -> impl Iterator<Item = TypeId> + Clone {
        core::iter::successors(Some(ty), |it| self.entry(*it)?.parent)
    }

    /// The farthest type that a type extends: itself if it extends none.
    pub(crate) fn root(&self, ty: TypeId) -> TypeId {
        self.lineage(ty).last().unwrap_or(ty)
    }

    /// Rules of a type and of those that it extends.
    pub(crate) fn rules<'r>(
        &'r self,
        ty: TypeId,
        which: fn(&'r ServiceType) -> &'r [AttributeRule],
    ) -> impl Iterator<Item = &'r AttributeRule> + Clone {
        let types = self.lineage(ty).filter_map(|id| self.service_type(id));
        types.flat_map(which)
    }

    /// What attributes of a type's instances must be: its own rules, and those of the types that
    /// it extends.
    pub fn attribute_rules(&self, ty: TypeId) -> impl Iterator<Item = &AttributeRule> + Clone {
        self.rules(ty, |it| &it.attributes)
    }

    /// The same of what a subject gives when it binds.
    pub fn parameter_rules(&self, ty: TypeId) -> impl Iterator<Item = &AttributeRule> + Clone {
        self.rules(ty, |it| &it.parameters)
    }

    /// Takes a type out that has no instances, and gives what was registered.
    pub fn unregister(&mut self, id: TypeId) -> Result<ServiceType, UnregisterError> {
        let layer = &mut self.layers[id.layer as usize];
        let slot = layer.types.get_mut(usize::from(id.index));
        let slot = slot.ok_or(UnregisterError::UnknownType)?;
        let entry = slot.take_if(|entry| entry.len() == 0 && entry.children.is_empty());
        let Some(Entry { ty, parent, .. }) = entry else {
            return Err(match slot.as_ref().map(|entry| (entry.len(), entry.children.len())) {
                Some((0, children)) => UnregisterError::IsExtended(children),
                Some((count, _)) => UnregisterError::HasInstances(count),
                None => UnregisterError::UnknownType,
            });
        };
        if let Some(capabilities) = layer.by_capability.get_mut(ty.subsystem.as_ref()) {
            capabilities.remove(ty.capability.as_ref());
            if capabilities.is_empty() {
                layer.by_capability.remove(ty.subsystem.as_ref());
            }
        }
        self.by_name.remove(ty.name.as_ref());
        if let Some(parent) = parent.and_then(|parent| self.entry_mut(parent)) {
            parent.children.retain(|child| *child != id);
        }
        Ok(ty)
    }

    /// Publishes an instance of a registered type on a core, with a service number of its own.
    ///
    /// If it asks for a global priority that is taken, it is put directly after who has it; its
    /// [`Instance::priority`] says what it got.
    pub fn publish(
        &mut self,
        ty: TypeId,
        new: NewInstance,
        place: Place,
    ) -> Result<Handle, PublishError> {
        let first = self.entry(self.root(ty)).ok_or(PublishError::UnknownType)?;
        new.check(self.attribute_rules(ty))?;
        if self.is_taken(&new.name, ty, place) {
            return Err(PublishError::Exists(new.name.into(), place));
        }
        if self.count >= MAX_INSTANCES {
            return Err(PublishError::TooManyInstances);
        }
        let priority = match attribute::get(&new.attributes, PRIORITY) {
            Some(AttributeValue::Int(global)) => {
                Some(first.place_of(*global).ok_or(PublishError::NumbersExhausted)?)
            }
            _ => None,
        };
        let handle = self.number(place).ok_or(PublishError::NumbersExhausted)?;
        self.insert(ty, handle, new, priority);
        Ok(handle)
    }

    /// The handle of the next instance.
    fn number(&self, place: Place) -> Option<Handle> {
        let number = u16::try_from(self.directory.len() + 1).ok()?;
        let service = ServiceNumber(number);
        let location = Location { node: place.node, core: place.core, service };
        let instance = InstanceId(u32::from(number));
        Some(Handle { instance, generation: Generation::FIRST, location })
    }

    fn insert(&mut self, ty: TypeId, handle: Handle, new: NewInstance, priority: Option<Priority>) {
        let name: Arc<str> = new.name.as_ref().into();
        let NewInstance { working, attributes, keywords, .. } = new;
        let instance = Instance {
            handle,
            priority,
            name: name.clone(),
            working,
            attributes,
            keywords: Box::default(),
            quality: None,
        };
        if let Some(entry) = self.entry_mut(ty) {
            entry.add(instance, &keywords);
        }
        let root = self.root(ty);
        if let Some((priority, first)) = priority.zip(self.entry_mut(root)) {
            first.priorities.insert(priority, handle.instance);
        }
        let named = self.names.entry(name.clone()).or_default();
        named.insert((handle.location.place(), ty, handle.instance));
        self.directory.push(Some(ty));
        self.count += 1;
        self.tell(ty, || Event::Publish { ty, name: name.clone(), handle });
    }

    /// Takes an instance out. Its handles are dead; whoever was bound to it is told in the result.
    pub fn unpublish(&mut self, id: InstanceId) -> Result<Unpublished, UnknownInstance> {
        let ty = self.type_of(id).ok_or(UnknownInstance)?;
        let instance = self.entry_mut(ty).and_then(|entry| entry.remove(id));
        let Instance { handle, name, priority, .. } = *instance.ok_or(UnknownInstance)?;
        let root = self.root(ty);
        if let Some((priority, first)) = priority.zip(self.entry_mut(root)) {
            first.priorities.remove(&priority);
        }
        self.directory[id.0 as usize - 1] = None;
        self.count -= 1;
        self.forget_name(&name, ty, handle);
        self.tell(ty, || Event::Unpublish { ty, name: name.clone(), handle });
        let unbound = self.bindings.drop_instance((ty, root), handle);
        Ok(Unpublished { ty, name, handle, unbound })
    }

    /// Takes out every instance of a core, which has died: the oldest first.
    pub fn remove_core(&mut self, place: Place) -> Vec<Unpublished> {
        let entries = self.layers.iter().flat_map(|layer| layer.types.iter().flatten());
        let on = entries.flat_map(|entry| entry.on(place).map(|it| it.handle.instance));
        let mut on: Vec<_> = on.collect();
        nile_order::sort(&mut on);
        on.into_iter().filter_map(|id| self.unpublish(id).ok()).collect()
    }

    /// Notes how an instance was found to serve; nothing: it was not called lately. Queries see
    /// it as the attributes `qos_latency_ns` and `qos_failures_ppm`, before those of the same
    /// names that the instance has declared.
    pub fn observe(
        &mut self,
        id: InstanceId,
        quality: Option<Quality>,
    ) -> Result<(), UnknownInstance> {
        let ty = self.type_of(id).ok_or(UnknownInstance)?;
        let instance = self.entry_mut(ty).and_then(|entry| entry.get_mut(id));
        instance.ok_or(UnknownInstance)?.quality = quality.map(Box::new);
        Ok(())
    }

    /// Has an instance say that its policy was expelled and why, in [`EXPELLED`], until it is
    /// published anew. What is longer than [`MAX_TEXT`] is cut.
    pub fn expel(&mut self, id: InstanceId, why: &str) -> Result<(), UnknownInstance> {
        let ty = self.type_of(id).ok_or(UnknownInstance)?;
        let instance = self.entry_mut(ty).and_then(|entry| entry.get_mut(id));
        let instance = instance.ok_or(UnknownInstance)?;
        let end = why.floor_char_boundary(MAX_TEXT);
        let attributes = instance.attributes.to_mut();
        attributes.retain(|it| it.name != EXPELLED);
        attributes.push(Attribute::text(EXPELLED, why[..end].to_owned()));
        let (name, handle) = (instance.name.clone(), instance.handle);
        self.tell(ty, || Event::Expel { ty, name: name.clone(), handle });
        Ok(())
    }

    /// Moves an instance to another core. It keeps its numbers and its subjects, and its
    /// generation is one more.
    pub fn move_to(&mut self, id: InstanceId, place: Place) -> Result<Moved, MoveError> {
        let ty = self.type_of(id).ok_or(MoveError::UnknownInstance)?;
        let instance = self.instance(id).ok_or(MoveError::UnknownInstance)?;
        let (from, name) = (instance.handle, instance.name.clone());
        if from.location.place() == place {
            return Err(MoveError::AlreadyThere(place));
        }
        if self.is_taken(&name, ty, place) {
            return Err(MoveError::Exists(name.as_ref().into(), place));
        }
        let location = Location { node: place.node, core: place.core, ..from.location };
        let to = Handle { generation: from.generation.next(), location, ..from };
        if let Some(entry) = self.entry_mut(ty) {
            entry.relocate(to);
        }
        if let Some(named) = self.names.get_mut(&name) {
            named.remove(&(from.location.place(), ty, id));
            named.insert((place, ty, id));
        }
        self.tell(ty, || Event::Move { ty, name: name.clone(), from, to });
        Ok(Moved { from, to })
    }

    /// Tells whoever watches a type or one that it extends.
    fn tell(&mut self, ty: TypeId, event: impl Fn() -> Event) {
        let lineage: Vec<_> = self.lineage(ty).collect();
        self.watchers.tell(&lineage, event);
    }

    fn is_taken(&self, name: &str, ty: TypeId, place: Place) -> bool {
        let all = (place, ty, InstanceId(0))..=(place, ty, InstanceId(u32::MAX));
        self.names.get(name).is_some_and(|named| named.range(all).next().is_some())
    }

    fn forget_name(&mut self, name: &str, ty: TypeId, handle: Handle) {
        if let Some(named) = self.names.get_mut(name) {
            named.remove(&(handle.location.place(), ty, handle.instance));
            if named.is_empty() {
                self.names.remove(name);
            }
        }
    }

    pub(crate) fn entry(&self, id: TypeId) -> Option<&Entry> {
        self.layers[id.layer as usize].types.get(usize::from(id.index))?.as_ref()
    }

    fn entry_mut(&mut self, id: TypeId) -> Option<&mut Entry> {
        self.layers[id.layer as usize].types.get_mut(usize::from(id.index))?.as_mut()
    }

    pub(crate) fn layer(&self, layer: Layer) -> &LayerRegistry {
        &self.layers[layer as usize]
    }

    /// What was registered.
    pub fn service_type(&self, id: TypeId) -> Option<&ServiceType> {
        Some(&self.entry(id)?.ty)
    }

    /// The registered types of a layer, the oldest first.
    pub fn types(&self, layer: Layer) -> impl Iterator<Item = (TypeId, &ServiceType)> {
        let types = (0..).zip(&self.layer(layer).types);
        types.filter_map(move |(index, it)| Some((TypeId { layer, index }, &it.as_ref()?.ty)))
    }

    /// What the instances of a type share, as it is now.
    pub fn state(&self, id: TypeId) -> Option<&[Attribute]> {
        Some(&self.entry(id)?.state)
    }

    /// Sets one value of what the instances of a type share. It must be of the type of the initial
    /// one.
    pub fn set_state(
        &mut self,
        id: TypeId,
        name: &str,
        value: AttributeValue,
    ) -> Result<(), StateError> {
        let entry = self.entry_mut(id).ok_or(StateError::UnknownType)?;
        let Some(attribute) = entry.state.iter_mut().find(|attribute| attribute.name == name)
        else {
            let known = entry.state.iter().map(|attribute| attribute.name.as_ref().into());
            let unknown = AttributeError::Unknown { name: cut(name), known: known.collect() };
            return Err(StateError::Attribute(unknown));
        };
        if attribute.value.kind() != value.kind() {
            let kind = attribute.value.kind();
            return Err(StateError::Attribute(AttributeError::WrongKind(name.into(), kind)));
        }
        if matches!(&value, AttributeValue::Text(text) if text.len() > MAX_TEXT) {
            return Err(StateError::Attribute(AttributeError::TooLong(cut(name))));
        }
        attribute.value = value;
        Ok(())
    }

    /// The type of a published instance.
    pub fn type_of(&self, id: InstanceId) -> Option<TypeId> {
        *self.directory.get((id.0 as usize).checked_sub(1)?)?
    }

    /// A published instance.
    pub fn instance(&self, id: InstanceId) -> Option<&Instance> {
        self.entry(self.type_of(id)?)?.get(id)
    }

    /// The keywords of a published instance, with their weights.
    pub fn keywords(&self, id: InstanceId) -> impl Iterator<Item = (&str, u16)> {
        let entry = self.type_of(id).and_then(|ty| self.entry(ty));
        let instance = entry.and_then(|entry| Some((entry, entry.get(id)?)));
        instance.into_iter().flat_map(|(entry, instance)| {
            let keywords = instance.keywords.iter();
            keywords.map(|(id, weight)| (entry.keywords.word(*id), *weight))
        })
    }

    /// The instances of a name, of any type, from a place on, in the order of places.
    pub fn named(&self, name: &str, from: Place) -> impl Iterator<Item = &Instance> {
        let named = self.names.get(name).into_iter();
        let first = (from, TypeId { layer: Layer::High, index: 0 }, InstanceId(0));
        let there = named.flat_map(move |named| named.range(first..));
        there.filter_map(|(_, ty, id)| self.entry(*ty)?.get(*id))
    }

    /// How many instances are published.
    pub fn instance_count(&self) -> usize {
        self.count
    }

    /// The instances of a type itself, the oldest first; not those of types that extend it.
    pub fn instances(&self, ty: TypeId) -> impl Iterator<Item = &Instance> {
        self.entry(ty).into_iter().flat_map(Entry::instances)
    }

    /// The instances of a type, and of those that extend it, that asked for a global priority, the
    /// highest first, each with the type that it is published for.
    pub fn by_priority(&self, ty: TypeId) -> impl Iterator<Item = (TypeId, &Instance)> {
        let first = self.entry(self.root(ty)).into_iter();
        let all = first.flat_map(|entry| entry.priorities.values().rev());
        let all = all.filter_map(|id| Some((self.type_of(*id)?, self.instance(*id)?)));
        all.filter(move |(own, _)| self.is_a(*own, ty))
    }

    /// Whether a type is another one or extends it.
    pub fn is_a(&self, ty: TypeId, other: TypeId) -> bool {
        self.lineage(ty).any(|it| it == other)
    }
}
