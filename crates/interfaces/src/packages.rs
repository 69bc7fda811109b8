//! Packages that stay: each has a worker core for itself, until it is stopped.

use alloc::string::String;

use nile_bosml::Bytes;
use nile_stl::{CallResult, Record, service};

/// How a package stands that has a core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct PackageState {
    /// Its name.
    pub name: String,
    /// The dataset that its file is, or its name if the node was started with it.
    pub source: String,
    /// What it does.
    pub state: PackagePhase,
    /// Its number on this core, as `core_manager.stop_package` takes it.
    pub number: u32,
    /// How often it has begun.
    pub begun: u32,
    /// How long ago it has begun last, in microseconds.
    pub since_us: u64,
    /// What is run again if this one fails in its first ten seconds, until they are over.
    pub former: Option<String>,
    /// How the last one ended.
    pub said: String,
    /// Whether its manifest says that it uses frames of the network.
    pub uses_frames: bool,
}

/// What a package does that has a core.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackagePhase {
    /// It runs.
    Runs,
    /// It has ended, and is to begin anew.
    Waits,
    /// It is being stopped.
    Ends,
}

impl PackagePhase {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            PackagePhase::Runs => "runs",
            PackagePhase::Waits => "waits",
            PackagePhase::Ends => "ends",
        }
    }
}

/// The package that has this core for itself. Jobs are given to other cores meanwhile.
#[service(subsystem = "packages", capability = "servers", layer = high)]
pub trait Packages {
    /// Takes this core from jobs and runs a package on it: one that the node was started with, by
    /// its name, or a dataset. Returns when it runs. Each time that it ends, unless it exits with
    /// 0, it begins anew; what it keeps is as it has left it. `exists`: the core has one; `busy`:
    /// what a job does here is not over within `patience_ms`. Then nothing has changed.
    #[stl_k(allow(operator, peer))]
    async fn start(
        &self,
        #[range(1..=160)] source: &str,
        argument: Bytes<'_>,
        #[range(1..=60000)] patience_ms: u32,
    ) -> CallResult<()>;

    /// Runs another file of the same package in place of this one, over what it keeps. If that does
    /// not begin, or fails in its first ten seconds, the former one is run again. Returns when the
    /// other one runs, or why it does not.
    #[stl_k(allow(operator, peer))]
    async fn replace(&self, #[range(1..=160)] source: &str) -> CallResult<()>;

    /// Ends the package, and gives the core back to jobs. What it keeps stays.
    #[stl_k(allow(operator, peer))]
    async fn stop(&self) -> CallResult<()>;

    /// The package that the core has, if it has one.
    #[stl_k(reply = "state", allow(package, operator, peer))]
    fn state(&self) -> CallResult<Option<PackageState>>;
}
