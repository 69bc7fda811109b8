//! What people see of a job: a bar while it runs, on standard error if that is a terminal, and a
//! table of its phases.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::jobs::{JobPhase, State};
use crate::table;

/// How often the bar is drawn anew.
const EVERY: Duration = Duration::from_millis(100);

/// Cells of a bar.
const WIDTH: u64 = 24;

/// A bar that shows how far a job is. It goes with this.
pub struct Bar {
    job: String,
    /// Bytes that the job reads and writes in all; 0 if that is not known.
    total: u64,
    start: Instant,
    shown: Option<Instant>,
    /// What was last said that the job waits for.
    waited: String,
    is_terminal: bool,
}

impl Bar {
    /// Nothing is done yet of `job`, which reads and writes so many bytes.
    pub fn new(job: &str, total: u64) -> Bar {
        let is_terminal = stderr().is_terminal();
        let (shown, waited) = (None, String::new());
        Bar { job: job.into(), total, start: Instant::now(), shown, waited, is_terminal }
    }

    /// The job is so far.
    pub fn show(&mut self, state: &State) {
        let now = Instant::now();
        if !self.is_terminal && self.waited != state.waits {
            self.waited.clone_from(&state.waits);
            if !state.waits.is_empty() {
                let _ = writeln!(stderr(), "nile: {} waits: {}", self.job, state.waits);
            }
        }
        if !self.is_terminal || self.shown.is_some_and(|shown| now - shown < EVERY) {
            return;
        }
        self.shown = Some(now);
        let text = line(&self.job, state, self.total, self.start.elapsed());
        // Who does not see it misses nothing.
        let _ = write!(stderr(), "\r\x1b[K{text}");
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if self.shown.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(job: &str, state: &State, total: u64, elapsed: Duration) -> String {
    let (done, of) = match total {
        0 => {
            let sum = |of: fn(&(u32, u32)) -> u32| of(&state.maps) + of(&state.reduces);
            (u64::from(sum(|it| it.0)), u64::from(sum(|it| it.1)).max(1))
        }
        total => (state.bytes.min(total), total),
    };
    let cells = usize::try_from(done * WIDTH / of).unwrap_or(0);
    let bar = format!("{}{}", "#".repeat(cells), ".".repeat(WIDTH as usize - cells));
    let percent = done * 100 / of;
    let (phase, rate) = (state.phase, rate(state.bytes, elapsed));
    let tasks = match state.phase {
        JobPhase::Mapping => format!(" {} of {}", state.maps.0, state.maps.1),
        JobPhase::Reducing => format!(" {} of {}", state.reduces.0, state.reduces.1),
        _ => String::new(),
    };
    let retries = match state.retries {
        0 => String::new(),
        retries => format!(", {retries} done again"),
    };
    let waits = match state.waits.as_str() {
        "" => String::new(),
        what => format!(": {what}"),
    };
    format!("{job:<8} [{bar}] {percent:>3}%  {rate:.0} MB/s  {phase}{tasks}{retries}{waits}")
}

/// Megabytes a second.
pub fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-3) / 1e6
}

/// A line of the table of phases.
pub struct Row {
    pub name: String,
    pub took: Duration,
    pub bytes: u64,
}

/// The table of phases.
pub fn phases(rows: &[Row]) -> String {
    let title = ["phase", "seconds", "bytes", "MB/s"].map(String::from).to_vec();
    let row = |row: &Row| {
        let seconds = format!("{:.3}", row.took.as_secs_f64());
        let rate = match row.bytes {
            0 => String::new(),
            bytes => format!("{:.0}", rate(bytes, row.took)),
        };
        vec![row.name.clone(), seconds, row.bytes.to_string(), rate]
    };
    let rows: Vec<_> = std::iter::once(title).chain(rows.iter().map(row)).collect();
    table::columns("", &rows)
}

/// The same as JSON.
pub fn documents(rows: &[Row]) -> Vec<Value> {
    let document = |row: &Row| {
        let seconds = row.took.as_secs_f64();
        json!({ "name": row.name, "seconds": seconds, "bytes": row.bytes })
    };
    rows.iter().map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_bytes_or_tasks() {
        let second = Duration::from_secs(1);
        let state = State {
            phase: JobPhase::Mapping,
            maps: (3, 6),
            reduces: (0, 2),
            bytes: 50_000_000,
            retries: 1,
            ..State::default()
        };
        let half = line("sort", &state, 100_000_000, second);
        assert_eq!(
            half,
            "sort     [############............]  50%  50 MB/s  mapping 3 of 6, 1 done again"
        );
        assert!(line("sort", &state, 0, second).contains("[#########...............]  37%"));
        let waits = "sort (a.output) has the workers".into();
        let queued = State { phase: JobPhase::Queued, waits, ..State::default() };
        let queued = line("sort", &queued, 0, second);
        assert!(queued.ends_with("queued: sort (a.output) has the workers"), "{queued}");
        // More than there is, and nothing at all.
        assert!(line("sort", &state, 1, second).contains(" 100%"));
        assert!(line("gen", &State::default(), 0, Duration::ZERO).contains("   0%  0 MB/s"));
    }

    #[test]
    fn the_table_has_rates() {
        let row = |name: &str, millis, bytes| Row {
            name: name.into(),
            took: Duration::from_millis(millis),
            bytes,
        };
        let table = phases(&[row("sort", 500, 1_000_000_000), row("  sampling", 2, 0)]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "phase       seconds       bytes  MB/s");
        assert_eq!(lines[1], "sort          0.500  1000000000  2000");
        assert_eq!(lines[2], "  sampling    0.002           0");
    }
}
