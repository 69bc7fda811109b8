//! The dataset services of a cluster's nodes, and calls to them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nile_abi::{NodeId, Status};
use nile_interfaces::dataset::DatasetClient;
use nile_interfaces::dataset::records::{Draft, Listed};
use nile_interfaces::name::NameClient;
use nile_stl::{CallResult, all};

use super::service;
use crate::cluster::args::Query;
use crate::cluster::session::Session;
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::clients::Clients;
use crate::peer::known::Target;

/// Pieces of a dataset that are on their way at a time: so many that neither end waits for the
/// other, and so few that other calls find their way to the store between them.
pub const PIECES: usize = 4;

/// How long a store that is busy is left alone.
const PAUSE: Duration = Duration::from_millis(20);

/// The stores of a cluster, the one on the lowest node first.
pub struct Stores {
    pub session: Session,
    all: Vec<Target>,
    /// Who is asked what names mean.
    pub(super) names: Vec<Target>,
    /// Nodes whose stores could not be asked.
    absent: BTreeSet<NodeId>,
}

impl Stores {
    /// Takes a place in the cluster, and finds its stores. A wrong request if it has none.
    pub fn open(query: &Query) -> Result<Stores, Failure> {
        let mut session = Session::open(&query.which, query.timeout)?;
        let none = || Failure::request("no node of the cluster keeps datasets");
        let absent = session.away();
        let mut all = service::find::<DatasetClient>(&mut session)?.ok_or_else(none)?;
        let mut names = service::find::<NameClient>(&mut session)?.ok_or_else(none)?;
        // One that has just been killed is not waited for.
        for targets in [&mut all, &mut names] {
            targets.retain(|target| !absent.contains(&target.node));
        }
        Ok(Stores { session, all, names, absent })
    }

    /// Every store.
    pub fn all(&self) -> Vec<Target> {
        self.all.clone()
    }

    /// Whether the cluster was started without disks, and has none: then nobody keeps names.
    pub fn have_no_disks(&mut self) -> Result<bool, Failure> {
        if self.session.record.disk.is_some() {
            return Ok(false);
        }
        let all = self.all();
        let formatted: Vec<Result<bool, CallFailed>> =
            self.ask_all(&all, async |store, _| store.is_formatted().await)?;
        let errors = formatted.iter().filter_map(|it| it.as_ref().err());
        Ok(errors.filter(|error| error.status == Status::NotFound).count() == formatted.len())
    }

    /// Forgets a store that does not answer.
    pub fn leave_out(&mut self, target: Target) {
        self.all.retain(|it| *it != target);
        self.absent.insert(target.node);
    }

    /// The nodes that should have stores and could not be asked.
    pub fn absent(&self) -> &BTreeSet<NodeId> {
        &self.absent
    }

    /// Calls stores, all calls at once, and gives what they reply in the same order. One that is
    /// busy is asked again, for as long as calls may take.
    pub fn ask_each<A, T>(
        &mut self,
        asked: &[(Target, A)],
        ask: impl AsyncFn(&DatasetClient, &A) -> CallResult<T>,
    ) -> Result<Vec<Result<T, CallFailed>>, Failure> {
        let (patience, ask) = (self.session.patience, &ask);
        self.session.peer.work(patience, async |clients| {
            let one = async |(target, what): &(Target, A)| {
                let store = clients.at(*target);
                let end = unless_busy(&clients, patience, async || ask(&store, what).await).await;
                end.map_err(CallFailed::from)
            };
            all(asked.iter().map(one)).await
        })
    }

    /// What several stores reply, in the same order.
    pub fn ask_all<T>(
        &mut self,
        targets: &[Target],
        ask: impl AsyncFn(&DatasetClient, &Target) -> CallResult<T>,
    ) -> Result<Vec<Result<T, CallFailed>>, Failure> {
        let asked: Vec<(Target, Target)> =
            targets.iter().map(|target| (*target, *target)).collect();
        self.ask_each(&asked, ask)
    }

    /// What a store replies.
    pub fn ask<T>(
        &mut self,
        target: Target,
        ask: impl AsyncFn(&DatasetClient) -> CallResult<T>,
    ) -> Result<Result<T, CallFailed>, Failure> {
        let mut replies = self.ask_all(&[target], async |store, _| ask(store).await)?;
        Ok(replies.pop().expect("one call has one end"))
    }

    /// Has a store remove a version of a dataset.
    pub fn remove(
        &mut self,
        target: Target,
        listed: &Listed,
    ) -> Result<Result<(), CallFailed>, Failure> {
        let Listed { name, epoch, attempt, .. } = listed;
        self.ask(target, async |store| store.remove(name, *epoch, *attempt).await)
    }

    /// Does something to its end, whether Ctrl-C is pressed or not. What waits after it ends at
    /// once if it was.
    pub fn insisting<T>(&mut self, what: impl FnOnce(&mut Stores) -> T) -> T {
        let before = self.session.peer.heed(false);
        let done = what(self);
        self.session.peer.heed(before);
        done
    }

    /// Ends drafts, whether Ctrl-C was pressed or not. What does not hear of it ends them by
    /// itself after a while.
    pub fn abort(&mut self, drafts: &[(Target, Draft)]) {
        self.insisting(|stores| {
            for (target, draft) in drafts {
                let _ = stores.ask(*target, async |store| store.abort(draft.draft).await);
            }
        });
    }
}

/// Asks a store, and again for so long while it is busy.
pub(super) async fn unless_busy<T>(
    clients: &Clients,
    patience: Duration,
    ask: impl AsyncFn() -> CallResult<T>,
) -> CallResult<T> {
    let until = Instant::now() + patience;
    loop {
        match ask().await {
            Err(error) if error.status == Status::Busy && Instant::now() < until => {
                clients.rest(PAUSE).await;
            }
            end => return end,
        }
    }
}

/// Why a store did not do what it was asked for.
pub fn failed(target: &Target, failed: &CallFailed) -> Failure {
    let place = target.place();
    match failed.message.is_empty() {
        true => Failure::failed(format!("{place}: {}", failed.status)),
        false => Failure::failed(format!("{place}: {}", failed.message)),
    }
}

/// Nodes, as people write them.
pub fn nodes(nodes: impl IntoIterator<Item = NodeId>) -> Vec<String> {
    nodes.into_iter().map(|node| node.to_string()).collect()
}
