//! Cores that leave as planned and come back, while callers on the managing core call a service
//! that all other cores have: each call is answered. A core that is away runs nothing and has
//! nothing; what cannot leave is told why, and stays as it was.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_interfaces::core_manager::{self, CoreManagerClient};
use nile_kernel::Core;
use nile_platform::{CorePhase, Fault, Machine};
use nile_stl::{CallError, CallResult, Start, Stl, service};

use crate::arguments::Arguments;
use crate::calls;
use crate::conduct::{Findings, conduct, conducts};

/// How long a core may take to leave.
const PATIENCE_MS: u32 = 5_000;

/// Calls that go on at once.
const CALLERS: u64 = 4;

/// How long it is waited for what comes true by itself.
const WAIT: Duration = Duration::from_secs(10);

/// What is called.
pub struct Steady {
    stl: Stl,
}

impl Start for Steady {
    fn start(stl: &Stl) -> Steady {
        Steady { stl: stl.clone() }
    }
}

/// What all cores but one have.
#[service(
    subsystem = "tests",
    capability = "staying",
    layer = high,
    on = every,
    keywords(steady = 1)
)]
impl Steady {
    /// One more, after so long.
    #[stl_k(allow(operator, peer))]
    async fn add(&self, number: u64, micros: u64) -> u64 {
        let host = self.stl.host();
        host.sleep_until(host.now() + Duration::from_micros(micros)).await;
        number + 1
    }
}

/// Starts this core's part. Each core is renewed `rounds` times, more often than a core may end
/// soon after its beginning.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    calls::serve(core);
    if !conducts(core) {
        let owner = core.clone();
        core.spawn(async move {
            let Some(make) = REGISTRATION.kernel else { return };
            while let Err(error) = owner.stl().publish(&REGISTRATION, make).await {
                if error.status != Status::Dead {
                    return owner.machine().log(format_args!("no service: {error}"));
                }
                owner.sleep(Duration::from_millis(1)).await;
            }
        });
        return;
    }
    let (rounds, core) = (arguments.number("rounds", 12), core.clone());
    conduct(&core.clone(), "leaving", move |findings| async move {
        if let Err(error) = check(&core, &findings, rounds).await {
            findings.check(false, format_args!("{error}"));
        }
    });
}

/// What the callers have found.
#[derive(Default)]
struct Calls {
    made: Cell<u64>,
    wrong: RefCell<Vec<String>>,
    is_over: Cell<bool>,
    callers: Cell<u64>,
}

/// Calls without rest, by name.
async fn call<M: Machine>(core: Core<M>, calls: Rc<Calls>) {
    let stl = core.stl();
    while !calls.is_over.get() {
        let number = calls.made.get();
        calls.made.set(number + 1);
        let client = SteadyClient::find(&stl).await;
        let result = match client {
            Ok(client) => client.add(number, number % 3 * 100).await,
            Err(error) => Err(error),
        };
        if !matches!(result, Ok(next) if next == number + 1) {
            calls.wrong.borrow_mut().push(format!("call {number}: {result:?}"));
        }
    }
    calls.callers.set(calls.callers.get() - 1);
}

async fn until<M: Machine>(core: &Core<M>, holds: impl Fn() -> bool) -> bool {
    let limit = core.now() + WAIT;
    while !holds() {
        if core.now() > limit {
            return false;
        }
        core.sleep(Duration::from_millis(1)).await;
    }
    true
}

fn is<T>(result: &CallResult<T>, status: Status) -> bool {
    matches!(result, Err(CallError { status: found, .. }) if *found == status)
}

/// Waits until a core's instance is found.
async fn steady_on(stl: &Stl, core: CoreId) -> CallResult<SteadyClient> {
    let host = stl.host();
    let limit = host.now() + WAIT;
    loop {
        match SteadyClient::find_at(stl, core).await {
            Err(_) if host.now() < limit => host.pause(Duration::from_millis(1)).await,
            found => return found,
        }
    }
}

async fn check<M: Machine>(core: &Core<M>, findings: &Findings, rounds: u64) -> CallResult<()> {
    let stl = core.stl();
    let manager = CoreManagerClient::find(&stl).await?;
    let others: Vec<CoreId> = core.peers().filter(|it| *it != core.id()).collect();
    for other in &others {
        steady_on(&stl, *other).await?;
    }
    let calls = Rc::new(Calls::default());
    calls.callers.set(CALLERS);
    for _ in 0..CALLERS {
        core.spawn(call(core.clone(), calls.clone()));
    }
    let board = core.machine().board();
    let mut spans = Vec::new();
    for round in 0..rounds {
        for other in &others {
            let before = board.record(*other).generation();
            let begun = core.now();
            manager.renew(other.0, PATIENCE_MS).await?;
            spans.push((core.now() - begun).as_micros() as u64);
            steady_on(&stl, *other).await?;
            let record = board.record(*other);
            let (now, fault) = (record.generation(), record.fault());
            let planned = now == before.next() && fault == Some(Fault::LEFT);
            let what = format_args!("round {round}: core {other} is {now}, {fault:?}");
            findings.check(planned, what);
        }
    }
    spans.sort_unstable();
    // From the order until the next incarnation runs.
    findings.figure("renew_us", spans.get(spans.len() / 2).copied().unwrap_or_default());
    let workers: Vec<CoreId> = others
        .iter()
        .copied()
        .filter(|it| board.record(*it).roles() == RoleSet::EMPTY.with(Role::Worker))
        .collect();
    if let [one, other, ..] = workers[..] {
        away(core, &manager, findings, (one, other, workers.len())).await?;
    }
    refusals(core, &manager, findings, &others).await?;
    calls.is_over.set(true);
    findings.check(until(core, || calls.callers.get() == 0).await, format_args!("calls go on"));
    let wrong = calls.wrong.borrow();
    let first = wrong.first();
    findings.check(first.is_none(), format_args!("{} calls are lost: {first:?}", wrong.len()));
    findings.check(calls.made.get() > 20, format_args!("only {} calls", calls.made.get()));
    findings.figure("calls", calls.made.get());
    Ok(())
}

