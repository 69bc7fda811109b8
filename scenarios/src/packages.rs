//! Packages on every worker. `package`: programs that behave run, and are gone without a trace.
//! `unruly`: programs that do what they may not are stopped, and reported for what they did; their
//! core then runs a program that behaves, and no other core has noticed. With `beside=1` each
//! worker has another package all the time, which loops, and has not noticed either. One that stays
//! and calls nobody for longer than its manifest says is ended, though nobody asks for it.

use alloc::rc::Rc;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Generation, Role, RoleSet, Status};
use nile_kernel::packages::NoServices;
use nile_kernel::{Core, Ended, PackageId, PackageLimits};
use nile_package::{Image, stub};
use nile_platform::{Fault, Machine};
use nile_stl::node::Stay;
use nile_unruly::NOT_STOPPED;

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

const RUN: u32 = 13;

/// A program, its argument, and the ends that are right for it. The numbers in this table are what
/// a core is told.
struct Program {
    package: &'static str,
    argument: &'static str,
    ends: &'static [u64],
}

/// What a core says of an end: the kind, with the exit code or the kind of fault.
const EXITED: u64 = 1 << 32;
const FAULTED: u64 = 2 << 32;
const STOPPED: u64 = 3 << 32;
const OUT_OF_MEMORY: u64 = 4 << 32;
const NOT_LOADED: u64 = 5 << 32;
const HUNG: u64 = 6 << 32;

const PAGE_FAULT: u64 = FAULTED | Fault::PAGE;
const EXCEPTION: u64 = FAULTED | Fault::EXCEPTION;
const PANICKED: u64 = EXITED | Status::Panicked as u64;
const EMPTY: u64 = EXITED | Status::NoMemory as u64;

const fn program(package: &'static str, argument: &'static str, ends: &'static [u64]) -> Program {
    Program { package, argument, ends }
}

const PROGRAMS: [Program; 22] = [
    program("hello", "hello", &[EXITED]),
    program("threads", "", &[EXITED]),
    program("unruly", "write-null", &[PAGE_FAULT]),
    program("unruly", "read-kernel", &[PAGE_FAULT]),
    program("unruly", "write-code", &[PAGE_FAULT]),
    program("unruly", "run-data", &[PAGE_FAULT]),
    program("unruly", "jump", &[PAGE_FAULT]),
    program("unruly", "cli", &[EXCEPTION]),
    program("unruly", "hlt", &[EXCEPTION]),
    program("unruly", "out", &[EXCEPTION]),
    program("unruly", "divide", &[EXCEPTION]),
    program("unruly", "overflow", &[PAGE_FAULT]),
    program("unruly", "exhaust", &[EMPTY, OUT_OF_MEMORY]),
    program("unruly", "panic", &[PANICKED]),
    program("unruly", "calls", &[EXITED]),
    program("unruly", "loop", &[STOPPED]),
    program("unruly", "read-at NEIGHBOUR", &[PAGE_FAULT]),
    program("unruly", "write-at NEIGHBOUR", &[PAGE_FAULT]),
    program("unruly", "call-at NEIGHBOUR", &[EXITED]),
    // The controls: in its own slot the same is allowed.
    program("unruly", "write-at OWN", &[EXITED | NOT_STOPPED]),
    program("unruly", "call-at OWN", &[EXITED | NOT_STOPPED]),
    // It stays.
    program("unruly", "loop", &[HUNG]),
];

/// Where in its slot a package has memory that it may write: its stack's end, which it never
/// reaches.
const WRITABLE: u64 = 0x20_0000;

const HELLO: usize = 0;
const THREADS: usize = 1;
const FIRST_UNRULY: usize = 2;
/// The one that never ends by itself.
const ENDLESS: usize = 15;
/// Those that need a neighbour, in the first slot of their core.
const FIRST_BESIDE: usize = 16;
/// The one that stays, and is silent for longer than the manifest says.
const SILENT: usize = 21;

/// The manifest of `unruly` where programs are linked in and have none.
const MANIFEST: &str = "name unruly\nanswers 1\n";

/// Added to a program's number, it shares its core.
const SHARES: u64 = 1 << 32;

