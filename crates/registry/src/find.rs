//! From a query to an instance: first the type, by name or by subsystem and capability, then the
//! instance, by the summed weights of the keywords that match (Dhara, III.C and IV.A).

use nile_abi::{CoreId, NodeId};
use nile_stl_macros::Record;

use crate::attribute::{AttributeValue, cut};
use crate::entry::Entry;
use crate::error::FindError;
use crate::layer::Layer;
use crate::least::Least;
use crate::limits::{MAX_ATTRIBUTES, MAX_QUERY_KEYWORDS};
use crate::registry::Registry;
use crate::service::{Handle, Instance, Place, TypeId};

/// Which type is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeQuery<'a> {
    /// This one.
    Id(TypeId),
    /// The one of this name.
    Name(&'a str),
    /// The one with this capability of this subsystem, in the highest layer that has one.
    Capability(&'a str, &'a str),
    /// The same, in this layer.
    CapabilityIn(Layer, &'a str, &'a str),
}

/// How an attribute must compare with the value of a constraint.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
#[record(crate = nile_bosml)]
pub enum Relation {
    /// It is the same.
    Equal,
    /// It is a number, and not greater.
    AtMost,
    /// It is a number, and not less.
    AtLeast,
}

/// What an attribute of the instance must be. An instance without it does not satisfy it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constraint<'a> {
    /// The attribute.
    pub name: &'a str,
    /// How it must compare.
    pub relation: Relation,
    /// With what.
    pub value: &'a AttributeValue,
}

impl Constraint<'_> {
    fn is_satisfied_by(&self, instance: &Instance) -> bool {
        let Some(value) = instance.attribute(self.name) else { return false };
        match (self.relation, &*value, self.value) {
            (Relation::Equal, value, wanted) => value == wanted,
            (relation, AttributeValue::Int(value), AttributeValue::Int(limit)) => match relation {
                Relation::AtMost => value <= limit,
                _ => value >= limit,
            },
            _ => false,
        }
    }
}

/// What is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query<'a> {
    /// Of which type.
    pub ty: TypeQuery<'a>,
    /// Words that describe it; one that stands here twice counts once.
    pub keywords: &'a [&'a str],
    /// What must hold.
    pub constraints: &'a [Constraint<'a>],
    /// The core whose instance is taken of those that match equally well. It does not count if
    /// there is an objective.
    pub prefer: Option<Place>,
    /// The objective: of those that match equally well one with the least of this.
    pub least: Option<Least<'a>>,
}

impl<'a> Query<'a> {
    /// Any instance of a type.
    pub fn of(ty: TypeQuery<'a>) -> Query<'a> {
        Query { ty, keywords: &[], constraints: &[], prefer: None, least: None }
    }

    /// With these keywords.
    #[must_use]
    pub fn keywords(self, keywords: &'a [&'a str]) -> Query<'a> {
        Query { keywords, ..self }
    }

    /// With these constraints.
    #[must_use]
    pub fn constraints(self, constraints: &'a [Constraint<'a>]) -> Query<'a> {
        Query { constraints, ..self }
    }

    /// On this core, if there is a choice.
    #[must_use]
    pub fn prefer(self, place: Place) -> Query<'a> {
        Query { prefer: Some(place), ..self }
    }

    /// One with the least of this attribute, or within a tenth of that: a random number decides.
    #[must_use]
    pub fn least(self, attribute: &'a str, random: u64) -> Query<'a> {
        Query { least: Some(Least { attribute, random }), ..self }
    }

    /// How far a place is from the preferred one: 0 it is that, 1 it is on the same node.
    fn distance(&self, place: Place) -> u8 {
        match self.prefer {
            Some(wanted) if wanted == place => 0,
            Some(wanted) if wanted.node != place.node => 2,
            _ => 1,
        }
    }

    pub(crate) fn is_satisfied_by(&self, instance: &Instance) -> bool {
        self.constraints.iter().all(|it| it.is_satisfied_by(instance))
    }
}

