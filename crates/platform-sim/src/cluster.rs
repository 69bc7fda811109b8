//! Several simulated nodes and the switch between them, in one virtual time: the whole cluster in
//! one seeded run.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, Instant, MacAddress, NodeId, Role};
use nile_platform::Loop;
use nile_switch::{Link, PortId, Switch};

use crate::disk::Contents;
use crate::machine::SimMachine;
use crate::neighbours::Neighbours;
use crate::network::Wire;
use crate::options::Options;
use crate::simulation::{Finished, Scheduler, Stuck};
use crate::state::Event;

/// Steps after which a run has got lost, however little time has passed in it.
const MOST_STEPS: u64 = 50_000_000;

/// What the seeds of a node's lives are apart: far more than those of two runs or nodes.
const LIFE: u64 = 0x9e37_79b9_7f4a_7c15;

/// A run of several nodes.
#[derive(Clone, Debug)]
pub struct ClusterOptions {
    /// Each node: n1, n2, and so on. The first one's seed and limit are the run's.
    pub nodes: Vec<Options>,
    /// The cables of every node, one for each network core.
    pub link: Link,
    /// Whether nodes see each other's pools, as those of one machine do.
    pub shows_pools: bool,
    /// What is done to the cluster, and when.
    pub deeds: Vec<(Duration, Deed)>,
}

/// What is done to a cluster that runs. Nodes are counted from zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Ends a node as a power failure does.
    Kill(usize),
    /// Begins a node that was killed anew; one that runs goes on.
    Start(usize),
    /// Damages each sector of the disks of a node that does not run in which these bytes lie.
    Spoil(usize, Vec<u8>),
    /// Ends the present incarnation of a core of a node.
    EndCore(usize, CoreId),
    /// Lets nodes reach only others of their side; those that are on no side, nobody.
    Partition(Vec<Vec<usize>>),
    /// Lets all reach all.
    Heal,
    /// Changes every cable.
    SetLinks(Link),
    /// Ends the run as one that is stuck, for this reason.
    GiveUp(String),
}

/// What is still to be done to a cluster. Who watches the run from within may add to it.
#[derive(Clone, Default, Debug)]
pub struct Deeds(Rc<RefCell<BTreeMap<(Instant, usize), Deed>>>);

impl Deeds {
    /// Has something done at a moment, or at once if that has passed.
    pub fn add(&self, at: Instant, deed: Deed) {
        let mut deeds = self.0.borrow_mut();
        let same = deeds.range((at, 0)..=(at, usize::MAX)).count();
        deeds.insert((at, same), deed);
    }

    /// Has nothing done of what has not been yet.
    pub fn clear(&self) {
        self.0.borrow_mut().clear();
    }

    fn next_due(&self) -> Option<Instant> {
        self.0.borrow().keys().next().map(|(at, _)| *at)
    }

    fn take_due(&self, now: Instant) -> Option<Deed> {
        let mut deeds = self.0.borrow_mut();
        let first = deeds.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(first.remove())
    }
}

/// A node of the run.
struct Node<'a> {
    /// Where its interfaces are plugged in.
    ports: Vec<PortId>,
    scheduler: Option<Scheduler<'a>>,
    /// When something can happen in it next, as it stands in the agenda.
    next: Option<Instant>,
    finished: Option<Finished>,
    /// What its disks hold while it is off.
    disks: Option<Vec<Contents>>,
    /// How often it was begun.
    lives: u64,
}

struct Cluster<'a, F> {
    options: &'a ClusterOptions,
    switch: Switch,
    neighbours: Option<Neighbours>,
    nodes: Vec<Node<'a>>,
    /// The next moment of each node that has one: a step does not ask all of them.
    agenda: BTreeSet<(Instant, usize)>,
    /// Whose interface is plugged into each port, and which of its interfaces that is.
    plugs: BTreeMap<PortId, (usize, usize)>,
    begin: &'a F,
    clock: Instant,
    /// What nodes have logged in lives that were ended.
    log: Vec<String>,
    /// Why somebody wants the run to end.
    given_up: Option<String>,
}

/// Runs a cluster until every node that lives has ended: how each did, `None` for those that were
/// killed and not begun again. `begin` makes the loop of a core of a node, which is counted from
/// zero.
pub fn simulate_cluster<F>(
    options: &ClusterOptions,
    begin: F,
) -> Result<Vec<Option<Finished>>, Stuck>
where
    F: Fn(usize, SimMachine) -> Box<dyn Loop>,
{
    simulate_deeds(options, &Deeds::default(), begin)
}

