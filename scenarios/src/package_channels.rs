//! Packages of two cores send each other messages by channels of their own: without a system call
//! while both are awake, and with no more than sleeping and waking cost else. `package-channels`:
//! one of them ends, then one's core restarts; the other learns that, and in the end all memory is
//! back. They open and close `many` channels each way, in less memory than all of these have.
//! `package-channels-restart`: the management core restarts, and neither notices. With `beside=1`
//! both are on one core, and a third one there gets nothing of what they have; without it, one of
//! them talks to a service of the other core's kernel, too.

mod kernel;
mod lasting;

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::time::Duration;

use nile_abi::{CoreId, Generation, PageSize, Role, RoleSet, Status};
use nile_channels::{BEYOND_POLLING, POLLED, SHOWN, SLEPT};
use nile_kernel::{Core, Ended, PackageLimits, ServiceCalls};
use nile_platform::Machine;

use crate::arguments::Arguments;
use crate::churn::{REST, come_to_rest};
use crate::conduct::{Findings, conduct, conducts};
use crate::restart::wait_for;
use crate::talk::Talk;

/// Asks a worker to run the package: the act's number, the other core's from bit 8 on, what it is
/// to its neighbours, and from bit 36 on what a lasting end is to do.
const RUN: u32 = 20;

/// What the package does.
const ACTS: [&str; 10] =
    ["exchange", "leave", "stay", "hold", "long", "panic", "steal", "give", "take", "many"];
const EXCHANGE: u64 = 0;
const LEAVE: u64 = 1;
const STAY: u64 = 2;
const HOLD: u64 = 3;
const LONG: u64 = 4;
const PANICS: u64 = 5;
const STEAL: u64 = 6;
const GIVE: u64 = 7;
const TAKE: u64 = 8;
const MANY: u64 = 9;

/// Channels that are opened and closed each way, and all memory of a package that does so.
const TIMES: u64 = 5_000;
const LITTLE_MEMORY: u64 = 16 << 20;

/// The package shares its core.
const SHARES: u64 = 1 << 32;
/// Of two neighbours it is the one that speaks first.
const LEADS: u64 = 1 << 33;

/// At the other end is a service of a kernel.
const WITH_KERNEL: u64 = 1 << 34;
/// That is this one.
const IS_KERNEL: u64 = 1 << 35;

/// What makes the worker's kernel panic.
const PANIC: u64 = u64::MAX;
/// What makes it note how many bytes are free, and say so.
const NOTE: u64 = u64::MAX - 1;
/// What makes it say what it has noted.
const NOTED: u64 = u64::MAX - 2;
/// What makes it say how its last packages ended, once all have.
const LAST: u64 = u64::MAX - 3;

/// What a worker says of an end that was no exit.
const OTHER_END: u64 = 1 << 34;

/// How long the talks get to be closed; the packages go on meanwhile.
const SETTLE: Duration = Duration::from_millis(20);

/// How long a package may take to come so far.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a worker knows when the management core has forgotten it.
#[derive(Default)]
struct Noted {
    free_bytes: Cell<u64>,
    /// The packages that run, and how the worst of the last ones has ended.
    running: Cell<u32>,
    worst: Cell<u64>,
}

/// Starts this core's part of either scenario.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let (worker, noted) = (core.clone(), Rc::new(Noted::default()));
    core.spawn(async move {
        while let Ok(talk) = Talk::answer(&worker, RUN).await {
            let (core, noted) = (worker.clone(), noted.clone());
            worker.spawn(async move { obey(&core, Rc::new(talk), noted).await });
        }
    });
    if !conducts(core) {
        return;
    }
    if arguments.name() == "package-lasting" {
        return lasting::start(core, arguments);
    }
    let restarts = arguments.name() == "package-channels-restart";
    let beside = arguments.number("beside", 0) > 0;
    let times = arguments.number("many", TIMES);
    let core = core.clone();
    if restarts && core.machine().generation() == Generation::FIRST {
        core.clone().spawn(async move {
            if core.all_running().await.is_ok() {
                let _ = until_beyond_polling(&core, beside).await;
            }
            panic!("the management core panics on purpose");
        });
        return;
    }
    let name = if restarts { "package-channels-restart" } else { "package-channels" };
    conduct(&core.clone(), name, move |findings| async move {
        let result = match workers(&core, &findings, beside) {
            Some(pair) if restarts => look_afterwards(&core, &findings, pair).await,
            Some(pair) => check(&core, &findings, pair, times).await,
            None => Ok(()),
        };
        if let Err(status) = result {
            findings.check(false, format_args!("no talk with a worker: {status}"));
        }
    });
}

