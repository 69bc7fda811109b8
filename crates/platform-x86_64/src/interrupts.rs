//! What happens when a core is interrupted: 256 stubs in assembly save the core's state and call
//! one handler, which counts the interrupt by its cause and does nothing else. What an interrupt
//! was about is found by the core's loop, which it wakes.
//!
//! A package that was interrupted in user mode goes on, unless it was by a timer, by a signal, by a
//! device or by what the package itself did: these end its turn ([`crate::user`]). A device rings
//! the doorbell of the core that drives it; if that is another one, nothing changes here.
//!
//! Handlers run with interrupts masked, on their own stack, and touch only what is private to the
//! core and its record. They never log.

use nile_abi::CoreId;
use nile_platform::Cause;
use nile_ring::Signal;

use crate::devices;
use crate::fault;
use crate::local::{self, Local};
use crate::private::Private;
use crate::samples;
use crate::timer;
use crate::user::memory as user_memory;
use crate::user::turn::{self, Left};
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

/// The vector and floating-point registers, as FXSAVE64 stores them (Intel SDM volume 1, 10.5).
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub struct Vectors([u8; 512]);

impl Vectors {
    /// Where the control and status register of vector arithmetic is.
    pub const MXCSR: usize = 24;
    /// What it is in the kernel, and where a package begins: all exceptions masked.
    pub const INITIAL_MXCSR: u32 = 0x1f80;
    /// The same for the x87 unit.
    const INITIAL_X87_CONTROL: u16 = 0x37f;

    /// All zero: not a state that a core may go on in.
    pub const ZERO: Vectors = Vectors([0; 512]);

    /// Takes from others what a call keeps.
    pub fn copy_mxcsr(&mut self, from: &Vectors) {
        let range = Vectors::MXCSR..Vectors::MXCSR + 4;
        self.0[range.clone()].copy_from_slice(&from.0[range]);
    }

    /// Empty registers, exceptions masked.
    pub const INITIAL: Vectors = {
        let mut bytes = [0; 512];
        let [low, high] = Vectors::INITIAL_X87_CONTROL.to_le_bytes();
        (bytes[0], bytes[1]) = (low, high);
        let mxcsr = Vectors::INITIAL_MXCSR.to_le_bytes();
        (bytes[Vectors::MXCSR], bytes[Vectors::MXCSR + 1]) = (mxcsr[0], mxcsr[1]);
        Vectors(bytes)
    };
}

/// Everything that a core needs to go on where it was interrupted, as the stubs leave it on the
/// stack.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct State {
    /// The registers that compiled code may use at any place.
    pub vectors: Vectors,
    /// All others.
    pub frame: Frame,
}

impl State {
    /// All zero: not a state that a core may go on in.
    pub const ZERO: State = State { vectors: Vectors::ZERO, frame: Frame::ZERO };
}

/// The registers of the core when it was interrupted.
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
    /// All zero.
    pub const ZERO: Frame = Frame {
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rbp: 0,
        rdi: 0,
        rsi: 0,
        rdx: 0,
        rcx: 0,
        rbx: 0,
        rax: 0,
        vector: 0,
        error: 0,
        rip: 0,
        cs: 0,
        rflags: 0,
        rsp: 0,
        ss: 0,
    };

    /// Whether it was a package that was interrupted, in ring 3.
    pub fn is_users(&self) -> bool {
        self.cs & 3 == 3
    }

    /// Through which gate the core was interrupted.
    pub fn vector(&self) -> Vector {
        Vector(self.vector as u8)
    }
}

/// Whether the core sleeps: an interrupt then ends that, and breaks into nothing.
static ASLEEP: Private<bool> = Private::new(false);

/// Says that the core is about to sleep, or is awake again.
pub(crate) fn set_asleep(asleep: bool) {
    ASLEEP.set(asleep);
}

/// Called by every stub.
extern "C" fn handle(state: &mut State) {
    let vector = state.frame.vector();
    let users = state.frame.is_users();
    if users {
        user_memory::guard();
        if turn::is_fault_of_package(vector) {
            return turn::end_by_fault(state);
        }
    }
    if vector == Vector::PANIC || vector <= Vector::LAST_EXCEPTION && vector != Vector::NMI {
        fault::exception(&state.frame);
    }
    // Before a core has told its handlers about it, it lets no interrupt in, and an NMI has
    // nowhere to be counted.
    let Some(local) = local::get() else { return };
    if vector == Vector::NMI {
        return local.record.count_interrupt(Cause::Nmi);
    }
    let asleep = ASLEEP.get();
    if asleep {
        local.record.count_wake();
    }
    match vector {
        Vector::SPURIOUS => local.record.count_interrupt(Cause::Spurious),
        Vector::TIMER => {
            let cause = timer::expired(&local);
            local.record.count_interrupt(cause);
            if cause == Cause::Tick && !asleep {
                samples::take(&state.frame);
            }
            local.apic.end_of_interrupt();
            // The turn's end has come. Or it is a tick: a core that manages the node must go on
            // with its loop, or nobody's does; one that is sampled is asked for its samples.
            if users {
                turn::end(state, Left::Interrupted);
            }
        }
        Vector::SIGNAL => {
            count_and_end(&local, Cause::Signal);
            // It goes on from a package's turn, but not from a policy that does not return.
            if !users && local.is_endless() {
                fault::exception(&state.frame);
            }
            look_around(state, users);
        }
        Vector::LOOP => {
            // The core may have said that it sleeps, and looked at its loops before this.
            local.bells.wake(local.core, &Here);
            count_and_end(&local, Cause::Device);
            look_around(state, users);
        }
        Vector::ERROR => {
            local.apic.take_errors();
            count_and_end(&local, Cause::Error);
        }
        device if Vector::DEVICES.contains(&device) => {
            let line = devices::line_of(device);
            line.into_iter().for_each(|line| local.record.count_line(line));
            match line.and_then(|line| local.board.driver(line)) {
                // What this core does is not about the device.
                Some(driver) if driver != local.core => {
                    local.bells.wake(driver, &There(&local));
                    count_and_end(&local, Cause::Device);
                }
                _ => {
                    // The core may have said that it sleeps, and looked at the device before this.
                    local.bells.wake(local.core, &Here);
                    count_and_end(&local, Cause::Device);
                    look_around(state, users);
                }
            }
        }
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

/// Lets the core's loop look what an interrupt was about before any package goes on.
fn look_around(state: &mut State, users: bool) {
    match users {
        true => turn::end(state, Left::Interrupted),
        false => turn::note_signal(),
    }
}

/// The signal of a core to itself: it has been interrupted already.
struct Here;

impl Signal for Here {
    fn signal(&self, _: CoreId) {}
}

/// The signal of a handler to the core that drives a device.
struct There<'a>(&'a Local);

impl Signal for There<'_> {
    fn signal(&self, core: CoreId) {
        let to = self.0.node.apic_of(self.0.board, core);
        self.0.apic.send_fixed_from_handler(to, Vector::SIGNAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_as_the_stubs_push_it() {
        assert_eq!(size_of::<Frame>(), 22 * 8);
        assert_eq!(size_of::<State>(), 512 + 22 * 8);
        assert_eq!(core::mem::offset_of!(State, frame), 512);
    }

    #[test]
    fn ring_three_alone_is_a_packages() {
        let frame = |cs| Frame { cs: u64::from(cs), ..Frame::ZERO };
        assert!(frame(crate::gdt::USER_CODE).is_users());
        assert!(!frame(crate::gdt::KERNEL_CODE).is_users());
    }
}
