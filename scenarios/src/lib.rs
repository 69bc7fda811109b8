//! Scenarios: the same steps on every machine. A node is started for one of them; the management
//! core conducts it, the other cores play their parts, and the boot report says whether everything
//! that was checked held. A node that is started for `boot` only boots.
//!
//! | program           | what must hold                                                         |
//! | ----------------- | ---------------------------------------------------------------------- |
//! | `boot`            | every loop runs                                                        |
//! | `ping`            | every core reaches every core, in order, also itself                   |
//! | `restart`         | a worker that panics comes back; what was sent to it before is `Dead`  |
//! | `manager-restart` | so does the management core; no frame is given twice                   |
//! | `manager-renewal` | it ends as planned and comes back, perhaps with another image          |
//! | `isolation`       | a stray write into another core's memory faults on the writer alone    |
//! | `tickless`        | a worker that computes is not interrupted                              |
//! | `ticked`          | its control: with ticks on, the same worker is, and it is counted      |
//! | `memory`          | frames of each size: zeroed, own, given back                           |
//! | `pool`            | buffers go around the cores; those of a core that ends come back      |
//! | `interrupts`      | a disk's interrupts go elsewhere, are masked, storm; it goes on         |
//! | `disks`           | disks keep what is written, whatever its size and place                |
//! | `moving`          | a receiver changes cores while messages come; none is lost             |
//! | `churn`           | memory and channels come and go; in the end nothing is missing         |
//! | `package`         | packages run on every worker, and leave nothing behind                 |
//! | `unruly`          | packages that do what they may not are stopped; their core goes on     |
//! | `package-churn`   | packages come and go; in the end nothing is missing                    |
//! | `timers`          | deadlines come in order and never early, whichever timer wakes the core |
//! | `idle`            | a node with nothing to do sleeps                                       |
//! | `calls`           | services are called on every core, by name and bound; errors are told |
//! | `calls-churn`     | calls end at once and truly while cores end and come back              |
//! | `defaults`        | every default service is called from everywhere, rightly and wrongly   |
//! | `datasets`        | datasets are written, read, refused, removed; `look=1`: found again    |
//! | `jobs`            | jobs sort numbers, in memory or not, while a core ends; nothing is left |
//! | `flood`           | 10,000 calls at once from every core to every core                     |
//! | `composed`        | services made of services, on different cores, one in another          |
//! | `quality`         | instances are chosen by how they were found to serve                   |
//! | `policies`        | instances of one type are found by keywords and attributes, and bound  |
//! | `ends`            | calls to what is unpublished or panics end once, and say why           |
//! | `package-calls`   | packages call services and offer them, in user mode and the kernel     |
//! | `package-policy`| a package decides who runs next; none waits for it, whatever it does   |
//! | `package-buffers` | packages pass buffers of the node's pool, and leave none behind         |
//! | `package-keeps`   | a package counts on in memory that outlives it, core and kernel        |
//! | `package-region`  | packages of several cores share memory and work, whoever of them ends  |
//! | `package-replace` | a package is replaced under its callers, and no call is lost           |
//! | `neighbours`      | packages that share a core go on beside each other                     |
//! | `package-text`    | text that was shipped is there when its package comes again            |
//! | `package-channels`| packages send each other messages without system calls               |
//! | `package-lasting` | channels of packages stay when one of the two begins anew              |
//! | `idle-nodes`      | what wakes nodes that know each other and have nothing to do           |
//! | `cluster`         | nodes find each other; services are called wherever they are           |
//! | `serve`           | nothing: a node of a cluster that serves until it is ended              |
//! | `bulk`            | buffers between nodes: whole, in any number, and `Dead` when it is so  |
//! | `stores`          | two disks have a store each, on one core or two, and move whole        |
//! | `dataset-nodes`   | datasets come from another node whole, or leave nothing                |
//! | `leaving`         | cores leave as planned and come back, and no call is lost              |
//! | `shifting`        | cores leave, come and change roles and images at any moment, under jobs |
//! | `roles`           | a disk goes to another core and back; callers see the same disk        |
//! | `graph`           | edges come in any order; ranks are no more wrong than they say        |
//! | `graph-kept`      | what a graph has acknowledged is in, once, whenever its core ends      |
//! | `domains`         | domains come and go on cores and memory of the same machine             |
//! | `domain-attacks`  | a domain reaches for what is not its own, and gets nowhere              |
//! | `domain-pages`    | what a page costs a domain with a guard, and without one                |
//! | `domain-times`    | how long commands about domains take                                    |
//! | `domain`          | nothing: a domain that does what its supervisor says                    |
//! | `sweeps`          | names without a history are adopted once, whoever races; `away=1`: what |
//! |                   | was removed while a node was cut off goes when it is back              |
//! | `web`             | a node serves HTTP, and is stopped meanwhile; a client of another TCP  |
//! |                   | notices nothing                                                        |
//! | `bulk-cost`       | what it costs to move buffers to another node                          |
//! | `rpc-cost`        | what calls to another node cost                                        |
//! | `registry-restart`| the registry is gone with its core; all is published and found again   |
//! | `counts`          | what the kernel's operations cost                                      |
//! | `call-cost`       | what calls to services cost                                            |
//! | `record-cost`     | what records in the memory of another core cost                        |
//! | `slices`          | a package that loops shares its core, and is interrupted for nothing   |
//! | `hostile`         | policies that do wrong harm nobody, and are expelled                   |
//! | `policy-cost`     | what it costs that policies decide                                    |
//! | `disk-cost`       | what reading and writing a disk costs                                  |
//! | `system-call`     | what system calls cost                                                 |
//! | `switch-cost`     | what it costs that packages of a core take turns                       |
//!
//! What a user does to a machine that is shared out no node conducts: see [`domain_steps`].
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod arguments;
mod bulk;
mod bulk_cost;
mod call_cost;
mod calls;
mod calls_churn;
mod churn;
mod cluster;
mod composed;
mod conduct;
mod counts;
mod dataset_nodes;
mod datasets;
mod defaults;
mod disk_calls;
mod disk_cost;
mod disks;
pub mod domain_steps;
mod domains;
mod ends;
mod flood;
mod graph;
mod graph_kept;
mod hostile;
mod idle;
mod interrupts;
mod isolation;
mod jobs;
mod leaving;
mod manager_restart;
mod memory;
mod moving;
mod neighbours;
mod package_buffers;
mod package_calls;
mod package_channels;
mod package_keeps;
mod package_policy;
mod package_region;
mod package_replace;
mod package_text;
mod packages;
mod packages_churn;
mod packages_restart;
mod ping;
mod policies;
mod policy_cost;
mod pool;
mod probe;
mod quality;
mod record_cost;
mod registry_restart;
mod restart;
mod roles;
mod rpc_cost;
mod shifting;
mod slices;
mod stores;
mod sweeps;
mod switches;
mod system_call;
mod talk;
mod tickless;
mod timers;
mod wanderer;
mod web;

