//! How many calls a second a package's kernel answers: such as meet the managing core, and such as
//! the package's own core answers alone.

use core::time::Duration;

use nile_abi::CoreId;
use nile_abi::call::{System as _, SystemCall};
use nile_user::log;

use crate::{Context, Measured, refused};

/// Which calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A channel is opened and closed: the managing core allocates, zeroes, maps and frees its
    /// memory.
    Channels,
    /// A call that does nothing.
    Empty,
}

/// The tag of channels that nobody accepts, and their cells.
const NOBODY: u32 = 10;
const CELLS: u32 = 16;

/// Empty calls between two looks at the clock.
const EMPTY: u64 = 1000;

/// Calls for so many seconds, and logs how many there were in the middle half of them: others that
/// began a little before or after do so all that time.
pub fn rate(context: &Context<'_>, kind: Kind, seconds: u32, core: CoreId) -> Measured {
    let span = Duration::from_secs(seconds.into());
    let begun = context.now()?;
    let (first, last, end) = (begun + span / 4, begun + span * 3 / 4, begun + span);
    let (mut counted, mut from, mut to) = (0, begun, begun);
    loop {
        let before = context.now()?;
        let calls = call(context, kind, core)?;
        let after = context.now()?;
        if before >= first && before < last {
            if counted == 0 {
                from = before;
            }
            (counted, to) = (counted + calls, after);
        }
        if after >= end {
            break;
        }
    }
    let took = to.since(from).as_nanos() as u64;
    let thousandths = u128::from(counted) * 1_000_000_000_000 / u128::from(took.max(1));
    let _ = log!(context.system, "measured {thousandths} calls in 1000 s");
    Ok(())
}

/// Makes a call or more, and says how many.
fn call(context: &Context<'_>, kind: Kind, core: CoreId) -> Measured<u64> {
    let runtime = &context.runtime;
    match kind {
        Kind::Channels => {
            runtime.open_channel(core, NOBODY, CELLS).map_err(refused)?.close();
            Ok(1)
        }
        Kind::Empty => {
            for _ in 0..EMPTY {
                runtime.call(SystemCall::Nothing, 0, &[], &mut []).result().map_err(refused)?;
            }
            Ok(EMPTY)
        }
    }
}
