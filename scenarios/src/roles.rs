//! Roles that change at run time (NileOS paper, V): a worker becomes a disk core and a worker
//! again, while callers on the managing core write to and read from a disk that goes there and
//! back. Each call ends as it would without that, or was not begun; a core runs packages exactly
//! while it is a worker; what cannot be is told why, and changes nothing. At last a worker computes
//! without rest, and the node gives it a mate, as its configuration says.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_bosml::Buffer as Handle;
use nile_interfaces::core_manager::{CoreManagerClient, CoreRole};
use nile_interfaces::disk::DiskClient;
use nile_kernel::{Core, Pool};
use nile_platform::{Fault, Line, Machine};
use nile_ring::Buffer;
use nile_stl::node::from_call;
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::arguments::Arguments;
use crate::calls;
use crate::conduct::{Findings, conduct, conducts};
use crate::disk_calls::{claim, content, filled, hand_over};
use crate::talk::Talk;

/// The tag of who asks a core whether it could run a package, once it has computed for so many
/// microseconds.
const CAN_RUN: u32 = 17;

/// For how long a core computes at once that is to be busy.
const BUSY: u64 = 50_000;

/// How long a core may take to leave.
const PATIENCE_MS: u32 = 5_000;

/// Callers at once, each with a place of its own on the disk.
const CALLERS: u64 = 3;
const PLACE: u64 = 6 << 20;
const PIECE: usize = 16 << 10;

/// How long it is waited for what comes true by itself.
const WAIT: Duration = Duration::from_secs(10);

/// How often a caller looks for a disk that is on its way.
const LOOK: Duration = Duration::from_micros(200);

/// Work that a core cannot leave.
pub struct Busy {
    stl: Stl,
}

impl Start for Busy {
    fn start(stl: &Stl) -> Busy {
        Busy { stl: stl.clone() }
    }
}

/// What every core has.
#[service(subsystem = "tests", capability = "work", layer = high, on = every, keywords(busy = 1))]
impl Busy {
    /// Ends after so long.
    #[stl_k(allow(operator, peer))]
    async fn work(&self, micros: u64) -> u64 {
        let host = self.stl.host();
        host.sleep_until(host.now() + Duration::from_micros(micros)).await;
        micros
    }
}

/// Starts this core's part: a core gets another role and the one that it had, `rounds` times, while
/// the one that has the disk works on something for so many microseconds, if any are `held`.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    calls::serve(core);
    if !conducts(core) {
        let owner = core.clone();
        core.spawn(async move {
            let Some(make) = REGISTRATION.kernel else { return };
            while owner.stl().publish(&REGISTRATION, make).await.is_err() {
                owner.sleep(Duration::from_millis(1)).await;
            }
        });
        let asked = core.clone();
        core.spawn(async move {
            while let Ok(talk) = Talk::answer(&asked, CAN_RUN).await {
                while let Ok(span) = talk.listen().await {
                    asked.machine().compute(Duration::from_micros(span));
                    let is_worker = asked.roles().contains(Role::Worker);
                    let can = is_worker && asked.machine().user(UserSlot::FIRST).is_ok();
                    if talk.tell(can.into()).await.is_err() {
                        break;
                    }
                }
            }
        });
        return;
    }
    let (rounds, held) = (arguments.number("rounds", 4), arguments.number("held", 0));
    let core = core.clone();
    conduct(&core.clone(), "roles", move |findings| async move {
        if let Err(error) = check(&core, &findings, rounds, held).await {
            findings.check(false, format_args!("{error}"));
        }
    });
}

/// What the callers have found.
#[derive(Default)]
struct Load {
    done: Cell<u64>,
    not_begun: Cell<u64>,
    wrong: RefCell<Vec<String>>,
    is_over: Cell<bool>,
    callers: Cell<u64>,
}

