//! The log service: one log for the node. A line from any core goes to the machine's log and is
//! kept for a while, with who wrote it and when. Calls are logged with what is encrypted masked.
//! The packages of a core write so much a second and no more.
//!
//! * `lines`: the lines that are kept.

mod lines;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::{CoreId, Status};
use nile_bosml::{Bytes, masked_text};
use nile_order::SortedMap;
use nile_stl::{Admitted, Allowance, CallError, CallResult, Caller, Start, Stl, service};

use crate::ALL;
use lines::{Lines, printable};
use nile_interfaces::log::{Line, LogKernel};

/// Bytes of lines that the packages of a core may write in a second, and what a line counts besides
/// its own.
const MOST: u32 = 64 << 10;
const LINE_BYTES: usize = 32;

/// The node's log.
pub struct Log {
    stl: Stl,
    lines: RefCell<Lines>,
    /// What packages may write, by the cores that their calls come from.
    packages: RefCell<SortedMap<CoreId, Allowance>>,
}

impl Start for Log {
    fn start(stl: &Stl) -> Log {
        Log { stl: stl.clone(), lines: RefCell::default(), packages: RefCell::default() }
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
    /// The line's number; 0 if it is left out.
    fn note(&self, caller: &Caller, text: String) -> u64 {
        let host = self.stl.host();
        if caller.is_package() {
            let mut packages = self.packages.borrow_mut();
            let allowance = packages.entry(caller.core).or_insert_with(|| Allowance::new(MOST));
            match allowance.take(host.now(), text.len() + LINE_BYTES) {
                Admitted::No => return 0,
                Admitted::Yes => {}
                Admitted::After(lines) => host.log(format_args!(
                    "package on {}: {lines} lines are left out: it writes more than {MOST} bytes \
                     a second",
                    caller.core
                )),
            }
        }
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
