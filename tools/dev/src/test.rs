//! `nile test`: every check of the project as one list of steps, the quick ones first. Each step
//! is a command with a limit; its output is shown when it fails. What it leaves behind is ended and
//! removed, and processes are reported: a step that leaves any has failed.
//!
//! Steps run in two lanes side by side: those that build, of which one is enough for all
//! processors, and those that mostly wait. Each step is told when it has ended.

mod scratch;
mod step;
mod steps;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use scratch::Scratch;
use step::{Lane, Step};
use steps::STEPS;

use nile_cli::args::Test;
use nile_cli::child::{self, ChildError};
use nile_cli::failure::Failure;
use nile_cli::needs::{self, Need, ROOT};

/// How much of a failed step's output is shown: its end, where the reason stands.
const SHOWN: u64 = 64 << 10;

/// How many reasons are shown that stand before that.
const MOST_REASONS: usize = 20;

/// How long it may take to find out whether a tool is there.
const PROBE: Duration = Duration::from_secs(60);

/// How one step ended.
enum Verdict {
    Passed(Figures),
    Failed(String),
    Skipped(&'static str),
}

/// What the output of a step that holds has said.
#[derive(PartialEq, Debug)]
struct Figures {
    /// How many tests have passed, if it was a run of tests.
    tests: Option<u64>,
    /// Seconds that Cargo took to build.
    built: f64,
}

/// Runs the steps that `options` choose, prints one line for each and the totals.
pub fn run(options: &Test) -> Result<(), Failure> {
    check(options)?;
    Failure::at_signals()?;
    let root = needs::provided(ROOT)?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        for lane in [Lane::Builds, Lane::Waits] {
            let (tell, root) = (tell.clone(), &root);
            scope.spawn(move || {
                for step in STEPS.iter().filter(|it| it.lane == lane && chosen(it, options)) {
                    let start = Instant::now();
                    let ended = perform(step, root);
                    let is_over = ended.is_err();
                    // Whoever does not listen any more has failed.
                    if tell.send((step, start.elapsed(), ended)).is_err() || is_over {
                        return;
                    }
                }
            });
        }
        drop(tell);
        for (step, took, ended) in told {
            let seconds = took.as_secs_f64();
            let said = match ended? {
                Verdict::Passed(Figures { tests, built }) => {
                    passed += 1;
                    let built = if built < 1.0 {
                        String::new()
                    } else {
                        format!(", {built:.0} s to build")
                    };
                    let tests = tests.map(|count| format!(", {count} passed")).unwrap_or_default();
                    format!("ok {seconds:8.1} s{built}{tests}")
                }
                Verdict::Failed(output) => {
                    failed += 1;
                    format!("FAILED {seconds:4.1} s\n{output}")
                }
                Verdict::Skipped(why) => {
                    skipped += 1;
                    format!("not run: {why}")
                }
            };
            nile_cli::print(&format!("{:<14} {:<52} {said}\n", step.name, step.what))?;
        }
        Ok(())
    })?;
    let skips = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
    nile_cli::print(&format!("{passed} passed, {failed} failed{skips}\n"))?;
    match failed {
        0 => Ok(()),
        _ => Err(Failure::failed("see the output of the failed steps above")),
    }
}

/// Refuses names that no step has.
pub fn check(options: &Test) -> Result<(), Failure> {
    match options.names.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        None => Ok(()),
        Some(name) => {
            let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
            Err(Failure::request(format!("no test `{name}`; there are: {}", names.join(", "))))
        }
    }
}

/// What the chosen steps need, each once. Steps that need something built call the launcher.
pub fn needs(options: &Test) -> Vec<Need> {
    let steps = STEPS.iter().filter(|step| chosen(step, options));
    let needs: BTreeSet<Need> = steps.flat_map(|step| step.needs.iter().copied()).collect();
    needs.into_iter().collect()
}

/// Long steps run when they are named or when everything is asked for.
fn chosen(step: &Step, options: &Test) -> bool {
    match options.names.is_empty() {
        true => options.full || !step.long,
        false => options.names.iter().any(|name| name == step.name),
    }
}

fn perform(step: &Step, root: &Path) -> Result<Verdict, Failure> {
    if let Some(tool) = &step.tool {
        let status = child::wait(command(tool.probe, root).stdout(Stdio::null()), PROBE);
        match status {
            Err(ChildError::Interrupted) => return Err(Failure::Interrupted),
            Ok(status) if status.success() => {}
            _ => return Ok(Verdict::Skipped(tool.missing)),
        }
    }
    let cannot =
        |error: io::Error| Failure::failed(format!("cannot keep a step's output: {error}"));
    let mut output = tempfile::tempfile().map_err(cannot)?;
    let scratch = Scratch::new().map_err(cannot)?;
    let mut command = command(&step.command.split_whitespace().collect::<Vec<_>>(), root);
    command.envs(step.environment.iter().copied());
    scratch.hold(&mut command);
    command.stdout(output.try_clone().map_err(cannot)?);
    command.stderr(output.try_clone().map_err(cannot)?);
    let problem = match child::wait(&mut command, Duration::from_secs(step.limit_seconds)) {
        Err(ChildError::Interrupted) => return Err(Failure::Interrupted),
        Err(error) => format!("{} {error}", step.name),
        Ok(status) if !status.success() => status.to_string(),
        Ok(_) => {
            let figures = Figures::of(&read(&mut output, u64::MAX).map_err(cannot)?);
            let left = scratch.left();
            match figures.tests {
                Some(0) => "its command ran no test".into(),
                _ if !left.is_empty() => format!("it left running: {}", left.join("; ")),
                _ => return Ok(Verdict::Passed(figures)),
            }
        }
    };
    let whole = read(&mut output, u64::MAX).map_err(cannot)?;
    let end = read(&mut output, SHOWN).map_err(cannot)?;
    Ok(Verdict::Failed(cut_off(&whole, &end) + &end + &problem))
}

