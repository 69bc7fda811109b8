//! The life of a node, from its description to its end, in the order in which things happen.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use nile_abi::{Generation, MAX_CORES, PageSize, Role, RoleSet};
use nile_platform::{NodeDescription, Outcome};

use crate::arena::MAX_MEMORY;
use crate::boot::{Boot, BootRecord, MAX_TEXT};
use crate::disk::DiskFile;
use crate::handed::Handed;
use crate::layout::Layout;
use crate::machine::Hosted;
use crate::manager::{self, HostedManager};
use crate::network::Link;
use crate::node::Node;
use crate::samples::{SampleFile, Samples};
use crate::shared::SharedMemory;
use crate::steps::Steps;
use crate::supervisor::{Kind, Supervisor};
use crate::{arena, dispatch, fault, image, placement, signals};

/// What runs on a core, from its start to the end of its loop.
pub type CoreMain = fn(Hosted, &Boot) -> Outcome;

/// A node to be started.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The roles of each core. Cores that are workers and nothing else become processes.
    pub roles: Vec<RoleSet>,
    /// Bytes of memory; rounded down to whole frames.
    pub memory: u64,
    /// Bytes that it can have: what it has not is away.
    pub most_memory: u64,
    /// Bytes of it that all cores share for buffers, whole 2 MiB; zero for none.
    pub pool: u64,
    /// Its network interfaces.
    pub links: Vec<Link>,
    /// Its disks.
    pub disks: Vec<DiskFile>,
    /// The socket at which other programs of this machine hand files to it; none do without it.
    pub files: Option<PathBuf>,
    /// The file of memory that it shares with other domains of this machine, if it is one.
    pub shared: Option<PathBuf>,
    /// Where samples of what its cores do go, and how many; none are taken without it.
    pub samples: Option<SampleFile>,
    /// What every core is told.
    pub boot: Boot,
}

/// How a node ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Its manager powered it off.
    Finished(Outcome),
    /// A signal that asks to end ended it: SIGINT, SIGQUIT, SIGHUP or SIGTERM.
    Interrupted,
}

