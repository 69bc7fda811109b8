//! How a stage ends.

use alloc::format;
use alloc::string::String;
use core::fmt;

use nile_abi::Status;
use nile_stl::CallError;

pub use nile_interfaces::task::records::Fault;

/// The most bytes of a line that are shown with a failure.
const SHOWN: usize = 80;

/// What a stage gives: `Err` is passed on by `?`.
pub type Outcome<T = ()> = Result<T, Halt>;

/// Why a stage did not come to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// It is off: what it has made is dropped, and nobody asks why.
    Stopped,
    /// It has failed. The job tries it again, elsewhere if it can.
    Failed {
        /// What is at fault.
        fault: Fault,
        /// What, where, and what to do.
        text: String,
    },
}

/// What a map or a reduce task has seen: of a job that only reorders records, both add up to the
/// same.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// How many records.
    pub records: u64,
    /// The sum of their checksums, of whichever kind the job likes.
    pub checksum: u64,
}

impl Halt {
    /// A failure of the job's own code or arguments.
    pub fn code(text: impl Into<String>) -> Halt {
        Halt::Failed { fault: Fault::Code, text: text.into() }
    }

    /// A failure because of what was read: it is not as the code wants it, or what a map task has
    /// left is damaged.
    pub fn input(text: impl Into<String>) -> Halt {
        Halt::Failed { fault: Fault::Input, text: text.into() }
    }

    /// A failure for lack of memory or of space on a disk.
    pub fn space(text: impl Into<String>) -> Halt {
        Halt::Failed { fault: Fault::Space, text: text.into() }
    }

    /// The same, with the line of the input in which it has happened.
    pub(crate) fn in_line(self, line: &[u8]) -> Halt {
        match self {
            Halt::Failed { fault, text } if fault != Fault::Space => {
                let shown = &line[..line.len().min(SHOWN)];
                let more = if shown.len() < line.len() { "…" } else { "" };
                let line = String::from_utf8_lossy(shown);
                Halt::Failed { fault, text: format!("{text}, in the line {line:?}{more}") }
            }
            halt => halt,
        }
    }

    /// What the end of a call means that was to do `what`: work that is not known any more is off.
    pub(crate) fn of(error: CallError, fault: Fault, what: &str) -> Halt {
        match error.status {
            Status::NotFound => Halt::Stopped,
            Status::NoMemory => Halt::space(format!("{what}: {error}")),
            _ => Halt::Failed { fault, text: format!("{what}: {error}") },
        }
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Stopped => f.write_str("called off"),
            Halt::Failed { text, .. } => f.write_str(text),
        }
    }
}
