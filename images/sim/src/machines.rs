//! A machine that is shared out while everything goes wrong: the supervisor's managing core dies
//! at any step and in the midst of what it does to the machine; domains panic, hang, end and keep
//! cores; and a user commands anything at any moment. One domain, *red*, does nothing but beat, and
//! nothing of this reaches it.
//!
//! All nodes run the whole kernel. The supervisor's loop is that of the service `domains`, and a
//! domain's end of domcon is the one that every domain has. What is looked at besides what ends
//! every run ([`nile_platform_sim::supervised`]: I1 to I5): each command ends once and in time
//! (I6); limits hold (I7); red has the same cores and memory from its beginning to its end, none of
//! its cores begins twice, and it beats on, whoever supervises (I8). Domains have parts of the
//! supervisor's disk, where each finds its own, and nobody else's.
//!
//! * `user`: what is commanded, and what is seen.
//! * `stamps`: what domains do with their parts of a disk.
//! * `dying`: the machine as a supervisor has it that dies.

mod dying;
mod stamps;
mod user;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use nile_abi::{CoreId, Generation};
use nile_kernel::{Config, Core};
use nile_node::Programs;
use nile_platform::{Loop, Machine, Manager, Misbehave, Outcome};
use nile_platform_sim::{
    DiskFaults, DiskOptions, Faults, Image, MachineOptions, Options, Plan, SimMachine, Text,
    simulate_machine,
};
use nile_scenarios::Scenarios;
use nile_services::domains::supervise::{Pace, Running};

use crate::{Nodes, PACKAGES, STORE};
use dying::Dying;
use user::{RED, User};

pub use user::Counts;

/// What a machine has to give.
const CORES: u16 = 6;
const UNITS: u64 = 24;
const PARTS: u16 = 3;
const UNIT: u64 = 2 << 20;

/// For how long commands are given.
const SPAN: Duration = Duration::from_secs(6);

/// How often red beats, and how often the others look at what they are to do.
const BEAT: Duration = Duration::from_millis(1);

/// What goes wrong, so that something does not hold which must.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Misdeed {
    /// Nothing does.
    Nothing,
    /// Memory is not zeroed (I5).
    LeavesMemory,
    /// A supervisor that begins anew knows nothing (I8).
    ForgetsLedger,
    /// No core is taken by force (I6).
    TakesNothing,
    /// Domains get more than their user wants them to have (I7).
    GivesTooMuch,
    /// With a core that is taken by force, one of red's is (I8).
    TakesRed,
    /// Parts of the disk are not made zero.
    LeavesParts,
}

/// What came of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tried {
    /// What happened, as a hash; zero if the run was called off.
    pub trace_hash: u64,
    /// What did not hold.
    pub broken: Option<String>,
    /// What was seen.
    pub counts: Counts,
}

/// Runs it to its end.
pub fn machines(seed: u64, misdeed: Misdeed) -> Tried {
    let user = Rc::new(RefCell::new(User::new(seed, misdeed)));
    let image = Machines { user: user.clone(), misdeed };
    let supervisor = Options {
        seed,
        roles: Config::default().roles(1).expect("the default fits any number of cores"),
        memory_bytes: 32 << 20,
        pool_bytes: 0,
        wake_mode: None,
        packages: PACKAGES.into(),
        disks: vec![DiskOptions {
            bytes: u64::from(PARTS) * stamps::PART + (1 << 20),
            contents: Default::default(),
            faults: DiskFaults::default(),
        }],
        files: Vec::new(),
        faults: Faults {
            signal_delay: Duration::from_micros(seed % 3 * 20),
            core_stops: (seed % 8) as u32,
            stops_within: SPAN,
            stop_manager: true,
            ..Faults::default()
        },
        limit: Duration::from_secs(90),
    };
    let memory = UNITS * UNIT;
    let parts = (PARTS, stamps::PART);
    let options = MachineOptions { supervisor, cores: CORES, memory, parts, zeroes: true };
    let ended = simulate_machine(&options, &image);
    let User { broken, counts, .. } = &*user.borrow();
    let (trace_hash, broken) = match ended {
        Ok(finished) => (finished.trace_hash, broken.clone()),
        Err(stuck) => (0, Some(broken.clone().unwrap_or_else(|| stuck.to_string()))),
    };
    Tried { trace_hash, broken, counts: *counts }
}

struct Machines {
    user: Rc<RefCell<User>>,
    misdeed: Misdeed,
}

impl Image for Machines {
    fn plan(&self, text: &Text, cores: usize, memory: u64) -> Result<Plan, String> {
        Nodes { config: &Config::default(), command: "" }.plan(text, cores, memory)
    }

