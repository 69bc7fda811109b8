//! Cores leave, come back, begin anew and get other roles at any moment, as a seed draws it, while
//! callers on the managing core call what the others have, by value and with buffers of the pool,
//! and workers run packages. Two hands give the orders at once. Each call is answered, or there was
//! nobody to make it to; a worker is left, whatever is ordered. In the end all cores run, none has
//! failed, each disk is driven by a core that is for disks, and memory and buffers are back.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_interfaces::core_manager::{CoreManagerClient, CoreRole};
use nile_kernel::Core;
use nile_platform::{CorePhase, Fault, Line, Machine};
use nile_stl::node::{PackageLimits, PackageSource};
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::arguments::Arguments;
use crate::calls;
use crate::churn::{REST, come_to_rest};
use crate::conduct::{Findings, conduct, conducts};
use crate::leaving::{self, Calls, Who, publish, steady_on, until, was_not_begun};

/// Who gives orders at once.
const HANDS: u64 = 2;

/// Calls that go on at once.
const CALLERS: u64 = 3;

/// How long a core may take to leave.
const PATIENCE_MS: u32 = 5_000;

/// The longest time between two orders, and how long a worker rests between two packages.
const MOST_PAUSE_US: u64 = 3_000;
const PACKAGE_REST: Duration = Duration::from_micros(300);

/// How long services take to begin.
const BEGINNING: Duration = Duration::from_millis(50);

/// How often it is looked what must hold at each moment.
const LOOK: Duration = Duration::from_micros(100);

/// What runs packages.
pub struct Churn {
    stl: Stl,
    goes_on: Cell<bool>,
}

impl Start for Churn {
    fn start(stl: &Stl) -> Churn {
        Churn { stl: stl.clone(), goes_on: Cell::new(false) }
    }
}

/// What all cores but one have.
#[service(
    subsystem = "tests",
    capability = "churning",
    layer = high,
    on = every,
    keywords(churn = 1)
)]
impl Churn {
    /// Runs a package to its end, and gives its exit code.
    #[stl_k(allow(operator, peer))]
    async fn run(&self) -> CallResult<u64> {
        run_package(&self.stl).await
    }

    /// Runs one after the other from now on, for as long as this core is there.
    #[stl_k(allow(operator, peer))]
    fn go_on(&self) {
        if self.goes_on.replace(true) {
            return;
        }
        let stl = self.stl.clone();
        self.stl.host().spawn(Box::pin(async move {
            loop {
                // What cannot run now may later.
                let _ = run_package(&stl).await;
                stl.host().pause(PACKAGE_REST).await;
            }
        }));
    }
}

async fn run_package(stl: &Stl) -> CallResult<u64> {
    let node = stl.node()?;
    if !node.may_run_packages() {
        // Hosted, one that drives a disk is a thread of the node.
        return Err(CallError::from(Status::Denied));
    }
    let limits = PackageLimits { memory_bytes: 16 << 20, ..PackageLimits::default() };
    let package = node.run_package(PackageSource::Named("hello"), b"churn", limits)?;
    let end = package.ended().await;
    end.code.ok_or_else(|| CallError::new(Status::Failed, end.text))
}

/// What a run is asked for.
#[derive(Clone, Copy)]
struct Wanted {
    /// Orders of each hand.
    steps: u64,
    seed: u64,
    /// Whether cores are ended by force where they would begin anew as planned.
    by_force: bool,
}

/// Starts this core's part: so many `steps` of each hand, drawn from `seed`. With `force=1` what
/// must hold does not.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    calls::serve(core);
    if !conducts(core) {
        publish(core, &leaving::REGISTRATION);
        return publish(core, &REGISTRATION);
    }
    let wanted = Wanted {
        steps: arguments.number("steps", 12),
        seed: arguments.number("seed", 1),
        by_force: arguments.number("force", 0) == 1,
    };
    let core = core.clone();
    conduct(&core.clone(), "shifting", move |findings| async move {
        if let Err(error) = check(&core, &findings, wanted).await {
            findings.check(false, format_args!("{error}"));
        }
    });
}

/// Numbers that a seed gives (xorshift64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % most
    }
}

/// An order that may be refused, as what others have ordered meanwhile does not go with it.
fn allowed(findings: &Findings, what: &str, core: CoreId, result: CallResult<()>) {
    let refused = [Status::Denied, Status::Dead, Status::Busy, Status::Invalid];
    if let Err(CallError { status, message, .. }) = result {
        let is_one = refused.contains(&status);
        findings.check(is_one, format_args!("{what} {core}: {}, {message}", status.name()));
    }
}

/// A core runs packages, if it is there and for that.
async fn have_packages(findings: &Findings, stl: &Stl, core: CoreId, is_one: bool) {
    let result = match ChurnClient::find_at(stl, core).await {
        Ok(churn) if is_one => churn.run().await,
        Ok(churn) => churn.go_on().await.map(|()| 0),
        Err(error) => Err(error),
    };
    let is_well = match &result {
        Ok(code) => *code == 0,
        // Another one runs there; the core is no worker; it is away, or leaves.
        Err(CallError { status: Status::Exists | Status::Denied | Status::NotFound, .. }) => true,
        Err(error) => was_not_begun(error),
    };
    findings.check(is_well, format_args!("a package on {core}: {result:?}"));
}

