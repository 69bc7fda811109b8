//! [`Gossip`]: what a node knows of the cluster, and how it learns and tells it.
//!
//! After every call that hands it a message, a moment or a change, its owner takes the messages
//! ([`Gossip::poll_transmit`]) and events ([`Gossip::poll_event`]) until there are no more, and
//! calls [`Gossip::on_time`] at the moment that [`Gossip::next_due`] then names. Nothing blocks.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Generation, Instant, NodeId};
use nile_order::SortedMap;
use rand_xoshiro::Xoshiro128PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::directory::{Directory, Room};
use crate::event::{Counters, Destination, Event};
use crate::identity::Id;
use crate::packer::Packer;
use crate::records::{Refused, Update};
use crate::rumours::Rumours;
use crate::settings::Settings;
use crate::swim::Swim;
use crate::table::{Member, State, Table, below};
use crate::watch::Watch;
use crate::wire::{CHANGES, EMPTY, OBSERVER, Poll, ROW, Row};

/// A node's gossip.
pub struct Gossip {
    pub(crate) settings: Settings,
    pub(crate) random: Xoshiro128PlusPlus,
    /// This node. An observer is not in the table.
    pub(crate) own: Row,
    pub(crate) table: Table,
    /// Those that have anything, this node's among them.
    pub(crate) directories: SortedMap<NodeId, Directory>,
    /// Of all directories.
    pub(crate) directory_bytes: usize,
    pub(crate) rumours: Rumours,
    pub(crate) watch: Watch,
    pub(crate) swim: Swim,
    /// Changes of directories that were asked for.
    pub(crate) wants: SortedMap<NodeId, Want>,
    /// When the dead died, as far as this node knows.
    pub(crate) dead: SortedMap<NodeId, Instant>,
    /// Nodes whose death is told by somebody who did not find it out, and when it is believed.
    pub(crate) doubts: SortedMap<NodeId, Instant>,
    /// The start broadcast, while it is unanswered.
    pub(crate) starting: Option<Starting>,
    /// The round in which it was repeated last for another node of this one's number.
    pub(crate) announced: Option<u32>,
    /// The next round, once it has started.
    pub(crate) round_at: Option<Instant>,
    pub(crate) round: u32,
    /// The round in which digests are compared next.
    pub(crate) compare_at: u32,
    /// The round in which they were compared last.
    pub(crate) compared: u32,
    /// Whether an answer has brought something new in this round.
    pub(crate) learned: bool,
    /// How many comparisons of all were taken part in, in this round.
    pub(crate) exchanges: u8,
    /// Whom news was pushed to in this round, because of a talk.
    pub(crate) talked: Vec<NodeId>,
    /// Who was told in this round that its life is over, or is held for over.
    pub(crate) rebuked: Vec<NodeId>,
    /// The highest generation of this node that its owner was warned of.
    pub(crate) taken: u32,
    pub(crate) out: VecDeque<(Destination, Vec<u8>)>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) counters: Counters,
}

/// Changes of a directory that were asked for.
pub(crate) struct Want {
    /// Who has them.
    pub teller: NodeId,
    /// The version that it has at least.
    pub version: u32,
    /// Whether they are news, to be told on.
    pub is_news: bool,
    /// The round in which they were asked for last.
    pub asked: u32,
    /// How often.
    pub times: u8,
}

/// The start broadcast.
pub(crate) struct Starting {
    pub at: Instant,
    pub wait: Duration,
}

