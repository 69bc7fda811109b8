//! The domains of a machine that this node supervises (docs/domains.md). The ledger stands in
//! memory that outlives the managing core's incarnation: the service's next one goes on with it,
//! and no domain that runs notices.
//!
//! * [`supervise`]: what the ledger's engine decides is done to the machine.
//! * [`managing`]: the other end, on the managing core of a domain.

pub mod managing;
pub mod supervise;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::{Instant, Status};
use nile_domain::{
    Command, Create, Domain, DomainId, Holding, Ledger, LimitChange, Limits, Name, Phase, Refused,
    Resize, Share, Way,
};
use nile_interfaces::domains::{
    DomainChange, DomainEntry, DomainWanted, DomainsKernel, DomainsOfMachine, LentEntry,
    SharedEntry, TollEntry,
};
use nile_stl::node::domains::LedgerWords;
use nile_stl::{CallError, CallResult, Start, Stl, service};
use nile_sync::{Notify, first, yield_now};

use supervise::{Pace, Running};

/// What a domain's node is started for.
const PROGRAM: &str = "serve";

/// How often the machine is looked at while something is under way, and while domains run.
const SOON: Duration = Duration::from_micros(200);
const SELDOM: Duration = Duration::from_millis(5);

/// The supervisor of this machine.
pub struct DomainService {
    stl: Stl,
    shared: Rc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// None on a node that has all of its machine.
    running: RefCell<Option<Running>>,
    /// A command has come.
    begun: Notify,
    /// One may have ended.
    ended: Notify,
}

impl Start for DomainService {
    fn start(stl: &Stl) -> DomainService {
        let shared: Rc<Shared> = Rc::default();
        if let Ok(node) = stl.node()
            && let Some(domains) = node.domains()
        {
            *shared.running.borrow_mut() = Running::begin(domains, stl.host().now());
            let (own, shared) = (stl.clone(), shared.clone());
            stl.host().spawn(alloc::boxed::Box::pin(async move { work(&own, &shared).await }));
        }
        DomainService { stl: stl.clone(), shared }
    }
}

/// Whether this node supervises its machine: else the service is of no use.
pub fn is_of_use(stl: &Stl) -> bool {
    stl.node().is_ok_and(|node| node.domains().is_some())
}

/// Looks at the machine as often as there is something to see.
async fn work(stl: &Stl, shared: &Shared) {
    let host = stl.host();
    loop {
        let pace = {
            let Ok(node) = stl.node() else { return };
            let mut running = shared.running.borrow_mut();
            let (Some(domains), Some(running)) = (node.domains(), running.as_mut()) else { return };
            let pace = running.turn(domains, host.now());
            running.take_news().iter().for_each(|line| host.log(format_args!("{line}")));
            pace
        };
        shared.ended.notify();
        match pace {
            Pace::AtOnce => yield_now().await,
            Pace::Soon => host.pause(SOON).await,
            Pace::Seldom => first(host.pause(SELDOM), shared.begun.next()).await,
            Pace::Never => shared.begun.next().await,
        }
    }
}

impl DomainService {
    fn with<T>(&self, look: impl FnOnce(&mut Running) -> CallResult<T>) -> CallResult<T> {
        match self.shared.running.borrow_mut().as_mut() {
            Some(running) => look(running),
            None => Err(CallError::new(
                Status::NotFound,
                "this node supervises no machine: its configuration has no [supervisor]",
            )),
        }
    }

    fn entry_of(&self, name: Name) -> CallResult<DomainEntry> {
        self.with(|running| {
            let gone = || CallError::new(Status::NotFound, "the domain has just gone");
            let domain = running.supervisor.ledger().named(name).ok_or_else(gone)?;
            Ok(entry(running, self.stl.host().now(), &domain))
        })
    }

    /// The same error, with what the domain in this place has said last.
    fn with_last_words(&self, error: CallError, place: u8) -> CallError {
        let said = self.with(|running| Ok(String::from(running.last_words(place))));
        match said.unwrap_or_default().trim() {
            "" => error,
            said => CallError::new(error.status, format!("{}: {said}", error.message)),
        }
    }

