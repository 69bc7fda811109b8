//! Nodes that send to each other, buffers and streams, while the network loses, doubles, delays
//! and damages frames and falls into parts, and nodes restart. At the end all is well again, and
//! every transfer must be over.
//!
//! What must hold at every step:
//!
//! * what is written belongs there, was accepted, and was not written before (`memory`);
//! * a transfer is offered once to an incarnation, and only to the one it was meant for;
//! * it ends once at each end; its sender is told that all has arrived only after it has;
//! * it ends early only because somebody cancelled it or an incarnation is gone, never by itself.

use std::collections::BTreeMap;
use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, NodeId, Status};
use nile_bulk::wire::{Frame, Header};
use nile_bulk::{Event, IncomingId, Link, OutgoingId, Send, Transfer, Why};
use nile_switch::{Link as Cable, Probability, Rate};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::memory::Received;
use super::node::{Node, rewrite};
use crate::trace::Trace;
use crate::world::{Happening, Host, World};

/// For how long things go wrong, and how long it may take afterwards until all is over: the
/// longest partition is shorter than what ends a transfer.
const TROUBLE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(15);

/// How often something new is done.
const STEP: Duration = Duration::from_millis(1);

const RATE: u64 = 1_000_000_000;

/// One sent transfer, by its sender, the sender's incarnation and its number.
type Key = (NodeId, Generation, u32);

/// What is known of a transfer.
struct Sent {
    to: Host,
    /// The receiver's incarnation when it was sent.
    known: Generation,
    /// Whether it was meant for that one alone.
    exact: bool,
    seed: u64,
    offered: u64,
    /// Bytes in all; of streams only when they are finished.
    total: Option<u64>,
    out_end: Option<Result<u64, Why>>,
    /// How it ended at each incarnation of its receiver.
    in_ends: BTreeMap<Generation, Result<u64, Why>>,
}

struct Cluster<'a> {
    world: World,
    nodes: Vec<Node>,
    random: ChaCha8Rng,
    trace: &'a mut Trace,
    sent: BTreeMap<Key, Sent>,
    /// Transfers for which their receivers made little room at first.
    short: Vec<(Host, IncomingId)>,
    /// When the network is to be whole again.
    heals: Option<Instant>,
    seed: u64,
    saboteur: Option<&'a Saboteur>,
}

/// Somebody who tampers with frames on their way and corrects their checksums, so that each check
/// can be seen to fail.
pub struct Saboteur {
    /// One frame in so many is tampered with.
    pub seldom: u64,
    /// What is done to the header and the data of a frame; `false` if nothing.
    pub tamper: fn(&mut Header, &mut Vec<u8>) -> bool,
}

/// How a run went, besides that nothing was broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Story {
    pub sent: usize,
    pub delivered: usize,
    pub restarts: usize,
}

/// One run. The error says what must not have happened.
pub fn run(
    seed: u64,
    nodes: u32,
    saboteur: Option<&Saboteur>,
    trace: &mut Trace,
) -> Result<Story, String> {
    let mut world = World::new(seed);
    let hosts: Vec<Host> = (0..nodes).map(|_| world.add_host()).collect();
    // Its timer is when the next thing is done; nothing is ever sent to it.
    let operator = world.add_host();
    let mut cluster = Cluster {
        world,
        nodes: Vec::new(),
        random: ChaCha8Rng::seed_from_u64(seed),
        trace,
        sent: BTreeMap::new(),
        short: Vec::new(),
        heals: None,
        seed,
        saboteur,
    };
    for host in hosts {
        let link = cluster.link();
        cluster.nodes.push(Node::new(host, Generation::FIRST, link, seed));
    }
    cluster.spoil();
    cluster.world.set_timer(operator, Some(Instant::START + STEP));
    let end = Instant::START + TROUBLE;
    while let Some(happening) = cluster.world.next(end) {
        if happening == Happening::Timer(operator) {
            cluster.act()?;
            let next = cluster.world.now() + STEP;
            cluster.world.set_timer(operator, Some(next));
        } else {
            cluster.happen(happening)?;
        }
    }
    cluster.world.set_timer(operator, None);
    cluster.calm()?;
    while let Some(happening) = cluster.world.next(end + AFTER) {
        cluster.happen(happening)?;
    }
    cluster.check_over()
}

