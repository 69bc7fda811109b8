//! The ways of [`Attack`], as a domain's managing core goes them: without a mistake of its own, and
//! as if the guard were not there. Scenarios alone ask for that.

mod devices;
mod disks;
mod spaces;

use alloc::boxed::Box;

use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
use nile_guard::Violation;
use nile_memory::paging::{Entry, EntryKind, Level, TableIndex};
use nile_memory::{AddressSpace, Permissions, TableMemory};
use nile_platform::{Attack, Grant, Manager as _, Target, Tried};

use crate::apic::{ApicId, LocalApic};
use crate::guard;
use crate::layout;
use crate::machine::NodeManager;
use crate::privileged;
use crate::tables::TableFrames;
use crate::vector::Vector;

/// The command register of an interrupt controller in memory.
const COMMAND_LOW: u64 = 0x300;
const COMMAND_HIGH: u64 = 0x310;

/// What is written where nothing of the domain's is.
const STRAY: u64 = 0xbad;

/// Entries of one table, of this core's own memory.
#[repr(C, align(4096))]
struct Forged([u64; nile_memory::paging::ENTRIES]);

/// Tries it, on the managing core.
pub(crate) fn attempt(manager: &NodeManager, apic: &LocalApic, attack: Attack, aim: u64) -> Tried {
    match attack.target() {
        Target::Memory if attack == Attack::DiskOverwrites => {
            disks::overwrite(manager, PhysAddr(aim))
        }
        Target::Secret => disks::copy(manager, PhysAddr(aim)),
        Target::Memory => reach(manager, attack, PhysAddr(aim)),
        Target::Core if attack == Attack::ForgeMessage => {
            spaces::forge_message(&Attacker::of(manager), ApicId(aim as u32))
        }
        Target::Core if matches!(attack, Attack::RouteDisk | Attack::StoreRoute) => {
            disks::interrupt(manager, attack, ApicId(aim as u32))
        }
        Target::Core => interrupt(apic, attack, ApicId(aim as u32)),
        Target::Machine | Target::Power => {
            let tried = devices::attempt(attack);
            tried.unwrap_or_else(|| spaces::attempt(&Attacker::of(manager), attack))
        }
        Target::Seat => fill_seat(manager, attack),
        // A scenario does these by itself.
        Target::Messages | Target::Frames | Target::Parked | Target::Hold => Tried::Unknown,
    }
}

/// Tries to write a word that is not the domain's.
fn reach(manager: &NodeManager, attack: Attack, aim: PhysAddr) -> Tried {
    if attack == Attack::Zero {
        manager.zero(Grant { start: aim, bytes: size_of_val(&STRAY) as u64 });
        return Tried::Done;
    }
    let attacker = Attacker::of(manager);
    if attack == Attack::ForgeRoot {
        return spaces::forge_root(&attacker, aim);
    }
    match attacker.reach(attack, aim) {
        None => Tried::Unknown,
        Some(Err(_)) => Tried::Refused,
        Some(Ok(at)) => {
            privileged::invalidate_all();
            // SAFETY: none can be given, and that is the point.
            unsafe { (at.0 as *mut u64).write_volatile(STRAY) };
            Tried::Done
        }
    }
}

/// Fills what the domain shares with its supervisor.
fn fill_seat(manager: &NodeManager, attack: Attack) -> Tried {
    let Some(domain) = &manager.node().domain else { return Tried::Unknown };
    let first = layout::shared(domain.seat.start).0 as *mut u64;
    let mut noise = STRAY;
    for word in 0..domain.seat.bytes as usize / size_of::<u64>() {
        // Marsaglia's xorshift.
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        let value = if attack == Attack::SeatOfOnes { u64::MAX } else { noise };
        // SAFETY: none can be given, and that is the point.
        unsafe { first.wrapping_add(word).write_volatile(value) };
    }
    Tried::Done
}

/// Tries to interrupt a core that is not the domain's.
fn interrupt(apic: &LocalApic, attack: Attack, to: ApicId) -> Tried {
    const RESET: u32 = 1 << 14 | 0b101 << 8;
    const UNMASKED: u32 = 1 << 14 | 0b100 << 8;
    const FIXED: u32 = 1 << 14;
    const ALL_OTHERS: u32 = 0b11 << 18;
    let command = match attack {
        Attack::UnmaskedInterrupt => UNMASKED,
        Attack::InterruptAll => UNMASKED | ALL_OTHERS,
        Attack::PanicInterrupt => FIXED | u32::from(Vector::PANIC.0),
        Attack::StoreCommand => {
            let stores = [(COMMAND_HIGH, to.0 << 24), (COMMAND_LOW, RESET)];
            for (register, value) in stores {
                let at = (layout::LOCAL_APIC.0 + register) as *mut u32;
                // SAFETY: none can be given, and that is the point.
                unsafe { at.write_volatile(value) };
            }
            return Tried::Done;
        }
        _ => RESET,
    };
    match apic.command(to, command) {
        Ok(()) => Tried::Done,
        Err(_) => Tried::Refused,
    }
}

struct Attacker {
    tables: TableFrames,
    root: PhysAddr,
}

/// A place for an entry, and the first address that it covers.
type Place = (PhysAddr, TableIndex, VirtAddr);