/// The service that has the disk of this name now, and its number there.
async fn find_disk<M: Machine>(core: &Core<M>, name: &str) -> Option<(DiskClient, u32)> {
    let board = core.machine().board();
    let drives = |it: &CoreId| board.record(*it).roles().contains(Role::Disk);
    for driver in core.peers().filter(drives) {
        let Ok(client) = DiskClient::find_at(&core.stl(), driver).await else { continue };
        let Ok(disks) = client.list().await else { continue };
        if let Some(disk) = disks.iter().find(|it| it.name == name) {
            return Some((client, disk.number));
        }
    }
    None
}

/// Writes and reads without rest.
async fn load<M: Machine>(core: Core<M>, name: String, at: u64, load: Rc<Load>) {
    let Some(pool) = core.pool() else { return };
    let mut mark = at as u8;
    while !load.is_over.get() {
        let Some((client, disk)) = find_disk(&core, &name).await else {
            core.sleep(LOOK).await;
            continue;
        };
        mark = mark.wrapping_add(7);
        match write_and_read(pool, &client, disk, PLACE + at * PIECE as u64, mark).await {
            Ok(true) => load.done.set(load.done.get() + 1),
            Ok(false) => load.wrong.borrow_mut().push(format!("{at}: other bytes are back")),
            Err(error) if error.was_not_made() => {
                load.not_begun.set(load.not_begun.get() + 1);
                core.sleep(LOOK).await;
            }
            Err(error) => load.wrong.borrow_mut().push(format!("{at}: {error}")),
        }
    }
    load.callers.set(load.callers.get() - 1);
}

/// Frees the buffers of a call that has failed before its service took them.
fn take_back(pool: &Pool, handle: Handle) {
    drop(pool.claim(from_call(handle)));
}

async fn write_and_read(
    pool: &Pool,
    client: &DiskClient,
    disk: u32,
    at: u64,
    mark: u8,
) -> CallResult<bool> {
    let sent = filled(pool, mark, PIECE)?;
    let written = client.write(disk, at, vec![sent]).await;
    let mut back = claim(pool, written.inspect_err(|_| take_back(pool, sent))?)?;
    back.iter_mut().for_each(|buffer| buffer.fill(0));
    let [back] = <[Buffer; 1]>::try_from(back).map_err(|_| CallError::from(Status::Invalid))?;
    let to_fill = hand_over(back);
    let read = client.read(disk, at, vec![to_fill], false).await;
    let got = claim(pool, read.inspect_err(|_| take_back(pool, to_fill))?.buffers)?;
    let bytes = got.iter().flat_map(|buffer| buffer.iter().copied());
    Ok(bytes.eq((0..PIECE).map(|at| content(mark, at))))
}

/// The conductor and what it has.
struct Bench<'a, M: Machine> {
    core: &'a Core<M>,
    findings: &'a Findings,
    manager: CoreManagerClient,
}

