//! The nodes of a run on their switch, in the order of time, and the checks at every step.

use std::time::Duration;

use nile_abi::{Generation, Instant, NodeId};
use nile_ipioe::{Asker, CallId, End, Event, Limits, Request, ServingId};
use nile_switch::Link;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Conduct;
use super::chaos::{Attacker, Blow, Schedule, blow, link};
use super::ledger::{Ledger, Promise, Token, name};
use super::node::{Kind, Node, core, key, span};
use crate::draw::below;
use crate::report::Figure;
use crate::trace::Trace;
use crate::world::{Happening, Host, World};

/// How long nodes call and chaos reigns.
const BUSY: Duration = Duration::from_millis(1500);

/// How long the last calls have after that, on a good network.
const CALM: Duration = Duration::from_secs(4);

/// One run.
pub struct Cluster {
    random: ChaCha8Rng,
    world: World,
    nodes: Vec<Node>,
    /// The host that is not a node: the attacker's port, and the timer of what befalls the others.
    chaos: Host,
    attacker: Option<Attacker>,
    schedule: Schedule,
    kind: Kind,
    /// What endpoints may remember, by the checks.
    limits: Limits,
    ledger: Ledger,
    trace: Trace,
    conduct: Conduct,
    buffer: Vec<u8>,
    attacks: u64,
    restarts: u64,
}

impl Cluster {
    pub fn new(seed: u64, nodes: u32, conduct: Conduct) -> Cluster {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut world = World::new(seed);
        world.set_all_links(link(&mut random));
        // A run in four has no key; one in four has little room to remember calls.
        let is_sealed = conduct != Conduct::default() || below(&mut random, 4) != 0;
        let is_narrow = below(&mut random, 4) == 0;
        let remembered = if is_narrow { 4 } else { 1 << 12 };
        let bytes = if is_narrow { 100 << 10 } else { 16 << 20 };
        let limits = Limits { remembered, bytes, ..Limits::default() };
        let allowed = if conduct.is_greedy { Limits { bytes: 0, ..limits } } else { limits };
        let kind = Kind { key: is_sealed.then(|| key(seed)), limits, seed };
        let start = world.now();
        let nodes = (1..=nodes)
            .map(|id| {
                world.add_host();
                let boot = span(random.next_u64(), Duration::ZERO, Duration::from_millis(20));
                Node::new(NodeId(id), &kind, start + boot)
            })
            .collect();
        let chaos = world.add_host();
        let attacker = is_sealed.then(Attacker::default);
        let schedule =
            Schedule { next: start + Duration::from_millis(5), heal: None, end: start + BUSY };
        Cluster {
            random,
            world,
            nodes,
            chaos,
            attacker,
            schedule,
            kind,
            limits: allowed,
            ledger: Ledger::default(),
            trace: Trace::default(),
            conduct,
            buffer: vec![0; nile_abi::ethernet::STANDARD_FRAME],
            attacks: 0,
            restarts: 0,
        }
    }

    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    pub fn figures(&self) -> Vec<Figure> {
        let figure = |name, count| Figure::new(name, count as f64, "in the last run");
        vec![
            figure("answered calls", self.ledger.answered),
            figure("calls that timed out", self.ledger.timed_out),
            figure("calls to dead incarnations", self.ledger.dead),
            figure("calls refused as busy", self.ledger.busy),
            figure("restarts", self.restarts),
            figure("attacker's frames", self.attacks),
        ]
    }

    /// Runs to the end, or to the first promise that is broken.
    pub fn run(&mut self) -> Result<(), String> {
        let start = self.world.now();
        for index in 0..self.nodes.len() {
            self.broadcast(index);
            self.pump(index)?;
        }
        self.world.set_timer(self.chaos, Some(self.schedule.next));
        self.until(start + BUSY)?;
        // The network is good again, and old calls end; then everybody is called once more.
        self.world.set_all_links(Link::PERFECT);
        self.world.heal();
        self.until(start + BUSY + CALM)?;
        for index in 0..self.nodes.len() {
            let to = (index + 1) % self.nodes.len();
            self.last_call(index, to)?;
            self.pump(index)?;
        }
        self.until(start + BUSY + CALM * 2)?;
        if let Some(token) = self.ledger.overdue(self.world.now()) {
            return Err(format!("call {token} never ended"));
        }
        Ok(())
    }

    /// Lets everything happen that happens before `end`.
    fn until(&mut self, end: Instant) -> Result<(), String> {
        while let Some(happening) = self.world.next(end) {
            match happening {
                Happening::Frame { to, frame } if to != self.chaos => {
                    self.receive(to.index(), &frame)?;
                    self.pump(to.index())?;
                }
                Happening::Timer(host) if host != self.chaos => {
                    self.act(host.index())?;
                    self.pump(host.index())?;
                }
                Happening::Timer(_) => self.strike()?,
                Happening::Frame { .. } => {}
            }
        }
        Ok(())
    }

