//! Connections that live for one message: opened, used and closed, one after the other.

use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::spread::part;
use crate::{Outcome, connect, there_and_back};

/// Measures for so long.
pub fn run(to: &str, lasts: Duration) -> Outcome<Value> {
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < lasts {
        let before = Instant::now();
        let mut stream = connect(to)?;
        there_and_back(&mut stream, times.len() as u8, false)?;
        stream.shutdown(Shutdown::Write)?;
        // Both have ended it.
        match stream.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err("more has come back than was sent".into()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            Err(error) => return Err(error.into()),
        }
        times.push(before.elapsed());
    }
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    times.sort_unstable();
    let [half, most] = [0.5, 0.99].map(|it| part(&times, it));
    Ok(json!({ "per_second": rate, "half_us": half, "p99_us": most }))
}
