//! What all cores of a simulated node share: the clock, the events to come, the generator, and
//! the node's parts. The scheduler owns it; each core's machine has a handle to it.

use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, Instant, Role};
use nile_platform::{
    Board, CONTROL_BYTES, Cause, Grant, Images, LINES, Line, NodeDescription, Outcome, SeatPhase,
    WakeMode,
};
use nile_ring::{Doorbells, HeapPool, Region};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::disk::Drive;
use crate::hardware::{Domain, Hardware};
use crate::image::FailsAfter;
use crate::memory::SimMemory;
use crate::neighbours::Neighbours;
use crate::network::Wire;
use crate::options::Options;
use crate::packages::{Fate, LOOP, MOST_AT_ONCE, Packages, TURN};
use crate::trace::{Happening, Trace};

/// What the clock brings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A signal arrives.
    Signal { to: CoreId },
    /// A periodic timer fires, unless it was set anew since.
    Tick { core: CoreId, setting: u64 },
    /// A device interrupts by its line, if that may.
    Line { line: Line },
    /// A disk has done what it was asked for.
    Disk { disk: usize, request: u64 },
    /// A core is stopped from outside.
    Stop { core: CoreId },
    /// Frames have come for a core that waits for them, from another node of its machine.
    Frames { core: CoreId },
    /// A stopped core begins its next incarnation.
    Start { core: CoreId },
    /// So does one that is away.
    CallBack { core: CoreId },
}

/// A core's periodic timer. Every setting has a number, so that the ticks of an earlier one are
/// told apart.
#[derive(Clone, Copy, Default)]
struct Tick {
    period: Option<Duration>,
    setting: u64,
}

/// The shared part of a node.
pub struct State {
    pub clock: Instant,
    /// When the node began.
    pub begun: Instant,
    /// How far each core's own time is ahead of the clock, within its present pass.
    lag: Vec<Duration>,
    generator: ChaCha8Rng,
    pub trace: Trace,
    events: BTreeMap<(Instant, u64), Event>,
    next_event: u64,
    ticks: Vec<Tick>,
    /// Which timer each core has.
    pub sources: Vec<usize>,
    /// The lines of devices: which core each interrupts, if not the one that drives its device,
    /// and whether it is masked.
    pub lines: [(Option<CoreId>, bool); LINES],
    signal_delay: Duration,
    pub wake_mode: WakeMode,
    pub memory: SimMemory,
    /// The memory of the node's pool, behind the rest.
    pub pool: Option<HeapPool>,
    pub packages: Packages,
    pub board: Board,
    /// The doorbells' memory, which the scheduler watches as MONITOR would.
    pub bells: Region,
    pub control: Vec<Region>,
    /// The network interfaces, in a cluster: one for each network core.
    pub wires: Vec<Wire>,
    /// Nodes that this one shows its pool, and whose pools it sees.
    pub neighbours: Option<Neighbours>,
    /// The disks.
    pub drives: Vec<Drive>,
    /// The machine, if the node supervises one.
    pub supervises: Option<Rc<Hardware>>,
    /// What the node, if it is a domain, knows of its machine.
    pub domain: Option<Domain>,
    /// Cores of a domain that have left their hardware, until its machine has seen it.
    pub left: Vec<CoreId>,
    /// Cores that nothing interrupts.
    pub shut_out: Vec<bool>,
    /// Files that were handed to the node, and what cores run of them.
    pub files: Vec<Vec<u8>>,
    pub images: Images<FailsAfter>,
    /// Whether a power failure has ended the node.
    pub power_failed: bool,
    pub description: NodeDescription,
    pub reports: Vec<String>,
    pub log: Vec<String>,
    pub outcome: Option<Outcome>,
    /// What must never be and was: it ends the run.
    pub violation: Option<String>,
}

