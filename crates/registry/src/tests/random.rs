//! Random requests to the registry and to the naive one.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::model::{Binding, Model, Row};
use super::*;

/// Few, so that instances share them.
const WORDS: [&str; 5] = ["fast", "small", "fair", "batch", "local"];
/// Two of their own, one that extends the first, one that extends that.
const TYPES: usize = 4;
const NAMES: [&str; 4] = ["a", "b", "c", "fair"];

#[derive(Clone, Debug)]
enum Op {
    Publish(usize, &'static str, u16, BTreeMap<usize, u16>, Option<i64>),
    Unpublish(Index),
    Move(Index, u16),
    RemoveCore(u16),
    Find(usize, Vec<&'static str>, Option<(Relation, i64)>, Option<u16>),
    Named(&'static str, Option<u16>),
    Bind(u64, Index),
    BindFound(u64, usize, Vec<&'static str>),
    Unbind(u64, usize),
}

fn any_op() -> impl Strategy<Value = Op> {
    let keywords = || proptest::collection::btree_map(0..WORDS.len(), 1u16..4, 0..4);
    let words = || {
        let words = [&WORDS[..], &["unknown"]].concat();
        proptest::collection::vec(select(words), 0..4)
    };
    let relation = select([Relation::Equal, Relation::AtMost, Relation::AtLeast].to_vec());
    let constraint = || proptest::option::of((relation.clone(), 0i64..4));
    let name = || select(NAMES.to_vec());
    prop_oneof![
        8 => (0usize..TYPES, name(), 0u16..40, keywords(), proptest::option::of(0i64..4))
            .prop_map(|(t, n, c, k, l)| Op::Publish(t, n, c, k, l)),
        3 => any::<Index>().prop_map(Op::Unpublish),
        2 => (any::<Index>(), 0u16..40).prop_map(|(i, c)| Op::Move(i, c)),
        1 => (0u16..40).prop_map(Op::RemoveCore),
        8 => (0usize..TYPES, words(), constraint(), proptest::option::of(0u16..40))
            .prop_map(|(t, w, l, c)| Op::Find(t, w, l, c)),
        1 => (name(), proptest::option::of(0u16..40)).prop_map(|(n, c)| Op::Named(n, c)),
        3 => (0u64..6, any::<Index>()).prop_map(|(s, i)| Op::Bind(s, i)),
        2 => (0u64..6, 0usize..TYPES, words()).prop_map(|(s, t, w)| Op::BindFound(s, t, w)),
        1 => (0u64..6, 0usize..TYPES).prop_map(|(s, t)| Op::Unbind(s, t)),
    ]
}

struct Pair {
    registry: Registry,
    model: Model,
    types: [TypeId; TYPES],
    watcher: WatcherId,
    /// Every handle there ever was.
    handles: Vec<Handle>,
    /// What the watcher must have been told: each instance's handle, or that it is gone.
    told: Vec<(InstanceId, Option<Handle>)>,
}

impl Pair {
    fn new() -> Pair {
        let mut registry = Registry::new();
        let free = |name, layer| ServiceType {
            attributes: Vec::new().into(),
            parameters: Vec::new().into(),
            ..other(name, layer)
        };
        let [x, y] = [("x", Layer::High), ("y", Layer::Micro)]
            .map(|(name, layer)| registry.register(free(name, layer)).unwrap());
        let extending = |name, parent| ServiceType {
            extends: Some(Parent::Owned(Box::new(parent))),
            ..free(name, Layer::High)
        };
        let z = registry.register(extending("z", free("x", Layer::High))).unwrap();
        let w = registry.register(extending("w", free("z", Layer::High))).unwrap();
        let types = [x, y, z, w];
        let model = Model { extends: alloc::vec![(z, x), (w, z)], ..Model::default() };
        let watcher = registry.watch(WatchFilter::All, 4096).unwrap();
        let (handles, told) = (Vec::new(), Vec::new());
        Pair { registry, model, types, watcher, handles, told }
    }

    fn pick(&self, index: Index) -> Option<InstanceId> {
        let count = self.handles.len();
        (count > 0).then(|| self.handles[index.index(count)].instance)
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Publish(ty, name, on, keywords, level) => {
                let keywords: Vec<_> = keywords.iter().map(|(at, w)| (WORDS[*at], *w)).collect();
                let attributes = level.map(|level| Attribute::int("level", level));
                let attributes = attributes.into_iter().collect::<Vec<_>>().into();
                let new = NewInstance { attributes, ..policy(name, 0, &keywords) };
                self.publish(self.types[ty], new, core(on))?;
            }
            Op::Unpublish(index) => {
                let Some(id) = self.pick(index) else { return Ok(()) };
                let is_there = self.model.at(id).is_some();
                let gone = self.registry.unpublish(id);
                prop_assert_eq!(gone.is_ok(), is_there);
                if let Ok(gone) = gone {
                    self.gone(gone)?;
                }
            }
            Op::RemoveCore(on) => {
                let rows = self.model.rows.iter().map(|row| row.handle);
                let expected: Vec<_> =
                    rows.filter(|handle| handle.location.place() == core(on)).collect();
                let gone = self.registry.remove_core(core(on));
                let handles: Vec<_> = gone.iter().map(|it| it.handle).collect();
                prop_assert_eq!(handles, expected);
                for gone in gone {
                    self.gone(gone)?;
                }
            }
            Op::Move(index, on) => {
                let Some(id) = self.pick(index) else { return Ok(()) };
                self.move_to(id, core(on))?;
            }
            Op::Find(ty, words, constraint, prefer) => {
                let prefer = prefer.map(core);
                let found = self.find(ty, &words, constraint, prefer);
                let expected = self.model.find(self.types[ty], &words, constraint, prefer, "fair");
                prop_assert_eq!(found.map(|it| (it.handle.instance, it.by)).ok(), expected);
            }
            Op::Named(name, prefer) => {
                let found = self.registry.find_named(name, prefer.map(core));
                let named = self.model.rows.iter().filter(|row| row.new.name == name);
                let expected = named.map(|row| (row.ty, row.handle)).min_by_key(|(ty, it)| {
                    let place = it.location.place();
                    (prefer.map(core) != Some(place), place, *ty)
                });
                prop_assert_eq!(found.map(|it| (it.ty, it.handle)).ok(), expected);
            }
            Op::Bind(subject, index) => {
                let Some(id) = self.pick(index) else { return Ok(()) };
                self.bind(Subject(subject), Target::Instance(id), Some(id))?;
            }
            Op::BindFound(subject, ty, words) => {
                let expected = self.model.find(self.types[ty], &words, None, None, "fair");
                let query = Query::of(TypeQuery::Id(self.types[ty])).keywords(&words);
                self.bind(Subject(subject), Target::Query(query), expected.map(|(id, _)| id))?;
            }
            Op::Unbind(subject, ty) => {
                let (subject, ty) = (Subject(subject), self.types[ty]);
                let unbound = self.registry.unbind(subject, ty);
                let is_it =
                    |(s, t, _): &Binding| *s == subject && self.model.lineage(*t).contains(&ty);
                let expected = self.model.bound.iter().position(is_it);
                let expected = expected.map(|at| self.model.bound.remove(at).2);
                prop_assert_eq!(unbound.map(|it| it.handle.instance), expected);
            }
        }
        Ok(())
    }

    fn find(
        &self,
        ty: usize,
        words: &[&str],
        constraint: Option<(Relation, i64)>,
        prefer: Option<Place>,
    ) -> Result<Found, FindError> {
        let value = constraint.map(|(_, value)| AttributeValue::Int(value));
        let constraints: Vec<_> = constraint
            .iter()
            .zip(&value)
            .map(|((relation, _), value)| Constraint { name: "level", relation: *relation, value })
            .collect();
        let query = Query::of(TypeQuery::Id(self.types[ty])).keywords(words);
        self.registry.find(&Query { prefer, ..query.constraints(&constraints) })
    }

    fn publish(&mut self, ty: TypeId, new: NewInstance, place: Place) -> Result<(), TestCaseError> {
        let is_taken = self.model.is_taken(ty, &new.name, place);
        let handle = match self.registry.publish(ty, new.clone(), place) {
            Err(error) => {
                prop_assert!(is_taken, "{error}");
                return Ok(());
            }
            Ok(handle) => handle,
        };
        prop_assert!(!is_taken);
        prop_assert_eq!(handle.location.place(), place);
        prop_assert!(
            self.handles.iter().all(|it| it.instance != handle.instance
                && it.location.service != handle.location.service)
        );
        self.handles.push(handle);
        self.told.push((handle.instance, Some(handle)));
        self.model.rows.push(Row { ty, new, handle });
        Ok(())
    }

    fn gone(&mut self, gone: Unpublished) -> Result<(), TestCaseError> {
        let id = gone.handle.instance;
        let subjects: Vec<_> = gone.unbound.iter().map(|it| it.subject).collect();
        prop_assert_eq!(self.model.at(id).map(|row| row.handle), Some(gone.handle));
        prop_assert_eq!(subjects, self.model.remove(id));
        self.told.push((id, None));
        Ok(())
    }

    fn move_to(&mut self, id: InstanceId, place: Place) -> Result<(), TestCaseError> {
        let row = self.model.at(id);
        let free = row.is_some_and(|row| !self.model.is_taken(row.ty, &row.new.name, place));
        let moved = self.registry.move_to(id, place);
        prop_assert_eq!(moved.is_ok(), free);
        if let Ok(Moved { from, to }) = moved {
            prop_assert_eq!(to.generation, from.generation.next());
            prop_assert_eq!(to.location.place(), place);
            let row = self.model.rows.iter_mut().find(|row| row.handle == from);
            row.expect("it was where the model has it").handle = to;
            self.handles.push(to);
            self.told.push((id, Some(to)));
        }
        Ok(())
    }

    fn bind(
        &mut self,
        subject: Subject,
        target: Target<'_>,
        expected: Option<InstanceId>,
    ) -> Result<(), TestCaseError> {
        let row = expected.and_then(|id| self.model.at(id)).map(|row| (row.ty, row.handle));
        let bound = self.registry.bind(Caller::Operator, subject, &target, &[]);
        prop_assert_eq!(bound.as_ref().ok().map(|it| (it.ty, it.handle)), row);
        let (Ok(bound), Some((ty, handle))) = (bound, row) else { return Ok(()) };
        let root = |ty| self.model.lineage(ty).pop();
        let is_it = |(s, t, _): &Binding| *s == subject && root(*t) == root(ty);
        let before = self.model.bound.iter().position(is_it);
        let before = before.map(|at| self.model.bound.remove(at).2);
        prop_assert_eq!(bound.unbound.map(|it| it.handle.instance), before);
        self.model.bound.push((subject, ty, handle.instance));
        Ok(())
    }

    /// What can be seen at any time is the same.
    fn compare(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.registry.instance_count(), self.model.rows.len());
        for ty in self.types {
            let ours: Vec<_> = self.registry.instances(ty).map(Instance::handle).collect();
            let rows = self.model.rows.iter().filter(|row| row.ty == ty);
            prop_assert_eq!(ours, rows.map(|row| row.handle).collect::<Vec<_>>());
        }
        for row in &self.model.rows {
            let keywords: BTreeMap<_, _> = self.registry.keywords(row.handle.instance).collect();
            let expected = row.new.keywords.iter().map(|it| (it.word.as_ref(), it.weight));
            prop_assert_eq!(keywords, expected.collect());
        }
        for handle in &self.handles {
            let expected = match self.model.at(handle.instance).map(|row| row.handle) {
                Some(now) if now == *handle => HandleState::Live,
                Some(now) => HandleState::Moved(now),
                None => HandleState::Dead,
            };
            prop_assert_eq!(self.registry.state_of(*handle), expected);
        }
        let registry = &mut self.registry;
        let events = core::iter::from_fn(|| registry.next_event(self.watcher).unwrap());
        let events = events.map(|event| match event {
            Event::Publish { handle, .. } => (handle.instance, Some(handle)),
            Event::Move { to, .. } => (to.instance, Some(to)),
            Event::Unpublish { handle, .. } => (handle.instance, None),
            Event::Expel { handle, .. } => (handle.instance, Some(handle)),
            Event::Missed(_) => (InstanceId(0), None),
        });
        prop_assert_eq!(events.collect::<Vec<_>>(), core::mem::take(&mut self.told));
        Ok(())
    }
}

proptest! {
    #[test]
    fn the_registry_is_the_naive_one(ops in proptest::collection::vec(any_op(), 1..400)) {
        let mut pair = Pair::new();
        for op in ops {
            pair.apply(op)?;
        }
        pair.compare()?;
    }

    #[test]
    fn they_are_the_same_after_every_request(ops in proptest::collection::vec(any_op(), 1..60)) {
        let mut pair = Pair::new();
        for op in ops {
            pair.apply(op)?;
            pair.compare()?;
        }
    }
}
