//! A line in the node's log.

use core::fmt;

use alloc::string::ToString;
use nile_abi::Status;
use nile_abi::call::{System, SystemCall};

/// Writes a line to the node's log. Fails as the system call does. [`log!`](crate::log!) calls it.
pub fn write_log(system: &dyn System, line: fmt::Arguments<'_>) -> Result<(), Status> {
    let text = line.to_string();
    system.call(SystemCall::Log, 0, text.as_bytes(), &mut []).result().map(|_| ())
}