/// Does what the conductor says, as long as it does.
async fn obey<M: Machine>(core: &Core<M>, talk: Rc<Talk<M>>, noted: Rc<Noted>) {
    while let Ok(number) = talk.listen().await {
        assert!(number != PANIC, "the conductor asked for it");
        let (core, talk, noted) = (core.clone(), talk.clone(), noted.clone());
        core.clone().spawn(async move {
            let answer = match number {
                NOTE => {
                    let free = core.memory_statistics().await.map_or(0, |now| now.free_bytes);
                    noted.free_bytes.set(free);
                    free
                }
                NOTED => noted.free_bytes.get(),
                LAST => loop {
                    match noted.running.get() {
                        0 => break noted.worst.get(),
                        _ => core.sleep(Duration::from_micros(100)).await,
                    }
                },
                number => {
                    let before = noted.running.replace(noted.running.get() + 1);
                    noted.worst.set(if before == 0 { 0 } else { noted.worst.get() });
                    let code = run(&core, number).await.unwrap_or(OTHER_END);
                    noted.running.set(noted.running.get() - 1);
                    noted.worst.set(noted.worst.get().max(code));
                    code
                }
            };
            // Whoever asked may be gone.
            let _ = talk.tell(answer).await;
        });
    }
}

/// Runs the package here to its end.
async fn run<M: Machine>(core: &Core<M>, number: u64) -> Result<u64, Status> {
    let other = number >> 8 & 0xffff;
    if number & IS_KERNEL > 0 {
        return kernel::act(core, number & 0xff, CoreId(other as u16)).await;
    }
    let (shares, leads) = (number & SHARES > 0, number & LEADS > 0);
    let act = usize::try_from(number & 0xff).ok().and_then(|act| ACTS.get(act));
    let act = act.ok_or(Status::Invalid)?;
    let image = core.find_package("channels").ok_or(Status::NotFound)?;
    let what = match number & 0xff {
        GIVE | TAKE => lasting::words(number),
        MANY => format!("{}", number >> 36),
        _ => String::from(if leads { "leads" } else { "" }),
    };
    let kernel = if number & WITH_KERNEL > 0 { "k" } else { "" };
    let argument = format!("{} {kernel}{other} {act} {what}", core.id().0);
    let calls = ServiceCalls::new(&core.stl());
    let mut limits = PackageLimits { shares, ..PackageLimits::default() };
    if number & 0xff == MANY {
        limits.memory_bytes = LITTLE_MEMORY;
    }
    let package = core.run_package(image, argument.as_bytes(), limits, calls)?;
    match package.ended().await.ended {
        Ended::Exited(code) => Ok(code),
        other => {
            core.machine().log(format_args!("{act}: the package ended: {other:?}"));
            Ok(OTHER_END)
        }
    }
}

/// A worker, and the conductor's talk with it.
struct Party<M: Machine> {
    core: CoreId,
    talk: Talk<M>,
}

impl<M: Machine> Party<M> {
    async fn of(core: &Core<M>, worker: CoreId) -> Result<Party<M>, Status> {
        Ok(Party { core: worker, talk: Talk::start(core, worker, RUN).await? })
    }

    async fn begin(&self, act: u64, other: CoreId, how: u64) -> Result<(), Status> {
        let how = if other == self.core { SHARES | how } else { how & !LEADS };
        self.talk.tell(act | u64::from(other.0) << 8 | how).await
    }

    async fn end(&self, act: u64, findings: &Findings) -> Result<(), Status> {
        let code = self.talk.listen().await?;
        let name = ACTS[act as usize];
        let wanted = if act == PANICS { Status::Panicked.code().into() } else { 0 };
        findings.check(code == wanted, format_args!("{name} on {} exits with {code}", self.core));
        Ok(())
    }
}

