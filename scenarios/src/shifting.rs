//! Cores leave, come back, begin anew and get other roles and kernel images at any moment, as a
//! seed draws it, while callers on the managing core call what the others have, by value and with
//! buffers of the pool, workers run packages, and jobs sort what is on a disk. Two hands give the
//! orders at once. Each call is answered, or there was nobody to make it to; a worker is left,
//! whatever is ordered; what a core runs is what the node says. In the end all cores run, none has
//! failed but by an image that was to, each disk is driven by a core that is for disks, what was
//! sorted is right, and memory and buffers are back.
//!
//! * `images`: what cores run.

mod images;

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_interfaces::core_manager::{CoreManagerClient, CoreRole};
use nile_kernel::Core;
use nile_platform::Fault;
use nile_platform::{CorePhase, Line, Machine};
use nile_stl::node::{PackageLimits, PackageSource};
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::arguments::Arguments;
use crate::calls;
use crate::churn::{REST, come_to_rest};
use crate::conduct::{Findings, conduct, conducts};
use crate::jobs::sorting::{Ended, Sorting};
use crate::leaving::{self, Calls, Who, publish, published, steady_on, until};
use images::Deployed;

pub use images::File;

/// Who gives orders at once.
const HANDS: u64 = 2;

/// Calls that go on at once.
const CALLERS: u64 = 3;

/// How long a core may take to leave.
const PATIENCE_MS: u32 = 5_000;

/// The longest time between two orders, and how long a worker rests between two packages.
const MOST_PAUSE_US: u64 = 6_000;
const PACKAGE_REST: Duration = Duration::from_micros(300);

/// How long services take to begin.
const BEGINNING: Duration = Duration::from_millis(50);

/// Numbers of each block that is sorted.
const NUMBERS: u64 = 200;

/// How long until the node names what is on its disks.
const NAMING: Duration = Duration::from_secs(6);

/// Longer than an image is on trial.
const TRIAL: Duration = Duration::from_secs(11);

/// How often it is looked what must hold at each moment.
const LOOK: Duration = Duration::from_micros(100);

/// The image that this incarnation was begun with.
struct Begun(u64);

/// What runs packages.
pub struct Churn {
    stl: Stl,
    begun: Option<Rc<Begun>>,
    goes_on: Cell<bool>,
}

