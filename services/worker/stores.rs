//! The dataset services of the cluster, as a worker's engine uses them.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Instant, NodeId, Status};
use nile_stl::node::{Buffer, Pool, from_call, in_call};
use nile_stl::{CallError, CallResult, Stl};

use crate::cluster::{self, Store};
use crate::dataset;

/// For how long what the registry has said is believed before it is asked again for what it did
/// not have.
const FRESH: Duration = Duration::from_millis(200);

/// How long a store that has no buffer is left alone.
const PAUSE: Duration = Duration::from_micros(300);

/// For how long a buffer is waited for while nothing else is wrong.
pub const BUFFER_PATIENCE: Duration = Duration::from_secs(20);

/// The stores that are known.
pub struct Stores {
    stl: Stl,
    known: RefCell<(Option<Instant>, Vec<Rc<Store>>)>,
    are_workers_elsewhere: Cell<bool>,
}

/// A version of a dataset, as a job's input names it: `NAME@EPOCH.ATTEMPT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// The epoch of its job.
    pub epoch: u64,
    /// The attempt in that.
    pub attempt: u32,
}

impl Named {
    /// The dataset of this name and version. `None` if it is no such text.
    pub fn parse(text: &str) -> Option<Named> {
        let (name, version) = text.rsplit_once('@')?;
        let (epoch, attempt) = version.split_once('.')?;
        let (epoch, attempt) = (epoch.parse().ok()?, attempt.parse().ok()?);
        (!name.is_empty()).then(|| Named { name: name.into(), epoch, attempt })
    }
}

impl Stores {
    /// The stores that the registry of `stl`'s node knows.
    pub fn new(stl: &Stl) -> Stores {
        Stores {
            stl: stl.clone(),
            known: RefCell::default(),
            are_workers_elsewhere: Cell::new(false),
        }
    }

    /// Every store, those of this node first. Waits for the registry if it was not asked lately.
    async fn all(&self, since: Duration) -> CallResult<Vec<Rc<Store>>> {
        let now = self.stl.host().now();
        if let (Some(asked), known) = &*self.known.borrow()
            && now.since(*asked) < since
        {
            return Ok(known.clone());
        }
        let workers = cluster::places(&self.stl, "worker").await?;
        self.are_workers_elsewhere.set(workers.iter().any(|(_, place)| !place.is_here()));
        let stores = cluster::stores(&self.stl).await?.into_iter();
        let mut all: Vec<Rc<Store>> = stores.map(Rc::new).collect();
        nile_order::sort_by_key(&mut all, |store| !store.is_here());
        *self.known.borrow_mut() = (Some(now), all.clone());
        Ok(all)
    }

    /// The stores of a node.
    pub async fn of(&self, node: NodeId) -> CallResult<Vec<Rc<Store>>> {
        let its = |all: Vec<Rc<Store>>| -> Vec<Rc<Store>> {
            all.into_iter().filter(|store| store.node == node).collect()
        };
        let known = its(self.all(Duration::MAX).await?);
        if known.is_empty() { Ok(its(self.all(FRESH).await?)) } else { Ok(known) }
    }

    /// The stores of this node.
    async fn here(&self) -> CallResult<Vec<Rc<Store>>> {
        self.of(cluster::node(&self.stl)).await
    }

    /// What the first store of these nodes says that has it; this node is asked first if it is
    /// one of them. See [`cluster::first`]. No more is asked when it `is_wanted` no longer.
    pub async fn first_of<T>(
        &self,
        nodes: &[NodeId],
        missing: CallError,
        is_wanted: &dyn Fn() -> bool,
        mut ask: impl AsyncFnMut(&Store) -> CallResult<T>,
    ) -> CallResult<T> {
        let own = cluster::node(&self.stl);
        let others = nodes.iter().filter(|node| **node != own);
        let nodes = nodes.iter().filter(|node| **node == own).chain(others);
        let nodes = nodes.take_while(|_| is_wanted());
        let found = cluster::first(nodes, missing.clone(), async |node| {
            let stores = self.of(*node).await?;
            let ask = async |store: Rc<Store>| self.heed(ask(&store).await);
            cluster::first(stores, missing.clone(), ask).await
        })
        .await;
        // The disk that has it may have gone to another core.
        found.inspect_err(|error| {
            if error.status == Status::NotFound {
                self.forget();
            }
        })
    }

    /// All stores, those of this node first.
    pub async fn everywhere(&self) -> CallResult<Vec<Rc<Store>>> {
        self.all(FRESH).await
    }

    /// Whether there were workers on other nodes when the registry was asked.
    pub fn are_workers_elsewhere(&self) -> bool {
        self.are_workers_elsewhere.get()
    }

    /// What the registry has said is not so any more.
    pub fn forget(&self) {
        self.known.borrow_mut().0 = None;
    }

    /// Has the registry asked again if a call says that a store is not where it was: a node that
    /// came back has it in another place.
    pub fn heed<T>(&self, result: CallResult<T>) -> CallResult<T> {
        result.inspect_err(|error| {
            if matches!(error.status, Status::Dead | Status::Gone) {
                self.forget();
            }
        })
    }

