//! The interrupt table of one core: 256 gates, each to its own stub in [`crate::interrupts`],
//! each on an interrupt stack.

use crate::gdt::{InterruptStack, KERNEL_CODE};
use crate::guard;
use crate::interrupts;
use crate::private::Private;
use crate::privileged;
use crate::vector::Vector;

/// A gate (Intel SDM volume 3, 6.14.1).
#[derive(Clone, Copy)]
#[repr(C)]
struct Gate {
    offset_low: u16,
    segment: u16,
    stack: u8,
    kind: u8,
    offset_middle: u16,
    offset_high: u32,
    reserved: u32,
}

const GATES: usize = 256;

/// Present, for the kernel only, enters with interrupts masked.
const INTERRUPT_GATE: u8 = 0x8e;

impl Gate {
    const ABSENT: Gate = Gate {
        offset_low: 0,
        segment: 0,
        stack: 0,
        kind: 0,
        offset_middle: 0,
        offset_high: 0,
        reserved: 0,
    };

    /// As two words.
    fn words(self) -> [u64; 2] {
        let Gate { offset_low, segment, stack, kind, offset_middle, offset_high, reserved } = self;
        let low = u64::from(offset_low) | u64::from(segment) << 16 | u64::from(stack) << 32;
        let low = low | u64::from(kind) << 40 | u64::from(offset_middle) << 48;
        [low, u64::from(offset_high) | u64::from(reserved) << 32]
    }

    fn to(stub: u64, stack: InterruptStack) -> Gate {
        Gate {
            offset_low: stub as u16,
            segment: KERNEL_CODE,
            stack: stack as u8,
            kind: INTERRUPT_GATE,
            offset_middle: (stub >> 16) as u16,
            offset_high: (stub >> 32) as u32,
            reserved: 0,
        }
    }
}

/// A gate to code at this address, on the stack that is interrupted.
pub fn plain_gate(at: u64) -> [u64; 2] {
    Gate { stack: 0, ..Gate::to(at, InterruptStack::Fault) }.words()
}

#[unsafe(link_section = ".descriptors")]
static TABLE: Private<[Gate; GATES]> = Private::new([Gate::ABSENT; GATES]);

fn stack_of(vector: Vector) -> InterruptStack {
    match vector {
        Vector::NMI => InterruptStack::Nmi,
        Vector::DOUBLE_FAULT => InterruptStack::DoubleFault,
        Vector::PANIC => InterruptStack::Fault,
        exception if exception <= Vector::LAST_EXCEPTION => InterruptStack::Fault,
        _ => InterruptStack::Interrupt,
    }
}

/// Loads this core's interrupt table.
///
/// # Safety
/// [`crate::gdt::install`] was run on this core. Interrupts are masked.
pub unsafe fn install() {
    let table = TABLE.as_ptr();
    guard::amend(|| {
        for number in 0..=u8::MAX {
            let vector = Vector(number);
            let gate = Gate::to(interrupts::stub(vector), stack_of(vector));
            // SAFETY: this core's own table; a change of its own gates while it is loaded replaces
            // each by the same one.
            unsafe { (*table)[usize::from(number)] = gate };
        }
    });
    // SAFETY: every gate is valid, and its stack is in the task state segment.
    unsafe { privileged::load_interrupt_table(table.cast(), size_of::<[Gate; GATES]>()) }
}

/// Where this core has the gate of a vector.
pub(crate) fn gate(vector: Vector) -> *mut u64 {
    TABLE.as_ptr().cast::<Gate>().wrapping_add(usize::from(vector.0)).cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_takes_its_stub_apart() {
        let gate = Gate::to(0x1234_5678_9abc_def0, InterruptStack::Nmi);
        assert_eq!(size_of::<Gate>(), 16);
        let parts = (gate.offset_low, gate.offset_middle, gate.offset_high);
        assert_eq!(parts, (0xdef0, 0x9abc, 0x1234_5678));
        assert_eq!((gate.stack, gate.kind), (3, 0x8e));
        assert_eq!(plain_gate(0x1234_5678_9abc_def0), [0x9abc_8e00_0008_def0, 0x1234_5678]);
    }

    #[test]
    fn what_can_interrupt_what_never_shares_a_stack() {
        assert_eq!(stack_of(Vector::TIMER), InterruptStack::Interrupt);
        assert_eq!(stack_of(Vector::PAGE_FAULT), InterruptStack::Fault);
        assert_eq!(stack_of(Vector::PANIC), InterruptStack::Fault);
        assert_eq!(stack_of(Vector::NMI), InterruptStack::Nmi);
        assert_eq!(stack_of(Vector::DOUBLE_FAULT), InterruptStack::DoubleFault);
    }
}
