//! `nile test`: every check of the project as one list of steps, the quick ones first. Each step
//! is a command with a limit; its output is shown when it fails. What it leaves behind is ended and
//! removed, and processes are reported: a step that leaves any has failed.

mod scratch;
mod steps;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use scratch::Scratch;
use steps::{STEPS, Step};

use nile_cli::args::Test;
use nile_cli::child::{self, ChildError};
use nile_cli::failure::Failure;
use nile_cli::needs::{self, Need, ROOT};

/// How much of a failed step's output is shown: its end, where the reason stands.
const SHOWN: u64 = 64 << 10;

/// How long it may take to find out whether a tool is there.
const PROBE: Duration = Duration::from_secs(60);

/// How one step ended.
enum Verdict {
    /// It holds; how many tests said so, if it was a run of tests.
    Passed(Option<u64>),
    Failed(String),
    Skipped(&'static str),
}

/// Runs the steps that `options` choose, prints one line for each and the totals.
pub fn run(options: &Test) -> Result<(), Failure> {
    check(options)?;
    Failure::at_signals()?;
    let root = needs::provided(ROOT)?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for step in STEPS.iter().filter(|step| chosen(step, options)) {
        nile_cli::print(&format!("{:<14} {:<52} ", step.name, step.what))?;
        let start = Instant::now();
        let verdict = perform(step, &root)?;
        let seconds = start.elapsed().as_secs_f64();
        nile_cli::print(&match verdict {
            Verdict::Passed(tests) => {
                passed += 1;
                let tests = tests.map(|count| format!(", {count} passed")).unwrap_or_default();
                format!("ok {seconds:8.1} s{tests}\n")
            }
            Verdict::Failed(output) => {
                failed += 1;
                format!("FAILED {seconds:4.1} s\n{output}\n")
            }
            Verdict::Skipped(why) => {
                skipped += 1;
                format!("not run: {why}\n")
            }
        })?;
    }
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
    let mut command = command(step.command, root);
    command.envs(step.environment.iter().copied());
    scratch.hold(&mut command);
    command.stdout(output.try_clone().map_err(cannot)?);
    command.stderr(output.try_clone().map_err(cannot)?);
    let problem = match child::wait(&mut command, Duration::from_secs(step.limit_seconds)) {
        Err(ChildError::Interrupted) => return Err(Failure::Interrupted),
        Err(error) => format!("{} {error}", step.name),
        Ok(status) if !status.success() => status.to_string(),
        Ok(_) => {
            let tests = tests_run(&read(&mut output, u64::MAX).map_err(cannot)?);
            let left = scratch.left();
            match tests {
                Some(0) => "its command ran no test".into(),
                _ if !left.is_empty() => format!("it left running: {}", left.join("; ")),
                tests => return Ok(Verdict::Passed(tests)),
            }
        }
    };
    Ok(Verdict::Failed(read(&mut output, SHOWN).map_err(cannot)? + &problem))
}

/// How many tests passed by the closing lines of the test programs in `output`; `None` if it has
/// none.
fn tests_run(output: &str) -> Option<u64> {
    let count = |line: &str| -> Option<u64> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        counts.split(' ').next()?.parse().ok()
    };
    output.lines().filter_map(count).reduce(|sum, count| sum + count)
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

    /// A process that is in no group of the step's, a file, and then `end`.
    fn leaving((end, limit_seconds): (&'static str, u64)) -> String {
        const LEAVES: &str = "setsid sleep 1000 & touch $TMPDIR/file; echo in $TMPDIR; eval $0";
        let command = Vec::leak(vec!["sh", "-c", LEAVES, end]);
        let step = Step { name: "leaving", command, limit_seconds, ..steps::STEP };
        let Verdict::Failed(output) = perform(&step, Path::new("/")).unwrap() else {
            panic!("it has left a process behind");
        };
        let folder = output.lines().find_map(|line| line.strip_prefix("in ")).unwrap();
        assert!(!Path::new(folder).exists(), "{folder}");
        assert_eq!(process::below(Path::new(folder)).len(), 0, "{folder}");
        output.lines().last().unwrap().into()
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
        assert_eq!(tests_run(&format!("noise\n{line}\n{line}")), Some(24));
        assert_eq!(tests_run(&line.replace("12", "0")), Some(0));
        assert_eq!(tests_run("    Finished `dev` profile\n"), None);
    }
}
