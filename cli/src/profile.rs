//! `nile profile`: runs a job as `nile run` does, and writes when what of it ran on which core.
//!
//! * [`events`]: the timeline, as Perfetto and chrome://tracing read it.
//! * [`shares`]: how busy each worker core was, for people.

mod events;
mod shares;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use nile_abi::{CoreId, NodeId, RoleSet};
use serde_json::json;

use crate::cluster::args::Kind;
use crate::failure::Failure;
use crate::run::args::{Format, Terasort, Usual};
use crate::run::jobs::Timeline;
use crate::run::jobs::service::Service;
use crate::run::place::Place;
use crate::run::terasort::{self, Sorted};
use crate::run::watch::Done;
use crate::size::Bytes;

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
    #[command(flatten)]
    usual: Usual,
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

/// A job that has ended.
struct Job {
    name: String,
    /// When it began, after the first one.
    begun: Duration,
    times: Timeline,
}

impl Sort {
    fn terasort(&self) -> Terasort {
        let (name, usual) = (format!(".profile-{}", std::process::id()), self.usual.clone());
        Terasort { size: self.size, format: Format::Binary, name, usual }
    }

    /// Refuses a folder that cannot be written to.
    fn check_folder(&self) -> Result<(), Failure> {
        let shown = self.output.display();
        let parent = self.output.parent().filter(|it| !it.as_os_str().is_empty());
        match fs::metadata(&self.output) {
            Ok(it) if it.is_dir() => Ok(()),
            Ok(_) => Err(Failure::request(format!("--output {shown} is not a folder"))),
            Err(_) if parent.is_none_or(|it| it.is_dir()) => Ok(()),
            Err(error) => Err(Failure::request(format!("--output {shown}: {error}"))),
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
    let mut seen = Seen::default();
    let mut first: Option<Instant> = None;
    let sorted = terasort::watched(&sort.terasort(), &mut |place, name, done| {
        let first = *first.get_or_insert(done.begun);
        seen.add(place, name, done, first)
    })?;
    let file = sort.output.join(TIMELINE);
    let cannot = |error| Failure::failed(format!("{}: {error}", file.display()));
    let events = events::document(&seen);
    fs::create_dir_all(&sort.output).map_err(cannot)?;
    fs::write(&file, format!("{events}\n")).map_err(cannot)?;
    let shares = shares::of(&seen);
    match sort.usual.json {
        true => {
            let document = json!({
                "run": sorted.document(),
                "cores": shares::documents(&shares),
                "lost_attempts": seen.lost(),
                "timeline": file,
            });
            crate::print(&format!("{document}\n"))?;
        }
        false => crate::print(&text(&sorted, &seen, &shares::text(&shares), &file))?,
    }
    sorted.check()
}

fn text(sorted: &Sorted, seen: &Seen, shares: &str, file: &std::path::Path) -> String {
    let lost = match seen.lost() {
        0 => String::new(),
        lost => format!("{lost} attempts are missing: the job service had no room for them\n"),
    };
    let head = sorted.text();
    format!("{head}\n{shares}{lost}\n{}: open it in Perfetto or chrome://tracing\n", file.display())
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
        let times = Service::open(&mut place.stores)?.timeline(done.job)?;
        // The node's clock and this one's need not go alike.
        let free = self.jobs.last().map_or(Duration::ZERO, |it| it.begun + it.times.until);
        let begun = (done.begun - first).max(free);
        self.jobs.push(Job { name: name.into(), begun, times });
        Ok(())
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
            kind: "map".into(),
            task,
            number: 1,
            begun: micros(begun),
            ended: micros(ended),
            outcome: "done".into(),
            read: 100,
        };
        let times = Timeline {
            until: micros(4000),
            phases: vec![
                ("mapping".into(), micros(10), micros(3000)),
                ("ending".into(), micros(3000), micros(4000)),
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
