//! What it costs that the packages of a core take turns: two of them pass each other a token by
//! their channels, and wait for it, so that each pass has the kernel give the core to the other
//! one.
//!
//! The figure is the middle round's time for one pass, in hundredths of a nanosecond (of an
//! instruction where instructions are counted): one message, the system calls that wake and wait,
//! and the switch, for which the core's loop makes no pass. With `beside=1` a third package loops
//! there, and a pass may have to wait for the end of its slice.

use alloc::format;
use alloc::vec::Vec;

use nile_abi::{Role, RoleSet, Status};
use nile_channels::TOOK;
use nile_kernel::{Core, Ended, PackageLimits, ServiceCalls};
use nile_platform::Machine;

use crate::arguments::Arguments;
use crate::conduct::{Findings, conduct, conducts};
use crate::talk::Talk;

/// Asks a worker to run the two packages: how often the token comes and goes.
const RUN: u32 = 23;

/// Added to what the worker is asked: a third package loops beside the two.
const BESIDE: u64 = 1 << 32;

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>, arguments: &Arguments<'_>) {
    let rounds = arguments.number("rounds", 3).max(1);
    let times = arguments.number("times", 300).clamp(1, BESIDE - 1);
    let beside = if arguments.number("beside", 0) > 0 { BESIDE } else { 0 };
    Talk::serve(core, RUN, answer);
    if conducts(core) {
        let core = core.clone();
        conduct(&core.clone(), "switch-cost", move |findings| async move {
            findings
                .expect(measure(&core, rounds, times, beside, &findings).await, "no measurement");
        });
    }
}

/// Runs the packages as often as it is asked to; tells what the one that leads says, or what the
/// other one does, if that is not well.
async fn answer<M: Machine>(core: &Core<M>, talk: &Talk<M>) -> Result<(), Status> {
    let own = core.id().0;
    loop {
        let asked = talk.listen().await?;
        let (times, beside) = (asked % BESIDE, asked & BESIDE > 0);
        let begin = |name: &str, argument: &str| {
            let image = core.find_package(name).ok_or(Status::NotFound)?;
            let limits = PackageLimits { shares: true, ..PackageLimits::default() };
            let calls = ServiceCalls::new(&core.stl());
            core.run_package(image, argument.as_bytes(), limits, calls)
        };
        let token = |turn: &str| format!("{own} {own} token {times} {turn}");
        let third = if beside { Some(begin("unruly", "loop")?) } else { None };
        let leads = begin("channels", &token("leads"))?;
        let follows = begin("channels", &token(""))?;
        let mut codes = [0; 2];
        for (package, code) in [leads, follows].into_iter().zip(&mut codes) {
            *code = match package.ended().await.ended {
                Ended::Exited(code) => code,
                other => {
                    core.machine().log(format_args!("a package ended: {other}"));
                    u64::MAX
                }
            };
        }
        if let Some(third) = third {
            third.stop();
            third.ended().await;
        }
        talk.tell(if codes[1] == 0 { codes[0] } else { codes[1] }).await?;
    }
}

async fn measure<M: Machine>(
    core: &Core<M>,
    rounds: u64,
    times: u64,
    beside: u64,
    findings: &Findings,
) -> Result<(), Status> {
    let board = core.machine().board();
    let only_worker = RoleSet::EMPTY.with(Role::Worker);
    let Some(worker) = core.peers().find(|id| board.record(*id).roles() == only_worker) else {
        findings.check(false, format_args!("no core of this node is a worker and nothing else"));
        return Ok(());
    };
    if core.find_package("channels").is_none() {
        findings.check(false, format_args!("the node has no package `channels`"));
        return Ok(());
    }
    let talk = Talk::start(core, worker, RUN).await?;
    let record = board.record(worker);
    let before = (record.system_calls(), record.polls());
    let mut took = Vec::new();
    for _ in 0..rounds {
        let code = talk.ask(times | beside).await?;
        let pass = code.checked_sub(TOOK).filter(|_| code != u64::MAX);
        let Some(pass) = findings.expect(pass.ok_or(code), "the token got lost") else {
            return Ok(());
        };
        took.push(pass);
    }
    took.sort_unstable();
    findings.figure("switch", took[took.len() / 2]);
    // Whoever has passed the token waits by a call: nobody had it without a switch.
    let (calls, polls) = (record.system_calls() - before.0, record.polls() - before.1);
    let passes = 2 * rounds * times;
    findings.check(calls >= passes, format_args!("{calls} system calls for {passes} passes"));
    // Nor by a pass of the core's loop for each, which polls both tasks; beside others there are
    // fewer passes for each slice.
    let lends = beside > 0 || polls < passes;
    findings.check(lends, format_args!("{polls} polls of tasks for {passes} passes"));
    Ok(())
}
