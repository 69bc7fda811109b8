//! What runs on the cores of the nodes under test: for each scenario a script for core 0 and a
//! part for the others. A script hands numbers to a core through the words of its control rings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nile_abi::{CoreId, EndpointId, Generation, PageSize, PhysAddr, VirtAddr};
use nile_memory::{Mapping, Permissions};
use nile_platform::{AttachError, Cause, CorePhase, Fault, Grant};
use nile_platform::{Machine, Manager, Misbehave, NodePhase, Outcome};
use nile_platform_hosted::{Boot, Hosted, HostedManager};
use nile_ring::{Mover, Region, Wake};
use rustix::process::{Pid, Signal, kill_process};

use super::script::{
    Played, ensure, manager, play, running, serve, wait_for, wait_until_runs, wake,
};
use super::{pool, user};

pub const C1: CoreId = CoreId(1);
const C2: CoreId = CoreId(2);

/// What a word holds while its core has not been told anything.
const NOTHING: u64 = 0;

/// Runs this core's part of the scenario that the node was started with.
pub fn core_main(machine: Hosted, boot: &Boot) -> Outcome {
    let script = machine.core() == CoreId::BOOT;
    let first = machine.generation() == Generation::FIRST;
    match (boot.program.as_str(), script) {
        ("idle", true) => play(&machine, idle),
        ("boot", true) => play(&machine, |machine| boot_is_told(machine, boot)),
        ("boot", false) => {
            let told = boot.config == "a configuration" && boot.program == "boot";
            tell(&machine, if told { 7 } else { 8 });
            serve(&machine, || wake(&machine, CoreId::BOOT))
        }
        ("wait", true) => wait_to_be_ended(&machine),
        ("fail", true) => play(&machine, |_| Err("as it should".into())),
        ("kill", true) => play(&machine, kill_a_worker),
        ("exit", true) => play(&machine, a_worker_exits),
        ("exit", false) if first => std::process::exit(3),
        ("stray", true) => play(&machine, stray_write),
        ("stray", false) => stray_writer(&machine),
        ("board", true) => play(&machine, board_is_protected),
        ("board", false) => board_vandal(&machine),
        ("detach", true) => play(&machine, a_detached_grant_faults),
        ("detach", false) => detacher(&machine),
        ("panic", true) => play(&machine, other_cores_panic),
        ("panic", false) if first => panic!("on purpose"),
        ("recover", true) => play(&machine, the_manager_recovers),
        ("loop", true) => play(&machine, a_worker_keeps_dying),
        ("loop", false) => panic!("again"),
        ("hopeless", true) => panic!("the manager, again"),
        ("tick", true) => play(&machine, ticks),
        ("tick", false) => ticked(&machine),
        ("ping", true) => play(&machine, ping_pong),
        ("ping", false) => {
            let word = told(&machine, machine.core());
            serve(&machine, || {
                // The script's numbers are even, this core's answers odd.
                let number = word.load(Ordering::Acquire);
                if number != NOTHING && number.is_multiple_of(2) {
                    word.store(number + 1, Ordering::Release);
                    wake(&machine, CoreId::BOOT);
                }
            })
        }
        ("user", true) => play(&machine, user::script),
        ("user", false) => user::worker(&machine),
        ("pool", true) => play(&machine, |machine| pool::script(machine, false)),
        (pool::REFUSED, true) => play(&machine, |machine| pool::script(machine, true)),
        ("pool" | pool::REFUSED, false) => pool::worker(&machine),
        ("stuck", true) => play(&machine, |machine| wait_until_runs(machine, C1, 1)),
        ("stuck", false) => loop {
            running(&machine);
            machine.compute(Duration::from_secs(1));
        },
        _ => serve(&machine, || {}),
    }
}

/// The word through which the script and `core` talk.
fn told(machine: &Hosted, core: CoreId) -> &'static AtomicU64 {
    let region: &'static Region = Box::leak(Box::new(machine.control(core)));
    &region.words()[0]
}

/// Stores this core's word.
fn tell(machine: &Hosted, number: u64) {
    told(machine, machine.core()).store(number, Ordering::Release);
}

/// Waits until the script has stored this core's word.
fn wait_to_be_told(machine: &Hosted) -> u64 {
    let word = told(machine, machine.core());
    while word.load(Ordering::Acquire) == NOTHING {
        // Faults need no sleeping core; a pause will do.
        std::thread::sleep(Duration::from_millis(1));
    }
    word.load(Ordering::Acquire)
}

/// A frame that the manager grants, clear, and where every core sees it.
fn frame(machine: &Hosted) -> Result<(Grant, Region), String> {
    let mut handoff = manager(machine).handoff();
    let start = handoff
        .physical
        .alloc(PageSize::Small, CoreId::BOOT)
        .map_err(|error| format!("no frame: {error:?}"))?;
    let grant = Grant { start, bytes: PageSize::Small.bytes() };
    manager(machine).zero(grant);
    let region = machine.attach(grant).map_err(|error| format!("not attached: {error:?}"))?;
    Ok((grant, region))
}

