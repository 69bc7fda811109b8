//! How a package ended, and what it did until then.

use core::fmt;
use core::time::Duration;

use nile_abi::Status;
use nile_abi::call::SystemCall;
use nile_package::PackageError;
use nile_platform::Fault;

/// How a package ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// By itself, with this code.
    Exited(u64),
    /// It did what it may not.
    Faulted(Fault),
    /// From outside.
    Stopped,
    /// By its kernel, as it called nobody for longer than its manifest says.
    Hung(Duration),
    /// Without success, after memory was refused to it.
    OutOfMemory,
    /// It never ran.
    NotLoaded(LoadError),
}

/// Why a package never ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadError {
    /// Its file is no package.
    Image(PackageError),
    /// The argument has more than [`MAX_ARGUMENT_BYTES`](super::MAX_ARGUMENT_BYTES).
    Argument,
    /// The stack or the arena is larger than there are addresses for it, or there is none.
    Limits,
    /// This machine does not run it: `NotFound` for a linked program that it has not, `Denied`
    /// where no package may run, `NoMemory` and `NoTables` for lack of either.
    Refused(Status),
}

impl From<Status> for LoadError {
    fn from(status: Status) -> LoadError {
        LoadError::Refused(status)
    }
}

impl From<PackageError> for LoadError {
    fn from(error: PackageError) -> LoadError {
        LoadError::Image(error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Image(error) => write!(f, "its file is no package: {error}"),
            LoadError::Argument => {
                write!(f, "its argument is longer than {} bytes", super::MAX_ARGUMENT_BYTES)
            }
            LoadError::Limits => f.write_str("its limits give it no stack or no room for one"),
            LoadError::Refused(status) => write!(f, "refused: {status}"),
        }
    }
}

impl core::error::Error for LoadError {}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Exited(code) => write!(f, "exited with {code}"),
            Ended::Faulted(Fault { at, address, .. }) if *address != 0 => {
                write!(f, "{} at {at:#x}, address {address:#x}", self.kind_name())
            }
            Ended::Faulted(fault) => write!(f, "{} at {:#x}", self.kind_name(), fault.at),
            Ended::Stopped => f.write_str("stopped"),
            Ended::Hung(silent) => write!(f, "hung: it called nobody for {} s", silent.as_secs()),
            Ended::OutOfMemory => f.write_str("out of memory"),
            Ended::NotLoaded(error) => write!(f, "not loaded: {error}"),
        }
    }
}

impl Ended {
    /// The kind of end as reports name it.
    pub fn kind_name(&self) -> &'static str {
        match self {
            Ended::Exited(_) => "exited",
            Ended::Faulted(fault) => fault.kind_name(),
            Ended::Stopped => "stopped",
            Ended::Hung(_) => "hung",
            Ended::OutOfMemory => "out of memory",
            Ended::NotLoaded(_) => "not loaded",
        }
    }
}

/// What a package did, and how it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackageReport {
    /// How it ended.
    pub ended: Ended,
    /// System calls, by number; those of unknown numbers are bad calls only.
    pub calls: [u64; CALLS],
    /// Calls that failed because of a number, an address or a length.
    pub bad_calls: u64,
    /// Turns that a signal ended.
    pub interruptions: u64,
    /// Whether its text was there already, left by the last package.
    pub found_text: bool,
    /// The most bytes of memory that it had.
    pub memory_bytes: u64,
    /// The most that it might have had.
    pub limit_bytes: u64,
}

/// How many system calls there are.
pub const CALLS: usize = SystemCall::COUNT;

/// An end without success after a refusal is the end of one whose memory was exhausted: a program
/// cannot say so itself in a way that the kernel could believe.
pub(super) fn judge(ended: Ended, refused: bool) -> Ended {
    match ended {
        Ended::Exited(1..) | Ended::Faulted(_) if refused => Ended::OutOfMemory,
        Ended::NotLoaded(LoadError::Refused(Status::NoMemory)) => Ended::OutOfMemory,
        ended => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const FAULT: Fault = Fault { kind: Fault::PAGE, code: 7, at: 0x1000, address: 0x20 };

    #[test]
    fn only_a_failure_after_a_refusal_is_out_of_memory() {
        assert_eq!(judge(Ended::Exited(101), true), Ended::OutOfMemory);
        assert_eq!(judge(Ended::Faulted(FAULT), true), Ended::OutOfMemory);
        assert_eq!(judge(Ended::Exited(0), true), Ended::Exited(0));
        assert_eq!(judge(Ended::Stopped, true), Ended::Stopped);
        assert_eq!(judge(Ended::Exited(101), false), Ended::Exited(101));
        assert_eq!(judge(Ended::Faulted(FAULT), false), Ended::Faulted(FAULT));
        let unloaded = |status| Ended::NotLoaded(LoadError::Refused(status));
        assert_eq!(judge(unloaded(Status::NoMemory), false), Ended::OutOfMemory);
        assert_eq!(judge(unloaded(Status::Denied), true), unloaded(Status::Denied));
    }

    #[test]
    fn an_end_says_what_and_where() {
        assert_eq!(Ended::Faulted(FAULT).to_string(), "page fault at 0x1000, address 0x20");
        let refused = Ended::NotLoaded(Status::NotFound.into());
        assert_eq!(refused.to_string(), "not loaded: refused: not_found");
        let hung = Ended::Hung(Duration::from_secs(2));
        assert_eq!(hung.to_string(), "hung: it called nobody for 2 s");
    }
}
