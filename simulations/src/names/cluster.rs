//! The nodes and clients of a run, in the order of time.

use std::collections::BTreeMap;
use std::time::Duration;

use nile_abi::{Instant, NodeId};
use nile_names::keeper::Action;
use nile_names::{
    Answer, Ask, Durable, Keeper, Name, Reply, Request, Settings, Standing, Task, View,
};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::client::{Client, Running};
use super::ledger::Ledger;
use super::node::{Letter, Node, Party};
use super::plot::{self, Blow};
use super::{Conduct, Plot};
use crate::draw::{Weather, below, span};
use crate::report::Figure;
use crate::trace::Trace;

/// How long the cluster fails.
const BUSY: Duration = Duration::from_secs(6);

/// How long it has to be well again.
const CALM: Duration = Duration::from_secs(5);

/// No operation takes longer.
const PATIENCE: Duration = Duration::from_secs(4);

/// How often it is looked whether the cluster is founded.
const LOOK: Duration = Duration::from_millis(50);

/// Events of one moment after which somebody wants to be called again and again.
const MOST_AT_ONCE: u32 = 10_000;

/// One run.
pub struct Cluster {
    pub random: ChaCha8Rng,
    pub now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    serial: u64,
    at_once: u32,
    pub nodes: Vec<Node>,
    pub keepers: Vec<NodeId>,
    pub names: Vec<Name>,
    pub clients: Vec<Client>,
    pub running: BTreeMap<u64, Running>,
    pub next_operation: u64,
    /// The times of keepers and of clients.
    pub settings: [Settings; 2],
    pub weather: Weather,
    pub usual_weather: Weather,
    /// How long disks take at most.
    pub latency: Duration,
    /// Which side of a partition each node is on, and how many partitions there were.
    pub sides: Option<Vec<bool>>,
    pub partings: u32,
    /// Until when little comes of what keepers are asked to accept.
    pub torn_until: Instant,
    /// How long somebody is to be stranded; who, with which keeper.
    pub stranding: Option<(Duration, Duration)>,
    pub stranded: Option<(NodeId, NodeId)>,
    /// Clients begin things.
    pub is_busy: bool,
    pub ledger: Ledger,
    /// Operations that failed for lack of a majority.
    pub failed: u64,
    pub lost_disks: u64,
    /// Old copies that came in place of disks.
    pub old_disks: u64,
    /// What else disks came to.
    pub ills: Ills,
    /// The one node whose disk is bad, if it is one; and operations of clients on others that
    /// failed for lack of a majority, though the network did well.
    pub victim: Option<NodeId>,
    /// All keepers were in at once.
    is_founded: bool,
    pub failed_beside: u64,
    /// What all views are taken for.
    pub one_view: Option<View>,
    trace: Trace,
    pub conduct: Conduct,
}

/// How often disks were bad, by kind.
#[derive(Default)]
pub struct Ills {
    pub foreign: u64,
    pub damaged: u64,
    pub full: u64,
    pub slow: u64,
    /// The node stood still.
    pub stopped: u64,
}

/// What happens at a moment.
pub enum Event {
    Letter(NodeId, NodeId, Letter),
    /// A node's disk has done what it was doing, in this life of it.
    Flushed(NodeId, u32),
    /// A node's keeper wants to be called.
    WakeKeeper(NodeId, u32),
    WakeOperation(u64),
    /// A client begins something.
    Begin(usize),
    /// An operation's client dies.
    Abandon(u64),
    Blow(Blow),
    /// A node comes back.
    Rise(NodeId),
    /// A node's own disk comes back.
    Mend(NodeId),
    /// That partition ends.
    Heal(u32),
    Weather(Weather),
}

