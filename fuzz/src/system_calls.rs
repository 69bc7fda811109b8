//! A package that makes any system calls at all, on a simulated node with all services.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::call::{Answer, System, SystemCall, USER_BASE};
use nile_abi::{CoreId, Generation, Role, RoleSet, Status, VirtAddr};
use nile_kernel::{
    Config, Core, Ended, MemoryStatistics, PackageLimits, PackageReport, ServiceCalls,
};
use nile_package::Image;
use nile_platform::user::Ask;
use nile_platform::{Machine, Outcome};
use nile_platform_sim::{Faults, Options, SimMachine, raw_call, simulate};

use crate::input::Input;

/// What the package is called.
const NAME: &str = "caller";

/// Calls of one package.
const MOST_CALLS: usize = 48;

/// Where in a package's part of the address space something is, or nothing.
const PLACES: [u64; 8] = [
    0,
    USER_BASE,
    USER_BASE + 0x1000,
    USER_BASE + 0x2000,
    USER_BASE + 0x20_0000,
    USER_BASE + 0x4000_0000,
    USER_BASE + (1 << 40) - 8,
    0xffff_ffff_8000_0000,
];

/// A call that lasts goes on for so long at most: there are many inputs.
const SHORT: u64 = 1_000_000;

/// A package that has not ended by then is stopped.
const LONG: Duration = Duration::from_millis(20);

/// How long the node may take to have its memory back.
const REST: Duration = Duration::from_secs(2);

const POLL: Duration = Duration::from_micros(200);

/// What the package calls its service, if its bytes are a publication of this name: others call
/// it.
const SERVICE: &str = "fuzzed";

/// Calls, each with numbers and addresses as they come or with buffers that are there. The same
/// package runs twice; after the second time the node has as much memory as before it. Accepted: a
/// call that asks for something gave it.
pub fn system_calls(bytes: &[u8]) -> bool {
    let worker = RoleSet::EMPTY.with(Role::Worker);
    let manager = RoleSet::EMPTY.with(Role::Management).with(Role::Network).with(Role::Disk);
    let options = Options {
        seed: bytes.len() as u64,
        roles: vec![manager, worker],
        memory_bytes: 32 << 20,
        pool_bytes: 0,
        wake_mode: None,
        packages: vec![(NAME, package)],
        disks: Vec::new(),
        files: Vec::new(),
        faults: Faults::default(),
        limit: Duration::from_secs(30),
    };
    let (config, reports) = (Config::default(), Rc::new(Reports::default()));
    let finished = simulate(&options, |machine| {
        let run = |core: &Core<SimMachine>| start(core, bytes, &reports);
        Box::new(Core::start(machine, &config, run))
    });
    let finished = finished.unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
    assert_eq!(finished.outcome, Outcome::Success, "{}", finished.log.join("\n"));
    let second = reports.second.take().expect("the scenario ends after both");
    matches!(second.ended, Ended::Exited(1..=0xff))
}

/// What came of the package, once and again.
#[derive(Default)]
struct Reports {
    first: Cell<Option<PackageReport>>,
    again: Cell<bool>,
    second: Cell<Option<PackageReport>>,
}

fn start(core: &Core<SimMachine>, bytes: &[u8], reports: &Rc<Reports>) {
    let (stl, roles) = (core.stl(), core.roles());
    core.spawn(async move { nile_services::deploy(&stl, roles).await });
    let (core, reports) = (core.clone(), reports.clone());
    if core.id() == CoreId::BOOT {
        core.clone().spawn(async move {
            let outcome = conduct(&core, &reports).await;
            if let Err(error) = &outcome {
                core.machine().log(format_args!("{error}"));
            }
            core.finish(if outcome.is_ok() { Outcome::Success } else { Outcome::Failure });
        });
        return;
    }
    let bytes = Vec::from(bytes);
    core.clone().spawn(async move {
        reports.first.set(Some(run(&core, &bytes).await));
        while !reports.again.get() {
            core.sleep(POLL).await;
        }
        reports.second.set(Some(run(&core, &bytes).await));
    });
}

/// Runs the package, and stops it if it does not end.
async fn run(core: &Core<SimMachine>, bytes: &[u8]) -> PackageReport {
    let calls = ServiceCalls::new(&core.stl());
    let started = core.run_package(Image::Linked(NAME), bytes, PackageLimits::default(), calls);
    let package = started.expect("the core is a worker and has no package");
    core.serve_package(Some(package.clone()));
    let watchdog = core.clone();
    let stopped = package.clone();
    core.spawn(async move {
        watchdog.sleep(LONG).await;
        stopped.stop();
    });
    let report = package.ended().await;
    core.serve_package(None);
    report
}

