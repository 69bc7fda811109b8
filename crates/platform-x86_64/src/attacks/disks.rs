//! The ways that lead by the domain's own disk.

use alloc::string::String;
use core::ptr::NonNull;

use nile_abi::PhysAddr;
use nile_platform::disk::{Piece, Request};
use nile_platform::{Attack, Disk as _, Tried};
use nile_ring::{LINE_BYTES, Region};

use super::{Attacker, STRAY};
use crate::apic::ApicId;
use crate::disk::block::VirtioBlock;
use crate::disk::{Controller, DiskEntry};
use crate::machine::NodeManager;
use crate::pci::msix;
use crate::vector::Vector;
use crate::virtio::DeviceRegisters;
use crate::virtio::registers::MESSAGE;
use crate::{devices, guard, layout};

/// Looks at the disk until it is taken for dead.
const MAX_LOOKS: u32 = 1 << 24;

/// Bytes of a sector, the last of which on the disk is the attack's.
const SECTOR: usize = 512;

/// The domain's first disk.
fn disk(manager: &NodeManager) -> Option<(&'static DiskEntry, DeviceRegisters)> {
    let entry = manager.node().disks.first()?;
    let Controller::Virtio(device) = &entry.controller else { return None };
    // SAFETY: none can be given, and that is the point: somebody drives the disk.
    Some((entry, unsafe { DeviceRegisters::mapped(devices::number_of_disk(0), device) }))
}

/// A sector of own memory and the disk that is told lies.
struct Liar {
    disk: VirtioBlock,
    own: PhysAddr,
    seen: *const u64,
    at: u64,
}

impl Liar {
    /// Begins anew with the disk, and fills own memory with this.
    fn new(manager: &NodeManager, word: u64) -> Option<Liar> {
        let (entry, registers) = disk(manager)?;
        // SAFETY: as above.
        let opened = unsafe { VirtioBlock::open(registers, entry.memory, String::new(), || {}) };
        let disk = opened.ok()?;
        let at = disk.description().bytes.checked_sub(SECTOR as u64)?;
        let (seen, own) = Attacker::of(manager).own_words(|words| words.fill(word))?;
        Some(Liar { disk, own, seen, at })
    }

    /// Has the disk copy between the sector and this memory; whether it says that it has.
    fn copy(&self, writes: bool, memory: &[(PhysAddr, usize)]) -> bool {
        let piece = |(at, bytes): &(PhysAddr, usize)| {
            let seen = NonNull::new(layout::shared(*at).0 as *mut u8)?;
            // SAFETY: nobody looks there but for where it is.
            let region = unsafe { Region::from_raw(seen, *bytes) };
            Some(Piece { at: *at, region })
        };
        let Some(pieces) = memory.iter().map(piece).collect() else { return false };
        let request = match writes {
            true => Request::Write { at: self.at, from: pieces },
            false => Request::Read { at: self.at, into: pieces },
        };
        self.disk.submit(0, &request);
        self.disk.tell();
        let ended = (0..MAX_LOOKS).find_map(|_| self.disk.complete());
        ended.is_some_and(|it| it.result.is_ok())
    }

    /// The line that `aim` is in, and own memory for the rest of a sector.
    fn foreign(&self, aim: PhysAddr) -> [(PhysAddr, usize); 2] {
        let line = PhysAddr(aim.0 - aim.0 % LINE_BYTES as u64);
        let rest = PhysAddr(self.own.0 + LINE_BYTES as u64);
        [(line, LINE_BYTES), (rest, SECTOR - LINE_BYTES)]
    }

    fn whole(&self) -> [(PhysAddr, usize); 1] {
        [(self.own, SECTOR)]
    }
}

/// Has the disk read a sector into the line at `aim`.
pub(super) fn overwrite(manager: &NodeManager, aim: PhysAddr) -> Tried {
    let Some(liar) = Liar::new(manager, STRAY) else { return Tried::Unknown };
    if !liar.copy(true, &liar.whole()) {
        return Tried::Unknown;
    }
    match liar.copy(false, &liar.foreign(aim)) {
        true => Tried::Done,
        false => Tried::Refused,
    }
}

/// Has the disk write the line at `aim` into a sector, and looks whether anything is there.
pub(super) fn copy(manager: &NodeManager, aim: PhysAddr) -> Tried {
    let Some(liar) = Liar::new(manager, 0) else { return Tried::Unknown };
    if !liar.copy(true, &liar.foreign(aim)) {
        return Tried::Refused;
    }
    if !liar.copy(false, &liar.whole()) {
        return Tried::Unknown;
    }
    let word = aim.0 as usize % LINE_BYTES / size_of::<u64>();
    // SAFETY: the page is this core's for ever; the disk is done with it.
    match unsafe { liar.seen.wrapping_add(word).read_volatile() } {
        0 => Tried::Refused,
        _ => Tried::Done,
    }
}

/// Has the disk interrupt a core by the vector that tells panics, and does something with it.
pub(super) fn interrupt(manager: &NodeManager, attack: Attack, to: ApicId) -> Tried {
    let Some((entry, registers)) = disk(manager) else { return Tried::Unknown };
    let route = || msix::route(registers.messages, MESSAGE, to, Vector::PANIC);
    match attack {
        Attack::RouteDisk if guard::interrupt(to, Vector::PANIC.0.into()).is_err() => {
            return Tried::Refused;
        }
        Attack::RouteDisk => guard::amend(route),
        _ => route(),
    }
    // SAFETY: as above.
    let opened = unsafe { VirtioBlock::open(registers, entry.memory, String::new(), || {}) };
    let Ok(disk) = opened else { return Tried::Unknown };
    disk.submit(0, &Request::Flush);
    // From here on it interrupts when it has done something.
    let is_over = disk.is_ready();
    disk.tell();
    if is_over { Tried::Unknown } else { Tried::Done }
}