/// The same with deeds that are not all known before: those of `deeds`, besides the options'.
pub fn simulate_deeds<F>(
    options: &ClusterOptions,
    deeds: &Deeds,
    begin: F,
) -> Result<Vec<Option<Finished>>, Stuck>
where
    F: Fn(usize, SimMachine) -> Box<dyn Loop>,
{
    let first = options.nodes.first().map_or((0, Duration::ZERO), |it| (it.seed, it.limit));
    let mut switch = Switch::new(first.0);
    let nodes = options.nodes.iter().map(|node| {
        let drives = node.roles.iter().filter(|roles| roles.contains(Role::Network));
        let ports = drives.map(|_| switch.attach()).collect();
        Node { ports, scheduler: None, next: None, finished: None, disks: None, lives: 0 }
    });
    let nodes: Vec<Node<'_>> = nodes.collect();
    let plugs = nodes.iter().enumerate().flat_map(|(node, it)| {
        it.ports.iter().enumerate().map(move |(interface, port)| (*port, (node, interface)))
    });
    let plugs = plugs.collect();
    switch.set_all_links(options.link);
    let (clock, log) = (Instant::START, Vec::new());
    let neighbours = options.shows_pools.then(Neighbours::default);
    let mut cluster = Cluster {
        options,
        switch,
        neighbours,
        nodes,
        agenda: BTreeSet::new(),
        plugs,
        begin: &begin,
        clock,
        log,
        given_up: None,
    };
    for node in 0..options.nodes.len() {
        cluster.start(node);
    }
    for (at, deed) in &options.deeds {
        deeds.add(Instant::START + *at, deed.clone());
    }
    let limit = Instant::START + first.1;
    for step in 0u64.. {
        if step == MOST_STEPS {
            let why = format!("{MOST_STEPS} steps, and no end");
            return Err(Stuck { violation: Some(why), ..cluster.stuck(0) });
        }
        while let Some(deed) = deeds.take_due(cluster.clock) {
            cluster.perform(deed);
        }
        if let Some(why) = cluster.given_up.take() {
            return Err(Stuck { violation: Some(why), ..cluster.stuck(0) });
        }
        let until = deeds.next_due();
        match cluster.step(until) {
            Step::Went => {}
            Step::Ended if deeds.next_due().is_none() => break,
            // Nothing happens before the next deed.
            Step::Ended | Step::Waits => cluster.clock = until.unwrap_or(cluster.clock),
            Step::Stuck(at) => return Err(cluster.stuck(at)),
        }
        if cluster.clock > limit {
            return Err(cluster.stuck(0));
        }
    }
    Ok(cluster.nodes.into_iter().map(|node| node.finished).collect())
}

enum Step {
    Went,
    /// Nothing can happen before the moment that was given.
    Waits,
    /// No node runs any more.
    Ended,
    /// A node broke a rule, or nothing can happen in it any more.
    Stuck(usize),
}

