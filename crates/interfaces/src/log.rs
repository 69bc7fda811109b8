//! One log for the node.

use alloc::string::String;
use alloc::vec::Vec;

use nile_bosml::Bytes;
use nile_stl::{CallResult, Caller, Record, service};

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
#[service(subsystem = "log", capability = "lines", layer = high)]
pub trait Log {
    /// Writes a line of at most 1024 bytes; what is no printable letter is replaced. Number 0: it
    /// is left out, as packages write more than they may in a second.
    #[stl_k(reply = "number", allow(package, operator, peer))]
    fn write(&self, caller: &Caller, #[range(0..=1024)] line: &str) -> u64;

    /// Writes a line about a call: a method of a service of this image, its encoded arguments.
    #[stl_k(reply = "number", allow(package, operator, peer))]
    fn call(
        &self,
        caller: &Caller,
        #[range(0..=64)] called: &str,
        #[range(0..=64)] method: &str,
        arguments: Bytes<'_>,
    ) -> CallResult<u64>;

    /// The last lines, the newest last: so many, or fewer if that would be too long a reply or
    /// the log has not so many.
    #[stl_k(reply = "lines", allow(operator, peer))]
    fn tail(&self, #[range(0..=256)] lines: u16) -> Vec<Line>;
}
