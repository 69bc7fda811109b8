//! The datasets of all stores together. What a job has made is one of them to people, and one for
//! each of its reducers to the stores: its *parts*, `NAME/0-of-R` and so on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nile_abi::{NodeId, Status};
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::{BlockEntry, Listed};
use nile_interfaces::name::records::{Facts, Meaning, NameEntry};

use super::stores::{Stores, failed, is_unusable, nodes};
use crate::cluster::turns::BRIEF;
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::peer::call::CallFailed;
use crate::peer::known::Target;

/// A dataset or an output: what its name means, and what the stores that answer have of it.
pub struct Known {
    /// How often its name has changed.
    pub stamp: u64,
    /// The epoch of the dataset, or the number of the job.
    pub epoch: u64,
    /// What its keepers say.
    pub facts: Facts,
    /// How many parts it should have; `None` if it is not in parts, and then it has one.
    pub of: Option<u32>,
    /// Those that there are, by their places.
    pub parts: BTreeMap<u32, Part>,
}

/// What the stores know as a dataset, and those that have it or some of its blocks.
pub struct Part {
    pub listed: Listed,
    pub stores: Vec<(Target, Listed)>,
}

/// Stores that cannot be asked, and why.
type Unusable = Vec<(Target, CallFailed)>;

/// Datasets, each with a store that has something of it.
pub type Held = Vec<(Target, Listed)>;

/// What all names mean, and what the stores that answer have, also what is only prepared.
pub struct Catalogue {
    names: BTreeMap<String, NameEntry>,
    held: Held,
}

impl Catalogue {
    /// Asks for the names first: what they mean was in its stores by then.
    pub fn gather(stores: &mut Stores) -> Result<Catalogue, Failure> {
        Catalogue::of(stores, held)
    }

    /// The same for who can do without some: a node that has kept this command waiting is given
    /// what is left of its patience.
    pub fn survey(stores: &mut Stores) -> Result<Catalogue, Failure> {
        Catalogue::of(stores, held_soon)
    }

    /// The same of the stores that answer at once: where what is wanted is whole with them, no
    /// other is waited for.
    pub fn glance(stores: &mut Stores) -> Result<Catalogue, Failure> {
        Catalogue::of(stores, |stores| {
            let patience = stores.session.patience.min(BRIEF);
            held_within(stores, patience).map(|(all, _)| all)
        })
    }

    fn of(
        stores: &mut Stores,
        held: impl FnOnce(&mut Stores) -> Result<Held, Failure>,
    ) -> Result<Catalogue, Failure> {
        if stores.have_no_disks()? {
            return Ok(Catalogue { names: BTreeMap::new(), held: Vec::new() });
        }
        let names = stores.names()?.into_iter().map(|it| (it.name, it.entry)).collect();
        Ok(Catalogue { names, held: held(stores)? })
    }

    /// Every dataset and output, by their names.
    pub fn all(&self) -> impl Iterator<Item = (&str, Known)> {
        let entries = self.names.iter();
        entries.filter_map(|(name, entry)| Some((name.as_str(), self.known(name, entry)?)))
    }

    /// What stores have of what a name means; none if it is neither a dataset nor an output.
    fn known(&self, name: &str, entry: &NameEntry) -> Option<Known> {
        let (epoch, facts, of) = match &entry.meaning {
            Meaning::Dataset { epoch, facts, .. } => (*epoch, facts, None),
            Meaning::Output { job, parts, facts } => (*job, facts, Some(*parts)),
            Meaning::Absent | Meaning::Making { .. } => return None,
        };
        let index_of = |listed: &Listed| match &entry.meaning {
            Meaning::Dataset { attempt, .. } => {
                (listed.name == name && listed.attempt == *attempt).then_some(0)
            }
            _ => {
                let part = part_of(&listed.name).filter(|_| listed.committed);
                let is_its = |(whole, _, it): &(&str, u32, u32)| *whole == name && Some(*it) == of;
                part.filter(is_its).map(|(_, index, _)| index)
            }
        };
        let mut parts: BTreeMap<u32, Part> = BTreeMap::new();
        for (target, listed) in self.held.iter().filter(|(_, it)| it.epoch == epoch) {
            let Some(index) = index_of(listed) else { continue };
            let new = || Part { listed: listed.clone(), stores: Vec::new() };
            parts.entry(index).or_insert_with(new).stores.push((*target, listed.clone()));
        }
        Some(Known { stamp: entry.stamp, epoch, facts: facts.clone(), of, parts })
    }

