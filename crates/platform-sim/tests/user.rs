//! User mode of the simulator, without a kernel: the worker of two cores runs a linked package, the
//! other one signals it. What the worker does is a function that makes one step in each pass.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use nile_abi::call::{Answer, EntryTable, System, SystemCall, USER_BASE, UserSlot};
use nile_abi::{CoreId, Instant, PageSize, Role, RoleSet, Status, VirtAddr};
use nile_memory::paging::{Mapping, Page, Permissions};
use nile_platform::user::{Access, Ask, Exit, Start, User};
use nile_platform::{AttachError, Fault, Grant, Loop, Machine, Manager, Outcome, Turn};
use nile_platform_sim::{
    Faults, Finished, Misbehaviour, Options, Program, SimMachine, SimManager, SimUser, Stuck,
    misbehave, raw_call, simulate,
};
use nile_ring::Signal;

const C1: CoreId = CoreId(1);
const TABLE: VirtAddr = VirtAddr(USER_BASE + 0x1000);
const ARGUMENT: VirtAddr = VirtAddr(USER_BASE + 0x2000);
const PAGE: u64 = 4096;

/// When the management core signals the worker.
const MOMENT: Duration = Duration::from_millis(5);

type Step = Box<dyn FnMut() -> Turn>;

struct Body(Step);

impl Loop for Body {
    fn turn(&mut self) -> Turn {
        (self.0)()
    }

    fn has_work(&self) -> bool {
        false
    }
}

