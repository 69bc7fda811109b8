//! Jobs on a cluster: `nile run`, and the demonstration that is made of it. A job runs on the
//! cluster that is up, or on one that is started for it and ended after it.
//!
//! * [`args`]: what can be said on the command line.
//! * [`profile`]: what a cluster for a job is like; [`place`]: the cluster that a job runs on.
//! * [`jobs`]: the service that runs jobs, and calls to it; [`watch`]: a job from its submission to
//!   its end.
//! * [`code`]: the package with a job's code, as a dataset; [`input`]: what a job reads;
//!   [`outputs`]: what jobs read and make, as datasets.
//! * [`memory`]: what the nodes' processes take; [`show`]: bars and tables.
//! * [`terasort`], [`wordcount`], [`package`]: the commands; [`demo`]: `nile demo`.

pub mod args;
pub mod code;
pub mod demo;
mod input;
pub mod jobs;
mod memory;
mod outputs;
mod package;
pub mod place;
mod profile;
mod show;
pub mod terasort;
pub mod watch;
mod wordcount;

use args::{Run, What};

use crate::cluster::args::Kind;
use crate::failure::Failure;
use crate::needs::Need;

/// Runs what is asked for.
pub fn run(options: &Run) -> Result<(), Failure> {
    match &options.what {
        What::Terasort(options) => terasort::run(options),
        What::Wordcount(options) => wordcount::run(options),
        What::Package(words) => match args::package(words) {
            Ok(options) => package::run(&options),
            // As for any command.
            Err(error) => error.exit(),
        },
    }
}

/// Refuses what could not be run anywhere, before anything is started; the machines of the
/// cluster that would be started for it, none if one is up.
pub fn check(options: &Run) -> Result<Vec<Kind>, Failure> {
    match &options.what {
        What::Terasort(options) => terasort::check(options),
        What::Wordcount(options) => wordcount::check(options),
        What::Package(words) => match args::package(words) {
            Ok(options) => package::check(&options),
            // Help is printed by the command itself, and needs nothing.
            Err(error) if !error.use_stderr() => Ok(Vec::new()),
            Err(error) => error.exit(),
        },
    }
}

/// What holds the code of the job, if it is built from this source tree: it runs as its source is
/// now.
pub fn package_of(options: &Run) -> Option<Need> {
    match &options.what {
        What::Terasort(_) => Some(Need::Tera),
        What::Wordcount(_) => Some(Need::Packages),
        What::Package(words) => {
            let is_own = args::package(words).is_ok_and(|it| code::is_own(&it.file));
            is_own.then_some(Need::Packages)
        }
    }
}
