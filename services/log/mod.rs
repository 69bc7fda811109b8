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
use nile_stl::{CallError, CallResult, Caller, Start, Stl, service};

use crate::ALL;
use lines::{Lines, printable};
use nile_interfaces::log::{Line, LogKernel};

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

#[service(on = manager, keywords(log = 5, line = 2, write = 1, tail = 1))]
impl LogKernel for Log {
    fn write(&self, caller: &Caller, line: &str) -> u64 {
        self.note(caller, printable(line))
    }

    fn call(
        &self,
        caller: &Caller,
        called: &str,
        method: &str,
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

    fn tail(&self, lines: u16) -> Vec<Line> {
        self.lines.borrow().tail(usize::from(lines))
    }
}

impl Log {
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
