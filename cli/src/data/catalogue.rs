//! The datasets of all stores together. What a job has made is one of them to people, and one for
//! each of its reducers to the stores: its *parts*, `NAME/0-of-R` and so on.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use nile_abi::{NodeId, Status};
use nile_services::dataset::records::{BlockEntry, Listed};

use super::stores::{Arguments, Stores, failed};
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::peer::known::Target;

/// A committed dataset.
pub struct Known {
    /// Of the job that made it, or 1.
    pub epoch: u64,
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

/// Every dataset of the stores that answer, also those that are only prepared, by store. A node
/// that has just gone may still be known: it is left out, and said so.
pub fn everything(stores: &mut Stores) -> Result<Vec<(Target, Listed)>, Failure> {
    let mut all = Vec::new();
    for target in stores.all() {
        let mut skip = 0;
        loop {
            let skipped = || Arguments::new().with(&skip);
            let page: Vec<Listed> = match stores.ask(target, "list", skipped)? {
                Ok(page) => page,
                // A node without a disk keeps nothing.
                Err(error) if error.status == Status::NotFound => break,
                Err(error) if matches!(error.status, Status::Dead | Status::Timeout) => {
                    stores.leave_out(target);
                    eprintln!("nile: {}; what it has is not seen", failed(&target, &error));
                    break;
                }
                Err(error) => return Err(failed(&target, &error)),
            };
            if page.is_empty() {
                break;
            }
            skip += page.len() as u32;
            all.extend(page.into_iter().map(|listed| (target, listed)));
        }
    }
    Ok(all)
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

/// Of each name the committed dataset with the highest epoch, in the order of names; the highest
/// that is complete, if any is.
pub fn committed(all: &[(Target, Listed)]) -> BTreeMap<String, Known> {
    let mut versions: BTreeMap<(&str, u64, Option<u32>), Known> = BTreeMap::new();
    for (target, listed) in all.iter().filter(|(_, listed)| listed.committed) {
        let (name, index, of) = match part_of(&listed.name) {
            Some((whole, index, of)) => (whole, index, Some(of)),
            None => (listed.name.as_str(), 0, None),
        };
        let epoch = listed.epoch;
        let new = || Known { epoch, of, parts: BTreeMap::new() };
        let known = versions.entry((name, epoch, of)).or_insert_with(new);
        let new = || Part { listed: listed.clone(), stores: Vec::new() };
        known.parts.entry(index).or_insert_with(new).stores.push((*target, listed.clone()));
    }
    let mut found: BTreeMap<String, Known> = BTreeMap::new();
    for ((name, ..), known) in versions {
        let rank = |known: &Known| (known.missing().is_none(), known.epoch);
        if found.get(name).is_none_or(|other| rank(other) < rank(&known)) {
            found.insert(name.to_string(), known);
        }
    }
    found
}

/// The committed dataset `name`, which may be a part of another; a wrong request if there is none.
pub fn find(all: &[(Target, Listed)], name: &str) -> Result<Known, Failure> {
    let mut committed = committed(all);
    if let Some(known) = committed.remove(name) {
        return Ok(known);
    }
    let named = all.iter().filter(|(_, listed)| listed.committed && listed.name == name);
    if let Some(epoch) = named.clone().map(|(_, listed)| listed.epoch).max() {
        let stores: Vec<_> = named.filter(|(_, it)| it.epoch == epoch).cloned().collect();
        let part = Part { listed: stores[0].1.clone(), stores };
        return Ok(Known { epoch, of: None, parts: BTreeMap::from([(0, part)]) });
    }
    let names = committed.keys().filter(|known| is_hidden(known) == is_hidden(name));
    let near = suggestion(name, names.map(String::as_str));
    Err(Failure::request(format!("no dataset `{name}`; {near}")))
}

impl Known {
    /// The first part that there is not.
    pub fn missing(&self) -> Option<u32> {
        (0..self.of.unwrap_or(1)).find(|index| !self.parts.contains_key(index))
    }

    /// The parts' names end so: what is not there, as people are told.
    pub fn lacks(&self) -> Option<String> {
        let (first, of) = (self.missing()?, self.of?);
        let there = self.parts.len();
        Some(format!("{there} of its {of} parts are there; {first}-of-{of} is missing"))
    }

    /// Bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.values().map(|part| part.listed.bytes).sum()
    }

    /// Blocks of all parts.
    pub fn blocks(&self) -> u64 {
        self.parts.values().map(|part| u64::from(part.listed.blocks)).sum()
    }

    /// How many copies each of its blocks has, at least.
    pub fn copies(&self) -> u8 {
        self.parts.values().map(|part| part.listed.copies).min().unwrap_or(0)
    }

    /// The nodes that have something of it, the one with the most parts first.
    pub fn nodes(&self) -> Vec<NodeId> {
        let stores = || self.parts.values().flat_map(|part| &part.stores);
        let all: BTreeSet<NodeId> = stores().map(|(target, _)| target.node).collect();
        let mut all: Vec<NodeId> = all.into_iter().collect();
        all.sort_by_key(|node| Reverse(stores().filter(|(it, _)| it.node == *node).count()));
        all
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
        let Some((target, _)) = self.stores.first().filter(|_| here >= self.listed.blocks) else {
            return Ok(false);
        };
        let present: Vec<u32> = self.stores.iter().map(|(target, _)| target.node.0).collect();
        let mut skip = 0;
        while skip < self.listed.blocks {
            let page = || Arguments::version(&self.listed).with(&skip);
            let blocks: Vec<BlockEntry> =
                stores.ask(*target, "blocks", page)?.map_err(|error| failed(target, &error))?;
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
            owner: 1,
            owner_generation: 1,
        };
        (target, listed)
    }

    fn nodes(known: &Known) -> Vec<u32> {
        known.nodes().iter().map(|node| node.0).collect()
    }

    #[track_caller]
    fn refused(all: &[(Target, Listed)], name: &str) -> String {
        match find(all, name) {
            Err(Failure::Request(message)) => message,
            _ => panic!("{name} is found"),
        }
    }

    #[test]
    fn the_highest_committed_epoch_of_a_name_wins() {
        let all = [
            listed("a", 2, 1, true),
            listed("a", 3, 2, true),
            listed("a", 3, 3, true),
            listed("a", 4, 1, false),
            listed("b", 1, 1, false),
            listed("c", 1, 3, true),
        ];
        let found = committed(&all);
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["a", "c"]);
        assert_eq!((found["a"].epoch, nodes(&found["a"])), (3, vec![2, 3]));
        assert_eq!((found["a"].of, found["a"].lacks()), (None, None));
        assert_eq!(refused(&all, "b"), "no dataset `b`; there are: a, c");
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
    fn parts_are_one_dataset_when_all_of_one_epoch_are_there() {
        let mut all = vec![
            listed("out/0-of-2", 5, 1, true),
            listed("out/1-of-2", 5, 2, true),
            listed("out/1-of-2", 5, 3, true),
            listed("out/0-of-2", 7, 2, true),
            listed("out/1-of-2", 7, 2, false),
            listed(".jobs/1", 1, 1, true),
        ];
        let found = find(&all, "out").expect("an epoch is complete");
        assert_eq!((found.epoch, found.of, found.parts.len()), (5, Some(2), 2));
        assert_eq!((found.bytes(), found.blocks(), found.copies()), (20, 2, 2));
        assert_eq!(nodes(&found), [1, 2, 3]);
        let part = find(&all, "out/0-of-2").expect("a part is a dataset");
        assert_eq!((part.epoch, part.of, part.bytes()), (7, None, 10));
        // The second one of a later epoch comes.
        all[4].1.committed = true;
        assert_eq!(find(&all, "out").expect("both are").epoch, 7);
        // Of none all are there: the last one is shown, and what it lacks.
        all.retain(|(_, it)| it.name != "out/1-of-2");
        let found = find(&all, "out").expect("there are parts");
        let lacks = "1 of its 2 parts are there; 1-of-2 is missing";
        assert_eq!((found.epoch, found.lacks().as_deref()), (7, Some(lacks)));
        assert_eq!(refused(&all, "oot"), "no dataset `oot`; did you mean `out`?");
        assert_eq!(refused(&all, ".x"), "no dataset `.x`; there are: .jobs/1");
    }
}
