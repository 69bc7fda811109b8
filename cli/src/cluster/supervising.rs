//! What the node of a supervisor keeps of its machine, and what of that is for domains.

use super::args::{Kind, Up};
use super::folder::Disk;
use crate::size::Bytes;

/// What the node of a supervisor keeps for itself: hosted, and of a PC, where the kernel and its
/// tables are in it.
pub const OF_SUPERVISOR: Bytes = Bytes::mebi(64);
const OF_SUPERVISOR_IN_PC: Bytes = Bytes::mebi(96);

/// The disk of a supervisor's node, which keeps the names of its domains' datasets there.
const NAMES: Bytes = Bytes::mebi(64);

impl Up {
    /// Cores of each node that is started.
    pub fn own_cores(&self) -> u16 {
        if self.supervisor { 1 } else { self.cores }
    }

    /// Memory of each node that is started.
    pub fn own_memory(&self) -> Bytes {
        if self.supervisor { self.of_supervisor() } else { self.memory }
    }

    /// The disk of a supervisor's node: domains come and go, and names of datasets stay. On a PC
    /// it has one if domains can have disks.
    pub fn disk_of_supervisor(&self) -> Option<Disk> {
        let is_hosted = matches!(self.kinds().as_deref(), Ok([Kind::Hosted, ..]));
        let parts =
            self.disk.map_or(0, |it| it.0).saturating_mul(self.disk_parts.unwrap_or(0).into());
        (is_hosted || self.disk.is_some()).then(|| Disk::passing(NAMES.0.saturating_add(parts), 1))
    }

    /// The disks of a PC for its domains, or the parts of its own.
    pub fn disks_for_domains(&self) -> Option<Disk> {
        let disk = self.disk.filter(|_| self.supervisor)?;
        Some(Disk::passing(disk.0, self.disk_parts.unwrap_or(self.disks)))
    }

    /// What the node of a supervisor keeps.
    pub fn of_supervisor(&self) -> Bytes {
        match self.kinds().as_deref() {
            Ok([Kind::Qemu, ..]) => {
                // A link for each part takes 1 MiB, and all together a page; what is kept is whole
                // 2 MiB.
                let links = self.disk_parts.map_or(0, |parts| (parts + 1).next_multiple_of(2));
                Bytes(OF_SUPERVISOR_IN_PC.0 + (u64::from(links) << 20))
            }
            _ => OF_SUPERVISOR,
        }
    }
}
