//! The network, and nodes whose memory knows what belongs in it.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, MacAddress, NodeId, Part};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::seal::{Sealer, Unsealed};
use crate::{
    Endpoint, Event, Gone, IncomingId, Link, Memory, OutgoingId, Send, Settings, Shown, Transfer,
    Why,
};

pub const STANDARD: usize = 1514;
pub const JUMBO: usize = 9014;

/// The byte at a place of everything that is sent under a tag.
pub fn byte(tag: u64, offset: u64) -> u8 {
    let word = tag.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(offset);
    let mixed = (word ^ word >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as u8
}

/// What a node's owners have.
#[derive(Default)]
pub struct Heap {
    /// The tags of what it sends.
    pub tags: BTreeMap<OutgoingId, u64>,
    /// What has come, and how often each byte was written.
    pub arrived: BTreeMap<IncomingId, (Vec<u8>, Vec<u8>)>,
    pub gone: bool,
}

impl Memory for Heap {
    fn read(&mut self, transfer: OutgoingId, offset: u64, into: &mut [u8]) -> Result<(), Gone> {
        let tag = *self.tags.get(&transfer).filter(|_| !self.gone).ok_or(Gone)?;
        into.iter_mut().zip(offset..).for_each(|(place, at)| *place = byte(tag, at));
        Ok(())
    }

    fn write(&mut self, transfer: IncomingId, offset: u64, bytes: &[u8]) -> Result<(), Gone> {
        if self.gone {
            return Err(Gone);
        }
        let (memory, written) = self.arrived.entry(transfer).or_default();
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        if memory.len() < end {
            memory.resize(end, 0);
            written.resize(end, 0);
        }
        memory[start..end].copy_from_slice(bytes);
        written[start..end].iter_mut().for_each(|count| *count += 1);
        Ok(())
    }
}

/// Where the bytes are that are sent under a tag: two parts of buffers.
pub fn shown(tag: u64, total: u64) -> Shown {
    let (total, half) = (total as u32, total as u32 / 2);
    let part = |index, start, bytes| Part { index, generation: 7, start, bytes };
    Shown { memory: tag, parts: vec![part(3, 0, half), part(9, half, total - half)] }
}

pub struct Node {
    pub endpoint: Endpoint,
    pub heap: Heap,
    pub sealer: alloc::boxed::Box<dyn Sealer>,
    pub events: Vec<Event>,
    /// Announced transfers are accepted with this much room.
    pub room: Option<u64>,
    /// Whether it says where what it sends is, and reads what others have there.
    pub shares: bool,
}

/// Chances in a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    pub duplicate: u32,
    pub reorder: u32,
    pub corrupt: u32,
}

pub struct Network {
    pub now: Instant,
    pub nodes: Vec<Node>,
    pub delay: Duration,
    pub faults: Faults,
    /// Nobody reaches this node, nor it anybody.
    pub cut: Option<usize>,
    /// Every frame that was sent.
    pub log: Vec<(usize, Vec<u8>)>,
    /// The most bytes that were on their way to a node at once.
    pub most_on_the_way: Vec<usize>,
    on_the_way: Vec<usize>,
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    order: u64,
    random: Xoshiro256PlusPlus,
}

pub fn link(max_frame: usize) -> Link {
    Link { max_frame, rate: None, window: 125_000, trusted: false }
}

pub fn settings(node: usize, generation: u32, link: Link) -> Settings {
    let id = NodeId(node as u32);
    Settings::new(id, Generation(generation), MacAddress::local(id, 0), link)
}

pub fn node(settings: Settings) -> Node {
    Node {
        endpoint: Endpoint::new(settings),
        heap: Heap::default(),
        sealer: alloc::boxed::Box::new(Unsealed),
        events: Vec::new(),
        room: Some(u64::MAX),
        shares: false,
    }
}

impl Network {
    /// Nodes with standard frames, in their first generation.
    pub fn new(nodes: usize) -> Network {
        Network::of((0..nodes).map(|at| node(settings(at, 1, link(STANDARD)))).collect())
    }

    pub fn of(nodes: Vec<Node>) -> Network {
        Network {
            now: Instant::START,
            delay: Duration::from_micros(20),
            faults: Faults::default(),
            cut: None,
            log: Vec::new(),
            most_on_the_way: vec![0; nodes.len()],
            on_the_way: vec![0; nodes.len()],
            flying: BTreeMap::new(),
            order: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(7),
            nodes,
        }
    }

    pub fn with_faults(mut self, seed: u64, faults: Faults) -> Network {
        (self.random, self.faults) = (Xoshiro256PlusPlus::seed_from_u64(seed), faults);
        self
    }

    pub fn send(&mut self, from: usize, to: usize, tag: u64, total: Option<u64>) -> OutgoingId {
        let send = Send {
            to: NodeId(to as u32),
            generation: None,
            source_core: CoreId(1),
            core: CoreId(2),
            tag,
            label: !tag,
            total,
        };
        let id = self.nodes[from].endpoint.send(self.now, send).unwrap();
        self.nodes[from].heap.tags.insert(id, tag);
        if self.nodes[from].shares
            && let Some(total) = total
        {
            self.nodes[from].endpoint.show(id, &shown(tag, total));
        }
        self.settle(from);
        id
    }

    fn happens(&mut self, chance: u32) -> bool {
        self.random.next_u32() % 1000 < chance
    }

