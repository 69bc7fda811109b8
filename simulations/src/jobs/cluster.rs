//! The nodes of a run, in the order of time.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use nile_abi::{Instant, NodeId};
use nile_job::{
    AttemptId, Bounds, Epoch, Keeper, Master, Peer, Phase, Record, Settings, ToKeeper, ToMaster,
    ToWorker, Worker, WorkerId,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Conduct;
use super::checks::Ledger;
use super::letters::{Letter, USER};
use super::node::Node;
use super::plot::{self, Blow, Code, When};
use super::work::Work;
use crate::draw::{Weather, below, span};
use crate::report::Figure;
use crate::trace::Trace;

/// How long the cluster fails.
const BUSY: Duration = Duration::from_secs(8);

/// When the job must have ended.
const LIMIT: Duration = Duration::from_secs(120);

/// How long what is left behind may stay after that.
const TIDY: Duration = Duration::from_secs(60);

/// Events of one moment after which somebody wants to be called again and again.
const MOST_AT_ONCE: u32 = 10_000;

/// How often the user asks for what is wanted.
const KEEP: Duration = Duration::from_millis(100);

/// One run.
pub struct Cluster {
    pub random: ChaCha8Rng,
    pub now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    /// How many events there were at this moment.
    at_once: u32,
    pub nodes: Vec<Node>,
    pub work: Work,
    pub settings: Settings,
    pub weather: Weather,
    pub code: Code,
    /// Whether other jobs have the cores from time to time.
    pub shares: bool,
    plot: Vec<(When, Blow)>,
    /// Which side of a partition each host is on.
    pub sides: Option<Vec<bool>>,
    /// What each node's master was told of others.
    views: BTreeMap<NodeId, BTreeMap<NodeId, Vec<WorkerId>>>,
    phases: Vec<Phase>,
    pub ledger: Ledger,
    pub trace: Trace,
    pub conduct: Conduct,
}

/// What happens at a moment.
pub enum Event {
    Letter(NodeId, Letter),
    /// A core's attempt ends, or stops if it was told to.
    Step(WorkerId, AttemptId, bool),
    /// The machines of a node want to be called.
    Wake(NodeId),
    /// A host learns how a node is.
    News(NodeId, NodeId),
    /// A master's code has cut bounds.
    Cut(NodeId, Epoch, Bounds),
    /// A reduce attempt goes on to this slice.
    Takes(WorkerId, AttemptId, u32),
    /// Another job leaves a core to whatever waits for it.
    Turn(WorkerId),
    /// Another job wants the core of an attempt that waits for something.
    GiveWay(WorkerId, AttemptId),
    Blow(Blow),
    /// A node comes back.
    Rise(NodeId),
    /// The partition ends.
    Heal,
    /// The user asks for what is wanted.
    Keep,
}

impl Cluster {
    pub fn new(seed: u64, nodes: u32, conduct: Conduct) -> Cluster {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut all: Vec<Node> =
            (1..=nodes).map(|id| Node::new(NodeId(id), 1 + below(&mut random, 3) as u32)).collect();
        let workers = all.iter().map(|node| node.cores.len() as u32).sum();
        let work = Work::draw(&mut random, nodes, workers);
        for (index, split) in work.splits.iter().enumerate() {
            for node in &split.nodes {
                all[node.0 as usize - 1].disk.blocks.insert(index as u32);
            }
        }
        for core in all.iter_mut().flat_map(|node| &mut node.cores) {
            // The slowest say nothing of their attempts for longer than a worker may be silent.
            core.slowness =
                [200, 20, 20, 20].get(below(&mut random, 32) as usize).map_or(1, |it| *it);
        }
        match below(&mut random, 16) {
            0 => all.iter_mut().for_each(|node| node.disk.is_full = true),
            1 | 2 => all[0].disk.is_full = true,
            _ => {}
        }
        let (weather, code) = (Weather::draw(&mut random), Code::draw(&mut random, 12));
        let plot = plot::draw(&mut random, nodes);
        let shares = below(&mut random, 2) == 0;
        let mut cluster = Cluster {
            random,
            now: Instant::START,
            events: BTreeMap::new(),
            serial: 0,
            at_once: 0,
            nodes: all,
            work,
            settings: Settings::default(),
            weather,
            code,
            shares,
            plot,
            sides: None,
            views: BTreeMap::new(),
            phases: Vec::new(),
            ledger: Ledger::default(),
            trace: Trace::default(),
            conduct,
        };
        cluster.plan(Instant::START, Event::Keep);
        cluster.found();
        for (when, blow) in cluster.plot.clone() {
            if let When::At(at) = when {
                cluster.plan(at, Event::Blow(blow));
            }
        }
        cluster
    }

    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    pub fn figures(&self) -> Vec<Figure> {
        self.ledger.figures()
    }

    /// Has something happen at a moment.
    pub fn plan(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    pub fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize - 1]
    }

    /// Runs to the end, or to the first promise that is broken.
    pub fn run(&mut self) -> Result<(), String> {
        self.until(Instant::START + BUSY)?;
        self.weather = Weather::GOOD;
        self.heal();
        while self.ledger.end.is_none() && self.now < Instant::START + LIMIT {
            self.until(self.now + KEEP * 10)?;
        }
        let Some(end) = self.ledger.end.clone() else {
            return Err("the job never ended".into());
        };
        let last = self.now + TIDY;
        while self.check_tidy(&end).is_err() && self.now < last {
            self.until(self.now + KEEP * 10)?;
        }
        self.check_tidy(&end)
    }

    fn until(&mut self, end: Instant) -> Result<(), String> {
        while let Some(entry) = self.events.first_entry().filter(|it| it.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.at_once = if at == self.now { self.at_once + 1 } else { 0 };
            if self.at_once > MOST_AT_ONCE {
                return Err(format!("time stands still at {at}"));
            }
            self.now = at;
            self.happen(event)?;
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Letter(to, letter) => {
                self.trace.note(self.now, u64::from(to.0), letter.kind(), 0);
                self.receive(to, letter)?;
            }
            Event::Step(worker, attempt, stops) => {
                let detail = u64::from(attempt.task.index) << 8 | attempt.task.kind as u64;
                self.trace.note(self.now, u64::from(worker.node.0), 32, detail);
                self.step(worker, attempt, stops)?;
            }
            Event::Wake(id) => self.wake(id)?,
            Event::News(to, about) => self.news(to, about)?,
            Event::Cut(id, epoch, bounds) => {
                let now = self.now;
                let master = self.node(id).master.as_mut();
                if let Some(master) = master.filter(|it| it.epoch() == epoch) {
                    master.cut(now, bounds);
                    self.pump(id)?;
                }
            }
            Event::Takes(id, attempt, slice) => {
                let now = self.now;
                self.worker(&id).into_iter().for_each(|it| it.takes(now, attempt, slice));
                self.pump(id.node)?;
            }
            Event::Turn(id) => {
                let now = self.now;
                if let Some(core) = self.node(id.node).core_of(&id) {
                    self.node(id.node).cores[core].is_waiting = false;
                    self.worker(&id).into_iter().for_each(|it| it.go(now));
                    self.pump(id.node)?;
                }
            }
            Event::GiveWay(id, attempt) => {
                let now = self.now;
                let worker = self.worker(&id).filter(|it| it.running() == Some(attempt));
                worker.into_iter().for_each(|it| it.give_way(now));
                self.pump(id.node)?;
            }
            Event::Blow(blow) if self.now < Instant::START + BUSY => self.strike(blow)?,
            Event::Blow(_) => {}
            Event::Rise(id) => {
                let (now, settings) = (self.now, self.settings);
                let node = self.node(id);
                (node.lives, node.away) = (true, Some(now));
                if let Some(record) = node.disk.record.clone() {
                    node.keeper = Keeper::restore(now, id, record, settings);
                }
                self.tell_of(id);
                self.pump(id)?;
            }
            Event::Heal => self.heal(),
            Event::Keep => self.keep(),
        }
        Ok(())
    }

    fn receive(&mut self, to: NodeId, letter: Letter) -> Result<(), String> {
        let now = self.now;
        if to == USER || !self.node(to).lives {
            return Ok(());
        }
        match letter {
            Letter::ToWorker(id, message) => {
                let message = again(&message.encode(), ToWorker::decode, &message)?;
                let settings = self.settings;
                let repeats = self.conduct.repeats_machines;
                if let Some(core) = self.node(to).core_of(&id) {
                    let core = &mut self.node(to).cores[core];
                    core.machines += u32::from(core.worker.is_none());
                    let machine = if repeats { 1 } else { core.machines };
                    let job = message.job;
                    let new = || Worker::new(now, id, machine, job, settings);
                    core.worker.get_or_insert_with(new).receive(now, message);
                }
            }
            Letter::ToMaster(message) => {
                let mut message = again(&message.encode(), ToMaster::decode, &message)?;
                if self.conduct.mixes_plans {
                    super::checks::mix_plans(&mut message);
                }
                if let Some(master) = &mut self.node(to).master {
                    master.receive(now, message);
                }
            }
            Letter::Peer(id, message) => {
                let message = again(&message.encode(), Peer::decode, &message)?;
                if let Some(worker) = self.worker(&id) {
                    worker.receive_peer(now, message);
                }
            }
            Letter::Piece { to: id, piece, by, records } => {
                self.piece_arrives(id, piece, by, records);
            }
            Letter::Keep(message) => {
                let message = again(&message.encode(), ToKeeper::decode, &message)?;
                let keeper = self.node(to).keeper.as_mut();
                keeper.into_iter().for_each(|it| it.receive(now, message.clone()));
            }
            Letter::Cancel => {
                self.node(to).master.iter_mut().for_each(|it| it.cancel(now));
            }
            Letter::Ask(id) => {
                if let Some(keeper) = &self.node(to).keeper {
                    let standing = keeper.record().standing();
                    self.post(to, id.node, Letter::Standing(id, standing));
                }
            }
            Letter::Standing(id, standing) => match self.worker(&id) {
                Some(worker) => worker.resolve(now, standing),
                None => self.settle_parts(to, id, standing),
            },
        }
        self.pump(to)
    }

    /// The machine of a worker, if that incarnation lives and has one.
    pub fn worker(&mut self, id: &WorkerId) -> Option<&mut Worker> {
        let node = self.node(id.node);
        let core = node.core_of(id)?;
        node.cores[core].worker.as_mut()
    }

    fn wake(&mut self, id: NodeId) -> Result<(), String> {
        let now = self.now;
        let node = self.node(id);
        if !node.lives || node.wake != Some(now) {
            return Ok(());
        }
        node.wake = None;
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if let Some(master) = node.master.as_mut().filter(|it| is_due(it.next_due())) {
            master.act(now);
        }
        for worker in node.cores.iter_mut().filter_map(|core| core.worker.as_mut()) {
            if is_due(worker.next_due()) {
                worker.act(now);
            }
        }
        if let Some(keeper) = node.keeper.as_mut().filter(|it| is_due(it.next_due())) {
            keeper.act(now);
        }
        let orphans = node.orphans();
        if node.doubts <= now && !orphans.is_empty() {
            node.doubts = now + Duration::from_millis(500);
            orphans.into_iter().for_each(|owner| self.ask_keepers(owner));
        }
        self.pump(id)
    }

    /// What a node learns of another, if it has a keeper or a master that wants to know.
    fn news(&mut self, to: NodeId, about: NodeId) -> Result<(), String> {
        let now = self.now;
        let node = &self.nodes[about.0 as usize - 1];
        let is_seen = node.lives && self.reaches(to, about);
        let workers: Vec<WorkerId> = match is_seen {
            true => (0..node.cores.len()).map(|core| node.worker_id(core)).collect(),
            false => Vec::new(),
        };
        if !is_seen && let Some(keeper) = &mut self.nodes[to.0 as usize - 1].keeper {
            keeper.is_dead(now, about);
        }
        if self.node(to).master.is_none() {
            return self.pump(to);
        }
        let view = self.views.entry(to).or_default();
        let before = view.insert(about, workers.clone()).unwrap_or_default();
        let Some(master) = &mut self.nodes[to.0 as usize - 1].master else { return Ok(()) };
        for id in before.iter().filter(|id| !workers.contains(id)) {
            master.leave(now, *id);
        }
        master.node(now, about, is_seen);
        for id in workers {
            master.join(now, id);
        }
        self.pump(to)
    }

    /// Nodes that want to know of others.
    pub fn watchers(&self) -> Vec<NodeId> {
        let is_watcher = |node: &&Node| node.master.is_some() || node.keeper.is_some();
        self.nodes.iter().filter(is_watcher).map(|node| node.id).collect()
    }

    /// They will learn how a node is.
    pub fn tell_of(&mut self, about: NodeId) {
        for to in self.watchers() {
            let delay = Duration::from_millis(50);
            let delay = delay + span(&mut self.random, Duration::from_millis(600));
            self.plan(self.now + delay, Event::News(to, about));
        }
    }

    /// The job is submitted: its keepers have it.
    fn found(&mut self) {
        let (now, settings) = (self.now, self.settings);
        let record = Record::new(self.work.job.clone(), self.work.splits.clone());
        for id in self.work.job.keepers.clone() {
            let node = self.node(id);
            node.disk.record = Some(record.clone());
            node.keeper = Keeper::found(now, id, record.clone(), settings);
            self.set_wake(id);
        }
    }

    /// A node runs the master.
    pub fn appoint(&mut self, id: NodeId, epoch: Epoch) -> Result<(), String> {
        let (now, settings) = (self.now, self.settings);
        self.ledger.master_begins(id, epoch)?;
        let (job, splits) = (self.work.job.clone(), self.work.splits.clone());
        let master = Master::new(now, id, epoch, job, splits, settings);
        self.node(id).master = Some(master);
        self.views.remove(&id);
        for about in 1..=self.nodes.len() as u32 {
            self.plan(now, Event::News(id, NodeId(about)));
        }
        Ok(())
    }

    /// The user says again and again that the job is to be cancelled.
    fn keep(&mut self) {
        if self.ledger.end.is_some() {
            return;
        }
        if self.ledger.is_cancelled {
            for keeper in self.work.job.keepers.clone() {
                self.post(USER, keeper, Letter::Cancel);
            }
        }
        self.plan(self.now + KEEP, Event::Keep);
    }

    /// Notes which phase a master is in: things may befall the cluster in it.
    pub fn note_phase(&mut self, phase: Phase) {
        if self.phases.contains(&phase) {
            return;
        }
        self.phases.push(phase);
        for (when, blow) in self.plot.clone() {
            if let When::In(of, later) = when
                && of == phase
            {
                self.plan(self.now + later, Event::Blow(blow));
            }
        }
    }

    /// Sets the moment at which a node's machines are called.
    pub fn set_wake(&mut self, id: NodeId) {
        let node = self.node(id);
        let due = node.next_due();
        if due != node.wake {
            node.wake = due;
            if let Some(due) = due {
                // What is past is done now, but not before this is over.
                let due = due.max(self.now);
                self.node(id).wake = Some(due);
                self.plan(due, Event::Wake(id));
            }
        }
    }
}

/// A message after its way in the binary form, which must not change it.
fn again<T: PartialEq + Debug, E: Debug>(
    bytes: &Result<Vec<u8>, E>,
    decode: fn(&[u8]) -> Result<T, E>,
    message: &T,
) -> Result<T, String> {
    let bytes = bytes.as_ref().map_err(|error| format!("{message:?} has no form: {error:?}"))?;
    match decode(bytes) {
        Ok(other) if other == *message => Ok(other),
        other => Err(format!("{message:?} was read as {other:?}")),
    }
}
