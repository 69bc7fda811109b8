//! What scenarios are made of: waiting, idling, and telling what went wrong.

use std::time::Duration;

use nile_abi::{CoreId, Generation};
use nile_platform::{CorePhase, Machine, Manager, NodePhase, Outcome, Sleeper};
use nile_platform_hosted::Hosted;

/// Whether a script went as it should; if not, why.
pub type Played = Result<(), String>;

/// How long a script waits for something before it gives up; only failures take as long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Fails a script unless something holds.
macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}
pub(crate) use ensure;

/// Plays a script on the management core and ends the node.
pub fn play(machine: &Hosted, script: impl FnOnce(&Hosted) -> Played) -> Outcome {
    running(machine);
    let outcome = match script(machine) {
        Ok(()) => Outcome::Success,
        Err(why) => {
            machine.log(format_args!("FAILED: {why}"));
            Outcome::Failure
        }
    };
    manager(machine).power_off(outcome);
    outcome
}

/// The manager of a management core.
pub fn manager(machine: &Hosted) -> &nile_platform_hosted::HostedManager {
    machine.manager().expect("scripts are played on a management core")
}

/// Says that this core's loop runs.
pub fn running(machine: &Hosted) {
    machine.board().record(machine.core()).set_phase(CorePhase::Running);
}

/// The loop of a core with nothing to do but `work` whenever it is woken.
pub fn serve(machine: &Hosted, mut work: impl FnMut()) -> Outcome {
    running(machine);
    let bell = machine.board().notifier().doorbells().of(machine.core()).expect("a core's bell");
    let record = machine.board().record(machine.core());
    loop {
        let sleep = bell.prepare();
        if machine.board().phase() == NodePhase::Stopping {
            return Outcome::Success;
        }
        work();
        if !sleep.is_over() {
            record.count_sleep();
            machine.sleep(&sleep, None);
        }
    }
}

/// Sleeps until `done`, looking whenever this core is woken and now and then besides.
pub fn wait_for(machine: &Hosted, what: &str, mut done: impl FnMut() -> bool) -> Played {
    let bell = machine.board().notifier().doorbells().of(machine.core()).expect("a core's bell");
    let limit = machine.now() + PATIENCE;
    while machine.now() < limit {
        let sleep = bell.prepare();
        if done() {
            return Ok(());
        }
        machine.sleep(&sleep, Some(machine.now() + Duration::from_millis(5)));
    }
    Err(format!("gave up waiting: {what}"))
}

/// Waits until `core` runs as its incarnation `generation`.
pub fn wait_until_runs(machine: &Hosted, core: CoreId, generation: u32) -> Played {
    let record = machine.board().record(core);
    wait_for(machine, &format!("{core} runs as g{generation}"), || {
        record.generation() == Generation(generation) && record.phase() == CorePhase::Running
    })
}

/// Makes `core` look around.
pub fn wake(machine: &Hosted, core: CoreId) {
    machine.board().notifier().doorbells().wake(core, machine);
}