impl<M: Machine> Bench<'_, M> {
    fn check(&self, holds: bool, what: core::fmt::Arguments<'_>) {
        self.findings.check(holds, what);
    }

    fn roles(&self, core: CoreId) -> RoleSet {
        self.core.machine().board().record(core).roles()
    }

    async fn assign(&self, core: CoreId, roles: &[Role], patience_ms: u32) -> CallResult<()> {
        let roles = roles.iter().copied().map(CoreRole::from).collect();
        self.manager.assign(core.0, roles, patience_ms).await
    }

    /// Waits until a core could be given work.
    async fn busy_on(&self, core: CoreId) -> CallResult<BusyClient> {
        let limit = self.core.now() + WAIT;
        loop {
            match BusyClient::find_at(&self.core.stl(), core).await {
                Err(_) if self.core.now() < limit => self.core.sleep(LOOK).await,
                found => return found,
            }
        }
    }

    /// Whether a core could run a package.
    async fn can_run(&self, core: CoreId) -> CallResult<bool> {
        let talk = Talk::start(self.core, core, CAN_RUN).await?;
        Ok(talk.ask(0).await? == 1)
    }

    /// A change, and how many microseconds it took from the order until all serve again.
    async fn becomes(&self, core: CoreId, roles: &[Role], disk: Line) -> CallResult<u64> {
        let board = self.core.machine().board();
        let (generation, begun) = (board.record(core).generation(), self.core.now());
        let (from, wanted) = (board.driver(disk), RoleSet::from_iter(roles.iter().copied()));
        self.assign(core, roles, PATIENCE_MS).await?;
        let span = (self.core.now() - begun).as_micros() as u64;
        let record = board.record(core);
        let is_next = record.generation() == generation.next();
        let is_planned = is_next && record.fault() == Some(Fault::LEFT);
        self.check(is_planned, format_args!("{core} ended by {:?}", record.fault()));
        self.check(record.roles() == wanted, format_args!("{core} is {:?}", record.roles()));
        let to = board.driver(disk);
        self.check(to != from, format_args!("{disk} has stayed with {from:?}"));
        let has_role = to.is_some_and(|it| self.roles(it).contains(Role::Disk));
        self.check(has_role, format_args!("{disk} is driven by {to:?}"));
        let can = self.can_run(core).await?;
        let is_worker = wanted == RoleSet::EMPTY.with(Role::Worker);
        self.check(can == is_worker, format_args!("{core} runs packages: {can}"));
        Ok(span)
    }
}

fn is<T>(result: &CallResult<T>, status: Status) -> bool {
    matches!(result, Err(CallError { status: found, .. }) if *found == status)
}

async fn check<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
    rounds: u64,
    held: u64,
) -> CallResult<()> {
    let manager = CoreManagerClient::find(&core.stl()).await?;
    let bench = Bench { core, findings, manager };
    let board = core.machine().board();
    let workers = core.peers().filter(|it| bench.roles(*it) == RoleSet::EMPTY.with(Role::Worker));
    let workers: Vec<CoreId> = workers.collect();
    let (true, [one, ..]) = (core.pool().is_some(), &workers[..]) else {
        return Err(CallError::new(Status::Invalid, "the node has no pool, or no worker"));
    };
    // The last of the disks is the first that moves.
    let last = Line::all().filter(|it| it.is_disk() && board.driver(*it).is_some()).last();
    let last = last.ok_or_else(|| CallError::new(Status::NotFound, "the node has no disk"))?;
    let driver = board.driver(last).unwrap_or(CoreId::BOOT);
    let name = loop {
        let Ok(client) = DiskClient::find_at(&core.stl(), driver).await else {
            core.sleep(LOOK).await;
            continue;
        };
        let disks = client.list().await?;
        findings.check(disks.len() > 1, format_args!("{} disks to move", disks.len()));
        let last = disks.into_iter().last();
        break last.map(|it| it.name).unwrap_or_default();
    };

    let calls = Rc::new(Load::default());
    calls.callers.set(CALLERS);
    for at in 0..CALLERS {
        core.spawn(load(core.clone(), name.clone(), at, calls.clone()));
    }
    let mut spans = Vec::new();
    for _ in 0..rounds {
        for roles in [&[Role::Disk][..], &[Role::Worker]] {
            let (before, limit) = (calls.done.get(), core.now() + WAIT);
            if held > 0 {
                let driver = board.driver(last).unwrap_or(CoreId::BOOT);
                let client = bench.busy_on(driver).await?;
                core.spawn(async move { client.work(held).await });
                core.sleep(Duration::from_millis(1)).await;
            }
            spans.push(bench.becomes(*one, roles, last).await?);
            while calls.done.get() < before + 2 * CALLERS && core.now() < limit {
                core.sleep(Duration::from_millis(1)).await;
            }
            let goes_on = calls.done.get() >= before + 2 * CALLERS;
            findings.check(goes_on, format_args!("the disk does not serve as {roles:?}"));
        }
    }
    spans.sort_unstable();
    findings.figure("roles_us", spans.get(spans.len() / 2).copied().unwrap_or_default());
    refusals(&bench, &workers, last).await?;

    calls.is_over.set(true);
    let limit = core.now() + WAIT;
    while calls.callers.get() > 0 && core.now() < limit {
        core.sleep(Duration::from_millis(1)).await;
    }
    findings.check(calls.callers.get() == 0, format_args!("calls go on"));
    if let [first, second] = workers[..] {
        follows(&bench, first, second).await?;
    }
    let wrong = calls.wrong.borrow();
    let first = wrong.first();
    findings.check(first.is_none(), format_args!("{} calls are lost: {first:?}", wrong.len()));
    findings.figure("calls", calls.done.get());
    findings.figure("not_begun", calls.not_begun.get());
    Ok(())
}

