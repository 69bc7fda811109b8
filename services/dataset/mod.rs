//! The dataset service: named, immutable datasets on a disk of this core (docs/store.md has the
//! format). A core that drives disks has an instance for each; what the cluster has is the sum.
//!
//! A dataset is written as a stream of bytes, or block by block in buffers of the node's pool. On
//! one node `commit` makes it durable; with copies on several, whoever writes has all of them
//! `prepare` it and then commit, the owner first (two-phase commit, decided by the owner).
//!
//! * `travel`: what calls carry of it.
//! * `medium`: the disk, through buffers of the pool.
//! * `keeper`: the store, and what it does to the disk; `mounting`: how it is had, and had again.
//! * `streams`: drafts; `blocks`: what is read; `given`: to whom.
//! * [`fetch`]: blocks to other nodes, and datasets from them.

mod blocks;
mod fetch;
mod given;
mod keeper;
mod medium;
mod mounting;
mod streams;
mod travel;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Generation, NodeId, Status};
use nile_bosml::{Blob, Bytes};
use nile_registry::{Attribute, Caller as Binder};
use nile_stl::node::from_call;
use nile_stl::{CallError, CallResult, Caller, Half, Start, Stl, service};
use nile_store::{Manifest, Name, Owner, Space, State, Store, Ticket, Version};
use nile_sync::Notify;

use crate::job::cluster::whole;
use crate::page::page;
use crate::{cluster, instance};
use given::Given;
use keeper::Keeper;
use medium::Medium;
use mounting::Mounted;
pub use streams::disk_of;

use nile_interfaces::dataset::records::{
    BlockEntry, BlockRange, Condition, Copied, Decider, Destination, Draft, InFile, Listed,
    NoteEntry, Piece, SpaceEntry, Verified,
};
use nile_interfaces::dataset::{DatasetKernel, NAMES};
use nile_interfaces::name::NameClient;
use streams::{Stream, Streams};
use travel::{listed, refused};

/// How long who prepares a dataset has to have its name decided until that is looked at.
const UNDECIDED: Duration = Duration::from_secs(30);

/// The most entries of one reply.
const MOST_LISTED: usize = 128;

/// The datasets of a disk of this core.
pub struct Dataset {
    shared: Rc<Shared>,
}

struct Shared {
    stl: Stl,
    /// Which of this core's disks.
    disk: usize,
    mounted: RefCell<Mounted>,
    /// Notified when it was mounted, or could not be.
    mounts: Notify,
    streams: Streams,
    last: blocks::Last,
    /// What callers may not have claimed yet.
    given: Given,
    /// Numbers the fetches of this store.
    fetches: Cell<u32>,
    /// Whether it will be looked what was prepared and not decided.
    sees_decided: Cell<bool>,
}

impl Start for Dataset {
    fn start(stl: &Stl) -> Dataset {
        Dataset::on(stl, 0)
    }
}

/// Publishes an instance for each disk of this core but the first; what could not be is logged.
pub async fn publish_others(stl: &Stl) {
    let own = stl.acting_as(Binder::Operator);
    let disks = own.node().map_or(0, |node| node.disks().len());
    for (disk, name) in NAMES.into_iter().enumerate().take(disks).skip(1) {
        let make = |stl: &Stl| Half::of::<dyn DatasetKernel>(Rc::new(Dataset::on(stl, disk)));
        let keywords = [("dataset", 5), ("storage", 3), ("block", 1)];
        let place = [Attribute::int("place", disk as i64)];
        let published = instance::publish(&own, &REGISTRATION, name, keywords, place, make).await;
        if let Err(error) = published {
            own.host().log(format_args!("service {name} is not published: {error}"));
        }
    }
}

impl Dataset {
    fn on(stl: &Stl, disk: usize) -> Dataset {
        let stl = stl.acting_as(Binder::Operator);
        let (mounted, mounts) = (RefCell::new(Mounted::Not), Notify::default());
        let (streams, last) = (Streams::on(disk), blocks::Last::default());
        let (given, fetches) = (Given::default(), Cell::new(0));
        let sees_decided = Cell::new(false);
        let shared = Rc::new(Shared {
            stl: stl.clone(),
            disk,
            mounted,
            mounts,
            streams,
            last,
            given,
            fetches,
            sees_decided,
        });
        let told = Rc::downgrade(&shared);
        stl.on_death(move |core, generation| {
            if let Some(shared) = told.upgrade()
                && let Mounted::Is(keeper) = &*shared.mounted.borrow()
            {
                shared.streams.sweep(keeper);
                shared.given.sweep(keeper.medium.pool(), (core, generation));
            }
        });
        Dataset { shared }
    }
}