use alloc::format;
use alloc::string::String;

use nile_kernel::Core;
use nile_node::{Node, Programs};
use nile_platform::Misbehave;

use arguments::Arguments;
use manager_restart::How;

/// The name of every program, `boot` first.
pub const PROGRAMS: [&str; 72] = [
    "boot",
    "ping",
    "restart",
    "manager-restart",
    "manager-renewal",
    "isolation",
    "tickless",
    "ticked",
    "memory",
    "pool",
    "disks",
    "interrupts",
    "moving",
    "churn",
    "package",
    "unruly",
    "package-churn",
    "package-manager-restart",
    "timers",
    "idle",
    "calls",
    "calls-churn",
    "defaults",
    "datasets",
    "stores",
    "jobs",
    "greedy",
    "flood",
    "composed",
    "quality",
    "policies",
    "slices",
    "hostile",
    "ends",
    "package-calls",
    "package-policy",
    "package-buffers",
    "package-keeps",
    "package-region",
    "package-replace",
    "neighbours",
    "package-text",
    "package-channels",
    "package-channels-restart",
    "package-lasting",
    "registry-restart",
    "leaving",
    "shifting",
    "roles",
    "graph",
    "graph-kept",
    "domains",
    "domain-attacks",
    "domain-pages",
    "domain-times",
    "domain",
    "idle-nodes",
    "cluster",
    "serve",
    "bulk",
    "dataset-nodes",
    "sweeps",
    "web",
    "bulk-cost",
    "rpc-cost",
    "counts",
    "call-cost",
    "record-cost",
    "policy-cost",
    "disk-cost",
    "system-call",
    "switch-cost",
];

pub use shifting::File;

/// What a node of the tests can be started for.
pub struct Scenarios;

impl<M: Misbehave> Programs<M> for Scenarios {
    fn check(program: &str) -> Result<(), String> {
        check(program)
    }

    fn start(core: &Core<M>, program: &str) {
        start(core, program);
    }
}

/// Whether there is such a program, else which there are.
pub fn check(program: &str) -> Result<(), String> {
    let name = Arguments::new(program).name();
    match PROGRAMS.contains(&name) {
        true => Ok(()),
        false => Err(format!("unknown program; the programs are {}", PROGRAMS.join(", "))),
    }
}

/// Whether a program runs packages, which the node must have been given.
pub fn needs_packages(program: &str) -> bool {
    program.starts_with("package")
        || matches!(
            program,
            "greedy"
                | "jobs"
                | "neighbours"
                | "shifting"
                | "slices"
                | "unruly"
                | "system-call"
                | "switch-cost"
        )
}

