//! The command line. What can be said wrong is refused here, before anything starts: clap ends
//! the process with status 2 and a message that names the argument.
#![expect(missing_docs, reason = "clap prints what is documented here as help")]

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use nile_abi::ip::{Addresses, FirstOfMany};
use nile_platform_hosted::Outside;

use crate::cluster::args::{
    Call, Completions, Core, Deploy, Discover, Down, Fault, Logs, Query, Roles, Top, Up,
};
use crate::cluster::net::Net;
use crate::cluster::packages::args::Package;
use crate::cluster::regions::Regions;
use crate::cluster::servers::Servers;
use crate::compose::args::Compose;
use crate::config;
use crate::data::args::{Get, List, Mend, Put, Remove};
use crate::disk::{Bus, Disk};
use crate::domain::args::Domain;
use crate::door::args::Door;
use crate::failure::Failure;
use crate::graph::args::Graph;
use crate::policy::args::{Policies, Policy};
use crate::profile::Profile;
use crate::record::args::Record;
use crate::run::args::{Demo, Run};
use crate::size::Bytes;
use crate::switch::forward::Forward;

mod beside;

pub use beside::{
    Beside, Carried, GUEST_CORES, Hotplug, Linux, Outcome, Paper, Peer, Peers, Ranker, Stream,
    Traffic,
};

/// NileOS: an operating system for big-data work, built from cores that share nothing by accident.
#[derive(Parser)]
#[command(name = "nile", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Nile {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Boot one node, print its boot report and power it off.
    Boot(Boot),
    /// Start a cluster of nodes and leave it running.
    Up(Up),
    /// Show the nodes of the running cluster, their cores, and what those have done.
    Status(Query),
    /// Show every service of the cluster, and where it is.
    Services(Query),
    /// Show what a service says about itself.
    Discover(Discover),
    /// Call a method of a service.
    Call(Call),
    /// Plan how services lead from values that there are to values that are wanted.
    Compose(Compose),
    /// Show the policies of the running cluster, and who is bound to them.
    Policies(Policies),
    /// Bind what runs on a core to a policy, while it runs.
    Policy(Policy),
    /// Have a core begin anew, leave or come back, without harm to what runs.
    Core(Core),
    /// Give the workers of running nodes another kernel image, core by core, while they work.
    Deploy(Deploy),
    /// Show what each core is for, runs and how busy it is, or change it.
    Roles(Roles),
    /// Make memory that packages of several cores share, show or drop it.
    Region(Regions),
    /// Give a package a worker core for itself, replace or stop it.
    Package(Package),
    /// Show who listens on the cluster's IPv4 network, and the connections.
    Net(Net),
    /// Show the packages that serve the network, or have one begin anew.
    Servers(Servers),
    /// Keep a graph that changes, with its ranks and a bound of their error.
    Graph(Graph),
    /// Keep records by key in the memory of worker cores.
    Record(Record),
    /// Let programs in that know another system's protocol.
    Door(Door),
    /// Make nodes on parts of a machine, each with cores and memory that nobody else has.
    Domain(Domain),
    /// Break the running cluster on purpose, or mend it.
    Fault(Fault),
    /// Show the last lines of a node's log.
    Logs(Logs),
    /// Watch the cluster in the terminal; q ends it.
    Top(Top),
    /// End the cluster.
    Down(Down),
    /// Keep a file in the cluster, as a dataset.
    Put(Put),
    /// Write a dataset to a file.
    Get(Get),
    /// Show the datasets of the cluster.
    Ls(List),
    /// Remove a dataset.
    Rm(Remove),
    /// Look at a node's disk, mend it from the copies of other nodes, or make it empty.
    Disk(Mend),
    /// Run a job on the cluster that is up, or on one that is started and ended for it.
    Run(Run),
    /// Run a job, and write when what of it ran on which core.
    Profile(Profile),
    /// Show the jobs of a cluster: those that run, and those that ended lately.
    Jobs(Query),
    /// Sort in a cluster of the real kernel in QEMU, and then the same hosted; a few minutes.
    Demo(Demo),
    /// Run the project's tests.
    Test(Test),
    /// Run the benchmarks, each beside its peer in the same run.
    Bench(Bench),
    /// Write the kernel as an ISO image that boots under BIOS and UEFI.
    Image(Image),
    /// Simulate a protocol of the cluster, with faults, in virtual time.
    Sim(Sim),
    /// Print what a shell needs to complete this command's words.
    Completions(Completions),
    /// Boot another kernel on the machine that nodes in QEMU have; `bench linux` does.
    #[command(hide = true)]
    Guest(Guest),
    /// Run the virtual switch of a cluster; `up` does.
    #[command(hide = true)]
    Switch(Switch),
    /// Print what the launcher has to provide for a command.
    #[command(hide = true)]
    Needs {
        /// The command and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

impl Command {
    /// Whether `nile-dev` carries it out, which has the simulator, the tests and the benchmarks.
    pub fn is_for_developers(&self) -> bool {
        match self {
            Command::Test(_) | Command::Bench(_) | Command::Sim(_) | Command::Guest(_) => true,
            Command::Boot(options) => options.machine == Machine::Sim,
            _ => false,
        }
    }
}

/// The machines that a node can be booted on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Machine {
    /// The x86_64 kernel in QEMU.
    Qemu,
    /// A Linux process whose cores are threads and worker processes.
    Hosted,
    /// The deterministic simulator.
    Sim,
}

