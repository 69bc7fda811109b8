//! User mode of a simulated core: a package is a function that is linked in, run as a coroutine.
//!
//! Its system calls suspend it. Their buffers are the function's own memory, so the kernel sees
//! copies of them, at addresses that nothing else has. Everything else of a package is as on any
//! machine: the kernel fills its memory and maps it, and what the function is started with, its
//! argument, is found there through the entry table.
//!
//! Between two calls a function takes no virtual time of its own: a turn does, a drawn span, and a
//! function that polls says [`System::relax`], which ends the turn as an interruption would. What
//! a function cannot do is to compute for long, to loop or to fault without taking the simulator
//! with it. It says so instead: [`compute`], [`misbehave`], [`raw_call`].

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use corosensei::{Coroutine, CoroutineResult, Yielder};
use nile_abi::call::{Answer, EntryTable, System, SystemCall, UserSlot};
use nile_abi::{CoreId, Instant, Status, VirtAddr};
use nile_platform::user::{Access, Ask, BadAddress, Exit, Gateway, Start};
use nile_platform::{AttachError, Fault, Grant, User};
use nile_ring::{HeapPool, Region};

use crate::options::Program;
use crate::packages::{Fate, LOOP};
use crate::state::State;

/// Where in its slot a package's entry table is, on every machine.
const TABLE: u64 = 0x1000;

/// Where the input of a call seems to be, and its output: behind all memory that is mapped.
const INPUT: VirtAddr = VirtAddr(UserSlot::END);
const OUTPUT: VirtAddr = VirtAddr(INPUT.0 + (1 << 40));

/// What a package does that it should not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misbehaviour {
    /// It loops: it never calls its kernel again.
    Loop,
    /// It reads, writes or executes what it does not have at this address.
    StrayAccess(VirtAddr),
    /// It executes an instruction that is none, or that only a kernel may.
    BadInstruction,
}

/// What a coroutine stops for.
#[derive(Clone, Copy)]
enum Doing {
    Call(Ask),
    Misbehaving(Misbehaviour),
    /// It computes for so long.
    Computing(Duration),
    /// It polls for what another core does, which therefore has to go on.
    Relaxing,
}

thread_local! {
    /// What the package that runs does instead of its next call.
    static INSTEAD: Cell<Option<Doing>> = const { Cell::new(None) };
}

/// What a linked package calls to misbehave. It does not return: the package loops until it is
/// stopped, or it faults.
///
/// # Panics
///
/// If `system` is not a simulated core's; real code misbehaves by itself.
pub fn misbehave(system: &dyn System, how: Misbehaviour) -> ! {
    do_instead(system, Doing::Misbehaving(how));
    panic!("a package went on after {how:?}")
}

/// What a linked package calls in place of computing for `span` without a call; without a span it
/// does not return.
///
/// # Panics
///
/// If `system` is not a simulated core's.
pub fn compute(system: &dyn System, span: Option<Duration>) {
    match span {
        Some(span) => drop(do_instead(system, Doing::Computing(span))),
        None => misbehave(system, Misbehaviour::Loop),
    }
}

/// A system call with numbers of the package's choice, as real code can make it; `ask` need not
/// name anything that exists.
///
/// # Panics
///
/// If `system` is not a simulated core's.
pub fn raw_call(system: &dyn System, ask: Ask) -> Answer {
    do_instead(system, Doing::Call(ask))
}

fn do_instead(system: &dyn System, doing: Doing) -> Answer {
    INSTEAD.set(Some(doing));
    let answer = system.call(SystemCall::Nothing, 0, &[], &mut []);
    assert!(INSTEAD.take().is_none(), "a system that is not simulated is asked to be");
    answer
}

/// Copies of the buffers of the call that a package waits for.
#[derive(Default)]
struct Buffers {
    input: Vec<u8>,
    output: Vec<u8>,
}

/// The memory of a package.
struct Memory {
    slot: UserSlot,
    /// Its pieces, by address.
    pieces: BTreeMap<VirtAddr, Piece>,
    /// The node's pool, if it may use that.
    pool: Option<HeapPool>,
}

/// The kernel, as the package's function sees it.
struct SimSystem<'a> {
    yielder: &'a Yielder<Answer, Doing>,
    buffers: Rc<RefCell<Buffers>>,
    memory: Rc<RefCell<Memory>>,
    has_ended: Rc<Cell<bool>>,
}

