//! What clients want, one thing after the other, and what becomes of it.

use std::time::Duration;

use nile_abi::NodeId;
use nile_names::{
    Answer, Entry, Expect, Facts, Name, Outcome, Proposal, Reply, Scan, Task, Version, What,
    proposal, scan,
};
use rand_chacha::rand_core::Rng;

use super::cluster::{Cluster, Event};
use super::ledger::Seen;
use super::node::{Letter, Party};
use crate::draw::{below, span};

/// One that wants things.
pub struct Client {
    pub node: NodeId,
    /// The stamp that it has last seen of each name.
    stamps: Vec<u64>,
    /// What it will do next.
    plans: Vec<(usize, Task)>,
}

/// An operation that runs.
pub struct Running {
    pub client: usize,
    /// When it was called, in the ledger's time.
    call: u64,
    machine: Machine,
    /// When it is to be called, as was planned last.
    planned: Option<nile_abi::Instant>,
}

enum Machine {
    Proposal(Box<Proposal>, usize, Task),
    /// With the names that were told.
    Scan(Scan, Vec<(Name, Option<Entry>)>),
}

impl Client {
    pub fn new(node: NodeId, names: usize) -> Client {
        Client { node, stamps: vec![0; names], plans: Vec::new() }
    }
}

impl Cluster {
    /// The client begins something.
    pub fn begin(&mut self, client: usize) {
        if !self.is_busy || !self.nodes[self.clients[client].node.0 as usize - 1].is_up {
            return;
        }
        match self.clients[client].plans.pop() {
            Some((name, task)) => self.propose(client, name, task),
            None if below(&mut self.random, 12) == 0 => self.scan(client),
            None => {
                let name = below(&mut self.random, self.names.len() as u64) as usize;
                let task = self.draw_task(client, name);
                self.propose(client, name, task);
            }
        }
    }

    fn draw_task(&mut self, client: usize, name: usize) -> Task {
        let random = &mut self.random;
        let id = random.next_u64();
        let facts = Facts { bytes: id % 100, blocks: 1, copies: 1, nodes: Vec::new() };
        let dataset = What::Dataset { version: Version::new(id, 1), facts: facts.clone() };
        let stamp = Expect::Stamp(self.clients[client].stamps[name]);
        let job = 1 + below(random, 2);
        let (expect, to) = match below(random, 14) {
            0..4 => return Task::Read,
            4..7 => (Expect::Absent, dataset),
            7 => (stamp, dataset),
            8 => (Expect::Any, dataset),
            9 | 10 => (Expect::Any, What::Absent),
            11 => (stamp, What::Absent),
            12 => (Expect::Absent, What::Making { job }),
            _ => (Expect::Making(job), What::Output { job, parts: 2, facts }),
        };
        Task::Change { id, expect, to }
    }

    pub fn propose(&mut self, client: usize, name: usize, task: Task) {
        let node = self.clients[client].node;
        let (seed, settings) = (self.random.next_u64(), self.settings[1]);
        let (now, text) = (self.now, self.names[name].clone());
        let keepers = &self.keepers;
        let machine = Proposal::new(now, node, keepers, text, task.clone(), seed, settings);
        self.start(client, Machine::Proposal(Box::new(machine), name, task));
    }

    pub fn scan(&mut self, client: usize) {
        let (seed, settings) = (self.random.next_u64(), self.settings[1]);
        let machine = Scan::new(self.now, &self.keepers, None, usize::MAX, seed, settings);
        self.start(client, Machine::Scan(machine, Vec::new()));
    }

    fn start(&mut self, client: usize, machine: Machine) {
        let call = self.ledger.moment();
        let operation = self.next_operation;
        self.next_operation += 1;
        self.running.insert(operation, Running { client, call, machine, planned: None });
        // Some clients die in the midst.
        if self.is_busy && below(&mut self.random, 10) == 0 {
            let most = Duration::from_millis(20);
            let at = self.now + span(&mut self.random, most);
            self.plan(at, Event::Abandon(operation));
        }
        self.drive(operation);
    }