impl Shared {
    /// The core that calls, in its present incarnation.
    fn core_of(&self, caller: &Caller) -> CallResult<(CoreId, Generation)> {
        let core = caller.own_core()?;
        Ok((core, self.stl.host().generation_of(core)))
    }

    /// This node.
    fn node(&self) -> NodeId {
        cluster::life(&self.stl).0
    }

    /// This node in its present incarnation.
    fn owner(&self) -> Owner {
        let (node, generation) = cluster::life(&self.stl);
        Owner::Node { node, generation }
    }

    /// Has the names decide, after a while, on what was prepared for one and not decided since:
    /// who wanted that may have ended.
    fn see_decided(self: &Rc<Self>, keeper: &Rc<Keeper>) {
        if self.sees_decided.replace(true) {
            return;
        }
        let (shared, keeper) = (self.clone(), keeper.clone());
        self.stl.host().spawn(Box::pin(async move {
            let is_left = |it: &nile_store::Dataset| {
                it.state == State::Prepared && it.manifest.owner == Owner::Name
            };
            loop {
                shared.stl.host().pause(UNDECIDED).await;
                if !keeper.with(|store| store.datasets().any(is_left)) {
                    break;
                }
                if let Ok(names) = NameClient::find(&shared.stl).await {
                    let _ = names.sweep().await;
                }
            }
            shared.sees_decided.set(false);
        }));
    }

    async fn finish(
        &self,
        keeper: &Rc<Keeper>,
        draft: u64,
        nodes: &[u32],
    ) -> CallResult<(Rc<Stream>, Manifest)> {
        let stream = self.streams.find(draft)?;
        let nodes: Vec<NodeId> = match nodes {
            [] => Vec::from([self.node()]),
            nodes => nodes.iter().map(|node| NodeId(*node)).collect(),
        };
        let manifest = stream.finish(keeper, &nodes).await?;
        Ok((stream, manifest))
    }

    /// Changes something about a dataset, and waits for the end.
    async fn change(
        &self,
        keeper: &Rc<Keeper>,
        name: &Name,
        begin: impl FnOnce(&mut Store) -> Result<Ticket, nile_store::Error>,
    ) -> CallResult<()> {
        keeper.change(begin).await.map_err(|error| refused(error, name.as_str()))
    }
}

fn named(name: &str) -> CallResult<Name> {
    let bad = || CallError::new(Status::Invalid, "a name has no control characters");
    Name::new(name).ok_or_else(bad)
}

#[service(on = disk, keywords(dataset = 5, storage = 3, block = 1), attributes(place = 0))]
impl DatasetKernel for Dataset {
    async fn create(
        &self,
        caller: &Caller,
        name: &str,
        epoch: u64,
        attempt: u32,
        owner: Decider,
        block_bytes: u32,
    ) -> CallResult<Draft> {
        let keeper = self.shared.keeper().await?;
        let owner = travel::owner(owner).unwrap_or_else(|| self.shared.owner());
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        let most = keeper.medium.buffer_bytes();
        let length = match block_bytes as usize {
            0 => most,
            bytes if bytes <= most => bytes,
            bytes => {
                let message = format!("{name}: blocks of {bytes} bytes; a buffer has {most}");
                return Err(CallError::new(Status::Invalid, message));
            }
        };
        let (streams, writer) = (&self.shared.streams, caller.own_core().ok());
        let draft = streams.create(&keeper, (name, version), owner, writer, length)?;
        let block_bytes = length as u32;
        Ok(Draft { draft, block_bytes, node: self.shared.node().0 })
    }

    async fn write(&self, draft: u64, at: u64, bytes: Bytes<'_>) -> CallResult<u64> {
        let keeper = self.shared.keeper().await?;
        let stream = self.shared.streams.find(draft)?;
        stream.write(&keeper, at, &bytes.0).await
    }

    async fn append(
        &self,
        caller: &Caller,
        draft: u64,
        buffer: nile_bosml::Buffer,
    ) -> CallResult<()> {
        caller.own_core()?;
        let keeper = self.shared.keeper().await?;
        let buffer = keeper.medium.claim(from_call(buffer))?;
        let stream = self.shared.streams.find(draft)?;
        stream.append(&keeper, buffer.0, buffer.1).await
    }

    async fn load_draft(
        &self,
        caller: &Caller,
        draft: u64,
        block: u32,
    ) -> CallResult<nile_bosml::Buffer> {
        let to = self.shared.core_of(caller)?;
        let keeper = self.shared.keeper().await?;
        let stream = self.shared.streams.find(draft)?;
        let (buffer, bytes) = blocks::read_draft(&keeper, &stream, block).await?;
        Ok(self.shared.given.give(keeper.medium.pool(), to, buffer, bytes))
    }