/// One worker goes away, and comes back.
async fn away<M: Machine>(
    core: &Core<M>,
    manager: &CoreManagerClient,
    findings: &Findings,
    (one, other, workers): (CoreId, CoreId, usize),
) -> CallResult<()> {
    let (stl, board) = (core.stl(), core.machine().board());
    let before = board.record(one).generation();
    manager.send_away(one.0, PATIENCE_MS).await?;
    let phase = board.record(one).phase();
    findings.check(phase == CorePhase::Away, format_args!("it is {}", phase.name()));
    let listed = manager.list().await?;
    let told =
        listed.iter().any(|it| it.core == one.0 && it.phase == core_manager::CorePhase::Away);
    findings.check(told, format_args!("it is listed as {listed:?}"));
    let found = SteadyClient::find_at(&stl, one).await.err().map(|error| error.status);
    findings.check(found == Some(Status::NotFound), format_args!("it is found: {found:?}"));
    let again = manager.send_away(one.0, PATIENCE_MS).await;
    findings.check(is(&again, Status::Dead), format_args!("sent away twice: {again:?}"));
    let ended = manager.end_core(one.0).await;
    findings.check(is(&ended, Status::Dead), format_args!("ended while away: {ended:?}"));
    if workers == 2 {
        let last = manager.send_away(other.0, PATIENCE_MS).await;
        findings.check(is(&last, Status::Denied), format_args!("the last worker: {last:?}"));
    }
    let (turns, beginning) = (board.record(one).turns(), core.now());
    core.sleep(Duration::from_millis(50)).await;
    let now = board.record(one).turns();
    let span = core.now() - beginning;
    findings.check(now == turns, format_args!("it ran {} passes in {span:?}", now - turns));
    manager.call_back(one.0).await?;
    let record = board.record(one);
    let back = record.phase() == CorePhase::Running && record.generation() == before.next();
    findings.check(back, format_args!("{} {}", record.generation(), record.phase().name()));
    let client = steady_on(&stl, one).await?;
    let sum = client.add(1, 0).await?;
    findings.check(sum == 2, format_args!("it answers {sum}"));
    // One that is there is as it was.
    manager.call_back(one.0).await?;
    findings.check(record.generation() == before.next(), format_args!("it began once more"));
    Ok(())
}

/// What cannot leave, or not now.
async fn refusals<M: Machine>(
    core: &Core<M>,
    manager: &CoreManagerClient,
    findings: &Findings,
    others: &[CoreId],
) -> CallResult<()> {
    let (stl, board) = (core.stl(), core.machine().board());
    let nobody = board.cores() as u16;
    for result in [manager.renew(nobody, 1).await, manager.call_back(nobody).await] {
        findings.check(is(&result, Status::NotFound), format_args!("no core: {result:?}"));
    }
    let own = manager.renew(core.id().0, PATIENCE_MS).await;
    findings.check(is(&own, Status::Denied), format_args!("the managing core: {own:?}"));
    let own = manager.send_away(core.id().0, PATIENCE_MS).await;
    findings.check(is(&own, Status::Denied), format_args!("the managing core, away: {own:?}"));
    let Some(busy) = others.last() else { return Ok(()) };
    let before = board.record(*busy).generation();
    let client = steady_on(&stl, *busy).await?;
    let working = core.spawn(async move { client.add(41, 400_000).await });
    core.sleep(Duration::from_millis(5)).await;
    let stays = manager.renew(busy.0, 20).await;
    findings.check(is(&stays, Status::Busy), format_args!("it is at work: {stays:?}"));
    findings.check(board.record(*busy).generation() == before, format_args!("it has ended"));
    let client = steady_on(&stl, *busy).await?;
    let sum = client.add(1, 0).await;
    findings.check(matches!(sum, Ok(2)), format_args!("after it stayed: {sum:?}"));
    let result = working.await;
    findings.check(matches!(result, Ok(42)), format_args!("what it worked on: {result:?}"));
    Ok(())
}