    /// Does what an operation wants to have done.
    fn drive(&mut self, operation: u64) {
        let Some(running) = self.running.get_mut(&operation) else { return };
        let node = self.clients[running.client].node;
        let mut sent = Vec::new();
        let (mut is_over, mut has_failed) = (false, false);
        let whose = running.client;
        let due = match &mut running.machine {
            Machine::Proposal(machine, name, task) => {
                while let Some(action) = machine.poll() {
                    match action {
                        proposal::Action::Send(to, ask) => sent.push((to, ask)),
                        proposal::Action::Done(outcome) => {
                            let client = &mut self.clients[running.client];
                            is_over = true;
                            client.hear(&mut self.random, *name, task, &outcome);
                            let outcome = match outcome {
                                Outcome::Unknown(lack) if self.conduct.denies => {
                                    Outcome::NoMajority(lack)
                                }
                                outcome => outcome,
                            };
                            let is_denied = matches!(outcome, Outcome::NoMajority(_));
                            has_failed |= is_denied;
                            self.ledger.end(*name, running.call, task, Some(outcome));
                        }
                    }
                }
                machine.next_due()
            }
            Machine::Scan(machine, told) => {
                while let Some(action) = machine.poll() {
                    match action {
                        scan::Action::Send(to, ask) => sent.push((to, ask)),
                        scan::Action::Names(names) => told.extend(names),
                        scan::Action::Done | scan::Action::Failed(_) => {
                            is_over = true;
                            let is_whole = action == scan::Action::Done;
                            has_failed |= !is_whole;
                            let client = &mut self.clients[running.client];
                            for (at, name) in self.names.iter().enumerate() {
                                let seen = match told.iter().find(|(it, _)| it == name) {
                                    Some((_, Some(entry))) => Seen::Entry(entry.clone()),
                                    Some((_, None)) => {
                                        client.plans.push((at, Task::Read));
                                        continue;
                                    }
                                    None if is_whole => Seen::Absent,
                                    None => continue,
                                };
                                self.ledger.saw(at, running.call, seen);
                            }
                        }
                    }
                }
                machine.next_due()
            }
        };
        if running.planned != due
            && let Some(due) = due
        {
            running.planned = Some(due);
            self.plan(due, Event::WakeOperation(operation));
        }
        if has_failed {
            self.has_failed(whose);
        }
        if is_over {
            self.finish(operation);
        }
        for (to, ask) in sent {
            self.post(node, to, Letter::Ask(Party::Operation(operation), ask));
        }
    }

    fn finish(&mut self, operation: u64) {
        if let Some(running) = self.running.remove(&operation) {
            // A row of things at once, and then nothing for a while.
            let most = if below(&mut self.random, 8) == 0 { 1000 } else { 20 };
            let at = self.now + span(&mut self.random, Duration::from_millis(most));
            self.plan(at, Event::Begin(running.client));
        }
    }

    pub fn wake_operation(&mut self, operation: u64) {
        let now = self.now;
        match self.running.get_mut(&operation).map(|it| &mut it.machine) {
            Some(Machine::Proposal(machine, ..)) => machine.tick(now),
            Some(Machine::Scan(machine, _)) => machine.tick(now),
            None => {}
        }
        self.drive(operation);
    }

    pub fn answer(&mut self, from: NodeId, operation: u64, mut answer: Answer) {
        let Some(running) = self.running.get_mut(&operation) else { return };
        if self.conduct.mixes_views && !answer.view.seats.is_empty() {
            answer.view = self.one_view.get_or_insert(answer.view).clone();
        }
        match &mut running.machine {
            Machine::Proposal(_, name, Task::Read) if self.conduct.trusts_one => {
                if let Reply::Looked(cell) = answer.reply {
                    let outcome = Outcome::Done(cell.entry);
                    self.ledger.end(*name, running.call, &Task::Read, Some(outcome));
                    self.finish(operation);
                }
                return;
            }
            Machine::Proposal(machine, ..) => machine.receive(self.now, from, answer),
            Machine::Scan(machine, _) => machine.receive(self.now, from, answer),
        }
        self.drive(operation);
    }

    /// The operation's client dies.
    pub fn abandon(&mut self, operation: u64) {
        if let Some(running) = self.running.get(&operation) {
            if let Machine::Proposal(_, name, task) = &running.machine {
                self.ledger.end(*name, running.call, task, None);
            }
            self.finish(operation);
        }
    }

    /// All clients on a node die.
    pub fn abandon_all(&mut self, node: NodeId) {
        let is_there = |it: &Running| self.clients[it.client].node == node;
        let running = self.running.iter().filter(|(_, it)| is_there(it));
        let running: Vec<u64> = running.map(|(operation, _)| *operation).collect();
        running.into_iter().for_each(|operation| self.abandon(operation));
    }
}

impl Client {
    /// What it learns of an outcome.
    fn hear(
        &mut self,
        random: &mut rand_chacha::ChaCha8Rng,
        name: usize,
        task: &Task,
        outcome: &Outcome,
    ) {
        match outcome {
            Outcome::Done(entry) | Outcome::Refused(entry) => self.stamps[name] = entry.stamp,
            // It asks for the same again, by its number, or looks.
            Outcome::Unknown(_) => match below(random, 3) {
                0 => self.plans.push((name, task.clone())),
                1 => self.plans.push((name, Task::Read)),
                _ => {}
            },
            Outcome::NoMajority(_) => {}
        }
    }
}