impl State {
    /// The state before the first core starts of a node that has this memory and this pool.
    pub fn new(options: &Options, memory: SimMemory, pool: Option<HeapPool>) -> State {
        let cores = options.roles.len();
        let mut generator = ChaCha8Rng::seed_from_u64(options.seed);
        let coin = generator.next_u64() & 1 == 0;
        let drawn = if coin { WakeMode::Monitored } else { WakeMode::Signalled };
        let wake_mode = options.wake_mode.unwrap_or(drawn);
        let bells = Region::owned(Doorbells::region_len(cores));
        let board = Board::in_memory(cores, bells.clone());
        // Network cores have an interface each.
        let networks = options.roles.iter().filter(|roles| roles.contains(Role::Network));
        board.deal(&options.roles, networks.count(), options.disks.len());
        let description = NodeDescription {
            machine: "sim".into(),
            image_bytes: 0,
            memory: memory.map(),
            facts: vec![
                format!("seed {}", options.seed),
                format!("sleeping cores are woken as {wake_mode:?}"),
            ],
            steps: Vec::new(),
        };
        State {
            clock: Instant::START,
            begun: Instant::START,
            lag: vec![Duration::ZERO; cores],
            generator,
            trace: Trace::default(),
            events: BTreeMap::new(),
            next_event: 0,
            ticks: vec![Tick::default(); cores],
            sources: vec![0; cores],
            lines: [(None, false); LINES],
            signal_delay: options.faults.signal_delay,
            wake_mode,
            memory,
            pool,
            packages: Packages::new(options),
            board,
            bells,
            control: (0..cores).map(|_| Region::owned(CONTROL_BYTES)).collect(),
            wires: Vec::new(),
            neighbours: None,
            drives: options.disks.iter().enumerate().map(|(at, it)| Drive::new(at, it)).collect(),
            supervises: None,
            domain: None,
            left: Vec::new(),
            shut_out: vec![false; cores],
            files: options.files.clone(),
            images: Images::default(),
            power_failed: false,
            description,
            reports: Vec::new(),
            log: Vec::new(),
            outcome: None,
            violation: None,
        }
    }

    /// What must never be and was.
    pub fn violation(&self) -> Option<&String> {
        self.violation.as_ref().or(self.memory.violation.as_ref())
    }

    /// A core's name in the log: a domain's begins with that of the domain.
    pub fn name(&self, core: CoreId) -> String {
        self.domain.as_ref().map_or(core.to_string(), |it| format!("{}.{core}", it.id))
    }

    /// Keeps why a domain's managing core has failed for its supervisor.
    pub fn last_words(&self, core: CoreId, words: fmt::Arguments<'_>) {
        let seated = self.domain.as_ref().filter(|_| core == CoreId::BOOT);
        seated.and_then(Domain::seated).into_iter().for_each(|it| it.seat.say(words));
    }