/// Why no node was started.
#[derive(Debug)]
pub enum StartError {
    /// A node has 1 to [`MAX_CORES`] cores; this many were asked for.
    Cores(usize),
    /// Core 0 starts the node, so it needs the management role.
    NoManagement,
    /// So many cores need at least so many bytes of memory.
    TooLittleMemory {
        /// The node's cores.
        cores: usize,
        /// What [`least_memory`] says of them, and the pool.
        least: u64,
    },
    /// A hosted node has at most this many bytes of memory.
    TooMuchMemory(u64),
    /// What every core is told may have at most this many bytes.
    TextTooLong(usize),
    /// A disk cannot be used, and why.
    Disk(String),
    /// The file for samples cannot be used.
    Samples(PathBuf, io::Error),
    /// The file of shared memory cannot be used.
    Shared(PathBuf, io::Error),
    /// The process runs a node already, or has run one.
    NodeExists,
    /// Linux refuses what the start needs.
    Linux(&'static str, io::Error),
}

impl StartError {
    /// Whether the request is at fault, and not the machine.
    pub fn is_bad_request(&self) -> bool {
        !matches!(self, StartError::Linux(..) | StartError::NodeExists)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Cores(asked) => {
                write!(f, "a node has 1 to {MAX_CORES} cores, not {asked}")
            }
            StartError::NoManagement => f.write_str("core 0 needs the management role"),
            StartError::TooLittleMemory { cores, least } => write!(
                f,
                "too little memory for {cores} cores: give the node at least {} MiB",
                least.div_ceil(1 << 20)
            ),
            StartError::TooMuchMemory(most) => {
                write!(f, "too much memory: a hosted node has at most {} GiB", most >> 30)
            }
            StartError::TextTooLong(most) => {
                write!(f, "configuration, program and file names are longer than {most} bytes")
            }
            StartError::Disk(why) => write!(f, "disk {why}"),
            StartError::Samples(path, error) => {
                write!(f, "samples cannot go to {}: {error}", path.display())
            }
            StartError::Shared(path, error) => {
                write!(f, "shared memory {}: {error}", path.display())
            }
            StartError::NodeExists => f.write_str("this process has a node already"),
            StartError::Linux(what, error) => write!(f, "Linux refuses {what}: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// The least memory, in bytes, that a node with this many cores has.
pub fn least_memory(cores: usize) -> u64 {
    (16 + cores as u64) << 20
}

/// Runs a node from its start to its end and says how it ended. It takes over this process's
/// signals, and the calling thread with it; a process can run one node. Every core runs
/// `core_main`, which must be the function that the program's first lines gave to
/// [`be_worker`](crate::be_worker).
pub fn run_node(setup: Setup, core_main: CoreMain) -> Result<End, StartError> {
    let mut steps = Steps::begin();
    let layout = check(&setup)?;
    let away = setup.most_memory.saturating_sub(setup.memory);
    let disks = setup.disks.iter().map(DiskFile::open).collect::<Result<_, _>>();
    let disks = disks.map_err(StartError::Disk)?;
    let samples = setup.samples.as_ref().map(|named| {
        let error = |error| StartError::Samples(named.path.clone(), error);
        Samples::create(named, layout.cores).map_err(error)
    });
    let samples = samples.transpose()?;
    let shared = setup.shared.as_ref().map(|path| {
        SharedMemory::open(path).map_err(|error| StartError::Shared(path.clone(), error))
    });
    let shared = shared.transpose()?;
    // Signals first: every thread and process of the node inherits the mask.
    signals::block();
    fault::log_panics();
    let record = BootRecord {
        layout,
        clock: steps.clock(),
        node: std::process::id(),
        pool_file: None,
        shared_file: None,
        samples: None,
        boot: setup.boot,
    };
    let node = Node::create(record, setup.links, disks, samples, shared);
    let mut node = node.map_err(|error| StartError::Linux("the arena", error))?;
    let handed = setup.files.as_deref().map(Handed::listen).transpose();
    node.handed = handed.map_err(|error| StartError::Linux("the socket for files", error))?;
    let node = node.install().ok_or(StartError::NodeExists)?;
    node.board.deal(&setup.roles, node.links.len(), node.disks.len());
    for core in node.board.core_ids() {
        node.board.record(core).set_generation(Generation::FIRST);
    }
    steps.done("arena");
    manager::prepare_memory(node, away);
    steps.done("memory and page tables");

    // Processes take longest to start: they go first.
    let cpus: Arc<[usize]> = placement::allowed().into();
    let refused = |error| StartError::Linux("the start of a core", error);
    let mut supervisor = Supervisor::new(node, cpus.clone(), core_main);
    supervisor.start(Kind::Process).map_err(refused)?;
    steps.done("worker processes");
    supervisor.manage(HostedManager::new(node, describe(node, &cpus, steps)));
    supervisor.start(Kind::Thread).map_err(refused)?;
    Ok(supervisor.supervise())
}

/// The node, as the boot report shows it.
fn describe(node: &Node, cpus: &[usize], steps: Steps) -> NodeDescription {
    NodeDescription {
        machine: "hosted".into(),
        image_bytes: image::loaded_bytes(),
        memory: manager::memory_map(node),
        facts: [placement::describe(&node.board, cpus), arena::huge_pages()]
            .into_iter()
            .chain(node.pool_pages.clone())
            .chain([dispatch::describe()])
            .chain(node.disks.iter().enumerate().map(|(at, disk)| format!("disk {at}: {disk}")))
            .collect(),
        steps: steps.finish(),
    }
}

/// The layout of the node that is asked for, if it can be one.
fn check(setup: &Setup) -> Result<Layout, StartError> {
    let cores = setup.roles.len();
    if cores == 0 || cores > MAX_CORES {
        return Err(StartError::Cores(cores));
    }
    if !setup.roles[0].contains(Role::Management) {
        return Err(StartError::NoManagement);
    }
    let least = least_memory(cores).saturating_add(setup.pool);
    if setup.memory < least {
        return Err(StartError::TooLittleMemory { cores, least });
    }
    let most = setup.memory.max(setup.most_memory);
    if most > MAX_MEMORY {
        return Err(StartError::TooMuchMemory(MAX_MEMORY));
    }
    if setup.boot.bytes() > MAX_TEXT {
        return Err(StartError::TextTooLong(MAX_TEXT));
    }
    let frame = PageSize::Small.bytes();
    let pool = setup.pool.next_multiple_of(PageSize::Large.bytes());
    Ok(Layout { cores, memory: most / frame * frame, pool })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(roles: Vec<RoleSet>, memory: u64) -> Setup {
        let (links, disks, boot) = (vec![], vec![], Boot::default());
        let (most_memory, pool, files, shared, samples) = (0, 0, None, None, None);
        Setup { roles, memory, most_memory, pool, links, disks, files, shared, samples, boot }
    }

    fn refused(cores: usize, memory: u64, text: usize) -> String {
        let boot = Boot { config: " ".repeat(text), ..Boot::default() };
        let setup = Setup { boot, ..setup(vec![RoleSet::ALL; cores], memory) };
        check(&setup).expect_err("no node can be so").to_string()
    }

    #[test]
    fn what_no_node_can_be_is_refused_with_its_number() {
        assert_eq!(refused(0, 1 << 30, 0), "a node has 1 to 256 cores, not 0");
        assert_eq!(refused(257, 1 << 40, 0), "a node has 1 to 256 cores, not 257");
        assert!(refused(4, (20 << 20) - 1, 0).ends_with("4 cores: give the node at least 20 MiB"));
        assert!(refused(1, u64::MAX, 0).contains("at most 8192 GiB"));
        assert!(refused(1, 1 << 30, 1 << 20).contains("longer than"));
    }

    #[test]
    fn core_0_must_manage_and_memory_is_whole_frames() {
        let worker = RoleSet::EMPTY.with(Role::Worker);
        let setup = setup(vec![worker, RoleSet::ALL], 1 << 30);
        assert!(matches!(check(&setup), Err(StartError::NoManagement)));
        let setup = Setup { roles: vec![RoleSet::ALL, worker], memory: (1 << 30) + 1, ..setup };
        let layout = check(&setup).expect("a node");
        assert_eq!((layout.cores, layout.memory), (2, 1 << 30));
        let roles = vec![RoleSet::ALL];
        let small = check(&Setup { roles, pool: 64 << 20, memory: 80 << 20, ..setup });
        let said = "too little memory for 1 cores: give the node at least 81 MiB";
        assert_eq!(small.expect_err("the pool leaves too little").to_string(), said);
    }
}
