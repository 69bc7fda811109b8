//! Where a graph is kept: each slot is a name of a dataset (docs/names.md), so most of the keepers
//! of names decide what it means, and what it means is on as many nodes as the graph has copies.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, NodeId, Status};
use nile_bosml::Bytes;
use nile_graph::{Damaged, Held, Put, Shelf, Slot};
use nile_interfaces::dataset::MOST_BYTES;
use nile_interfaces::dataset::records::Decider;
use nile_interfaces::graph::{GENERATION, KEPT};
use nile_interfaces::name::NameClient;
use nile_interfaces::name::records::{Facts, Meaning, NameAnswer, NameEntry, NameExpectation};
use nile_order::{SortedMap, SortedSet};
use nile_stl::{At, CallError, CallResult, Place, Stl, all};

use crate::cluster::{self, Store};

/// How long one call may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a change of a name is asked for of which nobody knows whether it was made, and how
/// long until it is asked for again.
const ATTEMPTS: u32 = 6;
const AGAIN: Duration = Duration::from_millis(500);

/// The slots of one graph.
pub struct Datasets {
    stl: Stl,
    graph: String,
    copies: Cell<u8>,
    /// What slots were when they were last looked at.
    seen: RefCell<SortedMap<Slot, NameEntry>>,
    /// Nodes whose stores have failed: others come first.
    doubted: RefCell<SortedSet<NodeId>>,
}

/// A draft on a node.
struct Draft {
    store: Store,
    number: u64,
}

impl Datasets {
    /// Those of a graph; what is put has so many copies, or those of the generation that was read.
    pub fn new(stl: &Stl, graph: &str, copies: u8) -> Datasets {
        Datasets {
            stl: stl.with_patience(PATIENCE),
            graph: graph.into(),
            copies: Cell::new(copies),
            seen: RefCell::default(),
            doubted: RefCell::default(),
        }
    }

    fn name(&self, slot: Slot) -> String {
        let graph = &self.graph;
        match slot {
            Slot::Generation => format!("{KEPT}{graph}{GENERATION}"),
            Slot::Record(number) => format!("{KEPT}{graph}/{number:03}"),
        }
    }

    /// The name service of this node, which asks the keepers.
    async fn names(&self) -> CallResult<NameClient> {
        NameClient::find_at(&self.stl, At { node: Place::HERE, core: CoreId::BOOT }).await
    }

    async fn entry(&self, slot: Slot) -> CallResult<NameEntry> {
        let answer = self.names().await?.look(&self.name(slot)).await?;
        match answer {
            NameAnswer::Done(entry) | NameAnswer::Refused(entry) => {
                self.seen.borrow_mut().insert(slot, entry.clone());
                Ok(entry)
            }
            NameAnswer::NoMajority(missing) | NameAnswer::Unknown(missing) => {
                Err(crate::name::lacking(&missing))
            }
        }
    }

    /// Changes what a slot means. An error says that it was not changed.
    async fn change(&self, slot: Slot, stamp: u64, to: Meaning) -> CallResult<Put> {
        let (name, change) = (self.name(slot), super::draw(&self.stl));
        let expected = NameExpectation::Stamp(stamp);
        let mut may_be_made = false;
        let mut error = None;
        for _ in 0..ATTEMPTS {
            let answer = match self.names().await {
                Ok(names) => names.change(&name, change, expected, to.clone()).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(NameAnswer::Done(entry)) => {
                    let stamp = entry.stamp;
                    let before = self.seen.borrow_mut().insert(slot, entry);
                    if let Some(before) = before {
                        self.forget(slot, before.meaning);
                    }
                    return Ok(Put::Done(stamp));
                }
                Ok(NameAnswer::Refused(entry)) => {
                    let is_ours = entry.meaning == to && entry.stamp == stamp + 1;
                    return Ok(if is_ours { Put::Done(entry.stamp) } else { Put::Changed });
                }
                Ok(NameAnswer::NoMajority(missing)) => error = Some(crate::name::lacking(&missing)),
                Ok(NameAnswer::Unknown(_)) => may_be_made = true,
                Err(other) => {
                    // Its answer may have been lost.
                    may_be_made |= other.status != Status::NotFound;
                    error = Some(other);
                }
            }
            self.stl.host().pause(AGAIN).await;
        }
        match error.filter(|_| !may_be_made) {
            Some(error) => Err(error),
            None => Ok(Put::Unknown),
        }
    }

