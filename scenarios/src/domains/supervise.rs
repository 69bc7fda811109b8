//! The supervisor of the scenario: the one that services have, turned by hand, and what domains
//! answer beside domcon.

use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use nile_abi::Status;
use nile_domain::{Command, Ledger};
use nile_kernel::Core;
use nile_platform::domains::LedgerWords;
use nile_platform::{Domains, Entry, Grant, Machine, Manager, Seat, Wanted};
use nile_ring::Region;
use nile_services::domains::supervise::{Pace, Running as Engine};
use nile_sync::yield_now;

use super::guest::Say;

/// How often the machine is looked at.
const LOOK: Duration = Duration::from_micros(200);

/// What the guests of the scenario have for a configuration: they answer for themselves, and have a
/// pool if there is room for one.
const CONFIG: &str = "[services]\ndomains = []\n";
const WITHOUT_GUARD: &str = "[services]\ndomains = []\n[domain]\nguard = false\n";
const WITH_POOL: &str = "[services]\ndomains = []\n[pool]\nbytes = \"8M\"\n";
const ROOM_FOR_POOL: u32 = 16;

/// A supervisor on the managing core of a node that supervises its machine.
pub struct Running<M: Machine> {
    pub core: Core<M>,
    pub engine: Engine,
    /// The last answer of a domain.
    pub answer: Option<u64>,
    /// The most that was heard at once that is not domcon's.
    pub most_heard: usize,
    /// Whether memory and disks of domains that have ended are left as they are: a control.
    pub leaves_all: bool,
    /// Whether domains have no guard: a control.
    pub has_no_guard: bool,
    /// Whether domains are nodes with all their services, as those of `nile domain` are.
    pub are_nodes: bool,
}

/// A machine that leaves memory and disks as they are; so disks go on reaching what they reached.
struct Unscrubbed<'a>(&'a dyn Domains);

impl Domains for Unscrubbed<'_> {
    fn cores(&self) -> u16 {
        self.0.cores()
    }

    fn memory(&self) -> Grant {
        self.0.memory()
    }

    fn most(&self) -> u8 {
        self.0.most()
    }

    fn seat(&self, slot: u8) -> Option<Seat> {
        self.0.seat(slot)
    }

    fn build(&self, wanted: &Wanted<'_>) -> Result<(), Status> {
        self.0.build(wanted)
    }

    fn admit(&self, entry: &Entry) -> Result<(), Status> {
        self.0.admit(entry)
    }

    fn interrupt(&self, core: u16) {
        self.0.interrupt(core);
    }

    fn is_parked(&self, core: u16) -> bool {
        self.0.is_parked(core)
    }

    fn park(&self, cores: &[u16]) {
        self.0.park(cores);
    }

    fn scrub(&self, _: Grant) {}

    fn disks(&self) -> u16 {
        self.0.disks()
    }

    fn is_part(&self, disk: u16) -> bool {
        self.0.is_part(disk)
    }

    fn confines(&self, disk: u16) -> bool {
        self.0.confines(disk)
    }

    fn extend(&self, disk: u16, memory: Grant) {
        self.0.extend(disk, memory);
    }

    fn renew(&self, _: u16) -> bool {
        true
    }

    fn ledger(&self) -> Region {
        self.0.ledger()
    }
}

impl<M: Machine> Running<M> {
    /// A supervisor with a new ledger; `None` where the node supervises nothing.
    pub fn new(core: &Core<M>) -> Option<Running<M>> {
        let engine = Engine::begin(core.machine().manager()?.domains()?, core.now())?;
        Some(Running {
            core: core.clone(),
            engine,
            answer: None,
            most_heard: 0,
            leaves_all: false,
            has_no_guard: false,
            are_nodes: false,
        })
    }

    /// Waits until all cores are parked that there are to give: they are on their way since the
    /// machine began. Or for so long.
    pub async fn all_parked(&self, span: Duration) {
        let limit = self.core.now() + span;
        let domains = || self.core.machine().manager().and_then(|it| it.domains());
        let are_parked = |it: &dyn Domains| (0..it.cores()).all(|core| it.is_parked(core));
        while !domains().is_some_and(are_parked) && self.core.now() < limit {
            self.core.sleep(Duration::from_millis(1)).await;
        }
    }

    /// Who has what.
    pub fn ledger(&self) -> &Ledger<LedgerWords> {
        self.engine.supervisor.ledger()
    }

    /// Carries a command out.
    pub async fn carry_out(&mut self, command: &Command) -> Result<(), String> {
        if let Command::Create(create) = command {
            let has_pool = create.units >= ROOM_FOR_POOL;
            let config = match has_pool {
                _ if self.has_no_guard => WITHOUT_GUARD,
                true => WITH_POOL,
                false => CONFIG,
            };
            let (program, config) = if self.are_nodes { ("serve", "") } else { ("domain", config) };
            self.engine.set_text(create.name, program, config);
        }
        let begun = self.engine.command(self.core.now(), command);
        let request = begun.map_err(|why| why.to_string())?;
        loop {
            self.turn().await;
            if let Some(outcome) = self.engine.take_outcome(request) {
                return outcome.map_err(|why| format!("{why} {}", self.engine.last_words(1)));
            }
        }
    }

    /// Says something to a domain.
    pub fn say(&mut self, slot: u8, cell: &[u8]) -> bool {
        self.engine.say(slot, cell)
    }

    /// Goes on until `done`, or for so long; whether it was.
    pub async fn until(&mut self, span: Duration, done: impl Fn(&Running<M>) -> bool) -> bool {
        let limit = self.core.now() + span;
        while !done(self) {
            if self.core.now() > limit {
                return false;
            }
            self.turn().await;
        }
        true
    }

    /// One look at everything, and a rest until the next one.
    async fn turn(&mut self) {
        let Some(domains) = self.core.machine().manager().and_then(|it| it.domains()) else {
            return;
        };
        let now = self.core.now();
        let pace = match self.leaves_all {
            true => self.engine.turn(&Unscrubbed(domains), now),
            false => self.engine.turn(domains, now),
        };
        self.most_heard = self.most_heard.max(self.engine.others.len());
        while let Some(cell) = self.engine.others.pop_back() {
            if let [kind, rest @ ..] = &cell[..]
                && *kind == Say::Answer as u8
            {
                self.answer = rest.first_chunk().map(|it| u64::from_le_bytes(*it));
            }
        }
        match pace {
            Pace::AtOnce => yield_now().await,
            _ => self.core.sleep(LOOK).await,
        }
    }
}