    /// Carries a command out. Ends when that has.
    async fn carry_out(&self, command: &Command) -> CallResult<()> {
        let now = self.stl.host().now();
        let request = self.with(|running| running.command(now, command).map_err(refused))?;
        self.shared.begun.notify();
        let look = || self.with(|running| Ok(running.take_outcome(request))).transpose();
        let outcome = self.shared.ended.until(look).await?;
        outcome.map_err(|why| CallError::new(Status::Failed, why))
    }
}

#[service(on = manager, keywords(domain = 5, supervisor = 3, machine = 2, core = 1, memory = 1))]
impl DomainsKernel for DomainService {
    fn list(&self) -> CallResult<DomainsOfMachine> {
        self.with(|running| {
            let ledger = running.supervisor.ledger();
            let domains: Vec<Domain> = ledger.domains().collect();
            let now = self.stl.host().now();
            Ok(DomainsOfMachine {
                domains: domains.iter().map(|it| entry(running, now, it)).collect(),
                free_cores: ledger.cores_with(|it| it.phase == Phase::Free),
                free_units: ledger.units_with(|it| it.phase == Phase::Free),
                free_disks: disks(ledger, |it| it.phase == Phase::Free),
                shared: ledger.shares().map(shared).collect(),
                lent: ledger.cores().filter_map(lent).collect(),
            })
        })
    }

    fn plan(&self, wanted: DomainWanted) -> CallResult<DomainEntry> {
        self.with(|running| {
            let command = Command::Create(create(&wanted, running)?);
            let plan = running.supervisor.plan(&command).map_err(refused)?;
            Ok(DomainEntry {
                name: wanted.name,
                place: plan.domain.slot,
                generation: plan.domain.generation.0,
                state: "planned".into(),
                cores: plan.cores.iter().map(|(core, _)| *core).collect(),
                units: wanted.units,
                disks: plan.device.into_iter().collect(),
                least_cores: wanted.least_cores,
                most_cores: wanted.most_cores,
                most_units: wanted.most_units,
                priority: wanted.priority,
                last_words: String::new(),
                age_us: 0,
                core_us: 0,
                unit_us: 0,
                isolated: running.isolates(plan.device),
                kept_off: 0,
                sent: TollEntry::default(),
                disk: TollEntry::default(),
            })
        })
    }

    async fn create(
        &self,
        wanted: DomainWanted,
        place: u8,
        config: String,
    ) -> CallResult<DomainEntry> {
        let create = self.with(|running| create(&wanted, running))?;
        let command = Command::Create(create);
        self.with(|running| {
            let DomainId { slot, .. } = running.supervisor.plan(&command).map_err(refused)?.domain;
            if slot != place {
                let why = format!("place {place} is taken; the next free one is {slot}");
                return Err(CallError::new(Status::Busy, why));
            }
            running.set_text(create.name, PROGRAM, &config);
            Ok(())
        })?;
        self.carry_out(&command).await.map_err(|error| self.with_last_words(error, place))?;
        self.entry_of(create.name)
    }

    async fn resize(&self, name: String, change: DomainChange) -> CallResult<DomainEntry> {
        let DomainChange { cores, units, force, of_disk, rate, burst, weight } = change;
        let (name, limit) = (name_of(&name)?, LimitChange { rate, burst, weight });
        let way = if of_disk { Way::Disk } else { Way::Network };
        self.with(|running| {
            if of_disk && limit != LimitChange::default() && !running.has_part(name) {
                let why = format!(
                    "{name} has no part of a disk; what a disk of its own does, nothing limits"
                );
                return Err(CallError::new(Status::Invalid, why));
            }
            running.supervisor.limit(name, way, limit).map_err(refused)
        })?;
        if cores.is_some() || units.is_some() {
            let resize = Resize { name, cores, units, force };
            self.carry_out(&Command::Resize(resize)).await?;
        }
        self.entry_of(name)
    }

    fn share(&self, name: String, units: u32, domains: Vec<String>) -> CallResult<SharedEntry> {
        let (name, domains) = (name_of(&name)?, names_of(&domains)?);
        self.with(|running| {
            running.supervisor.share(name, units, &domains).map(shared).map_err(refused)
        })
    }

