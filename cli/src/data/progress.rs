//! How far a transfer is, on standard error if that is a terminal.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// How often the line is written anew.
const EVERY: Duration = Duration::from_millis(100);

/// A line that shows how far something is.
pub struct Progress {
    what: String,
    /// Bytes in all, if that is known.
    total: Option<u64>,
    start: Instant,
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Progress {
    /// Nothing is done yet.
    pub fn new(what: &str, total: Option<u64>) -> Progress {
        let is_terminal = stderr().is_terminal();
        Progress { what: what.into(), total, start: Instant::now(), shown: None, is_terminal }
    }

    /// So many bytes are done.
    pub fn show(&mut self, done: u64) {
        let now = Instant::now();
        if !self.is_terminal || self.shown.is_some_and(|shown| now - shown < EVERY) {
            return;
        }
        self.shown = Some(now);
        let text = line(&self.what, done, self.total, self.start.elapsed());
        // Who does not see it misses nothing.
        let _ = write!(stderr(), "\r\x1b[K{text}");
    }

    /// Seconds since it began.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(what: &str, done: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001) / f64::from(1 << 20);
    match total {
        Some(total) if total > 0 => {
            let percent = done.min(total) * 100 / total;
            format!("{what}: {percent}% of {} MiB, {rate:.0} MiB/s", total.div_ceil(1 << 20))
        }
        _ => format!("{what}: {} MiB, {rate:.0} MiB/s", done >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is() {
        let second = Duration::from_secs(1);
        let half = line("x", 50 << 20, Some(100 << 20), second);
        assert_eq!(half, "x: 50% of 100 MiB, 50 MiB/s");
        assert_eq!(line("x", 3 << 20, None, 3 * second), "x: 3 MiB, 1 MiB/s");
        assert_eq!(line("x", 9, Some(0), Duration::ZERO), "x: 0 MiB, 0 MiB/s");
    }
}