/// What of a whole output says why tests have failed, if its `end` does not have it.
fn cut_off(whole: &str, end: &str) -> String {
    let before = whole.get(..whole.len().saturating_sub(end.len())).unwrap_or_default();
    let lines: Vec<&str> = before.lines().collect();
    let is_panic = |at: &usize| lines[*at].contains("panicked at");
    let panics = (0..lines.len()).filter(is_panic).take(MOST_REASONS);
    let said = panics.flat_map(|at| lines[at..].iter().take(3));
    said.map(|line| format!("{line}\n")).collect()
}

impl Figures {
    /// By the closing lines of the test programs in `output`, and Cargo's.
    fn of(output: &str) -> Figures {
        let count = |line: &str| -> Option<u64> {
            let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
            counts.split(' ').next()?.parse().ok()
        };
        let tests = output.lines().filter_map(count).reduce(|sum, count| sum + count);
        Figures { tests, built: output.lines().filter_map(seconds_to_build).sum() }
    }
}

/// The seconds in a line of Cargo's: "Finished `dev` profile [optimized] target(s) in 1m 06s".
fn seconds_to_build(line: &str) -> Option<f64> {
    let (_, took) = line.trim_start().strip_prefix("Finished `")?.rsplit_once(" in ")?;
    took.split(' ').try_fold(0.0, |sum, part| {
        let (number, unit) = part.split_at(part.len().checked_sub(1)?);
        let number: f64 = number.parse().ok()?;
        match unit {
            "s" => Some(sum + number),
            "m" => Some(sum + 60.0 * number),
            _ => None,
        }
    })
}

fn command(words: &[&str], root: &Path) -> Command {
    let mut command = child::command(words[0]);
    command.args(&words[1..]).current_dir(root).stderr(Stdio::null());
    command
}

/// The last `bytes` of what `file` holds.
fn read(file: &mut File, bytes: u64) -> io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    Ok(String::from_utf8_lossy(&content).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_cli::process;
    use std::fs;

    /// A process that is in no group of the step's, a file, and then `end`.
    fn leaving((end, limit_seconds): (&'static str, u64)) -> String {
        const LEAVES: &str = "setsid sleep 1000 & touch $TMPDIR/file; echo in $TMPDIR; eval \"$@\"";
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("leaves");
        fs::write(&script, LEAVES).unwrap();
        let command = String::leak(format!("sh {} {end}", script.display()));
        let step = Step { name: "leaving", command, limit_seconds, ..step::STEP };
        let Verdict::Failed(output) = perform(&step, Path::new("/")).unwrap() else {
            panic!("it has left a process behind");
        };
        let folder = output.lines().find_map(|line| line.strip_prefix("in ")).unwrap();
        assert!(!Path::new(folder).exists(), "{folder}");
        assert_eq!(process::below(Path::new(folder)).len(), 0, "{folder}");
        output.lines().last().unwrap().into()
    }

    #[test]
    fn what_is_cut_off_of_an_output_says_why_tests_have_failed() {
        let reason = "thread 'a' panicked at a.rs:1:1:\nleft is not right\n";
        let whole = format!("test a ... FAILED\n{reason}note\nmore\nthe end");
        assert_eq!(cut_off(&whole, "the end"), format!("{reason}note\n"));
        assert_eq!(cut_off(&whole, &whole), "");
    }

    #[test]
    fn nothing_outlives_a_step_and_processes_that_would_are_told() {
        let ends = [("true", 60), ("exit 3", 60), ("kill -9 $$", 60), ("sleep 1000", 1)];
        let [passed, failed, killed, late] = ends.map(leaving);
        assert_eq!(passed, "it left running: sleep 1000");
        assert_eq!(failed, "exit status: 3");
        assert_eq!(killed, "signal: 9 (SIGKILL)");
        assert_eq!(late, "leaving did not end within 1 s");
    }

    #[test]
    fn tests_are_counted_over_all_programs() {
        let line = "test result: ok. 12 passed; 0 failed; 0 ignored\n";
        let tests = |output: &str| Figures::of(output).tests;
        assert_eq!(tests(&format!("noise\n{line}\n{line}")), Some(24));
        assert_eq!(tests(&line.replace("12", "0")), Some(0));
        assert_eq!(tests("    Finished `dev` profile\n"), None);
    }

    #[test]
    fn what_cargo_took_to_build_is_added_up() {
        let line =
            |took: &str| format!("    Finished `dev` profile [optimized] target(s) in {took}\n");
        let built = |output: &str| Figures::of(output).built;
        assert_eq!(built(&(line("1m 06s") + "noise in 3s\n" + &line("0.25s"))), 66.25);
        assert_eq!(built(&line("soon")), 0.0);
    }
}
