//! The benchmarks that are written in Python (`benches/`), since half of what they run is: each
//! takes this process's place. The request is checked before, so that a wrong one installs nothing.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::failure::Failure;
use crate::needs::{self, PACKAGES, ROOT};
use crate::size::Bytes;

/// Refuses a place for a report that is no folder and cannot become one.
pub fn check_report(folder: Option<&Path>) -> Result<(), Failure> {
    match folder {
        Some(folder) if folder.exists() && !folder.is_dir() => {
            Err(Failure::request(format!("--report {} is no folder", folder.display())))
        }
        _ => Ok(()),
    }
}

/// What runs the benchmark of this name.
pub fn command(name: &str) -> Result<Command, Failure> {
    needs::provided(PACKAGES)?;
    let mut command = Command::new("python3");
    command.arg(needs::provided(ROOT)?.join("benches")).arg(name);
    Ok(command)
}

/// Becomes that program.
pub fn become_it(mut command: Command) -> Result<(), Failure> {
    let error = command.exec();
    Err(Failure::failed(format!("python3 cannot be run: {error}; start it through ./nile")))
}

/// In whole MiB.
pub fn mebi(size: Bytes) -> u64 {
    size.0 >> 20
}
