//! The ways that lead to the board, to the own descriptors and to the machine's power.

use nile_platform::{Attack, Tried};

use crate::power::DEBUG_EXIT;
use crate::privileged;
use crate::vector::Vector;
use crate::{gdt, idt};

/// A gate that nobody uses, and what is stored there.
const UNUSED: Vector = Vector(224);
const STRAY: u64 = 0xbad;

/// The mask of the board's second controller; the bus's index; the index and the data of what is
/// kept, and one of its bytes that nobody uses.
const MASK: u16 = 0xa1;
const BUS: u16 = 0xcf8;
const KEPT_INDEX: u16 = 0x70;
const KEPT: u16 = 0x71;
const UNUSED_BYTE: u8 = 0x7e;
/// The register that says how each of eight kinds of pages is cached.
const CACHING: u32 = 0x277;

/// Where this processor's interrupt controller has its registers; what it can do beside what every
/// processor can, and that it knows pages which are not executable.
const CONTROLLER: u32 = 0x1b;
const FEATURES: u32 = 0xc000_0080;
const NO_EXECUTE: u64 = 1 << 11;
/// The control register of QEMU's power management.
const SLEEP: u16 = 0x604;

/// Neither gates nor segments.
static NOTHING: [u64; 64] = [0; 64];

/// Tries it. What was changed is changed back. `None` if it is not one of these.
pub(super) fn attempt(attack: Attack) -> Option<Tried> {
    // SAFETY: none can be given for any of these, and that is the point.
    unsafe {
        match attack {
            Attack::StoreGate => spoil(idt::gate(UNUSED)),
            Attack::StoreSegment => spoil(gdt::last()),
            Attack::MaskBoard => {
                let before = privileged::in8(MASK);
                privileged::out8(MASK, before ^ 0x80);
                let changed = privileged::in8(MASK) != before;
                privileged::out8(MASK, before);
                return Some(done(changed));
            }
            Attack::ChooseDevice => {
                let (before, other) = (privileged::in32(BUS), 0x8000_0800);
                privileged::out32(BUS, other);
                let changed = privileged::in32(BUS) == other;
                privileged::out32(BUS, before);
                return Some(done(changed));
            }
            Attack::ChangeSettings => {
                privileged::out8(KEPT_INDEX, UNUSED_BYTE);
                let before = privileged::in8(KEPT);
                privileged::out8(KEPT, !before);
                let changed = privileged::in8(KEPT) != before;
                privileged::out8(KEPT, before);
                return Some(done(changed));
            }
            Attack::ChangeCaching => {
                let before = privileged::read_msr(CACHING);
                // The last kind, which no page has: not cached.
                let other = before & !(0xff << 56);
                privileged::write_msr(CACHING, other ^ 6 << 56);
                let changed = privileged::read_msr(CACHING) != before;
                privileged::write_msr(CACHING, before);
                return Some(done(changed));
            }
            Attack::ResetMachine => privileged::out8(0xcf9, 0x06),
            Attack::ResetByKeyboard => privileged::out8(0x64, 0xfe),
            Attack::FastReset => privileged::out8(0x92, 0x01),
            Attack::SwitchOff => privileged::out8(DEBUG_EXIT, 0x33),
            Attack::TripleFault => {
                for vector in [Vector::DOUBLE_FAULT, Vector(13), Vector(11), Vector::PAGE_FAULT] {
                    idt::gate(vector).write_volatile(0);
                }
                (STRAY as *mut u64).write_volatile(STRAY);
            }
            Attack::SleepForGood => privileged::out16(SLEEP, 1 << 13),
            Attack::NoGates => {
                privileged::load_interrupt_table(NOTHING.as_ptr().cast(), size_of_val(&NOTHING));
                (STRAY as *mut u64).write_volatile(STRAY);
            }
            Attack::NoSegments => {
                let bytes = size_of_val(&NOTHING);
                privileged::load_segments(
                    NOTHING.as_ptr(),
                    bytes,
                    gdt::KERNEL_CODE,
                    gdt::KERNEL_DATA,
                );
            }
            Attack::ForgetNoExecute => {
                let now = privileged::read_msr(FEATURES);
                privileged::write_msr(FEATURES, now & !NO_EXECUTE);
                privileged::invalidate_all();
            }
            Attack::MoveController => {
                let before = privileged::read_msr(CONTROLLER);
                privileged::write_msr(CONTROLLER, before ^ 1 << 20);
                let changed = privileged::read_msr(CONTROLLER) != before;
                privileged::write_msr(CONTROLLER, before);
                return Some(done(changed));
            }
            _ => return None,
        }
    }
    Some(Tried::Done)
}

fn done(changed: bool) -> Tried {
    if changed { Tried::Done } else { Tried::Unknown }
}

/// Writes to what the processor reads, and writes back what was there.
///
/// # Safety
/// None can be given.
unsafe fn spoil(word: *mut u64) {
    // SAFETY: as above.
    unsafe {
        let before = word.read_volatile();
        word.write_volatile(STRAY);
        word.write_volatile(before);
    }
}
