//! How a call between cores ends. The numbers are fixed: they travel in cells and frames.

use core::fmt;

/// The end of a call. `Ok` is the only success; [`Status::try_again`] tells "later may work"
/// apart from "the caller is wrong".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Status {
    /// It happened.
    Ok = 0,
    /// The peer's incarnation that was called is gone.
    Dead = 1,
    /// No answer came before the deadline.
    Timeout = 2,
    /// The callee has no room for the call now.
    Busy = 3,
    /// The called method panicked; its core restarts.
    Panicked = 4,
    /// No frame of the size is free.
    NoMemory = 5,
    /// The pool of last-level page tables is empty.
    NoTables = 6,
    /// No such core, channel, method or address.
    NotFound = 7,
    /// The arguments are out of range or contradict each other.
    Invalid = 8,
    /// What was named is already there.
    Exists = 9,
    /// The caller may not do this.
    Denied = 10,
    /// What was called is not where it was, and nothing was done: it may be found elsewhere. The
    /// transport layer looks by itself; callers that meant this one place are told `Dead`.
    Gone = 11,
    /// A device failed: what was asked for has not happened, or not all of it.
    Failed = 12,
}

impl Status {
    const ALL: [Status; 13] = [
        Status::Ok,
        Status::Dead,
        Status::Timeout,
        Status::Busy,
        Status::Panicked,
        Status::NoMemory,
        Status::NoTables,
        Status::NotFound,
        Status::Invalid,
        Status::Exists,
        Status::Denied,
        Status::Gone,
        Status::Failed,
    ];

    /// The number on the wire.
    pub fn code(self) -> u16 {
        self as u16
    }

    /// The status with this number on the wire.
    pub fn from_code(code: u16) -> Option<Status> {
        Status::ALL.get(usize::from(code)).copied()
    }

    /// The name that tools print.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Dead => "dead",
            Status::Timeout => "timeout",
            Status::Busy => "busy",
            Status::Panicked => "panicked",
            Status::NoMemory => "no_memory",
            Status::NoTables => "no_tables",
            Status::NotFound => "not_found",
            Status::Invalid => "invalid",
            Status::Exists => "exists",
            Status::Denied => "denied",
            Status::Gone => "gone",
            Status::Failed => "failed",
        }
    }

    /// Whether the same call may succeed later.
    pub fn try_again(self) -> bool {
        matches!(self, Status::Timeout | Status::Busy | Status::NoMemory | Status::NoTables)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_wire_numbers() {
        for (number, status) in Status::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(status.code()), number);
            assert_eq!(Status::from_code(status.code()), Some(status));
        }
        assert_eq!(Status::from_code(13), None);
    }
}