    /// A frame reaches a node.
    fn receive(&mut self, index: usize, frame: &[u8]) -> Result<(), String> {
        let now = self.world.now();
        let node = &mut self.nodes[index];
        let Some(name) = node.receive(now, frame) else { return Ok(()) };
        if !self.ledger.is_genuine(name) {
            return Err(format!("{} accepted a forged frame: {frame:02x?}", node.id));
        }
        if node.note(name) && self.kind.key.is_some() {
            return Err(format!("{} accepted a frame twice: {frame:02x?}", node.id));
        }
        Ok(())
    }

    /// A node's timer: what its endpoint, its services and its programs have to do.
    fn act(&mut self, index: usize) -> Result<(), String> {
        let now = self.world.now();
        let count = self.nodes.len();
        let node = &mut self.nodes[index];
        node.endpoint.on_time(now);
        while let Some((serving, token)) = node.due(now) {
            let others = token.saturating_sub(1).max(1);
            let other = if self.conduct.mixes_replies { others } else { token };
            let data = self.ledger.reply(other, node.id, node.generation);
            node.reply(now, serving, data);
        }
        if now < node.next_act {
            return Ok(());
        }
        let least = Duration::from_micros(200);
        node.next_act = now + span(self.random.next_u64(), least, Duration::from_millis(100));
        if now >= self.schedule.end {
            node.next_act = Instant::from_nanos(u64::MAX);
            return Ok(());
        }
        let to = (index + 1 + below(&mut self.random, count as u64 - 1) as usize) % count;
        if below(&mut self.random, 5) == 0 {
            let bytes = self.size();
            let (from, to) = (self.nodes[index].id, self.nodes[to].id);
            let data = self.ledger.tell(from, bytes);
            // A full queue is no failure of gossip, which may be lost.
            let _ = self.nodes[index].endpoint.gossip(now, to, core(1), true, data);
            return Ok(());
        }
        let (shortest, longest) = (Duration::from_millis(2), Duration::from_millis(1500));
        let deadline = now + span(self.random.next_u64(), shortest, longest);
        let bytes = [self.size(), self.size()];
        let wanted = (below(&mut self.random, 4) == 0)
            .then(|| self.nodes[index].endpoint.peer(self.nodes[to].id))
            .flatten()
            .map(|peer| peer.generation);
        self.call(index, to, deadline, bytes, wanted);
        // Some callers lose interest.
        if below(&mut self.random, 50) == 0
            && let Some((call, token)) = self.nodes[index].open.pop_last()
        {
            self.nodes[index].endpoint.cancel(now, call);
            self.ledger.forget([token].into_iter());
        }
        Ok(())
    }

    /// Mostly small, sometimes all that fits.
    fn size(&mut self) -> usize {
        let bound = match below(&mut self.random, 32) {
            0 => nile_ipioe::wire::MAX_MESSAGE as u64 - 16,
            1..4 => 8 << 10,
            _ => 200,
        };
        16 + below(&mut self.random, bound) as usize
    }

    fn call(
        &mut self,
        from: usize,
        to: usize,
        deadline: Instant,
        bytes: [usize; 2],
        wanted: Option<Generation>,
    ) -> bool {
        let now = self.world.now();
        let to = self.nodes[to].id;
        let node = &mut self.nodes[from];
        let mut promise = Promise::new(node.id, to, deadline, bytes);
        promise.known = node.endpoint.peer(to).map(|peer| peer.generation);
        promise.wanted = wanted;
        let (token, data) = self.ledger.promise(promise);
        let request = Request {
            to,
            generation: wanted,
            source_core: core(token),
            core: core(token / 3),
            service: token as u16,
            method: 1,
            encoded: true,
            asker: Asker::Kernel,
            deadline,
        };
        let call = node.endpoint.call(now, request, data);
        match call {
            Ok(call) => drop(node.open.insert(call, token)),
            Err(_) => self.ledger.withdraw(token),
        }
        call.is_ok()
    }

    /// A call that must end well: the network is good, and nobody restarts.
    fn last_call(&mut self, from: usize, to: usize) -> Result<(), String> {
        let deadline = self.world.now() + CALM / 4;
        if self.call(from, to, deadline, [64, 64], None) {
            Ok(())
        } else {
            Err(format!("{} takes no calls any more", self.nodes[from].id))
        }
    }

    fn broadcast(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let data = self.ledger.tell(node.id, 100);
        // It fits, and a node that just began has room.
        let _ = node.endpoint.broadcast(true, data);
    }

    /// Sends what a node wants to send, takes what its endpoint tells, and sets its timer.
    fn pump(&mut self, index: usize) -> Result<(), String> {
        let now = self.world.now();
        loop {
            while let Some(event) = self.nodes[index].endpoint.poll() {
                self.handle(index, event)?;
            }
            let node = &mut self.nodes[index];
            let Some(bytes) = node.endpoint.transmit(now, &mut self.buffer) else { break };
            let frame = &self.buffer[..bytes];
            let name = name(frame);
            if !self.conduct.leaks_key || index != 0 {
                self.ledger.sent(name);
            }
            self.trace.note(now, index as u64, 1, name);
            if let Some(attacker) = &mut self.attacker {
                attacker.overhear(frame);
            }
            self.world.send(Host(index as u32), frame);
        }
        let node = &self.nodes[index];
        if node.is_greedy(&self.limits) {
            return Err(format!("{} remembers too much: {:?}", node.id, node.endpoint.usage()));
        }
        let late = if index == 0 { self.conduct.lateness } else { Duration::ZERO };
        let due = node.next_due() + late;
        self.world.set_timer(Host(index as u32), Some(due));
        Ok(())
    }