/// Why an instance was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Match {
    /// Its matching keywords' weights have the greatest sum, which is this.
    Keywords(u32),
    /// The query has no keywords, and it satisfies the constraints.
    Unranked,
    /// No instance has any of the keywords, and it is the type's default.
    Default,
    /// It has the name.
    Name,
}

/// An instance that was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its type.
    pub ty: TypeId,
    /// Which it is and where.
    pub handle: Handle,
    /// Why it.
    pub by: Match,
}

impl Registry {
    /// The type that is meant.
    pub fn find_type(&self, query: TypeQuery<'_>) -> Option<TypeId> {
        let in_layer = |layer, subsystem: &str, capability: &str| {
            self.layer(layer).by_capability.get(subsystem)?.get(capability).copied()
        };
        match query {
            TypeQuery::Id(id) => self.entry(id).map(|_| id),
            TypeQuery::Name(name) => self.by_name.get(name).copied(),
            TypeQuery::Capability(subsystem, capability) => {
                Layer::ALL.into_iter().find_map(|layer| in_layer(layer, subsystem, capability))
            }
            TypeQuery::CapabilityIn(layer, subsystem, capability) => {
                in_layer(layer, subsystem, capability)
            }
        }
    }

    /// The instance that a query means: of those that satisfy the constraints the one with the
    /// greatest sum of matching keywords' weights. Of equal ones it is the one on the preferred
    /// core, else one of its node, else the oldest.
    ///
    /// Without keywords all instances are equal, and the default goes before the oldest. If no
    /// instance has any of the keywords, it is the default, if that satisfies the constraints.
    ///
    /// The instances of types that extend the one that is meant are its instances, too.
    pub fn find(&self, query: &Query<'_>) -> Result<Found, FindError> {
        check_query(query)?;
        let ty = self.find_type(query.ty).ok_or(FindError::UnknownType)?;
        let entry = self.entry(ty).ok_or(FindError::UnknownType)?;
        let default = entry.ty.default_instance.as_deref();
        let found = match (query.keywords, query.least) {
            (_, Some(least)) => self.least(ty, query, least)?,
            ([], None) => self.best(ty, query, &|ty, entry| {
                let default = self.default_of(ty, entry, default, query);
                unranked(entry, query, default).map(|it| (it, Match::Unranked))
            }),
            _ => self.best(ty, query, &|_, entry| ranked(entry, query)),
        };
        let found = found.or_else(|| {
            let default = |ty, entry| self.default_of(ty, entry, default, query);
            self.best(ty, query, &|ty, entry| Some((default(ty, entry)?, Match::Default)))
        });
        let (ty, instance, by) = found.ok_or(FindError::NoMatch)?;
        Ok(Found { ty, handle: instance.handle, by })
    }

