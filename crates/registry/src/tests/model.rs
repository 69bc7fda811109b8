//! A registry as naive as can be: one list, searched from its beginning.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::*;

pub struct Row {
    pub ty: TypeId,
    pub new: NewInstance,
    pub handle: Handle,
}

/// Who is bound to what.
pub type Binding = (Subject, TypeId, InstanceId);

#[derive(Default)]
pub struct Model {
    pub rows: Vec<Row>,
    pub bound: Vec<Binding>,
    /// Which type extends which.
    pub extends: Vec<(TypeId, TypeId)>,
}

impl Model {
    /// A type and those that it extends.
    pub fn lineage(&self, ty: TypeId) -> Vec<TypeId> {
        let mut lineage = alloc::vec![ty];
        while let Some((_, parent)) = self.extends.iter().find(|(it, _)| lineage.last() == Some(it))
        {
            lineage.push(*parent);
        }
        lineage
    }

    pub fn at(&self, id: InstanceId) -> Option<&Row> {
        self.rows.iter().find(|row| row.handle.instance == id)
    }

    pub fn is_taken(&self, ty: TypeId, name: &str, place: Place) -> bool {
        let same = |row: &Row| (row.ty, row.handle.location.place()) == (ty, place);
        self.rows.iter().any(|row| same(row) && row.new.name == name)
    }

    /// Takes an instance out, and gives those who were bound to it.
    pub fn remove(&mut self, id: InstanceId) -> Vec<Subject> {
        self.rows.retain(|row| row.handle.instance != id);
        let gone = self.bound.iter().filter(|(.., to)| *to == id).map(|(subject, ..)| *subject);
        let mut gone: Vec<_> = gone.collect();
        self.bound.retain(|(.., to)| *to != id);
        gone.sort();
        gone
    }

    pub fn find(
        &self,
        ty: TypeId,
        words: &[&str],
        constraint: Option<(Relation, i64)>,
        prefer: Option<Place>,
        default: &str,
    ) -> Option<(InstanceId, Match)> {
        let satisfied = |row: &&Row| match constraint {
            None => true,
            Some((relation, limit)) => {
                let level = row.new.attributes.iter().find(|it| it.name == "level");
                let Some(AttributeValue::Int(level)) = level.map(|it| &it.value) else {
                    return false;
                };
                match relation {
                    Relation::Equal => *level == limit,
                    Relation::AtMost => *level <= limit,
                    Relation::AtLeast => *level >= limit,
                }
            }
        };
        let mut known: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        known.sort();
        known.dedup();
        let score = |row: &Row| -> u32 {
            let matched = row.new.keywords.iter().filter(|it| known.contains(&it.word.to_string()));
            matched.map(|it| u32::from(it.weight)).sum()
        };
        let far = |row: &Row| prefer != Some(row.handle.location.place());
        let ours =
            || self.rows.iter().filter(|row| self.lineage(row.ty).contains(&ty)).filter(satisfied);
        let is_other = |row: &Row| row.new.name != default;
        if words.is_empty() {
            let any = ours().min_by_key(|row| (far(row), is_other(row), row.handle.instance));
            return any.map(|row| (row.handle.instance, Match::Unranked));
        }
        let best = ours().filter(|row| score(row) > 0);
        let best = best.min_by_key(|row| (u32::MAX - score(row), far(row), row.handle.instance));
        if let Some(row) = best {
            return Some((row.handle.instance, Match::Keywords(score(row))));
        }
        let defaults = ours().filter(|row| !is_other(row));
        let default = defaults.min_by_key(|row| (far(row), row.handle.instance));
        default.map(|row| (row.handle.instance, Match::Default))
    }
}
