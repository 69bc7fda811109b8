//! A node with two disks has a store on each, whichever cores drive them: both on one core, each on
//! its own, and both on one again. What is on a disk goes with it, and a store that has not got a
//! dataset has it read from where it is.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_bosml::Bytes;
use nile_interfaces::core_manager::{CoreManagerClient, CoreRole};

use nile_interfaces::dataset::MOST_BYTES;
use nile_interfaces::dataset::records::Decider;
use nile_kernel::Core;
use nile_platform::Machine;
use nile_services::cluster::{self, Store};
use nile_stl::{CallError, CallResult};

use crate::conduct::{Findings, conduct, conducts};
use crate::disk_calls;

/// Bytes of each dataset: several blocks.
const BYTES: usize = 300_000;

/// How long a core may take to leave, and stores to be known.
const PATIENCE_MS: u32 = 5000;
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(2);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    nile_node::deploy(core);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "stores", move |findings| async move {
            if let Err(error) = (Bench { core: &core, findings: &findings }).judge().await {
                findings.check(false, format_args!("{error}"));
            }
        });
    }
}

struct Bench<'a, M: Machine> {
    core: &'a Core<M>,
    findings: &'a Findings,
}

impl<M: Machine> Bench<'_, M> {
    async fn judge(&self) -> CallResult<()> {
        let (core, is_worker) = (self.core, RoleSet::EMPTY.with(Role::Worker));
        let roles = |it: CoreId| core.machine().board().record(it).roles();
        let spare = core.peers().filter(|it| roles(*it) == is_worker).last();
        let spare =
            spare.ok_or_else(|| CallError::new(Status::Invalid, "the node has no worker"))?;
        let stores = self.stores().await?;
        let one = stores[0].place.core;
        self.check(stores[1].place.core == one, "both disks are one core's at first");
        for (salt, store) in stores.iter().enumerate() {
            put(store, &name(salt), &content(salt)).await?;
        }
        self.are_whole(&stores).await?;

        let manager = CoreManagerClient::find(&core.stl()).await?;
        let becomes = async |role| {
            manager.assign(spare.0, Vec::from([CoreRole::from(role)]), PATIENCE_MS).await
        };
        becomes(Role::Disk).await?;
        let apart = self.stores().await?;
        let on: Vec<CoreId> = apart.iter().map(|it| it.place.core).collect();
        self.check(on == [one, spare], "each disk has a core of its own");
        self.are_whole(&apart).await?;
        becomes(Role::Worker).await?;
        let again = self.stores().await?;
        self.check(again.iter().all(|it| it.place.core == one), "both are one core's again");
        self.are_whole(&again).await?;
        for (salt, store) in again.iter().enumerate() {
            store.client.remove(&name(salt), 1, 0).await?;
        }
        Ok(())
    }

    fn check(&self, holds: bool, what: &str) {
        self.findings.check(holds, format_args!("not so: {what}"));
    }

    /// The two stores, in the order of their disks.
    async fn stores(&self) -> CallResult<Vec<Store>> {
        let limit = self.core.now() + PATIENCE;
        loop {
            let found = cluster::stores(&self.core.stl()).await?;
            if found.len() == 2 {
                return Ok(found);
            }
            if self.core.now() >= limit {
                let what = format!("{} stores are known of two disks", found.len());
                return Err(CallError::new(Status::NotFound, what));
            }
            self.core.sleep(LOOK).await;
        }
    }

    /// Each store has the dataset of its disk, and not the other's, which can be read all the same.
    async fn are_whole(&self, stores: &[Store]) -> CallResult<()> {
        for (salt, store) in stores.iter().enumerate() {
            let listed = store.client.list(0).await?;
            let names: Vec<String> = listed.into_iter().map(|it| it.name).collect();
            self.check(names == [name(salt)], &format!("disk {salt} has its own, not {names:?}"));
            for salt in 0..stores.len() {
                self.is_whole(store, salt).await?;
            }
        }
        Ok(())
    }

    async fn is_whole(&self, store: &Store, salt: usize) -> CallResult<()> {
        let mut read = Vec::new();
        while read.len() < BYTES {
            let (at, length) = (read.len() as u64, MOST_BYTES as u32);
            let piece = store.client.read_anywhere(&name(salt), 1, 0, at, length).await?;
            if piece.bytes.0.is_empty() {
                break;
            }
            read.extend_from_slice(&piece.bytes.0);
        }
        self.check(read == content(salt), "what was written is read");
        Ok(())
    }
}

fn name(salt: usize) -> String {
    format!("of-disk-{salt}")
}

fn content(salt: usize) -> Vec<u8> {
    (0..BYTES).map(|at| disk_calls::content(salt as u8, at)).collect()
}

async fn put(store: &Store, name: &str, content: &[u8]) -> CallResult<()> {
    let draft = store.client.create(name, 1, 0, Decider::Here, 0).await?.draft;
    for (at, piece) in content.chunks(MOST_BYTES).enumerate() {
        store.client.write(draft, (at * MOST_BYTES) as u64, Bytes::from(piece)).await?;
    }
    store.client.commit(draft).await.map(drop)
}
