//! A package that measures system calls from where they are made: empty ones, and such as bring
//! 64 KiB with them.
#![no_std]
#![forbid(unsafe_code)]

use nile_abi::Status;
use nile_abi::call::{Answer, System, SystemCall};

/// The exit code if the argument is wrong or a call was not answered as it has to be.
pub const FAILED: u64 = u64::MAX;

/// What the long calls bring: as much as a service's message has at most.
static LONG: [u8; 64 << 10] = [0; 64 << 10];

/// Makes system calls, as many as `argument` says in decimal; if that begins with `long`, each to a
/// service that is not there, with 64 KiB for it. Gives what one took by the kernel's clock, in
/// hundredths of a nanosecond, or [`FAILED`].
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let text = core::str::from_utf8(argument).unwrap_or_default();
    let (call, number): (fn(&dyn System, u64) -> bool, _) = match text.strip_prefix("long ") {
        Some(number) => (long, number),
        None => (empty, text),
    };
    let calls = number.parse().ok().filter(|calls| *calls > 0);
    calls.and_then(|calls| measure(system, calls, call)).unwrap_or(FAILED)
}

fn measure(system: &dyn System, calls: u64, call: fn(&dyn System, u64) -> bool) -> Option<u64> {
    let now = || system.call(SystemCall::Now, 0, &[], &mut []).result().ok();
    // The first one of each warms up.
    let mut right = call(system, 0) && now().is_some();
    let before = now()?;
    for number in 1..=calls {
        right &= call(system, number);
    }
    let took = now()?.checked_sub(before)?;
    if right { took.checked_mul(100).map(|hundredths| hundredths / calls) } else { None }
}

fn empty(system: &dyn System, number: u64) -> bool {
    system.call(SystemCall::Nothing, number, &[], &mut []) == Answer::ok(number)
}

fn long(system: &dyn System, _: u64) -> bool {
    let answer = system.call(SystemCall::Invoke, 0, &LONG, &mut []);
    answer.result() == Err(Status::NotFound)
}
