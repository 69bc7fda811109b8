//! What can be said about clusters on the command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Subcommand};
use nile_abi::{CoreId, NodeId};
use nile_domain::Name;
use nile_platform_hosted::Outside;

use super::folder::Folder;
use crate::args::{Program, seconds};
use crate::config;
use crate::failure::Failure;
use crate::size::Bytes;
use crate::switch::forward::Forward;

/// Which of the clusters of this user is meant.
#[derive(Args, Clone, Debug, Default)]
pub struct Which {
    /// The cluster's name, if there is more than one; else NILE_CLUSTER says it, and else each
    /// source tree has one of its own.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
}

#[derive(Args)]
pub struct Up {
    #[command(flatten)]
    pub which: Which,
    /// What the nodes run on: qemu, hosted, or how many on each, as qemu:2,hosted:1.
    #[arg(long, default_value = "qemu", value_name = "MACHINES")]
    pub machine: Machines,
    /// How many nodes; 3 if --machine does not say.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=MOST_NODES))]
    pub nodes: Option<u16>,
    /// Cores of each node, 1 to 256.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub cores: u16,
    /// Memory of each node, as 512M or 4G.
    #[arg(long, default_value = "512M")]
    pub memory: Bytes,
    /// The nodes' configuration file; without it every setting has its default.
    #[arg(long, value_name = "FILE")]
    pub config: Option<config::File>,
    /// Start one node that keeps a core and 64M (of a PC 96M, and 1M for each of --disk-parts), and
    /// gives the others of --cores and --memory to domains: `nile domain`.
    #[arg(long, conflicts_with_all = ["disk_folder", "pool", "program", "interface"])]
    pub supervisor: bool,
    /// Give each node a disk of this size, as 4G; with --supervisor, a PC such disks for its
    /// domains. It goes with the cluster.
    #[arg(long, value_name = "SIZE", value_parser = crate::disk::size)]
    pub disk: Option<Bytes>,
    /// Give each node so many of these disks, 1 to 8; cores with the disk role share them.
    #[arg(long, value_name = "NUMBER", requires = "disk", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=8))]
    pub disks: u16,
    /// With --supervisor and --disk, give a PC one disk for all, of which its domains have so many
    /// parts of that size, in place of disks of their own.
    #[arg(long, value_name = "NUMBER", requires_all = ["disk", "supervisor"])]
    #[arg(conflicts_with = "disks", value_parser = clap::value_parser!(u16).range(1..=62))]
    pub disk_parts: Option<u16>,
    /// Keep the disks in this folder, as n1.disk, n1.disk2 and so on: a cluster that is started
    /// with it later finds them there.
    #[arg(long, value_name = "FOLDER", requires = "disk")]
    pub disk_folder: Option<PathBuf>,
    /// Do not encrypt new disks. Without this, disks that stay in a folder are, with a key that is
    /// kept in the folder, too, unless the cluster has no key.
    #[arg(long, requires = "disk_folder")]
    pub disk_plain: bool,
    /// Give each node a pool of this size for the data of its datasets and jobs, as 1G; at most
    /// half of its memory.
    #[arg(long, value_name = "SIZE")]
    pub pool: Option<Bytes>,
    /// Write every frame of the cluster's network to this file or FIFO. What finds no room, as
    /// its reader is slow, is left out and counted: `status` and `down` say it.
    #[arg(long, value_name = "FILE")]
    pub capture: Option<PathBuf>,
    /// Link hosted nodes to each other in memory, past the switch. It is faster by far, and
    /// no fault of links, no partition and no capture applies to what goes that way.
    #[arg(long, conflicts_with = "capture")]
    pub direct: bool,
    /// Plug an interface of this machine into the cluster's network, tap:NAME or packet:NAME:
    /// nodes of other machines then can be of the cluster.
    #[arg(long, value_name = "INTERFACE", value_parser = Outside::parse)]
    pub interface: Option<Outside>,
    /// Take connections to a port of this machine to a port of a node, as 8080:n1:80, or datagrams,
    /// as 5353:n1:53/udp. May be given many times.
    #[arg(long, value_name = "PORT:NODE:PORT[/udp]")]
    pub forward: Vec<Forward>,
    /// Give the cluster no key: whoever reaches its network can read it and take part.
    #[arg(long)]
    pub unsealed: bool,
    /// Print what was started as one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Run this scenario of the tests on the nodes in place of leaving them running: print what n1
    /// reports of it, and take the cluster down.
    #[arg(long, value_name = "NAME [KEY=VALUE …]", hide = true)]
    pub program: Option<Program>,
    /// Seconds of wall time after which nodes that are not up have failed.
    #[arg(long, default_value = "30", value_parser = seconds, hide = true)]
    pub limit: Duration,
    /// The text of the nodes' configuration, in place of a file.
    #[arg(skip)]
    pub settings: Option<String>,
    /// Whether the folder of the disks goes with the cluster.
    #[arg(skip)]
    pub disks_go: bool,
    /// How often in a second the cores of its hosted nodes are sampled, if they are.
    #[arg(skip)]
    pub sample_rate: Option<u32>,
}

