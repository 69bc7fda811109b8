//! What a core does wrong on purpose, so that scenarios see that it alone suffers.

use nile_abi::VirtAddr;

use crate::{Attack, Line, Machine, Tried};

/// A machine whose cores can misbehave. Only scenarios ask for that.
pub trait Misbehave: Machine {
    /// Writes a word to an address of this core's address space, whatever is there: a stray
    /// write. On an address that this core has no right to write, it does not return: the core's
    /// incarnation ends.
    fn stray_write(&self, at: VirtAddr, value: u64);

    /// Calls itself until the stack is used up, which ends the core's incarnation as a stray write
    /// does. Where the stack's end is not this core's alone to suffer, it panics instead.
    fn overrun_stack(&self);

    /// Has a device of the node interrupt once by its line, if that may, with nothing to tell.
    fn interrupt_for_nothing(&self, line: Line);

    /// From now on nothing interrupts this core, where a machine can do that.
    fn shut_out(&self) {}

    /// On the managing core: tries to reach what its node has not been given. `aim` is what the
    /// attack's target says: an address, a core's name, or nothing. Does not return where that ends
    /// the core's incarnation.
    fn attack(&self, _attack: Attack, _aim: u64) -> Tried {
        Tried::Unknown
    }

    /// Never returns.
    fn loop_for_ever() {
        loop {
            core::hint::spin_loop();
        }
    }
}

/// Calls itself until the stack is used up: [`Misbehave::overrun_stack`] on machines whose stacks
/// end in a guard page.
#[expect(unconditional_recursion, reason = "that is what it is for")]
pub fn recurse_for_ever(depth: u64) -> u64 {
    let frame = core::hint::black_box([depth; 64]);
    recurse_for_ever(depth + 1) + frame[(depth % 64) as usize]
}