impl<F: Fn(usize, SimMachine) -> Box<dyn Loop>> Cluster<'_, F> {
    fn start(&mut self, node: usize) {
        let begin = self.begin;
        let name = NodeId(node as u32 + 1);
        let interfaces = 0..self.nodes[node].ports.len() as u8;
        let wires = interfaces.map(|at| Wire::new(MacAddress::local(name, at))).collect();
        let mut options = self.options.nodes[node].clone();
        // What a node draws in one life, such as the secrets of its calls, it does not draw again.
        options.seed = options.seed.wrapping_add(self.nodes[node].lives.wrapping_mul(LIFE));
        self.nodes[node].lives += 1;
        let left = self.nodes[node].disks.take().into_iter().flatten();
        for (disk, left) in options.disks.iter_mut().zip(left) {
            disk.contents = left;
            // It happens once.
            disk.faults.cut_at_write = None;
        }
        let scheduler =
            Scheduler::new(&options, self.clock, Box::new(move |machine| begin(node, machine)));
        let mut held = scheduler.state.borrow_mut();
        let state = &mut *held;
        state.wires = wires;
        if let (Some(neighbours), Some(pool)) = (&self.neighbours, &state.pool) {
            neighbours.show(state.wires.iter().map(|wire| wire.address), pool);
            state.neighbours = Some(neighbours.clone());
        }
        drop(held);
        self.nodes[node].scheduler = Some(scheduler);
        self.nodes[node].finished = None;
        self.look(node);
    }

    /// Enters into the agenda what has changed in a node.
    fn look(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let next = node.scheduler.as_ref().and_then(Scheduler::next_moment);
        let last = core::mem::replace(&mut node.next, next);
        if last != next {
            if let Some(moment) = last {
                self.agenda.remove(&(moment, at));
            }
            self.agenda.extend(next.map(|moment| (moment, at)));
        }
    }

    /// Ends a node as a power failure does.
    fn kill(&mut self, at: usize) {
        let name = NodeId(at as u32 + 1);
        let node = &mut self.nodes[at];
        if let Some(scheduler) = node.scheduler.take() {
            let mut state = scheduler.state.borrow_mut();
            node.disks = Some(state.lose_power());
            self.log.extend(state.log.drain(..).map(|line| format!("{name} {line}")));
            self.log.push(format!("{name} [{}] loses power", self.clock));
        }
        self.look(at);
    }

    fn perform(&mut self, deed: Deed) {
        match deed {
            Deed::Kill(node) => self.kill(node),
            Deed::Start(node) if self.nodes[node].scheduler.is_some() => {}
            Deed::Start(node) => self.start(node),
            Deed::Spoil(node, mark) => {
                let disks = self.nodes[node].disks.iter_mut().flatten();
                disks.for_each(|disk| disk.spoil(&mark));
            }
            Deed::EndCore(node, core) => {
                if let Some(scheduler) = &self.nodes[node].scheduler {
                    let mut state = scheduler.state.borrow_mut();
                    let now = self.clock.max(state.clock);
                    state.schedule(now, Event::Stop { core });
                }
                self.look(node);
            }
            Deed::Partition(sides) => {
                let ports = |node: &usize| self.nodes[*node].ports.iter().copied();
                let sides: Vec<Vec<PortId>> =
                    sides.iter().map(|side| side.iter().flat_map(ports).collect()).collect();
                let sides: Vec<&[PortId]> = sides.iter().map(Vec::as_slice).collect();
                self.switch.partition(&sides);
            }
            Deed::Heal => self.switch.heal(),
            Deed::SetLinks(link) => self.switch.set_all_links(link),
            Deed::GiveUp(why) => self.given_up = Some(why),
        }
    }

    /// The next thing that happens before `until`, anywhere.
    fn step(&mut self, until: Option<Instant>) -> Step {
        let Some(first) = self.nodes.iter().position(|node| node.scheduler.is_some()) else {
            return Step::Ended;
        };
        let next = self.agenda.first().copied();
        let frame = self.switch.next_due();
        let moment = next.map(|(moment, _)| moment).into_iter().chain(frame).min();
        match (moment, until) {
            (Some(moment), Some(until)) if moment > until => return Step::Waits,
            (None, Some(_)) => return Step::Waits,
            (None, None) => return Step::Stuck(first),
            (Some(moment), _) => self.clock = self.clock.max(moment),
        }
        if frame.is_some_and(|frame| next.is_none_or(|(moment, _)| frame <= moment)) {
            self.deliver();
            return Step::Went;
        }
        let Some((_, at)) = next else { return Step::Went };
        let went = self.nodes[at].scheduler.as_mut().is_some_and(Scheduler::step);
        self.carry(at);
        self.look(at);
        let Some(scheduler) = &self.nodes[at].scheduler else { return Step::Went };
        if scheduler.state.borrow().power_failed {
            self.kill(at);
        } else if scheduler.has_stopped() {
            let ended = self.nodes[at].scheduler.take().map(Scheduler::finish);
            self.nodes[at].disks = ended.as_ref().map(|it| it.disks.clone());
            self.nodes[at].finished = ended;
            self.look(at);
        } else if !went || scheduler.is_broken() {
            return Step::Stuck(at);
        }
        Step::Went
    }

    /// Takes what a node has sent to the switch.
    fn carry(&mut self, at: usize) {
        let Node { ports, scheduler: Some(scheduler), .. } = &self.nodes[at] else { return };
        let mut state = scheduler.state.borrow_mut();
        for (port, wire) in ports.iter().zip(&mut state.wires) {
            for (moment, frame) in wire.sent.drain(..) {
                self.switch.receive(moment.max(self.clock), *port, &frame);
            }
        }
    }

    /// Gives frames that are due to their nodes.
    fn deliver(&mut self) {
        while let Some((port, frame)) = self.switch.poll(self.clock) {
            let Some((node, interface)) = self.plugs.get(&port).copied() else { continue };
            if let Some(scheduler) = &self.nodes[node].scheduler {
                scheduler.arrive(self.clock, interface, &frame);
                self.look(node);
            }
        }
    }

    fn stuck(&mut self, at: usize) -> Stuck {
        let seed = self.options.nodes[0].seed;
        let log = std::mem::take(&mut self.log);
        let mut stuck = Stuck { seed, at: self.clock, log, ..Stuck::default() };
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let Some(scheduler) = node.scheduler.take() else { continue };
            let one = scheduler.give_up(seed);
            let name = NodeId(number as u32 + 1);
            stuck.cores.extend(one.cores.iter().map(|core| format!("{name}.{core}")));
            stuck.log.extend(one.log.iter().map(|line| format!("{name} {line}")));
            if number == at {
                stuck.violation = one.violation.map(|it| format!("{name}: {it}"));
            }
        }
        stuck
    }
}
