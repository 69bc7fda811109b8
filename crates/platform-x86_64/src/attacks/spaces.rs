//! The ways that lead by pages that a domain has not, or has otherwise.

use core::arch::x86_64::_mm_mfence;

use nile_abi::{CoreId, PageSize, PhysAddr, VirtAddr};
use nile_guard::Violation;
use nile_memory::paging::{Entry, EntryKind, Level, TableIndex};
use nile_memory::{Permissions, TableMemory};
use nile_platform::{Attack, Tried};

use super::{Attacker, STRAY};
use crate::apic::ApicId;
use crate::gdt::InterruptStack;
use crate::guard;
use crate::layout;
use crate::privileged;

/// Where processors take messages of devices, one page each; and a message that cannot be masked.
const MESSAGES: u64 = 0xfee0_0000;
const UNMASKED: u32 = 0b100 << 8;

/// The controller of the board's interrupts, its two windows, and the register of its last line.
const BOARD: PhysAddr = PhysAddr(0xfec0_0000);
const CHOICE: u64 = 0;
const DATA: u64 = 0x10;
const LAST_LINE: u32 = 0x10 + 2 * 23;

/// What all kernels of the image share.
static CONSTANT: u64 = 0x600d_c0de;

/// A way to what is asked for; `None` if there is none.
type Way<T> = Option<Result<T, Violation>>;

/// Tries it. What was changed is changed back.
pub(super) fn attempt(attacker: &Attacker, attack: Attack) -> Tried {
    tried(match attack {
        Attack::WriteConstants => write_constants(attacker),
        Attack::RoutePin => route_pin(attacker),
        Attack::UnmapStacks => unmap_stacks(attacker),
        Attack::RunOwnCode => run_own_code(attacker),
        _ => None,
    })
}

/// Sends a core an interrupt as a device does.
pub(super) fn forge_message(attacker: &Attacker, to: ApicId) -> Tried {
    let page = PhysAddr(MESSAGES | u64::from(to.0) << 12);
    tried(attacker.show(page, Permissions::DEVICE).map(|shown| {
        // SAFETY: none can be given, and that is the point.
        shown.map(|at| unsafe { (at.0 as *mut u32).write_volatile(UNMASKED) }).map(|()| true)
    }))
}

/// Goes on over tables of its own making, which show the word at `aim`, and writes there.
pub(super) fn forge_root(attacker: &Attacker, aim: PhysAddr) -> Tried {
    let forged = || {
        let (_, index, at) = attacker.empty(Level::Pml4, layout::SHARED_BASE, None)?;
        let upper = attacker.forge(Entry::leaf(aim, PageSize::Huge, Permissions::READ_WRITE))?;
        let root = attacker.own_page(|words| {
            for (word, index) in words.iter_mut().zip(TableIndex::all()) {
                *word = attacker.tables.read(attacker.root, index).bits();
            }
            words[index.get()] = Entry::link(upper).bits();
        })?;
        Some((root, VirtAddr(at.0 + (aim.0 - aim.align_down(PageSize::Huge).0))))
    };
    let Some((root, seen)) = forged() else { return Tried::Unknown };
    // SAFETY: none can be given, and that is the point.
    unsafe {
        privileged::load_root(root);
        (seen.0 as *mut u64).write_volatile(STRAY);
        privileged::load_root(attacker.root);
    }
    Tried::Done
}

fn tried(way: Way<bool>) -> Tried {
    match way {
        None | Some(Ok(false)) => Tried::Unknown,
        Some(Ok(true)) => Tried::Done,
        Some(Err(_)) => Tried::Refused,
    }
}

fn write_constants(attacker: &Attacker) -> Way<bool> {
    const WRITABLE: u64 = 1 << 1;
    let word = (&raw const CONSTANT).cast_mut();
    let (table, index, entry) = attacker.leaf(VirtAddr(word.addr() as u64))?;
    let writable = Entry::from_bits(entry.bits() | WRITABLE);
    Some(guard::store(&attacker.tables, table, index, writable).and_then(|()| {
        privileged::invalidate_all();
        // SAFETY: none can be given, and that is the point.
        let changed = unsafe {
            let before = word.read_volatile();
            word.write_volatile(STRAY);
            let changed = word.read_volatile() != before;
            word.write_volatile(before);
            changed
        };
        guard::store(&attacker.tables, table, index, entry)?;
        privileged::invalidate_all();
        Ok(changed)
    }))
}

fn route_pin(attacker: &Attacker) -> Way<bool> {
    Some(attacker.show(BOARD, Permissions::DEVICE)?.map(|at| {
        let choice = (at.0 + CHOICE) as *mut u32;
        let data = (at.0 + DATA) as *mut u32;
        // SAFETY: none can be given, and that is the point.
        unsafe {
            choice.write_volatile(LAST_LINE);
            let before = data.read_volatile();
            data.write_volatile(before ^ 0x40);
            let changed = data.read_volatile() != before;
            data.write_volatile(before);
            changed
        }
    }))
}

fn unmap_stacks(attacker: &Attacker) -> Way<bool> {
    for stack in [InterruptStack::Fault, InterruptStack::DoubleFault] {
        let top = layout::ist_top(CoreId::BOOT, stack as usize - 1);
        let page = VirtAddr(top.0 - PageSize::Small.bytes());
        let (table, index, _) = attacker.leaf(page)?;
        if let Err(violation) = guard::store(&attacker.tables, table, index, Entry::EMPTY) {
            return Some(Err(violation));
        }
    }
    privileged::invalidate_all();
    // SAFETY: none can be given, and that is the point.
    unsafe { (STRAY as *mut u64).write_volatile(STRAY) };
    Some(Ok(true))
}

fn run_own_code(attacker: &Attacker) -> Way<bool> {
    // mov dx, 0xcf9; mov al, 6; out dx, al; ret
    const RESET: u64 = u64::from_le_bytes([0x66, 0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee, 0xc3]);
    let page = attacker.own_page(|words| words[0] = RESET)?;
    let may_both = Permissions { execute: true, ..Permissions::READ_WRITE };
    Some(attacker.show(page, may_both)?.map(|at| {
        let code = at.0 as *const ();
        // SAFETY: none can be given, and that is the point.
        unsafe {
            _mm_mfence();
            core::mem::transmute::<*const (), extern "C" fn()>(code)();
        }
        true
    }))
}

impl Attacker {
    /// Has a page be seen where none was.
    fn show(&self, page: PhysAddr, permissions: Permissions) -> Way<VirtAddr> {
        let (table, index, at) = self.empty(Level::Pt, layout::SHARED_BASE, None)?;
        let entry = Entry::leaf(page, PageSize::Small, permissions);
        Some(guard::store(&self.tables, table, index, entry).map(|()| {
            privileged::invalidate_all();
            at
        }))
    }

    /// The entry that maps an address, and where it is.
    fn leaf(&self, at: VirtAddr) -> Option<(PhysAddr, TableIndex, Entry)> {
        let (mut table, mut level) = (self.root, Level::Pml4);
        loop {
            let index = TableIndex::of(at, level);
            let entry = self.tables.read(table, index);
            match (entry.kind(level), level.below()) {
                (EntryKind::Link(below), Some(lower)) => (table, level) = (below, lower),
                (EntryKind::Leaf(_), _) => return Some((table, index, entry)),
                _ => return None,
            }
        }
    }
}
