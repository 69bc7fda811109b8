//! A job whose record this node keeps: its keeper, its master while that is here, and what is to
//! be told of it.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{Instant, NodeId};
use nile_job::{End, JobId, Keeper, Master, Phase, Progress, Record, Spans, WorkerId};
use nile_order::SortedSet;
use nile_stl::{Engaged, LocalFuture};
use nile_sync::{Notify, first};

use super::cluster::Cluster;
use nile_interfaces::job::records::JobPhase;

/// A job of this node.
pub struct Hosted {
    /// Which.
    pub id: JobId,
    /// The keeper of its record.
    pub keeper: RefCell<Keeper>,
    /// Its master, if that is here.
    pub master: RefCell<Option<Master>>,
    /// What keeps this core from leaving meanwhile.
    engaged: RefCell<Option<Engaged>>,
    /// What is to be told.
    pub account: RefCell<Account>,
    /// Workers that know the job and have taken samples.
    pub samplers: RefCell<Vec<WorkerId>>,
    /// What is durable of the record.
    pub stored: RefCell<Option<Record>>,
    /// Whether somebody does what the keeper wants.
    pub is_driven: Cell<bool>,
    /// Whether nobody is to do anything any more.
    pub is_dropped: Cell<bool>,
    /// Whether it has ended, and this node is having its output shown.
    pub is_publishing: Cell<bool>,
    /// Whether this node has seen to that.
    pub is_published: Cell<bool>,
    /// Whether the name of its output meant something else by then.
    pub has_lost_name: Cell<bool>,
    /// The phase that it is in while it waits for its turn.
    pub turn: Cell<Option<JobPhase>>,
    /// What the master was told of the cluster.
    told: RefCell<Told>,
    /// Who waits for news.
    watchers: Notify,
}

#[derive(Default)]
struct Told {
    workers: SortedSet<WorkerId>,
    dead: SortedSet<NodeId>,
}

/// The times of a job, and what its master said last.
pub struct Account {
    /// When it was submitted, or when its present master began.
    pub since: Instant,
    /// How long after that the first task was given to a worker.
    pub first_task: Option<Duration>,
    /// The phases, each with its beginning and the bytes that were read before it.
    pub phases: Vec<(Phase, Instant, u64)>,
    /// When its turn came, if it had to wait for that.
    pub begun: Option<Instant>,
    /// When it ended.
    pub ended: Option<Instant>,
    /// What the master said when it was dropped.
    pub last: Option<Progress>,
    /// The attempts of the master that was dropped.
    pub spans: Spans,
    /// What the job waits for; empty if for nothing.
    pub trouble: String,
}

impl Hosted {
    /// A job with its keeper; what the record has is durable if `is_stored`.
    pub fn new(now: Instant, keeper: Keeper) -> Hosted {
        let stored = keeper.record().clone();
        Hosted {
            id: stored.job.id,
            keeper: RefCell::new(keeper),
            master: RefCell::default(),
            engaged: RefCell::default(),
            account: RefCell::new(Account::new(now)),
            samplers: RefCell::default(),
            stored: RefCell::new(Some(stored)),
            is_driven: Cell::new(false),
            is_dropped: Cell::new(false),
            is_publishing: Cell::new(false),
            is_published: Cell::new(false),
            has_lost_name: Cell::new(false),
            turn: Cell::new(None),
            told: RefCell::default(),
            watchers: Notify::default(),
        }
    }

    /// Waits until it has ended or come to more phases than `seen`, but not longer than `limit`
    /// does.
    pub async fn news(&self, seen: usize, limit: LocalFuture<'_, ()>) {
        let news = self.watchers.until(|| {
            let is_over = !self.is_open() && !self.is_ending();
            (is_over || self.account.borrow().phases_seen() > seen).then_some(())
        });
        first(news, limit).await;
    }

    /// There may be news.
    pub fn tell(&self) {
        self.watchers.notify();
    }

    /// Whether nobody knows more of it than this node.
    pub fn is_told_here(&self) -> bool {
        self.master.borrow().is_some() || self.turn.get().is_some() || !self.is_open()
    }