    /// What an endpoint tells its node.
    fn handle(&mut self, index: usize, event: Event) -> Result<(), String> {
        let now = self.world.now();
        let node = &mut self.nodes[index];
        match event {
            Event::Request { serving, data, .. } => {
                let by = (node.id, node.generation);
                let token = self.ledger.execute(by.0, by.1, serving.node, &data)?;
                self.trace.note(now, index as u64, 2, token);
                self.serve(index, serving, token);
            }
            Event::Cancelled { serving } => node.cancel(serving),
            Event::Ended { call, end } => return self.ended(index, call, &end),
            Event::Gossip { from, data, .. } | Event::Broadcast { from, data, .. } => {
                let token = self.ledger.heard(from, &data)?;
                if node.hear(from, token) && self.kind.key.is_some() {
                    return Err(format!("{} was told gossip {token} twice", node.id));
                }
            }
            // Of a former life.
            Event::Met { .. }
            | Event::Restarted { .. }
            | Event::Left { .. }
            | Event::Namesake { .. } => {}
            Event::Outdated { known } => {
                return Err(format!("{} was told that it is {known}", node.id));
            }
        }
        Ok(())
    }

    /// A service takes its time, or never answers.
    fn serve(&mut self, index: usize, serving: ServingId, token: Token) {
        let now = self.world.now();
        let due = match below(&mut self.random, 40) {
            0 if now < self.schedule.end => None,
            1..10 => {
                let longest = Duration::from_millis(30);
                Some(now + span(self.random.next_u64(), Duration::ZERO, longest))
            }
            _ => Some(now),
        };
        self.nodes[index].serve(serving, token, due);
    }

    fn ended(&mut self, index: usize, call: CallId, end: &End) -> Result<(), String> {
        let now = self.world.now();
        let node = &mut self.nodes[index];
        let Some(token) = node.open.remove(&call) else {
            return Err(format!("{} was told the end of a call that it has not open", node.id));
        };
        let kind = match end {
            End::Answered { .. } => 3,
            End::Dead => 4,
            End::TimedOut => 5,
        };
        self.trace.note(now, index as u64, kind, token);
        let lives = self.nodes[call.node.0 as usize - 1].generation;
        self.ledger.end(now, token, end, lives)?;
        let is_calm = now > self.schedule.end + CALM;
        match end {
            // Nobody had told the caller that its callee had restarted; now it knows.
            End::Dead if is_calm => self.last_call(index, call.node.0 as usize - 1),
            End::TimedOut if is_calm => {
                Err(format!("call {token} to {} timed out on a good network", call.node))
            }
            _ => Ok(()),
        }
    }

    /// Something befalls the cluster.
    fn strike(&mut self) -> Result<(), String> {
        let now = self.world.now();
        if now >= self.schedule.end {
            return Ok(());
        }
        if self.schedule.heal.is_some_and(|heal| heal <= now) {
            self.world.heal();
            self.schedule.heal = None;
        }
        if now >= self.schedule.next {
            let is_attacked = self.attacker.is_some();
            let (blow, pause) = blow(&mut self.random, self.nodes.len(), is_attacked);
            self.schedule.next = now + pause;
            match blow {
                Blow::Partition(place, span) => {
                    let hosts: Vec<Host> = (0..self.nodes.len() as u32).map(Host).collect();
                    let (one, other) = hosts.split_at(place);
                    self.world.partition(&[one, other]);
                    self.schedule.heal = Some(now + span);
                }
                Blow::Restart(index) => self.restart(index)?,
                Blow::Attack => {
                    if let Some(attacker) = &self.attacker {
                        self.attacks += 1;
                        let frame = attacker.frame(&mut self.random);
                        self.world.send(self.chaos, &frame);
                    }
                }
            }
        }
        let next = self.schedule.heal.unwrap_or(self.schedule.next).min(self.schedule.next);
        self.world.set_timer(self.chaos, Some(next));
        Ok(())
    }

    fn restart(&mut self, index: usize) -> Result<(), String> {
        self.restarts += 1;
        if !self.conduct.has_amnesia && below(&mut self.random, 2) == 0 {
            // It ends in good order, and says so.
            self.nodes[index].endpoint.leave();
            self.pump(index)?;
        }
        let lost = self.nodes[index].restart(&self.kind, self.conduct.has_amnesia);
        self.ledger.forget(lost.into_values());
        self.broadcast(index);
        self.pump(index)
    }
}
