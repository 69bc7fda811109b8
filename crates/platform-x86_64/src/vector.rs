//! Interrupt vectors: who may interrupt a core, and through which of the 256 gates.
//!
//! | vectors   | who                                                                            |
//! | --------- | ------------------------------------------------------------------------------ |
//! | 0 to 31   | the processor's exceptions; 2 is the non-maskable interrupt                    |
//! | 32 to 47  | where the masked PICs would report a glitch                                    |
//! | 48 to 223 | devices                                                                        |
//! | from 240  | timer, signals, panics, loops of domains, the interrupt controller               |

use core::ops::RangeInclusive;

/// One of the 256 gates of the interrupt table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Vector(pub u8);

impl Vector {
    /// The non-maskable interrupt.
    pub const NMI: Vector = Vector(2);
    /// A fault while another one was being delivered.
    pub const DOUBLE_FAULT: Vector = Vector(8);
    /// An access that the tables do not allow.
    pub const PAGE_FAULT: Vector = Vector(14);
    /// The machine itself failed.
    pub const MACHINE_CHECK: Vector = Vector(18);
    /// The last one that the processor keeps for itself.
    pub const LAST_EXCEPTION: Vector = Vector(31);
    /// Where the PICs are told to report: they are masked, but may glitch.
    pub const PIC_BASE: Vector = Vector(32);
    /// What devices may use.
    pub const DEVICES: RangeInclusive<Vector> = Vector(48)..=Vector(223);
    /// The local APIC's timer.
    pub const TIMER: Vector = Vector(240);
    /// Another core's signal.
    pub const SIGNAL: Vector = Vector(241);
    /// Raised by this core's own panic handler, so that panics are reported like faults.
    pub const PANIC: Vector = Vector(242);
    /// Another node of this machine has put frames into a loop ([`crate::domain`]).
    pub const LOOP: Vector = Vector(243);
    /// The local APIC reports an error.
    pub const ERROR: Vector = Vector(254);
    /// The local APIC began an interrupt and lost its cause.
    pub const SPURIOUS: Vector = Vector(255);

    /// What ends an incarnation through this gate, exceptions with the manuals' abbreviation.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "divide error (#DE)",
            1 => "debug (#DB)",
            2 => "non-maskable interrupt (NMI)",
            3 => "breakpoint (#BP)",
            4 => "overflow (#OF)",
            5 => "bound range exceeded (#BR)",
            6 => "invalid opcode (#UD)",
            7 => "device not available (#NM)",
            8 => "double fault (#DF)",
            10 => "invalid TSS (#TS)",
            11 => "segment not present (#NP)",
            12 => "stack fault (#SS)",
            13 => "general protection (#GP)",
            14 => "page fault (#PF)",
            16 => "x87 floating point (#MF)",
            17 => "alignment check (#AC)",
            18 => "machine check (#MC)",
            19 => "SIMD floating point (#XM)",
            20 => "virtualization (#VE)",
            21 => "control protection (#CP)",
            _ if self.0 <= Vector::LAST_EXCEPTION.0 => "reserved exception",
            _ if self.0 == Vector::PANIC.0 => "panic",
            _ => "interrupt",
        }
    }
}
