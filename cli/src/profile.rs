//! `nile profile`: runs a job as `nile run` does, and writes when what of it ran on which core, and
//! in what the time of hosted cores went.
//!
//! * [`events`]: the timeline, as Perfetto and chrome://tracing read it.
//! * [`shares`]: how busy each worker core was, for people.
//! * [`samples`]: what cores were found doing; [`remote`]: those that tell it by messages;
//!   [`names`], [`stacks`]: the same in words.
//! * [`flame`], [`hot`]: that as a picture and as tables.
//! * [`sampled`]: all of it, from the cluster's start to the files.

mod events;
mod flame;
mod hot;
mod names;
mod remote;
mod sampled;
mod samples;
mod shares;
mod stacks;

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use nile_abi::{CoreId, NodeId, RoleSet};
use nile_platform_hosted::samples::MOST_HERTZ;
use serde_json::json;

use crate::cluster::args::Kind;
use crate::failure::Failure;
use crate::run::args::{Format, Terasort, Usual};
use crate::run::jobs::Timeline;
use crate::run::jobs::service::Service;
use crate::run::place::Place;
use crate::run::terasort::{self, Moment};
use crate::run::watch::Done;
use crate::size::Bytes;
use crate::write;
use sampled::Sampling;

/// The file with the timeline.
const TIMELINE: &str = "timeline.json";

#[derive(Args)]
pub struct Profile {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Generate records, sort them, validate what came of it.
    Terasort(Sort),
}

#[derive(Args)]
struct Sort {
    /// How much is sorted, as 1G: as many whole records of 100 bytes as that holds.
    #[arg(long, default_value = "256M")]
    size: Bytes,
    /// The folder that is written to; it is made if it is not there.
    #[arg(long, value_name = "FOLDER", default_value = "profile")]
    output: PathBuf,
    /// How often in a second of work each core is sampled, 1 to 1000; 0 for not at all.
    #[arg(long, value_name = "HZ", default_value_t = 997, value_parser = rates())]
    rate: u32,
    #[command(flatten)]
    usual: Usual,
}

fn rates() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(0..=MOST_HERTZ.into())
}

/// What was seen of some jobs, one after the other.
#[derive(Default)]
struct Seen {
    cores: Vec<Core>,
    jobs: Vec<Job>,
}

/// A core of the cluster.
struct Core {
    node: NodeId,
    core: CoreId,
    roles: RoleSet,
}

impl Core {
    /// What it does, in words.
    fn role(&self) -> String {
        let roles: Vec<String> = self.roles.iter().map(|role| role.to_string()).collect();
        roles.join(", ")
    }
}

/// A job that has ended.
struct Job {
    name: String,
    /// When it began, after the first one.
    begun: Duration,
    times: Timeline,
}

impl Sort {
    fn terasort(&self) -> Terasort {
        let name = format!(".profile-{}", std::process::id());
        let sample_rate = Some(self.rate).filter(|rate| *rate > 0);
        let usual = Usual { sample_rate, ..self.usual.clone() };
        Terasort { size: self.size, format: Format::Binary, name, usual }
    }

    /// Refuses a folder that cannot be written to.
    fn check_folder(&self) -> Result<(), Failure> {
        let parent = self.output.parent().filter(|it| !it.as_os_str().is_empty());
        match fs::metadata(&self.output) {
            Err(error) if parent.is_some_and(|it| !it.is_dir()) => {
                let shown = self.output.display();
                Err(Failure::request(format!("--output {shown}: {error}")))
            }
            _ => write::check_folder("--output", &self.output),
        }
    }