    /// The node ends. The supervisor of a domain is told.
    pub fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
        let phase = match outcome {
            Outcome::Success => SeatPhase::Finished,
            Outcome::Failure => SeatPhase::Failed,
        };
        let seated = self.domain.as_ref().and_then(Domain::seated);
        seated.into_iter().for_each(|it| it.seat.set_phase(phase));
    }

    /// A core is done with its hardware, which is its supervisor's again.
    pub fn leave_hardware(&mut self, core: CoreId) {
        if self.domain.is_some() {
            self.left.push(core);
        }
    }

    /// The memory of the node's pool, as tables have it.
    pub fn pool_grant(&self, pool: &HeapPool) -> Grant {
        Grant { start: self.memory.pool_start(), bytes: pool.bytes() as u64 }
    }

    /// A number below `bound`; zero if that is zero.
    pub fn draw(&mut self, bound: u64) -> u64 {
        // The bias of a remainder is far below what any schedule depends on.
        if bound == 0 { 0 } else { self.generator.next_u64() % bound }
    }

    /// A span from `least` on, of at most `more` more.
    pub fn draw_span(&mut self, least: Duration, more: Duration) -> Duration {
        let more = u64::try_from(more.as_nanos()).unwrap_or(u64::MAX);
        least + Duration::from_nanos(self.draw(more))
    }

    /// A core's own time.
    pub fn time_of(&self, core: CoreId) -> Instant {
        self.clock + self.lag[core.index()]
    }

    /// A core's time passes.
    pub fn pass_time(&mut self, core: CoreId, span: Duration) {
        self.lag[core.index()] += span;
    }

    /// Ends a core's pass: when it can make the next one.
    pub fn end_pass(&mut self, core: CoreId) -> Instant {
        let end = self.time_of(core);
        self.lag[core.index()] = Duration::ZERO;
        end
    }

    /// Notes an event in the trace.
    pub fn note(&mut self, core: CoreId, what: Happening, detail: u64) {
        let at = self.time_of(core);
        self.trace.note(at, core, what, detail);
    }

    /// Counts an interrupt by a line, which is counted by its cause.
    pub fn count_line(&self, core: CoreId, line: Line) {
        self.board.record(core).count_line(line);
    }

    /// Counts and notes an interrupt.
    pub fn interrupt(&mut self, core: CoreId, cause: Cause) {
        self.board.record(core).count_interrupt(cause);
        self.note(core, Happening::Interrupt, cause as u64);
    }

    /// Lets `event` come at `at`.
    pub fn schedule(&mut self, at: Instant, event: Event) {
        self.next_event += 1;
        self.events.insert((at, self.next_event), event);
    }

    /// The next event that is due.
    pub fn take_due(&mut self) -> Option<Event> {
        let first = self.events.first_entry().filter(|entry| entry.key().0 <= self.clock)?;
        Some(first.remove())
    }

    /// When the next event comes that can make something happen; ticks cannot.
    pub fn next_event(&self) -> Option<Instant> {
        let moves = |(_, event): &(&(Instant, u64), &Event)| !matches!(event, Event::Tick { .. });
        self.events.iter().find(moves).map(|((at, _), _)| *at)
    }

    /// When the next event of any kind comes.
    pub fn next_event_or_tick(&self) -> Option<Instant> {
        self.events.keys().next().map(|(at, _)| *at)
    }

    /// Sends a signal.
    pub fn signal(&mut self, from: CoreId, to: CoreId) {
        self.note(from, Happening::Signal, u64::from(to.0));
        let usual = self.draw_span(Duration::from_nanos(500), Duration::from_micros(5));
        let delay = self.signal_delay;
        let extra = self.draw_span(Duration::ZERO, delay);
        self.schedule(self.time_of(from) + usual + extra, Event::Signal { to });
    }

    /// Decides what becomes of the next turn of a core's package, which computes for so long
    /// already or not, and which ends then at the latest. Its time passes.
    pub fn package_turn(
        &mut self,
        core: CoreId,
        computes: Option<Duration>,
        until: Option<Instant>,
    ) -> Fate {
        let mut fate = self.draw_fate(core, computes.is_some());
        if fate == Fate::Loops {
            let left = until.map(|until| until.since(self.time_of(core)));
            match (computes, left.filter(|left| *left <= MOST_AT_ONCE)) {
                // Short as it is, it is over before anything else of the core is looked at.
                (Some(span), Some(left)) if span <= left => {
                    self.pass_time(core, span);
                    fate = Fate::Goes;
                }
                (Some(_), Some(left)) => {
                    self.pass_time(core, left);
                    self.interrupt(core, Cause::Timer);
                    fate = Fate::Interrupted;
                }
                _ => self.packages.holds(core, computes.unwrap_or(LOOP), left),
            }
        }
        self.note(core, Happening::Package, u64::from(fate == Fate::Goes));
        fate
    }

    fn draw_fate(&mut self, core: CoreId, loops: bool) -> Fate {
        if self.packages.take_signal(core) {
            return Fate::Interrupted;
        }
        let span = self.draw_span(TURN.0, TURN.1);
        let end = self.time_of(core) + span;
        if let Some(key) = self.signal_to(core, end)
            && (loops || self.draw(2) == 0)
        {
            self.events.remove(&key);
            let wait = key.0.since(self.time_of(core));
            self.pass_time(core, wait);
            self.interrupt(core, Cause::Signal);
            return Fate::Interrupted;
        }
        self.pass_time(core, span);
        if loops {
            return Fate::Loops;
        }
        let generator = &mut self.generator;
        let wrong = self.packages.draw_fault(|bound| generator.next_u64() % bound);
        wrong.unwrap_or(Fate::Goes)
    }

    /// The first signal that comes to a core before `end`.
    fn signal_to(&self, core: CoreId, end: Instant) -> Option<(Instant, u64)> {
        let due = self.events.range(..=(end, u64::MAX));
        let mut signals = due.filter(|(_, event)| **event == Event::Signal { to: core });
        signals.next().map(|(key, _)| *key)
    }

    /// Sets a core's periodic timer.
    pub fn set_tick(&mut self, core: CoreId, period: Option<Duration>) {
        let tick = &mut self.ticks[core.index()];
        *tick = Tick { period, setting: tick.setting + 1 };
        let setting = tick.setting;
        if let Some(period) = period {
            self.schedule(self.time_of(core) + period, Event::Tick { core, setting });
        }
    }

    /// A tick fires.
    pub fn tick(&mut self, core: CoreId, setting: u64) {
        let tick = self.ticks[core.index()];
        if let Some(period) = tick.period.filter(|_| tick.setting == setting) {
            self.interrupt(core, Cause::Tick);
            self.schedule(self.clock + period, Event::Tick { core, setting });
        }
    }
}
