//! `nile put` and `nile get` of a file with one hosted node, each beside `cp` of the same file, in
//! turns. What is read is in the page cache; `get` waits until its file is durable, `cp` does not.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node;
use crate::rounds::{Times, order};

/// MiB of the file, and rounds.
const REAL: (usize, usize) = (1024, 5);
const CONTROL: (usize, usize) = (64, 1);

/// What is promised, beside `cp`.
const PROMISED: f64 = 2.0;

/// The contestants, by their places in a round.
const NAMES: [&str; 3] = ["cp", "put", "get"];

/// See the module. In the control the node's socket for files is gone, and data go in calls.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (mib, rounds) = if mode == Mode::Real { REAL } else { CONTROL };
    let place = Place::new(mib)?;
    if mode == Mode::Control {
        place.close()?;
    }
    let mut times = Times::of(NAMES.len());
    for round in 0..=rounds {
        for contestant in order(round, NAMES.len()) {
            let took = place.take(contestant)?;
            if round > 0 {
                times.0[contestant].push(took);
            }
        }
    }
    for (name, took) in NAMES.iter().zip(&times.0) {
        eprintln!("  {name} of {mib} MiB: {took:.2?} s");
    }
    let figure = |ours: usize| {
        let peer = Peer { name: "cp".into(), value: times.median(0) };
        let (name, ratio) = (format!("files-{}", NAMES[ours]), times.ratio(ours, 0));
        Figure::with_ratio(name, "s", times.median(ours), peer, ratio, Target::AtMost(PROMISED))
    };
    Ok([1, 2].map(figure).into())
}

/// A cluster of one node, in a folder of its own with the files, which ends with it.
struct Place(TempDir);

impl Place {
    fn new(mib: usize) -> Result<Place, Failure> {
        let place = Place(tempfile::tempdir()?);
        let mut file = File::create(place.file("in"))?;
        let mut piece = vec![0_u8; 1 << 20];
        let mut word = 1_u64;
        for _ in 0..mib {
            for eight in piece.chunks_exact_mut(8) {
                word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                eight.copy_from_slice(&word.to_le_bytes());
            }
            file.write_all(&piece)?;
        }
        place.nile(&["up", "--machine", "hosted", "--nodes", "1", "--disk", "8G"])?;
        // What is got has to be there.
        place.take(1)?;
        Ok(place)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Lets a contestant do its work; seconds that it took. Its file is a new one, as the others'.
    fn take(&self, contestant: usize) -> Result<f64, Failure> {
        let (from, to) = (self.file("in"), self.file("out"));
        let _ = fs::remove_file(&to);
        let name = |path: &Path| path.to_string_lossy().into_owned();
        let (from, to) = (name(&from), name(&to));
        let begin = Instant::now();
        match contestant {
            0 => finish(Command::new("cp").args([&from, &to]))?,
            1 => self.nile(&["put", &from, "file", "--replace"])?,
            _ => self.nile(&["get", "file", &to])?,
        }
        Ok(begin.elapsed().as_secs_f64())
    }

    /// Removes the socket by which the node takes files.
    fn close(&self) -> Result<(), Failure> {
        let mut folders = vec![self.0.path().to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                match path.extension() {
                    Some(it) if it == "files" => fs::remove_file(path)?,
                    _ if path.is_dir() => folders.push(path),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn nile(&self, arguments: &[&str]) -> Result<(), Failure> {
        let mut command = Command::new(node::launcher()?);
        // What the launcher builds was built when the cluster was started.
        let built = if arguments[0] == "up" { None } else { Some(("NILE_BUILT", "1")) };
        command.args(arguments).envs(built).env("XDG_RUNTIME_DIR", self.0.path());
        finish(&mut command)
    }
}

fn finish(command: &mut Command) -> Result<(), Failure> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(Failure::Node(format!("{command:?}: {}", said.trim_end())))
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // One that did not come up has nothing to end.
        let _ = self.nile(&["down"]);
    }
}
