//! User mode: how a core runs a package.
//!
//! A package runs by *turns*: [`User::run`] gives it the core until it makes a system call, does
//! what it may not, the turn's end has come or the core is signalled; the kernel decides what comes
//! next. Nothing else of
//! the kernel runs on the core meanwhile. On x86_64 user mode is ring 3; hosted, it is a stack of
//! its own in the worker's process; in a simulation it is a coroutine.
//!
//! *User memory* is what the kernel has put among the addresses of a package's
//! [slot](nile_abi::call::UserSlot), and the pool of buffers behind it. The kernel fills a grant by
//! its own mapping first; then the management core enters it in the user half of the core's tables
//! and [`User::map`] makes it usable there. The kernel reads and writes user memory by
//! [`User::read`] and [`User::write`] alone, which check every byte.
//!
//! A core may have several packages, each in a slot of its own. What is in one slot no package of
//! another one can reach, and no turn of a package changes what another one finds in its next.

use nile_abi::call::Answer;
use nile_abi::{Instant, VirtAddr};

use crate::{AttachError, Fault, Grant};

/// How a package may use a piece of its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Read it.
    Read,
    /// Read and write it.
    Write,
    /// Read it and execute it.
    Execute,
}

/// How a package gets into the kernel of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gateway {
    /// By calling this code, which the kernel copies to user memory, wherever it likes.
    Code(&'static [u8]),
    /// By calling this address.
    At(VirtAddr),
}

/// Where a package starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At an address, called with one argument as the C calling convention has it.
    At {
        /// The first instruction.
        entry: VirtAddr,
        /// The end of the stack, where it begins to grow down; a multiple of 16.
        stack: VirtAddr,
        /// The argument: where the entry table is.
        argument: VirtAddr,
    },
    /// In the program of this name, which the machine has linked in (simulations).
    Linked(&'static str),
}

/// Something that a package asks of its kernel, not yet checked in any way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Which call: see [`SystemCall`](nile_abi::call::SystemCall).
    pub number: u64,
    /// The call's word.
    pub word: u64,
    /// Where its input is, and how many bytes.
    pub input: (VirtAddr, u64),
    /// Where its output goes, and how many bytes there is room for.
    pub output: (VirtAddr, u64),
}

/// Why a turn of a package ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It asks something; the next turn brings the answer.
    Call(Ask),
    /// The core was signalled, or the turn's end has come. The next turn goes on where this one
    /// stopped.
    Interrupted,
    /// It did what it may not. There is no next turn.
    Fault(Fault),
}

/// The address or the length is not all user memory that may be used so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadAddress;

/// One slot of a core's user half, with at most one package in it. Dropping it forgets all of it:
/// the package never runs again, and no translation of its memory is left on this core.
pub trait User: 'static {
    /// How a package gets into this kernel.
    fn gateway(&self) -> Gateway;

    /// Makes a grant usable at `at` in user mode. It is one of this core's, and the management
    /// core has entered it in the user half of the core's tables with this access.
    fn map(&mut self, grant: Grant, at: VirtAddr, access: Access) -> Result<(), AttachError>;

    /// Forgets the grant that was mapped at `at`, if one was: the management core has taken it out
    /// of the core's tables, and no translation of it is left on this core.
    fn unmap(&mut self, at: VirtAddr);

    /// Makes the node's pool usable by the package, at its
    /// [slot's place for it](nile_abi::call::UserSlot::pool). The management core has entered it
    /// there, to be written. `OutOfRange` if the node has none.
    fn map_pool(&mut self) -> Result<(), AttachError>;

    /// Copies from user memory that the package may read.
    fn read(&self, from: VirtAddr, into: &mut [u8]) -> Result<(), BadAddress>;

    /// Copies to user memory that the package may write.
    fn write(&mut self, to: VirtAddr, from: &[u8]) -> Result<(), BadAddress>;

    /// Where the first turn begins. `NotFound` for a linked program that this machine has not.
    fn start(&mut self, start: Start) -> Result<(), nile_abi::Status>;

    /// One turn of the package. `answer` is for the call that ended the last turn; in the first
    /// turn, and after an interruption, nobody sees it. Interrupted at `until`, soon if that is
    /// past; without it the turn returns in time without bound, unless the core is signalled.
    fn run(&mut self, answer: Answer, until: Option<Instant>) -> Exit;
}

/// The user half of a machine that runs no packages: there is none.
#[derive(Debug)]
pub enum NoUser {}

impl User for NoUser {
    fn gateway(&self) -> Gateway {
        match *self {}
    }

    fn map(&mut self, _: Grant, _: VirtAddr, _: Access) -> Result<(), AttachError> {
        match *self {}
    }

    fn unmap(&mut self, _: VirtAddr) {
        match *self {}
    }

    fn map_pool(&mut self) -> Result<(), AttachError> {
        match *self {}
    }

    fn read(&self, _: VirtAddr, _: &mut [u8]) -> Result<(), BadAddress> {
        match *self {}
    }

    fn write(&mut self, _: VirtAddr, _: &[u8]) -> Result<(), BadAddress> {
        match *self {}
    }

    fn start(&mut self, _: Start) -> Result<(), nile_abi::Status> {
        match *self {}
    }

    fn run(&mut self, _: Answer, _: Option<Instant>) -> Exit {
        match *self {}
    }
}
