//! What gossip does with a message.

use alloc::vec::Vec;

use nile_abi::{Instant, NodeId};
use nile_bosml::MAX_MESSAGE;

use crate::event::Destination;
use crate::gossip::Gossip;
use crate::merge::Source;
use crate::packer::Packer;
use crate::table::{Prefix, below};
use crate::wire::{Message, OBSERVER, Poll, Range, Row, START, URGENT};
use nile_order::SortedSet;

/// Messages that answer one.
const MOST_ANSWERS: usize = 8;

/// Ranges and polls of one message that are answered: more than one frame has.
const MOST_PARTS: usize = 128;

/// Comparisons of all that a node takes part in, in one round: many nodes answer its start, and
/// most know the same.
const MOST_EXCHANGES: u8 = 2;

/// Nodes that are told in one round that their lives are over.
const MOST_REBUKES: usize = 16;

/// How many nodes answer a start broadcast, on average, of a cluster that is larger than this.
const ANSWERS_TO_START: usize = 6;

/// A range with so many nodes is listed, one with more is split. So many rows fit one message
/// of the least size that can be set.
const LISTED: usize = 24;

impl Gossip {
    /// Takes a message from `from`, as the network names it; `is_broadcast` says whether it was
    /// sent to all. Whatever it is, nothing panics, and at most a bounded amount is kept of it.
    pub fn receive(&mut self, now: Instant, from: NodeId, payload: &[u8], is_broadcast: bool) {
        self.counters.received += 1;
        self.counters.received_bytes += payload.len() as u64;
        if self.round_at.is_none() {
            return;
        }
        let message = match Message::parse(payload) {
            Ok(message) if payload.len() <= MAX_MESSAGE => message,
            _ => return self.counters.malformed += 1,
        };
        let sender = &message.sender;
        if is_broadcast && from == self.settings.node && self.is_namesake(sender, message.flags) {
            return self.on_namesake(now, sender, message.flags);
        }
        if sender.node != from.0 || from == self.settings.node || sender.generation == 0 {
            self.counters.forged += 1;
            return;
        }
        let mut reply = self.packer(MOST_ANSWERS);
        if message.flags & OBSERVER == 0 {
            if !sender.live {
                // A farewell.
                self.merge(now, sender, Source::News, &mut reply);
                return;
            }
            let source = if is_broadcast { Source::Start } else { Source::Itself };
            self.merge(now, sender, source, &mut reply);
            if self.table.get(from).is_some_and(|known| !is_same_life(known, sender)) {
                return self.rebuke(now, from, &message.rows, reply);
            }
        }
        if is_broadcast {
            if message.flags & START != 0 && self.answers_start() {
                self.want(sender, from, false, &mut reply);
                reply.flag(URGENT);
                reply.range(self.whole_range());
            }
        } else {
            if message.flags & OBSERVER == 0 {
                self.starting = None;
            }
            self.read(now, from, message, &mut reply);
        }
        self.send(Destination::Node(from), reply.finish());
    }

    /// The sender does not know that its life is over, or is held for over: it is told so. Of
    /// what it says, only what it says of this node is heard, for it may be just the same here.
    fn rebuke(&mut self, now: Instant, from: NodeId, rows: &[Row], mut reply: Packer) {
        self.counters.stale += 1;
        let own = self.settings.node.0;
        for row in rows.iter().filter(|row| row.node == own) {
            self.merge(now, row, Source::Answer, &mut reply);
        }
        if self.rebuked.len() < MOST_REBUKES && !self.rebuked.contains(&from) {
            self.rebuked.push(from);
            self.send(Destination::Node(from), reply.finish());
        }
    }

    /// Whether this node is one of those that answer: in a small cluster all do, and of a large
    /// one a few, lest all messages come at once.
    fn answers_start(&mut self) -> bool {
        let others = self.table.live().max(2) - 1;
        !self.settings.observer && below(&mut self.random, others) < ANSWERS_TO_START
    }