    /// Writes a file into it; where that is.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Failure> {
        let file = self.output.join(name);
        let made = fs::create_dir_all(&self.output);
        made.map_err(|error| Failure::failed(format!("{}: {error}", file.display())))?;
        write::all(&file, bytes)?;
        Ok(file)
    }

    /// Removes a file of an earlier run from it, which would be taken for one of this run.
    fn remove(&self, name: &str) -> Result<(), Failure> {
        let file = self.output.join(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::failed(format!("{}: {error}", file.display())))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses what could not be run; the machines of the cluster that would be started for it.
pub fn check(options: &Profile) -> Result<Vec<Kind>, Failure> {
    let What::Terasort(sort) = &options.what;
    sort.check_folder()?;
    terasort::check(&sort.terasort())
}

/// Runs the job, writes the files, and says what is in them.
pub fn run(options: &Profile) -> Result<(), Failure> {
    check(options)?;
    let What::Terasort(sort) = &options.what;
    let (mut seen, mut sampling) = (Seen::default(), Sampling::at(sort.rate));
    let mut first: Option<Instant> = None;
    let sorted = terasort::watched(&sort.terasort(), &mut |place, moment| match moment {
        Moment::Begin => sampling.begin(place),
        Moment::Ended(name, done) => {
            let first = *first.get_or_insert(done.begun);
            seen.add(place, name, done, first)
        }
        Moment::Over => sampling.end(),
    })?;
    let events = events::document(&seen);
    let timeline = sort.write(TIMELINE, format!("{events}\n").as_bytes())?;
    let title = format!("nile profile terasort --size {}", sort.size);
    let sampled = match sampling.of(&seen.cores) {
        Ok(sampled) => Ok((sampled.write(&title, |name, bytes| sort.write(name, bytes))?, sampled)),
        Err(why) => {
            sampled::FILES.into_iter().try_for_each(|name| sort.remove(name))?;
            Err(why)
        }
    };
    let shares = shares::of(&seen);
    if sort.usual.json {
        let mut document = json!({
            "run": sorted.document(),
            "cores": shares::documents(&shares),
            "lost_attempts": seen.lost(),
            "timeline": timeline,
        });
        match &sampled {
            Ok((files, sampled)) => document["sampled"] = sampled.document(files),
            Err(why) => document["not_sampled"] = (*why).into(),
        }
        crate::print(&format!("{document}\n"))?;
    } else {
        let (head, shares) = (sorted.text(), shares::text(&shares));
        let said = match &sampled {
            Ok((files, sampled)) => sampled.text(files),
            Err(why) => format!("no flame graph: {why}\n"),
        };
        let timeline = timeline.display();
        let seen = seen.missing();
        crate::print(&format!(
            "{head}\n{shares}{seen}\n{said}{timeline}: open it in Perfetto or chrome://tracing\n"
        ))?;
    }
    sorted.check()
}

impl Seen {
    /// Notes a job that has just ended.
    fn add(
        &mut self,
        place: &mut Place,
        name: &str,
        done: &Done,
        first: Instant,
    ) -> Result<(), Failure> {
        let core = |(node, core, roles)| Core { node, core, roles };
        self.cores = place.cores().into_iter().map(core).collect();
        self.cores.sort_by_key(|it| (it.node, it.core));
        let times = Service::open(&mut place.stores, &place.on)?.timeline(done.job)?;
        // The node's clock and this one's need not go alike.
        let free = self.jobs.last().map_or(Duration::ZERO, |it| it.begun + it.times.until);
        let begun = (done.begun - first).max(free);
        self.jobs.push(Job { name: name.into(), begun, times });
        Ok(())
    }

    /// The same in words, if there are any.
    fn missing(&self) -> String {
        match self.lost() {
            0 => String::new(),
            lost => format!("{lost} attempts are missing: the job service had no room for them\n"),
        }
    }

    /// Attempts that are not known.
    fn lost(&self) -> u64 {
        self.jobs.iter().map(|job| job.times.lost).sum()
    }
}

#[cfg(test)]
mod tests {
    use nile_abi::Role;

    use super::*;
    use crate::run::jobs::Attempt;

    /// Two jobs, each of which keeps n1.c2 busy for half of its four milliseconds, and n2.c2 not at
    /// all.
    pub fn seen() -> Seen {
        let core = |node, core, role: Role| Core {
            node: NodeId(node),
            core: CoreId(core),
            roles: RoleSet::from_iter([role]),
        };
        let micros = Duration::from_micros;
        let attempt = |task, begun, ended| Attempt {
            node: 1,
            core: 2,
            kind: "map",
            task,
            number: 1,
            begun: micros(begun),
            ended: micros(ended),
            outcome: "done",
            read: 100,
        };
        let times = Timeline {
            until: micros(4000),
            phases: vec![
                ("mapping", micros(10), micros(3000)),
                ("ending", micros(3000), micros(4000)),
            ],
            attempts: vec![attempt(0, 100, 1100), attempt(1, 1100, 2100)],
            lost: 1,
        };
        let job = |name: &str, begun| {
            let (name, times) = (name.to_string(), times.clone());
            Job { name, begun: micros(begun), times }
        };
        let cores =
            vec![core(1, 0, Role::Management), core(1, 2, Role::Worker), core(2, 2, Role::Worker)];
        Seen { cores, jobs: vec![job("generate", 0), job("sort", 5000)] }
    }

    #[test]
    fn attempts_that_are_missing_are_counted() {
        assert_eq!(seen().lost(), 2);
    }
}
