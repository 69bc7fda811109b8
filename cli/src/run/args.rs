//! What can be said about jobs on the command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use nile_interfaces::job::records::JobPolicy;

use super::jobs::{JobPhase, Request};
use crate::cluster::args::{MOST_NODES, Machines, Said, Which};
use crate::failure::Failure;
use crate::size::Bytes;

/// For how many seconds a task may do nothing if nothing else is said: slow code is legitimate.
pub const TASK_TIMEOUT: u32 = 600;

#[derive(Args)]
#[command(after_help = "Any other job: nile run PACKAGE.elf [OPTIONS] [ARGUMENTS], where \
                        PACKAGE.elf is the package with its code; see nile run PACKAGE.elf --help")]
pub struct Run {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Subcommand)]
pub enum What {
    /// Generate records, sort them, validate what came of it.
    Terasort(Terasort),
    /// Count the words of a text.
    Wordcount(Wordcount),
    /// The words that run the job whose code a package's file holds; see [`package`].
    #[command(external_subcommand)]
    Package(Vec<OsString>),
}

/// On what a job runs, and how.
#[derive(Args, Clone, Debug)]
pub struct Usual {
    #[command(flatten)]
    pub which: Which,
    /// Start a cluster on qemu, hosted, or so many nodes of each, and end it afterwards. Without
    /// this and --nodes the job runs on the cluster that is up, or else on one hosted node.
    #[arg(long, value_name = "MACHINES")]
    pub machine: Option<Machines>,
    /// Start a cluster of so many nodes, and end it afterwards.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=MOST_NODES))]
    pub nodes: Option<u16>,
    /// How much memory of each node the job's data may take, as 256M; what has no room there is
    /// put on disk in between. Without it, all that there is.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<Bytes>,
    /// How many reduce tasks, and so parts of the output; without it, one for each worker core.
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..))]
    pub reducers: Option<u32>,
    /// For how many seconds a task's code may neither take nor give anything before that counts
    /// as a failure; 0 for ever. Four failures of a task end the job.
    #[arg(long, value_name = "SECONDS", default_value_t = TASK_TIMEOUT)]
    pub task_timeout: u32,
    /// Have this node's workers alone work on it, as n2 or a domain's name; may be given many
    /// times. Without it, all nodes with disks do; where there are domains, all of those.
    #[arg(long, value_name = "NODE", conflicts_with_all = ["machine", "nodes"])]
    pub on: Vec<Said>,
    #[command(flatten)]
    pub share: Share,
    /// On how many nodes the input and the output are to be.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub copies: u8,
    /// Where the disks of a cluster that is started for the job lie; they go with it.
    #[arg(long, value_name = "FOLDER")]
    pub disk_folder: Option<PathBuf>,
    /// Keep the datasets, and a cluster that was started for the job.
    #[arg(long)]
    pub keep: bool,
    /// Print one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Run COMMAND in a shell when the job of this name comes to this phase, which waits for it;
    /// may be given many times.
    #[arg(long = "at", value_name = "JOB:PHASE=COMMAND", hide = true)]
    pub hooks: Vec<Hook>,
    /// How often in a second the cores of hosted nodes that are started for it are sampled.
    #[arg(skip)]
    pub sample_rate: Option<u32>,
}

impl Usual {
    /// The same, if there is such a time.
    pub fn task_timeout(&self) -> Option<u32> {
        (self.task_timeout > 0).then_some(self.task_timeout)
    }
}

/// How a job shares workers with others.
#[derive(Args, Clone, Debug, Default)]
pub struct Share {
    /// Who gets a worker that is free and that several jobs want: fair, by their weights;
    /// earliest_deadline, before all fair ones; fifo, one after the other, behind all others.
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub policy: Policy,
    /// What the job weighs among fair ones, from 1 to 10000; 100 if nothing is said.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub weight: Option<u32>,
    /// In how long it is to be done, as 90s, 10m or 2h: for earliest_deadline.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub deadline: Option<Duration>,
}

/// Who gets a worker that is free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Policy {
    /// By their weights.
    #[default]
    Fair,
    /// Who is to be done first.
    EarliestDeadline,
    /// Who came first.
    Fifo,
}

impl Policy {
    /// As the job service calls it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Fair => "fair",
            Policy::EarliestDeadline => "earliest_deadline",
            Policy::Fifo => "fifo",
        }
    }
}

impl Share {
    /// Refuses what does not go together.
    pub fn check(&self) -> Result<(), Failure> {
        let name = self.policy.name();
        let wrong = match self.policy {
            Policy::EarliestDeadline if self.deadline.is_none() => {
                String::from("--policy earliest_deadline needs --deadline DURATION, as 10m")
            }
            Policy::Fair | Policy::Fifo if self.deadline.is_some() => {
                format!("--deadline is for --policy earliest_deadline, not for {name}")
            }
            Policy::EarliestDeadline | Policy::Fifo if self.weight.is_some() => {
                format!("--weight is for --policy fair, not for {name}")
            }
            _ => return Ok(()),
        };
        Err(Failure::request(wrong))
    }

    /// The request with this.
    pub fn of(&self, request: Request) -> Request {
        let deadline_ms = self.deadline.map_or(0, |it| it.as_millis() as u64);
        let policy = match self.policy {
            Policy::Fair => {
                JobPolicy::Fair { weight: self.weight.unwrap_or(JobPolicy::USUAL_WEIGHT) }
            }
            Policy::EarliestDeadline => JobPolicy::EarliestDeadline { deadline_ms },
            Policy::Fifo => JobPolicy::Fifo,
        };
        Request { policy, ..request }
    }
}

