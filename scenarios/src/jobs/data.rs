//! The input of a job and its output, on the disks of all nodes.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{NodeId, Status};
use nile_bosml::Bytes;
use nile_interfaces::dataset::records::{Decider, Listed};
use nile_interfaces::dataset::{DatasetClient, MOST_BYTES, NAMES};
use nile_interfaces::registry::RegistryClient;
use nile_job::{Job, Part};
use nile_stl::node::{Pool, in_call};
use nile_stl::{CallError, CallResult, Place, Stl};

use crate::conduct::Findings;
use crate::probe::ProbeClient;

/// The stores of all nodes, this one's first.
pub struct Data {
    stores: Vec<(NodeId, DatasetClient)>,
    probes: Vec<ProbeClient>,
    own: NodeId,
    pool: Pool,
    stl: Stl,
}

/// Numbers that were written.
pub struct Input {
    /// Bytes of each block.
    pub blocks: Vec<u64>,
    count: u64,
    sum: u64,
}

impl Data {
    /// The stores, once there is one on each node.
    pub async fn find(stl: &Stl, nodes: usize) -> CallResult<Data> {
        let missing = |what: &'static str| CallError::new(Status::NotFound, what);
        let pool = stl.node()?.pool().ok_or_else(|| missing("no pool"))?;
        let own = stl.node()?.member().map_or(NodeId(1), |member| member.node);
        let listed = RegistryClient::find(stl).await?.list_all().await?;
        let mut places: Vec<Place> = Vec::new();
        let mut probes: Vec<Place> = Vec::new();
        for it in listed {
            let place = Place::from(it.found);
            match it.name.as_str() {
                name if NAMES.contains(&name) => places.push(place),
                "probe" if probes.iter().all(|known| known.node != place.node) => {
                    probes.push(place);
                }
                _ => {}
            }
        }
        // A core that drives several disks has a store for each.
        places.sort();
        let have_one = places.chunk_by(|one, other| one.node == other.node).count();
        if have_one < nodes || probes.len() < nodes {
            return Err(missing("not all nodes have a store"));
        }
        let store = |place: Place| (place.node, DatasetClient::at(stl, place));
        let stores = places.into_iter().map(store).collect();
        let probes = probes.into_iter().map(|place| ProbeClient::at(stl, place)).collect();
        Ok(Data { stores, probes, own, pool, stl: stl.clone() })
    }

    /// This node.
    pub fn own(&self) -> NodeId {
        self.own
    }

    fn here(&self) -> &DatasetClient {
        &self.stores[0].1
    }

    /// Has every store read something once: it keeps the buffer of what it has read last.
    pub async fn warm(&self) -> CallResult<()> {
        for (_, store) in &self.stores {
            let draft = store.create("warm", 1, 0, Decider::Here, 0).await?.draft;
            store.write(draft, 0, Bytes::from(&b"warm"[..])).await?;
            store.commit(draft).await?;
            store.read("warm", 1, 0, 0, 4).await?;
            store.remove("warm", 1, 0).await?;
        }
        Ok(())
    }

    /// Keeps a small dataset for a moment.
    pub async fn keep(&self, name: &str) -> CallResult<()> {
        let draft = self.here().create(name, 1, 0, Decider::Here, 0).await?.draft;
        self.here().write(draft, 0, Bytes::from(&b"small"[..])).await?;
        self.here().commit(draft).await?;
        self.here().remove(name, 1, 0).await
    }

    /// Free space of all stores.
    pub async fn free(&self) -> CallResult<Vec<u64>> {
        let mut free = Vec::new();
        for (_, store) in &self.stores {
            free.push(store.space().await?.free);
        }
        Ok(free)
    }

    /// Free buffers of all nodes' pools.
    pub async fn free_buffers(&self) -> CallResult<Vec<u64>> {
        let mut free = Vec::new();
        for probe in &self.probes {
            free.push(probe.free_buffers().await?);
        }
        Ok(free)
    }

