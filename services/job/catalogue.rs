//! What datasets the cluster has: which of them a job's input names are, and whether its output is
//! there already.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::Status;
use nile_names::{Entry, What};
use nile_order::SortedSet;
use nile_stl::{CallError, CallResult, all};

use super::cluster::{Cluster, Store};
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::{BlockEntry, Listed};

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

/// The name of the output that this is a part of, or the name itself.
pub fn whole_of(name: &str) -> &str {
    part_of(name).map_or(name, |(output, ..)| output)
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

    /// The dataset that a name means, if it means one that a living store has.
    pub fn dataset(&self, name: &str, named: &Entry) -> Option<Version> {
        let is_it = |it: &Listed| match &named.what {
            What::Dataset { version, .. } => {
                nile_store::Version::new(it.epoch, it.attempt) == *version
            }
            // Of a disk that was written before names had keepers.
            _ => named.stamp == 0 && it.committed,
        };
        let found = self.entries.iter().filter(|(_, it)| it.name == name && is_it(it));
        let (store, it) = found.max_by_key(|(_, it)| (it.epoch, it.attempt))?;
        Some(Version { name: name.into(), epoch: it.epoch, attempt: it.attempt, store: *store })
    }

    /// A committed dataset of this name, or a part of it, if a living store has one.
    pub fn committed(&self, name: &str) -> Option<&str> {
        let is_it = |it: &&Listed| it.committed && whole_of(&it.name) == name;
        self.entries.iter().map(|(_, it)| it).find(is_it).map(|it| it.name.as_str())
    }

    /// The datasets that a name means: one, or the parts of a job's output, of which it may be one.
    /// `named` is what the whole name means. `NotFound`, with what is missing.
    pub fn resolve(&self, name: &str, named: &Entry) -> CallResult<Vec<Version>> {
        let missing = |what: String| CallError::new(Status::NotFound, format!("{name}: {what}"));
        let nowhere = || missing(String::from("on no node that is alive"));
        match &named.what {
            What::Output { job, parts, .. } => {
                let wanted: Vec<u32> = match part_of(name) {
                    Some((_, index, of)) if of == *parts => Vec::from([index]),
                    Some(_) => return Err(missing(String::from("no such part"))),
                    None => (0..*parts).collect(),
                };
                let part = |index| {
                    let found = self.part(whole_of(name), index, *parts, *job);
                    let what = || format!("part {index} of {parts} is on no node that is alive");
                    found.ok_or_else(|| missing(what()))
                };
                wanted.into_iter().map(part).collect()
            }
            What::Dataset { .. } => {
                self.dataset(name, named).map(|it| Vec::from([it])).ok_or_else(nowhere)
            }
            What::Making { job } => {
                Err(missing(format!("job {job} is making it, and has not ended")))
            }
            What::Absent => self
                .dataset(name, named)
                .map(|it| Vec::from([it]))
                .ok_or_else(|| missing(String::from("no such dataset"))),
        }
    }

    /// A part of a job's output.
    fn part(&self, output: &str, index: u32, of: u32, job: u64) -> Option<Version> {
        let name = format!("{output}/{index}-of-{of}");
        let is_it = |it: &Listed| it.committed && it.epoch == job && it.name == name;
        let (store, it) = self.entries.iter().find(|(_, it)| is_it(it))?;
        Some(Version { epoch: it.epoch, attempt: it.attempt, store: *store, name })
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
        let nodes: SortedSet<_> = self.stores.iter().map(|store| store.node).collect();
        nodes.into_iter().collect()
    }
}
