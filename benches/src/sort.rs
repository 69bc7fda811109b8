//! The sort job on hosted nodes, beside a hand-tuned sort of the same data in one process
//! (`nile-sort-reference`), and beside itself: with less memory than data, on three nodes, and with
//! more data. All is measured in turns on clusters that stay up, data in the page cache; the sort
//! job alone counts, from its submission to its end.
//!
//! Controls: the nodes' workers are stopped for a while in the midst of a sort; and a node has
//! buffers so large that a few of them take more than its memory may.

use std::env;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use nile_sort::generator::{Format, Generator};
use serde_json::Value;
use tempfile::TempDir;

use crate::Mode;
use crate::figure::{Failure, Figure, Peer, Target};
use crate::node::{self, number};
use crate::rounds::{Times, order};

/// Bytes of a record, and of what the index has for each.
const RECORD: u64 = 100;
const ENTRY: u64 = 16;

/// What is sorted, in MiB; a control's share of it is enough to be slow.
const MIB: u64 = 1024;
const CONTROL_MIB: u64 = 64;

/// Rounds that count.
const ROUNDS: usize = 5;

/// What a node may take besides records and index, in MiB.
const BESIDES_MIB: f64 = 64.0;

/// How much larger the data are than the memory of the node that has too little.
const TIMES: u64 = 4;

/// Contestants.
const REFERENCE: usize = 0;
const ONE: usize = 1;
const TIGHT: usize = 2;
const THREE: usize = 3;

/// See the module.
pub fn run(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (mib, rounds) = sizes(mode);
    let records = (mib << 20) / RECORD;
    let field = Field::new()?;
    let input = field.generate(records)?;
    let reference = reference()?;
    let size = format!("{mib}M");
    let memory = format!("{}M", (mib / TIMES).max(16));
    let clusters = [
        field.cluster("one", &size, &[])?,
        field.cluster("tight", &size, &["--memory", &memory])?,
        field.cluster("three", &size, &["--nodes", "3"])?,
    ];
    let mut times = Times::of(1 + clusters.len());
    let mut most = 0.0_f64;
    for round in 0..rounds {
        for contestant in order(round, 1 + clusters.len()) {
            let seconds = match contestant {
                REFERENCE => field.refer(&reference, &input)?,
                other => {
                    let sorted = clusters[other - 1].sort(&size, held_up(mode, other))?;
                    if other == ONE {
                        most = most.max(number(&sorted, "peak_memory_bytes")?);
                    }
                    number(&sorted, "seconds")?
                }
            };
            times.0[contestant].push(seconds);
        }
    }
    let data = (records * RECORD) as f64;
    for (name, contestant) in
        [("reference", REFERENCE), ("one node", ONE), ("tight", TIGHT), ("three nodes", THREE)]
    {
        let seconds = times.median(contestant);
        eprintln!("  {name}: {seconds:.3} s, {:.0} MB/s", data / seconds / 1e6);
    }
    if mode == Mode::Control {
        most = most.max(field.wasteful(&size)?);
    }
    let besides = (most - (records * (RECORD + ENTRY)) as f64) / f64::from(1 << 20);
    eprintln!("  one node: {:.0} MiB at most", most / f64::from(1 << 20));
    let figure = |name: &str, ours: usize, peer: usize, who: &str, target| {
        let peer_figure = Peer { name: who.into(), value: times.median(peer) };
        let ratio = times.ratio(ours, peer);
        Figure::with_ratio(name, "s", times.median(ours), peer_figure, ratio, target)
    };
    let promise = Peer { name: "promise".into(), value: BESIDES_MIB };
    Ok(vec![
        figure("sort", ONE, REFERENCE, "in one process", Target::AtMost(1.25)),
        figure("sort-spill", TIGHT, ONE, "in memory", Target::AtMost(2.5)),
        figure("sort-nodes", THREE, ONE, "one node", Target::AtMost(1.5)),
        Figure::new("sort-memory", "MiB", besides, promise, Target::AtMost(1.0)),
    ])
}

/// Twice, four and eight times as much data, beside as many times as long. The control's workers
/// are stopped for a while when they have more.
pub fn run_scaling(mode: Mode) -> Result<Vec<Figure>, Failure> {
    let (mib, rounds) = sizes(mode);
    let most: u64 = if mode == Mode::Control { 2 } else { 8 };
    let field = Field::new()?;
    let largest = format!("{}M", mib * most);
    let cluster = field.cluster("one", &largest, &[])?;
    let factors: Vec<u64> = [1, 2, 4, 8].into_iter().filter(|it| *it <= most).collect();
    let mut times = Times::of(factors.len());
    for round in 0..rounds {
        for contestant in order(round, factors.len()) {
            let factor = factors[contestant];
            let held_up = if factor == 1 { None } else { held_up(mode, ONE) };
            let sorted = cluster.sort(&format!("{}M", mib * factor), held_up)?;
            times.0[contestant].push(number(&sorted, "seconds")? / factor as f64);
        }
    }
    let figures = factors.iter().enumerate().skip(1).map(|(at, factor)| {
        let peer = Peer { name: format!("{mib} MiB, a {factor}th"), value: times.median(0) };
        eprintln!("  {} MiB: {:.3} s", mib * factor, times.median(at) * *factor as f64);
        let name = format!("sort-scaling-{factor}");
        let (ours, ratio) = (times.median(at), times.ratio(at, 0));
        Figure::with_ratio(name, "s", ours, peer, ratio, Target::AtMost(1.15))
    });
    Ok(figures.collect())
}