    /// Something about the record.
    pub fn with<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        look(self.keeper.borrow().record())
    }

    /// How it ended, if that is known.
    pub fn end(&self) -> Option<End> {
        self.with(|record| record.end().cloned())
    }

    /// Whether its end is not known.
    pub fn is_open(&self) -> bool {
        self.with(|record| record.end().is_none())
    }

    /// Whether this node has run its master. After a restart that is forgotten.
    pub fn has_run(&self) -> bool {
        !self.account.borrow().phases.is_empty()
    }

    /// Whether it has ended, but what it has made cannot be seen yet.
    pub fn is_ending(&self) -> bool {
        let is_late = self.master.borrow().is_some() && self.account.borrow().ended.is_none();
        !self.is_open() && (is_late || self.is_publishing.get())
    }

    /// When its machines want to be called.
    pub fn next_due(&self) -> Option<Instant> {
        let master = self.master.borrow().as_ref().and_then(Master::next_due);
        [master, self.keeper.borrow().next_due()].into_iter().flatten().min()
    }

    /// Calls the machines whose time has come.
    pub fn act(&self, now: Instant) {
        if let Some(master) = &mut *self.master.borrow_mut()
            && master.next_due().is_some_and(|due| due <= now)
        {
            master.act(now);
        }
        self.keeper.borrow_mut().act(now);
    }

    /// Puts a master in its place.
    pub fn set_master(&self, master: Master, engaged: Engaged) {
        self.engaged.replace(Some(engaged));
        *self.told.borrow_mut() = Told::default();
        self.samplers.borrow_mut().clear();
        *self.master.borrow_mut() = Some(master);
    }

    /// Drops the master, and gives what has kept this core from leaving.
    pub fn end_master(&self) -> Option<Engaged> {
        if let Some(master) = self.master.take() {
            let account = &mut *self.account.borrow_mut();
            account.last = Some(master.progress());
            account.spans = master.spans().clone();
        }
        self.engaged.take()
    }

    /// Tells the machines what has changed in the cluster since the last time.
    pub fn feed(&self, now: Instant, cluster: &Cluster) {
        let told = &mut *self.told.borrow_mut();
        let (nodes, keepers, on) = self.with(|record| {
            let holders = record.splits.iter().flat_map(|split| split.nodes.iter());
            let nodes: SortedSet<NodeId> = holders.copied().collect();
            (nodes, record.job.keepers.clone(), record.job.on.clone())
        });
        for node in keepers.into_iter().filter(|node| cluster.is_dead(*node)) {
            self.keeper.borrow_mut().is_dead(now, node);
        }
        let Some(master) = &mut *self.master.borrow_mut() else { return };
        let workers: SortedSet<WorkerId> = cluster.workers_on(&on).into_iter().collect();
        let all = nodes.into_iter().chain(workers.iter().map(|worker| worker.node));
        let dead: SortedSet<NodeId> = all.filter(|node| cluster.is_dead(*node)).collect();
        for worker in told.workers.difference(&workers) {
            master.leave(now, *worker);
        }
        for node in told.dead.difference(&dead) {
            master.node(now, *node, true);
        }
        for node in dead.difference(&told.dead) {
            master.node(now, *node, false);
        }
        // Whoever is known already has joined: to say so again costs little, and brings back who
        // was held for dead.
        for worker in workers.iter().filter(|worker| !dead.contains(&worker.node)) {
            master.join(now, *worker);
        }
        *told = Told { workers, dead };
    }
}

impl Account {
    fn new(now: Instant) -> Account {
        Account {
            since: now,
            first_task: None,
            phases: Vec::new(),
            begun: None,
            ended: None,
            last: None,
            spans: Spans::default(),
            trouble: String::new(),
        }
    }

    /// Notes that the job waits for its turn, and why.
    pub fn wait_for(&mut self, now: Instant, why: String) {
        self.begun = Some(now);
        self.trouble = why;
    }

    /// Notes that it begins.
    pub fn begin(&mut self, now: Instant) {
        if self.begun.is_some() {
            (self.begun, self.trouble) = (Some(now), String::new());
        }
    }

    /// How many phases are told of.
    fn phases_seen(&self) -> usize {
        let phases = self.phases.iter().filter(|(phase, ..)| *phase != Phase::Over);
        phases.count() + usize::from(self.begun.is_some())
    }

    /// Notes how far the master is.
    pub fn note(&mut self, now: Instant, master: &Master) {
        let counters = master.counters();
        if self.first_task.is_none() && counters.attempts > 0 {
            self.first_task = Some(now.since(self.since));
        }
        let phase = master.phase();
        if self.phases.last().is_none_or(|(last, ..)| *last != phase) {
            self.phases.push((phase, now, counters.read));
        }
    }
}