    /// The stores that something may be put on, one of each node: this node's first, and those that
    /// have failed last.
    async fn stores(&self) -> CallResult<Vec<Store>> {
        let mut stores = cluster::stores(&self.stl).await?;
        stores.dedup_by_key(|it| it.node);
        let doubted = self.doubted.borrow();
        nile_order::sort_by_key(&mut stores, |it| {
            (doubted.contains(&it.node), !it.is_here(), it.node)
        });
        Ok(stores)
    }

    /// Begins drafts on as many nodes as there are to be copies.
    async fn begin(&self, name: &str, version: (u64, u32)) -> CallResult<Vec<Draft>> {
        let copies = usize::from(self.copies.get());
        let mut drafts: Vec<Draft> = Vec::new();
        let mut failed = None;
        let mut block_bytes = 0;
        for store in self.stores().await? {
            if drafts.len() == copies {
                break;
            }
            let (epoch, attempt) = version;
            let client = &store.client;
            let begun = client.create(name, epoch, attempt, Decider::Name, block_bytes).await;
            match begun {
                Ok(draft) => {
                    block_bytes = draft.block_bytes;
                    drafts.push(Draft { store, number: draft.draft });
                }
                Err(error) => {
                    self.doubted.borrow_mut().insert(store.node);
                    failed = Some(error);
                }
            }
        }
        if drafts.len() == copies {
            return Ok(drafts);
        }
        let there = drafts.len();
        self.abort(drafts);
        Err(failed.unwrap_or_else(|| {
            let message = format!("{there} nodes have stores that answer, and {copies} are needed");
            CallError::new(Status::NotFound, message)
        }))
    }

    /// Does the same with all drafts; who fails is asked last from then on.
    async fn each<T>(
        &self,
        drafts: &[Draft],
        ask: impl AsyncFn(&Draft) -> CallResult<T>,
    ) -> CallResult<Vec<T>> {
        let ask = &ask;
        let ends = all(drafts.iter().map(|draft| async move { (draft, ask(draft).await) })).await;
        let mut told = Vec::new();
        for (draft, end) in ends {
            match end {
                Ok(end) => told.push(end),
                Err(error) => {
                    self.doubted.borrow_mut().insert(draft.store.node);
                    return Err(error);
                }
            }
        }
        Ok(told)
    }

    /// Ends drafts, and waits for nothing.
    fn abort(&self, drafts: Vec<Draft>) {
        self.stl.host().spawn(Box::pin(async move {
            all(drafts.iter().map(|it| it.store.client.abort(it.number))).await;
        }));
    }

    /// Has the stores free what a slot has meant, and waits for nothing: those that do not hear it
    /// find it out by themselves.
    fn forget(&self, slot: Slot, meaning: Meaning) {
        let Meaning::Dataset { epoch, attempt, facts } = meaning else { return };
        let (stl, name) = (self.stl.clone(), self.name(slot));
        self.stl.host().spawn(Box::pin(async move {
            let Ok(stores) = cluster::stores(&stl).await else { return };
            let has_it = |it: &&Store| facts.nodes.contains(&it.node);
            let stores = stores.iter().filter(has_it);
            all(stores.map(|it| it.client.remove(&name, epoch, attempt))).await;
        }));
    }

    /// Writes, and makes durable, what a slot is to mean.
    async fn write(
        &self,
        drafts: &[Draft],
        bytes: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> CallResult<(u64, u32)> {
        let mut at = 0;
        while let Some(more) = bytes() {
            for part in more.chunks(MOST_BYTES) {
                let write = async |it: &Draft| {
                    it.store.client.write(it.number, at, Bytes::from(part)).await
                };
                self.each(drafts, write).await?;
                at += part.len() as u64;
            }
        }
        let nodes: Vec<u32> = drafts.iter().map(|it| it.store.node.0).collect();
        let prepare = async |it: &Draft| it.store.client.prepare(it.number, nodes.clone()).await;
        let listed = self.each(drafts, prepare).await?;
        Ok((at, listed.first().map_or(0, |it| it.blocks)))
    }
}

impl Shelf for Datasets {
    type Error = CallError;

