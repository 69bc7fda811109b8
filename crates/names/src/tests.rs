//! Keepers and operations on a network that does what a test wants.

mod changes;
mod disks;
mod scans;
mod wire;

use alloc::vec::Vec;
use std::collections::BTreeMap;

use nile_abi::{Instant, NodeId};

use crate::keeper::Action;
use crate::*;

const SETTINGS: Settings = Settings {
    silence: core::time::Duration::from_millis(100),
    patience: core::time::Duration::from_secs(2),
    pause: core::time::Duration::from_millis(10),
};

/// Keepers on the nodes 1, 2, 3 with their disks.
struct Cluster {
    now: Instant,
    nodes: Vec<NodeId>,
    keepers: BTreeMap<NodeId, Keeper>,
    disks: BTreeMap<NodeId, Disk>,
    drawn: u64,
}

#[derive(Default)]
struct Disk {
    charter: Option<Charter>,
    cells: BTreeMap<Name, Cell>,
}

impl Disk {
    fn store(&mut self, durable: Durable) {
        match Durable::decode(&durable.encode().unwrap()).unwrap() {
            Durable::Charter(charter) => self.charter = Some(charter),
            Durable::Cell(NamedCell { name, cell }) => drop(self.cells.insert(name, cell)),
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn dataset(epoch: u64) -> What {
    let facts = Facts { bytes: 7, blocks: 1, copies: 2, nodes: [NodeId(1), NodeId(2)].into() };
    What::Dataset { version: Version::new(epoch, 1), facts }
}

fn change(id: u64, expect: Expect, to: What) -> Task {
    Task::Change { id, expect, to }
}

impl Cluster {
    fn new(keepers: u32) -> Cluster {
        let nodes = (1..=keepers).map(NodeId).collect();
        let (keepers, disks) = (BTreeMap::new(), BTreeMap::new());
        Cluster { now: Instant::START, nodes, keepers, disks, drawn: 100 }
    }

    /// One whose keepers are in.
    fn founded(keepers: u32) -> Cluster {
        let mut cluster = Cluster::new(keepers);
        (1..=keepers).for_each(|node| cluster.start(node));
        cluster.pass(1000);
        (1..=keepers).for_each(|node| assert_eq!(cluster.standing(node), Standing::In));
        cluster
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    fn start(&mut self, node: u32) {
        let (seed, identity) = (self.draw(), self.draw());
        let disk = self.disks.entry(NodeId(node)).or_default();
        let (now, nodes) = (self.now, &self.nodes);
        let keeper = match disk.charter.clone() {
            None => Keeper::fresh(now, NodeId(node), nodes, identity, seed, SETTINGS),
            Some(charter) => {
                let cells = disk.cells.clone();
                Keeper::restore(now, NodeId(node), nodes, charter, cells, seed, SETTINGS)
            }
        };
        self.keepers.insert(NodeId(node), keeper.unwrap());
        self.settle();
    }

    fn stop(&mut self, node: u32) {
        self.keepers.remove(&NodeId(node));
    }

    fn lose_disk(&mut self, node: u32) {
        self.stop(node);
        self.disks.remove(&NodeId(node));
    }

    fn standing(&self, node: u32) -> Standing {
        self.keepers[&NodeId(node)].standing()
    }

    /// A question to a keeper, and its answer, both on their way as bytes.
    fn ask(&mut self, node: NodeId, ask: &Ask) -> Option<Answer> {
        let ask = Ask::decode(&ask.encode().unwrap()).unwrap();
        let (answer, durable) = self.keepers.get_mut(&node)?.handle(ask);
        let disk = self.disks.entry(node).or_default();
        durable.into_iter().for_each(|it| disk.store(it));
        Some(Answer::decode(&answer.encode().unwrap()).unwrap())
    }

    /// Does all that keepers want to have done.
    fn settle(&mut self) {
        let next = |cluster: &mut Cluster| {
            cluster.keepers.iter_mut().find_map(|(node, keeper)| Some((*node, keeper.poll()?)))
        };
        while let Some((node, action)) = next(self) {
            match action {
                Action::Store(it) => self.disks.entry(node).or_default().store(it),
                Action::Send(to, ask) => {
                    if let Some(answer) = self.ask(to, &ask) {
                        self.keepers.get_mut(&node).unwrap().receive(to, answer);
                    }
                }
            }
        }
    }

    fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 10 {
            self.now = self.now + core::time::Duration::from_millis(10);
            self.keepers.values_mut().for_each(|it| it.tick(self.now));
            self.settle();
        }
    }

    fn propose(&mut self, name: &Name, task: Task) -> Proposal {
        let seed = self.draw();
        Proposal::new(self.now, NodeId(9), &self.nodes, name.clone(), task, seed, SETTINGS)
    }

    /// Brings an operation to its end.
    fn drive(&mut self, proposal: &mut Proposal) -> Outcome {
        loop {
            while let Some(action) = proposal.poll() {
                match action {
                    proposal::Action::Done(outcome) => return outcome,
                    proposal::Action::Send(node, ask) => {
                        if let Some(answer) = self.ask(node, &ask) {
                            proposal.receive(self.now, node, answer);
                        }
                    }
                }
            }
            self.pass(10);
            proposal.tick(self.now);
        }
    }

    fn run(&mut self, name: &Name, task: Task) -> Outcome {
        let mut proposal = self.propose(name, task);
        self.drive(&mut proposal)
    }

    fn read(&mut self, name: &Name) -> Entry {
        match self.run(name, Task::Read) {
            Outcome::Done(entry) => entry,
            other => panic!("{other:?}"),
        }
    }
}
