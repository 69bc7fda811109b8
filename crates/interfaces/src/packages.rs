//! Packages that stay: each has a worker core, for itself or with others, until it is stopped.

use alloc::string::String;
use alloc::vec::Vec;

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
    /// Bytes of memory of its own.
    pub memory_bytes: u64,
    /// How long it had the core since it has begun last, in microseconds.
    pub busy_us: u64,
    /// Its system calls since it has begun last.
    pub system_calls: u64,
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

/// The packages that have this core: one for itself, or several that share it. Jobs are given to
/// other cores meanwhile.
#[service(subsystem = "packages", capability = "servers", layer = high)]
pub trait Packages {
    /// Takes this core from jobs and runs a package on it: one that the node was started with, by
    /// its name, or a dataset. Returns when it runs. Each time that it ends, unless it exits with
    /// 0, it begins anew; what it keeps is as it has left it. `exists`: the core has one, and it is
    /// not to be shared, or it has this one, or as many as there is room for; `busy`: what a job
    /// does here is not over within `patience_ms`. Then nothing has changed.
    #[stl_k(allow(operator, peer))]
    async fn start(
        &self,
        #[range(1..=160)] source: &str,
        argument: Bytes<'_>,
        #[range(1..=60000)] patience_ms: u32,
        shares: bool,
    ) -> CallResult<()>;

    /// Runs another file of the package of this name in its place, over what it keeps. If that does
    /// not begin, or fails in its first ten seconds, the former one is run again. Returns when the
    /// other one runs, or why it does not.
    #[stl_k(allow(operator, peer))]
    async fn replace(
        &self,
        #[range(1..=160)] name: &str,
        #[range(1..=160)] source: &str,
    ) -> CallResult<()>;

    /// Has another worker core of this node go on with the package of this name: it ends here, and
    /// begins there over what it keeps, with the same file and argument. Returns when it runs.
    /// `not found`: there is no such core; `exists`: that one has no room for it, as for `start`.
    /// Then nothing has changed. A package that does not begin there within `patience_ms` runs here
    /// again, if that may be; the error says whether it does.
    #[stl_k(allow(operator, peer))]
    async fn move_to(
        &self,
        #[range(1..=160)] name: &str,
        core: u16,
        #[range(1..=60000)] patience_ms: u32,
        shares: bool,
    ) -> CallResult<()>;

    /// Ends the package of this name, and gives the core back to jobs if it was the last. What it
    /// keeps stays.
    #[stl_k(allow(operator, peer))]
    async fn stop(&self, #[range(1..=160)] name: &str) -> CallResult<()>;

    /// The packages that the core has, in the order in which they came.
    #[stl_k(reply = "packages", allow(package, operator, peer))]
    fn list(&self) -> CallResult<Vec<PackageState>>;
}