impl Up {
    /// The machine of each node.
    pub fn kinds(&self) -> Result<Vec<Kind>, String> {
        self.machine.of_nodes(self.nodes.or(self.supervisor.then_some(1)))
    }
}

/// The most nodes of a cluster on one machine.
pub const MOST_NODES: i64 = 250;

#[derive(Args)]
pub struct Down {
    #[command(flatten)]
    pub which: Which,
    /// Print what was ended as one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Clone)]
pub struct Query {
    #[command(flatten)]
    pub which: Which,
    /// Print one JSON document and nothing else.
    #[arg(long)]
    pub json: bool,
    /// Seconds to wait for nodes that do not answer.
    #[arg(long, default_value = "5", value_parser = seconds, value_name = "SECONDS")]
    pub timeout: Duration,
}

#[derive(Args)]
pub struct Core {
    #[command(subcommand)]
    pub action: CoreAction,
}

#[derive(Subcommand)]
pub enum CoreAction {
    /// Have a core begin anew, once what it works on is done; callers go elsewhere meanwhile.
    Renew(Leave),
    /// Have a worker core leave and stay away: its processor is free for others.
    Away(Leave),
    /// Call a core back.
    Back {
        /// The core, as n1.c2.
        core: Said,
        #[command(flatten)]
        query: Query,
    },
}

#[derive(Args)]
pub struct Deploy {
    /// The program of a hosted node, or the kernel that a PC boots, built from the same sources but
    /// for services and kernels.
    pub file: PathBuf,
    /// One node, as n1, or one core, as n1.c2; without it all cores of all nodes that can have
    /// another image: those of PCs, and workers of hosted nodes.
    #[arg(value_name = "PLACE")]
    pub place: Option<Said>,
    /// Seconds that what a core works on may take; then it stays as it was.
    #[arg(long, default_value = "5", value_parser = seconds, value_name = "SECONDS")]
    pub patience: Duration,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Roles {
    #[command(subcommand)]
    pub action: Option<RolesAction>,
    /// One node, as n1; without it all are shown.
    #[arg(value_name = "NODE")]
    pub node: Option<Said>,
    /// Show them again every second, until it is interrupted.
    #[arg(long, conflicts_with = "json")]
    pub watch: bool,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Subcommand)]
pub enum RolesAction {
    /// Give a core other roles; devices go to their new cores whole.
    Set {
        /// The core, as n1.c2.
        core: Said,
        /// What it is for from now on: of network, disk and worker, as network,disk.
        #[arg(value_name = "ROLE", value_delimiter = ',', required = true)]
        roles: Vec<String>,
        /// Seconds that what a core works on may take that has to leave for it; then all stays as
        /// it was.
        #[arg(long, default_value = "5", value_parser = seconds, value_name = "SECONDS")]
        patience: Duration,
        #[command(flatten)]
        query: Query,
    },
}

#[derive(Args)]
pub struct Leave {
    /// The core, as n1.c2.
    pub core: Said,
    /// Seconds that what it works on may take; then it stays as it was.
    #[arg(long, default_value = "5", value_parser = seconds, value_name = "SECONDS")]
    pub patience: Duration,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Discover {
    /// The service's name.
    pub service: String,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Call {
    /// The service and its method, as ackermann.compute.
    #[arg(value_name = "SERVICE.METHOD")]
    pub called: String,
    /// The parameters, as m=2; a list or record in elements, as "cores=<item>1</item>".
    #[arg(value_name = "NAME=VALUE")]
    pub parameters: Vec<String>,
    /// The core that shall do it, as n1.c2; without it, any that can.
    #[arg(long, value_name = "CORE")]
    pub core: Option<Said>,
    /// Make so many calls, one after the other, and print how long they took.
    #[arg(long, value_name = "NUMBER")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub times: Option<u32>,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Logs {
    /// The node, as n1.
    pub node: Said,
    /// The last so many lines.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub lines: u16,
    /// Go on with what is written from now on, until Ctrl-C.
    #[arg(long)]
    pub follow: bool,
    #[command(flatten)]
    pub query: Query,
}

#[derive(Args)]
pub struct Top {
    #[command(flatten)]
    pub which: Which,
}

#[derive(Args)]
pub struct Fault {
    #[command(flatten)]
    pub which: Which,
    #[command(subcommand)]
    pub action: FaultAction,
    /// Print what was done as one JSON document and nothing else.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
pub enum FaultAction {
    /// Kill a node, or a worker core of a hosted node, which its node then starts anew.
    Kill {
        /// The node or core, as n3 or n1.c2.
        target: Said,
    },
    /// Kill a node or core if it runs, and wait until its next generation is up; or the switch.
    Restart {
        /// The node or core, as n3 or n1.c2, or `switch`.
        target: Target,
    },
    /// Part the network: only nodes of the same side reach each other.
    Partition {
        /// The sides, as "n1,n2|n3".
        #[arg(required = true)]
        sides: Vec<String>,
    },
    /// End the partition.
    Heal,
    /// Let frames take longer, as 10ms; 0 ends it.
    Delay(Setting),
    /// Let only so many bits through in a second, as 1G; 0 ends it.
    Rate(Setting),
    /// Lose frames, as 0.1%; 0 ends it.
    Loss(Setting),
    /// Let frames come twice, as 0.1%; 0 ends it.
    Duplicate(Setting),
    /// Let frames overtake others, as 0.1%; 0 ends it.
    Reorder(Setting),
    /// Damage frames, as 0.1%; 0 ends it.
    Corrupt(Setting),
}

#[derive(Args)]
pub struct Setting {
    /// How much.
    pub value: String,
    /// The link, as n1; without it, all of them.
    pub link: Option<String>,
}

#[derive(Args)]
pub struct Completions {
    /// The shell that they are for.
    pub shell: clap_complete::Shell,
}

/// A machine that a node of a cluster can run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// QEMU.
    Qemu,
    /// A Linux process.
    Hosted,
}

impl Kind {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Qemu => "qemu",
            Kind::Hosted => "hosted",
        }
    }
}

/// What the nodes run on: one kind for all, or so many of each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machines(Vec<(Kind, Option<u16>)>);

impl Machines {
    /// How many nodes there are if nobody says.
    const USUAL: u16 = 3;

