//! One core's view of the simulated node.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Generation, ImageRefused, Instant, PhysAddr, Status, VirtAddr};
use nile_domain::DomainId;
use nile_platform::{
    AttachError, Board, CorePhase, Disk, Domains, Fault, Grant, Handoff, Interface, Line, Machine,
    Manager, Misbehave, Outcome, Seated, TimerSource, WakeMode,
};
use nile_ring::{PoolMemory, Region, Signal};

use crate::memory::{HUGE_BASE, SHARED_BASE, SharedTables};
use crate::state::{Event, State};
use crate::timer;
use crate::trace::Happening;
use crate::user::SimUser;
use crate::{image, loops, parts};

/// What reading the clock costs: a loop that waits for a moment reaches it.
const CLOCK_READ: Duration = Duration::from_nanos(20);

/// What a core's code unwinds with that would not return.
pub(crate) struct Endless;

/// What a core unwinds with that leaves as planned.
pub(crate) struct Left;

/// One core of a simulated node.
pub struct SimMachine {
    core: CoreId,
    generation: Generation,
    image: u64,
    board: Board,
    state: Rc<RefCell<State>>,
    manager: Option<SimManager>,
}

/// The management of a simulated node.
pub struct SimManager {
    pub(crate) state: Rc<RefCell<State>>,
}

impl SimMachine {
    /// The view of `core`'s present incarnation, which runs this image.
    pub(crate) fn new(state: &Rc<RefCell<State>>, core: CoreId, image: u64) -> SimMachine {
        let board = state.borrow().board.clone();
        let generation = board.record(core).generation();
        let manager = (core == CoreId::BOOT).then(|| SimManager { state: state.clone() });
        SimMachine { core, generation, image, board, state: state.clone(), manager }
    }

    /// The image that this incarnation runs, by its name; zero: the node's own.
    pub fn image(&self) -> u64 {
        self.image
    }
}

impl Signal for SimMachine {
    fn signal(&self, core: CoreId) {
        self.state.borrow_mut().signal(self.core, core);
    }
}

impl Machine for SimMachine {
    type Manager = SimManager;
    type User = SimUser;

    fn core(&self) -> CoreId {
        self.core
    }

    fn generation(&self) -> Generation {
        self.generation
    }

    fn now(&self) -> Instant {
        let mut state = self.state.borrow_mut();
        state.pass_time(self.core, CLOCK_READ);
        state.time_of(self.core)
    }

    fn board(&self) -> &Board {
        &self.board
    }

    fn wake_mode(&self) -> WakeMode {
        self.state.borrow().wake_mode
    }

    fn set_tick(&self, period: Option<Duration>) {
        self.state.borrow_mut().set_tick(self.core, period);
    }

    fn timer_sources(&self) -> Vec<TimerSource> {
        timer::SOURCES.to_vec()
    }

    fn timer_source(&self) -> usize {
        self.state.borrow().sources[self.core.index()]
    }

    fn take_timer_source(&self, place: usize) -> Result<(), Status> {
        if place >= timer::SOURCES.len() {
            return Err(Status::NotFound);
        }
        self.state.borrow_mut().sources[self.core.index()] = place;
        Ok(())
    }

    fn relax(&self) {
        self.state.borrow_mut().pass_time(self.core, CLOCK_READ);
    }

    fn control(&self, peer: CoreId) -> Region {
        self.state.borrow().control[peer.index()].clone()
    }

    fn attach(&self, grant: Grant) -> Result<Region, AttachError> {
        self.state.borrow_mut().memory.attach(self.core, grant)
    }

    fn detach(&self, grant: Grant) {
        self.state.borrow_mut().memory.detach(self.core, grant);
    }

    fn flush(&self) {
        self.state.borrow_mut().memory.flush(self.core);
    }

    fn log(&self, line: fmt::Arguments<'_>) {
        let mut state = self.state.borrow_mut();
        let line = format!("[{} {}] {line}", state.time_of(self.core), state.name(self.core));
        state.note(self.core, Happening::Log, 0);
        state.trace.note_bytes(line.as_bytes());
        state.log.push(line);
    }

    fn compute(&self, span: Duration) {
        self.state.borrow_mut().pass_time(self.core, span);
    }

    fn user(&self, slot: UserSlot) -> Result<SimUser, Status> {
        SimUser::new(&self.state, self.core, slot)
    }

    fn interfaces(&self) -> Vec<Box<dyn Interface>> {
        loops::interfaces(&self.state, self.core)
    }

    /// Behind the memory that tables map. What the last incarnation had was dropped with it.
    fn pool(&self) -> Option<(PhysAddr, PoolMemory)> {
        let state = self.state.borrow();
        Some((state.memory.pool_start(), state.pool.as_ref()?.right_of(self.core)))
    }

    fn disks(&self) -> Vec<Box<dyn Disk>> {
        parts::disks(&self.state, self.core)
    }

    fn route(&self, line: Line, core: CoreId) -> Result<(), Status> {
        self.state.borrow_mut().lines[line.index()].0 = (core != self.core).then_some(core);
        Ok(())
    }

