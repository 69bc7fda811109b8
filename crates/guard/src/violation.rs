//! Why something is refused.

use core::fmt;

use nile_abi::{PhysAddr, VirtAddr};

/// What a domain's kernel wanted and may not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// No page table is there.
    NoTable(PhysAddr),
    /// A root, or a link above the last two levels, stays as it was built.
    Upper(PhysAddr),
    /// What is mapped there stays: code, tables, stacks, registers.
    Stays(PhysAddr),
    /// This frame is no last-level table of the domain's.
    NoLink(PhysAddr),
    /// The memory is not the domain's.
    NotOwn(PhysAddr),
    /// The memory is the domain's, but the guard stands on it.
    Guarded(PhysAddr),
    /// Memory that may be written may not be executed.
    WriteAndExecute(PhysAddr),
    /// The core of this name is not the domain's.
    Core(u32),
    /// This command to an interrupt controller is no interrupt of one core.
    Command(u32),
    /// This port is no console's.
    Port(u16),
    /// This model-specific register is not for a domain, or not this value.
    Register(u32),
    /// No segments and no interrupt gates that the guard keeps are there.
    Descriptors(VirtAddr),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::NoTable(at) => write!(f, "no page table is at {at}"),
            Violation::Upper(at) => write!(f, "the upper table at {at} stays as it was built"),
            Violation::Stays(at) => write!(f, "what is mapped at {at} stays"),
            Violation::NoLink(at) => write!(f, "{at} is no last-level table"),
            Violation::NotOwn(at) => write!(f, "the memory at {at} is not the domain's"),
            Violation::Guarded(at) => write!(f, "the guard stands on the memory at {at}"),
            Violation::WriteAndExecute(at) => {
                write!(f, "the page at {at} would be writable and executable")
            }
            Violation::Core(name) => write!(f, "core {name} of the machine is not the domain's"),
            Violation::Command(command) => {
                write!(f, "the command {command:#x} is no interrupt of one core")
            }
            Violation::Register(register) => {
                write!(f, "the register {register:#x} is not a domain's to write so")
            }
            Violation::Descriptors(at) => write!(f, "no own segments or gates are at {at}"),
            Violation::Port(port) => write!(f, "port {port:#x} is not the domain's"),
        }
    }
}

impl core::error::Error for Violation {}