    /// The machine of each node, if they are to be `nodes`.
    pub fn of_nodes(&self, nodes: Option<u16>) -> Result<Vec<Kind>, String> {
        let each = |(kind, count): &(Kind, Option<u16>)| {
            let count = count.or(nodes).unwrap_or(Machines::USUAL);
            std::iter::repeat_n(*kind, count.into())
        };
        let kinds: Vec<Kind> = self.0.iter().flat_map(each).collect();
        match nodes {
            Some(nodes) if kinds.len() != usize::from(nodes) => {
                Err(format!("--machine has {} nodes, --nodes {nodes}; leave one out", kinds.len()))
            }
            _ => Ok(kinds),
        }
    }
}

impl From<Kind> for Machines {
    fn from(kind: Kind) -> Machines {
        Machines(vec![(kind, None)])
    }
}

impl FromStr for Machines {
    type Err = String;

    fn from_str(text: &str) -> Result<Machines, String> {
        let part = |part: &str| {
            let (name, count) = match part.split_once(':') {
                Some((name, count)) => (name, Some(count)),
                None => (part, None),
            };
            let kind = match name {
                "qemu" => Kind::Qemu,
                "hosted" => Kind::Hosted,
                "sim" => return Err("a simulated cluster is run by `nile sim`".to_string()),
                _ => return Err(format!("no machine `{name}`; there are qemu and hosted")),
            };
            let number = |count: &str| match count.parse() {
                Ok(count @ 1..) if i64::from(count) <= MOST_NODES => Ok(count),
                _ => Err(format!("`{count}` is no number of nodes from 1 to {MOST_NODES}")),
            };
            Ok((kind, count.map(number).transpose()?))
        };
        let parts: Vec<_> = text.split(',').map(part).collect::<Result<_, _>>()?;
        if parts.len() > 1 && parts.iter().any(|(_, count)| count.is_none()) {
            return Err("say how many of each, as qemu:2,hosted:1".into());
        }
        let sum: i64 = parts.iter().filter_map(|(_, count)| *count).map(i64::from).sum();
        match sum > MOST_NODES {
            true => Err(format!("{sum} nodes are more than {MOST_NODES}")),
            false => Ok(Machines(parts)),
        }
    }
}

/// A node, or one of its cores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The node.
    pub node: NodeId,
    /// The core, unless the node is meant.
    pub core: Option<CoreId>,
}