    async fn commit(&self, draft: u64) -> CallResult<Listed> {
        self.put(draft, &[], State::Committed).await
    }

    async fn prepare(&self, draft: u64, nodes: Vec<u32>) -> CallResult<Listed> {
        self.put(draft, &nodes, State::Prepared).await
    }

    async fn confirm(&self, name: &str, epoch: u64, attempt: u32) -> CallResult<()> {
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        self.shared.change(&keeper, &name, |store| store.commit(&name, version)).await
    }

    async fn abort(&self, draft: u64) -> CallResult<()> {
        let keeper = self.shared.keeper().await?;
        self.shared.streams.abort(&keeper, draft).await;
        Ok(())
    }

    async fn remove(&self, name: &str, epoch: u64, attempt: u32) -> CallResult<()> {
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        self.shared.change(&keeper, &name, |store| store.remove(&name, version)).await
    }

    async fn list(&self, skip: u32) -> CallResult<Vec<Listed>> {
        let keeper = self.shared.keeper().await?;
        Ok(keeper.with(|store| {
            let all = store.datasets().skip(skip as usize);
            all.take(MOST_LISTED).map(listed).collect()
        }))
    }

    async fn look_up(&self, name: &str) -> CallResult<Listed> {
        let keeper = self.shared.keeper().await?;
        let key = named(name)?;
        let found = keeper.with(|store| store.committed(&key).map(listed));
        found.ok_or_else(|| CallError::new(Status::NotFound, format!("{name}: no such dataset")))
    }

    async fn inspect(&self, name: &str, epoch: u64, attempt: u32) -> CallResult<Listed> {
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        let found = keeper.with(|store| store.get(&name, version).map(listed));
        found.ok_or_else(|| CallError::new(Status::NotFound, format!("{name}: no such dataset")))
    }

    async fn blocks(
        &self,
        name: &str,
        epoch: u64,
        attempt: u32,
        skip: u32,
    ) -> CallResult<Vec<BlockEntry>> {
        let keeper = self.shared.keeper().await?;
        let key = named(name)?;
        keeper.with(|store| {
            let dataset = store.get(&key, Version::new(epoch, attempt));
            let none = || CallError::new(Status::NotFound, format!("{name}: no such dataset"));
            let manifest = &dataset.ok_or_else(none)?.manifest;
            let blocks = manifest.blocks().iter().enumerate();
            let entry = |(at, block): (usize, &nile_store::Block)| BlockEntry {
                bytes: block.bytes,
                checksum: block.checksum,
                nodes: manifest.holders(at).iter().map(|node| node.0).collect(),
            };
            Ok(blocks.skip(skip as usize).take(MOST_LISTED).map(entry).collect())
        })
    }

    async fn read(
        &self,
        name: &str,
        epoch: u64,
        attempt: u32,
        at: u64,
        length: u32,
    ) -> CallResult<Piece> {
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        let last = &self.shared.last;
        let bytes = last.piece(&keeper, &name, version, at, length as usize).await?;
        Ok(Piece { bytes: Blob(bytes) })
    }

    async fn read_anywhere(
        &self,
        name: &str,
        epoch: u64,
        attempt: u32,
        at: u64,
        length: u32,
    ) -> CallResult<Piece> {
        let missing = match self.read(name, epoch, attempt, at, length).await {
            Err(error) => error,
            found => return found,
        };
        let others = cluster::stores(&self.shared.stl).await?;
        let (core, disk) = (self.shared.stl.host().core(), self.shared.disk);
        let is_this = |it: &cluster::Store| (it.place.core, it.disk) == (core, disk);
        let others = others.into_iter().filter(|it| !it.is_here() || !is_this(it));
        cluster::first(others, missing, async |store| {
            store.client.read(name, epoch, attempt, at, length).await
        })
        .await
    }

    async fn load(
        &self,
        caller: &Caller,
        name: &str,
        epoch: u64,
        attempt: u32,
        block: u32,
    ) -> CallResult<nile_bosml::Buffer> {
        let to = self.shared.core_of(caller)?;
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        let (buffer, bytes) = blocks::read(&keeper, &name, version, block as usize).await?;
        Ok(self.shared.given.give(keeper.medium.pool(), to, buffer, bytes))
    }

    async fn send(
        &self,
        caller: &Caller,
        name: &str,
        epoch: u64,
        attempt: u32,
        block: u32,
        to: Destination,
    ) -> CallResult<u32> {
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        let patience = caller.deadline - keeper.stl.host().now();
        fetch::send(&keeper, (&name, version, block), to, patience).await
    }

