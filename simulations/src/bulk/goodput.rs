//! How much of a link transfers use: bytes of data that have arrived, of the bits that the
//! receiver's link could have carried from the first announcement to the end of the last
//! transfer. What headers, gaps between frames and losses take is what is missing.

use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant, NodeId};
use nile_bulk::wire::{Body, Frame};
use nile_bulk::{Event, Link, Send, Transfer};
use nile_switch::{Link as Cable, Probability, Rate};

use super::memory::Received;
use super::node::{Node, rewrite};
use crate::report::{Figure, Target};
use crate::trace::Trace;
use crate::world::{Happening, World};

/// The simulated network: 10 Gbit/s, 10 µs in each cable, of which a path has two, and one frame
/// in a thousand lost in each.
const RATE: u64 = 10_000_000_000;
const DELAY: Duration = Duration::from_micros(10);
const LOSS: Probability = Probability::per_million(1000);

/// Through idle queues: four cables, and what the largest frames take of the wire on the way.
const ROUND_TRIP: Duration = Duration::from_micros(56);

/// Bytes for each receiver, whatever the number of senders: 80 ms of its link.
const BYTES: u64 = 100 << 20;

/// The same where every node receives.
const SHUFFLED: u64 = 20 << 20;

/// When a run is given up, as a multiple of what the link needs for nothing but the data.
const PATIENCE: u32 = 4;

/// What flows to one receiver must reach, and a shuffle, whose last transfers have their links for
/// themselves and leave those of others idle.
const TARGET: f64 = 0.9;
const SHUFFLE_TARGET: f64 = 0.8;

/// One measurement.
pub struct Case {
    pub name: String,
    pub nodes: u32,
    pub flows: Flows,
    pub max_frame: usize,
    /// Whether senders keep to their credit. If not, the target must be missed.
    pub obedient: bool,
}

/// Who sends to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flows {
    /// All others to node 0.
    ToOne,
    /// Each node to every other, as mappers to reducers: links of senders are shared, too.
    Shuffle,
}

/// What was measured.
pub struct Measured {
    /// The part of the receivers' links that was used; frames that found a queue of the network
    /// full; frames that were sent again.
    pub figures: Vec<Figure>,
    /// The invariant that was broken, if one was.
    pub broken: Option<String>,
}

/// One flow, and `senders` flows to one receiver, with standard and with jumbo frames; a shuffle
/// of as many nodes with jumbo frames.
pub fn cases(senders: u32) -> Vec<Case> {
    let sorts = [("standard", 1514), ("jumbo", 9014)];
    let mut cases = Vec::new();
    for (sort, max_frame) in sorts {
        let mut case = |flows: String, nodes: u32, kind: Flows| {
            let name = format!("{flows}, {sort} frames");
            cases.push(Case { name, nodes, flows: kind, max_frame, obedient: true });
        };
        case("one flow".into(), 2, Flows::ToOne);
        if senders > 1 {
            case(format!("{senders} senders"), senders + 1, Flows::ToOne);
        }
        if senders > 1 && sort == "jumbo" {
            case(format!("a shuffle of {senders} nodes"), senders, Flows::Shuffle);
        }
    }
    cases
}

impl Case {
    fn receivers(&self) -> u32 {
        if self.flows == Flows::ToOne { 1 } else { self.nodes }
    }

    fn target(&self) -> f64 {
        if self.flows == Flows::ToOne { TARGET } else { SHUFFLE_TARGET }
    }

    /// Bytes of each transfer.
    fn share(&self) -> u64 {
        let bytes = if self.flows == Flows::ToOne { BYTES } else { SHUFFLED };
        bytes / u64::from(self.nodes - 1)
    }

    /// What a node's owner begins with.
    fn begin(&self, seed: u64, node: &mut Node) {
        let others = (0..self.receivers()).filter(|to| *to != node.host.0);
        // Each begins with another receiver.
        let mut others: Vec<u32> = others.collect();
        let first = node.host.index() % others.len().max(1);
        others.rotate_left(first);
        for to in others {
            let send = Send {
                to: NodeId(to),
                generation: Some(Generation::FIRST),
                source_core: CoreId(1),
                core: CoreId(1),
                tag: seed ^ u64::from(node.host.0) << 32 ^ u64::from(to),
                label: 0,
                total: Some(self.share()),
            };
            let id = node.endpoint.send(Instant::START, send).expect("a new endpoint has room");
            node.memory.sent.insert(id, send.tag);
        }
    }
}