    fn begin(&self, machine: SimMachine, text: Option<&Text>) -> Box<dyn Loop> {
        let (user, misdeed) = (self.user.clone(), self.misdeed);
        let Some(Text { program, config: written }) = text else {
            return Box::new(Core::start(machine, &Config::default(), |core| {
                let own = core.clone();
                core.spawn(async move { supervise(&own, &user, misdeed).await });
            }));
        };
        let mut config = Config::parse(written).expect("the domain was planned with it");
        config.packages = STORE;
        let is_red = *written == User::config(RED);
        Box::new(Core::start(machine, &config, |core| {
            Scenarios::start(core, program);
            let own = core.clone();
            let is_new =
                (own.id(), own.machine().generation()) == (CoreId::BOOT, Generation::FIRST);
            user.borrow_mut().counts.began += u64::from(is_new);
            let (disks, of_disk) = (core.clone(), user.clone());
            core.spawn(async move { stamps::stamp(&disks, &of_disk).await });
            core.spawn(async move {
                match is_red {
                    true => beat(&own, &user).await,
                    false => misbehave(&own, &user).await,
                }
            });
        }))
    }
}

/// An incarnation of the supervisor, and its user, who outlives it.
async fn supervise(core: &Core<SimMachine>, user: &Rc<RefCell<User>>, misdeed: Misdeed) {
    let Some(domains) = core.machine().manager().and_then(|it| it.domains()) else { return };
    let dying = Dying { machine: domains, user, misdeed };
    let is_first = user.borrow_mut().begins();
    if misdeed == Misdeed::ForgetsLedger && !is_first {
        use std::sync::atomic::Ordering::Relaxed;
        domains.ledger().words().iter().for_each(|word| word.store(0, Relaxed));
    }
    let mut running = Running::begin(&dying, core.now()).expect("there is room for a ledger");
    User::say_what_for(&mut running);
    while user.borrow_mut().turn(&mut running, core.now()) {
        match running.turn(&dying, core.now()) {
            Pace::AtOnce => {}
            _ => core.sleep(Duration::from_micros(200)).await,
        }
    }
    core.finish(Outcome::Success);
}

/// What red does.
async fn beat(core: &Core<SimMachine>, user: &Rc<RefCell<User>>) {
    let machine = core.machine();
    if machine.generation() != Generation::FIRST {
        user.borrow_mut().note(format!("I8: red's {} began anew", core.id()));
    }
    while core.id() == CoreId::BOOT {
        user.borrow_mut().hear(core.now());
        core.sleep(BEAT).await;
    }
}

/// What the others do: for a while nothing.
async fn misbehave(core: &Core<SimMachine>, user: &Rc<RefCell<User>>) {
    let (span, what) = {
        let mut user = user.borrow_mut();
        (Duration::from_millis(user.draw(400)), user.draw(8))
    };
    core.sleep(span).await;
    match (what, core.id()) {
        (0, _) => {
            // As a panic, which nobody is told of outside.
            std::panic::resume_unwind(Box::new(String::from("it was drawn")));
        }
        (1, _) => {
            core.machine().shut_out();
            SimMachine::loop_for_ever();
        }
        (2, CoreId::BOOT) => core.finish(Outcome::Failure),
        (3, CoreId::BOOT) => core.finish(Outcome::Success),
        (2..5, _) => {
            while !core.machine().board().record(CoreId::BOOT).is_away(core.id()) {
                core.sleep(BEAT).await;
            }
            core.machine().shut_out();
            SimMachine::loop_for_ever();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_red() {
        for seed in 1..=2 {
            let tried = machines(seed, Misdeed::Nothing);
            assert_eq!(tried.broken, None, "seed {seed}");
            assert!(tried.counts.stamped > 0, "seed {seed}: nobody used a part of the disk");
            assert_eq!(tried, machines(seed, Misdeed::Nothing), "the same seed, the same run");
        }
    }

    #[test]
    fn what_must_not_be_is_found_out() {
        for (misdeed, found) in [
            (Misdeed::LeavesMemory, "I5"),
            (Misdeed::ForgetsLedger, "I8"),
            (Misdeed::TakesNothing, "I6"),
            (Misdeed::GivesTooMuch, "I7"),
            (Misdeed::TakesRed, "I8"),
            (Misdeed::LeavesParts, "RFfuse"),
        ] {
            let mut broken = (1..=4).filter_map(|seed| machines(seed, misdeed).broken);
            assert!(broken.any(|it| it.contains(found)), "{misdeed:?}: no {found}");
        }
    }
}
