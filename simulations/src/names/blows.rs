//! How things befall the cluster, and how it is well again.

use std::time::Duration;

use nile_abi::NodeId;
use nile_names::Charter;

use super::cluster::{Cluster, Event};
use super::node::{Disk, Without};
use super::plot::Blow;
use crate::draw::{Weather, below, span};

impl Cluster {
    pub fn strike(&mut self, blow: Blow) {
        match blow {
            Blow::Kill(node, pause) => self.kill(node, pause),
            Blow::LoseDisk(node, pause) => {
                if self.may_lose_disk(node) {
                    self.kill(node, pause);
                    self.lose_disk(node);
                }
            }
            Blow::OldDisk(node, pause) => {
                self.kill(node, pause);
                if self.may_lose_disk(node) && self.is_known_to_be_old(node) {
                    self.old_disks += 1;
                    let node = self.node(node);
                    node.disk = node.copy.clone().unwrap_or_default();
                    node.is_lost = true;
                } else {
                    let node = self.node(node);
                    node.copy = Some(node.disk.clone());
                }
            }
            Blow::PowerCut(most) => {
                for keeper in self.keepers.clone() {
                    let pause = span(&mut self.random, most);
                    self.kill(keeper, pause);
                }
            }
            Blow::Part(bits, pause) => {
                let sides = (0..self.nodes.len()).map(|at| bits >> (at % 64) & 1 == 1);
                self.sides = Some(sides.collect());
                self.partings += 1;
                self.plan(self.now + pause, Event::Heal(self.partings));
            }
            Blow::Strand(first, second) => self.stranding = Some((first, second)),
            Blow::Calm(pause) => self.change_weather(Weather::GOOD, pause),
            Blow::Storm(pause) => {
                let storm = Weather { lost: 450, doubled: 100, late: 50 };
                self.change_weather(storm, pause);
            }
            Blow::Tear(pause) => self.torn_until = self.now + pause,
            Blow::Disks(latency) => self.latency = latency,
            Blow::Without(node, why, pause) => {
                if self.may_lose_disk(node) && self.node(node).is_without.is_none() {
                    match why {
                        Without::Foreign => self.ills.foreign += 1,
                        Without::Damaged => self.ills.damaged += 1,
                    }
                    self.kill(node, Duration::from_millis(20));
                    self.node(node).is_without = Some(why);
                    self.plan(self.now + pause, Event::Mend(node));
                }
            }
            Blow::Full(node, pause) => {
                self.ills.full += 1;
                self.node(node).full_until = self.now + pause;
            }
            Blow::Slow(node, pause) => {
                self.ills.slow += 1;
                self.node(node).slow_until = self.now + pause;
            }
            Blow::Stand(node, pause) => {
                self.ills.stopped += 1;
                self.node(node).stands_until = self.now + pause;
            }
        }
    }

    fn change_weather(&mut self, weather: Weather, pause: Duration) {
        self.weather = weather;
        self.plan(self.now + pause, Event::Weather(self.usual_weather));
    }

    /// One at a time: it is in again before the next one is lost. Of a single keeper nothing would
    /// be left.
    fn may_lose_disk(&self, node: NodeId) -> bool {
        self.keepers.len() > 1 && !self.nodes.iter().any(|it| it.id != node && it.is_lost)
    }

    /// Whether all other keepers have heard of a later life than the copy of its disk knows of, or
    /// of another disk in its place.
    fn is_known_to_be_old(&self, node: NodeId) -> bool {
        let seat = node.0 as usize - 1;
        let copy = self.nodes[seat].copy.as_ref().and_then(|disk| disk.charter.as_ref());
        let Some(copy) = copy.filter(|it| it.view.is_some()) else { return false };
        let knows = |other: &NodeId| {
            let charter = self.nodes[other.0 as usize - 1].disk.charter.as_ref();
            charter.is_some_and(|it| match it.view.as_ref().and_then(|view| view.seats.get(seat)) {
                Some(at) if at.identity == copy.identity => it.lives[seat] >> 32 > copy.life >> 32,
                Some(_) => true,
                None => false,
            })
        };
        self.keepers.iter().filter(|it| **it != node).all(knows)
    }

    /// If somebody is to be stranded, this one is, which is about to ask all keepers to accept
    /// something: only one of them hears it.
    pub fn asks_to_accept(&mut self, asker: NodeId) {
        if self.is_busy
            && self.stranding.is_some()
            && self.stranded.is_none()
            && !self.keepers.contains(&asker)
        {
            let one = below(&mut self.random, self.keepers.len() as u64) as usize;
            let keeper = self.keepers[one];
            self.stranded = Some((asker, keeper));
            self.strike(Blow::Part(bit(asker) | bit(keeper), Duration::from_millis(50)));
        }
    }

    /// A keeper has accepted what somebody asked it to.
    pub fn has_accepted(&mut self, keeper: NodeId, asker: NodeId) {
        let is_meant =
            self.is_busy && self.stranded == Some((asker, keeper)) && self.may_lose_disk(keeper);
        let Some((first, second)) = self.stranding.take_if(|_| is_meant) else { return };
        self.stranded = None;
        self.strike(Blow::LoseDisk(keeper, Duration::from_millis(1)));
        let others = self.keepers.iter().copied().filter(|it| *it != keeper);
        let others: Vec<NodeId> = others.collect();
        let with = others[below(&mut self.random, others.len() as u64) as usize];
        self.strike(Blow::Part(bit(asker), first));
        let then = Blow::Part(bit(asker) | bit(with), second);
        self.plan(self.now + first, Event::Blow(then));
    }

    fn lose_disk(&mut self, node: NodeId) {
        let fakes = self.conduct.fakes_disk;
        self.lost_disks += 1;
        let node = self.node(node);
        let charter = node.disk.charter.take();
        node.is_lost = true;
        node.disk = Disk::default();
        if fakes {
            node.is_lost = false;
            node.disk.charter = charter.filter(|it: &Charter| it.view.is_some());
        }
    }

    /// A node has its own disk again; one that was damaged is formatted.
    pub fn mend(&mut self, node: NodeId) {
        let Some(why) = self.node(node).is_without.take() else { return };
        self.kill(node, Duration::from_millis(20));
        if why == Without::Damaged {
            self.lose_disk(node);
        }
    }

    fn kill(&mut self, id: NodeId, pause: Duration) {
        let part = below(&mut self.random, 1000) as usize;
        let now = self.now;
        let node = self.node(id);
        // Nothing of it is on a disk that is full.
        let part = if now < node.full_until { 0 } else { part };
        if !node.is_up {
            return;
        }
        node.fall(part);
        let life = node.life;
        self.note(id, 1, u64::from(life));
        self.abandon_all(id);
        self.plan(self.now + pause, Event::Rise(id));
    }

    /// All is well from now on.
    pub fn calm(&mut self) {
        self.is_busy = false;
        self.torn_until = self.now;
        self.weather = Weather::GOOD;
        self.sides = None;
        for node in (1..=self.nodes.len()).map(|id| NodeId(id as u32)) {
            self.mend(node);
            let (now, node) = (self.now, self.node(node));
            (node.full_until, node.slow_until, node.stands_until) = (now, now, now);
        }
        let down: Vec<NodeId> = self.nodes.iter().filter(|it| !it.is_up).map(|it| it.id).collect();
        down.into_iter().for_each(|node| self.rise(node));
    }
}

/// A side with this node alone.
fn bit(node: NodeId) -> u64 {
    1 << ((node.0 - 1) % 64)
}