fn options(seed: u64, packages: &[(&'static str, Program)]) -> Options {
    Options {
        seed,
        roles: vec![RoleSet::ALL, RoleSet::EMPTY.with(Role::Worker)],
        memory_bytes: 16 << 20,
        pool_bytes: 0,
        wake_mode: None,
        packages: packages.to_vec(),
        disks: Vec::new(),
        files: Vec::new(),
        faults: Faults::default(),
        limit: Duration::from_secs(100),
    }
}

/// Two frames that the worker has, entered in its user half as table and argument.
fn frames(manager: &SimMachine) -> [Grant; 2] {
    let mut handoff = manager.manager().expect("core 0 manages").handoff();
    [(TABLE, Permissions::READ), (ARGUMENT, Permissions::READ_WRITE)].map(|(at, rights)| {
        let phys = handoff.physical.alloc(PageSize::Small, C1).expect("16 MiB");
        let shared = VirtAddr(SimManager::SHARED_BASE.0 + phys.0);
        for (virt, permissions) in [(shared, Permissions::READ_WRITE), (at, rights.for_user())] {
            let mapping = Mapping { virt, phys, size: PageSize::Small, permissions };
            let tables = &mut handoff.tables;
            tables.spaces[C1.index()]
                .map(&mut tables.memory, &mut tables.pool, mapping)
                .expect("the upper tables reach user memory");
        }
        Grant { start: phys, bytes: PAGE }
    })
}

/// The worker's user half with `argument` in it, not started.
fn home(machine: &SimMachine, [table, page]: [Grant; 2], argument: &[u8]) -> SimUser {
    let words = [EntryTable::MAGIC, 80, 0, 0, 0, 0, ARGUMENT.0, argument.len() as u64];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (grant, content) in [(table, bytes.as_slice()), (page, argument)] {
        let region = machine.attach(grant).expect("the manager has mapped it");
        for (word, bytes) in region.words().iter().zip(content.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Relaxed);
        }
    }
    let mut user = machine.user(UserSlot::FIRST).expect("there is none yet");
    user.map(table, TABLE, Access::Read).expect("the manager has entered it");
    user.map(page, ARGUMENT, Access::Write).expect("the manager has entered it");
    user
}

/// Runs a node whose worker is made by `worker` from its machine and its frames. The management
/// core signals the worker at MOMENT, if the node runs so long, and the node ends with the worker.
fn run(
    options: &Options,
    worker: impl Fn(Rc<SimMachine>, [Grant; 2]) -> Step,
) -> Result<Finished, Stuck> {
    let grants = Cell::new(None);
    let ended = Rc::new(Cell::new(false));
    simulate(options, |machine| {
        let machine = Rc::new(machine);
        if machine.core() == CoreId::BOOT {
            grants.set(Some(frames(&machine)));
            let (ended, mut signalled) = (ended.clone(), false);
            return Box::new(Body(Box::new(move || {
                if ended.get() {
                    return Turn::Stopped(Outcome::Success);
                }
                if !signalled && machine.now() >= Instant::START + MOMENT {
                    machine.signal(C1);
                    signalled = true;
                }
                Turn::Idle(Some(machine.now() + Duration::from_micros(50)))
            })));
        }
        let mut step = match grants.get() {
            Some(grants) => worker(machine, grants),
            // The seed let this core start first: it dies, and starts again.
            None => Box::new(|| panic!("too early")),
        };
        let ended = ended.clone();
        Box::new(Body(Box::new(move || {
            let turn = step();
            ended.set(ended.get() || matches!(turn, Turn::Stopped(_)));
            turn
        })))
    })
}

/// Runs the package `name` with every call answered by `serve`, and gives how it ended.
fn exits(
    options: &Options,
    name: &'static str,
    argument: &'static [u8],
    serve: fn(&mut SimUser, Exit) -> Answer,
) -> (Vec<Exit>, Finished) {
    let exits = Rc::new(RefCell::new(Vec::new()));
    let seen = exits.clone();
    let finished = run(options, |machine, grants| {
        let mut user = home(&machine, grants, argument);
        user.start(Start::Linked(name)).expect("it is linked in");
        let (mut user, seen, mut answer) = (Some(user), seen.clone(), Answer::ok(0));
        Box::new(move || {
            let Some(half) = &mut user else { return Turn::Stopped(Outcome::Success) };
            let exit = half.run(answer, None);
            seen.borrow_mut().push(exit);
            match exit {
                Exit::Call(ask) if ask.number != SystemCall::Exit as u64 => {
                    answer = serve(half, exit);
                }
                // Nobody sees this one.
                Exit::Interrupted => answer = Answer::failed(Status::Dead),
                _ => user = None,
            }
            Turn::Busy
        })
    });
    let finished = finished.unwrap_or_else(|stuck| panic!("{stuck}"));
    (exits.take(), finished)
}

fn zero(_: &mut SimUser, _: Exit) -> Answer {
    Answer::ok(0)
}

/// Asks for "pong" once for each byte of its argument.
fn pings(system: &dyn System, argument: &[u8]) -> u64 {
    for byte in argument {
        let mut output = *b"........";
        let answer = system.call(SystemCall::Invoke, 7, &[*byte; 3], &mut output);
        assert_eq!((answer.result(), &output), (Ok(u64::from(*byte)), b"..pong.."));
    }
    argument.len() as u64
}

fn pong(user: &mut SimUser, exit: Exit) -> Answer {
    let Exit::Call(ask) = exit else { panic!("{exit:?}") };
    assert_eq!((ask.number, ask.word), (SystemCall::Invoke as u64, 7));
    assert_eq!((ask.input.1, ask.output.1), (3, 8));
    let (mut input, mut output) = ([0; 3], [0; 2]);
    user.read(ask.input.0, &mut input).expect("the call's input");
    user.read(VirtAddr(ask.output.0.0 + 6), &mut output).expect("the package's own memory");
    assert_eq!(&output, b"..");
    user.write(VirtAddr(ask.output.0.0 + 2), b"pong").expect("the call's output");
    for (at, bytes) in [(ask.input.0.0 + 1, 3), (ask.output.0.0 - 1, 1), (ask.output.0.0 + 8, 1)] {
        assert!(user.write(VirtAddr(at), &[0; 3][..bytes]).is_err(), "{at:#x} is written");
        assert!(user.read(VirtAddr(at), &mut [0; 3][..bytes]).is_err(), "{at:#x} is read");
    }
    assert!(user.write(ask.input.0, &[0]).is_err(), "an input is written");
    Answer::ok(input[0].into())
}

#[test]
fn a_package_calls_its_kernel() {
    for seed in 0..20 {
        let (exits, _) = exits(&options(seed, &[("pings", pings)]), "pings", b"nile", pong);
        let calls = exits.iter().filter(|exit| matches!(exit, Exit::Call(_))).count();
        assert_eq!(calls, 5, "{exits:?}");
        let Some(Exit::Call(ask)) = exits.last() else { panic!("{exits:?}") };
        assert_eq!((ask.number, ask.word), (SystemCall::Exit as u64, 4));
    }
}

/// Calls until it has been answered with a failure, for more than MOMENT.
fn chatters(system: &dyn System, _: &[u8]) -> u64 {
    (0..5000).map(|_| system.call(SystemCall::Nothing, 1, &[], &mut []).result().unwrap_or(9)).sum()
}

fn one(_: &mut SimUser, _: Exit) -> Answer {
    Answer::ok(1)
}

#[test]
fn a_signal_ends_a_turn_and_loses_no_answer() {
    let mut interrupted = 0;
    for seed in 0..20 {
        let (exits, _) = exits(&options(seed, &[("c", chatters)]), "c", b"", one);
        interrupted += exits.iter().filter(|exit| **exit == Exit::Interrupted).count();
        let Some(Exit::Call(ask)) = exits.last() else { panic!("{:?}", exits.last()) };
        assert_eq!((ask.number, ask.word), (SystemCall::Exit as u64, 5000));
    }
    assert_eq!(interrupted, 20, "one signal a run");
}

/// Makes a call that no sound program makes, and gives what it is answered.
fn raves(system: &dyn System, _: &[u8]) -> u64 {
    let wild = (VirtAddr(u64::MAX), u64::MAX);
    raw_call(system, Ask { number: 1 << 40, word: 3, input: wild, output: wild }).value
}

#[test]
fn a_package_may_ask_anything() {
    let (exits, _) = exits(&options(4, &[("raves", raves)]), "raves", b"", |user, exit| {
        let Exit::Call(ask) = exit else { panic!("{exit:?}") };
        assert_eq!((ask.number, ask.word), (1 << 40, 3));
        assert!(user.read(ask.input.0, &mut [0]).is_err());
        assert!(user.write(ask.output.0, &[0]).is_err());
        Answer::ok(77)
    });
    let Some(Exit::Call(ask)) = exits.last() else { panic!("{exits:?}") };
    assert_eq!((ask.number, ask.word), (SystemCall::Exit as u64, 77));
}

fn loops(system: &dyn System, _: &[u8]) -> u64 {
    misbehave(system, Misbehaviour::Loop)
}

#[test]
fn a_loop_ends_when_its_core_is_signalled() {
    for seed in 0..20 {
        let passes = Rc::new(RefCell::new(Vec::new()));
        let seen = passes.clone();
        let ended = run(&options(seed, &[("loops", loops)]), |machine, grants| {
            let mut user = home(&machine, grants, b"");
            user.start(Start::Linked("loops")).expect("it is linked in");
            let (seen, mut user) = (seen.clone(), Some(user));
            Box::new(move || {
                seen.borrow_mut().push(machine.now());
                let Some(half) = user.as_mut().filter(|_| seen.borrow().len() < 3) else {
                    user = None;
                    return Turn::Stopped(Outcome::Success);
                };
                assert_eq!(half.run(Answer::ok(0), None), Exit::Interrupted);
                Turn::Busy
            })
        })
        .unwrap_or_else(|stuck| panic!("{stuck}"));
        let passes = passes.take();
        let (first, second) = (passes[0].as_nanos(), passes[1].as_nanos());
        assert!(first < 1_000_000, "{passes:?}");
        assert!((5_000_000..5_100_000).contains(&second), "{passes:?}");
        // Nobody signals it again: it is left to itself for long.
        assert!(ended.at >= Instant::START + Duration::from_secs(10), "{:?}", ended.at);
    }
}

fn strays(system: &dyn System, _: &[u8]) -> u64 {
    misbehave(system, Misbehaviour::StrayAccess(VirtAddr(0x1234)))
}

fn halts(system: &dyn System, _: &[u8]) -> u64 {
    misbehave(system, Misbehaviour::BadInstruction)
}

fn panics(_: &dyn System, _: &[u8]) -> u64 {
    panic!("on purpose")
}

#[test]
fn a_fault_ends_a_package_and_nothing_else() {
    let packages: &[(&'static str, Program)] =
        &[("strays", strays), ("halts", halts), ("panics", panics)];
    for (name, kind, address) in [("strays", Fault::PAGE, 0x1234), ("halts", Fault::EXCEPTION, 0)] {
        let (exits, _) = exits(&options(3, packages), name, b"", zero);
        let Some(Exit::Fault(fault)) = exits.last() else { panic!("{name}: {exits:?}") };
        assert_eq!((fault.kind, fault.address), (kind, address), "{name}");
    }
    // One that panics exits, and says why.
    let (exits, _) = exits(&options(3, packages), "panics", b"", zero);
    let Some(Exit::Call(ask)) = exits.last() else { panic!("{exits:?}") };
    let (number, word) = (SystemCall::Exit as u64, u64::from(Status::Panicked.code()));
    assert_eq!((ask.number, ask.word, ask.input.1), (number, word, 20));
}

#[test]
fn the_seed_chooses_what_goes_wrong() {
    let (mut faults, mut kinds) = (0, [0; 5]);
    for seed in 0..20 {
        let mut options = options(seed, &[("c", chatters)]);
        options.faults.package_faults = 1;
        let (exits, finished) = exits(&options, "c", b"", one);
        if let Some(Exit::Fault(fault)) = exits.last() {
            faults += 1;
            kinds[fault.kind as usize] += 1;
        }
        let again = self::exits(&options, "c", b"", one);
        assert_eq!((&again.0, again.1.trace_hash), (&exits, finished.trace_hash), "seed {seed}");
    }
    assert_eq!(faults, 20, "the one fault comes early");
    assert!(kinds[Fault::PAGE as usize] > 0 && kinds[Fault::EXCEPTION as usize] > 0, "{kinds:?}");

    let mut options = options(1, &[("c", chatters)]);
    options.faults.package_loops = 1;
    options.limit = Duration::from_secs(100);
    let stuck = run(&options, |machine, grants| {
        let mut user = home(&machine, grants, b"");
        user.start(Start::Linked("c")).expect("it is linked in");
        Box::new(move || {
            user.run(Answer::ok(1), None);
            Turn::Busy
        })
    });
    let stuck = stuck.expect_err("a package that loops is never done");
    assert!(stuck.cores[1].contains("in a package that computes"), "{stuck}");
}

thread_local! {
    static DROPPED: Cell<u32> = const { Cell::new(0) };
}

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.set(DROPPED.get() + 1);
    }
}

fn guards(system: &dyn System, _: &[u8]) -> u64 {
    let _guard = Guard;
    loop {
        system.call(SystemCall::Nothing, 0, &[], &mut []);
    }
}

#[test]
fn a_package_that_is_forgotten_leaves_nothing() {
    DROPPED.set(0);
    run(&options(5, &[("guards", guards)]), |machine, grants| {
        let mut user = home(&machine, grants, b"");
        user.start(Start::Linked("guards")).expect("it is linked in");
        assert!(matches!(machine.user(UserSlot::FIRST), Err(Status::Exists)));
        assert!(matches!(user.run(Answer::ok(0), None), Exit::Call(_)));
        assert_eq!(DROPPED.get(), 0);
        drop(user);
        assert_eq!(DROPPED.get(), 1);
        drop(machine.user(UserSlot::FIRST).expect("a core without a package"));
        Box::new(|| Turn::Stopped(Outcome::Success))
    })
    .unwrap_or_else(|stuck| panic!("{stuck}"));
    assert_eq!(DROPPED.get(), 1);
}

#[test]
fn memory_and_starts_are_checked() {
    run(&options(9, &[("pings", pings)]), |machine, [table, page]| {
        let mut user = home(&machine, [table, page], b"");
        let text = *b"some bytes, more than a word";
        for (from, bytes) in [(0, 28), (1, 27), (5, 2), (8, 8), (PAGE - 4, 4), (7, 0)] {
            let at = VirtAddr(ARGUMENT.0 + from);
            let mut back = text;
            assert_eq!(user.write(at, &text[..bytes]), Ok(()), "{at}");
            assert_eq!(user.read(at, &mut back[..bytes]), Ok(()), "{at}");
            assert_eq!(back, text, "{at}");
        }
        assert_eq!(user.read(VirtAddr(ARGUMENT.0 - 4), &mut [0; 8]), Ok(()), "two pieces");
        for at in [ARGUMENT.0 - 4, TABLE.0, ARGUMENT.0 + PAGE - 4, 0, USER_BASE, u64::MAX - 3] {
            assert!(user.write(VirtAddr(at), &[0; 8]).is_err(), "{at:#x}");
        }
        for at in [ARGUMENT.0 + PAGE - 4, TABLE.0 - 1, 0, USER_BASE, u64::MAX - 3, 1 << 45] {
            assert!(user.read(VirtAddr(at), &mut [0; 8]).is_err(), "{at:#x}");
        }
        let mut map = |grant, at, access| user.map(grant, VirtAddr(at), access);
        let refused = Err(AttachError::OutOfRange);
        assert_eq!(map(page, ARGUMENT.0 + PAGE, Access::Read), refused, "not entered");
        assert_eq!(map(page, ARGUMENT.0, Access::Read), refused, "mapped already");
        assert_eq!(map(page, u64::MAX - 4095, Access::Read), refused);
        drop(user);

        let mut user = machine.user(UserSlot::FIRST).expect("there is none");
        assert_eq!(user.map(table, ARGUMENT, Access::Read), refused, "another frame");
        assert_eq!(user.map(table, TABLE, Access::Write), refused, "the tables say read");
        assert_eq!(user.map(page, ARGUMENT, Access::Execute), refused, "the tables say write");
        assert_eq!(user.start(Start::Linked("pings")), Err(Status::Invalid), "no entry table");
        assert_eq!(user.map(table, TABLE, Access::Read), Ok(()));
        assert_eq!(user.start(Start::Linked("pings")), Ok(()), "no argument needs no memory");
        assert_eq!(user.start(Start::Linked("pings")), Err(Status::Exists));
        drop(user);

        let mut user = home(&machine, [table, page], &[1; 9]);
        assert_eq!(user.start(Start::Linked("other")), Err(Status::NotFound));
        let at = Start::At { entry: TABLE, stack: ARGUMENT, argument: TABLE };
        assert_eq!(user.start(at), Err(Status::NotFound), "a simulated core runs no code");
        assert!(matches!(user.run(Answer::ok(0), None), Exit::Fault(_)), "it was not started");
        Box::new(|| Turn::Stopped(Outcome::Success))
    })
    .unwrap_or_else(|stuck| panic!("{stuck}\n{}", stuck.log.join("\n")));
}

#[test]
fn memory_that_a_package_still_reaches_is_not_cleared() {
    let shared = Cell::new(None);
    let stuck = simulate(&options(2, &[]), |machine| {
        if machine.core() == CoreId::BOOT {
            let grants = frames(&machine);
            shared.set(Some((machine, grants)));
            return Box::new(Body(Box::new(|| Turn::Idle(None))));
        }
        let Some((boot, grants)) = shared.take() else { panic!("core 0 starts first here") };
        let user = home(&machine, grants, b"");
        // What the kernel half had is taken out, and forgotten; the user half is not.
        let [_, page] = grants;
        let manager = boot.manager().expect("core 0 manages");
        let mut tables = manager.handoff().tables;
        let virt = VirtAddr(SimManager::SHARED_BASE.0 + page.start.0);
        let kernel = Page { virt, size: PageSize::Small };
        let left = tables.spaces[C1.index()].unmap(&mut tables.memory, &mut tables.pool, kernel);
        assert!(left.expect("it was entered").retired.is_none(), "the pool's table is not empty");
        machine.detach(page);
        manager.zero(page);
        Box::new(Body(Box::new(move || {
            user.read(ARGUMENT, &mut [0]).expect("it is still mapped");
            Turn::Idle(None)
        })))
    });
    let violation = stuck.expect_err("the run ends at once").violation.expect("a violation");
    assert!(violation.contains("a package of c1 still reaches"), "{violation}");
}
