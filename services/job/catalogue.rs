//! What datasets the cluster has: which of them a job's input names are, and whether its output is
//! there already.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_stl::{CallError, CallResult, all};

use super::cluster::{Cluster, Store};
use crate::dataset::DatasetClient;
use crate::dataset::records::{BlockEntry, Listed};

/// The datasets that living stores have.
pub struct Catalogue {
    /// The stores.
    pub stores: Vec<Store>,
    /// What they have: which store, and what.
    pub entries: Vec<(usize, Listed)>,
}

/// A version of a dataset, and a store that has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Version {
    /// Its name.
    pub name: String,
    /// The epoch.
    pub epoch: u64,
    /// The attempt in that.
    pub attempt: u32,
    /// The place of a store that has it.
    pub store: usize,
}

/// All datasets of a store.
pub async fn listed(client: &DatasetClient) -> CallResult<Vec<Listed>> {
    let mut entries = Vec::new();
    loop {
        let more = client.list(entries.len() as u32).await?;
        if more.is_empty() {
            return Ok(entries);
        }
        entries.extend(more);
    }
}

/// The name, the place and the number of parts, if this is the name of a part.
pub fn part_of(name: &str) -> Option<(&str, u32, u32)> {
    let (output, part) = name.rsplit_once('/')?;
    let (index, of) = part.split_once("-of-")?;
    let (index, of) = (index.parse().ok()?, of.parse().ok()?);
    (index < of).then_some((output, index, of))
}

impl Catalogue {
    /// Asks all stores. `NotFound` if there is none that can be read.
    pub async fn gather(cluster: &Cluster) -> CallResult<Catalogue> {
        let stores = cluster.stores().await?;
        let lists = all(stores.iter().map(|store| listed(&store.client))).await;
        let mut error = CallError::new(Status::NotFound, "no node of the cluster has a disk");
        let (mut entries, mut living) = (Vec::new(), Vec::new());
        for (store, list) in stores.into_iter().zip(lists) {
            match list {
                Ok(list) => {
                    entries.extend(list.into_iter().map(|it| (living.len(), it)));
                    living.push(store);
                }
                Err(other) => error = other,
            }
        }
        match living.is_empty() {
            true => Err(error),
            false => Ok(Catalogue { stores: living, entries }),
        }
    }

    /// The highest epoch of all datasets.
    pub fn last_epoch(&self) -> u64 {
        let data = self.entries.iter().filter(|(_, it)| !it.name.starts_with(super::shelf::FOLDER));
        data.map(|(_, it)| it.epoch).max().unwrap_or(0)
    }

    /// The committed dataset of a name, if there is one.
    pub fn dataset(&self, name: &str) -> Option<Version> {
        let named = self.entries.iter().filter(|(_, it)| it.committed && it.name == name);
        let (store, it) = named.max_by_key(|(_, it)| (it.epoch, it.attempt))?;
        Some(Version { name: name.into(), epoch: it.epoch, attempt: it.attempt, store: *store })
    }

    /// The datasets that a name means: one, or the parts of a job's output, of whichever has the
    /// highest epoch. `NotFound`, with what is missing.
    pub fn resolve(&self, name: &str) -> CallResult<Vec<Version>> {
        type Parts = BTreeMap<u32, Version>;
        let mut groups: BTreeMap<(u64, u32), Parts> = BTreeMap::new();
        for (store, it) in self.entries.iter().filter(|(_, it)| it.committed) {
            if let Some((output, index, of)) = part_of(&it.name)
                && output == name
            {
                let (epoch, attempt) = (it.epoch, it.attempt);
                let version = Version { name: it.name.clone(), epoch, attempt, store: *store };
                let known = groups.entry((epoch, of)).or_default().entry(index);
                known.and_modify(|it| *it = version.clone()).or_insert(version);
            }
        }
        let whole = |(key, parts): &(&(u64, u32), &Parts)| parts.len() as u64 == u64::from(key.1);
        let last = groups.iter().filter(whole).max_by_key(|(key, _)| **key);
        match (self.dataset(name), last) {
            (Some(one), Some(((epoch, _), parts))) if *epoch > one.epoch => {
                Ok(parts.values().cloned().collect())
            }
            (Some(one), _) => Ok(Vec::from([one])),
            (None, Some((_, parts))) => Ok(parts.values().cloned().collect()),
            (None, None) => Err(CallError::new(Status::NotFound, self.missing(name, &groups))),
        }
    }

    fn missing<P>(&self, name: &str, groups: &BTreeMap<(u64, u32), BTreeMap<u32, P>>) -> String {
        match groups.last_key_value() {
            Some(((_, of), parts)) => {
                let missing = (0..*of).find(|index| !parts.contains_key(index)).unwrap_or(0);
                format!("{name}: part {missing} of {of} is on no node that is alive")
            }
            None => format!("{name}: no such dataset"),
        }
    }

    /// What is there already of an output of this name.
    pub fn existing(&self, name: &str) -> Option<&str> {
        let is_it = |it: &&Listed| {
            let part = part_of(&it.name).is_some_and(|(output, ..)| output == name);
            it.committed && (it.name == name || part)
        };
        self.entries.iter().map(|(_, it)| it).find(is_it).map(|it| it.name.as_str())
    }

    /// The blocks of a dataset.
    pub async fn blocks(&self, version: &Version) -> CallResult<Vec<BlockEntry>> {
        let Version { name, epoch, attempt, store } = version;
        let mut blocks = Vec::new();
        loop {
            let client = &self.stores[*store].client;
            let more = client.blocks(name, *epoch, *attempt, blocks.len() as u32).await?;
            if more.is_empty() {
                return Ok(blocks);
            }
            blocks.extend(more);
        }
    }

    /// The nodes that have stores, in their order.
    pub fn nodes(&self) -> Vec<nile_abi::NodeId> {
        let nodes: BTreeSet<_> = self.stores.iter().map(|store| store.node).collect();
        nodes.into_iter().collect()
    }
}
