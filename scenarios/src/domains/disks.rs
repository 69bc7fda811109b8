//! A domain that has a disk keeps a dataset there. The next one that gets the disk finds nothing of
//! it, unless the disk is left as it is.

use alloc::format;
use alloc::vec::Vec;

use nile_domain::{Command, Create, Limits, Name, Phase};
use nile_platform::Machine;

use super::guest::{STORED_BYTES, Say};
use super::supervise::Running;
use super::tell;
use crate::conduct::Findings;

/// Checks it with domains of so many cores and units, if the machine has disks for them: with the
/// first, and the last, which is a part of the supervisor's if it has parts.
pub async fn check<M: Machine>(
    running: &mut Running<M>,
    findings: &Findings,
    cores: u16,
    units: u32,
) {
    let names = [b"web", b"log"].map(|name| Name::new(name));
    let [Some(web), Some(log)] = names else { return };
    let disks = running.ledger().sizes().devices;
    findings.figure("disks_for_domains", u64::from(disks));
    let limits = Limits { cores: (1, cores), units: (1, units), priority: 0 };
    let destroy = |force| Command::Destroy { name: web, force };
    let mut which: Vec<u16> =
        [0, disks.saturating_sub(1)].into_iter().filter(|it| *it < disks).collect();
    which.dedup();
    for (disk, leaves_all) in which.iter().flat_map(|disk| [(*disk, true), (*disk, false)]) {
        let create = |name, cores| {
            Command::Create(Create { name, cores, units, limits, device: Some(disk) })
        };
        let how = if leaves_all { "left as it is" } else { "made as new" };
        let mut said = [None; 2];
        for (said, say) in said.iter_mut().zip([Say::Store, Say::Stored]) {
            let made = running.carry_out(&create(web, cores)).await;
            findings.expect(made, &format!("a domain with a disk, {how}"));
            *said = tell(running, 1, &say.cell(&[])).await;
            let other = running.carry_out(&create(log, 1)).await.err().unwrap_or_default();
            findings.check(
                other.contains(&format!("device {disk} is web's")),
                format_args!("another domain is to have the disk, and hears: {other}"),
            );
            running.leaves_all = leaves_all && say == Say::Store;
            // One that is not asked leaves its disk in the midst of what that does.
            let ended = running.carry_out(&destroy(say == Say::Store)).await;
            findings.expect(ended, &format!("its end, disk {how}"));
        }
        running.leaves_all = false;
        let [stored, found] = said.map(|it| it.unwrap_or(u64::MAX));
        let bytes = STORED_BYTES as u64;
        findings.check(stored == bytes, format_args!("{stored} of {bytes} bytes are stored"));
        findings.check(
            found == u64::from(leaves_all),
            format_args!("disk {disk} {how}: the next domain finds {found} datasets"),
        );
        findings.figure(format!("datasets_found_disk_{disk}_{}", how.replace(' ', "_")), found);
    }
    let free = running.ledger().devices().filter(|(_, it)| it.phase == Phase::Free).count();
    findings.check(free == usize::from(disks), format_args!("{free} of {disks} disks are free"));
}
