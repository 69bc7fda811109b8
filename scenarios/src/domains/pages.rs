//! What the guard of a domain costs: a page of memory that comes and goes, with it and without. In
//! an emulator that counts instructions as time (`nile boot --count-instructions`) the figures are
//! instructions, and the same on every run.

use alloc::format;
use core::time::Duration;

use nile_domain::{Command, Create, Limits, Name};
use nile_kernel::Core;
use nile_platform::Machine;

use super::guest::Say;
use super::supervise::Running;
use crate::conduct::{Findings, conduct, conducts};

/// Memory of the domain, in units.
const UNITS: u32 = 8;

/// How long the supervisor leaves the processor to the domain.
const QUIET: Duration = Duration::from_millis(50);

/// How long the answer may take after that.
const LONG: Duration = Duration::from_secs(5);

/// Starts this core's part.
pub fn start<M: Machine>(core: &Core<M>) {
    if !conducts(core) {
        return;
    }
    let core = core.clone();
    conduct(&core.clone(), "domain-pages", move |findings| async move {
        match (Running::new(&core), Name::new(b"web")) {
            (Some(mut running), Some(name)) => {
                running.all_parked(LONG).await;
                for has_guard in [true, false] {
                    count(&core, &mut running, &findings, name, has_guard).await;
                }
            }
            _ => findings.check(false, format_args!("this node supervises no machine")),
        }
    });
}

async fn count<M: Machine>(
    core: &Core<M>,
    running: &mut Running<M>,
    findings: &Findings,
    name: Name,
    has_guard: bool,
) {
    let limits = Limits { cores: (1, 1), units: (1, UNITS), priority: 0 };
    let create = Command::Create(Create { name, cores: 1, units: UNITS, limits, device: None });
    running.has_no_guard = !has_guard;
    let made = running.carry_out(&create).await;
    findings.expect(made, "a domain is made");
    running.answer = None;
    running.say(1, &Say::Pages.cell(&[]));
    core.sleep(QUIET).await;
    running.until(LONG, |it| it.answer.is_some()).await;
    let how = if has_guard { "guarded" } else { "without" };
    findings.check(running.answer.is_some(), format_args!("no answer, {how}"));
    findings.figure(format!("page {how}"), running.answer.unwrap_or_default());
    let ended = running.carry_out(&Command::Destroy { name, force: true }).await;
    findings.expect(ended, "it ends");
}
