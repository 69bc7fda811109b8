//! What happens when a core is interrupted: 256 stubs in assembly save the core's state and call
//! one handler, which counts the interrupt by its cause and does nothing else. What an interrupt
//! was about is found by the core's loop, which it wakes.
//!
//! Handlers run with interrupts masked, on their own stack, and touch only what is private to the
//! core and its record. They never log.

use nile_platform::Cause;

use crate::fault;
use crate::local::{self, Local};
use crate::timer;
use crate::vector::Vector;

core::arch::global_asm!(include_str!("interrupts.s"), handle = sym handle);

unsafe extern "C" {
    /// The first stub; each has [`STUB_BYTES`].
    #[link_name = "interrupt_stubs"]
    static STUBS: u8;
}

const STUB_BYTES: u64 = 16;

/// Where the stub of `vector` is.
pub(crate) fn stub(vector: Vector) -> u64 {
    &raw const STUBS as u64 + STUB_BYTES * u64::from(vector.0)
}

/// The state of the core when it was interrupted, as the stubs leave it on the stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
#[allow(missing_docs, reason = "the fields are the registers of those names")]
pub struct Frame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rbp: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rbx: u64,
    pub rax: u64,
    /// Through which gate.
    pub vector: u64,
    /// What the processor says with some exceptions, else zero.
    pub error: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

impl Frame {
    /// Through which gate the core was interrupted.
    pub fn vector(&self) -> Vector {
        Vector(self.vector as u8)
    }
}

/// Called by every stub.
extern "C" fn handle(frame: &Frame) {
    let vector = frame.vector();
    if vector == Vector::PANIC || vector <= Vector::LAST_EXCEPTION && vector != Vector::NMI {
        fault::exception(frame);
    }
    // Before a core has told its handlers about it, it lets no interrupt in, and an NMI has
    // nowhere to be counted.
    let Some(local) = local::get() else { return };
    match vector {
        Vector::NMI => local.record.count_interrupt(Cause::Nmi),
        Vector::SPURIOUS => local.record.count_interrupt(Cause::Spurious),
        Vector::TIMER => {
            local.record.count_interrupt(timer::expired(&local));
            local.apic.end_of_interrupt();
        }
        Vector::SIGNAL => count_and_end(&local, Cause::Signal),
        Vector::ERROR => {
            local.apic.take_errors();
            count_and_end(&local, Cause::Error);
        }
        device if Vector::DEVICES.contains(&device) => count_and_end(&local, Cause::Device),
        stray => {
            // A glitch of a PIC, or a vector that nobody was given. Only what the local APIC
            // delivered is ended there.
            local.record.count_interrupt(Cause::Spurious);
            if local.apic.in_service(stray) {
                local.apic.end_of_interrupt();
            }
        }
    }
}

fn count_and_end(local: &Local, cause: Cause) {
    local.record.count_interrupt(cause);
    local.apic.end_of_interrupt();
}
