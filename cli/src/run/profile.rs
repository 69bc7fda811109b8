//! What a cluster for a job is like: how many cores of which roles, how much memory, how large
//! disks, by how much data the job has and what this machine has.

use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::statvfs;

use super::args::Usual;
use crate::boot;
use crate::cluster::args::{Kind, Machines, Up, Which};
use crate::failure::Failure;
use crate::size::Bytes;

/// What a node's kernel and services need besides the pool.
const KERNEL: u64 = 256 << 20;

/// What a node's pool needs besides the data: buffers on their way, and those that each worker core
/// needs to go on.
const ON_THE_WAY: u64 = 64 << 20;
const OF_WORKER: u64 = 32 << 20;

/// The least that a job's data can do with on a node: a few buffers for each who holds some.
const LEAST: Bytes = Bytes::mebi(16);

/// Room on each disk for what is not data.
const DISK_MARGIN: u64 = 256 << 20;

/// How long a cluster may take to be up: QEMU without KVM is slow.
const LIMIT: Duration = Duration::from_secs(60);

/// A cluster for a job.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The machine of each node.
    kinds: Vec<Kind>,
    /// As they were asked for.
    machines: Machines,
    /// Worker cores of each node.
    workers: u16,
    /// Bytes of each node's pool.
    pool: u64,
    /// Bytes of each node's disk, at most.
    disk: u64,
    /// Bytes that will be written to all disks.
    written: u64,
    /// How often in a second cores are sampled, if they are.
    sample_rate: Option<u32>,
}

/// What this machine has.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// CPUs that this process may use.
    pub cpus: u16,
    /// Bytes of memory.
    pub memory: u64,
}

impl Host {
    /// As Linux tells.
    pub fn here() -> Host {
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let memory = boot::host_memory().map_or(u64::MAX, |it| it.0);
        Host { cpus: u16::try_from(cpus).unwrap_or(u16::MAX).min(128), memory }
    }
}

impl Profile {
    /// A cluster for a job with `data` bytes of input and at most as much output; a wrong request
    /// if there can be none.
    pub fn of(usual: &Usual, data: u64, host: Host) -> Result<Profile, Failure> {
        let machines = usual.machine.clone().unwrap_or_else(|| Kind::Hosted.into());
        let one = (usual.machine.is_none() && usual.nodes.is_none()).then_some(1);
        let kinds = machines.of_nodes(usual.nodes.or(one)).map_err(Failure::request)?;
        let nodes = kinds.len() as u64;
        let copies = u64::from(usual.copies);
        if copies > nodes {
            return Err(Failure::request(format!(
                "--copies {copies} wants as many nodes; there are {nodes}"
            )));
        }
        // One alone has all CPUs; several share them.
        let workers = (host.cpus / kinds.len() as u16).max(1);
        let pool = pool(usual.memory, data, nodes, workers, host)?;
        // Input and output, and what is put aside in between.
        let written = data.saturating_mul(2 * copies + u64::from(data > nodes * pool));
        let disk = (written / nodes).saturating_mul(2).saturating_add(DISK_MARGIN);
        let (disk, sample_rate) = (whole(disk), usual.sample_rate);
        Ok(Profile { kinds, machines, workers, pool, disk, written, sample_rate })
    }

    /// The machine of each node.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Worker cores of all nodes.
    pub fn workers(&self) -> u32 {
        u32::from(self.workers) * self.kinds.len() as u32
    }

    /// Refuses a folder for disks that has no room for the data.
    pub fn check_room(&self, folder: &Path) -> Result<(), Failure> {
        let shown = folder.display();
        let stat =
            statvfs(folder).map_err(|error| Failure::request(format!("{shown}: {error}")))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        match free < self.written {
            true => Err(Failure::request(format!(
                "the data take {} on disk, and {shown} has {} free; name another folder with \
                 --disk-folder",
                Bytes(self.written),
                Bytes(free)
            ))),
            false => Ok(()),
        }
    }

    /// What `nile up` is to start, with disks in `folder`, which go with it.
    pub fn up(&self, which: Which, folder: Option<&Path>) -> Up {
        let alone = self.kinds.len() == 1 && self.kinds[0] == Kind::Hosted;
        // A node alone has a core for its disk; in a cluster it shares that of the network.
        let (disk_core, others) = if alone { (2, 3) } else { (1, 2) };
        let workers = self.workers;
        let settings = format!(
            "[roles]\nmanagement = 1\nnetwork = [1]\ndisk = [{disk_core}]\nworker = {workers}\n"
        );
        Up {
            which,
            machine: self.machines.clone(),
            nodes: Some(self.kinds.len() as u16),
            cores: others + workers,
            memory: Bytes(2 * self.pool + KERNEL),
            supervisor: false,
            config: None,
            disk: Some(Bytes(self.disk)),
            disks: 1,
            disk_parts: None,
            disk_folder: folder.map(Path::to_path_buf),
            // What passes with the job is not worth a cipher.
            disk_plain: true,
            pool: Some(Bytes(self.pool)),
            interface: None,
            capture: None,
            forward: Vec::new(),
            direct: true,
            // Frames stay in this machine's memory, between processes of one user.
            unsealed: self.kinds.iter().all(|kind| *kind == Kind::Hosted),
            json: false,
            program: None,
            limit: LIMIT,
            settings: Some(settings),
            disks_go: folder.is_some(),
            sample_rate: self.sample_rate,
        }
    }
}