pub fn virtual_address(address: PhysAddr) -> VirtAddr {
    VirtAddr(HostedManager::SHARED_BASE.0 + address.0)
}

pub fn fault_of(machine: &Hosted, core: CoreId) -> Result<Fault, String> {
    machine.board().record(core).fault().ok_or_else(|| format!("{core} has no fault"))
}

/// Cores with nothing to do sleep once, and nothing interrupts them.
fn idle(machine: &Hosted) -> Played {
    wait_until_runs(machine, C1, 1)?;
    wait_until_runs(machine, C2, 1)?;
    let pause = machine.now() + Duration::from_millis(300);
    wait_for(machine, "time passes", || machine.now() >= pause)?;
    for core in [C1, C2] {
        let record = machine.board().record(core);
        ensure!(record.sleeps() == 1, "{core} slept {} times", record.sleeps());
        for cause in Cause::ALL {
            let count = record.interrupts(cause);
            ensure!(count == 0, "{core} had {count} interrupts by {}", cause.name());
        }
    }
    let timers = machine.board().record(CoreId::BOOT).interrupts(Cause::Timer);
    ensure!(timers > 0, "core 0 slept to a deadline and counted no timer");
    Ok(())
}

/// Every core, thread or process, gets what the node was started with, and a name of its own.
fn boot_is_told(machine: &Hosted, boot: &Boot) -> Played {
    ensure!(boot.config == "a configuration", "core 0 was told {:?}", boot.config);
    for core in [C1, C2] {
        wait_until_runs(machine, core, 1)?;
        let word = told(machine, core).load(Ordering::Acquire);
        ensure!(word == 7, "{core} was told something else");
    }
    let id = |core| machine.board().record(core).hardware_id();
    ensure!(id(CoreId::BOOT) != id(C1), "a thread of its own for a network core");
    let node = u64::from(std::process::id());
    ensure!(std::path::Path::new(&format!("/proc/self/task/{}", id(C1))).exists(), "no thread");
    ensure!(id(C2) != node && id(C2) != 0, "a process of its own for a worker");

    let node = manager(machine).handoff().node;
    ensure!(node.machine == "hosted", "the machine is {}", node.machine);
    ensure!(node.image_bytes > 0, "the image has a size");
    ensure!(node.memory.total_usable() > 32 << 20, "most memory is usable");
    ensure!(node.steps.len() >= 3, "steps of the start: {:?}", node.steps);
    ensure!(node.facts.iter().any(|fact| fact.contains("c2 process")), "{:?}", node.facts);
    Ok(())
}

/// Reports the workers' processes and runs until a signal ends the node.
fn wait_to_be_ended(machine: &Hosted) -> Outcome {
    let ready = wait_until_runs(machine, C1, 1).and_then(|()| wait_until_runs(machine, C2, 1));
    let id = |core| machine.board().record(core).hardware_id();
    manager(machine).report(&match ready {
        Ok(()) => format!("{} {}", id(C1), id(C2)),
        Err(why) => why,
    });
    serve(machine, || {})
}

fn kill_a_worker(machine: &Hosted) -> Played {
    wait_until_runs(machine, C1, 1)?;
    let record = machine.board().record(C1);
    let first = record.hardware_id();
    let pid = i32::try_from(first).ok().and_then(Pid::from_raw).ok_or("no process id")?;
    kill_process(pid, Signal::KILL).map_err(|error| format!("not killed: {error}"))?;
    wait_until_runs(machine, C1, 2)?;
    ensure!(record.hardware_id() != first, "the same process runs on");
    let fault = fault_of(machine, C1)?;
    ensure!((fault.kind, fault.code) == (Fault::KILLED, 9), "the fault is {fault:?}");
    let other = machine.board().record(C2);
    ensure!(other.generation() == Generation::FIRST, "the other worker was restarted, too");
    Ok(())
}

fn a_worker_exits(machine: &Hosted) -> Played {
    wait_until_runs(machine, C1, 2)?;
    let fault = fault_of(machine, C1)?;
    ensure!((fault.kind, fault.code) == (Fault::EXCEPTION, 3), "the fault is {fault:?}");
    Ok(())
}

