//! `nile run terasort`: three jobs, one after the other, that generate records, sort them, and
//! validate what came of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::args::Terasort;
use super::code;
use super::jobs::service::Service;
use super::jobs::{End, Jobs, Request, State};
use super::memory::{Peak, Watch};
use super::outputs;
use super::place::{self, Place};
use super::show::{self, Bar, Row};
use super::watch::{self, Done};
use crate::cluster::args::Kind;
use crate::failure::Failure;
use crate::size::Bytes;

/// Bytes of a record.
const RECORD: u64 = 100;

/// The package with the three jobs.
pub const PACKAGE: &str = "tera";

/// Of how many splits samples are taken to cut the parts of the sorted output.
const SAMPLES: u32 = 32;

/// Refuses what cannot be sorted; the machines of the cluster that would be started for it.
pub fn check(options: &Terasort) -> Result<Vec<Kind>, Failure> {
    let kinds = place::check(&options.usual, rows(options.size)? * RECORD)?;
    check_name(&options.name)?;
    Ok(kinds)
}

/// The whole records that `size` holds; a wrong request if that is none.
fn rows(size: Bytes) -> Result<u64, Failure> {
    match size.0 / RECORD {
        0 => Err(Failure::request(format!("--size {size} holds no record of {RECORD} bytes"))),
        rows => Ok(rows),
    }
}

/// Parts' names are longer than their dataset's.
fn check_name(name: &str) -> Result<(), Failure> {
    const MOST: usize = 64;
    match name.is_empty() || name.len() > MOST || name.chars().any(|c| c.is_control() || c == '/') {
        true => Err(Failure::request(format!(
            "--name has 1 to {MOST} bytes, no control characters and no /"
        ))),
        false => Ok(()),
    }
}

/// Sorts, and says how that went.
pub fn run(options: &Terasort) -> Result<(), Failure> {
    let sorted = sort(options)?;
    match options.usual.json {
        true => crate::print(&format!("{}\n", sorted.document()))?,
        false => crate::print(&sorted.text())?,
    }
    sorted.check()
}

/// What came of it.
pub struct Sorted {
    rows: u64,
    /// On what it ran, in words.
    place: String,
    reducers: u32,
    generated: Done,
    sorted: Done,
    validated: Done,
    peak: Peak,
    checksum: String,
    /// What is wrong with the output.
    fault: Option<String>,
}

/// Generates, sorts and validates. Of datasets nothing is left, unless they are to be kept and all
/// went well.
pub fn sort(options: &Terasort) -> Result<Sorted, Failure> {
    watched(options, &mut |_, _| Ok(()))
}

/// A moment at which somebody may look at the cluster.
pub enum Moment<'a> {
    /// The first job is about to begin.
    Begin,
    /// One of the three jobs, which is called so, has ended.
    Ended(&'a str, &'a Done),
    /// The last one has.
    Over,
}

