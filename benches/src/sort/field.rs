//! Where sorts are measured: clusters that stay up, the reference's files, and the folders of all,
//! of which nothing is left afterwards.

use std::env;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nile_sort::generator::{Format, Generator};
use rustix::fs::statvfs;
use serde_json::Value;
use tempfile::TempDir;

use super::RECORD;
use crate::figure::Failure;
use crate::interrupt;
use crate::node::{self, number};

/// The program that sorts in one process, built if it is not there yet.
pub fn reference() -> Result<PathBuf, Failure> {
    let root = env::var_os("NILE_ROOT").map(PathBuf::from);
    let root = root.ok_or_else(|| Failure::Node("NILE_ROOT is not set".into()))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let target = root.join(target);
    let mut build = Command::new("cargo");
    build.args(["build", "--quiet", "--release", "--package", "nile-sort-reference"]);
    build.arg("--target-dir").arg(&target).current_dir(&root);
    match build.status()?.success() {
        true => Ok(target.join("release/nile-sort-reference")),
        false => Err(Failure::Node("the reference cannot be built".into())),
    }
}

/// Where clusters, their disks and the reference's files are.
pub struct Field {
    runtime: TempDir,
    disks: TempDir,
}

impl Field {
    /// One with room for so many bytes on disk and in memory.
    pub fn new(disk: u64, memory: u64) -> Result<Field, Failure> {
        // What is below /tmp may be in memory.
        let base = Path::new("/var/tmp");
        let base = match env::var_os("TMPDIR") {
            None if base.is_dir() => base.to_path_buf(),
            _ => env::temp_dir(),
        };
        let stat = statvfs(&base).map_err(std::io::Error::from)?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let wants = |bytes: u64, what: &str, has: u64| {
            let [bytes, has] = [bytes, has].map(|it| it.div_ceil(1_000_000));
            let place = base.display();
            Failure::Node(format!("it may take {bytes} MB of {what}, and {place} has {has} free"))
        };
        if free < disk {
            return Err(wants(disk, "disk (TMPDIR names another place)", free));
        }
        match available_memory() {
            Some(free) if free < memory => Err(wants(memory, "memory, which is fast", free)),
            _ => Ok(Field {
                runtime: tempfile::tempdir()?,
                disks: tempfile::Builder::new().prefix("nile-bench-").tempdir_in(&base)?,
            }),
        }
    }

