//! The nodes on their network, and what is checked whatever happens.
//!
//! A frame is an Ethernet header and one as long as that of IPI over Ethernet, with the sender and
//! a check of the bytes in it: what the network damages does not reach gossip.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::time::Duration;

use fnv::FnvHasher;
use nile_abi::ethernet::{CALLS, HEADER_BYTES};
use nile_abi::{Generation, Instant, MacAddress, NodeId, Role, RoleSet};
use nile_gossip::{Core, Destination, Event, Gossip, Instance, Keyword, Settings, State, Update};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Setup;
use crate::{Figure, Happening, Host, Trace, World};

/// Bytes of the headers of a gossip frame and of a broadcast frame after the Ethernet header.
const GOSSIP_HEADER: usize = 32;
const BROADCAST_HEADER: usize = 24;

/// The nodes and their network.
pub struct Cluster {
    pub world: World,
    pub setup: Setup,
    pub random: ChaCha8Rng,
    pub trace: Trace,
    /// The running nodes; node n1 is the first.
    nodes: Vec<Option<Gossip>>,
    /// The generation that each node was started with last; 0 before its first start.
    generations: Vec<u32>,
    /// Of nodes that have restarted: the latest generation that each observer has seen.
    seen: BTreeMap<(u32, u32), u32>,
    /// The change that is being followed.
    followed: Option<Followed>,
    /// Bytes that were sent as frames.
    pub bytes: u64,
    /// How often a node that lives was held for dead by one that it could reach.
    false_deaths: u64,
    /// The side of each node of the last partition.
    pub sides: Option<Vec<bool>>,
    broken: Option<String>,
}

/// A change on its way to all.
struct Followed {
    node: NodeId,
    number: u16,
    /// Who does not know it yet.
    missing: Vec<bool>,
    left: u32,
    last: Instant,
}

impl Cluster {
    /// Nodes that have not started, on a perfect network.
    pub fn new(setup: Setup) -> Cluster {
        let mut world = World::new(setup.seed);
        let count = setup.nodes as usize;
        for _ in 0..count {
            world.add_host();
        }
        Cluster {
            world,
            setup,
            random: ChaCha8Rng::seed_from_u64(setup.seed),
            trace: Trace::default(),
            nodes: (0..count).map(|_| None).collect(),
            generations: vec![0; count],
            seen: BTreeMap::new(),
            followed: None,
            bytes: 0,
            false_deaths: 0,
            sides: None,
            broken: None,
        }
    }

    pub fn period() -> Duration {
        Settings::new(NodeId(1), Generation(1), 0).period
    }

    /// A number below `bound`.
    pub fn draw(&mut self, bound: u32) -> u32 {
        ((u64::from(self.random.next_u32()) * u64::from(bound)) >> 32) as u32
    }

    /// One of the nodes that run.
    pub fn any_running(&mut self) -> u32 {
        loop {
            let node = self.draw(self.setup.nodes);
            if self.nodes[node as usize].is_some() {
                return node;
            }
        }
    }

    pub fn is_running(&self, node: u32) -> bool {
        self.nodes[node as usize].is_some()
    }

    /// Whether the node publishes something from its start: about so many do, or all if there are
    /// not so many. Every node keeps the directories of all others, here in one machine's memory.
    fn publishes(&self, node: u32) -> bool {
        const PUBLISHERS: u32 = 128;
        node.is_multiple_of((self.setup.nodes / PUBLISHERS).max(1))
    }

    /// Starts a node in its next generation.
    pub fn start(&mut self, node: u32) {
        let generation = &mut self.generations[node as usize];
        *generation += 1;
        let settings = Settings {
            fan_out: self.setup.fan_out,
            ..Settings::new(NodeId(node + 1), Generation(*generation), self.random.next_u64())
        };
        let restarts = *generation > 1;
        let mut gossip = Gossip::new(settings);
        if self.publishes(node) || restarts {
            let roles = RoleSet::EMPTY.with(Role::Worker).bits();
            let core = Core { core: 3, generation: 1, roles, changed: 0 };
            for update in [Update::Core(core), Update::Publish(instance(node, 1))] {
                self.note_refusal(gossip.set_local(update).is_err());
            }
        }
        gossip.start(self.world.now());
        self.nodes[node as usize] = Some(gossip);
        self.trace.note(self.world.now(), node.into(), 0, 0);
        self.collect(node);
    }

    /// Kills a node: it says nothing any more.
    pub fn kill(&mut self, node: u32) {
        self.trace.note(self.world.now(), node.into(), 1, 0);
        self.nodes[node as usize] = None;
        self.world.set_timer(Host(node), None);
    }

    /// Has a node leave in order.
    pub fn leave(&mut self, node: u32) {
        if let Some(gossip) = &mut self.nodes[node as usize] {
            gossip.leave();
        }
        self.collect(node);
        self.kill(node);
    }