/// What is done at these moments.
pub type Look<'a> = &'a mut dyn FnMut(&mut Place, Moment<'_>) -> Result<(), Failure>;

/// The same, and `look` is done before, between and behind the jobs.
pub fn watched(options: &Terasort, look: Look<'_>) -> Result<Sorted, Failure> {
    check(options)?;
    let rows = rows(options.size)?;
    let package = code::own(PACKAGE)?;
    code::check(&package)?;
    place::on(&options.usual, rows * RECORD, |place| {
        let names = ["input", "output", "report"].map(|it| format!("{}.{it}", options.name));
        let [input, output, report] = names.each_ref().map(String::as_str);
        outputs::check_free(&mut place.stores, &[input, output, report])?;
        if !place.is_own {
            // Input and output. For a cluster of its own it was looked at the disks below.
            let written = (rows * RECORD).saturating_mul(2 * u64::from(options.usual.copies));
            let on = place.on.clone();
            let is_meant = |node| on.is_empty() || on.contains(&node);
            outputs::check_room(&mut place.stores, written, is_meant)?;
        }
        let package = code::put(&mut place.stores, &place.which, &package)?;
        let mut made = Vec::new();
        let names = [input, output, report];
        let done = three(options, rows, place, &package, (names, &mut made), look);
        let done = if made.is_empty() { done } else { done.map_err(Failure::once_begun) };
        let goes = !options.usual.keep || done.is_err();
        // The datasets of a cluster of our own go with it.
        if goes && !place.is_own {
            outputs::remove_made(&mut place.stores, &made)?;
        }
        done
    })
}

/// The three jobs; `made` gets what they have made: names, and the jobs' numbers.
fn three(
    options: &Terasort,
    rows: u64,
    place: &mut Place,
    package: &str,
    ([input, output, report], made): ([&str; 3], &mut Vec<(String, u64)>),
    look: Look<'_>,
) -> Result<Sorted, Failure> {
    look(place, Moment::Begin)?;
    let workers = place.workers();
    let reducers = options.usual.reducers.unwrap_or(workers);
    let bytes = rows * RECORD;
    let usual = options.usual.share.of(Request {
        package: package.into(),
        memory: place.memory,
        on: place.on.iter().map(|node| node.0).collect(),
        copies: Some(options.usual.copies.into()),
        task_timeout: options.usual.task_timeout(),
        ..Request::default()
    });
    let mut do_job = |place: &mut Place, request: Request, total| -> Result<Done, Failure> {
        let mut service = Service::open(&mut place.stores, &place.on)?;
        let bar = &mut Bar::new(&request.name, total);
        let begun = Instant::now();
        let job = service.submit(&request)?;
        made.push((request.output.clone(), job));
        watch::see(&mut service, &request, (job, begun), &options.usual.hooks, bar)
    };
    let generated = do_job(
        place,
        Request {
            name: "generate".into(),
            arguments: vec!["gen".into(), rows.to_string(), options.format.name().into()],
            output: input.into(),
            reducers: workers,
            ..usual.clone()
        },
        bytes,
    )?;
    look(place, Moment::Ended("generate", &generated))?;
    let memory = Watch::begin(place.folder());
    let sorted = do_job(
        place,
        Request {
            name: "sort".into(),
            arguments: vec!["sort".into()],
            input: vec![input.into()],
            output: output.into(),
            reducers,
            samples: SAMPLES,
            conserves: true,
            ..usual.clone()
        },
        2 * bytes,
    );
    let peak = memory.end();
    let sorted = sorted?;
    look(place, Moment::Ended("sort", &sorted))?;
    let validated = do_job(
        place,
        Request {
            name: "validate".into(),
            arguments: vec!["validate".into()],
            input: vec![output.into()],
            output: report.into(),
            reducers: 1,
            ..usual
        },
        bytes,
    )?;
    look(place, Moment::Ended("validate", &validated))?;
    look(place, Moment::Over)?;
    let said = outputs::read(&mut place.stores, report)?;
    let said = String::from_utf8_lossy(&said);
    let (checksum, fault) = verdict(rows, [&generated, &sorted, &validated].map(of), &said);
    Ok(Sorted {
        rows,
        place: on(&place.machines),
        reducers,
        generated,
        sorted,
        validated,
        peak,
        checksum,
        fault,
    })
}

/// Records and checksum as a job counted them.
fn of(done: &Done) -> (u64, u64) {
    match done.state.end {
        Some(End::Done { records, checksum }) => (records, checksum),
        _ => (0, 0),
    }
}

/// The checksum of the output, as the report has it, and what is wrong with it, by what the three
/// jobs counted and what the report says. What the sort counts to see that it loses nothing is not
/// the checksum.
fn verdict(rows: u64, jobs: [(u64, u64); 3], report: &str) -> (String, Option<String>) {
    let [(_, generated), (sorted, _), (_, validated)] = jobs;
    let counts = ["generated", "sorted", "validated"].into_iter().zip(jobs);
    let mut wrong = counts.filter(|(_, (records, _))| *records != rows);
    let lost =
        wrong.next().map(|(what, (records, _))| format!("{what} {records} records of {rows}"));
    let differ = || {
        (generated != validated).then(|| {
            format!("checksum {validated:x} of {sorted} records, but {generated:x} was generated")
        })
    };
    let unordered = || match field(report, "unordered") {
        Some("0") => None,
        Some(count) => {
            let first = field(report, "first_unordered").unwrap_or("unknown");
            Some(format!("{count} records out of order, the first is {first}"))
        }
        None => Some("the report does not say whether records are in order".into()),
    };
    let checksum = field(report, "checksum").unwrap_or("unknown").to_string();
    (checksum, lost.or_else(differ).or_else(unordered))
}

/// What a report, lines of names and values, says of `name`.
fn field<'r>(report: &'r str, name: &str) -> Option<&'r str> {
    let mut lines = report.lines().filter_map(|line| line.split_once([' ', '\t']));
    lines.find(|(word, _)| *word == name).map(|(_, value)| value.trim())
}