    /// The store of this node that the core with the number `core` writes to. `NotFound` if there
    /// is none.
    pub async fn own(&self, core: CoreId) -> CallResult<Rc<Store>> {
        let missing = || CallError::new(Status::NotFound, "this node has no disk for datasets");
        one_of(self.here().await?, core).await.ok_or_else(missing)
    }

    /// The store of another node that the core with the number `core` has write a copy. `NotFound`
    /// if there is none.
    pub async fn beside(&self, node: NodeId, core: CoreId) -> CallResult<Rc<Store>> {
        let missing = || CallError::new(Status::NotFound, format!("{node} has no disk"));
        one_of(self.of(node).await?, core).await.ok_or_else(missing)
    }

    /// The store of a core of this node that has this draft.
    async fn with(&self, core: CoreId, draft: u64) -> CallResult<Rc<Store>> {
        let own = cluster::node(&self.stl);
        let has = |at: &Rc<Store>| {
            at.node == own && at.place.core == core && at.disk == dataset::disk_of(draft)
        };
        // A disk may have come to that core since it was asked who has stores.
        for since in [Duration::MAX, Duration::ZERO] {
            if let Some(found) = self.all(since).await?.into_iter().find(has) {
                return Ok(found);
            }
        }
        Err(CallError::new(Status::NotFound, format!("{core} has no store any more")))
    }

    /// The nodes that have stores, in the order of their numbers.
    pub async fn nodes(&self) -> CallResult<Vec<NodeId>> {
        let all = self.all(FRESH).await?;
        let mut nodes: Vec<NodeId> = all.iter().map(|store| store.node).collect();
        nile_order::sort(&mut nodes);
        nodes.dedup();
        Ok(nodes)
    }

    /// A block of a dataset that a store of this node may have.
    pub async fn load_from(
        &self,
        at: &Store,
        pool: &Pool,
        named: &Named,
        block: u32,
        is_wanted: &dyn Fn() -> bool,
    ) -> CallResult<(Buffer, usize)> {
        let Named { name, epoch, attempt } = named;
        let load = async || at.client.load(name, *epoch, *attempt, block).await;
        claim(pool, self.patiently(is_wanted, load).await?)
    }

    /// A block of a draft of a store of this node.
    pub async fn load_draft(
        &self,
        pool: &Pool,
        (store, draft, block): (CoreId, u64, u32),
        is_wanted: impl Fn() -> bool,
    ) -> CallResult<(Buffer, usize)> {
        let at = self.with(store, draft).await?;
        let load = async || at.client.load_draft(draft, block).await;
        claim(pool, self.heed(self.patiently(&is_wanted, load).await)?)
    }

    /// Does again what fails because no buffer is free, as long as somebody wants it.
    async fn patiently<T>(
        &self,
        is_wanted: &dyn Fn() -> bool,
        mut call: impl AsyncFnMut() -> CallResult<T>,
    ) -> CallResult<T> {
        let host = self.stl.host();
        let until = host.now() + BUFFER_PATIENCE;
        loop {
            match call().await {
                Err(error) if error.status == Status::Busy && host.now() < until && is_wanted() => {
                    host.sleep_until(host.now() + PAUSE).await;
                }
                result => return result,
            }
        }
    }
}

/// The store of a node's that is a core's turn; if its disk has failed, another of them.
async fn one_of(mut stores: Vec<Rc<Store>>, core: CoreId) -> Option<Rc<Store>> {
    let turn = core.index() % stores.len().max(1);
    stores.rotate_left(turn);
    if stores.len() > 1 {
        for store in &stores {
            let formatted = store.client.is_formatted().await;
            if !formatted.is_err_and(|error| error.status == Status::Failed) {
                return Some(store.clone());
            }
        }
    }
    stores.into_iter().next()
}

/// A buffer that a call has brought, in its whole length, and how many of its bytes are meant.
pub fn claim(pool: &Pool, buffer: nile_bosml::Buffer) -> CallResult<(Buffer, usize)> {
    let refused = |error| CallError::new(Status::Invalid, format!("{error}"));
    let bytes = (buffer.length as usize).min(pool.buffer_size());
    let length = u32::try_from(pool.buffer_size()).unwrap_or(u32::MAX);
    let buffer = nile_bosml::Buffer { length, ..buffer };
    Ok((pool.claim(from_call(buffer)).map_err(refused)?, bytes))
}

/// Gives a buffer away in a call; if that does not get there, the buffer is free again.
pub async fn pass<T>(
    pool: &Pool,
    buffer: Buffer,
    bytes: usize,
    call: impl AsyncFnOnce(nile_bosml::Buffer) -> CallResult<T>,
) -> CallResult<T> {
    let handle = buffer.into_handle(bytes);
    let result = call(in_call(handle)).await;
    if result.is_err() {
        drop(pool.claim(handle));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_named_behind_the_last_at() {
        let named = |name: &str, epoch, attempt| Named { name: name.into(), epoch, attempt };
        assert_eq!(Named::parse("a@1.2"), Some(named("a", 1, 2)));
        assert_eq!(Named::parse("a@b/0-of-2@7.65536"), Some(named("a@b/0-of-2", 7, 65536)));
        for wrong in ["", "a", "a@1", "a@1.", "a@.1", "@1.2", "a@1.2.3", "a@x.1"] {
            assert_eq!(Named::parse(wrong), None, "{wrong}");
        }
    }
}
