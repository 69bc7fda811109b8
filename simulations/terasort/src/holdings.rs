//! What the stores of a cluster have.

use std::collections::{BTreeMap, BTreeSet};

use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::Listed;
use nile_stl::{CallResult, Place, Stl};

/// Bytes that one call reads.
const PIECE: u32 = 48 << 10;

/// Bytes that a store gives out at once.
const UNIT: u64 = nile_store::UNIT;

/// The nodes that have each part of an output.
pub type Holders = BTreeMap<String, BTreeSet<usize>>;

/// The stores of all nodes that can be asked.
pub struct Holdings {
    stores: BTreeMap<usize, DatasetClient>,
    /// What they have, by node.
    pub listed: BTreeMap<usize, Vec<Listed>>,
}

impl Holdings {
    /// Asks the stores at these places.
    pub async fn gather(stl: &Stl, places: Vec<Place>) -> CallResult<Holdings> {
        let (mut stores, mut listed) = (BTreeMap::new(), BTreeMap::new());
        for place in places {
            let node = place.node.0 as usize - 1;
            let client = DatasetClient::at(stl, place);
            listed.insert(node, client.list(0).await?);
            stores.insert(node, client);
        }
        Ok(Holdings { stores, listed })
    }

    /// A store.
    pub fn store(&self, node: usize) -> Option<&DatasetClient> {
        self.stores.get(&node)
    }

    /// The nodes that have each part of an output, committed.
    pub fn parts(&self, output: &str) -> Holders {
        let prefix = format!("{output}/");
        let mut parts = Holders::new();
        for (node, listed) in &self.listed {
            let own = listed.iter().filter(|it| it.committed && it.name.starts_with(&prefix));
            for it in own {
                parts.entry(it.name.clone()).or_default().insert(*node);
            }
        }
        parts
    }

    /// What is wrong with what the stores have: there is to be nothing but these outputs, each
    /// part whole, in one version and on as many nodes as are said, and records of jobs.
    pub fn fault(&self, outputs: &[(&str, u32, u32)]) -> Option<String> {
        for (node, listed) in &self.listed {
            let name = format!("n{}", node + 1);
            for it in listed {
                let is_output = |(output, ..): &(&str, u32, u32)| {
                    it.name.strip_prefix(output).is_some_and(|rest| rest.starts_with('/'))
                };
                let is_known = it.name.starts_with(".jobs/") || outputs.iter().any(is_output);
                let what = format!("{}@{}.{}", it.name, it.epoch, it.attempt);
                if !is_known || !it.committed {
                    let kind = if it.committed { "" } else { ", prepared" };
                    return Some(format!("{name} has {what}{kind}"));
                }
                if it.here < it.blocks {
                    return Some(format!("{name} has {} blocks of {what}", it.here));
                }
                if listed.iter().filter(|other| other.name == it.name).count() > 1 {
                    return Some(format!("{name} has {what}, and another version"));
                }
            }
        }
        for (output, of, copies) in outputs {
            let parts = self.parts(output);
            if parts.len() != *of as usize {
                return Some(format!("{output} has {} parts of {of}", parts.len()));
            }
            let few = parts.iter().find(|(_, nodes)| nodes.len() < *copies as usize);
            if let Some((name, nodes)) = few {
                return Some(format!("{name} is on {} nodes, not on {copies}", nodes.len()));
            }
            let versions = self.listed.values().flatten().filter(|it| parts.contains_key(&it.name));
            let versions: BTreeSet<_> =
                versions.map(|it| (&it.name, it.epoch, it.attempt)).collect();
            if versions.len() > parts.len() {
                return Some(format!("{output} has parts in several versions: {versions:?}"));
            }
        }
        None
    }

    /// A store whose space is not what its datasets take.
    pub async fn leak(&self) -> CallResult<Option<String>> {
        for (node, store) in &self.stores {
            let mut used = 0;
            for it in self.listed.get(node).into_iter().flatten() {
                let mut blocks = Vec::new();
                while blocks.len() < it.blocks as usize {
                    let next = blocks.len() as u32;
                    let more = store.blocks(&it.name, it.epoch, it.attempt, next).await?;
                    if more.is_empty() {
                        break;
                    }
                    blocks.extend(more);
                }
                used +=
                    blocks.iter().map(|it| u64::from(it.bytes).div_ceil(UNIT) * UNIT).sum::<u64>();
            }
            let space = store.space().await?;
            let taken = space.total - space.free;
            if taken != used {
                let text = format!("n{}: {taken} bytes are taken, {used} are used", node + 1);
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// Every copy of an output's parts, read from end to end: their bytes. `Err` if copies differ.
    /// `change` gets all bytes that are read.
    pub async fn read(
        &self,
        output: &str,
        of: u32,
        mut change: impl FnMut(&mut [u8]),
    ) -> CallResult<Result<Vec<Vec<u8>>, String>> {
        let mut all = Vec::new();
        for index in 0..of {
            let name = format!("{output}/{index}-of-{of}");
            let mut part: Option<Vec<u8>> = None;
            for (node, store) in &self.stores {
                let listed = self.listed.get(node).into_iter().flatten();
                for it in listed.filter(|it| it.name == name && it.committed) {
                    let mut read = Vec::new();
                    while (read.len() as u64) < it.bytes {
                        let at = read.len() as u64;
                        let piece = store.read(&name, it.epoch, it.attempt, at, PIECE).await?;
                        let mut bytes = piece.bytes.0;
                        change(&mut bytes);
                        read.extend(bytes);
                    }
                    if part.is_some_and(|part| part != read) {
                        return Ok(Err(format!(
                            "{name}: its copies differ, one is on n{}",
                            node + 1
                        )));
                    }
                    part = Some(read);
                }
            }
            let Some(part) = part else { return Ok(Err(format!("{name} is nowhere"))) };
            all.push(part);
        }
        Ok(Ok(all))
    }
}