    fn read(&mut self, now: Instant, from: NodeId, message: Message, reply: &mut Packer) {
        if !message.swim.0.is_empty() && message.flags & OBSERVER == 0 && !self.settings.observer {
            self.probe(now, from, &message.swim.0);
        }
        for row in &message.news {
            self.merge(now, row, Source::News, reply);
        }
        // Rows of listed ranges are answered with the whole of what the lister lacks.
        for row in &message.rows {
            self.merge(now, row, Source::Answer, reply);
        }
        for changes in message.changes {
            let is_news = message.news.iter().any(|row| row.node == changes.node);
            self.change(changes, from, is_news, reply);
        }
        // Of somebody who is new here the others know by themselves.
        let is_change = self.table.get(from).is_some_and(|known| known.version > 0);
        self.want(&message.sender, from, is_change, reply);
        for row in &message.news {
            self.want(row, from, true, reply);
        }
        for row in &message.rows {
            self.want(row, from, false, reply);
        }
        let is_urgent = message.flags & URGENT != 0;
        let listed: SortedSet<u32> = message.rows.iter().map(|row| row.node).collect();
        for range in message.ranges.iter().take(MOST_PARTS) {
            self.compare_range(range, &listed, is_urgent, reply);
        }
        for poll in message.polls.iter().take(MOST_PARTS) {
            self.answer_poll(poll, reply);
        }
    }

    /// A packet for SWIM.
    fn probe(&mut self, now: Instant, from: NodeId, packet: &[u8]) {
        let Gossip { swim, watch, .. } = self;
        let Ok((sender, findings)) = swim.receive(now, from, packet, |node| watch.has(node)) else {
            self.counters.malformed += 1;
            return;
        };
        self.heed(now, findings);
        // Whoever watches this node without being watched, because they do not know the same
        // nodes, is answered and no more.
        if !self.watch.has(from) {
            self.swim.forget(sender);
        }
    }

    /// A digest of the sender: if it is not the same here, it is told more.
    fn compare_range(
        &mut self,
        said: &Range,
        listed: &SortedSet<u32>,
        is_urgent: bool,
        reply: &mut Packer,
    ) {
        let Some(prefix) = Prefix::new(said.prefix, said.bits) else {
            self.counters.malformed += 1;
            return;
        };
        let is_whole = prefix == Prefix::ALL;
        if is_whole && !said.listed && !is_urgent && !self.rumours.is_empty() {
            return;
        }
        let (count, hash) = self.table.summary(prefix);
        if hash == said.hash {
            return;
        }
        if is_whole && !said.listed {
            self.counters.differences += 1;
            if self.exchanges >= MOST_EXCHANGES {
                return;
            }
            self.exchanges += 1;
        }
        if said.listed {
            let is_unknown = |row: &&Row| !listed.contains(&row.node);
            self.table.within(prefix).filter(is_unknown).for_each(|row| reply.row(row));
        } else if count <= LISTED {
            let rows: Vec<Row> = self.table.within(prefix).cloned().collect();
            reply.listing(Range { hash, ..said.clone() }, &rows);
        } else {
            for part in (0..Prefix::PARTS).filter_map(|number| prefix.part(number)) {
                let (_, hash) = self.table.summary(part);
                let Prefix { value: prefix, bits } = part;
                reply.range(Range { prefix, bits, listed: false, hash });
            }
        }
    }

    fn answer_poll(&mut self, poll: &Poll, reply: &mut Packer) {
        let node = NodeId(poll.node);
        let Some(row) = self.table.get(node) else { return };
        if row.live
            && row.generation == poll.generation
            && let Some(directory) = self.directories.get(&node)
        {
            reply.changes(|room| directory.changes(poll.node, poll.generation, poll.have, room));
        }
    }
}

/// Whether the sender is who is known to live.
fn is_same_life(known: &Row, sender: &Row) -> bool {
    let life = |row: &Row| (row.generation, row.nonce, row.renewal);
    known.live && life(known) == life(sender)
}
