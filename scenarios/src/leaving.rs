//! Cores that leave as planned and come back, while callers on the managing core call a service
//! that all other cores have: each call is answered. A core that is away runs nothing and has
//! nothing; what cannot leave is told why, and stays as it was.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::{CoreId, Role, RoleSet, Status};
use nile_bosml::Buffer as Handle;
use nile_interfaces::core_manager::{self, CoreManagerClient};
use nile_kernel::Core;
use nile_platform::{CorePhase, Fault, Machine};
use nile_stl::node::{from_call, in_call};
use nile_stl::{CallError, CallResult, Registration, Start, Stl, all, service};

use crate::arguments::Arguments;
use crate::calls;
use crate::conduct::{Findings, conduct, conducts};
use crate::disk_calls::{claim, filled};

/// How long a core may take to leave.
const PATIENCE_MS: u32 = 5_000;

/// Calls that go on at once.
const CALLERS: u64 = 4;

/// Bytes of a number in a buffer.
const WORD: usize = 8;

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

    /// The same, in a buffer of the pool.
    #[stl_k(reply = "buffer", allow(operator, peer))]
    async fn count(&self, buffer: Handle, number: u64) -> CallResult<Handle> {
        let missing = || CallError::new(Status::NotFound, "no pool");
        let pool = self.stl.node()?.pool().ok_or_else(missing)?;
        let stale = |_| CallError::new(Status::Invalid, "a stale handle");
        let mut buffer = pool.claim(from_call(buffer)).map_err(stale)?;
        let next = self.add(number, number % 5 * 40).await;
        buffer[..WORD].copy_from_slice(&next.to_le_bytes());
        Ok(in_call(buffer.into_handle(WORD)))
    }
}

/// Starts this core's part. Each core is renewed `rounds` times, more often than a core may end
/// soon after its beginning.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    calls::serve(core);
    if !conducts(core) {
        return publish(core, &REGISTRATION);
    }
    let (rounds, core) = (arguments.number("rounds", 12), core.clone());
    conduct(&core.clone(), "leaving", move |findings| async move {
        if let Err(error) = check(&core, &findings, rounds).await {
            findings.check(false, format_args!("{error}"));
        }
    });
}

/// Has this core offer a service.
pub fn publish<M: Machine>(core: &Core<M>, service: &'static Registration) {
    let owner = core.clone();
    core.spawn(async move { published(&owner, service).await });
}

/// The same, once that is done.
pub async fn published<M: Machine>(core: &Core<M>, service: &'static Registration) {
    let Some(make) = service.kernel else { return };
    while let Err(error) = core.stl().publish(service, make).await {
        if error.status != Status::Dead {
            return core.machine().log(format_args!("no service: {error}"));
        }
        core.sleep(Duration::from_millis(1)).await;
    }
}

/// Whether there is somebody to call at each moment, and, if not, whether a core that has a call
/// may fail.
#[derive(Clone)]
pub enum Who {
    Somebody,
    MayBeNobody { may_be_lost: Rc<Cell<bool>> },
}

/// What the callers have found.
#[derive(Default)]
pub struct Calls {
    made: Cell<u64>,
    nobody: Cell<u64>,
    lost: Cell<u64>,
    wrong: RefCell<Vec<String>>,
    is_over: Cell<bool>,
    callers: Cell<u64>,
}

impl Calls {
    /// So many callers begin.
    pub fn begin<M: Machine>(core: &Core<M>, callers: u64, who: Who) -> Rc<Calls> {
        let calls = Rc::new(Calls::default());
        calls.callers.set(callers);
        for _ in 0..callers {
            core.spawn(call(core.clone(), calls.clone(), who.clone()));
        }
        calls
    }

