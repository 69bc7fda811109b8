//! The dataset services of a cluster's nodes, and calls to them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use nile_abi::{NodeId, Status};
use nile_interfaces::dataset::records::{Draft, Listed};
use nile_interfaces::dataset::{DatasetClient, NAMES};
use nile_interfaces::name::NameClient;
use nile_stl::{CallResult, Client, all};

use super::held::Held;
use super::service;
use crate::advice;
use crate::cluster::args::{Query, Which};
use crate::cluster::session::Session;
use crate::cluster::turns::{BRIEF, Turns};
use crate::failure::Failure;
use crate::peer::call::CallFailed;
use crate::peer::clients::Clients;
use crate::peer::known::{self, Target};

/// How long it takes at most until a request is on its way.
const SENT: Duration = Duration::from_millis(100);

/// How long it is waited for at most that nodes are known which run again.
const KNOWN: Duration = Duration::from_secs(1);

/// How long it is waited at a time for stores that are to come.
const MOMENT: Duration = Duration::from_millis(100);

/// How long a store that is busy is left alone.
const PAUSE: Duration = Duration::from_millis(20);

/// The instances of a service of the stores. Cores with disks may all be about to begin anew, where
/// there are some: they are waited for as long as the patience lasts.
fn find<C: Client>(session: &mut Session) -> Result<Vec<Target>, Failure> {
    let deadline = Instant::now() + session.patience;
    loop {
        if let Some(all) = service::find::<C>(session)? {
            return Ok(all);
        }
        if session.record.disk.is_none() || Instant::now() >= deadline {
            return Err(Failure::request("no node of the cluster keeps datasets"));
        }
        session.peer.until(MOMENT, |_| false)?;
    }
}

/// The stores of a cluster, the one on the lowest node first.
pub struct Stores {
    pub session: Session,
    which: Which,
    all: Vec<Target>,
    /// Those that could ever be asked: who was left out since stays out.
    seen: Vec<Target>,
    /// Who is asked what names mean.
    pub(super) names: Vec<Target>,
    /// Nodes whose stores could not be asked.
    absent: BTreeSet<NodeId>,
    /// Of those, the ones whose disk is to blame, and why.
    broken: BTreeMap<NodeId, String>,
    /// Names that pass and that this command uses.
    pub(super) held: Held,
}

impl Stores {
    /// Takes a place in the cluster, and finds its stores. A wrong request if it has none. Those
    /// that cannot be opened are left out, as those of nodes that are away. One that does not
    /// answer at once is doubted.
    pub fn open(query: &Query) -> Result<Stores, Failure> {
        let mut stores = Stores::of_all(query)?;
        let all: Vec<(Target, ())> = stores.all().into_iter().map(|it| (it, ())).collect();
        let ask = async |store: &DatasetClient, (): &()| store.is_formatted().await;
        let patience = stores.session.patience.min(BRIEF);
        let formatted = stores.ask_within(patience, &all, ask)?;
        for ((target, ()), end) in all.into_iter().zip(formatted) {
            match end {
                Err(error) if error.status == Status::Failed => {
                    stores.leave_out_for(target, &error);
                }
                _ => {}
            }
        }
        Ok(stores)
    }

    /// The same with those that cannot be opened.
    pub fn of_all(query: &Query) -> Result<Stores, Failure> {
        let mut session = Session::open(&query.which, query.timeout)?;
        let absent = session.away();
        find::<DatasetClient>(&mut session)?;
        let mut all = service::named(&session, &NAMES);
        let mut names = find::<NameClient>(&mut session)?;
        // One that has just been killed is not waited for.
        for targets in [&mut all, &mut names] {
            targets.retain(|target| !absent.contains(&target.node));
        }
        let which = query.which.clone();
        let (broken, held) = (BTreeMap::new(), Held::default());
        let seen = all.clone();
        Ok(Stores { session, which, all, seen, names, absent, broken, held })
    }

    /// Takes in stores of nodes that have come since the command began: those that were away then,
    /// or have begun anew.
    pub fn meet_again(&mut self) -> Result<(), Failure> {
        let running = self.session.running();
        let back: Vec<NodeId> = self.absent.intersection(&running).copied().collect();
        if !back.is_empty() {
            self.session.peer.until(KNOWN, |peer| {
                let known = known::instances(peer.known());
                back.iter().all(|node| known.iter().any(|(target, _)| target.node == *node))
            })?;
        }
        let away = self.session.away();
        for target in service::named(&self.session, &NAMES) {
            if !away.contains(&target.node) && !self.seen.contains(&target) {
                self.absent.remove(&target.node);
                self.seen.push(target);
                self.all.push(target);
            }
        }
        self.all.sort_by_key(|target| (target.node, target.core));
        Ok(())
    }

    /// Waits a moment for stores whose cores begin anew, and takes them in. Whether there may be
    /// any: a node runs that did not answer, and not because of its disk.
    pub fn wait_for_others(&mut self) -> Result<bool, Failure> {
        let running = self.session.running();
        let may_come = |node: &&NodeId| running.contains(node) && !self.broken.contains_key(node);
        if !self.absent.iter().any(|node| may_come(&node)) {
            return Ok(false);
        }
        self.session.peer.until(MOMENT, |_| false)?;
        self.meet_again()?;
        Ok(true)
    }

    /// Every store.
    pub fn all(&self) -> Vec<Target> {
        self.all.clone()
    }