/// Two cores that are workers and nothing else; or one, twice.
fn workers<M: Machine>(core: &Core<M>, findings: &Findings, beside: bool) -> Option<[CoreId; 2]> {
    let board = core.machine().board();
    let only_worker = RoleSet::EMPTY.with(Role::Worker);
    let workers: Vec<CoreId> =
        core.peers().filter(|id| board.record(*id).roles() == only_worker).collect();
    let two = match beside {
        true => workers.first().map(|one| [*one; 2]),
        false => workers.first_chunk().copied(),
    };
    let none = two.is_none();
    findings.check(!none, format_args!("the node has no two cores that are only workers"));
    two
}

async fn check<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
    [first, second]: [CoreId; 2],
    times: u64,
) -> Result<(), Status> {
    let mut first = Party::of(core, first).await?;
    let mut second = Party::of(core, second).await?;
    // The first run of all may leave something that is made only once.
    both(&first, &second, [EXCHANGE, EXCHANGE], findings).await?;
    core.sleep(Duration::from_millis(50)).await;
    let before = core.memory_statistics().await?;
    both(&first, &second, [EXCHANGE, EXCHANGE], findings).await?;
    both(&first, &second, [LEAVE, STAY], findings).await?;
    both(&first, &second, [STAY, LEAVE], findings).await?;
    both(&first, &second, [PANICS, STAY], findings).await?;
    let begun = core.now();
    first.begin(MANY | times << 36, second.core, LEADS).await?;
    second.begin(MANY | times << 36, first.core, 0).await?;
    first.end(MANY, findings).await?;
    second.end(MANY, findings).await?;
    findings.figure("many_us", (core.now() - begun).as_micros() as u64);
    if first.core == second.core {
        beside_a_third(core, &first, &second, findings).await?;
    }
    restart(core, &mut first, &mut second, [LEADS, 0], findings).await?;
    if first.core != second.core {
        for acts in [[EXCHANGE; 2], [LEAVE, STAY], [STAY, LEAVE], [PANICS, STAY]] {
            with_kernel(&first, &second, acts, findings).await?;
        }
        restart(core, &mut first, &mut second, [WITH_KERNEL, IS_KERNEL], findings).await?;
    }
    // The new incarnation takes part as the old one did.
    both(&first, &second, [EXCHANGE, EXCHANGE], findings).await?;
    let after = come_to_rest(core, before, core.now() + REST).await?;
    findings.check(
        before == after,
        format_args!("memory was lost: {before:?} before, {after:?} after"),
    );
    findings.figure("polled", POLLED);
    findings.figure("slept", SLEPT);
    Ok(())
}

/// Runs one act on each at one time.
async fn both<M: Machine>(
    first: &Party<M>,
    second: &Party<M>,
    acts: [u64; 2],
    findings: &Findings,
) -> Result<(), Status> {
    first.begin(acts[0], second.core, LEADS).await?;
    second.begin(acts[1], first.core, 0).await?;
    first.end(acts[0], findings).await?;
    second.end(acts[1], findings).await
}

/// The same between the first one's package and the second one's kernel.
async fn with_kernel<M: Machine>(
    first: &Party<M>,
    second: &Party<M>,
    acts: [u64; 2],
    findings: &Findings,
) -> Result<(), Status> {
    first.begin(acts[0], second.core, WITH_KERNEL).await?;
    second.begin(acts[1], first.core, IS_KERNEL).await?;
    first.end(acts[0], findings).await?;
    second.end(acts[1], findings).await
}

/// Two exchange messages, and a third one of their core is offered nothing of that.
async fn beside_a_third<M: Machine>(
    core: &Core<M>,
    first: &Party<M>,
    second: &Party<M>,
    findings: &Findings,
) -> Result<(), Status> {
    let third = Party::of(core, first.core).await?;
    let record = core.machine().board().record(first.core);
    let midst = record.system_calls() + BEYOND_POLLING;
    first.begin(EXCHANGE, second.core, LEADS).await?;
    second.begin(EXCHANGE, first.core, 0).await?;
    let limit = core.now() + PATIENCE;
    while record.system_calls() < midst && core.now() < limit {
        core.sleep(Duration::from_micros(20)).await;
    }
    third.begin(STEAL, third.core, 0).await?;
    third.end(STEAL, findings).await?;
    first.end(EXCHANGE, findings).await?;
    second.end(EXCHANGE, findings).await
}

