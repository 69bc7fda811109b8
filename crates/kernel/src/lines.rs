//! The lines by which this core's devices interrupt: which core, whether they may, and the guard
//! against those that do so for nothing. While a line is masked, the core's timer has it look at
//! the device.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::{CoreId, Instant, Status};
use nile_device::{Gate, Guard, Line, LineState, Verdict};
use nile_platform::{Board, CorePhase, Machine};

/// How often a core looks at a device whose line is masked.
const LOOK: Duration = Duration::from_millis(1);

/// How often at one whose line interrupts another core, which may have stopped.
const LOOK_BESIDE: Duration = Duration::from_millis(100);

/// The lines of the devices that this core drives.
#[derive(Default)]
pub struct Lines(RefCell<Vec<Entry>>);

struct Entry {
    line: Line,
    state: LineState,
    guard: Guard,
}

impl Lines {
    /// A device was opened whose line is this. It goes on as the last incarnation had it, but that
    /// no storm is remembered.
    pub fn add<M: Machine>(&self, machine: &M, line: Line) {
        if self.0.borrow().iter().any(|it| it.line == line) {
            return;
        }
        let (board, own) = (machine.board(), machine.core());
        let new = LineState { core: own, gate: Gate::Open, storms: 0 };
        let mut state = board.record(own).line(line).unwrap_or(new);
        if state.gate == Gate::Storm {
            state.gate = Gate::Open;
        }
        if state.core != own && machine.route(line, state.core).is_err() {
            state.core = own;
        }
        machine.mask(line, state.gate == Gate::Masked);
        board.record(own).set_line(line, state);
        let guard = Guard::new(interrupts(board, line, &state));
        self.0.borrow_mut().push(Entry { line, state, guard });
    }

    /// Whether there are none, as on most cores, in most passes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Looks whether a line interrupts for nothing; `done` is how much its device has done.
    pub fn look<M: Machine>(&self, machine: &M, done: impl Fn(Line) -> u64) {
        for it in &mut *self.0.borrow_mut() {
            let board = machine.board();
            if it.state.core != machine.core() && is_gone(board.record(it.state.core).phase()) {
                machine.log(format_args!("{} is back, as {} is gone", it.line, it.state.core));
                // It may always interrupt its own.
                let _ = it.route(machine, machine.core());
            }
            if it.state.gate == Gate::Masked {
                continue;
            }
            let came = interrupts(board, it.line, &it.state);
            match it.guard.look(came, || done(it.line), || machine.now()) {
                None => continue,
                Some(Verdict::Open) => it.state.gate = Gate::Open,
                Some(Verdict::Mask(pause)) => {
                    it.state.gate = Gate::Storm;
                    it.state.storms = it.state.storms.saturating_add(1);
                    if it.state.storms.is_power_of_two() {
                        machine.log(format_args!(
                            "{} interrupts for nothing: it is masked for {} ms (storm {})",
                            it.line,
                            pause.as_millis(),
                            it.state.storms
                        ));
                    }
                }
            }
            it.say(machine);
        }
    }

    /// When the core has to look at its devices at the latest, whatever else it does.
    pub fn next_look(&self, now: impl FnOnce() -> Instant, own: CoreId) -> Option<Instant> {
        let lines = self.0.borrow();
        let pause = |it: &Entry| match it.state.gate {
            Gate::Open => (it.state.core != own).then_some(LOOK_BESIDE),
            Gate::Masked | Gate::Storm => Some(LOOK),
        };
        lines.iter().filter_map(pause).min().map(|pause| now() + pause)
    }

    /// Has a line interrupt a core of the node from now on. `NotFound` if this core does not drive
    /// the device, or there is no such core; `Denied` where the machine cannot.
    pub fn route<M: Machine>(&self, machine: &M, line: Line, core: CoreId) -> Result<(), Status> {
        let mut lines = self.0.borrow_mut();
        let it = lines.iter_mut().find(|it| it.line == line).ok_or(Status::NotFound)?;
        if core.index() >= machine.board().cores() {
            return Err(Status::NotFound);
        }
        it.route(machine, core)
    }

    /// Masks a line, or opens it. `NotFound` if this core does not drive the device.
    pub fn mask<M: Machine>(&self, machine: &M, line: Line, is_masked: bool) -> Result<(), Status> {
        let mut lines = self.0.borrow_mut();
        let it = lines.iter_mut().find(|it| it.line == line).ok_or(Status::NotFound)?;
        it.state.gate = if is_masked { Gate::Masked } else { Gate::Open };
        it.guard = Guard::new(interrupts(machine.board(), line, &it.state));
        it.say(machine);
        Ok(())
    }
}

impl Entry {
    fn route<M: Machine>(&mut self, machine: &M, core: CoreId) -> Result<(), Status> {
        machine.route(self.line, core)?;
        self.state.core = core;
        self.guard = Guard::new(interrupts(machine.board(), self.line, &self.state));
        if self.state.gate == Gate::Storm {
            self.state.gate = Gate::Open;
        }
        self.say(machine);
        Ok(())
    }

    /// Tells the machine and the other cores what is so now.
    fn say<M: Machine>(&self, machine: &M) {
        machine.mask(self.line, self.state.gate != Gate::Open);
        machine.board().record(machine.core()).set_line(self.line, self.state);
    }
}

/// Whether a core will handle no interrupts for long.
fn is_gone(phase: CorePhase) -> bool {
    matches!(phase, CorePhase::Leaving | CorePhase::Away | CorePhase::Stopped)
}

/// How often a line has interrupted the core that it does now.
fn interrupts(board: &Board, line: Line, state: &LineState) -> u64 {
    board.record(state.core).line_interrupts(line)
}