    /// What `name` means, which may be a part of another; a wrong request if there is none.
    pub fn find(&self, name: &str) -> Result<Known, Failure> {
        let known = |name: &str| self.names.get(name).and_then(|entry| self.known(name, entry));
        if let Some(known) = known(name) {
            return Ok(known);
        }
        if let Some((whole, index, of)) = part_of(name)
            && let Some(mut whole) = known(whole).filter(|it| it.of == Some(of))
        {
            let part = whole.parts.remove(&index);
            let bytes = part.as_ref().map_or(0, |part| part.listed.bytes);
            let blocks = part.as_ref().map_or(0, |part| part.listed.blocks);
            return Ok(Known {
                facts: Facts { bytes, blocks, ..whole.facts },
                of: None,
                parts: part.map(|it| (0, it)).into_iter().collect(),
                ..whole
            });
        }
        if let Some(Meaning::Making { job }) = self.names.get(name).map(|it| &it.meaning) {
            return Err(making(name, *job));
        }
        let names = self.all().map(|it| it.0).filter(|known| is_hidden(known) == is_hidden(name));
        let names: Vec<&str> = names.collect();
        let near = suggestion(name, names.iter().copied());
        Err(Failure::request(format!("no dataset `{name}`; {near}")))
    }
}

/// That a job makes its output under a name.
pub fn making(name: &str, job: u64) -> Failure {
    Failure::request(format!("`{name}` is being made by job {job}; wait for its end, or cancel it"))
}

/// Every dataset of the stores that answer, by store. A node that has just gone may still be
/// known: it is left out ([`Stores::absent`]).
pub fn held(stores: &mut Stores) -> Result<Held, Failure> {
    let (all, unusable) = held_within(stores, stores.session.patience)?;
    unusable.iter().for_each(|(target, error)| stores.leave_out_for(*target, error));
    Ok(all)
}

/// The same; a node that has kept this command waiting is given what is left of its patience.
pub fn held_soon(stores: &mut Stores) -> Result<Held, Failure> {
    let mut silent: Vec<(Target, ())> = stores.all().into_iter().map(|it| (it, ())).collect();
    silent.retain(|(target, ())| stores.session.doubts.has(target.node));
    let ask = async |store: &DatasetClient, (): &()| store.is_formatted().await;
    let ends = stores.ask_within(stores.session.patience_left(), &silent, ask)?;
    for ((target, ()), end) in silent.into_iter().zip(ends) {
        match end {
            Err(error) if is_unusable(&error) => stores.leave_out_for(target, &error),
            _ => {}
        }
    }
    held(stores)
}

/// The same of the stores that answer within `patience`, and why others do not.
fn held_within(stores: &mut Stores, patience: Duration) -> Result<(Held, Unusable), Failure> {
    let (mut all, mut unusable) = (Vec::new(), Vec::new());
    // Each with how many of its datasets are known.
    let mut open: Vec<(Target, u32)> = stores.all().into_iter().map(|it| (it, 0)).collect();
    while !open.is_empty() {
        let ends =
            stores.ask_within(patience, &open, async |store, skip| store.list(*skip).await)?;
        for ((target, skip), end) in std::mem::take(&mut open).into_iter().zip(ends) {
            match end {
                Ok(page) if page.is_empty() => {}
                Ok(page) => {
                    open.push((target, skip + page.len() as u32));
                    all.extend(page.into_iter().map(|listed| (target, listed)));
                }
                // A node without a disk keeps nothing.
                Err(error) if error.status == Status::NotFound => {}
                Err(error) if is_unusable(&error) => unusable.push((target, error)),
                Err(error) => return Err(failed(&target, &error)),
            }
        }
    }
    all.sort_by_key(|(target, _): &(Target, Listed)| (target.node, target.core));
    Ok((all, unusable))
}