/// A worker's write to memory that it was not granted faults in the worker and changes nothing;
/// once it is granted, the same write works: it was the right address.
fn stray_write(machine: &Hosted) -> Played {
    let (grant, region) = frame(machine)?;
    region.words()[0].store(1, Ordering::Relaxed);
    told(machine, C1).store(grant.start.0, Ordering::Release);
    wait_until_runs(machine, C1, 2)?;
    let fault = fault_of(machine, C1)?;
    ensure!(fault.kind == Fault::PAGE, "the fault is {fault:?}");
    let address = virtual_address(grant.start).0;
    ensure!(fault.address == address, "the fault is at {:#x}", fault.address);
    ensure!(cfg!(not(target_arch = "x86_64")) || fault.at != 0, "no instruction: {fault:?}");
    wait_for(machine, "the granted write", || region.words()[0].load(Ordering::Acquire) == 3)?;
    let generation = machine.board().record(C1).generation();
    ensure!(generation == Generation(2), "the worker is {generation}");
    Ok(())
}

fn stray_writer(machine: &Hosted) -> Outcome {
    let start = PhysAddr(wait_to_be_told(machine));
    if machine.generation() == Generation::FIRST {
        machine.stray_write(virtual_address(start), 2);
    } else {
        let grant = Grant { start, bytes: PageSize::Small.bytes() };
        let region = machine.attach(grant).expect("a frame of the node");
        // What the first incarnation wrote would be here.
        if region.words()[0].load(Ordering::Relaxed) == 1 {
            machine.stray_write(virtual_address(start), 3);
        }
    }
    serve(machine, || {})
}

/// In its first incarnations the worker writes to what it may not, one thing in each.
fn board_is_protected(machine: &Hosted) -> Played {
    wait_until_runs(machine, C1, 4)?;
    let word = told(machine, C1).load(Ordering::Acquire);
    ensure!(word == 4, "the worker's own control rings hold {word}");
    ensure!(machine.board().phase() == NodePhase::Starting, "the worker ended the node");
    let own = machine.board().record(CoreId::BOOT);
    ensure!(own.phase() == CorePhase::Running, "the worker wrote core 0's record");
    let map = machine.board().notifier().map();
    ensure!(!map.needs_signal(EndpointId(0)), "the worker wrote the receiver map");
    ensure!(fault_of(machine, C1)?.kind == Fault::PAGE, "the last fault was no page fault");
    Ok(())
}

fn board_vandal(machine: &Hosted) -> Outcome {
    let board = machine.board();
    match machine.generation().0 {
        1 => board.set_phase(NodePhase::Stopping),
        2 => board.record(CoreId::BOOT).set_phase(CorePhase::Offline),
        3 => {
            let notifier = board.notifier();
            let mut mover = Mover::new(notifier.map().clone(), notifier.doorbells().clone());
            let entry = mover.begin(EndpointId(0), CoreId::BOOT, Wake::Signal);
            // Neither way of coming here is the fault that is expected.
            entry.expect("the map has a first receiver").finish(machine);
        }
        _ => {}
    }
    tell(machine, u64::from(machine.generation().0));
    serve(machine, || {})
}

/// A grant is clear when it is attached, and touching it faults once it is detached. What is not
/// the node's to grant is refused.
fn a_detached_grant_faults(machine: &Hosted) -> Played {
    let (grant, region) = frame(machine)?;
    region.words()[3].store(9, Ordering::Release);
    manager(machine).zero(grant);
    told(machine, C1).store(grant.start.0, Ordering::Release);
    wait_until_runs(machine, C1, 2)?;
    let fault = fault_of(machine, C1)?;
    let address = virtual_address(grant.start).0;
    ensure!((fault.kind, fault.address) == (Fault::PAGE, address), "the fault is {fault:?}");
    let word = region.words()[0].load(Ordering::Acquire);
    ensure!(word == 5, "the attached grant holds {word}");

    let handoff = manager(machine).handoff();
    let end = handoff.node.memory.regions().iter().map(|region| region.end()).max();
    let end = end.ok_or("no memory")?;
    for (start, bytes) in [(PhysAddr(1 << 20), 4096), (end, 4096), (grant.start, 0)] {
        let refused = machine.attach(Grant { start, bytes });
        ensure!(refused.is_err(), "{start}, {bytes} bytes: attached");
    }
    let odd = Grant { start: PhysAddr(grant.start.0 + 64), bytes: 4096 };
    ensure!(matches!(machine.attach(odd), Err(AttachError::OutOfRange)), "attached off a frame");
    let long = Grant { start: grant.start, bytes: !0xfff };
    ensure!(matches!(machine.attach(long), Err(AttachError::OutOfRange)), "attached to the end");
    Ok(())
}

fn detacher(machine: &Hosted) -> Outcome {
    let start = PhysAddr(wait_to_be_told(machine));
    if machine.generation() == Generation::FIRST {
        let grant = Grant { start, bytes: PageSize::Small.bytes() };
        let region = machine.attach(grant).expect("a frame of the node");
        let clear = region.words().iter().all(|word| word.load(Ordering::Relaxed) == 0);
        region.words()[0].store(if clear { 5 } else { 6 }, Ordering::Release);
        drop(region);
        machine.detach(grant);
        machine.stray_write(virtual_address(start), 7);
    }
    serve(machine, || {})
}