    /// Writes a dataset of so many blocks of so many numbers each, but fewer in the last.
    pub async fn write(&self, name: &str, blocks: u64, numbers: u64) -> CallResult<Input> {
        let draft = self.here().create(name, 1, 0, Decider::Here, 0).await?.draft;
        let mut input = Input { blocks: Vec::new(), count: 0, sum: 0 };
        let mut number = 1u64;
        for block in 0..blocks {
            let count = if block + 1 == blocks { numbers / 2 } else { numbers };
            let busy = || CallError::new(Status::Busy, "no buffer of the pool is free");
            let mut buffer = self.pool.alloc().ok_or_else(busy)?;
            let words = buffer.as_chunks_mut::<8>().0;
            for word in words.iter_mut().take(count as usize) {
                number = number.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e);
                *word = (number >> 3).to_le_bytes();
                input.sum = input.sum.wrapping_add(number >> 3);
                input.count += 1;
            }
            let bytes = 8 * count;
            self.here().append(draft, in_call(buffer.into_handle(bytes as usize))).await?;
            input.blocks.push(bytes);
        }
        self.here().commit(draft).await?;
        Ok(input)
    }

    /// Removes what was written.
    pub async fn remove(&self, name: &str) -> CallResult<()> {
        self.here().remove(name, 1, 0).await
    }

    /// All that stores have of a job's output, and where.
    async fn output(&self, job: &Job) -> CallResult<Vec<(&DatasetClient, Listed)>> {
        let prefix = format!("{}/", job.output);
        let mut found = Vec::new();
        for (_, store) in &self.stores {
            for listed in store.list(0).await? {
                if listed.name.starts_with(&prefix) {
                    found.push((store, listed));
                }
            }
        }
        Ok(found)
    }

    /// Does with a job's parts what workers that are gone did not do any more: those that were
    /// decided on are committed, and the others are not there.
    pub async fn decide(&self, job: &Job, parts: &[Part]) -> CallResult<()> {
        let is_open = |listed: &Listed| !listed.committed;
        let open = self.output(job).await?.into_iter().filter(|(_, listed)| is_open(listed));
        for (store, listed) in open {
            let Listed { name, epoch, attempt, .. } = &listed;
            let is_it = |part: &Part| {
                let made = part.attempt.version();
                made == Some(*attempt) && *name == part_name(job, part.attempt.task.index)
            };
            match parts.iter().any(is_it) {
                true => store.confirm(name, *epoch, *attempt).await?,
                false => store.remove(name, *epoch, *attempt).await?,
            }
        }
        Ok(())
    }

    /// The job's output is its input, sorted; it is removed.
    pub async fn check(&self, job: &Job, input: &Input, findings: &Findings) -> CallResult<()> {
        let (mut count, mut sum, mut last) = (0, 0u64, 0);
        // What the workers are told at the job's end they do a moment later.
        let until = self.stl.host().now() + super::CLEARING;
        let all = loop {
            let all = self.output(job).await?;
            let wanted = job.reducers as usize * job.copies as usize;
            if all.len() == wanted && all.iter().all(|(_, listed)| listed.committed) {
                break all;
            }
            if self.stl.host().now() > until {
                let all: Vec<&Listed> = all.iter().map(|(_, listed)| listed).collect();
                let text = format!("the parts of the job are {all:?}");
                return Err(CallError::new(Status::Timeout, text));
            }
            super::pause(&self.stl).await;
        };
        for partition in 0..job.reducers {
            let name = part_name(job, partition);
            let copies: Vec<_> = all.iter().filter(|(_, listed)| listed.name == name).collect();
            let is_right = copies.len() == job.copies as usize
                && copies.iter().all(|(_, listed)| listed.epoch == job.id.0);
            findings.check(is_right, format_args!("{name}: {copies:?}", copies = copies.len()));
            for (place, (store, listed)) in copies.into_iter().enumerate() {
                let (mut at, mut bytes) = (0, Vec::new());
                while at < listed.bytes {
                    let most = MOST_BYTES as u32;
                    let (epoch, attempt) = (listed.epoch, listed.attempt);
                    let piece = store.read(&name, epoch, attempt, at, most).await?;
                    at += piece.bytes.0.len() as u64;
                    bytes.extend(piece.bytes.0);
                }
                if place == 0 {
                    for word in bytes.as_chunks::<8>().0 {
                        let number = u64::from_le_bytes(*word);
                        let holds = number >= last;
                        findings.check(holds, format_args!("{number} comes after {last}"));
                        last = number;
                        sum = sum.wrapping_add(number);
                        count += 1;
                    }
                }
                store.remove(&name, listed.epoch, listed.attempt).await?;
            }
        }
        let holds = (count, sum) == (input.count, input.sum);
        findings.check(holds, format_args!("{count} numbers, and not {}", input.count));
        Ok(())
    }

    /// A job that has failed has left nothing.
    pub async fn check_nothing(&self, job: &Job, findings: &Findings) -> CallResult<()> {
        let left = self.output(job).await?.len();
        findings.check(left == 0, format_args!("{left} parts are left"));
        Ok(())
    }
}

fn part_name(job: &Job, partition: u32) -> String {
    format!("{}/{partition}-of-{}", job.output, job.reducers)
}