/// The first one's kernel panics while its package waits for the second one's, which ends with it
/// if it is there, too.
async fn restart<M: Machine>(
    core: &Core<M>,
    first: &mut Party<M>,
    second: &mut Party<M>,
    how: [u64; 2],
    findings: &Findings,
) -> Result<(), Status> {
    let record = core.machine().board().record(first.core);
    let shown = record.system_calls() + SHOWN;
    first.begin(HOLD, second.core, how[0]).await?;
    second.begin(STAY, first.core, how[1]).await?;
    let limit = core.now() + PATIENCE;
    while record.system_calls() < shown && core.now() < limit {
        core.sleep(Duration::from_micros(100)).await;
    }
    let calls = record.system_calls();
    findings.check(calls >= shown, format_args!("{calls} system calls, not {shown}"));
    let lost = first.talk.ask(PANIC).await;
    findings.check(lost == Err(Status::Dead), format_args!("the panic answers {lost:?}"));
    let is_gone = first.core == second.core;
    if !is_gone {
        second.end(STAY, findings).await?;
    }
    wait_for(core, first.core, Generation::FIRST.next()).await;
    *first = Party::of(core, first.core).await?;
    if is_gone {
        *second = Party::of(core, second.core).await?;
    }
    Ok(())
}

/// Comes back while two packages send each other messages and sleep in between.
async fn until_beyond_polling<M: Machine>(core: &Core<M>, beside: bool) -> Result<(), Status> {
    let two = workers(core, &Findings::default(), beside).ok_or(Status::NotFound)?;
    let (first, second) = (Party::of(core, two[0]).await?, Party::of(core, two[1]).await?);
    both(&first, &second, [EXCHANGE, EXCHANGE], &Findings::default()).await?;
    core.sleep(Duration::from_millis(50)).await;
    first.talk.ask(NOTE).await?;
    let calls = || two.map(|id| core.machine().board().record(id).system_calls());
    let before = calls();
    first.begin(LONG, second.core, LEADS).await?;
    second.begin(LONG, first.core, 0).await?;
    let limit = core.now() + PATIENCE;
    while core.now() < limit && (0..2).any(|at| calls()[at] < before[at] + BEYOND_POLLING) {
        core.sleep(Duration::from_micros(20)).await;
    }
    // What this core itself has when it panics is nobody's until the next boot.
    drop((first, second));
    core.sleep(SETTLE).await;
    Ok(())
}

/// Neither package has noticed, and in the end the memory is back that was there before.
async fn look_afterwards<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
    [first, second]: [CoreId; 2],
) -> Result<(), Status> {
    let calls = |id: CoreId| core.machine().board().record(id).system_calls();
    let before = calls(first);
    let (first, second) = (Party::of(core, first).await?, Party::of(core, second).await?);
    for party in [&first, &second] {
        let code = party.talk.ask(LAST).await?;
        findings.check(code == 0, format_args!("long on {} exits with {code}", party.core));
    }
    findings.figure("calls_afterwards", calls(first.core) - before);
    let noted = first.talk.ask(NOTED).await?;
    let limit = core.now() + REST;
    // A talk of the management core's own that was not closed when it panicked is nobody's until
    // the next boot, and with it the collection that its rings are in.
    let own = PageSize::Large.bytes();
    let mut free = core.memory_statistics().await?.free_bytes;
    while free != noted && core.now() < limit {
        core.sleep(Duration::from_millis(1)).await;
        free = core.memory_statistics().await?.free_bytes;
    }
    findings.figure("missing_bytes", noted.saturating_sub(free));
    let accounted = free <= noted && free + own >= noted;
    findings.check(accounted, format_args!("{noted} bytes were free, {free} are"));
    Ok(())
}
