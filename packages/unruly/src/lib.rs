//! A package that does what no package may. Its argument says what: see [`Act`], or `calls`, for
//! system calls that no sound program makes, each of which must fail with
//! [`Status::Invalid`](nile_abi::Status::Invalid), or `call-at ADDRESS`, for one whose output would
//! go there.
//!
//! The acts themselves are given by whoever links this: the binary really does them, a simulation
//! injects what a machine would make of them.
#![no_std]
#![forbid(unsafe_code)]

use nile_abi::call::{Answer, SystemCall, USER_BASE, USER_BYTES};
use nile_abi::{Status, VirtAddr};

/// The exit code of a package that was not stopped though it should have been.
pub const NOT_STOPPED: u64 = 100;

/// The exit code for an argument that is none.
pub const UNKNOWN: u64 = 101;

/// What a package may not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// `loop`: never ends.
    Loop,
    /// `write-null`: writes to address zero.
    WriteNull,
    /// `read-kernel`: reads where the kernel is.
    ReadKernel,
    /// `read-pool`: reads the node's pool of buffers, for which it has not asked.
    ReadPool,
    /// `write-code`: writes to its own code.
    WriteCode,
    /// `run-data`: executes its own data.
    RunData,
    /// `jump`: goes on where nothing is.
    Jump,
    /// `cli`: masks interrupts.
    MaskInterrupts,
    /// `hlt`: halts the core.
    Halt,
    /// `out`: writes to a device's port.
    Output,
    /// `divide`: divides by zero.
    Divide,
    /// `overflow`: calls itself until its stack is full.
    Overflow,
    /// `exhaust`: takes memory until there is none.
    Exhaust,
    /// `panic`: panics.
    Panic,
    /// `read-at ADDRESS`: reads a line of memory there.
    ReadAt(u64),
    /// `write-at ADDRESS`: writes to the first word of a line there.
    WriteAt(u64),
}

/// Bytes that are read or written at an address.
pub const AT_BYTES: u64 = 64;

impl Act {
    /// Every act with what it is called in the argument.
    pub const ALL: [(&str, Act); 14] = [
        ("loop", Act::Loop),
        ("write-null", Act::WriteNull),
        ("read-kernel", Act::ReadKernel),
        ("read-pool", Act::ReadPool),
        ("write-code", Act::WriteCode),
        ("run-data", Act::RunData),
        ("jump", Act::Jump),
        ("cli", Act::MaskInterrupts),
        ("hlt", Act::Halt),
        ("out", Act::Output),
        ("divide", Act::Divide),
        ("overflow", Act::Overflow),
        ("exhaust", Act::Exhaust),
        ("panic", Act::Panic),
    ];
}

/// How acts are done.
pub trait Acts {
    /// Does it. Returns only if nobody stopped it, and gives an exit code.
    fn perform(&self, act: Act) -> u64;

    /// Makes a system call with any numbers at all: number, word, input and output as address and
    /// bytes. Nothing where such a call cannot be made.
    fn call(&self, number: u64, word: u64, input: Span, output: Span) -> Option<Answer>;
}

/// An address and a number of bytes there, or not there.
pub type Span = (VirtAddr, u64);

/// Does what `argument` names. Gives 0 if every bad call was refused, the number of the first that
/// was not, or one of the codes above.
pub fn run(argument: &[u8], acts: &dyn Acts) -> u64 {
    if argument == b"calls" {
        return bad_calls(acts);
    }
    if let Some(at) = address(argument, b"call-at ") {
        let output = (VirtAddr(at), AT_BYTES);
        let answer = acts.call(SystemCall::Wait as u64, 0, (VirtAddr(0), 0), output);
        let is_refused = answer.is_none_or(|answer| answer.result() == Err(Status::Invalid));
        return if is_refused { 0 } else { NOT_STOPPED };
    }
    let named = Act::ALL.iter().find(|(name, _)| name.as_bytes() == argument).map(|it| it.1);
    let read = || address(argument, b"read-at ").map(Act::ReadAt);
    let write = || address(argument, b"write-at ").map(Act::WriteAt);
    let Some(act) = named.or_else(read).or_else(write) else { return UNKNOWN };
    // Whoever looks at the core's count of system calls sees that the act begins.
    acts.call(SystemCall::Nothing as u64, 0, (VirtAddr(0), 0), (VirtAddr(0), 0));
    acts.perform(act)
}

