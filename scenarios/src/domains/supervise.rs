//! The supervisor's loop: what the ledger's engine decides is done to the machine, and what the
//! machine and the domains do is told to the engine.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::{Instant, PhysAddr};
use nile_domain::{
    Action, Command, Deadlines, DomainId, Happened, Ledger, Lifecycle, Message, Outcome, Phase,
    Sizes, Supervisor, UNIT,
};
use nile_kernel::Core;
use nile_platform::{Domains, Grant, Machine, Manager, SeatLink, SeatPhase, Wanted};

use super::guest::Say;

const DEADLINES: Deadlines = Deadlines {
    ask: Duration::from_millis(500),
    force: Duration::from_millis(100),
    build: Duration::from_secs(10),
    start: Duration::from_secs(10),
    stop: Duration::from_secs(2),
};

/// How often the machine is looked at.
const LOOK: Duration = Duration::from_micros(200);

/// A supervisor on the managing core of a node that supervises its machine.
pub struct Running<M: Machine> {
    core: Core<M>,
    pub supervisor: Supervisor<Vec<u64>>,
    first: PhysAddr,
    links: BTreeMap<u8, SeatLink>,
    /// Cores that are being taken.
    forced: BTreeSet<u16>,
    outcome: Option<Outcome>,
    /// The last answer of a domain.
    pub answer: Option<u64>,
    /// When a core was last seen to be parked that was to leave.
    pub parked: Instant,
    /// What the domain that ended last has said.
    pub last_words: String,
}

impl<M: Machine> Running<M> {
    /// A supervisor with a new ledger; `None` where the node supervises nothing.
    pub fn new(core: &Core<M>) -> Option<Running<M>> {
        let domains = core.machine().manager()?.domains()?;
        let memory = domains.memory();
        let units = (memory.bytes / UNIT) as u32;
        let sizes = Sizes { cores: domains.cores(), units, devices: 0 };
        let ledger = Ledger::found(alloc::vec![0; sizes.words()], sizes, &[], 0);
        Some(Running {
            core: core.clone(),
            supervisor: Supervisor::new(ledger, DEADLINES),
            first: memory.start,
            links: BTreeMap::new(),
            forced: BTreeSet::new(),
            outcome: None,
            answer: None,
            parked: core.now(),
            last_words: String::new(),
        })
    }

    /// Carries a command out.
    pub async fn carry_out(&mut self, command: &Command) -> Result<(), String> {
        self.outcome = None;
        self.last_words.clear();
        let begun = self.supervisor.command(self.core.now(), command);
        begun.map_err(|why| why.to_string())?;
        loop {
            self.turn().await;
            if let Some(outcome) = self.outcome.take() {
                return outcome.map_err(|why| match self.last_words.is_empty() {
                    true => why.to_string(),
                    false => alloc::format!("{why}: {}", self.last_words),
                });
            }
            self.core.sleep(LOOK).await;
        }
    }

    /// Says something to a domain.
    pub fn say(&mut self, slot: u8, cell: &[u8]) -> bool {
        self.links.get_mut(&slot).is_some_and(|link| link.send(cell))
    }

    /// Goes on until `done`, or for so long; whether it was.
    pub async fn until(&mut self, span: Duration, done: impl Fn(&Running<M>) -> bool) -> bool {
        let limit = self.core.now() + span;
        while !done(self) {
            if self.core.now() > limit {
                return false;
            }
            self.turn().await;
            self.core.sleep(LOOK).await;
        }
        true
    }

    /// One look at everything.
    pub async fn turn(&mut self) {
        let core = self.core.clone();
        let Some(domains) = core.machine().manager().and_then(|it| it.domains()) else { return };
        self.act(domains).await;
        self.listen();
        self.look(domains);
        self.supervisor.tick(self.core.now());
        self.act(domains).await;
    }

