//! What a step may leave behind, and how that goes: its temporary files lie in a folder of its own,
//! and each process that it starts has a mark that names this folder, or a cluster's below it. Both
//! go with the step, however it ends.

use std::io;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use nile_cli::process;
use nile_cli::usual_folder;

/// How long processes that have been told to end may take.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

/// The folder of a step. When it is dropped, it goes, and what still runs with it.
pub struct Scratch {
    folder: TempDir,
}

impl Scratch {
    pub fn new() -> io::Result<Scratch> {
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("nile-test-").tempdir_in(usual_folder())?;
        Ok(Scratch { folder })
    }

    /// Has `command` and all that it starts keep their temporary files here, and be found here.
    pub fn hold(&self, command: &mut Command) {
        process::mark(command, "step", self.path());
        command.env("TMPDIR", self.path());
        // Clusters lie among the temporary files, not where the user has theirs.
        command.env_remove("XDG_RUNTIME_DIR");
    }

    /// The command lines of processes that do not end with the step. Blocks for at most
    /// [`PATIENCE`].
    pub fn left(&self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = process::below(self.path());
            if left.is_empty() || Instant::now() > deadline {
                return left.iter().map(|process| process.arguments().join(" ")).collect();
            }
            thread::sleep(POLL);
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        process::kill(|| process::below(self.path()));
    }
}