/// The firmware that starts an ISO image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Firmware {
    /// SeaBIOS, which QEMU brings.
    Bios,
    /// OVMF, Debian's package `ovmf`.
    Uefi,
}

#[derive(Args)]
pub struct Boot {
    /// The machine to boot on.
    #[arg(long, value_enum, default_value = "qemu")]
    pub machine: Machine,
    /// Cores of the node, 1 to 256.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// Memory of the node, as 512M or 4G.
    #[arg(long, default_value = "512M")]
    pub memory: Bytes,
    /// The node's configuration file; without it every setting has its default.
    #[arg(long, value_name = "FILE")]
    pub config: Option<config::File>,
    /// The interface of this machine that a hosted node drives: tap:NAME or packet:NAME. Its
    /// configuration says which node it is and what the cluster's key is.
    #[arg(long, value_name = "INTERFACE", value_parser = Outside::parse)]
    pub interface: Option<Outside>,
    /// A disk for the node, may be given many times: a size, as 1G, for one that is gone
    /// afterwards; a file, as disk.img, or disk.img:1G to make it where it is not there.
    #[arg(long = "disk", value_name = "DISK")]
    #[arg(value_parser = OsStringValueParser::new().try_map(Disk::parse))]
    pub disks: Vec<Disk>,
    /// What QEMU connects the disks to.
    #[arg(long, value_enum, default_value = "virtio", hide = true)]
    pub disk_bus: Bus,
    /// Give QEMU's machine an IOMMU, which virtio disks go through.
    #[arg(long, hide = true)]
    pub iommu: bool,
    /// Do without io_uring where it could be used.
    #[arg(long, hide = true)]
    pub plain_disks: bool,
    /// The seed of a simulated node: the same seed, the same run. Needs `--machine sim`.
    #[arg(long)]
    pub seed: Option<u64>,
    /// Print the report as one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
    /// What the node does once it is up, with its settings: `boot`, or a scenario of the tests.
    #[arg(long, default_value = "boot", value_name = "NAME [KEY=VALUE …]", hide = true)]
    pub program: Program,
    /// A package's file that the node gets besides the project's own; may be given many times.
    #[arg(long = "package", value_name = "FILE", hide = true)]
    pub packages: Vec<PathBuf>,
    /// Boot this ISO image in QEMU in place of the kernel file.
    #[arg(long, value_name = "FILE", hide = true)]
    #[arg(conflicts_with_all = ["config", "program", "packages"])]
    pub iso: Option<PathBuf>,
    /// What starts the ISO image.
    #[arg(long, value_enum, default_value = "bios", hide = true, requires = "iso")]
    pub firmware: Firmware,
    /// The processor that QEMU emulates, with what it has and lacks, as qemu64,-nx.
    #[arg(long, value_name = "MODEL", hide = true)]
    pub cpu: Option<String>,
    /// Let QEMU count each instruction as one nanosecond: a run repeats to the instruction.
    #[arg(long, hide = true)]
    pub count_instructions: bool,
    /// Seconds of wall time after which the node is ended and the boot has failed.
    #[arg(long, default_value = "60", value_parser = seconds, hide = true)]
    pub limit: Duration,
}

impl Boot {
    /// Whether the node boots and does nothing else.
    pub fn only_boots(&self) -> bool {
        self.program.as_str() == "boot"
    }
}

#[derive(Args)]
pub struct Guest {
    /// The kernel's file.
    #[arg(long, value_name = "FILE")]
    pub kernel: PathBuf,
    /// What it is given besides.
    #[arg(long, value_name = "FILE")]
    pub initrd: Option<PathBuf>,
    /// Its command line.
    #[arg(long, default_value = "")]
    pub append: String,
    /// Cores of the machine.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// Memory of the machine.
    #[arg(long, default_value = "512M")]
    pub memory: Bytes,
    /// The file of its disk, which is never flushed.
    #[arg(long, value_name = "FILE")]
    pub disk: Option<PathBuf>,
    /// Where its network card listens.
    #[arg(long, value_name = "SOCKET")]
    pub socket: Option<PathBuf>,
    /// What the card's address is made from, as a node's is from its number.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65535))]
    pub number: u32,
    /// Seconds of wall time after which it is ended and has failed.
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub limit: Duration,
}

#[derive(Args)]
pub struct Test {
    /// Run the long tests too.
    #[arg(long)]
    pub full: bool,
    /// Run only the tests with these names.
    pub names: Vec<String>,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    #[command(subcommand)]
    pub beside: Option<Beside>,
    /// Run only the benchmarks with these names; `sort` is also `sort-scaling`. Without names, all
    /// but those two, `jobs-fair`, `mixed-day`, `domain` and `store`, which brings redis and
    /// memcached.
    pub names: Vec<String>,
    /// Have those that take minutes work on less data, for trying: targets are no promise then.
    #[arg(long)]
    pub quick: bool,
    /// Run each benchmark's negative control, made worse on purpose: it must miss the target.
    #[arg(long)]
    pub control: bool,
    /// Print the figures as one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub recorded: Recorded,
}