/// A node or one of its cores, as it is said: by its number, or a domain by its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// By its number.
    Place(Place),
    /// The node that a domain is.
    Domain(Name, Option<CoreId>),
}

impl Said {
    /// Whether it is one core, and not a whole node.
    pub fn is_core(self) -> bool {
        match self {
            Said::Place(Place { core, .. }) | Said::Domain(_, core) => core.is_some(),
        }
    }

    /// The place that is meant. Which node a domain is, its cluster knows.
    pub fn on(self, which: &Which) -> Result<Place, Failure> {
        match self {
            Said::Place(place) => Ok(place),
            Said::Domain(name, core) => {
                let (_, record) = Folder::open(which)?;
                Ok(Place { node: record.domain(name.as_str())?.node(), core })
            }
        }
    }
}

impl FromStr for Said {
    type Err = String;

    fn from_str(text: &str) -> Result<Said, String> {
        let wrong = match text.parse() {
            Ok(place) => return Ok(Said::Place(place)),
            Err(wrong) => wrong,
        };
        let (name, core) = match text.split_once(".c") {
            Some((name, core)) => (name, Some(core.parse().map(CoreId).map_err(|_| &*wrong)?)),
            None => (text, None),
        };
        Ok(Said::Domain(name.parse().map_err(|_| &*wrong)?, core))
    }
}

/// What can be started anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A node or a core.
    Place(Said),
    /// The network.
    Switch,
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        match text {
            "switch" => Ok(Target::Switch),
            _ => text
                .parse()
                .map(Target::Place)
                .map_err(|wrong: String| format!("{wrong}, or switch")),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let wrong = || {
            format!("`{text}` names neither a node nor a core; write n1, n1.c2, or a domain's name")
        };
        fn number<T: FromStr>(text: &str, letter: char) -> Option<T> {
            let digits = text.strip_prefix(letter)?;
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
        }
        let (node, core) = match text.split_once('.') {
            Some((node, core)) => (node, Some(number(core, 'c').ok_or_else(wrong)?)),
            None => (text, None),
        };
        let node = number(node, 'n').ok_or_else(wrong)?;
        Ok(Place { node: NodeId(node), core: core.map(CoreId) })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.core {
            Some(core) => write!(f, "{}.{core}", self.node),
            None => write!(f, "{}", self.node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(machines: &str, nodes: Option<u16>) -> Result<Vec<Kind>, String> {
        machines.parse::<Machines>()?.of_nodes(nodes)
    }

    #[test]
    fn machines_are_one_kind_or_so_many_of_each() {
        use Kind::{Hosted, Qemu};
        assert_eq!(kinds("qemu", None), Ok(vec![Qemu; 3]));
        assert_eq!(kinds("hosted", Some(2)), Ok(vec![Hosted; 2]));
        assert_eq!(kinds("qemu:2,hosted:1", None), Ok(vec![Qemu, Qemu, Hosted]));
        assert_eq!(kinds("qemu:2,hosted:1", Some(3)), Ok(vec![Qemu, Qemu, Hosted]));
        for (machines, nodes, said) in [
            ("vax", None, "no machine `vax`"),
            ("sim", None, "nile sim"),
            ("qemu,hosted", None, "how many of each"),
            ("qemu:0", None, "`0` is no number"),
            ("qemu:200,hosted:200", None, "400 nodes are more"),
            ("qemu:2", Some(3), "--machine has 2 nodes, --nodes 3"),
        ] {
            let error = kinds(machines, nodes).unwrap_err();
            assert!(error.contains(said), "{machines}: {error}");
        }
    }

    #[test]
    fn places_are_nodes_and_cores() {
        for text in ["n1", "n4294967295", "n2.c0", "n1.c255"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        for text in ["", "n", "1", "n1.", "n1.2", "n1.c", "c2", "n-1", "n+1", "n1.c70000", "N1"] {
            assert!(text.parse::<Place>().is_err(), "{text}");
        }
    }
}
