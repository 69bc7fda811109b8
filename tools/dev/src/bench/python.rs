//! The benchmarks that are written in Python (`benches/`), since half of what they run is: each
//! takes this process's place. The request is checked before, so that a wrong one installs nothing.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::record::Record;
use nile_cli::args::Outcome;
use nile_cli::failure::Failure;
use nile_cli::needs::{self, PACKAGES, ROOT};
use nile_cli::size::Bytes;
use nile_cli::write;

/// Refuses a place for a report that is no folder and cannot become one.
pub fn check(outcome: &Outcome) -> Result<(), Failure> {
    outcome.report.as_ref().map_or(Ok(()), |folder| write::check_folder("--report", folder))
}

/// What runs the benchmark of this name, which runs jobs.
pub fn with_packages(name: &str) -> Result<Command, Failure> {
    needs::provided(PACKAGES)?;
    command(name)
}

/// What runs the benchmark of this name.
pub fn command(name: &str) -> Result<Command, Failure> {
    let mut command = Command::new("python3");
    command.arg(needs::provided(ROOT)?.join("benches")).arg(name);
    Ok(command)
}

/// Becomes that program, the benchmark of this name.
pub fn become_it(name: &str, mut command: Command, outcome: &Outcome) -> Result<(), Failure> {
    if let Some(record) = Record::of(&outcome.recorded, name)? {
        record.arguments(&mut command);
    }
    if let Some(folder) = &outcome.report {
        command.arg("--report").arg(folder);
    }
    command.args(outcome.control.then_some("--control")).args(outcome.json.then_some("--json"));
    let error = command.exec();
    Err(Failure::failed(format!("python3 cannot be run: {error}; start it through ./nile")))
}

/// In whole MiB.
pub fn mebi(size: Bytes) -> u64 {
    size.0 >> 20
}