impl Attacker {
    /// The managing core, with the space that it runs in.
    fn of(manager: &NodeManager) -> Attacker {
        Attacker { tables: manager.tables(), root: manager.node().core(CoreId::BOOT).root }
    }

    /// Has the word at `aim` be seen somewhere. `None` if there is no place for that.
    fn reach(&self, attack: Attack, aim: PhysAddr) -> Option<Result<VirtAddr, Violation>> {
        let (level, zone) = match attack {
            Attack::MapSmall | Attack::TableAsMemory => (Level::Pt, layout::SHARED_BASE),
            Attack::MapHuge => (Level::Pdpt, layout::HUGE_BASE),
            Attack::ForgeDirectory => (Level::Pdpt, layout::SHARED_BASE),
            Attack::ForgeUpper => (Level::Pml4, layout::SHARED_BASE),
            _ => (Level::Pd, layout::SHARED_BASE),
        };
        let place = self.empty(level, zone, None)?;
        let (table, index, at) = place;
        let small = Entry::leaf(aim, PageSize::Small, Permissions::READ_WRITE);
        let large = Entry::leaf(aim, PageSize::Large, Permissions::READ_WRITE);
        let huge = Entry::leaf(aim, PageSize::Huge, Permissions::READ_WRITE);
        let seen = |size: PageSize| VirtAddr(at.0 + (aim.0 - aim.align_down(size).0));
        let forge = |entry: Entry| self.forge(entry).map(Entry::link);
        let (entry, seen) = match attack {
            Attack::MapSmall => (small, seen(PageSize::Small)),
            Attack::MapLarge => (large, seen(PageSize::Large)),
            Attack::MapHuge => (huge, seen(PageSize::Huge)),
            Attack::ForgeTable => (forge(small)?, seen(PageSize::Small)),
            Attack::ForgeDirectory => (forge(large)?, seen(PageSize::Large)),
            Attack::ForgeUpper => (forge(huge)?, seen(PageSize::Huge)),
            Attack::StoreEntry => {
                let at = self.tables.place(table, index);
                // SAFETY: none can be given, and that is the point.
                unsafe { at.write_volatile(large.bits()) };
                return Some(Ok(seen(PageSize::Large)));
            }
            Attack::TableAsMemory => {
                // The table is seen at the place, and has the next entry that is empty.
                let (table, next, shown) = self.empty(level, zone, Some(at))?;
                let own = Entry::leaf(table, PageSize::Small, Permissions::READ_WRITE);
                if let Err(violation) = guard::store(&self.tables, place.0, place.1, own) {
                    return Some(Err(violation));
                }
                let forged = at.0 + next.get() as u64 * 8;
                // SAFETY: none can be given, and that is the point.
                unsafe { (forged as *mut u64).write_volatile(small.bits()) };
                return Some(Ok(VirtAddr(shown.0 + (aim.0 - aim.align_down(PageSize::Small).0))));
            }
            _ => return None,
        };
        Some(guard::store(&self.tables, table, index, entry).map(|()| seen))
    }

    /// An empty entry of a table of this level, by which addresses of the zone are reached, behind
    /// `after`.
    fn empty(&self, level: Level, zone: VirtAddr, after: Option<VirtAddr>) -> Option<Place> {
        self.search(self.root, Level::Pml4, 0, &|found, at| {
            let behind = after.is_none_or(|after| at > after);
            let in_zone = level == Level::Pml4 || at.0 >> 44 == zone.0 >> 44;
            found == level && in_zone && behind && at.0 >= layout::PRIVATE_BASE.0
        })
    }

    fn search(
        &self,
        table: PhysAddr,
        level: Level,
        base: u64,
        wanted: &dyn Fn(Level, VirtAddr) -> bool,
    ) -> Option<Place> {
        for index in TableIndex::all() {
            let at = base | (index.get() as u64) << level.shift();
            // Addresses of the upper half continue with ones.
            let virt = VirtAddr(((at << 16) as i64 >> 16) as u64);
            match (self.tables.read(table, index).kind(level), level.below()) {
                (EntryKind::Empty, _) if wanted(level, virt) => return Some((table, index, virt)),
                (EntryKind::Link(below), Some(lower)) => {
                    if let Some(found) = self.search(below, lower, at, wanted) {
                        return Some(found);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// A table of this core's own memory, whose first entry is this: its frame.
    fn forge(&self, entry: Entry) -> Option<PhysAddr> {
        self.own_page(|words| words[0] = entry.bits())
    }

    /// A page of this core's own memory with words of its choice: its frame.
    fn own_page(&self, fill: impl FnOnce(&mut [u64])) -> Option<PhysAddr> {
        self.own_words(fill).map(|(_, frame)| frame)
    }

    /// The same, and where this core sees it. It is never freed.
    fn own_words(&self, fill: impl FnOnce(&mut [u64])) -> Option<(*mut u64, PhysAddr)> {
        let mut forged = Box::new(Forged([0; nile_memory::paging::ENTRIES]));
        fill(&mut forged.0);
        let seen = &raw mut Box::leak(forged).0;
        let at = VirtAddr(seen.addr() as u64);
        let space = AddressSpace::recover(CoreId::BOOT, self.root);
        let page = space.find(&self.tables, at)?;
        Some((seen.cast(), PhysAddr(page.phys.0 + (at.0 - page.virt.0))))
    }
}