/// The address that an argument with this word names.
fn address(argument: &[u8], word: &[u8]) -> Option<u64> {
    str::from_utf8(argument.strip_prefix(word)?).ok()?.parse().ok()
}

/// Makes bad calls, counted from 1; gives the number of the first that was not refused, or 0.
fn bad_calls(acts: &dyn Acts) -> u64 {
    const NONE: Span = (VirtAddr(0), 0);
    /// The entry table, which a package may read and not write.
    const TABLE: VirtAddr = VirtAddr(USER_BASE + 0x1000);
    const WILD: [Span; 12] = [
        (VirtAddr(0), 8),
        (VirtAddr(1), 1),
        (VirtAddr(USER_BASE - 1), 1),
        (VirtAddr(USER_BASE - 8), 16),
        (VirtAddr(USER_BASE + USER_BYTES), 1),
        (VirtAddr(USER_BASE + USER_BYTES - 1), 1),
        (VirtAddr(0xffff_ffff_8000_0000), 8),
        (VirtAddr(0x8000_0000_0000_0000), 8),
        (VirtAddr(u64::MAX), 1),
        (VirtAddr(u64::MAX), u64::MAX),
        (TABLE, u64::MAX),
        (TABLE, USER_BYTES),
    ];
    let unknown = SystemCall::COUNT as u64;
    let numbers = [10, unknown, 255, 1 << 32, u64::MAX].map(|number| (number, NONE, NONE));
    let inputs = WILD.map(|span| (SystemCall::Log as u64, span, NONE));
    let outputs = WILD.map(|span| (SystemCall::Wait as u64, NONE, span));
    let read_only = [(SystemCall::Wait as u64, NONE, (TABLE, 64))];
    let calls = numbers.iter().chain(&inputs).chain(&outputs).chain(&read_only);
    for (count, (number, input, output)) in (1..).zip(calls) {
        let answer = acts.call(*number, 0, *input, *output);
        if answer.is_some_and(|answer| answer.result() != Err(Status::Invalid)) {
            return count;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::{Cell, RefCell};

    /// A machine that stops nothing, and refuses calls up to one.
    struct Lax {
        refuses: u64,
        calls: Cell<u64>,
        done: RefCell<Option<Act>>,
    }

    impl Acts for Lax {
        fn perform(&self, act: Act) -> u64 {
            *self.done.borrow_mut() = Some(act);
            NOT_STOPPED
        }

        fn call(&self, _: u64, _: u64, _: Span, _: Span) -> Option<Answer> {
            self.calls.set(self.calls.get() + 1);
            Some(match self.calls.get() <= self.refuses {
                true => Answer::failed(Status::Invalid),
                false => Answer::ok(0),
            })
        }
    }

    fn lax(refuses: u64) -> Lax {
        Lax { refuses, calls: Cell::new(0), done: RefCell::new(None) }
    }

    #[test]
    fn each_act_is_done_by_its_name_and_returning_is_told() {
        for (name, act) in Act::ALL {
            let machine = lax(0);
            assert_eq!(run(name.as_bytes(), &machine), NOT_STOPPED);
            assert_eq!(machine.done.take(), Some(act));
        }
        assert_eq!(run(b"dance", &lax(0)), UNKNOWN);
        assert_eq!(run(b"read-at x", &lax(0)), UNKNOWN);
        let machine = lax(0);
        assert_eq!(run(b"write-at 4096", &machine), NOT_STOPPED);
        assert_eq!(machine.done.take(), Some(Act::WriteAt(4096)));
        assert_eq!(run(b"call-at 4096", &lax(0)), NOT_STOPPED);
        assert_eq!(run(b"call-at 4096", &lax(1)), 0);
    }

    #[test]
    fn the_first_bad_call_that_passes_is_told() {
        assert_eq!(run(b"calls", &lax(0)), 1);
        assert_eq!(run(b"calls", &lax(7)), 8);
        let strict = lax(u64::MAX);
        assert_eq!(run(b"calls", &strict), 0);
        assert_eq!(strict.calls.get(), 30);
    }
}