/// Reads a time, at most a day.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => 0,
    };
    let seconds = number.parse::<u64>().ok().and_then(|it| it.checked_mul(scale));
    match seconds {
        Some(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("`{text}` is not a time from 1s to 24h, as 90s, 10m or 2h")),
    }
}

#[derive(Args)]
pub struct Demo {
    /// How much the cluster in QEMU sorts.
    #[arg(long, default_value = "96M")]
    pub size: Bytes,
    /// How much the hosted node sorts.
    #[arg(long, default_value = "1G")]
    pub hosted_size: Bytes,
}

#[derive(Args)]
pub struct Terasort {
    /// How much is sorted, as 1G: as many whole records of 100 bytes as that holds.
    #[arg(long)]
    pub size: Bytes,
    /// What the records look like.
    #[arg(long, value_enum, default_value = "binary")]
    pub format: Format,
    /// What the datasets are called: NAME.input, NAME.output and NAME.report.
    #[arg(long, default_value = "terasort")]
    pub name: String,
    #[command(flatten)]
    pub usual: Usual,
}

/// What records for TeraSort look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// As gensort makes them.
    Binary,
    /// As gensort -a makes them: printable.
    Ascii,
    /// As Hadoop's teragen makes them.
    Hadoop,
}

impl Format {
    /// As the package calls it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Binary => "binary",
            Format::Ascii => "ascii",
            Format::Hadoop => "hadoop",
        }
    }
}

#[derive(Args)]
#[command(
    after_help = "--json, which wants --output, prints how the job went; the counts are in the \
                        dataset, and nile get gives them."
)]
pub struct Wordcount {
    /// A text file, a pipe, - for standard input, or else a dataset of the cluster that is up.
    pub text: OsString,
    /// Keep the counts as a dataset of this name in place of printing them.
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    #[command(flatten)]
    pub usual: Usual,
}

/// The job whose code a package's file holds.
#[derive(Parser, Debug)]
#[command(name = "nile run", no_binary_name = true, max_term_width = 100)]
pub struct Package {
    /// The package's file.
    #[arg(value_name = "PACKAGE.elf")]
    pub file: PathBuf,
    /// What the job's code is given.
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true)]
    pub arguments: Vec<String>,
    /// A dataset that it reads, or a file, a pipe, or - for standard input, which are put before;
    /// may be given many times.
    #[arg(long, value_name = "NAME")]
    pub input: Vec<OsString>,
    /// The dataset that it makes; without it, what it makes is printed.
    #[arg(long, value_name = "NAME")]
    pub output: Option<String>,
    /// Of how many splits of the input samples are taken to cut partitions.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub samples: u32,
    #[command(flatten)]
    pub usual: Usual,
}

/// Reads the words behind `nile run`.
pub fn package(words: &[OsString]) -> Result<Package, clap::Error> {
    Package::try_parse_from(words)
}

/// Something that is done when a job comes to a phase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hook {
    /// The job's name.
    pub job: String,
    /// The phase.
    pub phase: JobPhase,
    /// What a shell is to do.
    pub command: String,
}

impl std::str::FromStr for Hook {
    type Err = String;

    fn from_str(text: &str) -> Result<Hook, String> {
        let parts = text.split_once('=').and_then(|(when, command)| {
            let (job, phase) = when.split_once(':')?;
            let phase = JobPhase::ALL.into_iter().find(|it| it.name() == phase)?;
            Some(Hook { job: job.into(), phase, command: command.into() })
        });
        parts.ok_or_else(|| format!("`{text}` is not JOB:PHASE=COMMAND"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_options_and_arguments() {
        let words = "x.elf --input a --input b --reducers 2 --json -- -v 7";
        let words: Vec<String> = words.split(' ').map(String::from).collect();
        let package = Package::try_parse_from(&words).unwrap();
        assert_eq!((package.input.len(), package.usual.reducers), (2, Some(2)));
        assert_eq!((package.arguments, package.usual.json), (vec!["-v".into(), "7".into()], true));
        assert!(Package::try_parse_from(["x.elf", "--reducers", "0"]).is_err());
        let plain = Package::try_parse_from(["x.elf", "gen", "100"]).unwrap();
        assert_eq!(plain.arguments, ["gen", "100"]);
    }

    #[test]
    fn a_share_is_checked() {
        let read = |words: &str| Package::try_parse_from(words.split(' '));
        let share = |words: &str| read(words).unwrap().usual.share;
        let usual = share("x.elf").of(Request::default());
        assert_eq!(usual.policy, JobPolicy::Fair { weight: 100 });
        let dated = share("x.elf --policy earliest_deadline --deadline 10m");
        assert!(dated.check().is_ok());
        let policy = JobPolicy::EarliestDeadline { deadline_ms: 600_000 };
        assert_eq!(dated.of(Request::default()).policy, policy);
        let unknown = read("x.elf --policy lifo").unwrap_err().to_string();
        assert!(unknown.contains("fair, earliest_deadline, fifo"), "{unknown}");
        for wrong in ["--weight 0", "--weight 10001", "--deadline 5", "--deadline 25h"] {
            assert!(read(&format!("x.elf {wrong}")).is_err(), "{wrong}");
        }
        let wrong = ["--policy earliest_deadline", "--deadline 5s", "--policy fifo --weight 3"];
        for wrong in wrong {
            assert!(share(&format!("x.elf {wrong}")).check().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_hook_names_job_phase_and_command() {
        let hook: Hook = "sort:mapping=echo a=b:c".parse().unwrap();
        assert_eq!((&hook.job[..], hook.phase), ("sort", JobPhase::Mapping));
        assert_eq!(hook.command, "echo a=b:c");
        assert!("sort=x".parse::<Hook>().is_err());
    }
}