    async fn fetch_from(
        &self,
        name: &str,
        epoch: u64,
        attempt: u32,
        node: u32,
    ) -> CallResult<Listed> {
        let keeper = self.shared.keeper().await?;
        let own = self.shared.node();
        let (key, version, from) = (named(name)?, Version::new(epoch, attempt), NodeId(node));
        if from == own || node == 0 {
            let message = format!("{name}: it is to come from another node than this one");
            return Err(CallError::new(Status::Invalid, message));
        }
        let number = self.shared.fetches.get();
        self.shared.fetches.set(number.wrapping_add(1) % fetch::NUMBERS);
        let number = self.shared.disk as u32 * fetch::NUMBERS + number;
        fetch::fetch(&keeper, (key.clone(), version), (from, own), number).await?;
        let entry = keeper.with(|store| store.get(&key, version).map(listed));
        entry.ok_or_else(|| CallError::new(Status::NotFound, format!("{name}: removed at once")))
    }

    async fn is_formatted(&self) -> CallResult<bool> {
        if matches!(&*self.shared.mounted.borrow(), Mounted::Not) {
            let medium = Medium::open(&self.shared.stl, self.shared.disk)?;
            let formatted = keeper::is_formatted(&medium, &self.shared.own()?).await;
            if matches!(formatted, Ok(false)) {
                return Ok(false);
            }
        }
        self.shared.keeper().await.map(|_| true)
    }

    async fn examine(&self) -> CallResult<Condition> {
        self.shared.examine().await
    }

    async fn verify(
        &self,
        name: &str,
        epoch: u64,
        attempt: u32,
        skip: u32,
    ) -> CallResult<Verified> {
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        blocks::verify(&keeper, (&name, version), skip).await
    }

    async fn format(&self) -> CallResult<()> {
        let shared = self.shared.clone();
        whole(&self.shared.stl, async move { shared.format().await }).await
    }

    async fn note(&self, key: &str, value: Bytes<'_>) -> CallResult<()> {
        let keeper = self.shared.keeper().await?;
        let key = named(key)?;
        self.shared.change(&keeper, &key, |store| store.note(key.clone(), &value.0)).await
    }

    async fn notes(&self, after: &str) -> CallResult<Vec<NoteEntry>> {
        let keeper = self.shared.keeper().await?;
        let after = if after.is_empty() { None } else { Some(named(after)?) };
        let note = |(key, value): (&Name, &[u8])| NoteEntry {
            key: key.to_string(),
            value: Blob(value.into()),
        };
        Ok(keeper.with(|store| page(store.notes_after(after.as_ref()).map(note))))
    }

    async fn store_identity(&self) -> CallResult<u64> {
        Ok(self.shared.keeper().await?.with(|store| store.extent().identity))
    }

    async fn space(&self) -> CallResult<SpaceEntry> {
        let keeper = self.shared.keeper().await?;
        let Space { total, free, longest, log, log_free } = keeper.with(|store| store.space());
        let block_bytes = keeper.medium.buffer_bytes() as u32;
        Ok(SpaceEntry { total, free, longest, log, log_free, block_bytes })
    }

    async fn write_from(&self, draft: u64, at: u64, bytes: u32, from: InFile) -> CallResult<u64> {
        let keeper = self.shared.keeper().await?;
        let stream = self.shared.streams.find(draft)?;
        stream.take_from(&keeper, (at, bytes.into()), from).await
    }

    async fn read_into(
        &self,
        name: &str,
        epoch: u64,
        attempt: u32,
        blocks: BlockRange,
        base: InFile,
    ) -> CallResult<Copied> {
        let keeper = self.shared.keeper().await?;
        let (name, version) = (named(name)?, Version::new(epoch, attempt));
        blocks::copy(&keeper, (&name, version), blocks, base).await
    }
}

impl Dataset {
    async fn put(&self, draft: u64, nodes: &[u32], state: State) -> CallResult<Listed> {
        let keeper = self.shared.keeper().await?;
        let (stream, manifest) = self.shared.finish(&keeper, draft, nodes).await?;
        let (name, version, id) = stream.what();
        self.shared.streams.forget(draft);
        let put = |store: &mut Store| match state {
            State::Prepared => store.prepare(id, manifest),
            State::Committed => store.commit_alone(id, manifest),
        };
        let done = keeper.change(put).await;
        if done.is_err() {
            keeper.with(|store| store.abort(id));
        }
        done.map_err(|error| refused(error, name.as_str()))?;
        if matches!(state, State::Prepared) {
            self.shared.see_decided(&keeper);
        }
        let entry = keeper.with(|store| store.get(name, version).map(listed));
        entry.ok_or_else(|| CallError::new(Status::NotFound, format!("{name}: removed at once")))
    }
}
