//! A registered type with its instances, which stand in rows in the order in which they were
//! published. A row is not used again; when more are empty than not, all are renumbered. So a
//! row's number grows with its instance's, and of equal instances the first row is the oldest.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use nile_abi::CoreId;

use crate::attribute::Attribute;
use crate::keywords::Keywords;
use crate::priority::Priority;
use crate::service::{Instance, InstanceId, Keyword, Place, ServiceType, TypeId};

/// Fewer rows than this are never renumbered.
const FEW_ROWS: usize = 16;

struct Row {
    id: InstanceId,
    instance: Option<Box<Instance>>,
}

/// See the module.
pub(crate) struct Entry {
    pub(crate) ty: ServiceType,
    /// What the instances share, as it is now.
    pub(crate) state: Vec<Attribute>,
    /// The type that it extends.
    pub(crate) parent: Option<TypeId>,
    /// The types that extend it.
    pub(crate) children: Vec<TypeId>,
    rows: Vec<Row>,
    count: usize,
    pub(crate) keywords: Keywords,
    /// The instances of each core.
    places: BTreeSet<(Place, InstanceId)>,
    /// Of a type that extends none: the order of its instances, and of those of all types that
    /// extend it.
    pub(crate) priorities: BTreeMap<Priority, InstanceId>,
}

impl Entry {
    pub(crate) fn new(ty: ServiceType, parent: Option<TypeId>) -> Entry {
        Entry {
            state: ty.state.to_vec(),
            ty,
            parent,
            children: Vec::new(),
            rows: Vec::new(),
            count: 0,
            keywords: Keywords::default(),
            places: BTreeSet::new(),
            priorities: BTreeMap::new(),
        }
    }

    /// How many instances there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Where an instance that asks for this priority is put: directly after those that asked for
    /// it before. `None` if all fractions were used.
    pub(crate) fn place_of(&self, global: i64) -> Option<Priority> {
        let taken = self.priorities.range(Priority::last(global)..=Priority::first(global));
        match taken.map(|(priority, _)| *priority).next() {
            Some(lowest) => lowest.lower(),
            None => Some(Priority::first(global)),
        }
    }

    /// Adds an instance, whose number is greater than those of all before it.
    pub(crate) fn add(&mut self, mut instance: Instance, keywords: &[Keyword]) {
        let id = instance.handle.instance;
        instance.keywords = self.keywords.add(self.rows.len() as u32, keywords);
        self.places.insert((instance.handle.location.place(), id));
        self.rows.push(Row { id, instance: Some(Box::new(instance)) });
        self.count += 1;
    }

    fn row(&self, id: InstanceId) -> Option<usize> {
        self.rows.binary_search_by_key(&id, |row| row.id).ok()
    }

    pub(crate) fn get(&self, id: InstanceId) -> Option<&Instance> {
        self.at(self.row(id)? as u32)
    }

    pub(crate) fn get_mut(&mut self, id: InstanceId) -> Option<&mut Instance> {
        let row = self.row(id)?;
        self.rows[row].instance.as_deref_mut()
    }

    /// The instance in a row.
    pub(crate) fn at(&self, row: u32) -> Option<&Instance> {
        self.rows.get(row as usize)?.instance.as_deref()
    }

    /// The instances, the oldest first.
    pub(crate) fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.rows.iter().filter_map(|row| row.instance.as_deref())
    }

    /// Those on a core, the oldest first.
    pub(crate) fn on(&self, place: Place) -> impl Iterator<Item = &Instance> {
        let (first, last) = (InstanceId(0), InstanceId(u32::MAX));
        let range = self.places.range((place, first)..=(place, last));
        range.filter_map(|(_, id)| self.get(*id))
    }

    /// Those on any core of a place's node, by core.
    pub(crate) fn on_node_of(&self, place: Place) -> impl Iterator<Item = &Instance> {
        let at = |core, id| (Place { core: CoreId(core), ..place }, InstanceId(id));
        let range = self.places.range(at(0, 0)..=at(u16::MAX, u32::MAX));
        range.filter_map(|(_, id)| self.get(*id))
    }

    /// Changes an instance's location and generation.
    pub(crate) fn relocate(&mut self, to: crate::service::Handle) {
        if let Some(row) = self.row(to.instance)
            && let Some(instance) = &mut self.rows[row].instance
        {
            self.places.remove(&(instance.handle.location.place(), to.instance));
            self.places.insert((to.location.place(), to.instance));
            instance.handle = to;
        }
    }

    /// Takes an instance out.
    pub(crate) fn remove(&mut self, id: InstanceId) -> Option<Box<Instance>> {
        let row = self.row(id)?;
        let instance = self.rows[row].instance.take()?;
        self.keywords.remove(row as u32, &instance.keywords);
        self.places.remove(&(instance.handle.location.place(), id));
        self.count -= 1;
        if self.rows.len() > FEW_ROWS.max(2 * self.count) {
            self.renumber();
        }
        Some(instance)
    }

    /// Takes the empty rows out. It visits all, and a removal pays for two of them.
    fn renumber(&mut self) {
        self.rows.retain(|row| row.instance.is_some());
        self.rows.shrink_to(2 * self.count);
        self.keywords.clear_rows();
        for (row, Row { instance, .. }) in self.rows.iter().enumerate() {
            if let Some(instance) = instance {
                self.keywords.push(row as u32, &instance.keywords);
            }
        }
    }
}