/// What a name says if it is that of a part: of what, which one, and of how many.
pub fn part_of(name: &str) -> Option<(&str, u32, u32)> {
    let (whole, part) = name.rsplit_once('/')?;
    let (index, of) = part.split_once("-of-")?;
    // Written in one way only.
    let number = |text: &str| text.parse::<u32>().ok().filter(|it| it.to_string() == text);
    let (index, of) = (number(index)?, number(of)?);
    (index < of && !whole.is_empty()).then_some((whole, index, of))
}

/// Whether people ask for it by name only: what jobs keep for themselves.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with('.')
}

impl Known {
    /// The first part that there is not.
    pub fn missing(&self) -> Option<u32> {
        (0..self.of.unwrap_or(1)).find(|index| !self.parts.contains_key(index))
    }

    /// What is not there, as people are told.
    pub fn lacks(&self) -> Option<String> {
        let first = self.missing()?;
        Some(match self.of {
            Some(of) => {
                let there = self.parts.len();
                format!("{there} of its {of} parts are there; {first}-of-{of} is missing")
            }
            None if self.facts.nodes.is_empty() => "no node that answers has it".into(),
            None => {
                let on = nodes(self.facts.nodes.iter().copied()).join(", ");
                format!("no node that answers has it; it is on {on}")
            }
        })
    }

    /// The nodes that have something of it, the one with the most parts first.
    pub fn nodes(&self) -> Vec<NodeId> {
        let stores = || self.parts.values().flat_map(|part| &part.stores);
        let all: BTreeSet<NodeId> = stores().map(|(target, _)| target.node).collect();
        let mut all: Vec<NodeId> = all.into_iter().collect();
        all.sort_by_key(|node| Reverse(stores().filter(|(it, _)| it.node == *node).count()));
        all
    }

    /// The same without what a node has of it.
    pub fn without(mut self, node: NodeId) -> Known {
        for part in self.parts.values_mut() {
            part.stores.retain(|(target, _)| target.node != node);
        }
        self.parts.retain(|_, part| !part.stores.is_empty());
        self
    }