    fn command(&self, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(node::launcher()?);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.runtime.path()).stdin(Stdio::null());
        // The first has built all that there is to build.
        if fs::read_dir(self.runtime.path()).is_ok_and(|mut it| it.next().is_some()) {
            command.env("NILE_BUILT", "1");
        }
        Ok(command)
    }

    /// What a command prints.
    fn say(&self, arguments: &[&str]) -> Result<String, Failure> {
        let interrupted = || Err(Failure::Node("it was interrupted".into()));
        if interrupt::requested() {
            return interrupted();
        }
        let output = self.command(arguments)?.output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false if interrupt::requested() => interrupted(),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().rev().find(|line| !line.trim().is_empty());
                let last = last.unwrap_or("no word of it");
                Err(Failure::Node(format!("nile {}: {last}", arguments.join(" "))))
            }
        }
    }

    /// The records that the clusters make, as a file for the reference. One with as many or more
    /// is written over, and keeps what it has behind them.
    pub fn generate(&self, records: u64) -> Result<PathBuf, Failure> {
        const BATCH: u64 = 10_000;
        let path = self.disks.path().join("input");
        let file = File::options().write(true).create(true).truncate(false).open(&path)?;
        let mut file = BufWriter::new(file);
        let mut generator = Generator::new(Format::Binary, 0);
        let mut buffer = vec![0; (BATCH * RECORD) as usize];
        let mut left = records;
        while left > 0 {
            let count = left.min(BATCH);
            let batch = &mut buffer[..(count * RECORD) as usize];
            generator.fill(batch);
            file.write_all(batch)?;
            left -= count;
        }
        file.into_inner().map_err(|error| error.into_error())?;
        Ok(path)
    }

    /// Sorts so many records in one process; the seconds that it took. The output is there from
    /// the second time on.
    pub fn refer(&self, program: &Path, input: &Path, records: u64) -> Result<f64, Failure> {
        if interrupt::requested() {
            return Err(Failure::Node("it was interrupted".into()));
        }
        settle();
        let mut sort = Command::new(program);
        sort.arg(input).arg(self.disks.path().join("output")).arg("--warm");
        let said = sort.args(["--records", &records.to_string()]).output()?;
        match said.status.success() {
            true => number(&document(&String::from_utf8_lossy(&said.stdout))?, "seconds"),
            false => Err(Failure::Node(String::from_utf8_lossy(&said.stderr).trim().into())),
        }
    }

    /// Removes the reference's files, which makes room.
    pub fn clear(&self) -> Result<(), Failure> {
        for name in ["input", "output"] {
            fs::remove_file(self.disks.path().join(name))?;
        }
        Ok(())
    }

    /// A cluster that is as `nile run` starts it for so much data. It has sorted once.
    pub fn cluster(
        &self,
        name: &'static str,
        size: &str,
        more: &[&str],
    ) -> Result<Cluster<'_>, Failure> {
        let disks = self.disks.path().to_string_lossy().into_owned();
        let cluster = Cluster { field: self, name };
        let run = ["run", "terasort", "--cluster", name, "--size", size, "--json", "--keep"];
        let hosted = ["--machine", "hosted", "--disk-folder", &disks];
        let one: &[&str] = if more.contains(&"--nodes") { &[] } else { &["--nodes", "1"] };
        self.say(&[&run[..], &hosted, one, more].concat())?;
        for dataset in ["terasort.input", "terasort.output", "terasort.report"] {
            self.say(&["rm", dataset, "--cluster", name])?;
        }
        Ok(cluster)
    }

    /// A cluster whose nodes have the largest buffers that a disk takes at once, and more workers
    /// than there is memory for, eighteen in all, each of which has some on their way.
    pub fn wasteful(&self, name: &'static str, nodes: u64) -> Result<Cluster<'_>, Failure> {
        let (workers, others) = (18 / nodes, 3);
        let config = format!(
            "[roles]\nmanagement = 1\nnetwork = 1\ndisk = 1\nworker = {workers}\n\n\
             [pool]\nbytes = \"2048M\"\nbuffer = \"8M\"\n"
        );
        let [nodes, cores] = [nodes, workers + others].map(|it| it.to_string());
        let node = ["--nodes", &nodes, "--cores", &cores, "--memory", "5G", "--disk", "4G"];
        self.up(name, &config, &node)
    }

    /// A hosted cluster of this configuration, with plain disks.
    pub fn up(
        &self,
        name: &'static str,
        config: &str,
        more: &[&str],
    ) -> Result<Cluster<'_>, Failure> {
        let path = self.disks.path().join(format!("{name}.toml"));
        fs::write(&path, config)?;
        // Several nodes have a first disk.
        let disks = self.disks.path().join(name);
        fs::create_dir_all(&disks)?;
        let (path, disks) = (path.to_string_lossy(), disks.to_string_lossy());
        let cluster = Cluster { field: self, name };
        let up = ["up", "--cluster", name, "--machine", "hosted", "--config", &path];
        self.say(&[&up[..], &["--disk-folder", &disks, "--disk-plain"], more].concat())?;
        Ok(cluster)
    }

    /// A file of this name and content.
    pub fn file(&self, name: &str, content: &str) -> Result<PathBuf, Failure> {
        let path = self.disks.path().join(name);
        fs::write(&path, content)?;
        Ok(path)
    }
}

/// Waits until the device has what others have written. Linux holds up whoever writes while too
/// much is waiting for the device, and that would be the next one.
fn settle() {
    rustix::fs::sync();
}