impl Cluster {
    pub fn new(seed: u64, nodes: u32, conduct: Conduct, plot: Plot) -> Cluster {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let keepers = match plot {
            Plot::Disks => 3,
            Plot::Mixed if below(&mut random, 16) == 0 => 1,
            Plot::Mixed => 3,
        };
        let names =
            (0..1 + below(&mut random, 3)).filter_map(|at| Name::new(&format!("name {at}")));
        let names: Vec<Name> = names.collect();
        let clients = (0..2 + below(&mut random, 4)).map(|_| {
            let node = NodeId(1 + below(&mut random, u64::from(nodes)) as u32);
            Client::new(node, names.len())
        });
        let clients = clients.collect();
        let weather = match plot {
            Plot::Mixed => Weather::draw(&mut random),
            Plot::Disks if below(&mut random, 2) == 0 => Weather::GOOD,
            Plot::Disks => Weather::draw(&mut random),
        };
        // Where clients are promised an answer, they have the patience for one.
        let least = match plot {
            Plot::Disks => PATIENCE - Duration::from_secs(1),
            Plot::Mixed => Duration::ZERO,
        };
        let settings = [(); 2].map(|()| Settings {
            silence: Duration::from_millis([20, 100, 400][below(&mut random, 3) as usize]),
            patience: Duration::from_millis([500, 1500, 3000][below(&mut random, 3) as usize])
                .max(least),
            pause: Duration::from_millis(10),
        });
        let (victim, plot) = match plot {
            Plot::Mixed => (None, plot::draw(&mut random, nodes, keepers, BUSY)),
            Plot::Disks => {
                let (victim, plot) = plot::draw_disks(&mut random, keepers, BUSY);
                (Some(victim), plot)
            }
        };
        let mut cluster = Cluster {
            random,
            now: Instant::START,
            events: BTreeMap::new(),
            serial: 0,
            at_once: 0,
            nodes: (1..=nodes).map(|id| Node::new(NodeId(id))).collect(),
            keepers: (1..=keepers).map(NodeId).collect(),
            ledger: Ledger::new(names.len()),
            names,
            clients,
            running: BTreeMap::new(),
            next_operation: 0,
            settings,
            weather,
            usual_weather: weather,
            latency: Duration::from_millis(2),
            sides: None,
            partings: 0,
            torn_until: Instant::START,
            stranding: None,
            stranded: None,
            is_busy: true,
            failed: 0,
            lost_disks: 0,
            old_disks: 0,
            ills: Ills::default(),
            victim,
            is_founded: false,
            failed_beside: 0,
            one_view: None,
            trace: Trace::default(),
            conduct,
        };
        for node in 1..=nodes {
            let at = Instant::START + span(&mut cluster.random, Duration::from_millis(200));
            cluster.plan(at, Event::Rise(NodeId(node)));
        }
        for client in 0..cluster.clients.len() {
            cluster.plan(Instant::START, Event::Begin(client));
        }
        plot.into_iter().for_each(|(at, blow)| cluster.plan(at, Event::Blow(blow)));
        cluster
    }

    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    pub fn figures(&self) -> Vec<Figure> {
        let figure = Figure::count;
        let mut figures = vec![
            figure("operations", self.ledger.ended),
            figure("operations without a majority", self.failed),
            figure("operations with an unknown end", self.ledger.unknown),
            figure("disks lost", self.lost_disks),
            figure("disks in whose place an old copy came", self.old_disks),
        ];
        if self.victim.is_some() {
            let Ills { foreign, damaged, full, slow, stopped } = self.ills;
            figures.extend([
                figure("disks of others", foreign),
                figure("disks that were damaged", damaged),
                figure("disks that were full", full),
                figure("disks that were slow", slow),
                figure("nodes that stood still", stopped),
                figure("operations without a majority beside a bad disk", self.failed_beside),
            ]);
        }
        figures
    }

    pub fn note(&mut self, node: NodeId, what: u8, detail: u64) {
        self.trace.note(self.now, u64::from(node.0), what, detail);
    }

    pub fn plan(&mut self, at: Instant, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    pub fn node(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize - 1]
    }

    /// All of it.
    pub fn run(&mut self) -> Result<(), String> {
        self.until(Instant::START + BUSY)?;
        self.calm();
        self.until(Instant::START + BUSY + CALM)?;
        for node in self.nodes.iter().filter(|node| self.keepers.contains(&node.id)) {
            let standing = node.keeper.as_ref().map(Keeper::standing);
            if standing != Some(Standing::In) {
                return Err(format!("the keeper of {} is not in: {standing:?}", node.id));
            }
        }
        // Where the last client is, all is seen once more.
        let failed = self.failed;
        for name in 0..self.names.len() {
            self.propose(0, name, Task::Read);
        }
        self.scan(0);
        self.until(self.now + PATIENCE)?;
        if !self.running.is_empty() {
            return Err(format!("{} operations never end", self.running.len()));
        }
        if self.failed > failed {
            return Err("there is no majority, and all keepers are there".into());
        }
        if self.failed_beside > 0 {
            return Err(format!("{} operations failed beside one bad disk", self.failed_beside));
        }
        self.ledger.check()
    }

