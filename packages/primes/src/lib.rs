//! A package that counts primes together with packages of other cores, over a region that all of
//! them have: an example of memory that many cores share (FENCE, sections 3 and 4).
//!
//! ```text
//! nile region make primes 64K
//! nile package start primes --on n1.c2 --argument "count 10000000000"
//! nile package start primes --on n1.c3 --argument join
//! ```
//!
//! The pieces of the loop are distributed without a lock and without a message
//! ([`nile_sync::spread`]). A package that ends in the midst of its piece, or whose core does,
//! leaves it to the others.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod count;
mod work;

use core::sync::atomic::Ordering::Relaxed;

use nile_abi::Status;
use nile_abi::call::{System, SystemCall};
use nile_ring::{LINE_BYTES, Region, Word};
use nile_sync::Seats;
use nile_sync::spread::{NotBegun, Spread};
use nile_user::{Runtime, SEATS_OF_DOMAIN, SharedRegion, log, with_services};

/// Bytes of the region.
pub const BYTES: u64 = 64 << 10;

/// Pieces of the loop.
pub const PIECES: u32 = 2400;

/// Places for packages: of 64 cores, and where domains share the region of 15 of those.
const SEATS: usize = SEATS_OF_DOMAIN as usize;
const SHARED_SEATS: usize = 16 * SEATS;

/// The most that primes are counted below: a piece is done in seconds then.
pub const MOST: u64 = 1 << 35;

/// The exit code if the argument is none, the region is too small, or there are not as many primes
/// as it was told.
pub const WRONG: u64 = 1;
/// That while others count below another number.
pub const BUSY: u64 = 2;
/// That if there is nothing to join.
pub const NOTHING: u64 = 3;
/// That if the region was refused, plus the status.
pub const REFUSED: u64 = 1000;

/// What several packages do together.
struct Shared {
    seats: Seats,
    /// What primes are counted below.
    limit: Region,
    /// How many there are in each piece.
    counts: Region,
    spread: Spread,
    /// The first seat of this node's packages.
    first: u16,
}

impl Shared {
    fn attach(shared: &SharedRegion<'_>) -> Option<Shared> {
        let region = shared.region();
        let seats_there = if shared.is_shared() { SHARED_SEATS } else { SEATS };
        let mut at = 0;
        let mut next = |bytes: usize| {
            let part = region.slice(at, bytes);
            at += bytes;
            part
        };
        let seats = Seats::attach(next(Seats::region_len(seats_there))?);
        let limit = next(LINE_BYTES)?;
        let counts = next((PIECES as usize * 8).next_multiple_of(LINE_BYTES))?;
        let spread = Spread::attach(next(Spread::region_len(seats_there, PIECES))?, seats.clone())?;
        Some(Shared { seats, limit, counts, spread, first: shared.first_seat() })
    }

    fn limit(&self) -> &Word {
        &self.limit.words()[0]
    }

    /// Begins a loop, if none is under way.
    fn begin(&self, limit: u64) -> Result<(), u64> {
        match self.spread.is_done() {
            true => self.limit().store(limit, Relaxed),
            false if self.limit().load(Relaxed) == limit => return Ok(()),
            false => return Err(BUSY),
        }
        match self.spread.begin(PIECES) {
            Ok(()) => Ok(()),
            Err(NotBegun::Unfinished) => Err(BUSY),
            Err(NotBegun::TooMany) => Err(WRONG),
        }
    }
}

/// What the package is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Act {
    /// Begin to count below a number, and count.
    Count(u64),
    /// Count with others; there are to be so many, if that is said.
    Join(Option<u64>),
    /// Begin to count, take a piece, and stay with it for ever: for tests.
    Hold(u64),
}

impl Act {
    fn parse(argument: &[u8]) -> Option<Act> {
        let text = core::str::from_utf8(argument).ok()?.trim();
        let Some((act, number)) = text.split_once(' ') else {
            return (text == "join").then_some(Act::Join(None));
        };
        let number = number.trim().parse().ok().filter(|number| *number <= MOST)?;
        match act {
            "count" => Some(Act::Count(number)),
            "hold" => Some(Act::Hold(number)),
            "join" => Some(Act::Join(Some(number))),
            _ => None,
        }
    }
}

/// Counts until every piece is done, says in the log how many primes there are in all, and gives
/// zero. The argument is `count LIMIT`, `join`, or `join PRIMES`.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some(act) = Act::parse(argument) else {
        let _ = log!(system, "the argument is `count LIMIT`, up to {MOST}, or `join`");
        return WRONG;
    };
    let runtime = Runtime::new(system);
    let shared = match runtime.region("primes") {
        Ok(shared) => shared,
        Err(status) => {
            let _ = log!(system, "the region primes: {status}: {}", cure(status));
            return REFUSED + u64::from(status.code());
        }
    };
    let all = Shared::attach(&shared);
    let Some((all, seat)) = all.and_then(|all| {
        let seat = all.seats.enter(shared.seat())?;
        Some((all, seat))
    }) else {
        let _ = log!(system, "the region primes has fewer than {BYTES} bytes, or cores are many");
        return WRONG;
    };
    let code = match act {
        Act::Count(limit) | Act::Hold(limit) => all.begin(limit).err(),
        Act::Join(_) => (all.limit().load(Relaxed) == 0).then_some(NOTHING),
    };
    if let Some(code) = code {
        let _ = log!(system, "{}", if code == NOTHING { "nobody counts" } else { "others count" });
        all.seats.clear(seat);
        return code;
    }
    if matches!(act, Act::Hold(_)) {
        let _piece = all.spread.take(seat);
        loop {
            let _ = system.call(SystemCall::Wait, u64::MAX, &[], &mut [0; 64]);
        }
    }
    let core = shared.core();
    let done = with_services(&runtime, core, |services| work::work(services, &all, seat));
    all.seats.clear(seat);
    let (sum, limit) = (work::sum(&all), all.limit().load(Relaxed));
    let _ = log!(system, "{sum} primes below {limit}; {done} of {PIECES} pieces here");
    match act {
        Act::Join(Some(wanted)) if wanted != sum => WRONG,
        _ => 0,
    }
}

fn cure(status: Status) -> &'static str {
    match status {
        Status::NotFound => "core_manager.make_region makes it",
        Status::Exists => "two packages of this core have it",
        _ => "it cannot be had",
    }
}
