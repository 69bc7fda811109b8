//! What is known of a node, and what a message says of it: which of the two is later.
//!
//! Rows of one node are ordered by generation, then by renewal, then the dead are later than the
//! living: only the node itself begins a generation or renews itself, so whatever is told of it,
//! in whatever order, all nodes end with the same row.

use core::cmp::Ordering;

use nile_abi::{Generation, Instant, NodeId};

use crate::directory::{Applied, Room};
use crate::event::Event;
use crate::gossip::{Gossip, Want, id};
use crate::packer::Packer;
use crate::wire::{Changes, Poll, Row};

/// Where a row comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// From the node itself: it lives.
    Itself,
    /// From the node itself, to all: nobody need tell others.
    Start,
    /// From somebody who has just learned it, and who tells everybody.
    News,
    /// From somebody whose digest differs.
    Answer,
}

/// Changes of directories that can be asked for at one time.
const MOST_WANTS: usize = 128;

/// Nodes that can be asked at one time whether they are dead.
const MOST_DOUBTS: usize = 32;

/// Periods that such a node has to deny it.
const DOUBT_PERIODS: u32 = 6;

/// How a row stands to the one that is known of the node.
fn compare(said: &Row, known: &Row) -> Ordering {
    let life = said.generation.cmp(&known.generation);
    if life == Ordering::Equal && said.nonce != known.nonce {
        // Two lives took one generation. The first keeps it; the other takes a higher one.
        return Ordering::Less;
    }
    life.then(said.renewal.cmp(&known.renewal)).then(known.live.cmp(&said.live))
}

impl Gossip {
    /// Takes over a row if it is later than what is known, and answers if it is earlier.
    pub(crate) fn merge(&mut self, now: Instant, said: &Row, source: Source, reply: &mut Packer) {
        let node = NodeId(said.node);
        if node == self.settings.node {
            return self.about_me(now, said, reply);
        }
        let Some(known) = self.table.get(node) else {
            if !said.live || said.generation == 0 {
            } else if self.table.len() >= self.settings.limits.nodes {
                self.counters.refused += 1;
            } else {
                self.put(now, Row { version: 0, ..said.clone() });
                self.learn(node, source, false, 0);
            }
            return;
        };
        match compare(said, known) {
            Ordering::Greater if self.must_ask(source, said, known) => {
                if self.doubts.len() < MOST_DOUBTS {
                    let until = now + self.settings.period * DOUBT_PERIODS;
                    self.doubts.entry(node).or_insert(until);
                }
            }
            Ordering::Greater => {
                let is_change = known.live != said.live;
                let keeps_directory =
                    said.generation == known.generation && said.live && known.live;
                let version = if keeps_directory { known.version } else { 0 };
                self.put(now, Row { version, ..said.clone() });
                self.learn(node, source, is_change && source != Source::Start, version);
            }
            Ordering::Equal if said.version >= known.version => {
                self.counters.known += u64::from(source == Source::News);
            }
            Ordering::Less | Ordering::Equal => {
                if source != Source::News {
                    reply.row(known);
                }
            }
        }
    }

    /// Whether a death is believed only after the node had the chance to deny it: whoever says it
    /// did not find it out, and it may be from the other side of a partition. An observer may reach
    /// both sides, and is told news by any.
    fn must_ask(&self, source: Source, said: &Row, known: &Row) -> bool {
        let is_hearsay = source == Source::Answer || self.settings.observer;
        is_hearsay && !said.live && known.live && known.generation == said.generation
    }

    /// Something new was learned of a node's life; it is told on if others may need it, together
    /// with what changed of its directory after `base`.
    fn learn(&mut self, node: NodeId, source: Source, is_change: bool, base: u32) {
        self.counters.news += u64::from(source == Source::News);
        self.learned |= source == Source::Answer;
        if source == Source::News || is_change {
            self.rumours.add(node, base, self.table.live());
        }
    }

    /// Puts a row in place of what was known, and does what follows from the difference.
    pub(crate) fn put(&mut self, now: Instant, mut row: Row) {
        if !row.live {
            // Its directory is dropped below.
            row.version = 0;
        }
        let (node, generation) = (NodeId(row.node), Generation(row.generation));
        let old = self.table.set(row.clone());
        self.doubts.remove(&node);
        let was_live = old.as_ref().is_some_and(|old| old.live);
        let is_reborn = old.as_ref().is_some_and(|old| old.generation != row.generation);
        if is_reborn || !row.live {
            self.drop_directory(node);
            self.wants.remove(&node);
        }
        match (was_live, row.live) {
            (false, true) => {
                self.dead.remove(&node);
                self.events.push_back(Event::NodeUp { node, generation });
                for far in self.watch.add(node) {
                    if let Some(far) = self.table.get(far) {
                        self.swim.forget(id(far));
                    }
                }
            }
            (true, false) => {
                self.dead.insert(node, now);
                self.events.push_back(Event::NodeDown { node, generation });
                let findings = self.watch.has(node).then(|| self.swim.bury(now, id(&row)));
                for new in self.watch.remove(node, self.table.rows()) {
                    if let Some(new) = self.table.get(new).map(id) {
                        let findings = self.swim.watch(now, new);
                        self.heed(now, findings);
                    }
                }
                findings.into_iter().for_each(|findings| self.heed(now, findings));
            }
            (true, true) if is_reborn => {
                let old = old.map_or(generation, |old| Generation(old.generation));
                self.events.push_back(Event::NodeRestarted { node, old, generation });
            }
            _ => {}
        }
        if row.live && !self.settings.observer && self.watch.has(node) {
            let findings = self.swim.watch(now, id(&row));
            self.heed(now, findings);
        }
    }