    /// Changes a node's directory.
    pub fn update(&mut self, node: u32, update: Update) {
        if let Some(gossip) = &mut self.nodes[node as usize] {
            let refused = gossip.set_local(update).is_err();
            self.note_refusal(refused);
        }
        self.collect(node);
    }

    fn note_refusal(&mut self, refused: bool) {
        if refused {
            self.breaks("a node could not publish".into());
        }
    }

    /// Publishes an instance and follows it: [`Cluster::reached`] tells when all know it.
    pub fn follow(&mut self, node: u32, number: u16) {
        let missing: Vec<bool> =
            (0..).zip(&self.nodes).map(|(n, it)| it.is_some() && n != node).collect();
        let left = missing.iter().filter(|missing| **missing).count() as u32;
        let last = self.world.now();
        self.followed = Some(Followed { node: NodeId(node + 1), number, missing, left, last });
        self.update(node, Update::Publish(instance(node, number)));
    }

    /// When the change that is followed reached the last, or how many do not know it.
    pub fn reached(&self) -> Result<Instant, u32> {
        match &self.followed {
            Some(Followed { left, .. }) if *left > 0 => Err(*left),
            Some(followed) => Ok(followed.last),
            None => Ok(self.world.now()),
        }
    }

    /// Lets things happen for so many rounds. Fails with the first invariant that is broken.
    pub fn run(&mut self, rounds: u32) -> Result<(), String> {
        self.run_for(Cluster::period() * rounds)
    }

    pub fn run_for(&mut self, span: Duration) -> Result<(), String> {
        let end = self.world.now() + span;
        while let Some(happening) = self.world.next(end) {
            match happening {
                Happening::Frame { to, frame } => self.receive(to.0, &frame),
                Happening::Timer(host) => {
                    let now = self.world.now();
                    if let Some(gossip) = &mut self.nodes[host.index()] {
                        gossip.on_time(now);
                    }
                    self.collect(host.0);
                }
            }
            if self.broken.is_some() {
                break;
            }
        }
        self.broken.clone().map_or(Ok(()), Err)
    }

    fn receive(&mut self, to: u32, frame: &[u8]) {
        let Some(gossip) = &mut self.nodes[to as usize] else { return };
        let now = self.world.now();
        let is_broadcast = frame[0] & 1 == 1;
        let header = if is_broadcast { BROADCAST_HEADER } else { GOSSIP_HEADER };
        let Some((head, payload)) = frame[HEADER_BYTES..].split_at_checked(header) else { return };
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if word(0) != check(word(4), payload) {
            return;
        }
        let from = NodeId(word(4));
        self.trace.note(now, to.into(), 2, u64::from(from.0) << 32 | u64::from(word(0)));
        gossip.receive(now, from, payload, is_broadcast);
        self.collect(to);
    }

    /// Sends what a node wants to say, looks at what it tells, and sets its timer.
    fn collect(&mut self, node: u32) {
        let own = NodeId(node + 1);
        let mut frame = Vec::new();
        loop {
            let Some(gossip) = &mut self.nodes[node as usize] else { return };
            let Some((to, payload)) = gossip.poll_transmit() else { break };
            let (to, header) = match to {
                Destination::Broadcast => (MacAddress::BROADCAST, BROADCAST_HEADER),
                Destination::Node(to) => (MacAddress::local(to, 0), GOSSIP_HEADER),
            };
            frame.clear();
            frame.extend_from_slice(&to.0);
            frame.extend_from_slice(&MacAddress::local(own, 0).0);
            frame.extend_from_slice(&CALLS.to_be_bytes());
            frame.extend_from_slice(&check(own.0, &payload).to_be_bytes());
            frame.extend_from_slice(&own.0.to_be_bytes());
            frame.resize(HEADER_BYTES + header, 0);
            frame.extend_from_slice(&payload);
            self.bytes += frame.len() as u64;
            self.world.send(Host(node), &frame);
        }
        while let Some(event) = self.nodes[node as usize].as_mut().and_then(Gossip::poll_event) {
            self.look_at(node, event);
        }
        let due = self.nodes[node as usize].as_ref().and_then(Gossip::next_due);
        self.world.set_timer(Host(node), due);
    }

    /// Checks what `observer` is told.
    fn look_at(&mut self, observer: u32, event: Event) {
        let now = self.world.now();
        match event {
            Event::NodeUp { node, generation } | Event::NodeDown { node, generation } => {
                self.see(observer, node, generation);
                let is_death = matches!(event, Event::NodeDown { .. });
                self.trace.note(now, observer.into(), 3 + u8::from(is_death), node.0.into());
                if is_death && self.is_reachable(observer, node, generation) {
                    self.false_deaths += 1;
                }
            }
            Event::NodeRestarted { node, old, generation } => {
                if old >= generation {
                    self.breaks(format!(
                        "{node} went from {old} to {generation} on n{}",
                        observer + 1
                    ));
                }
                self.see(observer, node, generation);
            }
            Event::Published { node, instance: told } => {
                let wanted = instance(node.0 - 1, told.number);
                let is_right =
                    Instance { changed: told.changed, core: told.core, ..wanted } == told;
                if !is_right {
                    self.breaks(format!("{node} did not publish what n{} is told", observer + 1));
                }
                self.has_reached(observer, node, told.number);
            }
            Event::GenerationTaken { generation } => {
                // Every life of a node has a generation of its own here, and the latest is running.
                self.breaks(format!("n{} is told that {generation} is taken", observer + 1));
            }
            Event::Namesake { generation, .. } => {
                self.breaks(format!(
                    "n{} is told that it is another's: {generation}",
                    observer + 1
                ));
            }
            _ => {}
        }
    }