/// The machines in words.
fn on(machines: &[Kind]) -> String {
    let count = |kind| match machines.iter().filter(|it| **it == kind).count() {
        0 => None,
        1 => Some(format!("one {} node", kind.name())),
        many => Some(format!("{many} {} nodes", kind.name())),
    };
    let kinds: Vec<String> = [Kind::Qemu, Kind::Hosted].into_iter().filter_map(count).collect();
    kinds.join(" and ")
}

impl Sorted {
    /// Fails if the output is not valid.
    pub fn check(&self) -> Result<(), Failure> {
        match &self.fault {
            None => Ok(()),
            Some(fault) => Err(Failure::failed(format!("the output is not valid: {fault}"))),
        }
    }

    fn state(&self) -> &State {
        &self.sorted.state
    }

    fn bytes(&self) -> u64 {
        self.rows * RECORD
    }

    /// All phases; those of the sort as the job service has them.
    fn phases(&self) -> Vec<Row> {
        let one = |name: &str, took| Row { name: name.into(), took, bytes: self.bytes() };
        let sort = self.state().phases.iter().map(|phase| Row {
            name: phase.name.into(),
            took: phase.took,
            bytes: phase.bytes,
        });
        let ends = [one("generating", self.generated.took), one("validating", self.validated.took)];
        let [first, last] = ends;
        [first].into_iter().chain(sort).chain([last]).collect()
    }

    fn first_task(&self) -> Duration {
        self.state().first_task.unwrap_or_default()
    }

    /// As the contract of the command line has it.
    pub fn document(&self) -> Value {
        json!({
            "job": "terasort",
            "records": self.rows,
            "bytes": self.bytes(),
            "checksum": self.checksum,
            "valid": self.fault.is_none(),
            "seconds": self.sorted.took.as_secs_f64(),
            "phases": show::documents(&self.phases()),
            "imbalance": self.state().imbalance,
            "spilled_bytes": self.state().spilled,
            "retries": self.state().retries,
            "peak_memory_bytes": self.peak.bytes,
            "node_peak_memory_bytes": self.peak.nodes,
            "first_task_seconds": self.first_task().as_secs_f64(),
            "reducers": self.reducers,
        })
    }

    /// For people.
    pub fn text(&self) -> String {
        let state = self.state();
        let took = self.sorted.took;
        let parts = if self.reducers == 1 { "part" } else { "parts" };
        let head = format!(
            "{} records, {}, in {} {parts} on {}\n\n",
            self.rows,
            Bytes(self.bytes()),
            self.reducers,
            self.place
        );
        let valid = if self.fault.is_none() { "valid" } else { "NOT VALID" };
        let tail = format!(
            "\nsorted in {:.3} s, {:.0} MB/s; the first task began after {:.0} ms\n\
             imbalance {:.3}, spilled {}, retries {}, most memory {}\n\
             checksum {}, {valid}\n",
            took.as_secs_f64(),
            show::rate(self.bytes(), took),
            self.first_task().as_secs_f64() * 1e3,
            state.imbalance,
            Bytes(state.spilled),
            state.retries,
            Bytes(self.peak.bytes),
            self.checksum
        );
        head + &show::phases(&self.phases()) + &tail
    }
}

