//! The words of `nile package`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::seconds;
use crate::cluster::args::{Query, Said};

#[derive(Args)]
pub struct Package {
    #[command(subcommand)]
    pub action: PackageAction,
}

#[derive(Subcommand)]
pub enum PackageAction {
    /// Give a package a worker core, for itself unless it is to share one; it begins anew whenever
    /// it fails.
    Start {
        /// Its file, or the name of one of the project's own, as web.
        file: PathBuf,
        /// The worker core, as n1.c2; without it the last one of the first node that is free.
        #[arg(long, value_name = "CORE")]
        on: Option<Said>,
        /// Run it beside the packages that the core has; it has turns with them.
        #[arg(long, requires = "on")]
        share: bool,
        /// What it is told when it begins.
        #[arg(long, default_value = "", value_name = "TEXT")]
        argument: String,
        /// Seconds that a job's task may take that has the core; then all stays as it was.
        #[arg(long, default_value = "5", value_parser = seconds, value_name = "SECONDS")]
        patience: Duration,
        #[command(flatten)]
        query: Query,
    },
    /// Show the packages that have cores.
    List(Query),
    /// Run another file of a package in its place, over what it keeps; the former one comes back if
    /// that fails in its first ten seconds.
    Replace {
        /// The package's name, its core, as n1.c2, or both, as n1.c2/NAME.
        package: String,
        /// The file, or the name of one of the project's own.
        file: PathBuf,
        #[command(flatten)]
        query: Query,
    },
    /// End a package, and give its core back to jobs if it was the last there; what it keeps stays.
    Stop {
        /// Its name, its core, as n1.c2, or both, as n1.c2/NAME.
        package: String,
        #[command(flatten)]
        query: Query,
    },
}
