//! The datasets of all stores together.

use std::collections::BTreeMap;

use nile_abi::Status;
use nile_services::dataset::records::{BlockEntry, Listed};

use super::stores::{Arguments, Stores, failed};
use crate::failure::Failure;
use crate::nearest::suggestion;
use crate::peer::known::Target;

/// A committed dataset, and the stores that have it or a part of it.
pub struct Known {
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

/// Of each name the committed dataset with the highest epoch, in the order of names.
pub fn committed(all: &[(Target, Listed)]) -> BTreeMap<String, Known> {
    let mut found: BTreeMap<String, Known> = BTreeMap::new();
    for (target, listed) in all.iter().filter(|(_, listed)| listed.committed) {
        let store = (*target, listed.clone());
        match found.get_mut(&listed.name) {
            Some(known) if known.listed.epoch > listed.epoch => {}
            Some(known) if known.listed.epoch == listed.epoch => known.stores.push(store),
            _ => {
                let known = Known { listed: listed.clone(), stores: vec![store] };
                found.insert(listed.name.clone(), known);
            }
        }
    }
    found
}

/// The committed dataset `name`; a wrong request if there is none.
pub fn find(all: &[(Target, Listed)], name: &str) -> Result<Known, Failure> {
    let mut committed = committed(all);
    match committed.remove(name) {
        Some(known) => Ok(known),
        None => {
            let near = suggestion(name, committed.keys().map(String::as_str));
            Err(Failure::request(format!("no dataset `{name}`; {near}")))
        }
    }
}

impl Known {
    /// Whether each block is on some store that answers.
    pub fn is_whole(&self, stores: &mut Stores) -> Result<bool, Failure> {
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
    use nile_abi::{CoreId, Generation, NodeId};

    fn listed(name: &str, epoch: u64, node: u32, committed: bool) -> (Target, Listed) {
        let generation = Generation::FIRST;
        let target = Target { node: NodeId(node), generation, core: CoreId(1), number: 3 };
        let name = name.to_string();
        let (bytes, blocks, here, copies, owner, attempt) = (10, 1, 1, 2, 1, 0);
        let owner_generation = 1;
        let listed = Listed {
            name,
            epoch,
            attempt,
            committed,
            bytes,
            blocks,
            here,
            copies,
            owner,
            owner_generation,
        };
        (target, listed)
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
        let nodes: Vec<u32> = found["a"].stores.iter().map(|(it, _)| it.node.0).collect();
        assert_eq!((found["a"].listed.epoch, nodes), (3, vec![2, 3]));
        let Err(Failure::Request(message)) = find(&all, "b") else { panic!("it is not committed") };
        assert_eq!(message, "no dataset `b`; there are: a, c");
    }
}