    /// Whether all its parts are there, and each block of them on some store that answers.
    pub fn is_whole(&self, stores: &mut Stores) -> Result<bool, Failure> {
        if self.missing().is_some() {
            return Ok(false);
        }
        for part in self.parts.values() {
            if !part.is_whole(stores)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Part {
    fn is_whole(&self, stores: &mut Stores) -> Result<bool, Failure> {
        let has_all = |listed: &Listed| listed.here == listed.blocks;
        if self.stores.iter().any(|(_, listed)| has_all(listed)) {
            return Ok(true);
        }
        let here: u32 = self.stores.iter().map(|(_, listed)| listed.here).sum();
        if here < self.listed.blocks {
            return Ok(false);
        }
        let targets: Vec<Target> = self.stores.iter().map(|(target, _)| *target).collect();
        let present: Vec<u32> = targets.iter().map(|target| target.node.0).collect();
        let mut skip = 0;
        while skip < self.listed.blocks {
            let Listed { name, epoch, attempt, .. } = &self.listed;
            let ask = async |it: &DatasetClient| it.blocks(name, *epoch, *attempt, skip).await;
            let blocks = stores.ask_any(&targets, ask)?;
            let is_there = |block: &BlockEntry| block.nodes.iter().any(|it| present.contains(it));
            if blocks.is_empty() || !blocks.iter().all(is_there) {
                return Ok(false);
            }
            skip += blocks.len() as u32;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::{CoreId, Generation};
    use nile_interfaces::dataset::records::Decider;

    fn listed(name: &str, epoch: u64, node: u32, committed: bool) -> (Target, Listed) {
        let generation = Generation::FIRST;
        let target = Target { node: NodeId(node), generation, core: CoreId(1), number: 3 };
        let listed = Listed {
            name: name.to_string(),
            epoch,
            attempt: 0,
            committed,
            bytes: 10,
            blocks: 1,
            here: 1,
            copies: 2,
            owner: Decider::Name,
        };
        (target, listed)
    }

    fn facts() -> Facts {
        Facts { bytes: 20, nodes: vec![NodeId(1), NodeId(4)], ..Facts::default() }
    }

    fn dataset(epoch: u64) -> NameEntry {
        let meaning = Meaning::Dataset { epoch, attempt: 0, facts: facts() };
        NameEntry { stamp: 1, meaning }
    }

    fn catalogue(names: &[(&str, NameEntry)], held: Vec<(Target, Listed)>) -> Catalogue {
        let names = names.iter().map(|(name, entry)| (name.to_string(), entry.clone())).collect();
        Catalogue { names, held }
    }

    fn nodes(known: &Known) -> Vec<u32> {
        known.nodes().iter().map(|node| node.0).collect()
    }

    #[track_caller]
    fn refused(all: &Catalogue, name: &str) -> String {
        match all.find(name) {
            Err(Failure::Request(message)) => message,
            _ => panic!("{name} is found"),
        }
    }

    #[test]
    fn a_name_means_the_version_that_its_keepers_say() {
        let names = [
            ("a", dataset(3)),
            ("b", NameEntry { stamp: 1, meaning: Meaning::Absent }),
            ("c", dataset(9)),
            ("d", NameEntry { stamp: 1, meaning: Meaning::Making { job: 5 } }),
        ];
        let held = vec![
            // A node that was away when it was replaced; one whose writer has not told it yet.
            listed("a", 2, 1, true),
            listed("a", 3, 2, true),
            listed("a", 3, 3, false),
            listed("b", 1, 1, true),
            listed("c", 1, 3, true),
        ];
        let all = catalogue(&names, held);
        assert_eq!(all.all().map(|it| it.0).collect::<Vec<_>>(), ["a", "c"]);
        let known = all.find("a").expect("it is there");
        assert_eq!((known.of, known.lacks(), nodes(&known)), (None, None, vec![2, 3]));
        let lacks = all.find("c").expect("its keepers know it").lacks();
        assert_eq!(lacks.as_deref(), Some("no node that answers has it; it is on n1, n4"));
        assert_eq!(refused(&all, "b"), "no dataset `b`; there are: a, c");
        assert!(refused(&all, "d").starts_with("`d` is being made by job 5"));
    }

    #[test]
    fn names_of_parts_are_written_in_one_way() {
        assert_eq!(part_of("a/0-of-1"), Some(("a", 0, 1)));
        assert_eq!(part_of("a/b/7-of-12"), Some(("a/b", 7, 12)));
        for name in ["a", "/0-of-1", "a/1-of-1", "a/01-of-2", "a/0-of-0", "a/-1-of-2", "a/0-of-2x"]
        {
            assert_eq!(part_of(name), None, "{name}");
        }
    }

    #[test]
    fn an_output_has_the_parts_of_its_job() {
        let mut held = vec![
            listed("out/0-of-2", 5, 1, true),
            listed("out/1-of-2", 5, 2, true),
            listed("out/1-of-2", 5, 3, true),
            listed("out/0-of-2", 4, 2, true),
            listed("out/1-of-2", 7, 2, false),
        ];
        let meaning = Meaning::Output { job: 5, parts: 2, facts: facts() };
        let names = [("out", NameEntry { stamp: 1, meaning })];
        let all = catalogue(&names, held.clone());
        let found = all.find("out").expect("it is there");
        assert_eq!((found.of, found.parts.len(), found.missing()), (Some(2), 2, None));
        assert_eq!((found.facts.bytes, nodes(&found)), (20, vec![1, 2, 3]));
        let part = all.find("out/0-of-2").expect("a part can be got");
        assert_eq!((part.of, part.facts.bytes, nodes(&part)), (None, 10, vec![1]));
        assert!(refused(&all, "out/0-of-3").starts_with("no dataset `out/0-of-3`"));
        held.retain(|(_, it)| it.name != "out/1-of-2");
        let lacks = catalogue(&names, held).find("out").expect("its keepers know it").lacks();
        let said = "1 of its 2 parts are there; 1-of-2 is missing";
        assert_eq!(lacks.as_deref(), Some(said));
        assert_eq!(refused(&all, "oot"), "no dataset `oot`; did you mean `out`?");
    }
}