/// Calls the package's service until both runs are over, and looks after the node.
async fn conduct(core: &Core<SimMachine>, reports: &Reports) -> Result<(), String> {
    let failed = |what: &str, status: Status| format!("{what}: {status}");
    core.all_running().await.map_err(|status| failed("not started", status))?;
    let stl = core.stl().with_patience(POLL);
    let over = |cell: &Cell<Option<PackageReport>>| {
        let report = cell.take();
        cell.set(report);
        report.is_some()
    };
    let mut before = None;
    for report in [&reports.first, &reports.second] {
        let limit = core.now() + REST;
        while !over(report) {
            if core.now() > limit {
                return Err("the package does not end".into());
            }
            // Most often there is none.
            let _ = stl.invoke(SERVICE, "poke", &[1]).await;
            core.sleep(POLL).await;
        }
        if before.is_none() {
            // By now all links between the cores are open.
            before = Some(at_rest(core).await.map_err(|status| failed("no statistics", status))?);
            reports.again.set(true);
        }
    }
    let deadline = core.now() + REST;
    loop {
        let now = core.memory_statistics().await;
        let now = now.map_err(|status| failed("no statistics", status))?;
        if Some(now) == before {
            break;
        }
        if core.now() > deadline {
            return Err(format!("memory is lost: {before:?} before, {now:?} after"));
        }
        core.sleep(POLL).await;
    }
    let board = core.machine().board();
    let renewed = core.peers().find(|peer| board.record(*peer).generation() != Generation::FIRST);
    match renewed {
        Some(peer) => Err(format!("core {peer} has restarted")),
        None => Ok(()),
    }
}

/// How much memory there is when no more of it is on its way back.
async fn at_rest(core: &Core<SimMachine>) -> Result<MemoryStatistics, Status> {
    let mut last = core.memory_statistics().await?;
    loop {
        core.sleep(LONG).await;
        let now = core.memory_statistics().await?;
        if std::mem::replace(&mut last, now) == now {
            return Ok(now);
        }
    }
}

/// The package: its argument is the input. It exits with the number of calls that gave something.
fn package(system: &dyn System, argument: &[u8]) -> u64 {
    let mut input = Input::new(argument);
    let mut given = 0;
    for _ in 0..MOST_CALLS {
        let Some(answer) = call(system, &mut input) else { break };
        given += u64::from(answer.is_some_and(|answer| answer.result().is_ok()));
    }
    given
}

/// One call; nothing when the input is over, and no answer of a call that asks for nothing.
fn call(system: &dyn System, input: &mut Input<'_>) -> Option<Option<Answer>> {
    let [how, number] = input.take()?;
    if how & 1 == 0 {
        let word = input.word()?;
        let span = |input: &mut Input<'_>| {
            let [place, shift] = input.take()?;
            let start = PLACES[usize::from(place) % PLACES.len()];
            let length = input.word()?;
            Some((VirtAddr(start.wrapping_add(u64::from(shift))), length))
        };
        let (from, to) = (span(input)?, span(input)?);
        let number = if number == 0xff { word } else { u64::from(number) };
        // An exit code of this package says what it did.
        let word = if number == SystemCall::Exit as u64 { 0 } else { word };
        let ask = Ask { number, word, input: from, output: to };
        let answer = raw_call(system, ask);
        return Some((number > SystemCall::Now as u64).then_some(answer));
    }
    let [low, high, room_low, room_high] = input.take()?;
    let content = input.most(usize::from(u16::from_le_bytes([low, high])));
    let mut room = vec![0; usize::from(u16::from_le_bytes([room_low, room_high])) * 2];
    let (call, word) = match number % 5 {
        0 => (SystemCall::Invoke, SHORT),
        1 => (SystemCall::Publish, 0),
        2 => {
            let now = system.call(SystemCall::Now, 0, &[], &mut []).result().unwrap_or(0);
            (SystemCall::Wait, now + SHORT)
        }
        // Calls to a package are numbered from one.
        3 => (SystemCall::Reply, u64::from(number / 5 % 8)),
        _ => (SystemCall::Channel, u64::from(number)),
    };
    Some(Some(system.call(call, word, content, &mut room)))
}