/// Figures that are kept.
#[derive(Args)]
pub struct Recorded {
    /// Append the figures to a file in docs/figures, with the day, the commit and the machine.
    #[arg(long, conflicts_with_all = ["quick", "control"])]
    pub record: bool,
    /// What was special about the run, such as a slow hour; it stands beside each figure.
    #[arg(long, value_name = "TEXT", requires = "record")]
    pub note: Option<String>,
}

#[derive(Args)]
pub struct Image {
    /// The file to write; one that exists is replaced when the new one is whole.
    #[arg(long, default_value = "nile.iso", value_name = "FILE")]
    pub iso: PathBuf,
    /// The configuration file that the image carries.
    #[arg(long, value_name = "FILE")]
    pub config: Option<config::File>,
    /// The services that the image has, with those that they and the node itself need; all
    /// without it. A worker's image has `--only worker`.
    #[arg(long, value_name = "SERVICE,…", value_delimiter = ',')]
    pub only: Vec<String>,
}

#[derive(Args)]
pub struct Sim {
    /// The scenario.
    pub scenario: String,
    /// The seed of the first run; the others have the seeds after it.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How many nodes take part; each scenario has its own default.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    pub nodes: Option<u32>,
    /// How many runs.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// How many nodes send at once, in scenarios that tell senders from receivers.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub senders: Option<u32>,
    /// Print the result as one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct Switch {
    /// The folder of its sockets.
    pub folder: PathBuf,
    /// A machine that listens on NAME.qemu there, now or later; may be given many times.
    #[arg(long, value_name = "NAME")]
    pub dial: Vec<String>,
    /// Write every frame that enters the switch to this file.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Plug in an interface of this machine: tap:NAME or packet:NAME.
    #[arg(long, value_name = "INTERFACE", value_parser = Outside::parse)]
    pub interface: Option<Outside>,
    /// Take connections to a port of this machine to a port of a node: PORT:NODE:PORT, or
    /// datagrams: PORT:NODE:PORT/udp.
    #[arg(long, value_name = "PORT:NODE:PORT[/udp]")]
    pub forward: Vec<Forward>,
    /// The address of n1 there, with the bits that all have in common.
    #[arg(long, value_name = "ADDRESS/BITS", requires = "gateway")]
    pub first: Option<String>,
    /// The address there of a gateway to this machine, which lends addresses and knows names.
    #[arg(long, value_name = "ADDRESS", requires = "first")]
    pub gateway: Option<Ipv4Addr>,
    /// The address of IPv6 of n1 there, with the bits that all have in common.
    #[arg(long, value_name = "ADDRESS/BITS", requires = "gateway")]
    pub first6: Option<String>,
    /// What faults are drawn from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Switch {
    /// The addresses of IPv6 of the nodes, if they have any that follow from their numbers.
    pub fn addresses6(&self) -> Result<Option<FirstOfMany>, Failure> {
        let Some(first) = &self.first6 else { return Ok(None) };
        let wrong = || Failure::request(format!("--first6 {first}: no network"));
        FirstOfMany::parse(first).ok_or_else(wrong).map(Some)
    }

    /// The addresses of the nodes.
    pub fn addresses(&self) -> Result<Addresses, Failure> {
        let Some(first) = &self.first else { return Ok(Addresses::USUAL) };
        let parsed = Addresses::parse(first);
        let addresses = parsed.and_then(|it| Addresses::new(it.0, it.1, self.gateway));
        addresses.ok_or_else(|| Failure::request(format!("--first {first}: no network")))
    }
}

/// What a node is asked to do, as it stands on its command line: a name and settings.
#[derive(Clone, Debug)]
pub struct Program(String);

impl Program {
    /// The name, a space, and the settings.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Program {
    type Err = String;

    /// Takes text that reaches a kernel unchanged through every boot loader.
    fn from_str(text: &str) -> Result<Program, String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || " =-_.:/[]".contains(c);
        match text.chars().find(|c| !plain(*c)) {
            Some(c) => Err(format!("{c:?} cannot stand on a kernel's command line")),
            None if text.trim().is_empty() => Err("it is empty".into()),
            None if text.len() > 1000 => Err("it is longer than 1000 bytes".into()),
            None => Ok(Program(text.trim().into())),
        }
    }
}

/// Reads a number of seconds of wall time.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err(format!("`{text}` is not a number of seconds from 1 to 3600")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Nile::command().debug_assert();
    }

    #[test]
    fn a_program_is_plain_text() {
        assert_eq!("tick seconds=10 ".parse::<Program>().unwrap().as_str(), "tick seconds=10");
        for text in ["", "a\nb", "a,b", "a\"b", "ü"] {
            assert!(text.parse::<Program>().is_err(), "{text:?}");
        }
    }
}
