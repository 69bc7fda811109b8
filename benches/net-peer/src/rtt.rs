//! Round trips: one message there and back after the other.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::spread::part;
use crate::{Outcome, connect, there_and_back};

/// Round trips that only warm up.
const WARM: usize = 100;

/// Measures for so long.
pub fn run(to: &str, lasts: Duration, spins: bool) -> Outcome<Value> {
    let mut stream = connect(to)?;
    for _ in 0..WARM {
        there_and_back(&mut stream, 0, false)?;
    }
    stream.set_nonblocking(spins)?;
    let mut times = Vec::new();
    let end = Instant::now() + lasts;
    let mut before = Instant::now();
    while before < end {
        there_and_back(&mut stream, times.len() as u8, spins)?;
        let now = Instant::now();
        times.push(now - before);
        before = now;
    }
    times.sort_unstable();
    let [half, most] = [0.5, 0.99].map(|it| part(&times, it));
    Ok(json!({ "count": times.len(), "half_us": half, "p99_us": most }))
}