    /// They end: each call was answered.
    pub async fn end<M: Machine>(&self, core: &Core<M>, findings: &Findings) {
        self.is_over.set(true);
        findings.check(until(core, || self.callers.get() == 0).await, format_args!("calls go on"));
        let wrong = self.wrong.borrow();
        let first = wrong.first();
        findings.check(first.is_none(), format_args!("{} calls are lost: {first:?}", wrong.len()));
        findings.check(self.made.get() > 20, format_args!("only {} calls", self.made.get()));
        findings.figure("calls", self.made.get());
        if self.nobody.get() > 0 {
            findings.figure("nobody", self.nobody.get());
        }
        if self.lost.get() > 0 {
            findings.figure("lost_with_images", self.lost.get());
        }
    }
}

/// Calls without rest, by name. If there `may_be_nobody` who offers it, the call is made later.
async fn call<M: Machine>(core: Core<M>, calls: Rc<Calls>, who: Who) {
    while !calls.is_over.get() {
        let number = calls.made.get();
        calls.made.set(number + 1);
        if let Who::MayBeNobody { .. } = who {
            // Others have a turn, too.
            core.sleep(Duration::from_micros(number % 4 * 150)).await;
        }
        let result = one(&core, number).await;
        let error = result.as_ref().err();
        if let (Who::MayBeNobody { may_be_lost }, Some(error)) = (&who, error)
            && (is_nobody(error) || may_be_lost.get() && error.status == Status::Dead)
        {
            let counted = if is_nobody(error) { &calls.nobody } else { &calls.lost };
            counted.set(counted.get() + 1);
            core.sleep(Duration::from_micros(200)).await;
        } else if !matches!(result, Ok(next) if next == number + 1) {
            calls.wrong.borrow_mut().push(format!("call {number}, at {}: {result:?}", core.now()));
        }
    }
    calls.callers.set(calls.callers.get() - 1);
}

/// One call: by value, or with a buffer of the pool if the node has one.
async fn one<M: Machine>(core: &Core<M>, number: u64) -> CallResult<u64> {
    let client = SteadyClient::find(&core.stl()).await?;
    let Some(pool) = core.pool().filter(|_| number % 3 == 2) else {
        return client.add(number, number % 3 * 100).await;
    };
    let sent = filled(pool, number as u8, WORD)?;
    let back = client.count(sent, number).await;
    let back = back.inspect_err(|_| drop(pool.claim(from_call(sent))))?;
    let buffers = claim(pool, vec![back])?;
    let word = buffers.first().and_then(|buffer| buffer.first_chunk::<WORD>());
    Ok(word.map_or(0, |word| u64::from_le_bytes(*word)))
}

/// The layer says so where nothing was done, and no other instance was found.
fn is_nobody(error: &CallError) -> bool {
    error.status == Status::NotFound || error.was_not_made()
}

/// Whether it holds some time soon.
pub async fn until<M: Machine>(core: &Core<M>, holds: impl Fn() -> bool) -> bool {
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
pub async fn steady_on(stl: &Stl, core: CoreId) -> CallResult<SteadyClient> {
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
    let calls = Calls::begin(core, CALLERS, Who::Somebody);
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
    calls.end(core, findings).await;
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
        manager.call_back(one.0).await?;
        let both = [one, other].map(|core| manager.send_away(core.0, PATIENCE_MS));
        let both = all(both).await;
        let stay = both.iter().filter(|it| it.is_err()).count();
        findings.check(stay == 1, format_args!("both workers are sent away at once: {both:?}"));
        manager.call_back(other.0).await?;
        let again = manager.send_away(one.0, PATIENCE_MS).await;
        let is_away = again.is_ok() || is(&again, Status::Dead);
        findings.check(is_away, format_args!("sent away once more: {again:?}"));
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
    let now = record.generation();
    let back = record.phase() == CorePhase::Running && now > before;
    findings.check(back, format_args!("{} {}", record.generation(), record.phase().name()));
    let client = steady_on(&stl, one).await?;
    let sum = client.add(1, 0).await?;
    findings.check(sum == 2, format_args!("it answers {sum}"));
    // One that is there is as it was.
    manager.call_back(one.0).await?;
    findings.check(record.generation() == now, format_args!("it began once more"));
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