/// Bytes of each node's pool, in whole 2 MiB: what was asked for, or all that the data want, if the
/// machine has it.
fn pool(
    asked: Option<Bytes>,
    data: u64,
    nodes: u64,
    workers: u16,
    host: Host,
) -> Result<u64, Failure> {
    const PIECE: u64 = 2 << 20;
    if let Some(asked) = asked {
        if asked < LEAST {
            let message = format!("--memory {asked} is too little: a job needs {LEAST} at least");
            return Err(Failure::request(message));
        }
        return Ok(asked.0 / PIECE * PIECE);
    }
    // Nodes may have what others made for them besides what they made.
    let share = data / nodes * if nodes > 1 { 2 } else { 1 };
    let on_the_way = ON_THE_WAY + u64::from(workers) * OF_WORKER;
    let wanted = share.saturating_add(on_the_way).next_multiple_of(PIECE);
    // A pool is at most half of a node's memory, and the host needs some.
    let most = (host.memory / nodes / 5 * 4).saturating_sub(KERNEL) / 2 / PIECE * PIECE;
    Ok(wanted.min(most).max(LEAST.0))
}

/// In whole MiB, as much as a disk can have.
fn whole(bytes: u64) -> u64 {
    bytes.min(1 << 60).next_multiple_of(1 << 20)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::args::package;
    use super::*;
    use crate::cluster::up;

    const HOST: Host = Host { cpus: 2, memory: 24 << 30 };

    fn profile(words: &str, data: u64) -> Result<Profile, Failure> {
        let words = ["x.elf"].into_iter().chain(words.split_whitespace());
        let package = package(&words.map(OsString::from).collect::<Vec<_>>()).unwrap();
        Profile::of(&package.usual, data, HOST)
    }

    #[test]
    fn one_hosted_node_is_usual() {
        let one = profile("", 1_000_000_000).unwrap();
        assert_eq!((one.kinds(), one.workers()), (&[Kind::Hosted][..], 2));
        let all = 1_000_000_000 + ON_THE_WAY + 2 * OF_WORKER;
        assert!((all..all + (2 << 20)).contains(&one.pool), "{}", one.pool);
        let many =
            Profile::of(&package(&["x.elf".into()]).unwrap().usual, 0, Host { cpus: 16, ..HOST });
        assert_eq!(many.unwrap().pool, ON_THE_WAY + 16 * OF_WORKER);
        let up = one.up(Which::default(), None);
        assert_eq!((up.cores, up.nodes), (5, Some(1)));
        // All that has to fit does.
        up::check(&Up { memory: Bytes::mebi(4096), pool: Some(Bytes::mebi(1024)), ..up }).unwrap();
    }

    #[test]
    fn several_nodes_share_cpus_and_data() {
        let three = profile("--nodes 3 --copies 2", 300_000_000).unwrap();
        assert_eq!((three.kinds().len(), three.workers()), (3, 3));
        assert_eq!(three.written, 1_200_000_000);
        let all = 200_000_000 + ON_THE_WAY + OF_WORKER;
        assert!((all..all + (2 << 20)).contains(&three.pool), "{}", three.pool);
        assert_eq!(three.up(Which::default(), None).cores, 3);
        let mixed = profile("--machine qemu:2,hosted:1", 1000).unwrap();
        assert_eq!(mixed.kinds(), [Kind::Qemu, Kind::Qemu, Kind::Hosted]);
        assert_eq!(profile("--machine qemu", 1000).unwrap().kinds().len(), 3);
    }

    #[test]
    fn memory_is_what_was_asked_for_or_what_there_is() {
        let little = profile("--memory 257M", 1 << 30).unwrap();
        assert_eq!((little.pool, little.written), (256 << 20, 3 << 30));
        let large = profile("", 1 << 40).unwrap();
        assert!(2 * large.pool + KERNEL < HOST.memory && large.pool > 9 << 30, "{}", large.pool);
        for (words, said) in [
            ("--memory 1M", "1 MiB is too little"),
            ("--copies 2", "--copies 2 wants as many nodes; there are 1"),
            ("--machine qemu:2 --nodes 3", "leave one out"),
        ] {
            let Err(Failure::Request(message)) = profile(words, 1000) else { panic!("{words}") };
            assert!(message.contains(said), "{message}");
        }
        let Err(Failure::Request(message)) = large.check_room(Path::new("/")) else {
            panic!("no machine has room for so much")
        };
        assert!(message.contains("2 TiB on disk") || message.contains("3 TiB"), "{message}");
    }
}