impl System for SimSystem<'_> {
    fn call(&self, call: SystemCall, word: u64, input: &[u8], output: &mut [u8]) -> Answer {
        if let Some(doing) = INSTEAD.take() {
            return self.yielder.suspend(doing);
        }
        // What its function has is dropped, and some of that would say so to the kernel.
        if self.has_ended.get() {
            return Answer::failed(Status::Dead);
        }
        *self.buffers.borrow_mut() = Buffers { input: input.into(), output: output.into() };
        let answer = self.yielder.suspend(Doing::Call(Ask {
            number: call as u64,
            word,
            input: (INPUT, input.len() as u64),
            output: (OUTPUT, output.len() as u64),
        }));
        let buffers = self.buffers.take();
        output.copy_from_slice(&buffers.output);
        answer
    }

    /// Of memory that the package may write, whole lines alone.
    fn memory(&self, at: VirtAddr, bytes: u64) -> Option<NonNull<u8>> {
        let memory = self.memory.borrow();
        if let Some(offset) = at.0.checked_sub(memory.slot.pool().0) {
            return memory.pool.as_ref()?.part(usize::try_from(offset).ok()?, bytes as usize);
        }
        let (piece, offset) = piece(&memory, at).filter(|it| it.0.access == Access::Write)?;
        let part = piece.region.slice(offset, usize::try_from(bytes).ok()?)?;
        Some(NonNull::from(part.words()).cast())
    }

    fn relax(&self) {
        self.yielder.suspend(Doing::Relaxing);
    }
}

/// A package that was started.
struct Linked {
    coroutine: Coroutine<Answer, Doing, ()>,
    buffers: Rc<RefCell<Buffers>>,
    /// The answer that it waits for, once it is known.
    answer: Option<Answer>,
    loops: bool,
    /// Until when it computes.
    computes: Option<Instant>,
    /// Whether nobody answers its calls any more.
    has_ended: Rc<Cell<bool>>,
}

impl Drop for Linked {
    fn drop(&mut self) {
        self.has_ended.set(true);
    }
}

/// A slot of a simulated core's user half.
pub struct SimUser {
    state: Rc<RefCell<State>>,
    core: CoreId,
    slot: UserSlot,
    memory: Rc<RefCell<Memory>>,
    package: Option<Linked>,
    /// How the package ended, once it has.
    fault: Option<Fault>,
}

struct Piece {
    grant: Grant,
    access: Access,
    region: Region,
}

/// The piece that `at` lies in, and where.
fn piece(memory: &Memory, at: VirtAddr) -> Option<(&Piece, usize)> {
    let (start, piece) = memory.pieces.range(..=at).next_back()?;
    let offset = at.0 - start.0;
    (offset < piece.grant.bytes).then_some((piece, offset as usize))
}

impl SimUser {
    /// A slot of `core`, empty.
    pub(crate) fn new(
        state: &Rc<RefCell<State>>,
        core: CoreId,
        slot: UserSlot,
    ) -> Result<SimUser, Status> {
        state.borrow_mut().packages.enter(core, slot)?;
        let memory = Memory { slot, pieces: BTreeMap::new(), pool: None };
        let (state, memory) = (state.clone(), Rc::new(RefCell::new(memory)));
        Ok(SimUser { state, core, slot, memory, package: None, fault: None })
    }

    /// Walks over the words in which a range lies, with the bytes of each that belong to it, if
    /// `allows` holds for all of them.
    fn walk(
        &self,
        from: VirtAddr,
        bytes: usize,
        allows: impl Fn(Access) -> bool,
        mut visit: impl FnMut(&Region, usize),
    ) -> Result<(), BadAddress> {
        from.0.checked_add(bytes as u64).ok_or(BadAddress)?;
        let memory = self.memory.borrow();
        let place = |at: usize| {
            let piece = piece(&memory, VirtAddr(from.0 + at as u64));
            piece.filter(|(piece, _)| allows(piece.access)).ok_or(BadAddress)
        };
        // All of it is looked at before any of it is touched.
        for at in 0..bytes {
            place(at)?;
        }
        for at in 0..bytes {
            let (piece, offset) = place(at)?;
            visit(&piece.region, offset);
        }
        Ok(())
    }

