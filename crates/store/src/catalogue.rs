//! What the stores of all present nodes have together. Every store describes itself; the catalogue
//! is nothing but the sum of that, so that it can be made anew anywhere, at any time.
//!
//! A dataset is committed when its owner's store says so. Later copies only confirm it, so that any
//! store that says *committed* proves it. If all present stores say *prepared*, it is committed
//! perhaps, and only its owner knows: where the owner is present without having committed it, in a
//! later incarnation than the one that prepared it, it never will be.

use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;

use nile_abi::{Generation, NodeId};
use nile_order::SortedMap;

use crate::error::Error;
use crate::manifest::{Manifest, Name, Owner, Version};
use crate::table::State;

/// The datasets of the nodes that are present.
#[derive(Debug, Default)]
pub struct Catalogue {
    present: SortedMap<NodeId, Generation>,
    datasets: BTreeMap<(Name, Version), Entry>,
}

#[derive(Debug)]
struct Entry {
    manifest: Rc<Manifest>,
    stores: SortedMap<NodeId, State>,
}

/// What a store is to do with what it has prepared, or has and nobody needs any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Commit it: another store has.
    Commit,
    /// Remove it: a later epoch is committed, or its owner has given it up.
    Remove,
    /// Leave it as it is: the owner is not present or still at it.
    Wait,
}

/// A dataset as the present nodes have it.
#[derive(Debug)]
pub struct View<'a> {
    catalogue: &'a Catalogue,
    entry: &'a Entry,
}

impl Catalogue {
    /// One of no nodes.
    pub fn new() -> Catalogue {
        Catalogue::default()
    }

    /// A node is present, and will now be described; what was known of it is forgotten.
    pub fn present(&mut self, node: NodeId, generation: Generation) {
        self.absent(node);
        self.present.insert(node, generation);
    }

    /// A node is not there any more.
    pub fn absent(&mut self, node: NodeId) {
        self.present.remove(&node);
        self.datasets.retain(|_, entry| {
            entry.stores.remove(&node);
            !entry.stores.is_empty()
        });
    }

    /// A present node's store has a dataset in this state. `Mismatch` if another one says that the
    /// same version has other blocks; this one is then left out. `NotFound` if the node is not
    /// present.
    pub fn add(
        &mut self,
        node: NodeId,
        manifest: &Rc<Manifest>,
        state: State,
    ) -> Result<(), Error> {
        if !self.present.contains_key(&node) {
            return Err(Error::NotFound);
        }
        let new = || Entry { manifest: manifest.clone(), stores: SortedMap::new() };
        let key = (manifest.name.clone(), manifest.version);
        let entry = self.datasets.entry(key).or_insert_with(new);
        if !Rc::ptr_eq(&entry.manifest, manifest) && entry.manifest != *manifest {
            let (own, other) = (manifest.blocks(), entry.manifest.blocks());
            let same = own.iter().zip(other).take_while(|(own, other)| own == other).count();
            return Err(Error::Mismatch { block: same as u32 });
        }
        entry.stores.insert(node, state);
        Ok(())
    }

    /// A node's store has a dataset no more.
    pub fn remove(&mut self, node: NodeId, name: &Name, version: Version) {
        let key = (name.clone(), version);
        if let Some(entry) = self.datasets.get_mut(&key) {
            entry.stores.remove(&node);
            if entry.stores.is_empty() {
                self.datasets.remove(&key);
            }
        }
    }

    /// The committed dataset of a name with the highest epoch.
    pub fn find(&self, name: &Name) -> Option<View<'_>> {
        let of_name = self.datasets.range((name.clone(), Version::default())..);
        let of_name = of_name.take_while(|(key, _)| key.0 == *name);
        let committed = of_name.filter(|(_, entry)| entry.is_committed());
        // Of one epoch only one attempt is ever committed.
        committed.last().map(|(_, entry)| View { catalogue: self, entry })
    }

    /// Every committed dataset, the one with the highest epoch of each name, by names.
    pub fn list(&self) -> impl Iterator<Item = View<'_>> {
        let mut names: Vec<&Name> = self.datasets.keys().map(|key| &key.0).collect();
        names.dedup();
        names.into_iter().filter_map(|name| self.find(name))
    }

    /// What the store of `node` is to do with a dataset that it has.
    pub fn verdict(&self, node: NodeId, name: &Name, version: Version) -> Verdict {
        let Some(entry) = self.datasets.get(&(name.clone(), version)) else { return Verdict::Wait };
        let committed = self.find(name).map(|view| view.entry.manifest.version);
        let has_later = committed.is_some_and(|it| it != version && it.epoch >= version.epoch);
        let is_given_up = match entry.manifest.owner {
            Owner::Node { node, generation } => {
                let present = self.present.get(&node);
                present.is_some_and(|it| it.0.wrapping_sub(generation.0) as i32 > 0)
            }
            Owner::Job { .. } | Owner::Name => false,
        };
        match entry.stores.get(&node) {
            Some(_) if has_later => Verdict::Remove,
            Some(State::Prepared) if entry.is_committed() => Verdict::Commit,
            Some(State::Prepared) if is_given_up => Verdict::Remove,
            _ => Verdict::Wait,
        }
    }
}

impl Entry {
    fn is_committed(&self) -> bool {
        self.stores.values().any(|state| *state == State::Committed)
    }
}

impl View<'_> {
    /// Its blocks.
    pub fn manifest(&self) -> &Rc<Manifest> {
        &self.entry.manifest
    }

    /// The present nodes that have a block.
    pub fn nodes(&self, block: usize) -> impl Iterator<Item = NodeId> {
        let holders = self.entry.manifest.holders(block).iter().copied();
        holders.filter(|node| {
            self.entry.stores.contains_key(node) && self.catalogue.present.contains_key(node)
        })
    }

    /// The blocks that no present node has.
    pub fn lost(&self) -> impl Iterator<Item = usize> {
        let blocks = 0..self.entry.manifest.blocks().len();
        blocks.filter(|block| self.nodes(*block).next().is_none())
    }

    /// Whether every block is on some present node.
    pub fn is_whole(&self) -> bool {
        self.lost().next().is_none()
    }

    /// On how many present nodes it is durably committed: as many as it has copies, once its
    /// commit is complete.
    pub fn confirmed(&self) -> usize {
        self.entry.stores.values().filter(|state| **state == State::Committed).count()
    }
}