/// For how many seconds a control stops the workers of a contestant: less than a master takes them
/// for lost, and those longer whose peer is stopped, too.
fn held_up(mode: Mode, contestant: usize) -> Option<f64> {
    let seconds = if contestant == ONE { 0.5 } else { 2.0 };
    (mode == Mode::Control).then_some(seconds)
}

/// MiB and rounds.
fn sizes(mode: Mode) -> (u64, usize) {
    match mode {
        Mode::Real => (MIB, ROUNDS),
        Mode::Control => (CONTROL_MIB, 1),
    }
}

/// The program that sorts in one process, built if it is not there yet.
fn reference() -> Result<PathBuf, Failure> {
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
struct Field {
    runtime: TempDir,
    disks: TempDir,
}

impl Field {
    fn new() -> Result<Field, Failure> {
        // What is below /tmp may be in memory.
        let base = Path::new("/var/tmp");
        let disks = match env::var_os("TMPDIR").is_none() && base.is_dir() {
            true => tempfile::tempdir_in(base)?,
            false => tempfile::tempdir()?,
        };
        Ok(Field { runtime: tempfile::tempdir()?, disks })
    }

    fn command(&self, arguments: &[&str]) -> Result<Command, Failure> {
        let mut command = Command::new(node::launcher()?);
        command.args(arguments).env("XDG_RUNTIME_DIR", self.runtime.path());
        Ok(command)
    }

    /// What a command prints.
    fn say(&self, arguments: &[&str]) -> Result<String, Failure> {
        let output = self.command(arguments)?.output()?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                let last = said.lines().rev().find(|line| !line.trim().is_empty());
                let last = last.unwrap_or("no word of it");
                Err(Failure::Node(format!("nile {}: {last}", arguments.join(" "))))
            }
        }
    }

    /// The records that the clusters make, as a file for the reference.
    fn generate(&self, records: u64) -> Result<PathBuf, Failure> {
        const BATCH: u64 = 10_000;
        let path = self.disks.path().join("input");
        let mut file = BufWriter::new(File::create(&path)?);
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

    /// Sorts in one process; the seconds that it took. The output is there from the second time on.
    fn refer(&self, program: &Path, input: &Path) -> Result<f64, Failure> {
        let output = self.disks.path().join("output");
        let said = Command::new(program).arg(input).arg(output).arg("--warm").output()?;
        number(&document(&String::from_utf8_lossy(&said.stdout))?, "seconds")
    }

    /// A cluster that is as `nile run` starts it for so much data. It has sorted once.
    fn cluster(
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

    /// The most memory, in bytes, of a node whose buffers are far too large.
    fn wasteful(&self, size: &str) -> Result<f64, Failure> {
        let config = self.runtime.path().join("wasteful.toml");
        let text = "[roles]\nmanagement = 1\nnetwork = 1\ndisk = 1\nworker = 2\n\n\
                    [pool]\nbytes = \"2048M\"\nbuffer = \"32M\"\n";
        fs::write(&config, text)?;
        let config = config.to_string_lossy().into_owned();
        let cluster = Cluster { field: self, name: "wasteful" };
        let up = ["up", "--cluster", "wasteful", "--machine", "hosted", "--nodes", "1"];
        let node = ["--cores", "5", "--memory", "5G", "--disk", "4G", "--config", &config];
        self.say(&[&up[..], &node].concat())?;
        number(&cluster.sort(size, None)?, "peak_memory_bytes")
    }
}

/// A cluster that is ended with this.
struct Cluster<'f> {
    field: &'f Field,
    name: &'static str,
}

impl Cluster<'_> {
    /// Sorts so much; what is said of it. The workers are stopped in the midst for so many seconds.
    fn sort(&self, size: &str, held_up: Option<f64>) -> Result<Value, Failure> {
        let mut arguments = vec!["run", "terasort", "--cluster", self.name, "--size", size];
        arguments.push("--json");
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
        let _ = self.field.say(&["down", "--cluster", self.name]);
    }
}

fn document(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|_| Failure::Node(format!("no document: {}", text.trim())))
}