    /// The best of what `of` finds in a type and in each that extends it.
    fn best<'e>(
        &'e self,
        ty: TypeId,
        query: &Query<'_>,
        of: &dyn Fn(TypeId, &'e Entry) -> Option<(&'e Instance, Match)>,
    ) -> Option<(TypeId, &'e Instance, Match)> {
        let asked = self.entry(ty)?;
        let default = asked.ty.default_instance.as_deref();
        let mut best = of(ty, asked).map(|(instance, by)| (ty, instance, by));
        let mut rest = asked.children.clone();
        while let Some(ty) = rest.pop() {
            let Some(entry) = self.entry(ty) else { continue };
            rest.extend(&entry.children);
            let Some((instance, by)) = of(ty, entry) else { continue };
            // What goes before: the greater score, what is nearer, the default, what is older.
            let order = |instance: &Instance, by| {
                let other = by == Match::Unranked && default != Some(&*instance.name);
                let score = if let Match::Keywords(score) = by { score } else { 0 };
                let distance = query.distance(instance.handle.location.place());
                (u32::MAX - score, distance, other, instance.handle.instance)
            };
            if best.is_none_or(|(_, known, why)| order(instance, by) < order(known, why)) {
                best = Some((ty, instance, by));
            }
        }
        best
    }

    /// The instances of a type with the default's name that satisfy the constraints: the one on
    /// the preferred core, else the oldest of its node, else the oldest.
    fn default_of<'e>(
        &self,
        ty: TypeId,
        entry: &'e Entry,
        default: Option<&str>,
        query: &Query<'_>,
    ) -> Option<&'e Instance> {
        let named = self.names.get(default?)?;
        let ours = named.iter().filter(|(_, of, _)| *of == ty);
        let satisfying = ours.filter(|(.., id)| {
            entry.get(*id).is_some_and(|instance| query.is_satisfied_by(instance))
        });
        let best = satisfying.min_by_key(|(place, _, id)| (query.distance(*place), *id));
        entry.get(best?.2)
    }

    /// The instance of this name, of any type: the one on the preferred core, else the one of the
    /// highest layer's oldest type on the lowest core.
    pub fn find_named(&self, name: &str, prefer: Option<Place>) -> Result<Found, FindError> {
        let unknown = || FindError::UnknownName(cut(name));
        let from = |core, node| self.named(name, Place { node, core }).next();
        let near = prefer.and_then(|Place { node, core }| {
            let there = from(core, node).filter(|it| it.handle.location.core == core);
            there.or_else(|| from(CoreId(0), node)).filter(|it| it.handle.location.node == node)
        });
        let found = near.or_else(|| from(CoreId(0), NodeId(0))).ok_or_else(unknown)?;
        let ty = self.type_of(found.handle.instance).ok_or_else(unknown)?;
        Ok(Found { ty, handle: found.handle, by: Match::Name })
    }
}

fn check_query(query: &Query<'_>) -> Result<(), FindError> {
    if query.keywords.len() > MAX_QUERY_KEYWORDS {
        return Err(FindError::TooManyKeywords);
    }
    if query.constraints.len() > MAX_ATTRIBUTES {
        return Err(FindError::TooManyConstraints);
    }
    let has_order = |it: &Constraint<'_>| {
        it.relation == Relation::Equal || matches!(it.value, AttributeValue::Int(_))
    };
    match query.constraints.iter().find(|it| !has_order(it)) {
        Some(Constraint { name, .. }) => Err(FindError::NoOrder(cut(name))),
        None => Ok(()),
    }
}

/// The best by keywords.
fn ranked<'e>(entry: &'e Entry, query: &Query<'_>) -> Option<(&'e Instance, Match)> {
    let wanted = entry.keywords.resolve(query.keywords);
    let satisfied = |row| entry.at(row).is_some_and(|instance| query.is_satisfied_by(instance));
    let (row, score) = entry.keywords.best(&wanted, satisfied)?;
    let oldest = entry.at(row)?;
    let as_good = |it: &&Instance| wanted.score(&it.keywords) == score && query.is_satisfied_by(it);
    let nearer = |place| match query.distance(oldest.handle.location.place()) {
        0 => None,
        1 => entry.on(place).find(as_good),
        _ => entry.on(place).find(as_good).or_else(|| entry.on_node_of(place).find(as_good)),
    };
    let best = query.prefer.and_then(nearer).unwrap_or(oldest);
    Some((best, Match::Keywords(score)))
}

/// Any that satisfies the constraints.
fn unranked<'e>(
    entry: &'e Entry,
    query: &Query<'_>,
    default: Option<&'e Instance>,
) -> Option<&'e Instance> {
    let satisfied = |it: &&Instance| query.is_satisfied_by(it);
    let Some(place) = query.prefer else {
        return default.or_else(|| entry.instances().find(satisfied));
    };
    let within =
        |most: u8| move |it: &&Instance| query.distance(it.handle.location.place()) <= most;
    let oldest = || entry.instances().find(satisfied);
    default
        .filter(within(0))
        .or_else(|| entry.on(place).find(satisfied))
        .or_else(|| default.filter(within(1)))
        .or_else(|| oldest().filter(within(1)))
        .or_else(|| entry.on_node_of(place).find(satisfied))
        .or(default)
        .or_else(oldest)
}
