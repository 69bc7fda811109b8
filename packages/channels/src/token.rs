//! A token that two neighbours pass each other: each waits until it has it, so that the core is the
//! other's with every pass.

use nile_user::Runtime;

use super::{Checked, Other, PATIENCE, now, pair, say};

/// What is added to what a pass took, where that is what the package says.
pub const TOOK: u64 = 1 << 32;

/// Passes that only warm up.
const WARM: u64 = 100;

/// Passes the token to the neighbour and back, so many `times`. The one that `leads` gives
/// [`TOOK`] and what a pass took by the kernel's clock, in hundredths of a nanosecond.
pub fn token(
    runtime: &Runtime<'_>,
    other: Other,
    times: Option<&str>,
    turn: Option<&str>,
) -> Checked<u64> {
    let times: u64 = times.and_then(|it| it.parse().ok()).filter(|it| *it > 0).ok_or(110u64)?;
    let mut pair = pair(runtime, other, PATIENCE)?;
    let token = say(0)?;
    let leads = turn == Some("leads");
    let mut begun = 0;
    for number in 0..WARM + times {
        if leads && number == WARM {
            begun = now(runtime)?;
        }
        if leads {
            pair.out.send(&token).map_err(|_| 111u64)?;
        }
        pair.back.receive().map_err(|_| 112u64)?;
        if !leads {
            pair.out.send(&token).map_err(|_| 113u64)?;
        }
    }
    if !leads {
        return Ok(0);
    }
    let took = now(runtime)?.saturating_sub(begun);
    Ok(TOOK + took.saturating_mul(100) / (2 * times))
}