    /// What the kernel has left for the package in its memory: its argument.
    fn argument(&self) -> Result<Vec<u8>, BadAddress> {
        let word = |offset: usize| {
            let mut bytes = [0; 8];
            self.read(VirtAddr(self.slot.base().0 + TABLE + offset as u64), &mut bytes)?;
            Ok(u64::from_le_bytes(bytes))
        };
        if word(offset_of!(EntryTable, magic))? != EntryTable::MAGIC {
            return Err(BadAddress);
        }
        let at = offset_of!(EntryTable, argument);
        let (start, bytes) = (VirtAddr(word(at)?), word(at + 8)?);
        // As long as it says only if there is so much memory.
        let mapped: u64 = self.memory.borrow().pieces.values().map(|piece| piece.grant.bytes).sum();
        let bytes = usize::try_from(bytes).ok().filter(|_| bytes <= mapped).ok_or(BadAddress)?;
        let mut argument = vec![0; bytes];
        self.read(start, &mut argument)?;
        Ok(argument)
    }

    /// The package computes from now on. A turn that has an end begins anew, and passes at once.
    fn hold(&self, span: Duration, until: Option<Instant>) {
        if until.is_none() {
            self.state.borrow_mut().packages.holds(self.core, span, None);
        }
    }

    fn end(&mut self, fault: Fault) -> Exit {
        // Its memory is a function's: it is dropped as the function would drop it.
        self.package = None;
        self.fault = Some(fault);
        Exit::Fault(fault)
    }
}

impl Drop for SimUser {
    fn drop(&mut self) {
        self.package = None;
        let mut state = self.state.borrow_mut();
        let memory = self.memory.borrow();
        for (at, piece) in &memory.pieces {
            state.memory.detach_user(self.core, piece.grant, *at);
        }
        if let Some(pool) = &memory.pool {
            let grant = state.pool_grant(pool);
            state.memory.detach_user(self.core, grant, self.slot.pool());
        }
        state.packages.leave(self.core, self.slot);
    }
}

impl User for SimUser {
    /// A linked program calls no address: the gate of a simulated core is none.
    fn gateway(&self) -> Gateway {
        Gateway::At(VirtAddr(0))
    }