    fn mask(&self, line: Line, is_masked: bool) {
        self.state.borrow_mut().lines[line.index()].1 = is_masked;
    }

    /// As the seed has it, which is what makes a run repeat.
    fn entropy(&self, bytes: &mut [u8]) -> bool {
        let mut state = self.state.borrow_mut();
        bytes.fill_with(|| state.draw(256) as u8);
        true
    }

    /// A run begins at one moment of 2025; a node that begins later has that in its calendar.
    fn calendar(&self) -> Option<Duration> {
        const BEGINNING: Duration = Duration::from_secs(1_740_000_000);
        let begun = self.state.borrow().begun;
        Some(BEGINNING + begun.since(Instant::START) + self.now().since(Instant::START))
    }

    fn seated(&self) -> Option<Seated> {
        let state = self.state.borrow();
        state.domain.as_ref().filter(|_| self.manager.is_some())?.seated()
    }

    /// The simulator ends the loop, and drops with it what the incarnation had.
    fn leave(&self) -> ! {
        std::panic::resume_unwind(Box::new(Left))
    }

    fn manager(&self) -> Option<&SimManager> {
        self.manager.as_ref()
    }
}

impl SimMachine {
    /// Which domain of its machine the node is, if it is one.
    pub fn domain(&self) -> Option<DomainId> {
        self.state.borrow().domain.as_ref().map(|it| it.id)
    }
}

impl Misbehave for SimMachine {
    /// A simulated core has no addresses but its grants', and those are typed memory: every stray
    /// write is a fault.
    fn stray_write(&self, at: VirtAddr, value: u64) {
        panic!("page fault: {} wrote {value:#x} to {at}", self.core);
    }

    fn overrun_stack(&self) {
        panic!("the stack of {} is used up", self.core);
    }

    fn interrupt_for_nothing(&self, line: Line) {
        let mut state = self.state.borrow_mut();
        let now = state.time_of(self.core);
        state.schedule(now, Event::Line { line });
    }

    fn shut_out(&self) {
        self.state.borrow_mut().shut_out[self.core.index()] = true;
    }

    /// The simulator has the core make no further pass.
    fn loop_for_ever() {
        std::panic::resume_unwind(Box::new(Endless));
    }
}

impl Manager for SimManager {
    type Tables = SharedTables;

    const SHARED_BASE: VirtAddr = SHARED_BASE;

    fn huge_base(&self) -> Option<VirtAddr> {
        Some(HUGE_BASE)
    }

    fn handoff(&self) -> Handoff<SharedTables> {
        let state = self.state.borrow();
        Handoff {
            node: state.description.clone(),
            physical: state.memory.physical(),
            tables: state.memory.tables(),
        }
    }

    /// As the ledger has it.
    fn shares(&self, grant: Grant) -> bool {
        self.state.borrow().memory.own().is_none_or(|own| own.has(grant))
    }

    fn zero(&self, grant: Grant) {
        let mut state = self.state.borrow_mut();
        if let Err(violation) = state.memory.zero(grant) {
            state.violation.get_or_insert(violation);
        }
    }

    /// A domain's is not what whoever started the machine waits for.
    fn report(&self, document: &str) {
        let mut state = self.state.borrow_mut();
        if state.domain.is_none() {
            state.reports.push(document.into());
        }
    }

    fn call_back(&self, core: CoreId) {
        let mut state = self.state.borrow_mut();
        if let Some(domain) = &state.domain {
            return domain.ask_in(core, state.memory.root(core));
        }
        let now = state.clock;
        state.schedule(now, Event::CallBack { core });
    }

    fn image(&self, core: CoreId) -> u64 {
        self.state.borrow().images.name(core)
    }

    fn may_have_image(&self, core: CoreId) -> bool {
        let state = self.state.borrow();
        state.domain.is_none() && core.index() < state.board.cores()
    }

    fn load_image(&self, core: CoreId, file: u64) -> Result<u64, ImageRefused> {
        if !self.may_have_image(core) {
            return Err(ImageRefused::Stays);
        }
        let state = &mut *self.state.borrow_mut();
        let file = usize::try_from(file).ok().and_then(|file| state.files.get(file));
        let image = image::of(file.ok_or(ImageRefused::NoFile)?)?;
        Ok(state.images.load(core, image, state.clock))
    }

    fn unload_image(&self, core: CoreId) {
        self.state.borrow_mut().images.unload(core);
    }

    /// The simulator drops what the incarnation had when the hardware was taken.
    fn lose(&self, core: CoreId) -> Result<(), Status> {
        let state = self.state.borrow();
        if state.domain.is_none() || core == CoreId::BOOT || core.index() >= state.board.cores() {
            return Err(Status::NotFound);
        }
        let record = state.board.record(core);
        record.set_fault(Fault { kind: Fault::KILLED, code: 0, at: 0, address: 0 });
        record.set_phase(CorePhase::Away);
        record.set_generation(record.generation().next());
        Ok(())
    }

    fn domains(&self) -> Option<&dyn Domains> {
        self.state.borrow().supervises.is_some().then_some(self as &dyn Domains)
    }

    fn power_off(&self, outcome: Outcome) {
        self.state.borrow_mut().end(outcome);
    }
}
