//! What a command would take, and from whom. Everything is checked here, before anything is done.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::command::{Command, Create, Resize};
use crate::domain::{Domain, DomainId, Lifecycle, Limits};
use crate::extent::{Extent, UNIT};
use crate::ledger::Ledger;
use crate::name::Name;
use crate::refused::{Refused, Thing};
use crate::words::{Holding, Party, Phase, Words};

/// Where a core comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// It is free.
    Pool,
    /// A domain of lower priority has it, and has more than its minimum.
    From(DomainId),
}

/// What a command does to the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The domain that it is about; a new one if the command makes it.
    pub domain: DomainId,
    /// The cores that the domain gets.
    pub cores: Vec<(u16, Source)>,
    /// The memory that it gets, all from the pool.
    pub extents: Vec<Extent>,
    /// The device that it gets.
    pub device: Option<u16>,
    /// The cores that are to leave it.
    pub leave: Vec<u16>,
    /// The units that it is to give back: it chooses which.
    pub want: u32,
    /// Who gets the cores that leave; the pool if nobody is named.
    pub to: Option<DomainId>,
}

impl Plan {
    fn of(domain: DomainId) -> Plan {
        Plan {
            domain,
            cores: Vec::new(),
            extents: Vec::new(),
            device: None,
            leave: Vec::new(),
            want: 0,
            to: None,
        }
    }
}

/// What `command` would do now, or why it is refused. Changes nothing.
pub fn plan<W: Words>(ledger: &Ledger<W>, command: &Command) -> Result<Plan, Refused> {
    match command {
        Command::Create(create) => plan_create(ledger, create),
        Command::Resize(resize) => plan_resize(ledger, resize),
        Command::Destroy { name, .. } => {
            let domain = named(ledger, *name)?;
            match domain.state {
                Lifecycle::Draining | Lifecycle::Dead => Err(busy(&domain)),
                _ => Ok(Plan::of(domain.id)),
            }
        }
        Command::Lend { from, to, cores, .. } => plan_lend(ledger, *from, *to, *cores),
        Command::Recall { from } => {
            let domain = running(ledger, *from)?;
            let is_lent =
                |it: &Holding| it.is_of(domain.id.slot) && it.is_had() && it.lender != Party::Pool;
            match ledger.cores_with(is_lent) {
                lent if lent.is_empty() => Err(Refused::NothingLent(*from)),
                leave => Ok(Plan { leave, ..Plan::of(domain.id) }),
            }
        }
    }
}

fn plan_create<W: Words>(ledger: &Ledger<W>, create: &Create) -> Result<Plan, Refused> {
    let Create { name, cores, units, limits, device } = *create;
    if ledger.named(name).is_some() {
        return Err(Refused::Taken(name));
    }
    let id = ledger.empty_slot().ok_or(Refused::Full)?;
    let limits = limits.of_something();
    within_cores(cores.into(), &limits)?;
    within_units(units, &limits)?;
    if let Some(device) = device {
        check_device(ledger, device)?;
    }
    Ok(Plan {
        cores: choose_cores(ledger, cores.into(), limits.priority)?,
        extents: choose_units(ledger, units)?,
        device,
        ..Plan::of(id)
    })
}

fn plan_resize<W: Words>(ledger: &Ledger<W>, resize: &Resize) -> Result<Plan, Refused> {
    let domain = running(ledger, resize.name)?;
    let Domain { id, limits, .. } = domain;
    let mut plan = Plan::of(id);
    if let Some(cores) = resize.cores {
        let own = ledger.cores_with(|it| it.is_own(id.slot));
        let others = ledger.cores_with(|it| it.counts(id.slot)).len() - own.len();
        within_cores(cores.into(), &limits)?;
        let cores = usize::from(cores);
        match own.len() {
            has if has < cores => {
                within_cores((cores + others) as u32, &limits)?;
                let more = (cores - has) as u32;
                plan.cores = choose_cores(ledger, more, limits.priority)?;
            }
            _ => plan.leave = highest(own, cores),
        }
    }
    if let Some(units) = resize.units {
        within_units(units, &limits)?;
        let has = ledger.units_with(|it| it.is_own(id.slot));
        match units.checked_sub(has) {
            Some(more) => plan.extents = choose_units(ledger, more)?,
            None => plan.want = has - units,
        }
    }
    Ok(plan)
}

