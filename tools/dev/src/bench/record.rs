//! `--record`: the figures of a run become lines of a file in `docs/figures`, with the day, the
//! commit and the machine. The file only grows, so that runs can be compared later. Benchmarks in
//! Python write their own lines, in the same form (`benches/harness/record.py`); they get the
//! first columns from here.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::Benchmark;
use nile_cli::args::Recorded;
use nile_cli::failure::Failure;
use nile_cli::needs::{self, ROOT};

/// The columns of such a file.
const HEAD: &str = "date,commit,machine,benchmark,figure,value,unit,note";

/// A file of figures, and what all lines of one run begin and end with.
pub struct Record {
    file: PathBuf,
    date: String,
    commit: String,
    machine: String,
    note: String,
}

impl Record {
    /// The record that `options` ask for, if they do: `NAME.csv`. Fails if that is not there.
    pub fn of(options: &Recorded, name: &str) -> Result<Option<Record>, Failure> {
        if !options.record {
            return Ok(None);
        }
        let root = needs::provided(ROOT)?;
        let file = root.join("docs/figures").join(name).with_extension("csv");
        let text = fs::read_to_string(&file).map_err(|error| failed(&file, &error))?;
        if text.lines().next() != Some(HEAD) {
            let file = file.display();
            return Err(Failure::failed(format!("{file} does not begin with the columns {HEAD}")));
        }
        Ok(Some(Record {
            file,
            date: said(Command::new("date").args(["-u", "+%F"]))?,
            commit: commit(&root)?,
            machine: machine(),
            note: options.note.clone().unwrap_or_default(),
        }))
    }

    /// What a benchmark in Python is told of it.
    pub fn arguments(&self, command: &mut Command) {
        let Record { file, date, commit, machine, note } = self;
        command.arg("--record").arg(file).args([date, commit, machine, note]);
    }

    /// Appends what was measured; all of it or, if there is no room, an error.
    pub fn append(&self, benchmarks: &[Benchmark]) -> Result<(), Failure> {
        self.write(benchmarks.iter().flat_map(|it| self.lines(it)).collect())
    }

    /// Appends how times are spread of those benchmarks that say so: a line for each percentile.
    pub fn append_spread(&self, benchmarks: &[Benchmark]) -> Result<(), Failure> {
        let of = |it: &Benchmark, whose: &str, values: &[f64]| -> String {
            let line = |(part, value): (usize, &f64)| {
                self.line(it, &format!("{whose}, {part}%"), *value, &it.unit, &self.note)
            };
            (1..).zip(values).map(line).collect()
        };
        let all = |it: &Benchmark| -> String {
            it.spread.iter().map(|(whose, values)| of(it, whose, values)).collect()
        };
        self.write(benchmarks.iter().map(all).collect())
    }

    fn write(&self, lines: String) -> Result<(), Failure> {
        let opened = OpenOptions::new().append(true).open(&self.file);
        let done = opened.and_then(|mut file| file.write_all(lines.as_bytes()));
        done.map_err(|error| failed(&self.file, &error))
    }

    /// The lines of one benchmark.
    fn lines(&self, benchmark: &Benchmark) -> [String; 3] {
        let Benchmark { unit, ours, peer, ratio, pass, .. } = benchmark;
        let missed = if *pass { "" } else { "target missed" };
        let notes: Vec<&str> =
            [self.note.as_str(), missed].into_iter().filter(|it| !it.is_empty()).collect();
        [
            self.line(benchmark, "ours", *ours, unit, &self.note),
            self.line(benchmark, &peer.name, peer.value, unit, &self.note),
            self.line(benchmark, "ratio", *ratio, "x", &notes.join("; ")),
        ]
    }

    fn line(&self, of: &Benchmark, figure: &str, value: f64, unit: &str, note: &str) -> String {
        let value = digits(value);
        let Record { date, commit, machine, .. } = self;
        let cells = [date, commit, machine, &of.name, figure, &value, unit, note];
        cells.map(cell).join(",") + "\n"
    }
}

fn failed(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("the figures cannot be recorded: {}: {error}", file.display()))
}

/// Four digits that matter.
fn digits(value: f64) -> String {
    let whole = value.abs().log10().floor().clamp(-12.0, 3.0) as i32;
    let text = format!("{value:.*}", (3 - whole) as usize);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text,
    }
}

/// A cell of a CSV file: in quotes if it needs them. A line break would be another line.
fn cell(text: &str) -> String {
    let text = text.replace(['\n', '\r'], " ");
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}

/// The commit that was measured, with `+` if the tree differs from it; nothing without Git.
fn commit(root: &Path) -> Result<String, Failure> {
    if !root.join(".git").exists() {
        return Ok(String::new());
    }
    let mut git = Command::new("git");
    said(git.arg("-C").arg(root).args(["describe", "--always", "--exclude=*", "--dirty=+"]))
}