    fn unshare(&self, name: String, domains: Vec<String>) -> CallResult<()> {
        let (name, domains) = (name_of(&name)?, names_of(&domains)?);
        self.with(|running| running.supervisor.unshare(name, &domains).map_err(refused))?;
        // What nobody has is to be zeroed.
        self.shared.begun.notify();
        Ok(())
    }

    async fn lend(&self, from: String, to: String, cores: u16, millis: u32) -> CallResult<()> {
        let (from, to) = (name_of(&from)?, name_of(&to)?);
        self.carry_out(&Command::Lend { from, to, cores, millis }).await
    }

    async fn recall(&self, name: String) -> CallResult<()> {
        self.carry_out(&Command::Recall { from: name_of(&name)? }).await
    }

    async fn destroy(&self, name: String, force: bool) -> CallResult<()> {
        let name = name_of(&name)?;
        self.carry_out(&Command::Destroy { name, force }).await
    }
}

fn create(wanted: &DomainWanted, running: &Running) -> CallResult<Create> {
    let free = disks(running.supervisor.ledger(), |it| it.phase == Phase::Free);
    // If none is free, it is refused with the name of who has the first.
    let device = wanted.disk.then(|| free.first().copied().unwrap_or_default());
    let limits = Limits {
        cores: (wanted.least_cores, wanted.most_cores),
        units: (1, wanted.most_units),
        priority: wanted.priority,
    };
    let DomainWanted { cores, units, .. } = *wanted;
    Ok(Create { name: name_of(&wanted.name)?, cores, units, limits, device })
}

fn disks(ledger: &Ledger<LedgerWords>, holds: impl Fn(&Holding) -> bool) -> Vec<u16> {
    ledger.devices().filter(|(_, it)| holds(it)).map(|(disk, _)| disk).collect()
}

fn name_of(text: &str) -> CallResult<Name> {
    text.parse().map_err(refused)
}

fn names_of(all: &[String]) -> CallResult<Vec<Name>> {
    all.iter().map(|text| name_of(text)).collect()
}

fn shared(share: Share) -> SharedEntry {
    SharedEntry {
        name: share.name.to_string(),
        first: share.extent.start,
        units: share.extent.count,
        places: share.users().collect(),
    }
}

fn lent((core, holding): (u16, Holding)) -> Option<LentEntry> {
    holding.loan().map(|(lender, borrower)| LentEntry { core, lender, borrower })
}

fn refused(why: Refused) -> CallError {
    CallError::new(Status::Invalid, why.to_string())
}

fn entry(running: &Running, now: Instant, domain: &Domain) -> DomainEntry {
    let Domain { id, state, limits, name } = *domain;
    let ledger = running.supervisor.ledger();
    let account = ledger.account(id.slot, now);
    DomainEntry {
        name: name.to_string(),
        place: id.slot,
        generation: id.generation.0,
        state: state.name().into(),
        cores: ledger.cores_with(|it| it.is_of(id.slot)),
        units: ledger.units_with(|it| it.is_of(id.slot)),
        disks: disks(ledger, |it| it.is_of(id.slot)),
        least_cores: limits.cores.0,
        most_cores: limits.cores.1,
        most_units: limits.units.1,
        priority: limits.priority,
        last_words: running.last_words(id.slot).into(),
        age_us: account.age.as_micros() as u64,
        core_us: account.core_micros,
        unit_us: account.unit_micros,
        isolated: running.isolates(disks(ledger, |it| it.is_of(id.slot)).first().copied()),
        kept_off: running.kept_off(id.slot),
        sent: toll(ledger, Way::Network, id.slot),
        disk: toll(ledger, Way::Disk, id.slot),
    }
}

fn toll(ledger: &Ledger<LedgerWords>, way: Way, slot: u8) -> TollEntry {
    let (limit, carried) = (ledger.limit(way, slot), ledger.carried(way, slot));
    TollEntry {
        rate: limit.rate.map_or(0, |rate| rate.get()),
        burst: limit.burst,
        weight: limit.weight,
        passed: carried.passed,
        bytes: carried.bytes,
        dropped: carried.dropped,
        busy_us: carried.time.as_micros() as u64,
    }
}
