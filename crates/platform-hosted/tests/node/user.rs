//! The scenario `user`: a worker core runs packages, the script signals it meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nile_abi::call::{Answer, USER_BASE, USER_BYTES, UserSlot};
use nile_abi::{Generation, PageSize, PhysAddr, Status, VirtAddr};
use nile_platform::user::{Access, Exit, Start, User};
use nile_platform::{Fault, Grant, Machine, Manager, Misbehave, Outcome};
use nile_platform_hosted::{Hosted, HostedUser};
use nile_ring::{Region, Signal};

use super::programs;
use super::scenarios::{C1, fault_of};
use super::script::{Played, ensure, manager, running, serve, wait_for, wait_until_runs, wake};

/// Where the parts of a package lie, in its memory and in the memory that it is made of.
const TABLE: (u64, u64) = (USER_BASE + 0x1000, 0);
const WORD: (u64, u64) = (USER_BASE + 0x2000, 0x1000);
const STACK: (u64, u64) = (USER_BASE + 0x20_0000, 0x2000);
const STACK_BYTES: u64 = 0x1_0000;
const CODE: (u64, u64) = (USER_BASE + 0x100_0000, 0x2_0000);
const PAGE: u64 = 4096;

/// How often the script signals the worker, waiting for each signal to be seen.
const SIGNALS: u64 = 2000;

/// The words through which the script and the worker talk.
const MEMORY: usize = 0;
const READY: usize = 1;
const SEEN: usize = 2;
const FAILED: usize = 3;
/// Whether Linux's system calls are kept from packages here, as the boot report says.
const KEPT: usize = 4;

fn word(machine: &Hosted, word: usize) -> &'static AtomicU64 {
    let region: &'static Region = Box::leak(Box::new(machine.control(C1)));
    &region.words()[word]
}

/// The management core's part.
pub fn script(machine: &Hosted) -> Played {
    ensure!(
        matches!(machine.user(UserSlot::FIRST), Err(Status::Denied)),
        "a core that is a thread has a user"
    );
    let facts = manager(machine).handoff().node.facts;
    ensure!(facts.iter().any(|fact| fact.starts_with("packages: ")), "{facts:?}");
    let kept = facts.iter().any(|fact| fact.contains("syscall user dispatch"));
    word(machine, KEPT).store(kept.into(), Ordering::Relaxed);
    let start = manager(machine)
        .handoff()
        .physical
        .alloc(PageSize::Large, C1)
        .map_err(|error| format!("no memory: {error:?}"))?;
    wait_until_runs(machine, C1, 1)?;
    word(machine, MEMORY).store(start.0, Ordering::Release);
    wake(machine, C1);
    for round in 1..=2 {
        wait_for(machine, "the worker is ready or fails", || {
            word(machine, READY).load(Ordering::Acquire) == round || failed(machine)
        })?;
        for number in (round - 1) * SIGNALS + 1..=round * SIGNALS {
            machine.signal(C1);
            let seen = || word(machine, SEEN).load(Ordering::Acquire) >= number;
            wait_for(machine, &format!("signal {number}"), || seen() || failed(machine))?;
        }
    }
    let again = || machine.board().record(C1).generation() != Generation::FIRST;
    wait_for(machine, "the worker ends", || again() || failed(machine))?;
    ensure!(again(), "the worker says why");
    wait_until_runs(machine, C1, 2)?;
    let fault = fault_of(machine, C1)?;
    ensure!((fault.kind, fault.address) == (Fault::PAGE, TABLE.0), "the fault is {fault:?}");
    Ok(())
}

fn failed(machine: &Hosted) -> bool {
    word(machine, FAILED).load(Ordering::Acquire) != 0
}

/// The worker's part.
pub fn worker(machine: &Hosted) -> Outcome {
    if machine.generation() == Generation::FIRST {
        running(machine);
        wait_for(machine, "memory", || word(machine, MEMORY).load(Ordering::Acquire) != 0)
            .and_then(|()| packages(machine))
            .unwrap_or_else(|why| {
                machine.log(format_args!("FAILED: {why}"));
                word(machine, FAILED).store(1, Ordering::Release);
            });
    }
    serve(machine, || {})
}