    /// Whether the cluster was started without disks, and has none: then nobody keeps names.
    pub fn have_no_disks(&mut self) -> Result<bool, Failure> {
        if self.session.record.disk.is_some() || !self.broken.is_empty() {
            return Ok(false);
        }
        let all = self.all();
        let formatted: Vec<Result<bool, CallFailed>> =
            self.ask_all(&all, async |store, _| store.is_formatted().await)?;
        let errors = formatted.iter().filter_map(|it| it.as_ref().err());
        Ok(errors.filter(|error| error.status == Status::NotFound).count() == formatted.len())
    }

    /// The nodes but those that have said that they have no disk.
    pub fn nodes_with_disks(&mut self) -> Result<BTreeSet<NodeId>, Failure> {
        let all: Vec<(Target, ())> = self.all().into_iter().map(|it| (it, ())).collect();
        let patience = self.session.patience.min(BRIEF);
        let ask = async |store: &DatasetClient, (): &()| store.is_formatted().await;
        let ends = self.ask_within(patience, &all, ask)?;
        let lacks = |end: &Result<bool, CallFailed>| {
            end.as_ref().is_err_and(|error| error.status == Status::NotFound)
        };
        let all = all.iter().zip(&ends).filter(|(_, end)| !lacks(end));
        Ok(all.map(|((target, ()), _)| target.node).collect())
    }

    /// Those of these first that have not failed this command.
    pub fn doubted_last(&self, mut targets: Vec<Target>) -> Vec<Target> {
        targets.sort_by_key(|target| self.session.doubts.has(target.node));
        targets
    }

    /// Forgets a store that does not answer.
    pub fn leave_out(&mut self, target: Target) {
        self.all.retain(|it| *it != target);
        self.absent.insert(target.node);
    }

    /// Forgets a node that does not answer.
    pub fn leave_out_node(&mut self, node: NodeId) {
        self.all.retain(|it| it.node != node);
        self.absent.insert(node);
    }

    /// Forgets a store that cannot do what it is asked, and why.
    pub fn leave_out_for(&mut self, target: Target, error: &CallFailed) {
        self.leave_out(target);
        if error.status == Status::Failed {
            self.broken.insert(target.node, error.message.clone());
        }
    }

    /// How a command ends that was done with the stores that could be asked.
    pub fn unless_all_asked(&self) -> Result<(), Failure> {
        Failure::unless_all_asked(&self.absent).map_err(|failure| self.blaming(failure))
    }

    /// A failure that may be for want of a store whose disk is to blame, and says so.
    pub fn blaming(&self, failure: Failure) -> Failure {
        let Some((node, why)) = self.broken.first_key_value() else { return failure };
        let check = advice::named(&self.which, "disk", &["check", &node.to_string()]);
        let why = format!("\n{node}: {why}; see `{check}`");
        match failure {
            Failure::Failed(message) => Failure::Failed(message + &why),
            Failure::Partial(message) => Failure::Partial(message + &why),
            other => other,
        }
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
        self.ask_within(self.session.patience, asked, ask)
    }

    /// The same, within another time.
    pub fn ask_within<A, T>(
        &mut self,
        patience: Duration,
        asked: &[(Target, A)],
        ask: impl AsyncFn(&DatasetClient, &A) -> CallResult<T>,
    ) -> Result<Vec<Result<T, CallFailed>>, Failure> {
        self.renew_held();
        let (doubts, ask) = (self.session.doubts.clone(), &ask);
        self.session.peer.work(patience, async |clients| {
            let one = async |(target, what): &(Target, A)| {
                let store = clients.at(*target);
                let end = unless_busy(&clients, patience, async || ask(&store, what).await).await;
                let end = end.map_err(CallFailed::from);
                if end.as_ref().is_err_and(is_silent) {
                    doubts.add(target.node);
                }
                end
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

    /// What the first of these stores replies that does: one after the other is asked, if `ask` may
    /// be repeated.
    pub fn ask_any<T>(
        &mut self,
        targets: &[Target],
        ask: impl AsyncFn(&DatasetClient) -> CallResult<T>,
    ) -> Result<T, Failure> {
        let doubts = self.session.doubts.clone();
        let mut turns = Turns::of(targets.len());
        let mut failure = Failure::failed("there is no store to ask");
        while let Some((at, patience)) =
            turns.next(self.session.patience, |at| doubts.has(targets[at].node))
        {
            let asked = [(targets[at], ())];
            let mut ends = self.ask_within(patience, &asked, async |store, ()| ask(store).await)?;
            match ends.pop().expect("one call has one end") {
                Ok(reply) => return Ok(reply),
                Err(error) => {
                    turns.failed(at, error.status);
                    failure = failed(&targets[at], &error);
                }
            }
        }
        Err(failure)
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

    /// Ends drafts whose stores do not answer: they hear of it when they do again, if they do.
    pub fn abandon<'d>(&mut self, drafts: impl Iterator<Item = &'d (Target, Draft)>) {
        let all: Vec<(Target, u64)> = drafts.map(|(target, it)| (*target, it.draft)).collect();
        if all.is_empty() {
            return;
        }
        self.insisting(|stores| {
            let abort = async |store: &DatasetClient, draft: &u64| store.abort(*draft).await;
            drop(stores.ask_within(SENT, &all, abort));
        });
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

/// Whether a store cannot be had at all: its node is away, or its disk has failed.
pub fn is_unusable(error: &CallFailed) -> bool {
    matches!(error.status, Status::Dead | Status::Timeout | Status::Failed)
}

/// Asks a store, and again for so long while it is busy.
pub async fn unless_busy<T>(
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

/// Whether no answer came, or only that there is nobody any more who could give one.
pub fn is_silent(failed: &CallFailed) -> bool {
    matches!(failed.status, Status::Dead | Status::Timeout)
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
