//! What is measured between two packages that poll for what the other one says.
//!
//! Two loops that do nothing but poll fall into step with each other, some into a lucky one. So
//! whoever leads waits before each round trip for a time between none and several polls, and what
//! the waits take alone is taken away.

use alloc::vec::Vec;
use core::hint::{black_box, spin_loop};

use nile_abi::CoreId;
use nile_ring::PAYLOAD_BYTES;
use nile_user::log;

use crate::ways::{Channels, Packets, Posted, Way};
use crate::{Context, Measured, OTHER, PATIENCE, SILENT, WRONG, refused};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Trips,
    Stream,
}

/// By which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Post,
    Packets,
    Channel,
}

/// How often round trips are timed, and how many at once: few enough that most times lie between
/// two interruptions.
const BATCHES: usize = 201;
const TRIPS: u64 = 250;

/// Bytes that a stream sends, at least, and those of a packet of it.
const STREAM: usize = 256 << 20;
const LARGE: usize = 32 << 10;

/// The number that ends the other one.
const END: u64 = u64::MAX;

/// Polls between two looks at the clock.
const POLLS: u32 = 1 << 16;

/// Measures by a way, with the peer of this number.
pub fn run(context: &Context<'_>, what: What, kind: Kind, peer: u16, leads: bool) -> Measured {
    if kind == Kind::Channel {
        return measure(context, what, Channels::open(context, CoreId(peer))?, leads);
    }
    let shared = context.runtime.region("rf").map_err(refused)?;
    let bytes = if what == What::Trips { PAYLOAD_BYTES } else { LARGE };
    match kind {
        Kind::Post => measure(context, what, Posted::open(&shared, peer.into())?, leads),
        Kind::Packets => measure(context, what, Packets::open(&shared, peer.into(), bytes)?, leads),
        Kind::Channel => Err(WRONG),
    }
}

fn measure(context: &Context<'_>, what: What, mut way: impl Way, leads: bool) -> Measured {
    match (what, leads) {
        (What::Trips, true) => trips(context, &mut way),
        (What::Trips, false) => answer(context, &mut way),
        (What::Stream, true) => stream(context, &mut way),
        (What::Stream, false) => take(context, &mut way),
    }
}

/// Times round trips, and logs the middle of what one took.
fn trips(context: &Context<'_>, way: &mut impl Way) -> Measured {
    let mut waits = Waits(0);
    let mut number = 0;
    // The first one is answered when the other one is there.
    there_and_back(context, way, &mut waits, number)?;
    let mut times = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let begun = context.now()?;
        (0..TRIPS).for_each(|_| waits.wait());
        let waited = context.now()?;
        for _ in 0..TRIPS {
            number += 1;
            there_and_back(context, way, &mut waits, number)?;
        }
        let took = context.now()?.since(waited).as_nanos() as u64;
        times.push(took.saturating_sub(waited.since(begun).as_nanos() as u64));
    }
    context.poll(|| way.send(END).then_some(()))?;
    times.sort_unstable();
    let hundredths = times[BATCHES / 2] * 100 / TRIPS;
    let _ = log!(
        context.system,
        "measured {hundredths} ns/100 for {} bytes there and back",
        way.bytes()
    );
    Ok(())
}

#[inline]
fn there_and_back(
    context: &Context<'_>,
    way: &mut impl Way,
    waits: &mut Waits,
    number: u64,
) -> Measured {
    waits.wait();
    context.poll(|| way.send(number).then_some(()))?;
    let back = context.poll(|| way.receive())?;
    if back == number { Ok(()) } else { Err(OTHER) }
}

/// Sends back what comes, until the end.
fn answer(context: &Context<'_>, way: &mut impl Way) -> Measured {
    loop {
        let number = context.poll(|| way.receive())?;
        if number == END {
            return Ok(());
        }
        context.poll(|| way.send(number).then_some(()))?;
    }
}

/// Times a stream of numbers, and logs how many bytes came in a second.
fn stream(context: &Context<'_>, way: &mut impl Way) -> Measured {
    // The first one is answered when the other one is there, and the last one when it has all.
    context.poll(|| way.send(0).then_some(()))?;
    context.poll(|| way.receive())?;
    let count = (STREAM / way.bytes()) as u64;
    let begun = context.now()?;
    for number in 1..=count {
        context.poll(|| way.send(number).then_some(()))?;
    }
    context.poll(|| way.send(END).then_some(()))?;
    let came = context.poll(|| way.receive())?;
    let took = context.now()?.since(begun).as_nanos() as u64;
    if came != count {
        return Err(OTHER);
    }
    let kilobytes = count * way.bytes() as u64 * 1_000_000 / took.max(1);
    let _ = log!(context.system, "measured {kilobytes} kB/s in pieces of {} bytes", way.bytes());
    Ok(())
}

/// Takes a stream: each number in its turn, once. Then says how many there were.
fn take(context: &Context<'_>, way: &mut impl Way) -> Measured {
    let mut last = context.poll(|| way.receive())?;
    context.poll(|| way.send(last).then_some(()))?;
    loop {
        match context.poll(|| way.receive())? {
            END => return context.poll(|| way.send(last).then_some(())),
            number if number == last + 1 => last = number,
            _ => return Err(OTHER),
        }
    }
}

impl Context<'_> {
    /// What `look` gives, once it gives anything.
    #[inline]
    fn poll<T>(&self, mut look: impl FnMut() -> Option<T>) -> Measured<T> {
        let mut until = None;
        loop {
            for _ in 0..POLLS {
                if let Some(found) = look() {
                    return Ok(found);
                }
                spin_loop();
            }
            let now = self.now()?;
            if now > *until.get_or_insert(now + PATIENCE) {
                return Err(SILENT);
            }
        }
    }
}

/// Waits whose lengths are spread evenly, also over a few of them (a Weyl sequence).
struct Waits(u32);

impl Waits {
    /// The longest, in steps of about half a nanosecond.
    const LONGEST: u64 = 128;

    #[inline]
    fn wait(&mut self) {
        self.0 = self.0.wrapping_add(0x9e37_79b9);
        for step in 0..(u64::from(self.0) * Self::LONGEST) >> 32 {
            black_box(step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_of_all_lengths() {
        let mut waits = Waits(0);
        let mut below = 0;
        for _ in 0..1000 {
            waits.wait();
            below += u32::from(waits.0 < u32::MAX / 4);
        }
        assert!((240..=260).contains(&below), "{below}");
    }
}