    async fn look(&self, slot: Slot) -> CallResult<Held> {
        let entry = self.entry(slot).await?;
        let is_there = matches!(entry.meaning, Meaning::Dataset { .. });
        Ok(Held { stamp: entry.stamp, is_there })
    }

    async fn read(
        &self,
        slot: Slot,
        held: Held,
        sink: &mut dyn FnMut(&[u8]) -> Result<(), Damaged>,
    ) -> CallResult<()> {
        let seen = self.seen.borrow().get(&slot).filter(|it| it.stamp == held.stamp).cloned();
        let entry = match seen {
            Some(entry) => entry,
            None => self.entry(slot).await?,
        };
        let name = self.name(slot);
        let missing = || CallError::new(Status::NotFound, format!("{name}: no such dataset"));
        let Meaning::Dataset { epoch, attempt, facts } = entry.meaning else {
            return Err(missing());
        };
        if slot == Slot::Generation {
            self.copies.set(facts.copies);
        }
        let stores = cluster::stores(&self.stl).await?;
        let mut stores: Vec<Store> =
            stores.into_iter().filter(|it| facts.nodes.contains(&it.node)).collect();
        nile_order::sort_by_key(&mut stores, |it| !it.is_here());
        let mut at = 0;
        while at < facts.bytes {
            let read = async |store: &Store| {
                store.client.read(&name, epoch, attempt, at, MOST_BYTES as u32).await
            };
            let piece = cluster::first(&stores, missing(), read).await?.bytes.0;
            if piece.is_empty() {
                return Err(CallError::new(Status::Failed, format!("{name} ends too early")));
            }
            at += piece.len() as u64;
            let damaged = |it| CallError::new(Status::Failed, format!("{name}: {it}"));
            sink(&piece).map_err(damaged)?;
        }
        Ok(())
    }

    async fn put(
        &self,
        slot: Slot,
        stamp: u64,
        bytes: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> CallResult<Put> {
        let name = self.name(slot);
        let version = (stamp + 1, super::draw(&self.stl) as u32);
        let drafts = match self.begin(&name, version).await {
            Ok(drafts) => drafts,
            Err(error) => return self.not_put(slot, stamp, error).await,
        };
        let (length, blocks) = match self.write(&drafts, bytes).await {
            Ok(written) => written,
            Err(error) => {
                self.give_up(slot, version, drafts);
                return self.not_put(slot, stamp, error).await;
            }
        };
        let nodes = drafts.iter().map(|it| it.store.node).collect();
        let facts = Facts { bytes: length, blocks, copies: self.copies.get(), nodes };
        let (epoch, attempt) = version;
        let put = self.change(slot, stamp, Meaning::Dataset { epoch, attempt, facts }).await;
        match put {
            Ok(Put::Done(_)) => {
                // Who does not hear it finds it out by itself.
                self.stl.host().spawn(Box::pin(async move {
                    let stores = drafts.iter().map(|it| &it.store.client);
                    all(stores.map(|it| it.confirm(&name, epoch, attempt))).await;
                }));
            }
            Ok(Put::Changed) | Err(_) => self.give_up(slot, version, drafts),
            Ok(Put::Unknown) => {}
        }
        put
    }

    async fn clear(&self, slot: Slot, stamp: u64) -> CallResult<Put> {
        self.change(slot, stamp, Meaning::Absent).await
    }
}

impl Datasets {
    /// Why something was not put: a store that has what another has put refuses it.
    async fn not_put(&self, slot: Slot, stamp: u64, error: CallError) -> CallResult<Put> {
        match self.entry(slot).await {
            Ok(entry) if entry.stamp != stamp => Ok(Put::Changed),
            _ => Err(error),
        }
    }

    /// Leaves nothing of a version that the slot will never mean, and waits for nothing.
    fn give_up(&self, slot: Slot, (epoch, attempt): (u64, u32), drafts: Vec<Draft>) {
        let name = self.name(slot);
        self.stl.host().spawn(Box::pin(async move {
            all(drafts.iter().map(|it| {
                let name = &name;
                async move {
                    let _ = it.store.client.abort(it.number).await;
                    // It may have been prepared already.
                    let _ = it.store.client.remove(name, epoch, attempt).await;
                }
            }))
            .await;
        }));
    }
}