/// A worker that computes without rest gets a mate, which was a disk core.
async fn follows<M: Machine>(bench: &Bench<'_, M>, idle: CoreId, worker: CoreId) -> CallResult<()> {
    let talk = Talk::start(bench.core, worker, CAN_RUN).await?;
    let limit = bench.core.now() + 2 * WAIT;
    let wanted = RoleSet::EMPTY.with(Role::Worker);
    while bench.roles(idle) != wanted && bench.core.now() < limit {
        talk.ask(BUSY).await?;
    }
    let now = bench.roles(idle);
    bench.check(now == wanted, format_args!("{idle} is {now:?} while {worker} is busy"));
    Ok(())
}

/// What cannot be, or not now.
async fn refusals<M: Machine>(
    bench: &Bench<'_, M>,
    workers: &[CoreId],
    last: Line,
) -> CallResult<()> {
    let (core, one) = (bench.core, workers[0]);
    let board = core.machine().board();
    let driver = board.driver(last).unwrap_or(CoreId::BOOT);
    let is_same = |when: &str, before: &[RoleSet]| {
        let now: Vec<RoleSet> = core.peers().map(|it| bench.roles(it)).collect();
        let what = format_args!("{when}: {before:?} have become {now:?}");
        bench.check(now == before && board.driver(last) == Some(driver), what);
    };
    let before: Vec<RoleSet> = core.peers().map(|it| bench.roles(it)).collect();
    let nobody = CoreId(board.cores() as u16);
    for (of, roles, status) in [
        (nobody, &[Role::Disk][..], Status::NotFound),
        (one, &[], Status::Invalid),
        (one, &[Role::Management, Role::Worker], Status::Denied),
        (CoreId::BOOT, &[Role::Management, Role::Worker], Status::Denied),
        (driver, &[Role::Worker], Status::Denied),
    ] {
        let refused = bench.assign(of, roles, PATIENCE_MS).await;
        bench.check(is(&refused, status), format_args!("{of} as {roles:?}: {refused:?}"));
        is_same("refused", &before);
    }

    // The one that would gain the disk leaves and comes back, as the other does not leave.
    let client = bench.busy_on(driver).await?;
    let working = core.spawn(async move { client.work(400_000).await });
    core.sleep(Duration::from_millis(5)).await;
    let stays = bench.assign(one, &[Role::Disk], 50).await;
    bench.check(is(&stays, Status::Busy), format_args!("it is at work: {stays:?}"));
    is_same("at work", &before);
    let result = working.await;
    bench.check(matches!(result, Ok(400_000)), format_args!("what it worked on: {result:?}"));
    let can = bench.can_run(one).await?;
    bench.check(can, format_args!("{one} runs no packages any more"));

    // With all workers but one as disk cores, that one stays.
    if let [first, second] = workers {
        bench.assign(*first, &[Role::Disk], PATIENCE_MS).await?;
        let refused = bench.assign(*second, &[Role::Disk], PATIENCE_MS).await;
        bench.check(is(&refused, Status::Denied), format_args!("the last worker: {refused:?}"));
    }
    Ok(())
}