/// CPUs, processor, memory and kernel.
fn machine() -> String {
    let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
    let value = |text: &str, name: &str| -> Option<String> {
        let mut lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().into())
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let processor = value(&read("/proc/cpuinfo"), "model name");
    let memory = value(&read("/proc/meminfo"), "MemTotal");
    let kibibytes = memory.and_then(|it| it.split(' ').next()?.parse::<f64>().ok());
    let gibibytes = kibibytes.unwrap_or_default() / f64::from(1 << 20);
    let release = read("/proc/sys/kernel/osrelease");
    let release: Vec<&str> = release.trim().split('.').take(2).collect();
    let processor = processor.unwrap_or_else(|| "unknown processor".into());
    format!("{cpus} CPUs, {processor}, {gibibytes:.1} GiB, Linux {}", release.join("."))
}

/// What a command says, in one line.
fn said(command: &mut Command) -> Result<String, Failure> {
    let name = command.get_program().display().to_string();
    let cannot = |why: String| {
        Failure::failed(format!("the figures cannot be recorded: {name} failed: {}", why.trim()))
    };
    let output = command.output().map_err(|error| cannot(error.to_string()))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
        false => Err(cannot(String::from_utf8_lossy(&output.stderr).into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Peer;

    fn record(file: PathBuf, note: &str) -> Record {
        let [date, commit, machine] = ["2026-01-02", "abc+", "2 CPUs, some"].map(String::from);
        Record { file, date, commit, machine, note: note.into() }
    }

    #[test]
    fn what_was_measured_is_appended_as_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, format!("{HEAD}\n")).unwrap();
        let peer = Peer { name: "cache line".into(), value: 95.25 };
        let met = Benchmark {
            name: "ring".into(),
            unit: "ns".into(),
            ours: 161.23,
            peer,
            ratio: 1.6927,
            target: "at most 2.0".into(),
            pass: true,
            spread: vec![("ours".into(), vec![3.0, 4.5])],
        };
        let file = file.path().to_path_buf();
        let slow = record(file.clone(), "slow, and \"odd\"");
        slow.append(std::slice::from_ref(&met)).unwrap();
        slow.append_spread(&[met]).unwrap();
        let missed = Benchmark {
            name: "send".into(),
            unit: "us".into(),
            ours: 0.0,
            peer: Peer { name: "copy".into(), value: 12_345.6 },
            ratio: 0.000_123_456,
            target: "at most 0".into(),
            pass: false,
            spread: vec![],
        };
        record(file.clone(), "").append(&[missed]).unwrap();
        let start = "2026-01-02,abc+,\"2 CPUs, some\"";
        let note = "\"slow, and \"\"odd\"\"\"";
        let expected = format!(
            "{HEAD}\n\
             {start},ring,ours,161.2,ns,{note}\n\
             {start},ring,cache line,95.25,ns,{note}\n\
             {start},ring,ratio,1.693,x,{note}\n\
             {start},ring,\"ours, 1%\",3,ns,{note}\n\
             {start},ring,\"ours, 2%\",4.5,ns,{note}\n\
             {start},send,ours,0,us,\n\
             {start},send,copy,12346,us,\n\
             {start},send,ratio,0.0001235,x,target missed\n"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), expected);
    }

    #[test]
    fn a_run_says_what_it_ran_on() {
        let machine = machine();
        assert!(machine.contains(" CPUs, ") && machine.contains(" GiB, Linux "), "{machine}");
        let date = said(Command::new("date").args(["-u", "+%F"])).unwrap();
        assert_eq!((date.len(), date.matches('-').count()), (10, 2), "{date}");
        let why = said(Command::new("date").arg("--no-such")).unwrap_err().to_string();
        assert!(why.contains("date failed"), "{why}");
    }

    /// Of a tree that has changed since its commit; the tests' own folder has no Git.
    #[test]
    fn a_changed_tree_is_told_from_its_commit() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert_eq!(commit(root).unwrap(), "");
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).arg("-C").arg(root);
            said(git.args(words)).unwrap()
        };
        git(&["init", "-q"]);
        fs::write(root.join("a"), "1").unwrap();
        git(&["add", "a"]);
        git(&["commit", "-q", "-m", "a", "--no-gpg-sign"]);
        let clean = commit(root).unwrap();
        assert!(clean.len() >= 7 && clean.bytes().all(|it| it.is_ascii_hexdigit()), "{clean}");
        fs::write(root.join("a"), "2").unwrap();
        assert_eq!(commit(root).unwrap(), clean + "+");
    }

    #[test]
    fn every_file_of_figures_has_the_same_columns() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/figures");
        for name in ["bench", "peers", "paper", "linux", "stream", "net", "hotplug"] {
            let file = folder.join(name).with_extension("csv");
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(text.lines().next(), Some(HEAD), "{}", file.display());
            assert!(text.ends_with('\n'), "{}", file.display());
        }
    }
}