fn packages(machine: &Hosted) -> Played {
    asks_and_answers(machine)?;
    memory_is_checked(machine)?;
    starts_are_checked(machine)?;
    faults_end_a_package(machine)?;
    signals_interrupt(machine, programs::count(), 1)?;
    signals_interrupt(machine, programs::chatter(), 2)?;
    loops_are_forgotten(machine)?;
    the_kernels_own_fault(machine)
}

/// A user half with everything mapped; the word holds 0.
fn home(machine: &Hosted) -> Result<HostedUser, String> {
    let start = word(machine, MEMORY).load(Ordering::Acquire);
    let mut user =
        machine.user(UserSlot::FIRST).map_err(|status| format!("no user: {status:?}"))?;
    let gate = match user.gateway() {
        nile_platform::user::Gateway::At(gate) => gate.0,
        other => return Err(format!("{other:?}")),
    };
    let table: Vec<u8> = [gate, WORD.0].iter().flat_map(|word| word.to_le_bytes()).collect();
    for ((at, offset), bytes, access, content) in [
        (TABLE, PAGE, Access::Read, table.as_slice()),
        (WORD, PAGE, Access::Write, &[0; 16]),
        (STACK, STACK_BYTES, Access::Write, &[]),
        (CODE, PAGE, Access::Execute, programs::code()),
    ] {
        let grant = Grant { start: PhysAddr(start + offset), bytes };
        let region = machine.attach(grant).map_err(|error| format!("not attached: {error:?}"))?;
        for (place, bytes) in region.words().iter().zip(content.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            place.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        drop(region);
        machine.detach(grant);
        user.map(grant, VirtAddr(at), access).map_err(|error| format!("not mapped: {error:?}"))?;
    }
    Ok(user)
}

/// A package that is about to run the program at this offset in the code.
fn package(machine: &Hosted, program: u64) -> Result<HostedUser, String> {
    let mut user = home(machine)?;
    user.start(at(program)).map_err(|status| format!("not started: {status:?}"))?;
    Ok(user)
}

fn at(program: u64) -> Start {
    Start::At {
        entry: VirtAddr(CODE.0 + program),
        stack: VirtAddr(STACK.0 + STACK_BYTES),
        argument: VirtAddr(TABLE.0),
    }
}

fn asks_and_answers(machine: &Hosted) -> Played {
    let mut user = package(machine, programs::ask())?;
    ensure!(matches!(machine.user(UserSlot::FIRST), Err(Status::Exists)), "a second user");
    let mut exit = user.run(Answer { status: 99, value: 99 }, None);
    let Exit::Call(ask) = exit else { return Err(format!("{exit:?}")) };
    ensure!((ask.number, ask.word) == (0, 5), "{ask:?}");
    ensure!(ask.input == (VirtAddr(0x11), 0x22), "{ask:?}");
    ensure!(ask.output == (VirtAddr(0x33), 0x44), "{ask:?}");
    for number in 0..1000 {
        exit = user.run(Answer { status: number, value: number * 2 }, None);
        let Exit::Call(ask) = exit else { return Err(format!("{exit:?}")) };
        ensure!((ask.number, ask.word) == (number + 1, number * 2 + 1), "{ask:?}");
    }
    drop(user);
    let mut user = package(machine, programs::return_())?;
    let exit = user.run(Answer::ok(0), None);
    ensure!(is_exception(exit), "a return from the entry point: {exit:?}");
    ensure!(user.run(Answer::ok(0), None) == exit, "a package runs after its end");
    Ok(())
}

fn is_exception(exit: Exit) -> bool {
    matches!(exit, Exit::Fault(Fault { kind: Fault::EXCEPTION, .. }))
}

/// Memory is read and written where it is mapped, and nowhere else.
fn memory_is_checked(machine: &Hosted) -> Played {
    let mut user = home(machine)?;
    let text: Vec<u8> = (0..=255).collect();
    for (from, bytes) in [(0, 256), (1, 255), (7, 9), (8, 8), (3, 2), (0, 0)] {
        let place = VirtAddr(WORD.0 + from);
        ensure!(user.write(place, &text[..bytes]).is_ok(), "{place}: not written");
        let mut back = vec![0; bytes];
        ensure!(user.read(place, &mut back).is_ok(), "{place}: not read");
        ensure!(back == text[..bytes], "{place}: other bytes");
    }
    let mut code = vec![0; programs::code().len()];
    ensure!(user.read(VirtAddr(CODE.0), &mut code).is_ok(), "code is not read");
    ensure!(code == programs::code(), "other code");
    // The table and the word are neighbours: a range across both can be read.
    let across = VirtAddr(WORD.0 - 4);
    ensure!(user.read(across, &mut [0; 8]).is_ok(), "two pieces are no range");
    for wrong in [across, VirtAddr(TABLE.0), VirtAddr(CODE.0), VirtAddr(WORD.0 + PAGE - 4)] {
        ensure!(user.write(wrong, &[0; 8]).is_err(), "{wrong}: written");
    }
    let no_memory = [0, 8, USER_BASE, TABLE.0 - 1, STACK.0 - 1, u64::MAX - 3, u64::MAX];
    for wrong in no_memory.map(VirtAddr) {
        ensure!(user.read(wrong, &mut [0; 8]).is_err(), "{wrong}: read");
        ensure!(user.write(wrong, &[0; 8]).is_err(), "{wrong}: written");
    }
    let start = word(machine, MEMORY).load(Ordering::Acquire);
    let grant = Grant { start: PhysAddr(start), bytes: PAGE };
    let board = Grant { start: PhysAddr(1 << 20), bytes: PAGE };
    let end = USER_BASE + USER_BYTES;
    for (grant, at) in [
        (grant, WORD.0),
        (grant, USER_BASE - PAGE),
        (grant, end),
        (grant, end - PAGE + 64),
        (grant, u64::MAX - PAGE + 1),
        (grant, USER_BASE + 64),
        (board, USER_BASE),
        (Grant { bytes: 0, ..grant }, USER_BASE),
        (Grant { bytes: 1 << 50, ..grant }, USER_BASE),
    ] {
        let mapped = user.map(grant, VirtAddr(at), Access::Write);
        ensure!(mapped.is_err(), "{grant:?} is mapped at {at:#x}");
    }
    Ok(())
}

fn starts_are_checked(machine: &Hosted) -> Played {
    let mut user = home(machine)?;
    ensure!(is_exception(user.run(Answer::ok(0), None)), "a package runs before its start");
    ensure!(user.start(Start::Linked("x")) == Err(Status::NotFound), "a linked program");
    let Start::At { entry, stack, argument } = at(0) else { return Err("no address".into()) };
    let stacks =
        [0, 8, STACK.0, STACK.0 + 2048, STACK.0 + STACK_BYTES - 8, WORD.0 + PAGE, u64::MAX];
    for stack in stacks.map(VirtAddr) {
        let started = user.start(Start::At { entry, stack, argument });
        ensure!(started == Err(Status::Invalid), "a stack at {stack}: {started:?}");
    }
    for entry in [0, WORD.0, u64::MAX].map(VirtAddr) {
        let started = user.start(Start::At { entry, stack, argument });
        ensure!(started == Err(Status::Invalid), "an entry at {entry}: {started:?}");
    }
    ensure!(user.start(at(0)).is_ok(), "not started");
    ensure!(user.start(at(0)) == Err(Status::Exists), "started twice");
    Ok(())
}

/// What a package may not do is its end, and nobody else's.
fn faults_end_a_package(machine: &Hosted) -> Played {
    let (page, exception) = (Fault::PAGE, Fault::EXCEPTION);
    let mut cases = vec![
        ("a stray read", programs::touch(), page, 0x123_4560),
        ("a write to the table", programs::write(), page, TABLE.0),
        ("a jump to data", programs::jump(), page, WORD.0),
        ("an address that is none", programs::wild(), exception, 0),
        ("hlt", programs::halt(), exception, 0),
        ("cli", programs::clear(), exception, 0),
        ("in", programs::input(), exception, 0),
        ("ud2", programs::undefined(), exception, 0),
        ("int3", programs::break_(), exception, 0),
        ("a division by zero", programs::divide(), exception, 0),
        ("a stack overflow", programs::recurse(), page, STACK.0 - 8),
    ];
    if word(machine, KEPT).load(Ordering::Relaxed) != 0 {
        cases.push(("syscall", programs::linux(), exception, 0));
        cases.push(("int 0x80", programs::linux32(), exception, 0));
    }
    for (what, program, kind, address) in cases {
        let mut user = package(machine, program)?;
        let exit = user.run(Answer::ok(0), None);
        let Exit::Fault(fault) = exit else { return Err(format!("{what}: {exit:?}")) };
        ensure!((fault.kind, fault.address) == (kind, address), "{what}: {fault:?}");
        let place = CODE.0..CODE.0 + PAGE;
        ensure!(place.contains(&fault.at) || fault.at == WORD.0, "{what}: {fault:?}");
        // The `ud2` behind it was not reached.
        let code = if what == "ud2" { 4 } else { fault.code };
        ensure!(fault.code == code && (what == "ud2" || code != 4), "{what}: {fault:?}");
        ensure!(user.run(Answer::ok(0), None) == exit, "{what}: a package runs after its end");
    }
    Ok(())
}

/// Every signal ends one turn or, if the kernel was running, the next; the package notices none.
fn signals_interrupt(machine: &Hosted, program: u64, round: u64) -> Played {
    let mut user = package(machine, program)?;
    let (mut seen, mut calls, mut answer) = (0, 0, Answer::ok(0));
    word(machine, READY).store(round, Ordering::Release);
    wake(machine, C1);
    loop {
        match user.run(answer, None) {
            Exit::Interrupted if seen < SIGNALS => {
                seen += 1;
                // It counts on from round to round: the script may look late.
                let all = (round - 1) * SIGNALS + seen;
                word(machine, SEEN).store(all, Ordering::Release);
                wake(machine, nile_abi::CoreId::BOOT);
                if seen == SIGNALS {
                    let stop = user.write(VirtAddr(WORD.0), &1u64.to_le_bytes());
                    ensure!(stop.is_ok(), "not told to stop");
                }
                // What a turn after an interruption brings is nobody's answer.
                answer = if seen % 2 == 0 { answer } else { Answer::failed(Status::Dead) };
            }
            Exit::Call(ask) if ask.number == 1 => {
                ensure!(seen == SIGNALS, "it ends after {seen} signals");
                ensure!(round == 1 || ask.word == calls, "{} calls of {calls}", ask.word);
                return Ok(());
            }
            Exit::Call(ask) => {
                ensure!(ask.word == calls, "{ask:?} is call {calls}");
                calls += 1;
                answer = Answer::ok(calls);
            }
            exit => return Err(format!("round {round}, after {seen} signals: {exit:?}")),
        }
    }
}

/// A package that loops, even on no stack at all, is interrupted; forgotten then, it leaves
/// nothing.
fn loops_are_forgotten(machine: &Hosted) -> Played {
    for program in [programs::lost(), programs::count()] {
        let mut user = package(machine, program)?;
        let own = machine.core();
        let exit = std::thread::scope(|scope| {
            let board = machine.board().clone();
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                let process = board.record(own).hardware_id() as i32;
                let process = rustix::process::Pid::from_raw(process).expect("a process");
                let _ = rustix::process::kill_process(process, rustix::process::Signal::URG);
            });
            user.run(Answer::ok(0), None)
        });
        ensure!(exit == Exit::Interrupted, "{exit:?}");
        drop(user);
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| error.to_string())?;
        ensure!(!maps.contains("\n10000"), "user memory is left:\n{maps}");
    }
    Ok(())
}

/// With a package that waits for an answer, a fault of the kernel's is the worker's end.
fn the_kernels_own_fault(machine: &Hosted) -> Played {
    let mut user = package(machine, programs::ask())?;
    let exit = user.run(Answer::ok(0), None);
    ensure!(matches!(exit, Exit::Call(_)), "{exit:?}");
    // The table: mapped, but the package may only read it, and so may its kernel.
    machine.stray_write(VirtAddr(TABLE.0), 7);
    Err("a stray write returned".into())
}