    fn drop_directory(&mut self, node: NodeId) {
        let old = self.directories.remove(&node);
        self.directory_bytes -= old.map_or(0, |old| old.bytes());
    }

    /// What somebody says of this node.
    fn about_me(&mut self, now: Instant, said: &Row, reply: &mut Packer) {
        let own = &self.own;
        if self.settings.observer || said.generation < own.generation {
            return;
        }
        let is_mine = said.generation == own.generation && said.nonce == own.nonce;
        if !is_mine {
            self.warn(said.generation);
        } else if !said.live && said.renewal < own.renewal {
            // It was denied already, and whoever asks has not heard.
            reply.row(own);
        } else if !said.live && own.live {
            let Some(renewal) = said.renewal.checked_add(1) else {
                return self.end();
            };
            self.renew(now, renewal);
            reply.sign(self.own.clone());
            reply.row(&self.own);
        }
    }

    /// Asks the receiver of `reply` for what it has of a node's directory and this node has not.
    pub(crate) fn want(&mut self, said: &Row, teller: NodeId, is_news: bool, reply: &mut Packer) {
        let node = NodeId(said.node);
        let Some(row) = self.table.get(node) else { return };
        let is_later = said.version > row.version;
        if !row.live || id(row) != id(said) || !is_later || node == self.settings.node {
            return;
        }
        let poll = Poll { node: row.node, generation: row.generation, have: row.version };
        let (asked, version) = (self.round, said.version);
        let is_full = self.wants.len() >= MOST_WANTS;
        match self.wants.get_mut(&node) {
            Some(want) => {
                want.is_news |= is_news;
                if want.version >= version && want.asked == asked {
                    return;
                }
                (want.version, want.asked) = (want.version.max(version), asked);
                want.teller = teller;
            }
            None if is_full => return,
            None => {
                self.wants.insert(node, Want { teller, version, is_news, asked, times: 1 });
            }
        }
        reply.poll(poll);
    }

    /// Takes over changes of a node's directory, if they continue what is held.
    pub(crate) fn change(
        &mut self,
        changes: Changes,
        teller: NodeId,
        is_news: bool,
        reply: &mut Packer,
    ) {
        let node = NodeId(changes.node);
        let Some(row) = self.table.get(node) else { return };
        let is_current = row.live && row.generation == changes.generation;
        if node == self.settings.node || !is_current || changes.version <= row.version {
            return;
        }
        let (held, latest) = (row.version, changes.latest.max(changes.version));
        if changes.base > held {
            let said = Row { version: latest, ..row.clone() };
            return self.want(&said, teller, is_news, reply);
        }
        let version = changes.version;
        let row = Row { version, ..row.clone() };
        self.table.set(row.clone());
        let room = self.room();
        let directory = self.directories.entry(node).or_default();
        let bytes = directory.bytes();
        let others = self.directory_bytes - bytes;
        let room = Room { bytes: room.bytes.saturating_sub(others).max(bytes), ..room };
        let events = &mut self.events;
        let refused = directory.apply(changes, room, |applied| {
            events.push_back(match applied {
                Applied::Core(core) => Event::CoreChanged { node, core },
                Applied::Published(instance) => Event::Published { node, instance },
                Applied::Moved(instance) => Event::Moved { node, instance },
                Applied::Unpublished(instance) => Event::Unpublished { node, instance },
            });
        });
        self.counters.refused += refused;
        self.directory_bytes = self.directory_bytes + directory.bytes() - bytes;
        let want = self.wants.remove(&node);
        let latest = latest.max(want.as_ref().map_or(0, |want| want.version));
        let is_news = is_news || want.is_some_and(|want| want.is_news);
        if is_news {
            self.counters.news += 1;
            self.rumours.add(node, held, self.table.live());
        } else {
            self.learned = true;
        }
        if latest > version {
            self.want(&Row { version: latest, ..row }, teller, is_news, reply);
        }
    }
}