/// Lets the nodes of a case send, until all has arrived.
pub fn measure(seed: u64, case: &Case, trace: &mut Trace) -> Measured {
    let mut world = World::new(seed);
    world.set_all_links(Cable {
        delay: DELAY,
        rate: Rate::bits_per_second(RATE),
        loss: LOSS,
        ..Cable::PERFECT
    });
    let link = Link::network(case.max_frame, RATE, ROUND_TRIP);
    let new = |world: &mut World| Node::new(world.add_host(), Generation::FIRST, link, seed);
    let mut nodes: Vec<Node> = (0..case.nodes).map(|_| new(&mut world)).collect();
    for node in &mut nodes {
        case.begin(seed, node);
        node.settle(&mut world, trace);
    }
    let transfers = case.receivers() * (case.nodes - 1);
    let all = u64::from(transfers) * case.share();
    let least = Duration::from_nanos(all / u64::from(case.receivers()) * 8_000_000_000 / RATE);
    let end = Instant::START + least * PATIENCE;
    let (mut arrived, mut finished, mut failed) = (0, [0; 2], None);
    let mut last = Instant::START;
    while finished != [transfers; 2] && failed.is_none() {
        let Some(happening) = world.next(end) else { break };
        let now = world.now();
        let node = match happening {
            Happening::Frame { to, frame } => {
                let node = &mut nodes[to.index()];
                match (case.obedient, grant_all(&frame)) {
                    (false, Some(generous)) => node.receive(now, &generous),
                    _ => node.receive(now, &frame),
                }
                node
            }
            Happening::Timer(host) => {
                nodes[host.index()].endpoint.on_time(now);
                &mut nodes[host.index()]
            }
        };
        while let Some(event) = node.endpoint.poll() {
            match event {
                Event::Announced { transfer, tag, total, .. } => {
                    let received = Received::new(tag, total);
                    node.memory.received.insert(transfer, received);
                    node.endpoint.accept(now, transfer, u64::MAX);
                }
                Event::Progress { .. } => {}
                Event::Finished { transfer, bytes } => {
                    let receives = matches!(transfer, Transfer::In(_));
                    finished[usize::from(receives)] += 1;
                    if receives {
                        (arrived, last) = (arrived + bytes, now);
                    }
                }
                Event::Failed { transfer, why } => failed = Some(format!("{transfer:?}: {why}")),
            }
        }
        if let Some(wrong) = node.memory.wrong.take() {
            failed = Some(wrong);
        }
        node.settle(&mut world, trace);
    }
    let received = nodes.iter().flat_map(|node| node.memory.received.values());
    let written = received.map(|it| it.bytes).sum::<u64>();
    let unfinished = (written != all || arrived != written)
        .then(|| format!("{written} bytes were written in time, {arrived} in whole transfers"));
    let wrong = failed.or(unfinished.filter(|_| case.obedient));
    let nanos = if arrived == written { last.as_nanos() } else { end.as_nanos() };
    let capacity = f64::from(case.receivers()) * RATE as f64 * nanos.max(1) as f64 / 1e9;
    let goodput = written as f64 * 8.0 / capacity;
    let overflowed = nodes.iter().map(|node| world.counts(node.host).overflowed).sum::<u64>();
    let repeated = nodes.iter().map(|node| node.endpoint.counters().repeated).sum::<u64>();
    let name = &case.name;
    let figures = vec![
        Figure::new(&format!("goodput of {name}"), goodput, "of the link")
            .with_target(Target::AtLeast(case.target())),
        Figure::new(&format!("frames of {name} that found a queue full"), overflowed as f64, "")
            .with_target(Target::AtMost(0.0)),
        Figure::new(&format!("frames of {name} that were sent again"), repeated as f64, ""),
    ];
    let broken = wrong.map(|wrong| format!("{name}: {wrong}"));
    Measured { figures, broken }
}

/// The credit of a frame as a sender reads it who takes what it likes. `None` if it is no credit.
fn grant_all(bytes: &[u8]) -> Option<Vec<u8>> {
    const GENEROUS: u32 = 4096;
    let frame = Frame::parse(bytes).ok()?;
    let mut header = frame.header;
    let Body::Credit(credit) = &mut header.body else { return None };
    credit.limit = credit.next.wrapping_add(GENEROUS);
    credit.end = credit.base.saturating_add(GENEROUS);
    rewrite(&header, frame.data(), bytes)
}