impl Start for Churn {
    fn start(stl: &Stl) -> Churn {
        let missing = || Err(CallError::new(Status::NotFound, "it was not said"));
        let begun = stl.shared(missing).ok();
        Churn { stl: stl.clone(), begun, goes_on: Cell::new(false) }
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

    /// The image that this core runs.
    #[stl_k(reply = "image", allow(operator, peer))]
    fn image(&self) -> u64 {
        self.begun.as_ref().map_or(0, |begun| begun.0)
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
    /// How many of the node's [files](File) may be deployed.
    files: u64,
    /// Blocks of numbers that are sorted, time and again; none: none are.
    blocks: u64,
    /// Whether a core may be for a disk and a worker.
    is_mixed: bool,
}

/// Starts this core's part: so many `steps` of each hand, drawn from `seed`; jobs sort so many
/// `blocks`. With `mixed=0` no core is both for a disk and a worker: on Linux that runs no package,
/// and jobs need one who does. With `force=1` what must hold does not. A machine that has the
/// [files](File) says so, and with which `image` this core begins.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    calls::serve(core);
    if !conducts(core) {
        publish(core, &leaving::REGISTRATION);
        let (owner, image) = (core.clone(), arguments.number("image", 0));
        core.spawn(async move {
            let begun = owner.stl().shared(|| Ok(Rc::new(Begun(image))));
            published(&owner, &REGISTRATION).await;
            // The service has it now.
            drop(begun);
        });
        return;
    }
    let wanted = Wanted {
        steps: arguments.number("steps", 12),
        seed: arguments.number("seed", 1),
        by_force: arguments.number("force", 0) == 1,
        files: arguments.number("files", 0),
        blocks: arguments.number("blocks", 0),
        is_mixed: arguments.number("mixed", 1) == 1,
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

/// What goes on in a run.
struct Shifting<M: Machine> {
    core: Core<M>,
    findings: Findings,
    wanted: Wanted,
    others: Vec<CoreId>,
    deployed: Rc<Deployed>,
}

impl<M: Machine> Clone for Shifting<M> {
    fn clone(&self) -> Shifting<M> {
        let Shifting { core, findings, wanted, others, deployed } = self;
        let (core, findings) = (core.clone(), findings.clone());
        let (others, deployed) = (others.clone(), deployed.clone());
        Shifting { core, findings, wanted: *wanted, others, deployed }
    }
}

impl<M: Machine> Shifting<M> {
    /// An order that may be refused, as what others have ordered meanwhile does not go with it.
    fn allowed(&self, what: &str, core: CoreId, result: CallResult<()>) {
        let refused = [Status::Denied, Status::Dead, Status::Busy, Status::Invalid];
        if let Err(CallError { status, message, .. }) = result {
            let is_one = refused.contains(&status);
            self.findings
                .check(is_one, format_args!("{what} {core}: {}, {message}", status.name()));
        }
    }

    /// A core runs packages, if it is there and for that.
    async fn have_packages(&self, core: CoreId, is_one: bool) {
        let result = match ChurnClient::find_at(&self.core.stl(), core).await {
            Ok(churn) if is_one => churn.run().await,
            Ok(churn) => churn.go_on().await.map(|()| 0),
            Err(error) => Err(error),
        };
        let is_well = match &result {
            Ok(code) => *code == 0,
            // Another one runs there; the core is no worker; it is away, or leaves.
            Err(CallError {
                status: Status::Exists | Status::Denied | Status::NotFound, ..
            }) => true,
            Err(error) => error.was_not_made() || self.deployed.may_be_lost(error),
        };
        self.findings.check(is_well, format_args!("a package on {core}: {result:?}"));
    }

    /// Gives orders.
    async fn order(&self, manager: CoreManagerClient, mut draw: Draw) {
        for _ in 0..self.wanted.steps {
            self.core.sleep(Duration::from_micros(draw.below(MOST_PAUSE_US))).await;
            let other = self.others[draw.below(self.others.len() as u64) as usize];
            let (what, result) = match draw.below(11) {
                0 if self.wanted.by_force => ("end", manager.end_core(other.0).await),
                0 => ("renew", manager.renew(other.0, PATIENCE_MS).await),
                1 => ("away", manager.send_away(other.0, PATIENCE_MS).await),
                2 => ("back", manager.call_back(other.0).await),
                drawn @ (3 | 4) => {
                    self.have_packages(other, drawn == 3).await;
                    continue;
                }
                5 | 6 => {
                    let file = File::of(draw.below(self.wanted.files + 1));
                    let _ = self.deployed.deploy(&manager, &self.findings, other, file).await;
                    continue;
                }
                7 => {
                    self.deployed.check(&self.core, &self.findings, other).await;
                    continue;
                }
                _ => {
                    let roles = match draw.below(3) {
                        0 => &[CoreRole::Worker][..],
                        1 => &[CoreRole::Disk],
                        _ if !self.wanted.is_mixed => &[CoreRole::Worker],
                        _ => &[CoreRole::Disk, CoreRole::Worker],
                    };
                    ("assign", manager.assign(other.0, roles.into(), PATIENCE_MS).await)
                }
            };
            self.allowed(what, other, result);
        }
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

impl<M: Machine> Shifting<M> {
    /// Both hands give orders until each has given all of its own, while jobs sort; gives how the
    /// jobs ended.
    async fn shift(&self, sorting: Option<&Sorting>) -> CallResult<Vec<Ended>> {
        let (core, wanted) = (&self.core, self.wanted);
        let busy = Rc::new(Cell::new(HANDS));
        for hand in 0..HANDS {
            let draw = Draw((wanted.seed * HANDS + hand + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let manager = CoreManagerClient::find(&core.stl()).await?;
            let (own, busy) = (self.clone(), busy.clone());
            core.spawn(async move {
                own.order(manager, draw).await;
                busy.set(busy.get() - 1);
            });
        }
        let (own, is_busy) = (self.clone(), busy.clone());
        core.spawn(async move {
            while is_busy.get() > 0 {
                own.look();
                own.core.sleep(LOOK).await;
            }
        });
        let mut ended = Vec::new();
        if let Some(sorting) = sorting {
            while busy.get() > 0 {
                ended.push(sorting.run(ended.len() as u64).await?);
            }
        }
        while busy.get() > 0 {
            core.sleep(LOOK).await;
        }
        Ok(ended)
    }

    /// What holds at each moment: no core has failed but one that was to.
    fn look(&self) {
        for other in &self.others {
            let fault = self.core.machine().board().record(*other).fault();
            let is_well =
                fault.is_none_or(|it| it == Fault::LEFT || self.deployed.is_meant(*other, it));
            let now = self.core.now();
            self.findings
                .check(is_well, format_args!("core {other} has failed at {now}: {fault:?}"));
        }
    }

    /// Cores that may run what fails are given what does not.
    async fn settle(&self, manager: &CoreManagerClient) -> CallResult<()> {
        let limit = self.core.now() + REST;
        for other in self.deployed.may_fail() {
            while self.may_have_image(other)
                && let Err(error) =
                    self.deployed.deploy(manager, &self.findings, other, File::First).await
            {
                if self.core.now() > limit {
                    return Err(error);
                }
                self.core.sleep(LOOK).await;
            }
        }
        Ok(())
    }

    fn may_have_image(&self, core: CoreId) -> bool {
        self.core.stl().node().is_ok_and(|node| node.may_have_image(core))
    }

    /// An image stays once its trial is over, however its core ends then, and not before.
    async fn trials(&self, manager: &CoreManagerClient) -> CallResult<()> {
        let Some(other) = self.others.iter().copied().find(|it| self.may_have_image(*it)) else {
            return Ok(());
        };
        let record = self.core.machine().board().record(other);
        for (file, waits, then) in [
            (File::First, true, File::First),
            (File::Second, false, File::First),
            (File::Second, true, File::Second),
        ] {
            self.deployed.deploy(manager, &self.findings, other, file).await?;
            self.core.sleep(if waits { TRIAL } else { BEGINNING }).await;
            let before = record.generation();
            manager.end_core(other.0).await?;
            let is_back = || record.generation() != before && record.phase() == CorePhase::Running;
            let came = until(&self.core, is_back).await;
            self.findings.check(came, format_args!("core {other} does not come back"));
            steady_on(&self.core.stl(), other).await?;
            self.deployed.runs(&self.core, &self.findings, other, then);
            self.deployed.check(&self.core, &self.findings, other).await;
        }
        Ok(())
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings, wanted: Wanted) -> CallResult<()> {
    let (stl, board) = (core.stl(), core.machine().board());
    let manager = CoreManagerClient::find(&stl).await?;
    let others: Vec<CoreId> = core.peers().filter(|it| *it != core.id()).collect();
    for other in &others {
        steady_on(&stl, *other).await?;
    }
    let sorting = match wanted.blocks {
        0 => None,
        blocks => Some(Sorting::prepare(core, &others, blocks, NUMBERS).await?),
    };
    if sorting.is_some() {
        // The node gives what is on its disks names, and keeps what that takes.
        core.sleep(NAMING).await;
    }
    renew_all(&stl, &manager, &others).await?;
    // What services do when they begin is done.
    core.sleep(BEGINNING).await;
    let roles: Vec<_> = others.iter().map(|it| (*it, board.record(*it).roles())).collect();
    let memory = core.memory_statistics().await?;
    let free = core.pool().map(|pool| pool.free_buffers());

    let deployed = Rc::new(Deployed::default());
    let who = Who::MayBeNobody { may_be_lost: deployed.may_be_lost.clone() };
    let calls = Calls::begin(core, CALLERS, who);
    let (core, findings) = (core.clone(), findings.clone());
    let own = Shifting { core, findings, wanted, others, deployed };
    let Shifting { core, findings, others, deployed, .. } = &own;
    let ended = own.shift(sorting.as_ref()).await?;
    let works = |it: &CoreId| {
        let record = board.record(*it);
        record.roles().contains(Role::Worker) && record.phase() != CorePhase::Away
    };
    findings.check(others.iter().any(works), format_args!("no worker is left"));

    for other in others {
        manager.call_back(other.0).await?;
    }
    own.look();
    for line in Line::all().filter(|line| line.is_disk()) {
        let Some(driver) = board.driver(line) else { continue };
        let is_for_it = board.record(driver).roles().contains(Role::Disk);
        findings.check(is_for_it, format_args!("{line} is driven by {driver}"));
    }
    restore(core, &manager, &roles).await?;
    own.settle(&manager).await?;
    for other in others {
        let sum = steady_on(&stl, *other).await?.add(1, 0).await;
        findings.check(matches!(sum, Ok(2)), format_args!("core {other} answers {sum:?}"));
        deployed.check(core, findings, *other).await;
    }
    calls.end(core, findings).await;
    if wanted.files > 0 && wanted.seed % 4 == 1 {
        // No package goes on without rest.
        renew_all(&stl, &manager, others).await?;
        own.trials(&manager).await?;
    }
    if let Some(sorting) = sorting {
        findings.figure("jobs", ended.len() as u64);
        let gone = |it: &Ended| u64::from(it.progress.counters.gone_workers);
        findings.figure("gone", ended.iter().map(gone).sum());
        for (time, ended) in (0..).zip(&ended) {
            sorting.check(core, time, ended, findings).await?;
        }
        sorting.end(core, findings).await?;
    }
    renew_all(&stl, &manager, others).await?;
    let after = come_to_rest(core, memory, core.now() + REST).await?;
    let what = format_args!("memory was lost: {memory:?} before, {after:?} after");
    findings.check(memory == after, what);
    let left = || core.pool().map(|pool| pool.free_buffers());
    let are_back = until(core, || left() == free).await;
    findings.check(are_back, format_args!("{:?} buffers are free, {free:?} before", left()));
    let generations = others.iter().map(|it| u64::from(board.record(*it).generation().0));
    findings.figure("generations", generations.sum());
    findings.figure("images", deployed.done.get());
    findings.figure("failed_images", deployed.failed.get());
    Ok(())
}