fn plan_lend<W: Words>(
    ledger: &Ledger<W>,
    from: Name,
    to: Name,
    cores: u16,
) -> Result<Plan, Refused> {
    if from == to {
        return Err(Refused::Itself);
    }
    let (lender, borrower) = (running(ledger, from)?, running(ledger, to)?);
    let own = ledger.cores_with(|it| it.is_own(lender.id.slot));
    let left = (own.len()).saturating_sub(cores.into());
    within_cores(
        left as u32,
        &Limits { cores: (lender.limits.cores.0, u16::MAX), ..lender.limits },
    )?;
    let counted = ledger.cores_with(|it| it.counts(borrower.id.slot)).len() as u32;
    within_cores(counted + u32::from(cores), &borrower.limits)?;
    Ok(Plan { leave: highest(own, left), to: Some(borrower.id), ..Plan::of(lender.id) })
}

/// The highest of these, in rising order, but for so many that stay.
fn highest(mut cores: Vec<u16>, stay: usize) -> Vec<u16> {
    cores.split_off(stay.min(cores.len()))
}

fn named<W: Words>(ledger: &Ledger<W>, name: Name) -> Result<Domain, Refused> {
    let there = || ledger.domains().map(|it| it.name).collect();
    ledger.named(name).ok_or_else(|| Refused::Unknown { name, there: there() })
}

fn running<W: Words>(ledger: &Ledger<W>, name: Name) -> Result<Domain, Refused> {
    let domain = named(ledger, name)?;
    match domain.state {
        Lifecycle::Running => Ok(domain),
        _ => Err(busy(&domain)),
    }
}

fn busy(domain: &Domain) -> Refused {
    Refused::Busy { name: domain.name, state: domain.state }
}

fn within(what: &'static str, would: u32, limits: (u32, u32)) -> Result<(), Refused> {
    match (limits.0..=limits.1).contains(&would) {
        true => Ok(()),
        false => Err(Refused::Limits { what, would, limits }),
    }
}

fn within_cores(would: u32, limits: &Limits) -> Result<(), Refused> {
    within("cores", would, (limits.cores.0.into(), limits.cores.1.into()))
}

fn within_units(would: u32, limits: &Limits) -> Result<(), Refused> {
    let mebibytes = |units: u32| units.saturating_mul((UNIT >> 20) as u32);
    let Limits { units: (least, most), .. } = limits;
    within("MiB of memory", mebibytes(would), (mebibytes(*least), mebibytes(*most)))
}

fn check_device<W: Words>(ledger: &Ledger<W>, device: u16) -> Result<(), Refused> {
    let refused = |owner| Err(Refused::Device { device, owner });
    if device >= ledger.sizes().devices {
        return refused(None);
    }
    match ledger.holding(Thing::Device(device)) {
        Holding { phase: Phase::Free, .. } => Ok(()),
        Holding { owner: Party::Domain(slot), .. } => {
            refused(ledger.in_slot(slot).map(|it| it.name))
        }
        _ => refused(None),
    }
}

/// Free cores, and when those do not suffice, others of domains of lower priority: the lowest
/// first, and of none more than it can spare.
fn choose_cores<W: Words>(
    ledger: &Ledger<W>,
    wanted: u32,
    priority: u8,
) -> Result<Vec<(u16, Source)>, Refused> {
    let free = ledger.cores_with(|it| it.phase == Phase::Free);
    let mut chosen: Vec<_> = free.iter().map(|core| (*core, Source::Pool)).collect();
    let mut lower: Vec<Domain> = ledger
        .domains()
        .filter(|it| it.state == Lifecycle::Running && it.limits.priority < priority)
        .collect();
    nile_order::sort_by_key(&mut lower, |it| (it.limits.priority, Reverse(it.id.slot)));
    for victim in lower {
        let has = ledger.cores_with(|it| it.is_own(victim.id.slot));
        let spare = highest(has, victim.limits.cores.0.into());
        chosen.extend(spare.into_iter().rev().map(|core| (core, Source::From(victim.id))));
    }
    if chosen.len() < wanted as usize {
        let owners = owners(ledger, |id| ledger.cores_with(|it| it.is_of(id.slot)).len() as u32);
        return Err(Refused::Cores { wanted, free, owners });
    }
    chosen.truncate(wanted as usize);
    Ok(chosen)
}

fn choose_units<W: Words>(ledger: &Ledger<W>, wanted: u32) -> Result<Vec<Extent>, Refused> {
    ledger.choose(wanted).ok_or_else(|| Refused::Memory {
        wanted,
        free: ledger.units_with(|it| it.phase == Phase::Free),
        owners: owners(ledger, |id| ledger.units_with(|it| it.is_of(id.slot))),
    })
}

fn owners<W: Words>(ledger: &Ledger<W>, has: impl Fn(DomainId) -> u32) -> Vec<(Name, u32)> {
    let all = ledger.domains().map(|it| (it.name, has(it.id)));
    all.filter(|(_, count)| *count > 0).collect()
}