    fn map(&mut self, grant: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError> {
        let end = at.0.checked_add(grant.bytes).ok_or(AttachError::OutOfRange)?;
        let mut memory = self.memory.borrow_mut();
        let before = memory.pieces.range(..VirtAddr(end)).next_back();
        if before.is_some_and(|(start, piece)| start.0 + piece.grant.bytes > at.0) {
            return Err(AttachError::OutOfRange);
        }
        let mut state = self.state.borrow_mut();
        let region = state.memory.attach_user(self.core, grant, at, access)?;
        memory.pieces.insert(at, Piece { grant, access, region });
        Ok(())
    }

    fn unmap(&mut self, at: VirtAddr) {
        if let Some(piece) = self.memory.borrow_mut().pieces.remove(&at) {
            self.state.borrow_mut().memory.detach_user(self.core, piece.grant, at);
        }
    }

    fn map_pool(&mut self) -> Result<(), AttachError> {
        let mut state = self.state.borrow_mut();
        let pool = state.pool.clone().ok_or(AttachError::OutOfRange)?;
        let grant = state.pool_grant(&pool);
        state.memory.reach_user(self.core, grant, self.slot.pool(), Access::Write)?;
        self.memory.borrow_mut().pool = Some(pool);
        Ok(())
    }

    /// Nothing of the pool: the buffers of calls are copies, and never lie there.
    fn read(&self, from: VirtAddr, into: &mut [u8]) -> Result<(), BadAddress> {
        if let Some(package) = &self.package {
            let buffers = package.buffers.borrow();
            for (start, buffer) in [(INPUT, &buffers.input), (OUTPUT, &buffers.output)] {
                if let Some(part) = part(start, buffer.len(), from, into.len()) {
                    into.copy_from_slice(&buffer[part]);
                    return Ok(());
                }
            }
        }
        let bytes = into.len();
        let mut next = into.iter_mut();
        self.walk(
            from,
            bytes,
            |_| true,
            |region, offset| {
                let word = region.words()[offset / 8].load(Relaxed).to_le_bytes();
                if let Some(byte) = next.next() {
                    *byte = word[offset % 8];
                }
            },
        )
    }

    fn write(&mut self, to: VirtAddr, from: &[u8]) -> Result<(), BadAddress> {
        if let Some(package) = &self.package {
            let output = &mut package.buffers.borrow_mut().output;
            if let Some(part) = part(OUTPUT, output.len(), to, from.len()) {
                output[part].copy_from_slice(from);
                return Ok(());
            }
        }
        let mut next = from.iter();
        self.walk(
            to,
            from.len(),
            |access| access == Access::Write,
            |region, offset| {
                let word = &region.words()[offset / 8];
                let mut bytes = word.load(Relaxed).to_le_bytes();
                if let Some(byte) = next.next() {
                    bytes[offset % 8] = *byte;
                }
                word.store(u64::from_le_bytes(bytes), Relaxed);
            },
        )
    }

    /// `Invalid` if there is no entry table where packages have it, or no argument where it says;
    /// `Exists` after the first start.
    fn start(&mut self, start: Start) -> Result<(), Status> {
        let Start::Linked(name) = start else { return Err(Status::NotFound) };
        if self.package.is_some() || self.fault.is_some() {
            return Err(Status::Exists);
        }
        let main = self.state.borrow().packages.find(name).ok_or(Status::NotFound)?;
        let argument = self.argument().map_err(|BadAddress| Status::Invalid)?;
        self.package = Some(Linked::new(main, argument, self.memory.clone()));
        Ok(())
    }

    /// What the seed chooses may come first: an interruption, a fault, a loop. A package that was
    /// not started has done what it may not.
    fn run(&mut self, answer: Answer, until: Option<Instant>) -> Exit {
        let nothing = Fault { kind: Fault::EXCEPTION, code: 0, at: 0, address: 0 };
        let Some(package) = &mut self.package else {
            return Exit::Fault(self.fault.unwrap_or(nothing));
        };
        package.answer.get_or_insert(answer);
        let now = self.state.borrow().time_of(self.core);
        package.computes = package.computes.filter(|until| *until > now);
        let holds = package.computes.map(|until| until.since(now));
        let holds = if package.loops { Some(LOOP) } else { holds };
        let fate = self.state.borrow_mut().package_turn(self.core, holds, until);
        match fate {
            Fate::Goes => package.computes = None,
            Fate::Interrupted => return Exit::Interrupted,
            Fate::Loops => {
                package.loops |= package.computes.is_none();
                return Exit::Interrupted;
            }
            Fate::Faults(fault) => return self.end(fault),
        }
        let answer = package.answer.take().unwrap_or(answer);
        match catch_unwind(AssertUnwindSafe(|| package.coroutine.resume(answer))) {
            Ok(CoroutineResult::Yield(Doing::Call(ask))) => Exit::Call(ask),
            Ok(CoroutineResult::Yield(Doing::Relaxing)) => Exit::Interrupted,
            Ok(CoroutineResult::Yield(Doing::Misbehaving(Misbehaviour::Loop))) => {
                package.loops = true;
                self.hold(LOOP, until);
                Exit::Interrupted
            }
            Ok(CoroutineResult::Yield(Doing::Computing(span))) => {
                package.computes = Some(self.state.borrow().time_of(self.core) + span);
                self.hold(span, until);
                Exit::Interrupted
            }
            Ok(CoroutineResult::Yield(Doing::Misbehaving(Misbehaviour::StrayAccess(at)))) => {
                self.end(Fault { kind: Fault::PAGE, address: at.0, ..nothing })
            }
            Ok(_) => self.end(nothing),
            Err(panic) => {
                // As the runtime of a real package does.
                let words = panicked(&*panic);
                let ask = Ask {
                    number: SystemCall::Exit as u64,
                    word: Status::Panicked.code().into(),
                    input: (INPUT, words.len() as u64),
                    output: (OUTPUT, 0),
                };
                *package.buffers.borrow_mut() =
                    Buffers { input: words.into_bytes(), output: Vec::new() };
                Exit::Call(ask)
            }
        }
    }
}

impl Linked {
    fn new(main: Program, argument: Vec<u8>, memory: Rc<RefCell<Memory>>) -> Linked {
        let buffers = Rc::new(RefCell::new(Buffers::default()));
        let has_ended = Rc::new(Cell::new(false));
        let (shared, ends) = (buffers.clone(), has_ended.clone());
        let coroutine = Coroutine::new(move |yielder: &Yielder<Answer, Doing>, _| {
            let system = SimSystem { yielder, buffers: shared, memory, has_ended: ends };
            let code = main(&system, &argument);
            system.call(SystemCall::Exit, code, &[], &mut []);
        });
        Linked { coroutine, buffers, answer: None, loops: false, computes: None, has_ended }
    }
}

/// What a package that panics says of it. Where it was Rust has told whoever runs the simulator.
fn panicked(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("panicked: {}", text.unwrap_or("no text"))
}

/// Which part of a buffer a range of addresses is, if all of it is one.
fn part(
    start: VirtAddr,
    buffer: usize,
    from: VirtAddr,
    bytes: usize,
) -> Option<std::ops::Range<usize>> {
    let first = usize::try_from(from.0.checked_sub(start.0)?).ok()?;
    let end = first.checked_add(bytes)?;
    (end <= buffer).then_some(first..end)
}