    async fn act(&mut self, domains: &dyn Domains) {
        let mut park = Vec::new();
        while let Some(action) = self.supervisor.take_action() {
            let now = self.core.now();
            match action {
                Action::Build(id) => {
                    if self.build(domains, id).is_none() {
                        self.supervisor.happened(now, Happened::NotBuilt(id));
                    }
                }
                // Its cores enter when it is put together.
                Action::Start(_) | Action::Reset(_) => {}
                Action::Send(id, message) => {
                    self.say(id.slot, &message.encode(id));
                }
                Action::Force(core) => park.push(core),
                Action::Scrub(extent) => {
                    for unit in extent.units() {
                        domains.scrub(self.grant(unit, 1));
                        // Others of this core go on in between.
                        self.core.sleep(Duration::ZERO).await;
                    }
                    self.supervisor.happened(self.core.now(), Happened::Scrubbed(extent));
                }
                Action::Forget(id) => {
                    self.links.remove(&id.slot);
                    domains.seat(id.slot).into_iter().for_each(|seat| seat.clear());
                }
                Action::Tell(_, outcome) => self.outcome = Some(outcome),
            }
        }
        // One that has left by itself need not be taken.
        park.retain(|core| !domains.is_parked(*core) && !self.forced.contains(core));
        if !park.is_empty() {
            domains.park(&park);
        }
        self.forced.extend(park);
    }

    fn build(&mut self, domains: &dyn Domains, id: DomainId) -> Option<()> {
        let ledger = self.supervisor.ledger();
        let cores = ledger.cores_with(|it| it.is_own(id.slot));
        let memory = ledger.extents_with(|it| it.is_own(id.slot));
        let memory: Vec<Grant> = memory.iter().map(|it| self.grant(it.start, it.count)).collect();
        let wanted = Wanted {
            slot: id.slot,
            generation: id.generation,
            cores: &cores,
            memory: &memory,
            program: "domain",
            config: "",
        };
        if let Err(status) = domains.build(&wanted) {
            self.core.machine().log(format_args!("a domain is not built: {status}"));
            return None;
        }
        let link = domains.seat(id.slot)?.supervisor_end(id.generation).ok()?;
        self.links.insert(id.slot, link);
        Some(())
    }

    fn grant(&self, start: u32, count: u32) -> Grant {
        let start = PhysAddr(self.first.0 + u64::from(start) * UNIT);
        Grant { start, bytes: u64::from(count) * UNIT }
    }

    /// What domains say.
    fn listen(&mut self) {
        let now = self.core.now();
        let mut heard = Vec::new();
        for link in self.links.values_mut() {
            while let Ok(Some(message)) = link.receive() {
                heard.push(message);
            }
        }
        for message in heard {
            match (Message::decode(message.payload()), message.payload()) {
                (Ok((id, said)), _) => self.supervisor.heard(now, id, said),
                (Err(_), [kind, rest @ ..]) if *kind == Say::Answer as u8 => {
                    self.answer = rest.first_chunk().map(|it| u64::from_le_bytes(*it));
                }
                _ => {}
            }
        }
    }

    /// What cores and seats show.
    fn look(&mut self, domains: &dyn Domains) {
        let now = self.core.now();
        let all: Vec<_> = self.supervisor.ledger().domains().collect();
        for domain in all {
            let Some(seat) = domains.seat(domain.id.slot) else { continue };
            let phase = seat.phase();
            if phase.is_over() {
                self.last_words = seat.last_words();
            }
            match (domain.state, phase) {
                (Lifecycle::Building, SeatPhase::Started) => {
                    self.supervisor.happened(now, Happened::Built(domain.id));
                }
                (Lifecycle::Building, SeatPhase::NotBuilt) => {
                    self.supervisor.happened(now, Happened::NotBuilt(domain.id));
                }
                (Lifecycle::Dead, _) => {}
                _ if phase.is_over() => {
                    self.supervisor.happened(now, Happened::Ended(domain.id));
                }
                _ => {}
            }
        }
        let cores = self.supervisor.ledger().cores_with(|it| it.phase == Phase::Leaving);
        for core in cores.into_iter().filter(|core| domains.is_parked(*core)) {
            self.forced.remove(&core);
            self.parked = now;
            self.supervisor.happened(now, Happened::Parked(core));
        }
    }
}
