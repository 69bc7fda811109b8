//! Domains of one machine, over simulated hardware: a supervisor creates, resizes, destroys, lends
//! and takes by priority, while domains refuse, hang and die, messages are late, and the supervisor
//! itself dies between any two stores of its ledger and begins anew.
//!
//! * `hardware`: cores, memory and devices, and the words of the ledger.
//! * `guest`: a domain.
//! * `machine`: all of it together, in virtual time.
//! * `users`: what is commanded.
//! * `checks`: what must hold after every step.
//!
//! Invariants: I1 everything has one owner; I2 nobody writes into memory that is not its own; I3 a
//! core is in the space of its owner; I4 generations rise; I5 memory is zero at its first hand-out;
//! I6 each request ends once, in time; I7 minima and limits hold; I8 a supervisor that begins anew
//! disturbs no domain; I11 what is lent comes back; I12 what is to leave leaves in time, asked or
//! not; I14 who was destroyed leaves nothing.

mod checks;
mod guest;
mod hardware;
mod machine;
#[cfg(test)]
mod tests;
mod users;

use crate::options::Options;
use crate::report::{Figure, Report};
use crate::runs::{Outcome, run_seeds};
use crate::trace::Trace;

/// Hardware cores, if nobody says.
const CORES: u32 = 8;

/// Runs the scenario; blocks until all its runs are done. A node is a hardware core here.
pub fn run(options: &Options) -> Report {
    let cores = options.nodes.unwrap_or(CORES).clamp(2, 256);
    run_seeds("domains", options, cores, |seed| simulate(seed, cores as u16, Conduct::default()))
}

/// How the parts of a run behave. Tests have them do wrong, so that the checks are seen to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Conduct {
    /// The words of a unit are lost when the supervisor begins anew (I1, I8).
    loses_words: bool,
    /// Domains go on with memory that they have given back (I2).
    keeps_given_memory: bool,
    /// Domains go on with memory that they have shared, and said that they do not (I2).
    keeps_shared_memory: bool,
    /// Cores that are parked run on (I3).
    never_parks: bool,
    /// Cores start for whoever says so; domains start others' (I3).
    starts_anything: bool,
    /// The next domain of a place has the generation of the last (I4).
    forgets_generations: bool,
    /// Memory is not zeroed (I5).
    scrubs_nothing: bool,
    /// Nobody is told how its request has ended (I6).
    tells_nobody: bool,
    /// A domain gets more cores than its maximum (I7).
    ignores_limits: bool,
    /// The supervisor does not look at the clock (I11, I12).
    has_no_clock: bool,
    /// Devices are not reset (I14).
    leaves_devices: bool,
}

/// What was seen in a run.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    steps: u64,
    done: u64,
    refused: u64,
    created: u64,
    forced: u64,
    lent: u64,
    taken: u64,
    supervisors: u64,
    shared: u64,
}

/// One run.
fn simulate(seed: u64, cores: u16, conduct: Conduct) -> Outcome {
    let mut trace = Trace::default();
    let mut seen = Seen::default();
    let broken = machine::run(seed, cores, conduct, &mut trace, &mut seen).err();
    let figure = |name, value: u64| Figure::new(name, value as f64, "");
    let figures = vec![
        figure("steps", seen.steps),
        figure("commands done", seen.done),
        figure("commands refused", seen.refused),
        figure("domains that ran", seen.created),
        figure("cores taken by force", seen.forced),
        figure("cores lent", seen.lent),
        figure("cores taken by priority", seen.taken),
        figure("supervisors", seen.supervisors),
        figure("times memory was shared", seen.shared),
    ];
    Outcome { trace_hash: trace.hash(), broken, figures }
}