    /// An operation of a client has failed for lack of a majority.
    pub fn has_failed(&mut self, client: usize) {
        let node = self.clients[client].node;
        self.failed += 1;
        let does_well = self.usual_weather.is_good();
        self.failed_beside += u64::from(does_well && self.victim.is_some_and(|it| it != node));
    }

    /// The node that something happens to which waits while the node stands still.
    fn node_of(&self, event: &Event) -> Option<NodeId> {
        match event {
            Event::Letter(_, node, _) | Event::Flushed(node, _) | Event::WakeKeeper(node, _) => {
                Some(*node)
            }
            Event::Begin(client) => Some(self.clients[*client].node),
            Event::WakeOperation(it) => Some(self.clients[self.running.get(it)?.client].node),
            _ => None,
        }
    }

    /// What happens until a moment.
    fn until(&mut self, end: Instant) -> Result<(), String> {
        while let Some(entry) = self.events.first_entry().filter(|it| it.key().0 <= end) {
            let ((at, _), event) = entry.remove_entry();
            self.at_once = if at > self.now { 0 } else { self.at_once + 1 };
            if self.at_once > MOST_AT_ONCE {
                return Err(format!("time stands still at {:?}", self.now));
            }
            self.now = at;
            self.happen(event);
        }
        self.now = end;
        Ok(())
    }

    fn happen(&mut self, event: Event) {
        let stands = self.node_of(&event).map(|node| self.node(node).stands_until);
        if let Some(until) = stands.filter(|until| self.now < *until) {
            return self.plan(until, event);
        }
        match event {
            Event::Letter(from, to, letter) => self.deliver(from, to, letter),
            Event::Flushed(node, life) => {
                if self.node(node).life == life && self.node(node).is_up {
                    for (to, letter) in self.node(node).flushed(None) {
                        self.post(node, to, letter);
                    }
                    self.settle(node);
                }
            }
            Event::WakeKeeper(node, life) => {
                let now = self.now;
                if let Some(keeper) = &mut self.node(node).keeper {
                    keeper.tick(now);
                    if self.node(node).life == life {
                        self.plan_keeper(node);
                    }
                    self.settle(node);
                }
            }
            Event::WakeOperation(operation) => self.wake_operation(operation),
            Event::Begin(client) => self.begin(client),
            Event::Abandon(operation) => self.abandon(operation),
            // Founding takes all keepers, so nothing is promised before.
            Event::Blow(blow) if self.victim.is_some() && !self.is_founded() => {
                self.plan(self.now + LOOK, Event::Blow(blow));
            }
            Event::Blow(blow) if self.is_busy => self.strike(blow),
            Event::Blow(_) => {}
            Event::Rise(node) => self.rise(node),
            Event::Mend(node) => self.mend(node),
            Event::Heal(parting) if parting == self.partings => self.sides = None,
            Event::Heal(_) => {}
            Event::Weather(weather) if self.is_busy => self.weather = weather,
            Event::Weather(_) => {}
        }
    }

    fn is_founded(&mut self) -> bool {
        self.is_founded |= self.keepers.iter().all(|it| self.nodes[it.0 as usize - 1].is_in());
        self.is_founded
    }

    /// A node begins, if it is not there.
    pub fn rise(&mut self, id: NodeId) {
        let (now, settings, conduct) = (self.now, self.settings[0], self.conduct);
        let (identity, seed) = (self.random.next_u64(), self.random.next_u64());
        let keepers = self.keepers.clone();
        let node = self.node(id);
        if node.is_up {
            return;
        }
        (node.is_up, node.life) = (true, node.life + 1);
        if conduct.forgets {
            node.disk.cells.clear();
        }
        let cells = match node.is_without {
            Some(_) if !conduct.trusts_foreign => None,
            Some(_) => Some(BTreeMap::new()),
            None => Some(node.disk.cells.clone()),
        };
        node.keeper = match (node.disk.charter.clone(), cells) {
            (_, None) => None,
            (None, Some(_)) => Keeper::fresh(now, id, &keepers, identity, seed, settings).ok(),
            (Some(charter), Some(cells)) => {
                Keeper::restore(now, id, &keepers, charter, cells, seed, settings).ok()
            }
        };
        let life = node.life;
        self.note(id, 2, u64::from(life));
        self.plan_keeper(id);
        self.settle(id);
        for client in 0..self.clients.len() {
            if self.clients[client].node == id {
                self.plan(now, Event::Begin(client));
            }
        }
    }

