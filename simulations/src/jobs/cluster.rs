//! The nodes of a run, and the keeper of the job's record, in the order of time.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use nile_abi::{Generation, Instant, NodeId};
use nile_job::{
    AttemptId, Epoch, Master, Peer, Phase, Record, Settings, ToMaster, ToWorker, Worker, WorkerId,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::Conduct;
use super::checks::Ledger;
use super::letters::{KEEPER, Letter};
use super::node::Node;
use super::plot::{self, Blow, Code, Weather, When, span};
use super::work::{Work, below};
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

/// How often the keeper looks after the job.
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
    plot: Vec<(When, Blow)>,
    /// Which side of a partition each host is on.
    pub sides: Option<Vec<bool>>,
    pub record: Record,
    /// The master that the keeper believes in: where, which life, which epoch, whether it knows.
    appointed: Option<(NodeId, Generation, Epoch, bool)>,
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
    Cut(NodeId, Epoch, Vec<u8>),
    Blow(Blow),
    /// A node comes back.
    Rise(NodeId),
    /// The partition ends.
    Heal,
    /// The keeper looks after the job.
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
            core.slowness = if below(&mut random, 8) == 0 { 20 } else { 1 };
        }
        match below(&mut random, 16) {
            0 => all.iter_mut().for_each(|node| node.disk.is_full = true),
            1 | 2 => all[0].disk.is_full = true,
            _ => {}
        }
        let (weather, code) = (Weather::draw(&mut random), Code::draw(&mut random, 12));
        let plot = plot::draw(&mut random, nodes);
        let mut cluster = Cluster {
            random,
            now: Instant::START,
            events: BTreeMap::new(),
            serial: 0,
            at_once: 0,
            nodes: all,
            record: Record::new(work.job.clone()),
            work,
            settings: Settings::default(),
            weather,
            code,
            plot,
            sides: None,
            appointed: None,
            views: BTreeMap::new(),
            phases: Vec::new(),
            ledger: Ledger::default(),
            trace: Trace::default(),
            conduct,
        };
        cluster.plan(Instant::START, Event::Keep);
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
        while self.record.end().is_none() && self.now < Instant::START + LIMIT {
            self.until(self.now + KEEP * 10)?;
        }
        let Some(end) = self.record.end().cloned() else {
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
            Event::Blow(blow) if self.now < Instant::START + BUSY => self.strike(blow)?,
            Event::Blow(_) => {}
            Event::Rise(id) => {
                let now = self.now;
                let node = self.node(id);
                (node.lives, node.away) = (true, Some(now));
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
        if to == KEEPER {
            return self.keeper_receives(letter);
        }
        if !self.node(to).lives {
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
            Letter::Appoint(life, epoch) => self.appoint(to, life, epoch),
            Letter::Cancel(epoch) => {
                let master = self.node(to).master.as_mut();
                if let Some(master) = master.filter(|it| it.epoch() == epoch) {
                    master.cancel(now);
                }
            }
            Letter::Decided(epoch, verdict) => {
                let master = self.node(to).master.as_mut();
                if let Some(master) = master.filter(|it| it.epoch() == epoch) {
                    master.decided(now, verdict);
                }
            }
            Letter::Standing(id, standing) => match self.worker(&id) {
                Some(worker) => worker.resolve(now, standing),
                None => self.settle_parts(to, id, standing),
            },
            Letter::Appointed(_) | Letter::Decide(..) | Letter::Ask(_) => {}
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
        let orphans = node.orphans();
        if node.doubts <= now && !orphans.is_empty() {
            node.doubts = now + Duration::from_millis(500);
            for owner in orphans {
                self.post(id, KEEPER, Letter::Ask(owner));
            }
        }
        self.pump(id)
    }

    /// What a host learns of a node, if it has a master that wants to know.
    fn news(&mut self, to: NodeId, about: NodeId) -> Result<(), String> {
        let now = self.now;
        let node = &self.nodes[about.0 as usize - 1];
        let is_seen = node.lives && self.reaches(to, about);
        let workers: Vec<WorkerId> = match is_seen {
            true => (0..node.cores.len()).map(|core| node.worker_id(core)).collect(),
            false => Vec::new(),
        };
        if to == KEEPER {
            let is_master = self.appointed.is_some_and(|it| it.0 == about);
            let is_same = self.appointed.is_some_and(|it| it.1 == node.life);
            if is_master && !(is_seen && is_same) {
                self.appointed = None;
            }
            return Ok(());
        }
        if !self.node(to).lives || self.node(to).master.is_none() {
            return Ok(());
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

    /// Masters and the keeper will learn how a node is.
    pub fn tell_of(&mut self, about: NodeId) {
        let masters = self.nodes.iter().filter(|node| node.master.is_some());
        let hosts: Vec<NodeId> = masters.map(|node| node.id).chain([KEEPER]).collect();
        for to in hosts {
            let delay = Duration::from_millis(50);
            let delay = delay + span(&mut self.random, Duration::from_millis(600));
            self.plan(self.now + delay, Event::News(to, about));
        }
    }

    /// A node becomes the master, once in each epoch.
    fn appoint(&mut self, id: NodeId, life: Generation, epoch: Epoch) {
        let (now, settings) = (self.now, self.settings);
        if self.node(id).life != life {
            return;
        }
        if self.ledger.master_begins(id, life, epoch) {
            let (job, splits) = (self.work.job.clone(), self.work.splits.clone());
            let master = Master::new(now, id, epoch, job, splits, settings);
            self.node(id).master = Some(master);
            self.views.remove(&id);
            for about in 1..=self.nodes.len() as u32 {
                self.plan(now, Event::News(id, NodeId(about)));
            }
        }
        self.post(id, KEEPER, Letter::Appointed(epoch));
    }

    /// The keeper sees to it that there is a master.
    fn keep(&mut self) {
        if self.record.end().is_some() {
            return;
        }
        if self.appointed.is_none() {
            let seen = self.nodes.iter().filter(|it| it.lives && self.reaches(KEEPER, it.id));
            let seen: Vec<(NodeId, Generation)> = seen.map(|it| (it.id, it.life)).collect();
            if !seen.is_empty() {
                let (id, life) = seen[below(&mut self.random, seen.len() as u64) as usize];
                let epoch = self.record.appoint(id);
                self.appointed = epoch.map(|epoch| (id, life, epoch, false));
            }
        }
        if let Some((id, life, epoch, knows)) = self.appointed {
            if !knows {
                self.post(KEEPER, id, Letter::Appoint(life, epoch));
            } else if self.ledger.is_cancelled {
                self.post(KEEPER, id, Letter::Cancel(epoch));
            }
        }
        self.plan(self.now + KEEP, Event::Keep);
    }

    fn keeper_receives(&mut self, letter: Letter) -> Result<(), String> {
        match letter {
            Letter::Appointed(epoch) => {
                if let Some(it) = self.appointed.as_mut().filter(|it| it.2 == epoch) {
                    it.3 = true;
                }
            }
            Letter::Decide(from, epoch, end) => {
                let verdict = self.decide(from, epoch, end)?;
                self.post(KEEPER, from, Letter::Decided(epoch, verdict));
            }
            Letter::Ask(id) => {
                let standing = self.record.standing();
                self.post(KEEPER, id.node, Letter::Standing(id, standing));
            }
            _ => {}
        }
        Ok(())
    }

    fn strike(&mut self, blow: Blow) -> Result<(), String> {
        let now = self.now;
        match blow {
            Blow::KillNode(id, pause, wiped) => {
                let others = self.nodes.iter().filter(|node| node.id != id && node.lives).count();
                // Somebody has to be left.
                let pause = pause.or((others < 2).then_some(Duration::from_secs(1)));
                self.kill(id, pause, wiped && others >= 2);
            }
            Blow::KillMaster(pause) => {
                if let Some((id, ..)) = self.appointed {
                    self.kill(id, Some(pause), false);
                }
            }
            Blow::KillCore(id, draw) => {
                let node = self.node(id);
                let core = (draw % node.cores.len() as u64) as usize;
                if node.lives {
                    node.restart_core(core);
                    self.ledger.killed += 1;
                    self.tell_of(id);
                    self.pump(id)?;
                }
            }
            Blow::Partition(draw, pause) => {
                let side = |host: usize| host > 0 && draw >> (host % 64) & 1 == 1;
                self.sides = Some((0..=self.nodes.len()).map(side).collect());
                self.ledger.partitions += 1;
                // Sometimes the keeper finds out long before anybody else.
                let is_quick = draw >> 63 == 1;
                if self.appointed.is_some_and(|it| is_quick && !self.reaches(KEEPER, it.0)) {
                    self.appointed = None;
                }
                self.plan(now + pause, Event::Heal);
                self.all_change(Duration::from_secs(1));
            }
            Blow::Suspect => self.appointed = None,
            Blow::Cancel => self.ledger.is_cancelled = true,
        }
        Ok(())
    }

    fn kill(&mut self, id: NodeId, pause: Option<Duration>, wiped: bool) {
        let now = self.now;
        let node = self.node(id);
        if !node.lives {
            return;
        }
        node.die();
        node.away = Some(now);
        if wiped {
            node.disk = Default::default();
            self.ledger.wiped.insert(id);
        }
        self.ledger.killed += 1;
        self.trace.note(now, u64::from(id.0), 40, 0);
        match pause {
            Some(pause) => self.plan(now + pause, Event::Rise(id)),
            None => drop(self.ledger.gone.insert(id)),
        }
        self.tell_of(id);
    }

    fn heal(&mut self) {
        if self.sides.take().is_some() {
            self.all_change(Duration::ZERO);
        }
    }

    /// After a while everybody sees others than before.
    fn all_change(&mut self, after: Duration) {
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.away = Some(now));
        let masters = self.nodes.iter().filter(|node| node.master.is_some());
        let hosts: Vec<NodeId> = masters.map(|node| node.id).chain([KEEPER]).collect();
        for to in hosts {
            for about in 1..=self.nodes.len() as u32 {
                let delay = after + span(&mut self.random, Duration::from_millis(600));
                self.plan(now + delay, Event::News(to, NodeId(about)));
            }
        }
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
