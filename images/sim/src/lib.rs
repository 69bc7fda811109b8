//! The project's packages bound to the simulator: the same code that runs on machines, linked in;
//! what `unruly` does there, the simulator does here.
#![forbid(unsafe_code)]

use nile_abi::call::{Answer, System};
use nile_abi::{Status, VirtAddr};
use nile_package::Store;
use nile_platform::user::Ask;
use nile_platform_sim::options::Program;
use nile_platform_sim::{Misbehaviour, misbehave, raw_call};
use nile_unruly::{Act, Acts, Span};

/// Every package of the project: what `Options::packages` takes.
pub const PACKAGES: [(&str, Program); 7] = [
    ("buffers", nile_buffers::main),
    ("hello", nile_hello::main),
    ("threads", nile_threads::main),
    ("unruly", unruly),
    ("caller", nile_caller::main),
    ("channels", nile_channels::main),
    ("syscalls", nile_syscalls::main),
];

/// The same packages as a kernel finds them.
pub const STORE: Store =
    Store::Linked(&["buffers", "hello", "threads", "unruly", "caller", "channels", "syscalls"]);

fn unruly(system: &dyn System, argument: &[u8]) -> u64 {
    nile_unruly::run(argument, &Simulated(system))
}

/// What a machine would make of an act.
struct Simulated<'s>(&'s dyn System);

impl Acts for Simulated<'_> {
    fn perform(&self, act: Act) -> u64 {
        let how = match act {
            Act::Loop => Misbehaviour::Loop,
            Act::MaskInterrupts | Act::Halt | Act::Output | Act::Divide => {
                Misbehaviour::BadInstruction
            }
            Act::WriteNull
            | Act::ReadKernel
            | Act::ReadPool
            | Act::WriteCode
            | Act::RunData
            | Act::Jump
            | Act::Overflow => Misbehaviour::StrayAccess(VirtAddr(8)),
            // The runtime of packages ends these itself.
            Act::Panic => return u64::from(Status::Panicked.code()),
            Act::Exhaust => return u64::from(Status::NoMemory.code()),
        };
        misbehave(self.0, how)
    }

    fn call(&self, number: u64, word: u64, input: Span, output: Span) -> Option<Answer> {
        Some(raw_call(self.0, Ask { number, word, input, output }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_package::Image;

    #[test]
    fn a_kernel_finds_what_is_linked_in() {
        for (name, _) in PACKAGES {
            assert_eq!(STORE.find(name), Some(Image::Linked(name)));
        }
        assert_eq!(STORE.find("nobody"), None);
    }
}
