//! Windows of time in which a command runs, and the longest that nothing came in each. As long a
//! window before it, in which nothing is done, says how much of that is the machine's.

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::spread::part;
use crate::{Outcome, PATIENCE};

/// How long after the command a window ends.
const SETTLES: Duration = Duration::from_millis(50);

/// How long after a command the next one may run: a server that has not lived for a second waits
/// before it begins anew, each time longer.
const SPACED: Duration = Duration::from_millis(1200);

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(20);

/// When something came last, and the longest that nothing did since the window began.
pub struct Arrivals(Mutex<Gap>);

struct Gap {
    last: Instant,
    longest: Duration,
    /// What has come, in whatever unit.
    count: u64,
    /// Why nothing comes any more.
    over: Option<String>,
}

impl Arrivals {
    /// From now on.
    pub fn new() -> Arrivals {
        let last = Instant::now();
        Arrivals(Mutex::new(Gap { last, longest: Duration::ZERO, count: 0, over: None }))
    }

    /// So much has come.
    pub fn came(&self, count: u64) {
        let now = Instant::now();
        let mut gap = self.gap();
        gap.longest = gap.longest.max(now - gap.last);
        gap.last = now;
        gap.count += count;
    }

    /// Nothing comes any more, and why.
    pub fn end(&self, why: String) {
        self.gap().over = Some(why);
    }

    fn begin(&self) {
        let mut gap = self.gap();
        gap.longest = Instant::now() - gap.last;
    }

    /// The longest that nothing came since it began, once something has come again.
    fn finish(&self) -> Outcome<Duration> {
        let from = Instant::now();
        loop {
            let gap = self.gap();
            match &gap.over {
                Some(why) => return Err(why.clone().into()),
                None if gap.last > from => return Ok(gap.longest),
                None if from.elapsed() > PATIENCE => return Err("nothing comes any more".into()),
                None => {}
            }
            drop(gap);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn gap(&self) -> std::sync::MutexGuard<'_, Gap> {
        // A thread that panicked has left numbers that are right.
        self.0.lock().unwrap_or_else(|it| it.into_inner())
    }
}

/// Runs `command` so often, while somebody tells `arrivals` what comes.
pub fn run(arrivals: &Arrivals, times: usize, command: &[&str]) -> Outcome<Value> {
    let (mut disturbed, mut quiet) = (Vec::new(), Vec::new());
    let mut lasts = SETTLES;
    let (begun, before) = (Instant::now(), arrivals.gap().count);
    for _ in 0..times {
        thread::sleep(SPACED.saturating_sub(lasts));
        arrivals.begin();
        thread::sleep(lasts);
        quiet.push(arrivals.finish()?);

        arrivals.begin();
        let began = Instant::now();
        carry_out(command)?;
        thread::sleep(SETTLES);
        disturbed.push(arrivals.finish()?);
        lasts = began.elapsed();
    }
    let seconds = begun.elapsed().as_secs_f64();
    let rate = (arrivals.gap().count - before) as f64 / seconds;
    disturbed.sort_unstable();
    quiet.sort_unstable();
    let spread = |times: &[Duration]| {
        let [half, p99, most] = [0.5, 0.99, 1.0].map(|it| part(times, it));
        json!({ "half_us": half, "p99_us": p99, "most_us": most })
    };
    Ok(json!({
        "times": times,
        "gap": spread(&disturbed),
        "quiet": spread(&quiet),
        "per_second": rate,
    }))
}

/// Runs a command to its end; an error if it fails.
fn carry_out(command: &[&str]) -> Outcome<()> {
    let (program, arguments) = command.split_first().ok_or("there is no command")?;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("{program}: {status}").into()),
            None if begun.elapsed() > LIMIT => {
                child.kill()?;
                child.wait()?;
                return Err(format!("{program} took longer than {LIMIT:?}").into());
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Something comes every millisecond, but not while the command has the lock.
    #[test]
    fn the_longest_pause_is_found() {
        let arrivals = Arrivals::new();
        let folder = std::env::temp_dir().join(format!("nile-windows-{}", std::process::id()));
        let pause = folder.display().to_string();
        let script = format!("touch {pause}; sleep 0.2; rm {pause}");
        let measured = thread::scope(|scope| {
            scope.spawn(|| {
                while arrivals.gap().over.is_none() {
                    if !folder.exists() {
                        arrivals.came(1);
                    }
                    thread::sleep(Duration::from_millis(1));
                }
            });
            let measured = run(&arrivals, 3, &["sh", "-c", &script]);
            arrivals.end(String::from("enough"));
            measured
        });
        let measured = measured.unwrap();
        let of = |which: &str, what: &str| measured[which][what].as_f64().unwrap();
        assert!(of("gap", "half_us") > 150e3, "{measured}");
        assert!(of("quiet", "half_us") < of("gap", "half_us"), "{measured}");
        assert!(measured["per_second"].as_f64().unwrap() > 0.0, "{measured}");
    }

    #[test]
    fn what_fails_is_told() {
        let arrivals = Arrivals::new();
        assert!(carry_out(&[]).is_err() && carry_out(&["false"]).is_err());
        arrivals.end(String::from("it is over"));
        assert_eq!(run(&arrivals, 1, &["true"]).unwrap_err().to_string(), "it is over");
    }
}
