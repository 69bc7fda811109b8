//! Simulations of the cluster's protocols: the code that runs on nodes, over a simulated network
//! and in virtual time, with faults that are drawn from a seed. Invariants are checked at every
//! step. The same seed gives the same run, in debug and release builds; a run that breaks an
//! invariant is repeated by its seed.
//!
//! * [`options`]: what a simulation is asked for.
//! * [`report`]: what it found.
//! * [`runs`]: many seeds of one scenario, on as many threads as the machine has cores.
//! * [`world`]: hosts on a switch, with timers, in virtual time.
//! * [`draw`]: what scenarios draw from their seeds.
//! * [`linear`]: whether a history of operations is linearizable.
//! * [`trace`]: what happened, as a hash.
//!
//! The scenarios, one module each, in the list [`SCENARIOS`]:
//!
//! * [`bulk`]: goodput and exactness of bulk transfers.
//! * [`calls`]: calls at most once, sealed, under attack.
//! * [`domains`]: domains of one machine, and the supervisor that hands it out.
//! * [`gossip`]: membership and directories.
//! * [`graph`]: a graph's log, and who has it open.
//! * [`jobs`]: masters and workers of a job.
//! * [`names`]: one history for each name of a dataset; and the same beside one bad disk, `disks`.
//! * [`policies`]: scheduling policies, hostile ones too, while subjects are bound to others.
//! * [`roles`]: cores whose roles change with the work, by each optimiser.
//!
//! A new one is a module with `pub fn run(options: &Options) -> Report` and an entry in the list.
#![forbid(unsafe_code)]

pub mod bulk;
pub mod calls;
pub mod domains;
pub mod draw;
pub mod gossip;
pub mod graph;
pub mod jobs;
pub mod linear;
pub mod names;
pub mod options;
pub mod policies;
pub mod report;
pub mod roles;
pub mod runs;
pub mod trace;
pub mod world;

pub use options::Options;
pub use report::{Failure, Figure, Report, Target};
pub use runs::{Outcome, run_seeds};
pub use trace::Trace;
pub use world::{Happening, Host, World};

/// A scenario: what `nile sim NAME` runs.
pub struct Scenario {
    /// What it is called.
    pub name: &'static str,
    /// What it simulates, in a few words.
    pub about: &'static str,
    /// Runs it; blocks until all its runs are done.
    pub run: fn(&Options) -> Report,
}

/// Every scenario.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "bulk",
        about: "bulk transfers: goodput of one and of many senders, and failing networks",
        run: bulk::run,
    },
    Scenario {
        name: "calls",
        about: "calls between nodes that restart, on a failing network with an attacker",
        run: calls::run,
    },
    Scenario {
        name: "disks",
        about: "names of datasets on three nodes, one of which has a bad disk of any kind",
        run: names::run_disks,
    },
    Scenario {
        name: "domains",
        about: "domains of one machine, while they and their supervisor die at any step",
        run: domains::run,
    },
    Scenario {
        name: "gossip",
        about: "membership and directories of up to 10,000 nodes",
        run: gossip::run,
    },
    Scenario {
        name: "graph",
        about: "a graph's events, while whoever has it and whoever feeds it is killed at any step",
        run: graph::run,
    },
    Scenario {
        name: "jobs",
        about: "a job on nodes, cores and masters that are killed in every phase",
        run: jobs::run,
    },
    Scenario {
        name: "names",
        about: "names of datasets, changed by many at once while keepers and disks are lost",
        run: names::run,
    },
    Scenario {
        name: "policies",
        about: "scheduling policies, hostile ones too, while their subjects are bound to others",
        run: policies::run,
    },
    Scenario {
        name: "roles",
        about: "roles that change with a day's work, beside the best static ones and a clairvoyant",
        run: roles::run,
    },
];
