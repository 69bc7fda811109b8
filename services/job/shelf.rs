//! Records of jobs on this node's disks: each is a small dataset, `.jobs/` and the job's number,
//! whose epoch counts its changes. One is durable before the one before it goes.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_bosml::{Bytes, Decode, Reader};
use nile_job::{JobId, Record};
use nile_order::SortedMap;
use nile_stl::{CallError, CallResult};

use super::catalogue::listed;
use super::cluster::{Cluster, Store};
use nile_interfaces::dataset::records::Decider;

/// What the names of records begin with. Stores keep space for them.
pub const FOLDER: &str = nile_store::RECORDS;

/// The most bytes of a record: those of a job with very many splits.
pub const MOST_BYTES: usize = 8 << 20;

/// Bytes of a call.
const PIECE: usize = 48 << 10;

/// Bytes of a record's blocks where longer ones have no room: space for them is free in any pieces.
const SHORT_BLOCK: u32 = nile_store::UNIT as u32;

/// How often a version is taken that somebody has taken before.
const TRIES: u32 = 16;

/// The records of this node.
pub struct Shelf {
    cluster: Rc<Cluster>,
    /// The version of each record that is durable.
    versions: RefCell<SortedMap<JobId, u64>>,
}

impl Shelf {
    /// The records on the disks of this node.
    pub fn new(cluster: &Rc<Cluster>) -> Shelf {
        Shelf { cluster: cluster.clone(), versions: RefCell::default() }
    }

    async fn stores(&self) -> CallResult<Vec<Store>> {
        let here = self.cluster.own_stores().await?;
        let missing = || CallError::new(Status::NotFound, "this node has no disk for datasets");
        if here.is_empty() { Err(missing()) } else { Ok(here) }
    }

    /// Makes a record durable.
    pub async fn save(&self, record: &Record) -> CallResult<()> {
        let bytes = pack(record)?;
        let (id, name) = (record.job.id, name(record.job.id));
        let before = self.versions.borrow().get(&id).copied();
        let mut last = CallError::new(Status::Failed, format!("{name}: no store takes it"));
        for store in self.stores().await? {
            let mut version = before.unwrap_or(0) + 1;
            for _ in 0..TRIES {
                match write(&store, &name, version, &bytes).await {
                    // A call before this one may have come to more than its answer said.
                    Err(error) if error.status == Status::Exists => version += 1,
                    Err(error) => {
                        last = error;
                        break;
                    }
                    Ok(()) => {
                        self.versions.borrow_mut().insert(id, version);
                        return self.remove_before(id, version).await;
                    }
                }
            }
        }
        Err(last)
    }

    /// Removes the versions of a record before one.
    async fn remove_before(&self, id: JobId, version: u64) -> CallResult<()> {
        let name = name(id);
        for store in self.stores().await? {
            // One is left at a time, but for calls whose answer was lost.
            for old in version.saturating_sub(u64::from(TRIES))..version {
                // What could not be removed is when the node starts again.
                if let Err(error) = store.client.remove(&name, old, 1).await
                    && error.status != Status::NotFound
                {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Every record that is here and whole. One that is damaged counts as lost: the others that
    /// keep it have it, and it is written over when they give it. `NotFound` if the node has no
    /// disk.
    pub async fn load(&self) -> CallResult<Vec<Record>> {
        let mut found: SortedMap<String, Vec<(u64, usize)>> = SortedMap::new();
        let stores = self.stores().await?;
        for (place, store) in stores.iter().enumerate() {
            // A disk that nobody has used has no records, and stays as it is.
            if !store.client.is_formatted().await? {
                continue;
            }
            for it in listed(&store.client).await? {
                if it.committed && it.name.starts_with(FOLDER) {
                    found.entry(it.name).or_default().push((it.epoch, place));
                }
            }
        }
        let mut records = Vec::new();
        for (name, mut versions) in found {
            nile_order::sort(&mut versions);
            let Some((version, place)) = versions.pop() else { continue };
            let bytes = match read(&stores[place], &name, version).await {
                Err(error) if error.status != Status::Failed => return Err(error),
                bytes => bytes,
            };
            if let Some(id) = id_of(&name) {
                self.versions.borrow_mut().insert(id, version);
            }
            match bytes.and_then(|bytes| unpack(&bytes)) {
                Ok(record) => records.push(record),
                Err(error) => self.cluster.log(format_args!("{name} is not read: {error}")),
            }
            for (old, place) in versions {
                stores[place].client.remove(&name, old, 1).await?;
            }
        }
        Ok(records)
    }

    /// Removes a record.
    pub async fn remove(&self, id: JobId) -> CallResult<()> {
        let Some(version) = self.versions.borrow().get(&id).copied() else { return Ok(()) };
        for store in self.stores().await? {
            match store.client.remove(&name(id), version, 1).await {
                Err(error) if error.status != Status::NotFound => return Err(error),
                _ => {}
            }
        }
        self.versions.borrow_mut().remove(&id);
        Ok(())
    }
}

fn name(id: JobId) -> String {
    format!("{FOLDER}{}", id.0)
}

fn id_of(name: &str) -> Option<JobId> {
    name.strip_prefix(FOLDER)?.parse().ok().map(JobId)
}

async fn write(store: &Store, name: &str, version: u64, bytes: &[u8]) -> CallResult<()> {
    match write_in(store, name, version, bytes, 0).await {
        Err(error) if error.status == Status::NoMemory => {
            write_in(store, name, version, bytes, SHORT_BLOCK).await
        }
        end => end,
    }
}

async fn write_in(
    store: &Store,
    name: &str,
    version: u64,
    bytes: &[u8],
    block_bytes: u32,
) -> CallResult<()> {
    let draft = store.client.create(name, version, 1, Decider::Here, block_bytes).await?.draft;
    let written = async {
        for (place, piece) in bytes.chunks(PIECE).enumerate() {
            let at = (place * PIECE) as u64;
            store.client.write(draft, at, Bytes::from(piece)).await?;
        }
        store.client.commit(draft).await
    };
    match written.await {
        Ok(_) => Ok(()),
        Err(error) => {
            let _ = store.client.abort(draft).await;
            Err(error)
        }
    }
}

async fn read(store: &Store, name: &str, version: u64) -> CallResult<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() <= MOST_BYTES {
        let at = bytes.len() as u64;
        let piece = store.client.read(name, version, 1, at, PIECE as u32).await?;
        if piece.bytes.0.is_empty() {
            return Ok(bytes);
        }
        bytes.extend_from_slice(&piece.bytes.0);
    }
    Err(CallError::new(Status::Invalid, format!("{name}: longer than any record")))
}

/// The messages of a record in one: each behind its length.
pub fn pack(record: &Record) -> CallResult<Vec<u8>> {
    let mut bytes = Vec::new();
    for message in record.encode()? {
        bytes.extend_from_slice(&(message.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&message);
    }
    match bytes.len() {
        0..=MOST_BYTES => Ok(bytes),
        _ => Err(CallError::new(Status::Invalid, "the job has too many splits")),
    }
}

/// The record that was packed. Fails if it is damaged, or of another version.
pub fn unpack(bytes: &[u8]) -> CallResult<Record> {
    let mut input = Reader::new(bytes);
    let mut messages = Vec::new();
    while input.left() > 0 {
        let length = u32::decode(&mut input)? as usize;
        messages.push(input.slice(length)?);
    }
    Ok(Record::decode(&messages)?)
}
