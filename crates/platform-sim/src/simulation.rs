//! The scheduler: which core makes its next pass, and what the clock brings in between.

mod hardware;

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, Generation, Instant};
use nile_platform::{Cause, CorePhase, Fault, Hosting, Line, Loop, Outcome, Turn, WakeMode};
use nile_ring::{Doorbell, HeapPool, Signal};

use crate::disk::Contents;
use crate::image::Running;
use crate::machine::{Endless, Left, SimMachine};
use crate::memory::SimMemory;
use crate::options::Options;
use crate::state::{Event, State};
use crate::status::{LineImage, Status};
use crate::trace::Happening;

/// What a pass takes: at least this, and at most this more.
const PASS: (Duration, Duration) = (Duration::from_nanos(100), Duration::from_nanos(1900));

/// What waking takes.
const WAKE: (Duration, Duration) = (Duration::from_nanos(200), Duration::from_micros(2));

/// How long a stopped core takes to begin again.
const RESTART: (Duration, Duration) = (Duration::from_micros(5), Duration::from_micros(200));

/// A run that ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finished {
    /// How the node ended.
    pub outcome: Outcome,
    /// The documents that it reported.
    pub reports: Vec<String>,
    /// Its log.
    pub log: Vec<String>,
    /// What happened, as a hash.
    pub trace_hash: u64,
    /// How much happened.
    pub events: u64,
    /// When it ended.
    pub at: Instant,
    /// Whether a power failure ended it, in the midst of whatever it did.
    pub power_failed: bool,
    /// What is on the disks now that the power is off.
    pub disks: Vec<Contents>,
}

/// A run in which something was that must never be, in which nothing can happen any more, or that
/// took longer than its limit: a lost wake-up, a deadlock, a loop without end.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stuck {
    /// The seed that leads here again.
    pub seed: u64,
    /// When it was given up.
    pub at: Instant,
    /// What must never be and was, if that ended the run.
    pub violation: Option<String>,
    /// Each core's state.
    pub cores: Vec<String>,
    /// The node's log.
    pub log: Vec<String>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.violation.as_deref().unwrap_or("stuck");
        write!(f, "seed {}: {what} at {}: {}", self.seed, self.at, self.cores.join(", "))
    }
}

impl std::error::Error for Stuck {}

struct Core {
    id: CoreId,
    bell: Doorbell,
    body: Option<Box<dyn Loop>>,
    status: Status,
    image: Running,
}

/// Makes a core's loop, once for each incarnation.
type Begin<'a> = Box<dyn FnMut(SimMachine) -> Box<dyn Loop> + 'a>;

/// A node in the midst of its run.
pub(crate) struct Scheduler<'a> {
    pub state: Rc<RefCell<State>>,
    cores: Vec<Core>,
    begin: Begin<'a>,
}

/// Runs a node until its loops have ended, or its power has failed. `begin` makes a core's loop,
/// once for each incarnation.
pub fn simulate(
    options: &Options,
    begin: impl FnMut(SimMachine) -> Box<dyn Loop>,
) -> Result<Finished, Stuck> {
    let mut scheduler = Scheduler::new(options, Instant::START, Box::new(begin));
    let limit = Instant::START + options.limit;
    while scheduler.step() {
        let state = scheduler.state.borrow();
        if state.clock > limit || state.violation().is_some() || state.power_failed {
            break;
        }
    }
    if scheduler.has_ended() && !scheduler.is_broken() {
        Ok(scheduler.finish())
    } else {
        Err(scheduler.give_up(options.seed))
    }
}

