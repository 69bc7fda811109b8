//! The log service: one log for the node. A line from any core goes to the machine's log and is
//! kept for a while, with who wrote it and when. Calls are logged with what is encrypted masked.
//!
//! * `lines`: the lines that are kept.

mod lines;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_bosml::{Bytes, masked_text};
use nile_stl::{CallError, CallResult, Caller, Record, Start, Stl, service};

use crate::ALL;
use lines::{Lines, printable};

/// The node's log.
pub struct Log {
    stl: Stl,
    lines: RefCell<Lines>,
}

impl Start for Log {
    fn start(stl: &Stl) -> Log {
        Log { stl: stl.clone(), lines: RefCell::default() }
    }
}

/// A line of the log.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// Its number: one more than that of the line before.
    pub number: u64,
    /// When it was written, in nanoseconds since the node's start.
    pub nanos: u64,
    /// The core that it is from.
    pub core: u16,
    /// Whether a package of that core wrote it.
    pub from_package: bool,
    /// What it says, on one line.
    pub text: String,
}

/// The node's log: write a line, read the last ones.
#[service(
    subsystem = "log",
    capability = "lines",
    layer = high,
    on = manager,
    keywords(log = 5, line = 2, write = 1, tail = 1)
)]
impl Log {
    /// Writes a line of at most 1024 bytes; what is no printable letter is replaced.
    #[stl_k(reply = "number")]
    fn write(&self, caller: &Caller, #[range(0..=1024)] line: &str) -> u64 {
        self.note(caller, printable(line))
    }

    /// Writes a line about a call: a method of a service of this image, its encoded arguments.
    #[stl_k(reply = "number")]
    fn call(
        &self,
        caller: &Caller,
        #[range(0..=64)] called: &str,
        #[range(0..=64)] method: &str,
        arguments: Bytes<'_>,
    ) -> CallResult<u64> {
        let missing = || {
            let what = format!("no {}.{} in this image", printable(called), printable(method));
            CallError::new(Status::NotFound, what)
        };
        let known = ALL.into_iter().find(|it| it.name() == called).ok_or_else(missing)?;
        let (_, known) = known.interface.schema.method(method).ok_or_else(missing)?;
        let text = masked_text(&known.parameters, method, &arguments.0)?;
        Ok(self.note(caller, printable(&format!("{called}: {text}"))))
    }

    /// The last lines, the newest last: so many, or fewer if that would be too long a reply or
    /// the log has not so many.
    #[stl_k(reply = "lines")]
    fn tail(&self, #[range(0..=256)] lines: u16) -> Vec<Line> {
        self.lines.borrow().tail(usize::from(lines))
    }

    fn note(&self, caller: &Caller, text: String) -> u64 {
        let host = self.stl.host();
        let who = if caller.is_package() { "package on " } else { "" };
        host.log(format_args!("{who}{}: {text}", caller.core));
        self.lines.borrow_mut().push(Line {
            number: 0,
            nanos: host.now().as_nanos(),
            core: caller.core.0,
            from_package: caller.is_package(),
            text,
        })
    }
}