/// Has Linux forget what it keeps of anybody's files and the devices have, which it does for root
/// alone; whether it did.
pub fn forget_files() -> bool {
    settle();
    fs::write("/proc/sys/vm/drop_caches", "1").is_ok()
}

/// Bytes of memory that can be had without taking it from anybody.
fn available_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// A cluster that is ended with this.
pub struct Cluster<'f> {
    field: &'f Field,
    name: &'static str,
}

impl Cluster<'_> {
    /// Sorts so much; what is said of it. The workers are stopped in the midst for so many seconds.
    pub fn sort(&self, size: &str, held_up: Option<f64>) -> Result<Value, Failure> {
        settle();
        let mut arguments = vec!["run", "terasort", "--cluster", self.name, "--size", size];
        // As before the reference's sort.
        arguments.extend(["--json", "--at", "generate:ending=sync"]);
        let stop = held_up.map(|seconds| {
            let pids: Vec<String> = self.workers().iter().map(u32::to_string).collect();
            let pids = pids.join(" ");
            format!("sort:mapping=kill -STOP {pids}; sleep {seconds}; kill -CONT {pids}")
        });
        if let Some(stop) = &stop {
            arguments.extend(["--at", stop]);
        }
        let sorted = document(&self.field.say(&arguments)?)?;
        match sorted["valid"] == true {
            true => Ok(sorted),
            false => Err(Failure::Node(format!("{}: what was sorted is not valid", self.name))),
        }
    }

    /// What a command prints.
    pub fn say(&self, words: &[&str]) -> Result<String, Failure> {
        self.field.say(&[words, &["--cluster", self.name]].concat())
    }

    /// What a command prints as JSON.
    pub fn json(&self, words: &[String]) -> Result<Value, Failure> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        document(&self.say(&words)?)
    }

    /// Removes a dataset.
    pub fn remove(&self, dataset: &str) -> Result<(), Failure> {
        self.say(&["rm", dataset]).map(drop)
    }

    /// Sorts so much by this policy, and has another command run while map tasks do; what that one
    /// prints as JSON.
    pub fn sort_beside(
        &self,
        size: &str,
        policy: &str,
        other: &[String],
    ) -> Result<Value, Failure> {
        settle();
        let said = self.field.runtime.path().join("beside.json");
        let launcher = node::launcher()?;
        let words: Vec<String> = other.iter().map(|it| format!("'{it}'")).collect();
        let (said_text, launcher) = (said.display(), launcher.display());
        let other = format!(
            "sort:mapping=NILE_BUILT=1 '{launcher}' {} --cluster {} > '{said_text}'",
            words.join(" "),
            self.name
        );
        let run = ["run", "terasort", "--cluster", self.name, "--size", size, "--json"];
        self.field.say(&[&run[..], &["--policy", policy, "--at", &other]].concat())?;
        document(&fs::read_to_string(said)?)
    }

    /// The worker processes of its nodes.
    fn workers(&self) -> Vec<u32> {
        let mark = format!("/{}", self.name);
        let folder = self.field.runtime.path().to_string_lossy().into_owned();
        let is_ours = |pid: &u32| {
            let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
            let line = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let environment = String::from_utf8_lossy(&read("environ")).into_owned();
            let mut variables = environment.split('\0');
            line.contains("--worker-of-a-node")
                && variables.any(|it| {
                    it.starts_with("NILE_PROCESS_OF=")
                        && it.contains(&folder)
                        && it.ends_with(&mark)
                })
        };
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(is_ours).collect()
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        // Also when it was interrupted.
        let down = self.field.command(&["down", "--cluster", self.name]);
        let _ = down.map(|mut command| command.output());
    }
}

fn document(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| Failure::Node(format!("no document: {}", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_not_begun() {
        assert!(Field::new(1 << 20, 1 << 20).is_ok());
        for (disk, memory, what) in [(u64::MAX, 0, "of disk"), (0, u64::MAX, "of memory")] {
            let Err(Failure::Node(message)) = Field::new(disk, memory) else { panic!("{what}") };
            assert!(message.contains(what), "{message}");
        }
    }
}