    /// Sends what a node has to say, and takes its events.
    pub fn settle(&mut self, at: usize) {
        let mut out = vec![0; JUMBO];
        loop {
            let node = &mut self.nodes[at];
            while let Some(event) = node.endpoint.poll() {
                if let Event::Announced { transfer, tag, .. } = event {
                    node.heap.tags.insert(OutgoingId(u32::MAX - transfer.number), tag);
                    if let Some(shown) = node.endpoint.shown(transfer).filter(|_| node.shares) {
                        let bytes = shown.total();
                        assert_eq!(*shown, self::shown(tag, bytes));
                        let row: Vec<u8> = (0..bytes).map(|at| byte(tag, at)).collect();
                        assert_eq!(node.heap.write(transfer, 0, &row), Ok(()));
                        node.endpoint.fetched(transfer);
                    } else if let Some(room) = node.room {
                        node.endpoint.accept(self.now, transfer, room);
                    }
                }
                node.events.push(event);
            }
            let sealer = &mut *node.sealer;
            let written = node.endpoint.transmit(self.now, &mut out, &mut node.heap, sealer);
            let Some(bytes) = written else { break };
            self.fly(at, out[..bytes].to_vec());
        }
    }

    fn fly(&mut self, from: usize, frame: Vec<u8>) {
        self.log.push((from, frame.clone()));
        for to in (0..self.nodes.len()).filter(|to| *to != from) {
            // As a switch does it: to one node if it is known where that is.
            let own = MacAddress::local(NodeId(to as u32), 0).0;
            if frame[..6] != own && frame[..6] != MacAddress::BROADCAST.0 {
                continue;
            }
            let copies = if self.happens(self.faults.duplicate) { 2 } else { 1 };
            for _ in 0..copies {
                if self.happens(self.faults.loss) || [Some(from), Some(to)].contains(&self.cut) {
                    continue;
                }
                let late = self.happens(self.faults.reorder).then(|| self.random.next_u32() % 200);
                let at =
                    self.now + self.delay + Duration::from_micros(u64::from(late.unwrap_or(0)));
                let mut copy = frame.clone();
                if self.happens(self.faults.corrupt) {
                    let place = 14 + self.random.next_u32() as usize % (copy.len() - 14);
                    copy[place] ^= 1 << (self.random.next_u32() % 8);
                }
                self.on_the_way[to] += copy.len();
                self.most_on_the_way[to] = self.most_on_the_way[to].max(self.on_the_way[to]);
                self.order += 1;
                self.flying.insert((at, self.order), (to, copy));
            }
        }
    }

    /// Hands a frame to a node.
    pub fn deliver(&mut self, to: usize, frame: &[u8]) {
        let node = &mut self.nodes[to];
        node.endpoint.receive(self.now, frame, &mut node.heap, &mut *node.sealer);
        self.settle(to);
    }

    /// Lets so much time pass.
    pub fn run(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            let frame = self.flying.first_key_value().map(|(key, _)| key.0);
            let timers = self.nodes.iter().filter_map(|node| node.endpoint.next_due());
            let Some(next) = timers.chain(frame).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if frame.is_some_and(|frame| frame <= self.now) {
                let (_, (to, frame)) = self.flying.pop_first().unwrap();
                self.on_the_way[to] -= frame.len();
                self.deliver(to, &frame);
                continue;
            }
            for at in 0..self.nodes.len() {
                if self.nodes[at].endpoint.next_due().is_some_and(|due| due <= self.now) {
                    self.nodes[at].endpoint.on_time(self.now);
                    self.settle(at);
                }
            }
        }
        self.now = end;
    }

    /// How a transfer ended at a node: bytes, or why it failed.
    pub fn end(&self, at: usize, transfer: impl Into<Transfer>) -> Option<Result<u64, Why>> {
        let wanted = transfer.into();
        let mut ends = self.nodes[at].events.iter().filter_map(|event| match *event {
            Event::Finished { transfer, bytes } if transfer == wanted => Some(Ok(bytes)),
            Event::Failed { transfer, why } if transfer == wanted => Some(Err(why)),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "a transfer ends once");
        end
    }

    /// The name at its receiver of what `from` sends in its first generation.
    pub fn incoming(from: usize, id: OutgoingId) -> IncomingId {
        IncomingId { from: NodeId(from as u32), generation: Generation(1), number: id.0 }
    }

    /// Checks that a transfer has arrived as it was sent, each byte once.
    pub fn assert_arrived(&self, from: usize, to: usize, id: OutgoingId, bytes: u64) {
        let incoming = Network::incoming(from, id);
        assert_eq!(self.end(from, id), Some(Ok(bytes)), "at the sender of {id:?}");
        assert_eq!(self.end(to, incoming), Some(Ok(bytes)), "at the receiver of {id:?}");
        let tag = self.nodes[from].heap.tags[&id];
        let empty = (Vec::new(), Vec::new());
        let (memory, written) = self.nodes[to].heap.arrived.get(&incoming).unwrap_or(&empty);
        assert_eq!(memory.len() as u64, bytes);
        assert!(written.iter().all(|count| *count == 1), "bytes were written twice, or not");
        assert!(memory.iter().zip(0..).all(|(it, at)| *it == byte(tag, at)), "wrong bytes");
    }
}