/// Gives orders.
async fn order<M: Machine>(
    core: Core<M>,
    manager: CoreManagerClient,
    findings: Findings,
    wanted: Wanted,
    mut draw: Draw,
) {
    let others: Vec<CoreId> = core.peers().filter(|it| *it != core.id()).collect();
    for _ in 0..wanted.steps {
        core.sleep(Duration::from_micros(draw.below(MOST_PAUSE_US))).await;
        let other = others[draw.below(others.len() as u64) as usize];
        let (what, result) = match draw.below(8) {
            0 if wanted.by_force => ("end", manager.end_core(other.0).await),
            0 => ("renew", manager.renew(other.0, PATIENCE_MS).await),
            1 => ("away", manager.send_away(other.0, PATIENCE_MS).await),
            2 => ("back", manager.call_back(other.0).await),
            drawn @ (3 | 4) => {
                have_packages(&findings, &core.stl(), other, drawn == 3).await;
                continue;
            }
            _ => {
                let roles = match draw.below(3) {
                    0 => &[CoreRole::Worker][..],
                    1 => &[CoreRole::Disk],
                    _ => &[CoreRole::Disk, CoreRole::Worker],
                };
                ("assign", manager.assign(other.0, roles.into(), PATIENCE_MS).await)
            }
        };
        allowed(&findings, what, other, result);
    }
}

/// Each core but this one begins anew, and is there.
async fn renew_all(stl: &Stl, manager: &CoreManagerClient, others: &[CoreId]) -> CallResult<()> {
    for other in others {
        manager.renew(other.0, PATIENCE_MS).await?;
        steady_on(stl, *other).await?.add(0, 0).await?;
    }
    Ok(())
}

/// Each core has the roles that it had.
async fn restore<M: Machine>(
    core: &Core<M>,
    manager: &CoreManagerClient,
    roles: &[(CoreId, RoleSet)],
) -> CallResult<()> {
    let board = core.machine().board();
    let differs = |(core, roles): &&(CoreId, RoleSet)| board.record(*core).roles() != *roles;
    // What one has to give up for another to get, it gives up once that has it.
    for _ in 0..roles.len() {
        for (other, roles) in roles.iter().filter(differs) {
            let assigned = manager.assign(other.0, CoreRole::all_of(*roles), PATIENCE_MS).await;
            match assigned {
                Err(error) if error.status != Status::Denied => return Err(error),
                _ => {}
            }
        }
    }
    match roles.iter().find(differs) {
        None => Ok(()),
        Some((core, _)) => Err(CallError::new(Status::Failed, format!("{core} stays otherwise"))),
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings, wanted: Wanted) -> CallResult<()> {
    let (stl, board) = (core.stl(), core.machine().board());
    let manager = CoreManagerClient::find(&stl).await?;
    let others: Vec<CoreId> = core.peers().filter(|it| *it != core.id()).collect();
    for other in &others {
        steady_on(&stl, *other).await?;
    }
    renew_all(&stl, &manager, &others).await?;
    // What services do when they begin is done.
    core.sleep(BEGINNING).await;
    let roles: Vec<_> = others.iter().map(|it| (*it, board.record(*it).roles())).collect();
    let memory = core.memory_statistics().await?;
    let free = core.pool().map(|pool| pool.free_buffers());

    let calls = Calls::begin(core, CALLERS, Who::MayBeNobody);
    let busy = Rc::new(Cell::new(HANDS));
    for hand in 0..HANDS {
        let draw = Draw((wanted.seed * HANDS + hand + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let manager = CoreManagerClient::find(&stl).await?;
        let orders = order(core.clone(), manager, findings.clone(), wanted, draw);
        let busy = busy.clone();
        core.spawn(async move {
            orders.await;
            busy.set(busy.get() - 1);
        });
    }
    while busy.get() > 0 {
        look(core, findings, &others);
        core.sleep(LOOK).await;
    }
    let works = |it: &CoreId| {
        let record = board.record(*it);
        record.roles().contains(Role::Worker) && record.phase() != CorePhase::Away
    };
    findings.check(others.iter().any(works), format_args!("no worker is left"));

    for other in &others {
        manager.call_back(other.0).await?;
        let sum = steady_on(&stl, *other).await?.add(1, 0).await;
        findings.check(matches!(sum, Ok(2)), format_args!("core {other} answers {sum:?}"));
    }
    look(core, findings, &others);
    for line in Line::all().filter(|line| line.is_disk()) {
        let Some(driver) = board.driver(line) else { continue };
        let is_for_it = board.record(driver).roles().contains(Role::Disk);
        findings.check(is_for_it, format_args!("{line} is driven by {driver}"));
    }
    calls.end(core, findings).await;
    restore(core, &manager, &roles).await?;
    renew_all(&stl, &manager, &others).await?;
    let after = come_to_rest(core, memory, core.now() + REST).await?;
    let what = format_args!("memory was lost: {memory:?} before, {after:?} after");
    findings.check(memory == after, what);
    let left = || core.pool().map(|pool| pool.free_buffers());
    let are_back = until(core, || left() == free).await;
    findings.check(are_back, format_args!("{:?} buffers are free, {free:?} before", left()));
    let generations = others.iter().map(|it| u64::from(board.record(*it).generation().0));
    findings.figure("generations", generations.sum());
    Ok(())
}

/// What holds at each moment: no core has failed.
fn look<M: Machine>(core: &Core<M>, findings: &Findings, others: &[CoreId]) {
    for other in others {
        let (fault, now) = (core.machine().board().record(*other).fault(), core.now());
        let is_well = fault.is_none_or(|it| it == Fault::LEFT);
        findings.check(is_well, format_args!("core {other} has failed at {now}: {fault:?}"));
    }
}
