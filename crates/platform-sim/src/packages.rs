//! What the simulator decides about packages: who has one, whom a signal is still to interrupt,
//! and what goes wrong.

use std::time::Duration;

use nile_abi::call::{USER_BASE, UserSlot};
use nile_abi::{CoreId, Status};
use nile_platform::Fault;

use crate::options::{Options, Program};

/// What a turn takes: at least this, and at most this more.
pub(crate) const TURN: (Duration, Duration) = (Duration::from_nanos(100), Duration::from_micros(3));

/// How long a package loops if nobody signals its core: far longer than a node should wait.
pub(crate) const LOOP: Duration = Duration::from_secs(30);

/// A turn that ends so soon is not broken into.
pub(crate) const MOST_AT_ONCE: Duration = Duration::from_millis(100);

/// One turn of so many goes wrong while there is something left to go wrong.
const GOES_WRONG: u64 = 16;

/// What becomes of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The package runs up to its next call.
    Goes,
    /// The core is signalled before that.
    Interrupted,
    /// The package computes, or loops: now and in all turns that come.
    Loops,
    /// The package does what it may not.
    Faults(Fault),
}

/// The bit of a slot.
fn bit(slot: UserSlot) -> u8 {
    1 << slot.index()
}

/// The packages of all cores.
pub struct Packages {
    programs: Vec<(&'static str, Program)>,
    faults: u32,
    loops: u32,
    cores: Vec<OfCore>,
}

#[derive(Clone, Copy, Default)]
struct OfCore {
    /// The slots of its user half that have a package, a bit each.
    taken: u8,
    /// Whether a signal came while the core was awake, and no turn has ended for it.
    signalled: bool,
    /// For how long the core's present pass leaves it to a package that computes.
    held: Option<Duration>,
    /// Whether that ends by its timer.
    by_timer: bool,
}

impl Packages {
    /// No core has a package.
    pub fn new(options: &Options) -> Packages {
        Packages {
            programs: options.packages.clone(),
            faults: options.faults.package_faults,
            loops: options.faults.package_loops,
            cores: vec![OfCore::default(); options.roles.len()],
        }
    }

    /// The program of this name.
    pub fn find(&self, name: &str) -> Option<Program> {
        self.programs.iter().find(|(known, _)| *known == name).map(|(_, program)| *program)
    }

    /// A package gets a slot of a core, which is free.
    pub fn enter(&mut self, core: CoreId, slot: UserSlot) -> Result<(), Status> {
        let core = &mut self.cores[core.index()];
        if core.taken & bit(slot) != 0 {
            return Err(Status::Exists);
        }
        if core.taken == 0 {
            *core = OfCore::default();
        }
        core.taken |= bit(slot);
        Ok(())
    }

    /// The package of a slot is gone.
    pub fn leave(&mut self, core: CoreId, slot: UserSlot) {
        let core = &mut self.cores[core.index()];
        core.taken &= !bit(slot);
        if core.taken == 0 {
            *core = OfCore::default();
        }
    }

    /// A signal comes to a core that is awake.
    pub fn signal(&mut self, core: CoreId) {
        let core = &mut self.cores[core.index()];
        core.signalled = core.taken != 0;
    }

    /// A core wakes: it looks around anyhow.
    pub fn wake(&mut self, core: CoreId) {
        self.cores[core.index()].signalled = false;
    }

    /// Whether a turn is to end for a signal; told once.
    pub fn take_signal(&mut self, core: CoreId) -> bool {
        std::mem::take(&mut self.cores[core.index()].signalled)
    }

    /// The core's package computes for so long if nobody signals the core, and if its turn has no
    /// sooner end.
    pub fn holds(&mut self, core: CoreId, span: Duration, end: Option<Duration>) {
        let core = &mut self.cores[core.index()];
        core.held = Some(end.map_or(span, |end| span.min(end)));
        core.by_timer = end.is_some_and(|end| end < span);
    }

    /// Whether a package that was left to itself until now is interrupted by its core's timer; told
    /// once.
    pub fn take_timer(&mut self, core: CoreId) -> bool {
        std::mem::take(&mut self.cores[core.index()].by_timer)
    }

    /// For how long the core's pass has left it to a package that computes; told once.
    pub fn take_hold(&mut self, core: CoreId) -> Option<Duration> {
        self.cores[core.index()].held.take()
    }

    /// What goes wrong in this turn, if anything does.
    pub fn draw_fault(&mut self, mut draw: impl FnMut(u64) -> u64) -> Option<Fate> {
        if self.loops > 0 && draw(GOES_WRONG) == 0 {
            self.loops -= 1;
            return Some(Fate::Loops);
        }
        if self.faults > 0 && draw(GOES_WRONG) == 0 {
            self.faults -= 1;
            let stray = Fault { kind: Fault::PAGE, code: 0, at: 0, address: draw(USER_BASE) };
            let exception = Fault { kind: Fault::EXCEPTION, address: 0, ..stray };
            return Some(Fate::Faults(if draw(2) == 0 { stray } else { exception }));
        }
        None
    }
}
