//! Domains of one machine: a supervisor makes one, calls a service in it, ends it, and makes
//! another one of the same cores and memory; takes back by force what a domain does not give; and
//! hears what one says that panics.
//!
//! * [`supervise`]: the supervisor's loop; [`guest`]: what runs in a domain; `disks`: one gets the
//!   disk that another has had; `resize`: memory comes and goes while a domain runs; `flood`: one
//!   sends frames without end; [`attacks`]: a domain reaches for what is not its own; `red`: how it
//!   does that where no machine is needed; [`pages`]: what the guard costs; [`times`]: how long
//!   commands take.

pub mod attacks;
mod disks;
mod flood;
pub mod guest;
pub mod pages;
mod red;
mod resize;
mod supervise;
pub mod times;

use alloc::format;
use core::time::Duration;

use nile_domain::{Command, Create, Limits, Name, Phase, Resize};
use nile_kernel::Core;
use nile_platform::{Machine, Manager, Misbehave};

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use guest::Say;
use supervise::Running;

/// How long a domain may take for what it is told.
const WAIT: Duration = Duration::from_secs(5);

/// Memory of domains that flood and are flooded, in units.
const FLOODED: u32 = 8;

/// Starts this core's part: domains of so many `cores` and `units` of 2 MiB.
pub fn start<M: Misbehave>(core: &Core<M>, arguments: &Arguments<'_>) {
    if !conducts(core) {
        return;
    }
    let cores = arguments.number("cores", 2) as u16;
    let units = arguments.number("units", 32) as u32;
    let core = core.clone();
    conduct(&core.clone(), "domains", move |findings| async move {
        match Running::new(&core) {
            Some(mut running) => check(&core, &mut running, &findings, cores, units).await,
            None => findings.check(
                false,
                format_args!(
                    "this node supervises no machine: its configuration has no [supervisor]"
                ),
            ),
        }
    });
}

async fn check<M: Misbehave>(
    core: &Core<M>,
    running: &mut Running<M>,
    findings: &Findings,
    cores: u16,
    units: u32,
) {
    let Some(domains) = core.machine().manager().and_then(|it| it.domains()) else { return };
    let parked = (0..domains.cores()).filter(|core| domains.is_parked(*core)).count();
    findings
        .check(parked == usize::from(domains.cores()), format_args!("{parked} cores are parked"));
    let Some(name) = Name::new(b"web") else { return };
    let limits = Limits { cores: (1, cores), units: (1, units), priority: 0 };
    let create = Command::Create(Create { name, cores, units, limits, device: None });
    let too_small = Command::Create(Create { name, cores, units: 1, limits, device: None });
    let destroy = |force| Command::Destroy { name, force };
    let micros = |since: nile_abi::Instant| core.now().since(since).as_micros() as u64;

    let refused = running.carry_out(&too_small).await;
    let why = refused.err().unwrap_or_default();
    findings.check(why.contains("too little memory"), format_args!("2 MiB are too little: {why}"));
    let gone = running.until(WAIT, |it| it.ledger().named(name).is_none()).await;
    findings.check(gone, format_args!("what was not built is still there"));

    for (round, how) in ["asked", "asked", "panics", "hangs", "asked"].into_iter().enumerate() {
        let begun = core.now();
        let made = running.carry_out(&create).await;
        if findings.expect(made, &format!("domain {round}")).is_none() {
            return;
        }
        findings.figure(format!("create_{round}_us"), micros(begun));
        let slot = running.ledger().named(name).map_or(0, |it| it.id.slot);
        findings.check(ask(running, slot).await, format_args!("domain {round} does not compute"));
        match how {
            "panics" => {
                running.say(slot, &Say::Panic.cell(&[]));
                // Its managing core begins anew, and says hello once more.
                let seat = domains.seat(slot);
                let said = running.until(WAIT, |_| {
                    seat.as_ref()
                        .is_some_and(|it| it.last_words().contains("the supervisor wants it"))
                });
                findings.check(said.await, format_args!("no last words"));
                findings.check(ask(running, slot).await, format_args!("it does not go on"));
            }
            "hangs" => {
                running.say(slot, &Say::Hang.cell(&[]));
                core.sleep(Duration::from_millis(20)).await;
            }
            _ => {}
        }
        let begun = core.now();
        let ended = running.carry_out(&destroy(how == "hangs")).await;
        findings.expect(ended, &format!("the end of domain {round}"));
        findings.figure(format!("destroy_{round}_us"), micros(begun));
        let taken = running.engine.parked.since(begun).as_micros() as u64;
        findings.figure(format!("cores_back_{round}_us"), taken);
        let ledger = running.ledger();
        let free = ledger.cores_with(|it| it.phase == Phase::Free).len();
        findings.check(free == usize::from(domains.cores()), format_args!("{free} cores are free"));
        let left = ledger.units_with(|it| it.phase != Phase::Free);
        findings.check(left == 0, format_args!("{left} units are not free"));
    }
    check_memory(running, findings, &create, &destroy(false)).await;
    disks::check(running, findings, cores, units).await;
    resize::check(core, running, findings, cores, units).await;
    check_force(running, findings, name, [&create, &destroy(false)]).await;
    flood::check(running, findings, FLOODED).await;
}