/// Whether a program is for nodes of a cluster: one node alone has nothing to do in it, or does not
/// end.
pub fn needs_cluster(program: &str) -> bool {
    matches!(
        program,
        "bulk"
            | "bulk-cost"
            | "cluster"
            | "dataset-nodes"
            | "idle-nodes"
            | "rpc-cost"
            | "serve"
            | "sweeps"
            | "web"
    )
}

/// Whether a program is for a node that supervises its machine, or for a domain of one.
pub fn needs_supervisor(program: &str) -> bool {
    matches!(program, "domains" | "domain-attacks" | "domain-pages" | "domain-times" | "domain")
}

/// How many disks a program's node must have at least, of 8 MiB at least.
pub fn disks(program: &str) -> usize {
    match program {
        "roles" | "shifting" | "stores" => 2,
        "datasets" | "graph-kept" | "greedy" | "interrupts" | "jobs" => 1,
        _ => program.starts_with("disk").into(),
    }
}

/// Starts this core's part of `command`: a program's name, then `key=value` words. A name that is
/// not known starts nothing, and the node never ends: it was checked before.
fn start<M: Misbehave>(core: &Core<M>, command: &str) {
    let arguments = Arguments::new(command);
    match arguments.name() {
        "boot" | "serve" => Node::start(core, command),
        "ping" => ping::start(core, &arguments),
        "restart" => restart::start(core),
        "manager-restart" => manager_restart::start(core, How::Panics),
        "manager-renewal" => manager_restart::start(core, How::planned(&arguments)),
        "isolation" => isolation::start(core),
        "tickless" => tickless::start(core, &arguments, tickless::Expect::Silence),
        "ticked" => tickless::start(core, &arguments, tickless::Expect::Ticks),
        "memory" => memory::start(core, &arguments),
        "pool" => pool::start(core),
        "disks" => disks::start(core, &arguments),
        "interrupts" => interrupts::start(core, &arguments),
        "moving" => moving::start(core, &arguments),
        "churn" => churn::start(core, &arguments),
        "package" | "unruly" => packages::start(core, &arguments),
        "package-manager-restart" => packages_restart::start(core),
        "package-churn" => packages_churn::start(core, &arguments),
        "timers" => timers::start(core, &arguments),
        "idle" => idle::start(core, &arguments),
        "idle-nodes" => idle::start_nodes(core, &arguments),
        "calls" => calls::start(core),
        "calls-churn" => calls_churn::start(core, &arguments),
        "defaults" => defaults::start(core),
        "datasets" => datasets::start(core, &arguments),
        "stores" => stores::start(core),
        "jobs" => jobs::start(core, &arguments),
        "greedy" => jobs::greedy::start(core, &arguments),
        "flood" => flood::start(core, &arguments),
        "composed" => composed::start(core),
        "quality" => quality::start(core),
        "policies" => policies::start(core),
        "slices" => slices::start(core, &arguments),
        "hostile" => hostile::start(core),
        "ends" => ends::start(core),
        "package-calls" => package_calls::start(core),
        "package-policy" => package_policy::start(core),
        "package-buffers" => package_buffers::start(core),
        "package-keeps" => package_keeps::start(core, &arguments),
        "package-region" => package_region::start(core),
        "package-replace" => package_replace::start(core, &arguments),
        "neighbours" => neighbours::start(core, &arguments),
        "package-text" => package_text::start(core),
        "package-channels" | "package-channels-restart" | "package-lasting" => {
            package_channels::start(core, &arguments);
        }
        "cluster" => cluster::start(core, &arguments),
        "bulk" => bulk::start(core, &arguments),
        "dataset-nodes" => dataset_nodes::start(core, &arguments),
        "leaving" => leaving::start(core, &arguments),
        "shifting" => shifting::start(core, &arguments),
        "roles" => roles::start(core, &arguments),
        "graph" => graph::start(core, &arguments),
        "graph-kept" => graph_kept::start(core, &arguments),
        "domains" => domains::start(core, &arguments),
        "domain-attacks" => domains::attacks::start(core, &arguments),
        "domain-pages" => domains::pages::start(core),
        "domain-times" => domains::times::start(core, &arguments),
        "domain" => domains::guest::start(core),
        "sweeps" => sweeps::start(core, &arguments),
        "web" => web::start(core, &arguments),
        "bulk-cost" => bulk_cost::start(core, &arguments),
        "rpc-cost" => rpc_cost::start(core, &arguments),
        "registry-restart" => registry_restart::start(core),
        "counts" => counts::start(core, &arguments),
        "disk-cost" => disk_cost::start(core, &arguments),
        "call-cost" => call_cost::start(core, &arguments),
        "record-cost" => record_cost::start(core, &arguments),
        "policy-cost" => policy_cost::start(core, &arguments),
        "system-call" => system_call::start(core, &arguments),
        "switch-cost" => switches::start(core, &arguments),
        _ => {}
    }
}
