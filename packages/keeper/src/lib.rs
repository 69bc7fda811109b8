//! A package that counts in memory which stays when it ends: each run adds one to what the run
//! before it has left, whatever became of that one.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod kept;

use core::sync::atomic::Ordering::Relaxed;

use nile_abi::CoreId;
use nile_abi::call::{System, SystemCall};
use nile_user::{KeepError, Runtime, with_services};

/// Bytes of the keep: a large page, and a small one behind it.
pub const BYTES: u64 = (2 << 20) + 4096;

/// The version of its contents.
pub const VERSION: u16 = 1;

/// The exit code if another core has it, plus the core.
pub const ELSEWHERE: u64 = 1000;
/// That if there is another version, plus the version.
pub const OTHER: u64 = 2000;
/// That if it was refused, plus the status.
pub const REFUSED: u64 = 3000;
/// That if it is not as it was left, plus the count.
pub const DAMAGED: u64 = 4000;

/// Adds one, and gives what it is then. The argument is how many bytes the keep has, a space, and
/// what then happens: `add` (it ends), `fault` (it panics), `hold` (it waits for ever), `renew` (it
/// wants another version); or `serve` and its core: it adds nothing, and whoever calls [`kept`]
/// does.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let text = core::str::from_utf8(argument).unwrap_or_default();
    let (bytes, act) = text.split_once(' ').unwrap_or_default();
    let bytes = bytes.parse().unwrap_or_default();
    let version = VERSION + u16::from(act == "renew");
    let runtime = Runtime::new(system);
    let keep = match runtime.keep("count", bytes, version) {
        Ok(keep) => keep,
        Err(KeepError::Elsewhere(core)) => return ELSEWHERE + u64::from(core.0),
        Err(KeepError::Other { version, .. }) => return OTHER + u64::from(version),
        Err(KeepError::Refused(status)) => return REFUSED + u64::from(status.code()),
    };
    let words = keep.words();
    let (Some(first), Some(last)) = (words.first(), words.last()) else { return DAMAGED };
    let count = first.load(Relaxed);
    // The last piece of it comes with the first, and with what it had.
    if !keep.is_found() && count > 0 || last.load(Relaxed) != count {
        return DAMAGED + count;
    }
    if let Some(core) = act.strip_prefix("serve ") {
        let core = CoreId(core.parse().unwrap_or_default());
        return with_services(&runtime, core, |services| kept::serve(services, words));
    }
    first.store(count + 1, Relaxed);
    last.store(count + 1, Relaxed);
    match act {
        "fault" => panic!("on purpose"),
        "hold" => loop {
            let _ = system.call(SystemCall::Wait, u64::MAX, &[], &mut [0; 64]);
        },
        _ => count + 1,
    }
}
