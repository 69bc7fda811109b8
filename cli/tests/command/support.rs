//! Runs the command as people do, and reads what it says.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The root of the source tree.
pub fn root() -> PathBuf {
    let cli = Path::new(env!("CARGO_MANIFEST_DIR"));
    cli.parent().expect("the package lies in the source tree").into()
}

/// The launcher, which first builds and installs what the command needs.
pub fn launcher() -> Command {
    Command::new(root().join("nile"))
}

/// The launcher again, for one that was called before and has built all that the command needs.
pub fn launcher_again() -> Command {
    let mut command = launcher();
    command.env("NILE_BUILT", "1");
    command
}

/// The command itself, without the launcher and what it provides.
pub fn nile() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nile"));
    let provided = std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("NILE_"));
    for name in provided {
        command.env_remove(name);
    }
    // Its clusters are those of the launcher.
    command.env("NILE_ROOT", root());
    // What tests and simulates is the program beside it, which the launcher has built.
    command.env("NILE_DEV", Path::new(env!("CARGO_BIN_EXE_nile")).with_file_name("nile-dev"));
    command
}

/// What a command said.
pub struct Said {
    /// Its exit status; `None` after a signal.
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

/// Runs `command` with `arguments` to its end.
pub fn run(command: &mut Command, arguments: &[&str]) -> Said {
    let output = command.args(arguments).output().expect("the command can be started");
    Said::from(output)
}

impl From<Output> for Said {
    fn from(output: Output) -> Said {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { status: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Said {
    /// Expects the exit status `status`, and shows everything if it is another.
    #[track_caller]
    pub fn expect(self, status: i32) -> Said {
        assert_eq!(self.status, Some(status), "\nout: {}\nerr: {}", self.out, self.err);
        self
    }
}

/// The children of the process `parent`, by id.
pub fn children(parent: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
    list.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Whether the process runs; one that has ended but is not yet collected does not.
pub fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}