    fn see(&mut self, observer: u32, node: NodeId, generation: Generation) {
        let latest = self.generations[node.0 as usize - 1];
        if generation.0 > latest {
            self.breaks(format!("n{} believes in {node} {generation}", observer + 1));
        }
        if latest > 1 {
            let seen = self.seen.entry((observer, node.0)).or_insert(1);
            if generation.0 < *seen {
                let seen = *seen;
                self.breaks(format!("{node} {generation} came back after g{seen}"));
            } else {
                *seen = generation.0;
            }
        }
    }

    fn is_reachable(&self, observer: u32, node: NodeId, generation: Generation) -> bool {
        let place = node.0 - 1;
        let lives = self.is_running(place) && self.generations[place as usize] == generation.0;
        let sides = self.sides.as_ref();
        lives && sides.is_none_or(|sides| sides[observer as usize] == sides[place as usize])
    }

    fn has_reached(&mut self, observer: u32, node: NodeId, number: u16) {
        let now = self.world.now();
        if let Some(followed) = &mut self.followed
            && (followed.node, followed.number) == (node, number)
            && std::mem::take(&mut followed.missing[observer as usize])
        {
            followed.left -= 1;
            followed.last = now;
        }
    }

    fn breaks(&mut self, what: String) {
        let now = self.world.now();
        self.broken.get_or_insert_with(|| format!("{what}, at {now}"));
    }

    /// How many nodes run.
    pub fn running(&self) -> usize {
        self.nodes.iter().flatten().count()
    }

    /// Whether all running nodes know the same, and of as many nodes as there are.
    pub fn agrees(&self) -> bool {
        let mut running = self.nodes.iter().flatten();
        let Some(first) = running.next() else { return true };
        let (digest, count) = (first.digest(), self.running());
        first.live() == count && running.all(|it| it.digest() == digest && it.live() == count)
    }

    /// Waits until all know the same. Gives the rounds that it took; fails after `most`.
    pub fn settle(&mut self, most: u32) -> Result<u32, String> {
        for rounds in 0..most {
            if self.agrees() {
                self.check_all()?;
                return Ok(rounds);
            }
            self.run(1)?;
        }
        let running = self.running();
        let wrong = self.nodes.iter().flatten().filter(|it| it.live() != running).count();
        Err(format!("{most} rounds were not enough: {wrong} of {running} nodes see others live"))
    }

    /// What all agree on is the truth: who lives, in which generation, with which directory. As the
    /// digests are equal, it is enough that some look at everything where all would take minutes.
    fn check_all(&self) -> Result<(), String> {
        const OBSERVERS: usize = 256;
        let step = self.nodes.len().div_ceil(OBSERVERS);
        for (at, observer) in (1_u32..).zip(&self.nodes).step_by(step) {
            let Some(observer) = observer else { continue };
            for (place, node) in self.nodes.iter().enumerate() {
                let name = NodeId(place as u32 + 1);
                let Some(node) = node else { continue };
                let wanted = Generation(self.generations[place]);
                let member = observer.member(name);
                let is_right =
                    member.is_some_and(|it| it.generation == wanted && it.state != State::Down);
                if !is_right || observer.directory(name) != node.directory(name) {
                    return Err(format!("n{at} does not know {name} as it is"));
                }
            }
        }
        Ok(())
    }

    /// What was counted.
    pub fn figures(&self) -> Vec<Figure> {
        vec![Figure::new("living nodes held for dead", self.false_deaths as f64, "times")]
    }
}

/// A fixed function of a frame's sender and data.
fn check(from: u32, payload: &[u8]) -> u32 {
    let mut hasher = FnvHasher::default();
    hasher.write(&from.to_le_bytes());
    hasher.write(payload);
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

/// What a node publishes by a number.
pub fn instance(node: u32, number: u16) -> Instance {
    Instance {
        number,
        core: 3,
        generation: 1,
        name: format!("store-{}-{number}", node + 1),
        type_name: "store".into(),
        subsystem: "storage".into(),
        capability: "blocks".into(),
        layer: nile_gossip::Layer::Low,
        extends: Vec::new(),
        keywords: vec![Keyword { word: "disk".into(), weight: 3 }],
        attributes: Vec::new(),
        changed: 0,
    }
}