impl Gossip {
    /// The gossip of a node that has not started. Bounds that are too small are raised to the
    /// least that works.
    pub fn new(mut settings: Settings) -> Gossip {
        let most = nile_bosml::MAX_MESSAGE;
        settings.message_bytes = settings.message_bytes.clamp(Settings::LEAST_MESSAGE, most);
        settings.period = settings.period.max(Duration::from_millis(1));
        let mut random = Xoshiro128PlusPlus::seed_from_u64(settings.seed);
        let own = Row {
            node: settings.node.0,
            generation: settings.generation.0,
            nonce: random.next_u32(),
            renewal: 0,
            live: true,
            version: 0,
        };
        let mut table = Table::default();
        if !settings.observer {
            table.set(own.clone());
        }
        let packet_bytes = settings.message_bytes - EMPTY;
        let seeded = Xoshiro128PlusPlus::seed_from_u64(random.next_u64());
        let swim = Swim::new(id(&own), settings.period, packet_bytes, settings.fan_out, seeded);
        Gossip {
            watch: Watch::new(settings.node),
            settings,
            random,
            own,
            table,
            directories: SortedMap::new(),
            directory_bytes: 0,
            rumours: Rumours::default(),
            swim,
            wants: SortedMap::new(),
            dead: SortedMap::new(),
            doubts: SortedMap::new(),
            starting: None,
            announced: None,
            round_at: None,
            round: 0,
            compare_at: 0,
            compared: 0,
            learned: false,
            exchanges: 0,
            talked: Vec::new(),
            rebuked: Vec::new(),
            taken: 0,
            out: VecDeque::new(),
            events: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Starts: tells every node of the network that there is this one, again and again until one
    /// answers.
    pub fn start(&mut self, now: Instant) {
        let wait = self.settings.period;
        self.starting = Some(Starting { at: now, wait });
        if !self.settings.observer {
            self.rumours.add(self.settings.node, 0, self.table.live());
        }
        // Nodes that start at once do not have their rounds at once.
        let phase = below(&mut self.random, 1_000) as u32;
        let round = now + self.settings.period * phase / 1_000;
        self.round_at = Some(round);
        self.swim.keep_step(round);
        self.on_time(now);
    }

    /// Leaves in order: tells some members, who tell the others, and does nothing more.
    pub fn leave(&mut self) {
        self.own.live = false;
        let mut farewell = self.packer(1);
        farewell.news(self.own.clone(), None);
        let messages = farewell.finish();
        for node in self.some(2 * usize::from(self.settings.fan_out.max(1))) {
            self.send(Destination::Node(node), messages.clone());
        }
        (self.starting, self.round_at) = (None, None);
    }

    /// Tells every living member that another one has ended, for whoever has ended it and knows:
    /// nobody has to miss it first. One that lives denies it, as any rumour of its death.
    pub fn tell_end(&mut self, node: NodeId) {
        let Some(row) = self.table.get(node).filter(|row| row.live) else { return };
        let ended = Row { live: false, version: 0, ..row.clone() };
        let mut news = self.packer(1);
        news.news(ended, None);
        let messages = news.finish();
        let living = self.table.rows().filter(|row| row.live && row.node != node.0);
        for member in living.map(|row| NodeId(row.node)).collect::<Vec<_>>() {
            self.send(Destination::Node(member), messages.clone());
        }
    }

    /// Asks a living node for what it has that is not known here, for whoever looks on: no rumours
    /// come there, and a node that has just begun is known to few.
    pub fn ask(&mut self, node: NodeId) {
        let Some(row) = self.table.get(node).filter(|row| row.live) else { return };
        let poll = Poll { node: row.node, generation: row.generation, have: row.version };
        let mut packer = self.packer(1);
        packer.poll(poll);
        self.send(Destination::Node(node), packer.finish());
    }

    /// Changes this node's directory and gives its new version; the cluster is told in the rounds
    /// that follow. Fails if it has no room, or there is no such instance.
    pub fn set_local(&mut self, update: Update) -> Result<u32, Refused> {
        let room = self.room();
        let directory = self.directories.entry(self.settings.node).or_default();
        let bytes = directory.bytes();
        let base = directory.update(update, room)?;
        self.directory_bytes = self.directory_bytes + directory.bytes() - bytes;
        self.own.version = directory.version();
        if !self.settings.observer {
            self.table.set(self.own.clone());
            self.rumours.add(self.settings.node, base, self.table.live());
        }
        Ok(self.own.version)
    }

    /// A core of this node has talked to one of `node`: that node gets what is being told now.
    pub fn talked(&mut self, node: NodeId) {
        if self.round_at.is_none()
            || self.rumours.is_empty()
            || node == self.settings.node
            || self.talked.len() >= MOST_TALKS
            || self.talked.contains(&node)
        {
            return;
        }
        self.talked.push(node);
        let mut packer = self.packer(1);
        self.pack_rumours(&mut packer, 1);
        self.send(Destination::Node(node), packer.finish());
    }

    /// The next message to send, and where to.
    pub fn poll_transmit(&mut self) -> Option<(Destination, Vec<u8>)> {
        self.out.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// All known nodes, in no order that means anything; this one among them, unless it only
    /// looks on. The dead are among them for a while, and are told by their state.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        self.table.rows().map(|row| self.describe(row))
    }

    /// What is known of one node.
    pub fn member(&self, node: NodeId) -> Option<Member> {
        self.table.get(node).map(|row| self.describe(row))
    }

    fn describe(&self, row: &Row) -> Member {
        let node = NodeId(row.node);
        let state = match row.live {
            true if self.swim.is_suspect(node) => State::Suspect,
            true => State::Alive,
            false => State::Down,
        };
        Member { node, generation: Generation(row.generation), state, version: row.version }
    }

    /// How many nodes live.
    pub fn live(&self) -> usize {
        self.table.live()
    }

    /// The sum of the hashes of what is known of all living nodes, their directories' versions
    /// included: two nodes with one digest know the same.
    pub fn digest(&self) -> u64 {
        self.table.digest()
    }

    /// The directory of a living node; `None` if it has none, or nothing in it is known yet.
    pub fn directory(&self, node: NodeId) -> Option<&Directory> {
        self.directories.get(&node)
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Room for at most so many messages.
    pub(crate) fn packer(&self, most: usize) -> Packer {
        let flags = if self.settings.observer { OBSERVER } else { 0 };
        Packer::new(self.own.clone(), flags, self.settings.message_bytes, most)
    }

    pub(crate) fn send(&mut self, to: Destination, messages: Vec<Vec<u8>>) {
        for message in messages {
            self.counters.sent += 1;
            self.counters.sent_bytes += message.len() as u64;
            self.out.push_back((to, message));
        }
    }

    /// So many living members, each other than this node and once, or as many as there are.
    pub(crate) fn some(&mut self, count: usize) -> Vec<NodeId> {
        let mut chosen = alloc::vec![self.settings.node];
        while chosen.len() <= count
            && let Some(node) = self.table.any(&mut self.random, true, &chosen)
        {
            chosen.push(node);
        }
        chosen.swap_remove(0);
        chosen
    }

    /// What a directory may grow to.
    pub(crate) fn room(&self) -> Room {
        Room {
            entries: self.settings.limits.entries,
            // As a rumour with nothing else in its message.
            instance: self.settings.message_bytes - EMPTY - ROW - CHANGES,
            bytes: self.settings.limits.bytes,
        }
    }
}

/// Talks in a round because of which news is pushed.
const MOST_TALKS: usize = 8;

/// The life that a row is of.
pub(crate) fn id(row: &Row) -> Id {
    Id { node: NodeId(row.node), generation: row.generation, renewal: row.renewal }
}
