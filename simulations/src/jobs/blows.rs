//! What befalls the cluster, as it happens.

use std::time::Duration;

use nile_abi::NodeId;

use super::cluster::{Cluster, Event};
use super::plot::Blow;
use crate::draw::span;

impl Cluster {
    pub fn strike(&mut self, blow: Blow) -> Result<(), String> {
        let now = self.now;
        match blow {
            Blow::KillNode(id, pause, wiped) => {
                let others = self.nodes.iter().filter(|node| node.id != id && node.lives).count();
                // Somebody has to be left, and most of the keepers.
                let (keepers, gone) = (&self.work.job.keepers, &self.ledger.gone);
                let lost = keepers.iter().filter(|it| **it == id || gone.contains(it)).count();
                let may_go = others >= 2 && 2 * lost < keepers.len();
                let pause = pause.or((!may_go).then_some(Duration::from_secs(1)));
                self.kill(id, pause, wiped && may_go);
            }
            Blow::KillMaster(pause) => {
                // The last one, if there are several.
                let masters = self.nodes.iter().filter_map(|it| Some((it.master.as_ref()?, it.id)));
                if let Some((_, id)) = masters.max_by_key(|it| it.0.epoch()) {
                    self.kill(id, Some(pause), false);
                }
            }
            Blow::PowerCut(most) => {
                for id in self.work.job.keepers.clone() {
                    let pause = span(&mut self.random, most);
                    self.kill(id, Some(pause), false);
                }
            }
            Blow::KillCore(id, draw) => {
                let node = self.node(id);
                let core = (draw % node.cores.len() as u64) as usize;
                if node.lives {
                    node.restart_core(core);
                    self.ledger.killed += 1;
                    self.tell_of(id);
                    self.pump(id)?;
                }
            }
            Blow::Partition(draw, pause) => {
                let side = |host: usize| host > 0 && draw >> (host % 64) & 1 == 1;
                self.sides = Some((0..=self.nodes.len()).map(side).collect());
                self.ledger.partitions += 1;
                // Sometimes keepers find out long before anybody else.
                if draw >> 63 == 1 {
                    self.suspect(draw as usize);
                }
                self.plan(now + pause, Event::Heal);
                self.all_change(Duration::from_secs(1));
            }
            Blow::Suspect(draw) => self.suspect(draw as usize),
            Blow::Cancel => self.ledger.is_cancelled = true,
        }
        Ok(())
    }

    fn kill(&mut self, id: NodeId, pause: Option<Duration>, wiped: bool) {
        let now = self.now;
        let node = self.node(id);
        if !node.lives {
            return;
        }
        node.die();
        node.away = Some(now);
        if wiped {
            node.disk = Default::default();
            self.ledger.wiped.insert(id);
        }
        self.ledger.killed += 1;
        self.trace.note(now, u64::from(id.0), 40, 0);
        match pause {
            Some(pause) => self.plan(now + pause, Event::Rise(id)),
            None => drop(self.ledger.gone.insert(id)),
        }
        self.tell_of(id);
    }

    pub fn heal(&mut self) {
        if self.sides.take().is_some() {
            self.all_change(Duration::ZERO);
        }
    }

    /// After a while everybody sees others than before.
    fn all_change(&mut self, after: Duration) {
        let now = self.now;
        self.nodes.iter_mut().for_each(|node| node.away = Some(now));
        for to in self.watchers() {
            for about in 1..=self.nodes.len() as u32 {
                let delay = after + span(&mut self.random, Duration::from_millis(600));
                self.plan(now + delay, Event::News(to, NodeId(about)));
            }
        }
    }

    /// A keeper holds the master for dead.
    fn suspect(&mut self, draw: usize) {
        let (now, keepers) = (self.now, &self.work.job.keepers);
        let id = keepers[draw % keepers.len()];
        if let Some(keeper) = &mut self.node(id).keeper
            && let Some(master) = keeper.record().master()
        {
            keeper.is_dead(now, master);
            self.set_wake(id);
        }
    }
}
