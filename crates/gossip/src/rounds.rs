//! What gossip does by itself: once in a period it tells rumours, asks again for what it waits
//! for, and now and then compares digests, with the living and the dead.

use alloc::vec::Vec;

use nile_abi::{Generation, Instant, NodeId, Window};
use rand_xoshiro::Xoshiro128PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::event::{Destination, Event};
use crate::gossip::{Gossip, id};
use crate::packer::Packer;
use crate::swim::Findings;
use crate::table::{Prefix, below};
use crate::wire::{AGE, Poll, ROW, Range, Row, START, URGENT};

/// Rounds between two comparisons of a node that knows of no difference.
const COMPARE_ROUNDS: u32 = 16;

/// Rounds after which digests are compared although there is news, because of which they differ.
const PATIENCE_ROUNDS: u32 = 4 * COMPARE_ROUNDS;

/// Rounds between two attempts to reach a node that is held for dead.
const DEAD_ROUNDS: u32 = 8;

/// Rounds for which a dead node is remembered.
const MEMORY_ROUNDS: u32 = 4_096;

/// How often changes are asked for until the next comparison has to find them missing.
const MOST_ASKS: u8 = 5;

/// The start broadcast is repeated after twice the time, up to so many periods.
const LONGEST_START: u32 = 64;

/// The part of a period by which what is due may be late.
const SLACK: u32 = 5;

/// Messages of rumours in one round, to each who is told.
const RUMOUR_MESSAGES: usize = 4;

impl Gossip {
    /// The next moment at which [`Gossip::on_time`] has something to do; `None` before the start.
    pub fn next_due(&self) -> Option<Instant> {
        let start = self.starting.as_ref().map(|starting| starting.at);
        let swim = self.round_at.and_then(|_| self.swim.next_due());
        [self.round_at, start, swim].into_iter().flatten().min()
    }

    /// The same, for a driver that has other things to do: all that is due can wait for a fifth of
    /// a period, so that it is done together, or with what comes.
    pub fn next_window(&self) -> Option<Window> {
        self.next_due().map(|due| Window::within(due, self.settings.period / SLACK))
    }

    /// Does what is due.
    pub fn on_time(&mut self, now: Instant) {
        if self.round_at.is_none() {
            return;
        }
        while let Some(findings) = self.swim.on_time(now) {
            self.heed(now, findings);
        }
        if self.starting.as_ref().is_some_and(|starting| starting.at <= now) {
            self.broadcast_start(now);
        }
        if let Some(at) = self.round_at.filter(|at| *at <= now) {
            self.round(now);
            // A late round does not shift the next; those slept through are not made up for.
            let period = self.settings.period;
            let missed = (now - at).as_nanos() / period.as_nanos().max(1);
            let on = u32::try_from(missed).unwrap_or(u32::MAX).saturating_add(1);
            self.round_at = Some(at + period.saturating_mul(on));
        }
    }

    /// Node id, generation and version of the directory, in one frame.
    fn broadcast_start(&mut self, now: Instant) {
        let longest = self.settings.period * LONGEST_START;
        if let Some(starting) = &mut self.starting {
            starting.at = now + starting.wait;
            starting.wait = (starting.wait * 2).min(longest);
        }
        let mut packer = self.packer(1);
        packer.flag(START | self.age(now) << AGE);
        self.send(Destination::Broadcast, packer.finish_anyway());
    }

    fn round(&mut self, now: Instant) {
        self.round = self.round.wrapping_add(1);
        self.exchanges = 0;
        self.talked.clear();
        self.rebuked.clear();
        self.tell_suspicions();
        self.tell_rumours();
        self.ask_again();
        self.question(now);
        self.compare();
        if self.round.is_multiple_of(DEAD_ROUNDS) {
            self.try_the_dead(now);
        }
    }

    fn tell_suspicions(&mut self) {
        let (new, old) = self.swim.news();
        let rows = [(new, true), (old, false)];
        for (nodes, is_suspect) in rows {
            for node in nodes {
                let Some(row) = self.table.get(node).filter(|row| row.live) else { continue };
                let generation = Generation(row.generation);
                self.events.push_back(match is_suspect {
                    true => Event::NodeSuspect { node, generation },
                    false => Event::NodeTrusted { node, generation },
                });
            }
        }
    }

    fn tell_rumours(&mut self) {
        if self.rumours.is_empty() || self.settings.fan_out == 0 {
            return;
        }
        let told = self.some(self.settings.fan_out.into());
        let mut packer = self.packer(RUMOUR_MESSAGES);
        self.pack_rumours(&mut packer, told.len() as u16);
        let messages = packer.finish();
        for node in told {
            self.send(Destination::Node(node), messages.clone());
        }
    }

    /// Puts as many rumours as fit, which are told to so many.
    pub(crate) fn pack_rumours(&mut self, packer: &mut Packer, told: u16) {
        for (node, base) in self.rumours.all() {
            let Some(row) = self.table.get(node) else {
                self.rumours.told(node, u16::MAX);
                continue;
            };
            let directory = self.directories.get(&node).filter(|_| row.live);
            let whole = packer.whole_room();
            let changes = directory.and_then(|directory| {
                let room = whole.saturating_sub(ROW);
                let changes = directory.changes(row.node, row.generation, base, room)?;
                // What does not fit is asked for.
                (changes.version == changes.latest).then_some(changes)
            });
            if !packer.news(row.clone(), changes) {
                break;
            }
            self.rumours.told(node, told);
        }
    }