/// A panic ends an incarnation, of a thread as of a process.
fn other_cores_panic(machine: &Hosted) -> Played {
    for core in [C1, C2] {
        wait_until_runs(machine, core, 2)?;
        let fault = fault_of(machine, core)?;
        ensure!(fault.kind == Fault::PANIC, "{core}: the fault is {fault:?}");
    }
    Ok(())
}

/// What the first incarnation of the manager handed out and mapped, the second finds so.
fn the_manager_recovers(machine: &Hosted) -> Played {
    let mut handoff = manager(machine).handoff();
    let used = handoff.physical.usage(C1).pieces(PageSize::Small);
    let space = &mut handoff.tables.spaces[C1.index()];
    if machine.generation() == Generation::FIRST {
        ensure!(used == 0, "{used} frames are out at the start");
        let free = handoff.tables.pool.free();
        ensure!(free == handoff.tables.pool.total(), "{free} tables are free at the start");
        let phys = handoff.physical.alloc(PageSize::Small, C1).map_err(|e| format!("{e:?}"))?;
        let permissions = Permissions { write: true, ..Permissions::default() };
        let virt = virtual_address(phys);
        let mapping = Mapping { virt, phys, size: PageSize::Small, permissions };
        space
            .map(&mut handoff.tables.memory, &mut handoff.tables.pool, mapping)
            .map_err(|error| format!("not mapped: {error:?}"))?;
        told(machine, C1).store(phys.0, Ordering::Release);
        panic!("the manager, on purpose");
    }
    ensure!(used == 1, "{used} frames of c1 are out after the restart");
    let phys = PhysAddr(told(machine, C1).load(Ordering::Acquire));
    let mapped = space.find(&handoff.tables.memory, virtual_address(phys));
    ensure!(mapped.is_some_and(|mapping| mapping.phys == phys), "{phys} is not mapped any more");
    let (free, total) = (handoff.tables.pool.free(), handoff.tables.pool.total());
    ensure!(free == total - 1, "{free} of {total} tables are free");
    let generation = machine.board().record(C1).generation();
    ensure!(generation == Generation::FIRST, "the worker was restarted, too");
    Ok(())
}

/// A worker that does nothing but die stays stopped; the node goes on.
fn a_worker_keeps_dying(machine: &Hosted) -> Played {
    let record = machine.board().record(C1);
    wait_for(machine, "c1 stays stopped", || record.phase() == CorePhase::Stopped)?;
    let generation = record.generation();
    ensure!(generation == Generation(9), "it stopped as {generation}");
    ensure!(fault_of(machine, C1)?.kind == Fault::PANIC, "it stopped for another reason");
    Ok(())
}

/// Only cores that asked for it are ticked: first core 0 alone, then the worker, too.
fn ticks(machine: &Hosted) -> Played {
    wait_until_runs(machine, C1, 1)?;
    wait_until_runs(machine, C2, 1)?;
    let count = |core| machine.board().record(core).interrupts(Cause::Tick);
    machine.set_tick(Some(Duration::from_millis(1)));
    wait_for(machine, "20 ticks", || count(CoreId::BOOT) >= 20)?;
    for core in [C1, C2] {
        ensure!(count(core) == 0, "{core} was ticked {} times", count(core));
    }
    machine.set_tick(None);
    let before = count(CoreId::BOOT);
    told(machine, C2).store(1, Ordering::Release);
    wake(machine, C2);
    wait_for(machine, "20 ticks of the worker", || count(C2) >= 20)?;
    ensure!(count(CoreId::BOOT) <= before + 1, "core 0 was ticked with its timer off");
    ensure!(count(C1) == 0, "the ticks of c2 reach c1");
    Ok(())
}

fn ticked(machine: &Hosted) -> Outcome {
    let word = told(machine, machine.core());
    serve(machine, || {
        if word.load(Ordering::Acquire) != NOTHING {
            machine.set_tick(Some(Duration::from_millis(1)));
            machine.compute(Duration::from_millis(50));
        }
    })
}

/// Sleeping cores wake each other, in both directions and between thread and process.
fn ping_pong(machine: &Hosted) -> Played {
    for core in [C1, C2] {
        wait_until_runs(machine, core, 1)?;
        let word = told(machine, core);
        for number in (2..2000).step_by(2) {
            word.store(number, Ordering::Release);
            wake(machine, core);
            wait_for(machine, "an answer", || word.load(Ordering::Acquire) == number + 1)?;
        }
        let signals = machine.board().record(core).interrupts(Cause::Signal);
        ensure!(signals > 0, "{core} was never woken by a signal");
        ensure!(signals <= 1000, "{core} was woken {signals} times for 999 messages");
    }
    Ok(())
}
