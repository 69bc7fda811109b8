//! How the store is had: it is mounted when it is first asked for, and again after its disk has
//! failed; a disk can be looked at, and made empty.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Instant, Status};
use nile_ipioe::ClusterKey;
use nile_ipioe::keys::Keys;
use nile_stl::{At, CallError, CallResult, Place};
use nile_store::{Name, Owner, State, Version, checksum};

use super::Shared;
use super::keeper::{self, Keeper, Own, Unusable};
use super::medium::Medium;
use super::travel::refused;
use crate::cluster;
use nile_interfaces::dataset::records::{Condition, DiskFault};
use nile_interfaces::name::NameClient;

/// How far the store is.
pub enum Mounted {
    /// Nobody has asked for it.
    Not,
    /// It is being mounted.
    Soon,
    Is(Rc<Keeper>),
    /// It could not be at this time; who asks after a while has it tried again.
    Failed(Unusable, Instant),
}

/// How long a store that could not be mounted is left alone: its whole log may have been read.
const RETRY: Duration = Duration::from_secs(30);

/// How long one is left alone whose disk has failed meanwhile, as it may when what it lies on is
/// full for a moment. It can be read until it is mounted again.
const AGAIN: Duration = Duration::from_secs(1);

impl Shared {
    /// The store, which is mounted when it is first asked for.
    pub async fn keeper(self: &Rc<Self>) -> CallResult<Rc<Keeper>> {
        let now = self.stl.host().now();
        let is_due = match &*self.mounted.borrow() {
            Mounted::Not => true,
            Mounted::Failed(why, at) => why.error.status != Status::Failed || now >= *at + RETRY,
            Mounted::Is(keeper) => keeper.failed().is_some_and(|at| now >= at + AGAIN),
            Mounted::Soon => false,
        };
        if is_due {
            let before = self.mounted.replace(Mounted::Soon);
            let shared = self.clone();
            self.stl.host().spawn(Box::pin(async move {
                let mounted = match before {
                    Mounted::Is(before) => Mounted::Is(shared.reopen(before).await),
                    _ => shared.open().await,
                };
                shared.mounted.replace(mounted);
                shared.mounts.notify();
            }));
        }
        let mounted = || match &*self.mounted.borrow() {
            Mounted::Is(keeper) => Some(Ok(keeper.clone())),
            Mounted::Failed(why, _) => Some(Err(why.error.clone())),
            Mounted::Not | Mounted::Soon => None,
        };
        self.mounts.until(mounted).await
    }

    async fn open(&self) -> Mounted {
        match self.mount().await {
            Ok(keeper) => Mounted::Is(keeper),
            Err(why) => {
                let host = self.stl.host();
                if why.error.status == Status::Failed {
                    host.log(format_args!("no datasets can be had here: {}", why.error));
                }
                Mounted::Failed(why, host.now())
            }
        }
    }

    /// Mounts a store again whose disk has failed: what it was doing may have happened or not.
    /// Drafts are lost. If it fails, the store is as it was.
    async fn reopen(&self, before: Rc<Keeper>) -> Rc<Keeper> {
        self.streams.end(&before).await;
        before.retire().await;
        match self.mount().await {
            Ok(keeper) => {
                keeper.with(|store| before.with(|before| store.follow(before)));
                keeper
            }
            Err(_) => {
                before.put_off();
                before
            }
        }
    }

    /// What the store of this node is opened with.
    pub fn own(&self) -> CallResult<Own> {
        let checksum = self.stl.node()?.checksum().unwrap_or(checksum::portable);
        let (home, member) = (cluster::home(&self.stl), cluster::member(&self.stl));
        let is_plain = member.as_ref().is_some_and(|member| member.plain_disk);
        let key = member.and_then(|member| member.key);
        let key = key.map(|key| Keys::new(&ClusterKey(key)).disk(home.node));
        Ok(Own { home, checksum, seed: self.seed()?, key, is_plain })
    }

    /// A number that was never here before.
    fn seed(&self) -> CallResult<u64> {
        let mut seed = [0; 8];
        let now = self.stl.host().now();
        Ok(match self.stl.node()?.entropy(&mut seed) {
            true => u64::from_le_bytes(seed),
            false => now.as_nanos() ^ u64::from(self.node().0) << 48,
        })
    }

    async fn mount(&self) -> Result<Rc<Keeper>, Unusable> {
        let own = self.node();
        let is_of = |owner| matches!(owner, Owner::Node { node, .. } if node == own);
        let keeper =
            Keeper::mount(&self.stl, Medium::open(&self.stl, self.disk)?, &self.own()?).await?;
        // What this node had prepared in an earlier life and not committed, it never will be.
        let undecided: Vec<(Name, Version)> = keeper.with(|store| {
            let prepared = store.datasets().filter(|it| it.state == State::Prepared);
            let own = prepared.filter(|it| is_of(it.manifest.owner));
            own.map(|it| (it.manifest.name.clone(), it.manifest.version)).collect()
        });
        for (name, version) in undecided {
            let removed = keeper.change(|store| store.remove(&name, version)).await;
            removed.map_err(|error| refused(error, name.as_str()))?;
        }
        Ok(keeper)
    }

    /// How the disk and its store are, looked at anew.
    pub async fn examine(self: &Rc<Self>) -> CallResult<Condition> {
        let medium = Medium::open(&self.stl, self.disk)?;
        let (disk, bytes) = (medium.name().to_string(), medium.bytes());
        let formatted = keeper::is_formatted(&medium, &self.own()?).await;
        drop(medium);
        let condition = |fault, why: Option<CallError>| {
            let why = why.map_or_else(String::new, |error| error.message.into());
            Condition { disk, bytes, fault, why }
        };
        match formatted {
            Err(why) => return Ok(condition(why.fault, Some(why.error))),
            Ok(false) => return Ok(condition(DiskFault::Blank, None)),
            Ok(true) => {}
        }
        if matches!(&*self.mounted.borrow(), Mounted::Failed(..)) {
            self.mounted.replace(Mounted::Not);
        }
        let error = self.keeper().await.err();
        let fault = match &*self.mounted.borrow() {
            Mounted::Failed(why, _) => why.fault,
            _ => DiskFault::None,
        };
        Ok(condition(fault, error))
    }

    /// Gives the disk an empty store.
    pub async fn format(self: &Rc<Self>) -> CallResult<()> {
        let before = match self.mounted.replace(Mounted::Soon) {
            Mounted::Soon => {
                let what = "the store is being opened; try again";
                return Err(CallError::new(Status::Busy, what));
            }
            before => before,
        };
        let before = match before {
            Mounted::Is(keeper) => Some(keeper),
            _ => None,
        };
        if let Some(keeper) = &before {
            self.streams.end(keeper).await;
            keeper.retire().await;
        }
        let formatted = self.erase().await;
        self.mounted.replace(match formatted.clone() {
            Ok(()) => Mounted::Not,
            Err(why) => Mounted::Failed(why, self.stl.host().now()),
        });
        self.mounts.notify();
        formatted.map_err(|why| why.error)?;
        let keeper = self.keeper().await?;
        if let Some(before) = before {
            keeper.with(|store| before.with(|before| store.follow(before)));
        }
        // Who keeps names here looks at the store anew.
        let names = NameClient::find_at(&self.stl, At { node: Place::HERE, core: CoreId::BOOT });
        if let Ok(names) = names.await {
            let _ = names.standing().await;
        }
        Ok(())
    }

    async fn erase(&self) -> Result<(), Unusable> {
        keeper::format(Medium::open(&self.stl, self.disk)?, &self.own()?).await
    }
}