/// How long an endless program runs before it is stopped.
const PATIENCE: Duration = Duration::from_millis(2);

/// Starts this core's part of either scenario.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let worker = core.clone();
    core.spawn(async move {
        while let Ok(talk) = Talk::answer(&worker, RUN).await {
            let worker = worker.clone();
            worker.clone().spawn(async move {
                while let Ok(number) = talk.listen().await {
                    if run(&worker, &talk, number).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    if !conducts(core) {
        return;
    }
    let rounds = arguments.number("rounds", 2);
    let unruly = arguments.name() == "unruly";
    let beside = arguments.number("beside", 0) > 0;
    let name = if unruly { "unruly" } else { "package" };
    let core = core.clone();
    conduct(&core.clone(), name, move |findings| async move {
        let talks = talk_to_workers(&core, &findings).await;
        let none = talks.is_empty();
        findings.check(!none, format_args!("no core of this node is a worker and nothing else"));
        if let Some(Program { package, .. }) =
            PROGRAMS.iter().find(|program| core.find_package(program.package).is_none())
        {
            return findings.check(false, format_args!("the node has no package `{package}`"));
        }
        let neighbours = match beside {
            true => talk_to_workers(&core, &findings).await,
            false => Vec::new(),
        };
        let shares = if beside { SHARES } else { 0 };
        let last = if beside { SILENT } else { FIRST_BESIDE };
        let endless = begin(&findings, &neighbours, &[ENDLESS], shares).await;
        if beside {
            is_refused(&findings, &talks).await;
        }
        let together = async |numbers: &[usize]| {
            let started = begin(&findings, &talks, numbers, shares).await;
            end(&core, &findings, started).await;
        };
        // The first run of all may leave something that is made only once.
        together(&[HELLO]).await;
        let before = findings.expect(core.memory_statistics().await, "no statistics");
        for _ in 0..rounds {
            if unruly {
                for number in FIRST_UNRULY..last {
                    together(&[number, HELLO]).await;
                    together(&[HELLO]).await;
                }
            } else {
                together(&[HELLO]).await;
                together(&[THREADS]).await;
            }
        }
        let after = findings.expect(core.memory_statistics().await, "no statistics");
        findings.check(
            before == after,
            format_args!("memory was lost: {before:?} before, {after:?} after"),
        );
        end(&core, &findings, endless).await;
        if unruly {
            together(&[SILENT]).await;
            together(&[HELLO]).await;
        }
        let record = |core_id: CoreId| core.machine().board().record(core_id);
        for peer in core.peers() {
            let generation = record(peer).generation();
            let same = generation == Generation::FIRST;
            findings.check(same, format_args!("{peer} has restarted and is {generation}"));
        }
        for (worker, _) in &talks {
            let calls = record(*worker).system_calls();
            findings.check(calls > 0, format_args!("{worker} has counted no system call"));
            findings.figure(alloc::format!("calls_{worker}"), calls);
        }
    });
}

/// A talk with every core that is a worker and nothing else.
async fn talk_to_workers<M: Machine>(
    core: &Core<M>,
    findings: &Findings,
) -> Vec<(CoreId, Talk<M>)> {
    let board = core.machine().board();
    let worker = RoleSet::EMPTY.with(Role::Worker);
    let mut talks = Vec::new();
    for id in core.peers().filter(|id| board.record(*id).roles() == worker) {
        let talk = Talk::start(core, id, RUN).await;
        talks.extend(findings.expect(talk, "no talk with a worker").map(|talk| (id, talk)));
    }
    talks
}

/// A program that was started.
struct Started<'t, M: Machine> {
    worker: CoreId,
    talk: &'t Talk<M>,
    number: usize,
    id: PackageId,
}

/// Starts the programs of these numbers, the first on the first worker and so on, the last on all
/// others.
async fn begin<'t, M: Machine>(
    findings: &Findings,
    talks: &'t [(CoreId, Talk<M>)],
    numbers: &[usize],
    shares: u64,
) -> Vec<Started<'t, M>> {
    let last = numbers.last().copied().unwrap_or(HELLO);
    let mut started = Vec::new();
    for (at, (worker, talk)) in talks.iter().enumerate() {
        let number = numbers.get(at).copied().unwrap_or(last);
        let id = match talk.ask(number as u64 | shares).await {
            Ok(id) => PackageId(id as u32),
            Err(status) => {
                findings.check(false, format_args!("{worker} starts nothing: {status}"));
                continue;
            }
        };
        started.push(Started { worker: *worker, talk, number, id });
    }
    started
}

/// A package that does not share gets no core on which there is another.
async fn is_refused<M: Machine>(findings: &Findings, talks: &[(CoreId, Talk<M>)]) {
    for (worker, talk) in talks {
        let (id, end) = (talk.ask(HELLO as u64).await, talk.listen().await);
        let exists = NOT_LOADED | u64::from(Status::Exists.code());
        let is_refused = (id, end) == (Ok(0), Ok(exists));
        findings.check(is_refused, format_args!("{worker} is shared unasked: {id:?}, {end:x?}"));
    }
}

/// Waits until all have ended, as they are to. An endless one is stopped only when the others have:
/// it keeps nobody but its own core busy.
async fn end<M: Machine>(core: &Core<M>, findings: &Findings, mut started: Vec<Started<'_, M>>) {
    started.sort_by_key(|it| it.number == ENDLESS);
    for Started { worker, talk, number, id } in started {
        if number == ENDLESS {
            core.sleep(PATIENCE).await;
            let stopped = core.stop_package(worker, id).await;
            findings.expect(stopped, "a package cannot be stopped");
        }
        let end = talk.listen().await;
        let Program { package, argument, ends } = &PROGRAMS[number];
        let right = end.as_ref().is_ok_and(|end| ends.contains(end));
        findings.check(
            right,
            format_args!("{package} {argument} on {worker} ends as {end:x?}, not as {ends:x?}"),
        );
    }
}

/// Runs a program here: says the package's number, zero if there is none, and then the end.
async fn run<M: Machine>(core: &Core<M>, talk: &Talk<M>, number: u64) -> Result<(), Status> {
    let shares = number & SHARES != 0;
    let number = number & !SHARES;
    let program = usize::try_from(number).ok().and_then(|number| PROGRAMS.get(number));
    let Program { package, argument, .. } = program.ok_or(Status::Invalid)?;
    let stays = (number == SILENT as u64).then_some(Stay(0));
    let image = match core.find_package(package).ok_or(Status::NotFound)? {
        Image::Linked(_) if stays.is_some() => Image::Shipped(Rc::from(stub::file(MANIFEST))),
        image => image,
    };
    let limits = match *package {
        // Each of its many threads has a stack.
        "threads" => PackageLimits { arena_bytes: 16 << 20, ..PackageLimits::default() },
        _ => PackageLimits::default(),
    };
    let limits = PackageLimits { shares, stays, ..limits };
    let slot = |index| UserSlot::from_index(index).map_or(0, |slot| slot.base().0 + WRITABLE);
    let argument =
        argument.replace("NEIGHBOUR", &slot(0).to_string()).replace("OWN", &slot(1).to_string());
    let package = match core.run_package(image, argument.as_bytes(), limits, NoServices) {
        Ok(package) => package,
        Err(status) => {
            talk.tell(0).await?;
            return talk.tell(NOT_LOADED | u64::from(status.code())).await;
        }
    };
    talk.tell(u64::from(package.id().0)).await?;
    let report = package.ended().await;
    core.machine().log(format_args!("{} {argument}: {}", program_name(number), report.ended));
    talk.tell(match report.ended {
        Ended::Exited(code) => EXITED | code & 0xffff_ffff,
        Ended::Faulted(fault) => FAULTED | fault.kind,
        Ended::Stopped => STOPPED,
        Ended::Hung(_) => HUNG,
        Ended::OutOfMemory => OUT_OF_MEMORY,
        Ended::NotLoaded(_) => NOT_LOADED,
    })
    .await
}

fn program_name(number: u64) -> &'static str {
    PROGRAMS.get(number as usize).map_or("nothing", |program| program.package)
}