    fn plan_keeper(&mut self, id: NodeId) {
        let node = self.node(id);
        let life = node.life;
        if let Some(due) = node.keeper.as_ref().and_then(Keeper::next_due) {
            self.plan(due, Event::WakeKeeper(id, life));
        }
    }

    /// Does what a node's keeper wants to have done.
    fn settle(&mut self, id: NodeId) {
        let node = self.node(id);
        let life = node.life;
        while let Some(action) = node.keeper.as_mut().and_then(Keeper::poll) {
            match action {
                Action::Store(durable) => node.store(durable),
                Action::Send(to, ask) => node.say(to, Letter::Ask(Party::Keeper(id, life), ask)),
            }
        }
        while let Some((to, letter)) = self.node(id).said() {
            self.post(id, to, letter);
        }
        if self.node(id).flush() {
            let (now, latency) = (self.now, self.latency);
            let node = self.node(id);
            let most = if now < node.slow_until { latency * 100 } else { latency };
            let begins = node.full_until.max(now);
            let at = begins + Duration::from_micros(50) + span(&mut self.random, most);
            self.plan(at, Event::Flushed(id, life));
        }
    }

    fn deliver(&mut self, from: NodeId, to: NodeId, letter: Letter) {
        self.note(to, 3, u64::from(from.0));
        if !self.node(to).is_up {
            return;
        }
        match letter {
            Letter::Ask(party, mut ask) => {
                let conduct = self.conduct;
                let Some(keeper) = &mut self.node(to).keeper else { return };
                if let (true, Party::Operation(_)) = (conduct.mixes_views, party) {
                    ask.view = keeper.charter().view.clone().unwrap_or_default();
                }
                if let (true, Request::Begin { before, .. }) =
                    (conduct.trusts_copies, &mut ask.request)
                {
                    *before = u64::MAX;
                }
                let (answer, durable) = keeper.handle(ask);
                if keeper.next_due() == Some(Instant::START) {
                    self.plan_keeper(to);
                }
                let letter = Letter::Answer(party, answer);
                self.answer_when_durable(to, from, letter, durable);
            }
            Letter::Answer(Party::Keeper(id, life), answer) => {
                let node = self.node(id);
                if node.life == life
                    && let Some(keeper) = &mut node.keeper
                {
                    keeper.receive(from, answer);
                    if keeper.next_due() == Some(Instant::START) {
                        self.plan_keeper(id);
                    }
                    self.settle(id);
                }
            }
            Letter::Answer(Party::Operation(operation), answer) => {
                self.answer(from, operation, answer);
            }
        }
    }

    fn answer_when_durable(
        &mut self,
        id: NodeId,
        to: NodeId,
        letter: Letter,
        durable: Option<Durable>,
    ) {
        let node = self.node(id);
        durable.into_iter().for_each(|it| node.store(it));
        match self.conduct.is_hasty {
            true => self.post(id, to, letter),
            false => self.node(id).say(to, letter),
        }
        self.settle(id);
    }

    /// Sends a letter. Within a node nothing is lost.
    pub fn post(&mut self, from: NodeId, to: NodeId, letter: Letter) {
        if from == to {
            let at = self.now + Duration::from_micros(20);
            return self.plan(at, Event::Letter(from, to, letter));
        }
        if let Letter::Ask(Party::Operation(_), Ask { request: Request::Accept { .. }, .. }) =
            letter
        {
            self.asks_to_accept(from);
            if self.now < self.torn_until && below(&mut self.random, 3) != 0 {
                return;
            }
        }
        let side = |node: NodeId| self.sides.as_ref().map(|sides| sides[node.0 as usize - 1]);
        if side(from) != side(to) {
            return;
        }
        for delay in self.weather.delays(&mut self.random) {
            self.plan(self.now + delay, Event::Letter(from, to, letter.clone()));
        }
        if let Letter::Answer(Party::Operation(_), Answer { reply: Reply::Accepted, .. }) = letter {
            self.has_accepted(from, to);
        }
    }
}