/// A core that hangs is taken by force alone; the domain goes on without it, and with it when it
/// comes back.
async fn check_force<M: Misbehave>(
    running: &mut Running<M>,
    findings: &Findings,
    name: Name,
    [create, destroy]: [&Command; 2],
) {
    let made = running.carry_out(create).await;
    findings.expect(made, "a domain that keeps a core");
    let all = running.ledger().cores_with(|it| it.is_of(1)).len() as u16;
    let resize =
        |cores, force| Command::Resize(Resize { name, cores: Some(cores), units: None, force });
    let asked = running.carry_out(&resize(all - 1, false)).await.err().unwrap_or_default();
    findings.check(asked.contains("try --force"), format_args!("it is asked, and says: {asked}"));
    for (cores, force, what) in [(all - 1, true, "by force"), (all, false, "back")] {
        let done = running.carry_out(&resize(cores, force)).await;
        findings.expect(done, &format!("a core that hangs, {what}"));
        let has = running.ledger().cores_with(|it| it.is_of(1)).len();
        findings.check(has == usize::from(cores), format_args!("{what}: it has {has} cores"));
        findings.check(ask(running, 1).await, format_args!("{what}: it does not compute"));
    }
    let ended = running.carry_out(destroy).await;
    findings.expect(ended, "its end");
}

/// What a domain has written, the next one on its memory does not find; if memory is not zeroed
/// between the two, it does.
async fn check_memory<M: Misbehave>(
    running: &mut Running<M>,
    findings: &Findings,
    create: &Command,
    destroy: &Command,
) {
    for leaves_memory in [true, false] {
        let how = if leaves_memory { "left as it is" } else { "zeroed" };
        let mut said = [None; 2];
        for (said, say) in said.iter_mut().zip([Say::Write, Say::Find]) {
            let made = running.carry_out(create).await;
            findings.expect(made, &format!("a domain, memory {how}"));
            *said = tell(running, 1, &say.cell(&[])).await;
            running.leaves_all = leaves_memory && say == Say::Write;
            let ended = running.carry_out(destroy).await;
            findings.expect(ended, &format!("its end, memory {how}"));
        }
        running.leaves_all = false;
        let [written, found] = said.map(Option::unwrap_or_default);
        findings.check(written > 100_000, format_args!("{written} words are written"));
        let is_right = if leaves_memory { found > written / 2 } else { found == 0 };
        let what = format_args!("memory {how}: the next domain finds {found} of {written} words");
        findings.check(is_right, what);
        findings.figure(format!("words_found_memory_{}", how.replace(' ', "_")), found);
    }
}

/// Has a domain call a service through its registry; whether the answer is right.
async fn ask<M: Machine>(running: &mut Running<M>, slot: u8) -> bool {
    tell(running, slot, &Say::Compute.cell(&[2, 3])).await == Some(9)
}

/// What a domain answers.
async fn tell<M: Machine>(running: &mut Running<M>, slot: u8, cell: &[u8]) -> Option<u64> {
    running.answer = None;
    running.say(slot, cell);
    running.until(WAIT, |it| it.answer.is_some()).await;
    running.answer
}