impl Cluster<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.next_u64() % bound
    }

    fn any_host(&mut self) -> Host {
        Host(self.below(self.nodes.len() as u64) as u32)
    }

    /// A link of a new incarnation: not all interfaces take frames of the same size.
    fn link(&mut self) -> Link {
        let max_frame = [1514, 1514, 9014, 600][self.below(4) as usize];
        Link::network(max_frame, RATE, Duration::from_micros(200))
    }

    /// New faults on all cables.
    fn spoil(&mut self) {
        let mut chance = |most: u64| {
            let parts = if self.below(2) == 0 { 0 } else { self.below(most) };
            Probability::per_million(parts as u32)
        };
        let cable = Cable {
            rate: Rate::bits_per_second(RATE),
            loss: chance(100_000),
            duplicate: chance(100_000),
            reorder: chance(200_000),
            corrupt: chance(50_000),
            ..Cable::PERFECT
        };
        let delay = Duration::from_micros(1 + self.below(100));
        self.world.set_all_links(Cable { delay, ..cable });
    }

    /// Does one thing.
    fn act(&mut self) -> Result<(), String> {
        if self.heals.is_some_and(|at| at <= self.world.now()) {
            self.heals = None;
            self.world.heal();
        }
        match self.below(100) {
            0..60 => self.send(),
            60..75 => self.go_on(),
            75..85 => self.make_room(),
            85..90 => self.cancel(),
            90..93 => self.restart(),
            93..96 => self.spoil(),
            96 if self.heals.is_none() => self.part(),
            _ => {}
        }
        for host in 0..self.nodes.len() {
            self.settle(Host(host as u32))?;
        }
        Ok(())
    }

    fn send(&mut self) {
        let from = self.any_host();
        let to = self.any_host();
        if to == from {
            return;
        }
        let most = [100, 10_000, 300_000][self.below(3) as usize];
        let bytes = self.below(most);
        let is_stream = self.below(3) == 0;
        let total = (!is_stream).then_some(bytes);
        let known = self.nodes[to.index()].generation;
        let exact = self.below(2) == 0;
        let seed = self.random.next_u64();
        let send = Send {
            to: NodeId(to.0),
            generation: exact.then_some(known),
            source_core: CoreId(0),
            core: CoreId(0),
            tag: seed,
            label: 0,
            total,
        };
        let now = self.world.now();
        let node = &mut self.nodes[from.index()];
        let Ok(id) = node.endpoint.send(now, send) else { return };
        node.memory.sent.insert(id, seed);
        node.endpoint.offer(id, bytes);
        let sent = Sent {
            to,
            known,
            exact,
            seed,
            offered: bytes,
            total,
            out_end: None,
            in_ends: BTreeMap::new(),
        };
        self.sent.insert((NodeId(from.0), node.generation, id.number()), sent);
    }

    /// More of a stream, or its end.
    fn go_on(&mut self) {
        let ends = self.below(2) == 0;
        let more = self.below(100_000);
        let streams = self.sent.iter_mut().filter(|(_, it)| it.total.is_none());
        for (key, sent) in streams {
            let node = &mut self.nodes[key.0.0 as usize];
            let Some(id) = id_of(node, key) else { continue };
            sent.offered += more;
            node.endpoint.offer(id, sent.offered);
            if ends {
                sent.total = Some(sent.offered);
                node.endpoint.finish(id, sent.offered);
            }
        }
    }

    fn make_room(&mut self) {
        let now = self.world.now();
        for (host, id) in std::mem::take(&mut self.short) {
            self.nodes[host.index()].endpoint.accept(now, id, u64::MAX);
        }
    }

    /// Cancels one of the latest transfers, at either end.
    fn cancel(&mut self) {
        let back = self.below(5) as usize;
        let at_sender = self.below(2) == 0;
        let Some((key, sent)) = self.sent.iter().rev().nth(back) else { return };
        if at_sender {
            let node = &mut self.nodes[key.0.0 as usize];
            if let Some(id) = id_of(node, key) {
                node.endpoint.cancel(id, Status::Denied);
            }
        } else {
            let id = IncomingId { from: key.0, generation: key.1, number: key.2 };
            self.nodes[sent.to.index()].endpoint.cancel(id, Status::NoMemory);
        }
    }

    fn restart(&mut self) {
        let host = self.any_host();
        let link = self.link();
        let old = &self.nodes[host.index()];
        let (dead, next) = (old.generation, old.generation.next());
        self.nodes[host.index()] = Node::new(host, next, link, self.seed);
        self.short.retain(|(at, _)| *at != host);
        // Some hear of it by gossip, before anything else tells them.
        let hears = self.any_host();
        if hears != host {
            self.nodes[hears.index()].endpoint.peer_dead(NodeId(host.0), dead);
        }
    }

    fn part(&mut self) {
        let cut = self.any_host();
        let hosts = (0..self.nodes.len() as u32).map(Host);
        let others: Vec<Host> = hosts.filter(|host| *host != cut).collect();
        self.world.partition(&[&[cut], &others]);
        let lasts = Duration::from_millis(1 + self.below(2000));
        self.heals = Some(self.world.now() + lasts);
    }

    /// Nothing goes wrong any more, and everything goes on.
    fn calm(&mut self) -> Result<(), String> {
        self.world.heal();
        self.world.set_all_links(Cable {
            delay: Duration::from_micros(10),
            rate: Rate::bits_per_second(RATE),
            ..Cable::PERFECT
        });
        self.make_room();
        for (key, sent) in &mut self.sent {
            let node = &mut self.nodes[key.0.0 as usize];
            if let (Some(id), None) = (id_of(node, key), sent.total) {
                sent.total = Some(sent.offered);
                node.endpoint.finish(id, sent.offered);
            }
        }
        (0..self.nodes.len()).try_for_each(|host| self.settle(Host(host as u32)))
    }

    fn happen(&mut self, happening: Happening) -> Result<(), String> {
        let now = self.world.now();
        let host = match happening {
            // The operator's interface is not attached to anything.
            Happening::Frame { to, .. } if to.index() >= self.nodes.len() => return Ok(()),
            Happening::Frame { to, frame } => {
                match self.tamper(&frame) {
                    Some(bytes) => self.nodes[to.index()].receive(now, &bytes),
                    None => self.nodes[to.index()].receive(now, &frame),
                }
                to
            }
            Happening::Timer(host) => {
                self.nodes[host.index()].endpoint.on_time(now);
                host
            }
        };
        self.settle(host)
    }

    /// What the saboteur makes of a frame, if anything.
    fn tamper(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let Saboteur { seldom, tamper } = self.saboteur?;
        if self.below(*seldom) > 0 {
            return None;
        }
        let frame = Frame::parse(bytes).ok()?;
        let (mut header, mut data) = (frame.header, frame.data().to_vec());
        tamper(&mut header, &mut data).then(|| rewrite(&header, &data, bytes))?
    }

    /// Takes what a node has to tell, checks it, and has it send.
    fn settle(&mut self, host: Host) -> Result<(), String> {
        while let Some(event) = self.nodes[host.index()].endpoint.poll() {
            self.take(host, event).map_err(|wrong| {
                format!("{wrong}: {event:?} at {} ({})", NodeId(host.0), self.world.now())
            })?;
        }
        let node = &mut self.nodes[host.index()];
        if let Some(wrong) = node.memory.wrong.take() {
            return Err(wrong);
        }
        let nonsense = node.endpoint.counters().nonsense;
        if nonsense > 0 {
            return Err(format!("{} got {nonsense} frames that make no sense", NodeId(host.0)));
        }
        node.settle(&mut self.world, self.trace);
        Ok(())
    }

    fn take(&mut self, host: Host, event: Event) -> Result<(), &'static str> {
        let now = self.world.now();
        let is_calm = now >= Instant::START + TROUBLE;
        let choice = if is_calm { 20 } else { self.below(20) };
        let Cluster { nodes, sent, short, .. } = self;
        let generation = nodes[host.index()].generation;
        match event {
            Event::Announced { transfer, tag, .. } => {
                let key = (transfer.from, transfer.generation, transfer.number);
                let sent = sent.get(&key).ok_or("nobody has sent that")?;
                if sent.to != host || tag != sent.seed || (sent.exact && sent.known != generation) {
                    return Err("it was offered to somebody else");
                }
                let node = &mut nodes[host.index()];
                let received = Received::new(sent.seed, sent.total);
                if node.memory.received.insert(transfer, received).is_some() {
                    return Err("it was offered twice");
                }
                match choice {
                    0 => node.endpoint.cancel(transfer, Status::Denied),
                    1..5 => {
                        node.endpoint.accept(now, transfer, 5000);
                        short.push((host, transfer));
                    }
                    _ => node.endpoint.accept(now, transfer, u64::MAX),
                }
            }
            Event::Progress { .. } => {}
            Event::Finished { transfer: Transfer::Out(id), bytes } => {
                let key = (NodeId(host.0), generation, id.number());
                let sent = sent.get_mut(&key).ok_or("nobody has sent that")?;
                if sent.out_end.replace(Ok(bytes)).is_some() {
                    return Err("it ended twice");
                }
                if sent.total != Some(bytes) || !sent.in_ends.values().any(|it| *it == Ok(bytes)) {
                    return Err("it has not arrived");
                }
            }
            Event::Finished { transfer: Transfer::In(id), bytes } => {
                let written = nodes[host.index()].memory.received.get(&id).map(|it| it.bytes);
                let sent = sent.get_mut(&(id.from, id.generation, id.number));
                let sent = sent.ok_or("nobody has sent that")?;
                if sent.in_ends.insert(generation, Ok(bytes)).is_some() {
                    return Err("it ended twice");
                }
                if sent.total != Some(bytes) || written != Some(bytes) {
                    return Err("not all of it was written");
                }
            }
            Event::Failed { transfer: Transfer::Out(id), why } => {
                let key = (NodeId(host.0), generation, id.number());
                let sent = sent.get_mut(&key).ok_or("nobody has sent that")?;
                if sent.out_end.replace(Err(why)).is_some() {
                    return Err("it ended twice");
                }
                let lives = nodes[sent.to.index()].generation == sent.known;
                let refused = sent.in_ends.values().any(Result::is_err);
                match why {
                    Why::Dead if lives => return Err("its receiver lives"),
                    Why::Cancelled(_) if !refused => return Err("nobody has cancelled it"),
                    Why::Timeout | Why::MemoryGone => return Err("it ended by itself"),
                    _ => {}
                }
            }
            Event::Failed { transfer: Transfer::In(id), why } => {
                let sent = sent.get_mut(&(id.from, id.generation, id.number));
                let sent = sent.ok_or("nobody has sent that")?;
                if sent.in_ends.insert(generation, Err(why)).is_some() {
                    return Err("it ended twice");
                }
                let lives = nodes[id.from.0 as usize].generation == id.generation;
                let cancelled = sent.out_end.is_some_and(|end| end.is_err());
                match why {
                    Why::Dead if lives => return Err("its sender lives"),
                    Why::Cancelled(_) if !cancelled => return Err("nobody has cancelled it"),
                    Why::Timeout | Why::MemoryGone => return Err("it ended by itself"),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Every transfer whose sender lives is over, and no endpoint has any left.
    fn check_over(&self) -> Result<Story, String> {
        for node in &self.nodes {
            let left = node.endpoint.transfers();
            if left != [0, 0] {
                return Err(format!("{} still has {left:?} transfers", NodeId(node.host.0)));
            }
        }
        let lives = |key: &Key| self.nodes[key.0.0 as usize].generation == key.1;
        if let Some((key, _)) =
            self.sent.iter().find(|(key, it)| lives(key) && it.out_end.is_none())
        {
            return Err(format!("{key:?} never ended at its sender"));
        }
        let delivered = self.sent.values().filter(|it| matches!(it.out_end, Some(Ok(_))));
        let restarts = self.nodes.iter().map(|node| node.generation.0 as usize - 1);
        Ok(Story { sent: self.sent.len(), delivered: delivered.count(), restarts: restarts.sum() })
    }
}

/// The name of a transfer at its sender, if that incarnation lives.
fn id_of(node: &Node, key: &Key) -> Option<OutgoingId> {
    let mine = node.memory.sent.keys().find(|id| id.number() == key.2);
    mine.copied().filter(|_| node.generation == key.1)
}