#[cfg(test)]
mod tests {
    use super::super::jobs::Phase;
    use super::*;

    #[test]
    fn sizes_are_whole_records() {
        assert_eq!(rows(Bytes(1 << 20)).unwrap(), 10_485);
        assert_eq!(rows(Bytes(100)).unwrap(), 1);
        let Err(Failure::Request(message)) = rows(Bytes(99)) else { panic!("it holds none") };
        assert_eq!(message, "--size 99 B holds no record of 100 bytes");
        for name in ["", "a/b", "a\n", &"x".repeat(65)] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn output_is_valid_if_all_counts_agree_and_order_holds() {
        let report = "records 9\nchecksum 5\nunordered 0\n";
        let good = [(9, 5), (9, 1), (9, 5)];
        assert_eq!(verdict(9, good, report), ("5".into(), None));
        let fault = |jobs, report| verdict(9, jobs, report).1.unwrap();
        assert_eq!(fault([(9, 5), (9, 1), (8, 5)], report), "validated 8 records of 9");
        assert_eq!(fault([(9, 5), (7, 1), (9, 5)], report), "sorted 7 records of 9");
        assert!(fault([(9, 5), (9, 1), (9, 6)], report).starts_with("checksum 6 of 9 records"));
        let unordered = "unordered 2\nfirst_unordered 4\n";
        assert_eq!(fault(good, unordered), "2 records out of order, the first is 4");
        assert!(fault(good, "").contains("does not say"));
    }

    fn done(millis: u64, state: State) -> Done {
        Done { job: 1, begun: Instant::now(), took: Duration::from_millis(millis), state }
    }

    #[test]
    fn the_document_is_as_the_contract_says() {
        let phase =
            |name, millis, bytes| Phase { name, took: Duration::from_millis(millis), bytes };
        let state = State {
            phases: vec![phase("mapping", 250, 1000), phase("reducing", 150, 1000)],
            imbalance: 1.01,
            spilled: 7,
            retries: 2,
            first_task: Some(Duration::from_millis(20)),
            ..State::default()
        };
        let sorted = Sorted {
            rows: 10,
            place: on(&[Kind::Qemu, Kind::Qemu, Kind::Hosted]),
            reducers: 2,
            generated: done(100, State::default()),
            sorted: done(500, state),
            validated: done(50, State::default()),
            peak: Peak { bytes: 9, nodes: [("n1".to_string(), 9)].into() },
            checksum: "abc".into(),
            fault: None,
        };
        let expected = json!({
            "job": "terasort", "records": 10, "bytes": 1000, "checksum": "abc", "valid": true,
            "seconds": 0.5,
            "phases": [
                { "name": "generating", "seconds": 0.1, "bytes": 1000 },
                { "name": "mapping", "seconds": 0.25, "bytes": 1000 },
                { "name": "reducing", "seconds": 0.15, "bytes": 1000 },
                { "name": "validating", "seconds": 0.05, "bytes": 1000 },
            ],
            "imbalance": 1.01, "spilled_bytes": 7, "retries": 2, "peak_memory_bytes": 9,
            "node_peak_memory_bytes": { "n1": 9 }, "first_task_seconds": 0.02, "reducers": 2,
        });
        assert_eq!(sorted.document(), expected);
        let text = sorted.text();
        assert!(text.starts_with("10 records, 1000 B, in 2 parts on 2 qemu nodes and one hosted"));
        assert!(text.ends_with("checksum abc, valid\n"), "{text}");
    }
}
