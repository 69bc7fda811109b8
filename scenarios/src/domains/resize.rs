//! Memory comes and goes while a domain runs: it uses what came, refuses to give what it has not
//! free, and what it wrote into memory that it gave back nobody else finds.

use alloc::format;

use nile_domain::{Command, Create, Limits, Name, Phase, Resize};
use nile_kernel::Core;
use nile_platform::Machine;

use super::guest::Say;
use super::supervise::Running;
use super::{WAIT, tell};
use crate::conduct::Findings;

/// Checks it with a domain of so many cores and units, which gets all others, and with another one
/// that follows on what it gave back.
pub async fn check<M: Machine>(
    core: &Core<M>,
    running: &mut Running<M>,
    findings: &Findings,
    cores: u16,
    units: u32,
) {
    let names = [b"web", b"log"].map(|name| Name::new(name));
    let [Some(web), Some(log)] = names else { return };
    let all = running.ledger().units_with(|it| it.phase == Phase::Free);
    let more = all - units;
    let limits = Limits { cores: (1, cores), units: (1, all), priority: 0 };
    let create =
        |name, cores, units| Command::Create(Create { name, cores, units, limits, device: None });
    let destroy = |name| Command::Destroy { name, force: false };
    let resize = |units| Command::Resize(Resize { name: web, cores: None, units, force: false });
    let micros = |since: nile_abi::Instant| core.now().since(since).as_micros() as u64;

    for leaves_memory in [true, false] {
        let how = if leaves_memory { "left as it is" } else { "zeroed" };
        let made = running.carry_out(&create(web, cores - 1, units)).await;
        findings.expect(made, &format!("a domain, memory {how}"));
        let mut filled = [0; 2];
        for (filled, units) in filled.iter_mut().zip([units, all]) {
            let begun = core.now();
            let resized = running.carry_out(&resize(Some(units))).await;
            findings.expect(resized, &format!("{units} units, memory {how}"));
            findings.figure(format!("memory_to_{units}_units_us"), micros(begun));
            *filled = tell(running, 1, &Say::Fill.cell(&[])).await.unwrap_or_default();
        }
        let [before, after] = filled;
        findings.check(
            after == before + u64::from(more),
            format_args!("it uses {after} pieces of 2 MiB, before it got {more} more {before}"),
        );
        let too_few = running.carry_out(&resize(Some(1))).await.err().unwrap_or_default();
        let missing = 2 * (u64::from(all - 1) - after);
        findings.check(
            too_few.contains(&format!("{missing} MiB of it are in use")),
            format_args!("{missing} MiB are in use, and it says: {too_few}"),
        );
        let ledger = running.ledger();
        let has = ledger.units_with(|it| it.is_of(1));
        findings.check(has == all, format_args!("after that it has {has} units"));

        running.leaves_all = leaves_memory;
        let begun = core.now();
        let resized = running.carry_out(&resize(Some(units))).await;
        findings.expect(resized, &format!("back to {units} units, memory {how}"));
        findings.figure(format!("memory_back_{}_us", how.replace(' ', "_")), micros(begun));
        let is_clean = |it: &Running<M>| it.ledger().units_with(|it| it.phase == Phase::Dirty) == 0;
        findings.check(running.until(WAIT, is_clean).await, format_args!("units stay dirty"));
        running.leaves_all = false;

        // The next domain has what was given back, and nothing else.
        let made = running.carry_out(&create(log, 1, more)).await;
        findings.expect(made, &format!("another domain, memory {how}"));
        let slot = running.ledger().named(log).map_or(0, |it| it.id.slot);
        let found = tell(running, slot, &Say::Find.cell(&[])).await.unwrap_or_default();
        let is_right = if leaves_memory { found > 0 } else { found == 0 };
        findings.check(is_right, format_args!("memory {how}: the next one finds {found} words"));
        findings.figure(format!("words_found_given_back_{}", how.replace(' ', "_")), found);
        for name in [log, web] {
            let ended = running.carry_out(&destroy(name)).await;
            findings.expect(ended, &format!("the end of {name}, memory {how}"));
        }
    }
}