    /// Asks for changes that did not come.
    fn ask_again(&mut self) {
        let round = self.round;
        self.wants.retain(|_, want| want.times < MOST_ASKS);
        let late = |asked: u32| round.wrapping_sub(asked) >= 2;
        let again: Vec<(NodeId, NodeId)> = self
            .wants
            .iter_mut()
            .filter(|(_, want)| late(want.asked))
            .map(|(node, want)| {
                (want.asked, want.times) = (round, want.times + 1);
                (want.teller, *node)
            })
            .collect();
        for (teller, node) in again {
            let Some(row) = self.table.get(node) else { continue };
            let poll = Poll { node: row.node, generation: row.generation, have: row.version };
            let mut packer = self.packer(1);
            packer.poll(poll);
            self.send(Destination::Node(teller), packer.finish());
        }
    }

    /// Asks the suspect, and those who are said to be dead, whether they are; and believes it of
    /// those who had the time to deny it.
    fn question(&mut self, now: Instant) {
        let doubts = self.doubts.iter().map(|(node, until)| (*node, Some(*until)));
        let suspects = self.swim.suspects().map(|node| (node, None));
        for (node, until) in doubts.chain(suspects).collect::<Vec<_>>() {
            let Some(row) = self.table.get(node).filter(|row| row.live) else { continue };
            let dead = Row { live: false, ..row.clone() };
            if until.is_some_and(|until| until <= now) {
                self.put(now, dead);
            } else {
                let mut packer = self.packer(1);
                packer.row(&dead);
                self.send(Destination::Node(node), packer.finish());
            }
        }
    }

    /// Compares digests with one member, if it is time.
    fn compare(&mut self) {
        if core::mem::take(&mut self.learned) {
            // There may be more where that came from.
            self.compare_at = self.round;
            self.compared = self.round.wrapping_sub(PATIENCE_ROUNDS);
        }
        if self.round.wrapping_sub(self.compare_at) > u32::MAX / 2 {
            return;
        }
        let is_urgent = self.round.wrapping_sub(self.compared) >= PATIENCE_ROUNDS;
        if !self.rumours.is_empty() && !is_urgent {
            return;
        }
        // Not all in the same rounds, whenever they started.
        let wait = 1 + COMPARE_ROUNDS / 2 + below(&mut self.random, COMPARE_ROUNDS as usize) as u32;
        (self.compared, self.compare_at) = (self.round, self.round.wrapping_add(wait));
        let Some(node) = self.some(1).pop() else { return };
        let mut packer = self.packer(1);
        if is_urgent {
            packer.flag(URGENT);
        }
        packer.range(self.whole_range());
        self.send(Destination::Node(node), packer.finish());
    }

    /// The digest of all.
    pub(crate) fn whole_range(&self) -> Range {
        let Prefix { value: prefix, bits } = Prefix::ALL;
        Range { prefix, bits, listed: false, hash: self.table.digest() }
    }

    /// Tells one of the dead that it is held for dead, which it denies if it lives, and forgets
    /// those that have been dead for long.
    fn try_the_dead(&mut self, now: Instant) {
        let memory = self.settings.period * MEMORY_ROUNDS;
        while let Some((node, _)) =
            self.dead.iter().find(|(_, since)| now.since(**since) > memory).map(|(n, s)| (*n, *s))
        {
            self.dead.remove(&node);
            self.table.remove(node);
        }
        if self.dead.is_empty() || self.settings.observer {
            return;
        }
        let Some(node) = self.table.any(&mut self.random, false, &[]) else { return };
        let Some(row) = self.table.get(node) else { return };
        let mut packer = self.packer(1);
        packer.row(row);
        self.send(Destination::Node(node), packer.finish());
    }

    /// Does what follows from what SWIM found out.
    pub(crate) fn heed(&mut self, now: Instant, findings: Findings) {
        for dead in findings.dead {
            let known = self.table.get(dead.node);
            if let Some(row) = known.filter(|row| row.live && id(row) == dead) {
                let row = Row { live: false, ..row.clone() };
                self.put(now, row);
                self.rumours.add(dead.node, 0, self.table.live());
            }
        }
        for (node, packet) in findings.packets {
            let mut packer = self.packer(1);
            packer.swim(packet);
            self.send(Destination::Node(node), packer.finish());
        }
        if let Some(own) = findings.renewed {
            self.renew(now, own.renewal);
        }
        if findings.is_over {
            self.end();
        }
    }

    /// This node was held for dead, and is known by a higher renewal from now on. As likely as not
    /// it could not be heard, and those whom it holds for dead live as well: it says no more that
    /// they are dead.
    pub(crate) fn renew(&mut self, now: Instant, renewal: u16) {
        self.own.renewal = renewal;
        self.events.push_back(Event::Denied);
        self.table.set(self.own.clone());
        let Gossip { rumours, table, .. } = self;
        rumours.keep(|node| table.get(node).is_some_and(|row| row.live));
        // Who held it for dead has none of its directory.
        self.rumours.add(self.settings.node, 0, self.table.live());
        let random = Xoshiro128PlusPlus::seed_from_u64(self.random.next_u64());
        self.swim.rename(id(&self.own), random);
        for node in self.watch.all().collect::<Vec<_>>() {
            if let Some(watched) = self.table.get(node).map(id) {
                let findings = self.swim.watch(now, watched);
                self.heed(now, findings);
            }
        }
    }

    /// There is no further renewal in this generation.
    pub(crate) fn end(&mut self) {
        self.warn(self.own.generation);
        self.round_at = None;
    }

    /// Warns the owner, once, that this generation or a later one is another life's.
    pub(crate) fn warn(&mut self, generation: u32) {
        if generation > self.taken {
            self.taken = generation;
            self.events.push_back(Event::GenerationTaken { generation: Generation(generation) });
        }
    }
}