impl<'a> Scheduler<'a> {
    /// A node that begins at a moment.
    pub fn new(options: &Options, at: Instant, begin: Begin<'a>) -> Scheduler<'a> {
        let (cores, pool) = (options.roles.len(), options.pool_bytes);
        let memory = SimMemory::new(cores, options.memory_bytes - pool, pool);
        let pool = (pool > 0).then(|| HeapPool::new(pool as usize));
        Scheduler::begin(options, State::new(options, memory, pool), at, begin)
    }

    /// The same of a node that is as this says.
    pub fn begin(options: &Options, state: State, at: Instant, begin: Begin<'a>) -> Scheduler<'a> {
        let state = Rc::new(RefCell::new(state));
        state.borrow_mut().clock = at;
        state.borrow_mut().begun = at;
        let board = state.borrow().board.clone();
        let core = |id: CoreId| {
            board.record(id).set_generation(Generation::FIRST);
            board.record(id).set_hardware_id(u64::from(id.0));
            let bell = board.notifier().doorbells().of(id);
            let bell = bell.expect("the board has a doorbell for each of its cores");
            Core { id, bell, body: None, status: Status::Down, image: Running::default() }
        };
        let cores = board.core_ids().map(core).collect();
        for core in board.core_ids() {
            state.borrow_mut().schedule(at, Event::Start { core });
        }
        let mut scheduler = Scheduler { state, cores, begin };
        scheduler.schedule_stops(options);
        scheduler
    }

    /// Whether every loop has ended, and the node with an outcome.
    pub fn has_stopped(&self) -> bool {
        let all = self.cores.iter().all(|core| core.status.is_over());
        all && self.state.borrow().outcome.is_some()
    }

    /// Whether it has stopped, or its power has failed.
    pub fn has_ended(&self) -> bool {
        self.state.borrow().power_failed || self.has_stopped()
    }

    /// Whether something was that must never be.
    pub fn is_broken(&self) -> bool {
        self.state.borrow().violation().is_some()
    }

    /// What a node that has stopped came to.
    pub fn finish(self) -> Finished {
        let state = self.state.clone();
        drop(self);
        let mut state = state.borrow_mut();
        let outcome = state.outcome.unwrap_or(Outcome::Failure);
        state.note(CoreId::BOOT, Happening::End, outcome as u64);
        Finished {
            outcome,
            reports: std::mem::take(&mut state.reports),
            log: std::mem::take(&mut state.log),
            trace_hash: state.trace.hash(),
            events: state.trace.events(),
            at: state.clock,
            power_failed: state.power_failed,
            disks: state.lose_power(),
        }
    }

    /// What a node that does not come to its end was doing.
    pub fn give_up(self, seed: u64) -> Stuck {
        let state = self.state.clone();
        let cores = self.cores.iter().map(|core| format!("{} {}", core.id, core.status)).collect();
        drop(self);
        let mut state = state.borrow_mut();
        let (violation, log) = (state.violation().cloned(), std::mem::take(&mut state.log));
        Stuck { seed, at: state.clock, violation, cores, log }
    }

    /// A frame comes to one of the node's interfaces.
    pub fn arrive(&self, at: Instant, interface: usize, frame: &[u8]) {
        let mut state = self.state.borrow_mut();
        let Some(line) = Line::interface(interface) else { return };
        if state.wires.get_mut(interface).is_some_and(|wire| wire.arrive(frame)) {
            let at = at.max(state.clock);
            state.schedule(at, Event::Line { line });
        }
    }

    /// When the next thing can happen, as far as this node alone knows; `None` if never.
    pub fn next_moment(&self) -> Option<Instant> {
        let state = self.state.borrow();
        if self.cores.iter().all(|core| core.status.is_over()) {
            return None;
        }
        let cores = self.cores.iter().filter_map(|core| match &core.status {
            Status::Ready(at) | Status::Held(at) => Some(*at),
            Status::Dozing { .. } => Some(state.clock),
            Status::Asleep { line, .. }
                if state.wake_mode == WakeMode::Monitored && *line != line_of(&state, core.id) =>
            {
                Some(state.clock)
            }
            Status::Asleep { until, .. } => *until,
            Status::Endless | Status::Down | Status::Away | Status::Stopped => None,
        });
        let next = cores.chain(state.next_event()).min()?;
        let tick = state.next_event_or_tick().unwrap_or(next);
        Some(next.min(tick).max(state.clock))
    }

    fn schedule_stops(&mut self, options: &Options) {
        let mut state = self.state.borrow_mut();
        for _ in 0..options.faults.core_stops {
            let first = if options.faults.stop_manager { 0 } else { 1 };
            let cores = self.cores.len() as u64 - first;
            if cores == 0 {
                return;
            }
            let core = CoreId((first + state.draw(cores)) as u16);
            let at = state.draw_span(Duration::ZERO, options.faults.stops_within);
            let when = state.clock + at;
            state.schedule(when, Event::Stop { core });
        }
    }

    /// One thing that happens; `false` if nothing can.
    pub fn step(&mut self) -> bool {
        let due = self.state.borrow_mut().take_due();
        if let Some(event) = due {
            self.happen(event);
            return true;
        }
        self.wake_those_whose_time_has_come();
        let clock = self.state.borrow().clock;
        let ready: Vec<usize> =
            (0..self.cores.len()).filter(|at| self.cores[*at].status.is_due(clock)).collect();
        if ready.is_empty() {
            return self.advance_clock();
        }
        let drawn = self.state.borrow_mut().draw(ready.len() as u64);
        self.run(ready[drawn as usize]);
        true
    }

    /// A core whose deadline has come is interrupted by its timer; one that watches its doorbell's
    /// line goes on when the line has changed.
    fn wake_those_whose_time_has_come(&mut self) {
        for at in 0..self.cores.len() {
            let Status::Asleep { until, line } = &self.cores[at].status else { continue };
            let state = self.state.borrow();
            if until.is_some_and(|until| until <= state.clock) {
                drop(state);
                self.wake_by(at, Cause::Timer);
            } else if state.wake_mode == WakeMode::Monitored
                && *line != line_of(&state, self.cores[at].id)
            {
                drop(state);
                self.wake(at);
            }
        }
    }

    /// Lets the clock come to the next moment at which something can happen.
    fn advance_clock(&mut self) -> bool {
        let mut state = self.state.borrow_mut();
        let cores = self.cores.iter().filter_map(|core| match core.status {
            Status::Ready(at) | Status::Held(at) => Some(at),
            Status::Asleep { until, .. } => until,
            Status::Dozing { .. } | Status::Endless => None,
            Status::Down | Status::Away | Status::Stopped => None,
        });
        let all_stopped = self.cores.iter().all(|core| core.status.is_over());
        let next = cores.chain(state.next_event()).min();
        match next.filter(|_| !all_stopped) {
            Some(next) => {
                let tick = state.next_event_or_tick().unwrap_or(next);
                state.clock = next.min(tick).max(state.clock);
                true
            }
            None => false,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Signal { to } => {
                if self.cores[to.index()].status.is_down() {
                    return;
                }
                if let Status::Asleep { .. } = self.cores[to.index()].status {
                    return self.wake_by(to.index(), Cause::Signal);
                }
                self.state.borrow_mut().interrupt(to, Cause::Signal);
                if let Status::Endless = self.cores[to.index()].status
                    && self.is_to_end(to)
                {
                    return self.stop(to.index(), Fault::KILLED);
                }
                match self.cores[to.index()].status {
                    // The turn ends at once, and the kernel's pass goes on.
                    Status::Held(_) => {
                        drop(self.cores[to.index()].bell.compute());
                        let now = self.state.borrow().clock;
                        self.cores[to.index()].status = Status::Ready(now);
                    }
                    _ => self.state.borrow_mut().packages.signal(to),
                }
            }
            Event::Line { line } => self.interrupt_by(line),
            Event::Disk { disk, request } => {
                let interrupts = self.state.borrow_mut().end_disk_request(disk, request);
                let line = Line::disk(disk).filter(|_| interrupts);
                line.into_iter().for_each(|line| self.interrupt_by(line));
            }
            Event::Frames { core } => match self.cores[core.index()].status {
                Status::Asleep { .. } => self.wake_by(core.index(), Cause::Device),
                ref status if status.is_down() => {}
                _ => self.state.borrow_mut().interrupt(core, Cause::Device),
            },
            Event::Tick { core, setting } => self.state.borrow_mut().tick(core, setting),
            Event::Stop { core } => {
                if !self.cores[core.index()].status.is_down() {
                    self.stop(core.index(), Fault::KILLED);
                }
            }
            Event::Start { core } => {
                // Its hardware may have been taken since.
                if let Status::Down = self.cores[core.index()].status {
                    self.start(core.index());
                }
            }
            Event::CallBack { core } => {
                if let Status::Away = self.cores[core.index()].status {
                    self.start(core.index());
                }
            }
        }
    }

    /// Whether the managing core has said that this one's incarnation is to end.
    fn is_to_end(&self, core: CoreId) -> bool {
        let board = &self.state.borrow().board;
        let generation = board.record(core).generation();
        let hears = !self.state.borrow().shut_out[core.index()];
        hears && board.record(CoreId::BOOT).is_endless(core, generation)
    }

    /// A device interrupts. A core that does not drive it wakes the one that does.
    fn interrupt_by(&mut self, line: Line) {
        let state = self.state.borrow();
        let (routed, is_masked) = state.lines[line.index()];
        let Some(driver) = state.board.driver(line).filter(|_| !is_masked) else { return };
        drop(state);
        let to = routed.unwrap_or(driver);
        match self.cores[to.index()].status {
            // Its controller keeps the interrupt.
            Status::Down if to != driver => {
                let mut state = self.state.borrow_mut();
                let again = state.clock + RESTART.0;
                return state.schedule(again, Event::Line { line });
            }
            Status::Down | Status::Away | Status::Stopped => return,
            Status::Asleep { .. } => self.wake_by(to.index(), Cause::Device),
            _ => self.state.borrow_mut().interrupt(to, Cause::Device),
        }
        self.state.borrow().count_line(to, line);
        if to != driver {
            let board = self.state.borrow().board.clone();
            board.notifier().doorbells().wake(driver, &From(&self.state, to));
        }
    }

    /// An interrupt of a core that sleeps.
    fn wake_by(&mut self, at: usize, cause: Cause) {
        let mut state = self.state.borrow_mut();
        state.interrupt(self.cores[at].id, cause);
        state.board.record(self.cores[at].id).count_wake();
        drop(state);
        self.wake(at);
    }

    fn wake(&mut self, at: usize) {
        let mut state = self.state.borrow_mut();
        let core = &mut self.cores[at];
        state.note(core.id, Happening::Wake, 0);
        state.packages.wake(core.id);
        let latency = state.draw_span(WAKE.0, WAKE.1);
        core.status = Status::Ready(state.clock + latency);
        // Says "awake", as the end of a wait does.
        drop(core.bell.prepare());
    }

    fn start(&mut self, at: usize) {
        let id = self.cores[at].id;
        let mut state = self.state.borrow_mut();
        state.memory.flush(id);
        state.shut_out[at] = false;
        state.board.begin(id);
        let generation = state.board.record(id).generation();
        state.note(id, Happening::Start, u64::from(generation.0));
        let (image, name) = Running::begin(&mut state, id);
        drop(state);
        self.cores[at].image = image;
        let machine = SimMachine::new(&self.state, id, name);
        self.cores[at].body = Some((self.begin)(machine));
        let ready = self.state.borrow_mut().end_pass(id);
        self.cores[at].status = Status::Ready(ready);
    }

    /// Ends a core's incarnation, tells the management core, and lets the next one begin later.
    fn stop(&mut self, at: usize, kind: u64) {
        let id = self.cores[at].id;
        self.state.borrow_mut().lose_driver(id);
        self.cores[at].body = None;
        self.cores[at].status = Status::Down;
        drop(self.cores[at].bell.prepare());
        let mut state = self.state.borrow_mut();
        state.end_pass(id);
        state.set_tick(id, None);
        state.sources[id.index()] = 0;
        state.note(id, Happening::Stop, kind);
        let board = state.board.clone();
        let record = board.record(id);
        record.set_fault(Fault { kind, code: 0, at: 0, address: 0 });
        if kind != Fault::PLANNED {
            self.cores[at].image.failed(&mut state, id);
        }
        let is_away = kind == Fault::PLANNED && board.record(CoreId::BOOT).is_away(id);
        record.set_phase(if is_away { CorePhase::Away } else { CorePhase::Restarting });
        record.set_generation(record.generation().next());
        if is_away {
            // What it had is others' before it comes back.
            state.memory.flush(id);
            self.cores[at].status = Status::Away;
            state.leave_hardware(id);
        } else {
            let delay = state.draw_span(RESTART.0, RESTART.1);
            let when = state.clock + delay;
            state.schedule(when, Event::Start { core: id });
        }
        drop(state);
        board.notifier().doorbells().wake(CoreId::BOOT, &From(&self.state, id));
    }

    /// One pass of a core, or its last look before it sleeps.
    fn run(&mut self, at: usize) {
        let id = self.cores[at].id;
        if let Status::Dozing { until, line } = &mut self.cores[at].status {
            let (until, line) = (*until, std::mem::take(line));
            let work = self.cores[at].body.as_ref().is_some_and(|body| body.has_work());
            let mut state = self.state.borrow_mut();
            let rung = line != line_of(&state, id);
            let core = &mut self.cores[at];
            core.status = if work || rung {
                drop(core.bell.prepare());
                Status::Ready(state.end_pass(id))
            } else {
                state.note(id, Happening::Sleep, 0);
                state.board.record(id).count_sleep();
                let until = until.map(|due| state.timer_fires(id, due));
                state.end_pass(id);
                Status::Asleep { until, line }
            };
            return;
        }
        if let Status::Held(_) = self.cores[at].status {
            drop(self.cores[at].bell.compute());
            let mut state = self.state.borrow_mut();
            if state.packages.take_timer(id) {
                state.interrupt(id, Cause::Timer);
            }
        }
        if !self.cores[at].image.makes_a_pass() {
            return self.stop(at, Fault::PANIC);
        }
        let Some(body) = self.cores[at].body.as_mut() else { return };
        let turn = catch_unwind(AssertUnwindSafe(|| body.turn()));
        let mut state = self.state.borrow_mut();
        let span = state.draw_span(PASS.0, PASS.1);
        state.pass_time(id, span);
        match turn {
            Ok(Turn::Busy) => {
                state.note(id, Happening::Turn, 1);
                let held = state.packages.take_hold(id);
                let end = state.end_pass(id);
                self.cores[at].status = match held {
                    Some(span) => {
                        // What ended the pass is the beginning of a turn.
                        state.board.record(id).set_hosting(Hosting::Turn);
                        drop(state);
                        let core = &self.cores[at];
                        let computing = core.bell.compute();
                        if !core.body.as_ref().is_some_and(|it| it.is_waited_for()) {
                            // The core says so until the turn is over.
                            std::mem::forget(computing);
                        }
                        Status::Held(end + span)
                    }
                    None => Status::Ready(end),
                };
            }
            Ok(Turn::Idle(until)) => {
                state.note(id, Happening::Turn, 0);
                // The doorbell stays prepared until the core is awake again, which is longer
                // than the guard can live here.
                std::mem::forget(self.cores[at].bell.prepare());
                let line = line_of(&state, id);
                state.end_pass(id);
                self.cores[at].status = Status::Dozing { until, line };
            }
            Ok(Turn::Stopped(outcome)) => {
                state.end_pass(id);
                if id == CoreId::BOOT {
                    state.end(outcome);
                    state.leave_hardware(id);
                }
                self.cores[at].status = Status::Stopped;
            }
            Err(panic) if panic.is::<Left>() => {
                drop(state);
                self.stop(at, Fault::PLANNED);
            }
            Err(panic) if panic.is::<Endless>() => {
                state.end_pass(id);
                self.cores[at].status = Status::Endless;
            }
            Err(panic) => {
                let why = reason(&*panic);
                let line = format!("[{} {}] panicked: {why}", state.clock, state.name(id));
                state.log.push(line);
                state.last_words(id, format_args!("panicked: {why}"));
                drop(state);
                self.stop(at, Fault::PANIC);
            }
        }
    }
}

/// A signal of a core that runs no code meanwhile: it is no more, or an interrupt handler sends it.
struct From<'a>(&'a Rc<RefCell<State>>, CoreId);

impl Signal for From<'_> {
    fn signal(&self, core: CoreId) {
        self.0.borrow_mut().signal(self.1, core);
    }
}

fn line_of(state: &State, core: CoreId) -> LineImage {
    use std::sync::atomic::Ordering::Relaxed;
    let words = nile_ring::LINE_BYTES / 8;
    let first = core.index() * words;
    state.bells.words()[first..first + words].iter().map(|word| word.load(Relaxed)).collect()
}

fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("with something that is no text")
}
