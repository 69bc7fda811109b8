//! The ledger beside a naive model, the protocols' cells, and commands one by one.

mod accounts;
mod cells;
mod commands;
mod model;
mod shares;

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::Instant;

use crate::*;

const SIZES: Sizes = Sizes { cores: 8, units: 32, devices: 2 };

const DEADLINES: Deadlines = Deadlines {
    ask: Duration::from_millis(10),
    force: Duration::from_millis(2),
    build: Duration::from_millis(50),
    start: Duration::from_millis(50),
    stop: Duration::from_millis(20),
};

fn ledger() -> Ledger<Vec<u64>> {
    Ledger::found(vec![0; SIZES.words()], SIZES, &[0], 2)
}

fn at(millis: u64) -> Instant {
    Instant::START + Duration::from_millis(millis)
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn create(text: &str, cores: u16, units: u32) -> Create {
    let limits = Limits { cores: (1, 8), units: (1, 32), priority: 0 };
    Create { name: name(text), cores, units, limits, device: None }
}

/// A machine that does at once what the supervisor says, with domains that do what they are asked.
struct Machine {
    it: Supervisor<Vec<u64>>,
    now: Instant,
    told: Vec<(RequestId, Outcome)>,
    sent: Vec<(DomainId, Message)>,
}

impl Machine {
    fn new() -> Machine {
        let it = Supervisor::new(ledger(), DEADLINES);
        Machine { it, now: Instant::START, told: Vec::new(), sent: Vec::new() }
    }

    /// Does all that is to be done. Domains in `deaf` do nothing.
    fn run(&mut self, deaf: &[&str]) {
        while let Some(action) = self.it.take_action() {
            let now = self.now;
            let hears = |it: &Supervisor<Vec<u64>>, id: DomainId| {
                let name = it.ledger().domain(id).map(|domain| domain.name);
                name.is_some_and(|name| !deaf.contains(&name.as_str()))
            };
            match action {
                Action::Build(id) => self.it.happened(now, Happened::Built(id)),
                Action::Start(id) if hears(&self.it, id) => {
                    self.it.heard(now, id, Message::Hello);
                }
                Action::Start(_) => {}
                Action::Send(id, message) => {
                    self.sent.push((id, message));
                    if hears(&self.it, id) {
                        self.answer(id, message);
                    }
                }
                Action::Force(core) => self.it.happened(now, Happened::Parked(core)),
                Action::Scrub(extent) => self.it.happened(now, Happened::Scrubbed(extent)),
                Action::Reset(device) => self.it.happened(now, Happened::Reset(device)),
                Action::Forget(_) => {}
                Action::Tell(request, outcome) => self.told.push((request, outcome)),
            }
        }
    }

    fn answer(&mut self, id: DomainId, message: Message) {
        let now = self.now;
        match message {
            Message::OfferCore(core) => self.it.heard(now, id, Message::CoreTaken(core)),
            Message::TakeCore(core) => self.it.happened(now, Happened::Parked(core)),
            Message::OfferMemory(extent) => self.it.heard(now, id, Message::MemoryTaken(extent)),
            Message::WantMemory(units) => {
                let its = self.it.ledger().extents_with(|it| it.is_of(id.slot) && it.is_had());
                let units = its.iter().flat_map(|it| it.units()).take(units as usize);
                for start in units.collect::<Vec<_>>() {
                    self.it.heard(now, id, Message::MemoryGiven(Extent { start, count: 1 }));
                }
            }
            Message::Stop => self.it.happened(now, Happened::Ended(id)),
            _ => {}
        }
    }

    /// Carries a command out, and says how it ended; time passes until it has.
    fn command(&mut self, command: Command, deaf: &[&str]) -> Outcome {
        let request = self.it.command(self.now, &command)?;
        loop {
            self.run(deaf);
            if let Some((_, outcome)) = self.told.iter().find(|(it, _)| *it == request) {
                return outcome.clone();
            }
            self.now = self.it.due().expect("somebody is waited for");
            self.it.tick(self.now);
        }
    }

    fn cores(&self, text: &str) -> Vec<u16> {
        let slot = self.it.ledger().named(name(text)).map_or(0, |it| it.id.slot);
        self.it.ledger().cores_with(|it| it.is_of(slot) && it.is_had())
    }

    fn units(&self, text: &str) -> u32 {
        let slot = self.it.ledger().named(name(text)).map_or(0, |it| it.id.slot);
        self.it.ledger().units_with(|it| it.is_of(slot) && it.is_had())
    }
}
