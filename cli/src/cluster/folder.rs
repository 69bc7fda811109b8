//! Where a running cluster keeps its sockets, its key, its logs and what it consists of: a folder
//! of its own that only this user can enter. A cluster is there as long as its folder is.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nile_abi::NodeId;
use nile_abi::ethernet::STANDARD_FRAME;
use nile_domain::{Limits, UNIT};
use nile_ipioe::{ClusterKey, checksum};
use rustix::process::getuid;
use serde::{Deserialize, Serialize};

use super::args::{Kind, Which};
use crate::advice;
use crate::failure::Failure;
use crate::interrupt;
use crate::nearest::suggestion;
use crate::needs::ROOT;

/// The variable that may say which cluster is meant, and the name of one that has none, of a
/// command that no checkout's launcher has started.
const VARIABLE: &str = "NILE_CLUSTER";
const USUAL: &str = "default";

/// The most characters of a checkout's name in that of its cluster.
const CHECKOUT: usize = 12;

/// The most bytes of the path of a socket, and of the longest name of one in a folder.
const SOCKET_PATH: usize = 107;
const SOCKET_NAME: usize = "/n4294967295.7.qemu".len();

/// How long a command waits for another that is at work on the same cluster.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a cluster consists of.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Cores of each node.
    pub cores: u16,
    /// Bytes of memory of each node.
    pub memory: u64,
    /// The disk of each node that is no domain, if they have any.
    #[serde(default)]
    pub disk: Option<Disk>,
    /// Whether the cluster has a key.
    pub sealed: bool,
    /// Whether its hosted nodes are linked in memory, past the switch.
    #[serde(default)]
    pub direct: bool,
    /// How often in a second the cores of its hosted nodes are sampled, if they are.
    #[serde(default)]
    pub sample_rate: Option<u32>,
    /// The interface of this machine that is plugged into its switch.
    #[serde(default)]
    pub interface: Option<String>,
    /// Ports of this machine that lead to nodes, as they are written.
    #[serde(default)]
    pub forwards: Vec<String>,
    /// The nodes that keep the names of datasets.
    pub keepers: Vec<u32>,
    /// What its disks are told from others by.
    #[serde(default)]
    pub identity: u64,
    /// Whether its new disks are encrypted.
    #[serde(default)]
    pub encrypted: bool,
    /// What there is to give to domains, if there is a supervisor.
    #[serde(default)]
    pub shared: Option<Shared>,
    /// Its nodes, in the order of their numbers.
    pub nodes: Vec<Node>,
}

/// A machine that is shared by domains: all of it, the supervisor's node included.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shared {
    /// Cores.
    pub cores: u16,
    /// Bytes of memory.
    pub memory: u64,
    /// The CPU of each core, as far as there are CPUs.
    pub cpus: Vec<usize>,
    /// The disks of a PC that are for domains.
    #[serde(default)]
    pub disks: Option<Disk>,
    /// Whether these are parts of the supervisor's own disk.
    #[serde(default)]
    pub are_parts: bool,
}

impl Shared {
    /// The disks of a PC that are for domains, and no parts of its supervisor's.
    pub fn whole_disks(&self) -> Option<&Disk> {
        self.disks.as_ref().filter(|_| !self.are_parts)
    }

    /// The parts of its supervisor's disk.
    pub fn parts(&self) -> Option<&Disk> {
        self.disks.as_ref().filter(|_| self.are_parts)
    }
}

/// What a domain is, and has.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Domain {
    /// What it is called.
    pub name: String,
    /// The hardware cores that it has, in rising order: its first cores run on them.
    pub cores: Vec<u16>,
    /// How many cores its node always has in use, and how many it can have: the others of those are
    /// away.
    pub bounds: (u16, u16),
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes that it can have at most.
    pub most_memory: u64,
    /// Whether the machine's guard keeps it to that, on a PC.
    pub is_guarded: bool,
    /// Its disks, if it has any.
    #[serde(default)]
    pub disk: Option<Disk>,
}

impl Disk {
    /// One that goes with the cluster, or sooner with the domain that has it.
    pub fn passing(bytes: u64, count: u16) -> Disk {
        Disk { bytes, count, folder: None, goes: false }
    }
}

impl Domain {
    /// What it can have.
    pub fn limits(&self, priority: u8) -> Limits {
        Limits { cores: self.bounds, units: (1, (self.most_memory / UNIT) as u32), priority }
    }
}

impl Record {
    /// How many cores a node has, those that are away included.
    pub fn cores_of(&self, node: &Node) -> u16 {
        node.domain.as_ref().map_or(self.cores, |it| it.bounds.1)
    }

    /// Bytes of a node's memory.
    pub fn memory_of(&self, node: &Node) -> u64 {
        node.domain.as_ref().map_or(self.memory, |it| it.memory)
    }

    /// Bytes that a node can have: what it has not is away.
    pub fn most_memory_of(&self, node: &Node) -> u64 {
        node.domain.as_ref().map_or(self.memory, |it| it.most_memory)
    }

    /// The disks of a node, if it has any.
    pub fn disk_of<'a>(&'a self, node: &'a Node) -> Option<&'a Disk> {
        node.domain.as_ref().map_or(self.disk.as_ref(), |it| it.disk.as_ref())
    }

    /// Whether a node is a domain of a PC, in whose process it is.
    pub fn is_in_pc(&self, node: &Node) -> bool {
        node.domain.is_some() && node.machine == Kind::Qemu
    }

    /// What the processes of a node are called: those of its machine, if it shares that.
    pub fn part_of(&self, node: &Node) -> String {
        match self.nodes.first() {
            Some(supervisor) if self.is_in_pc(node) => supervisor.name(),
            _ => node.name(),
        }
    }

    /// Cores and bytes of the machine on which a node is, of which it may keep a part.
    pub fn machine_of(&self, node: &Node) -> (u16, u64) {
        match &self.shared {
            Some(shared) if node.machine == Kind::Qemu => (shared.cores, shared.memory),
            _ => (self.cores, self.memory),
        }
    }

    /// The CPUs of a node, if it is to have none but them.
    pub fn cpus_of(&self, node: &Node) -> Vec<usize> {
        let hosted = self.shared.as_ref().filter(|_| node.machine == Kind::Hosted);
        let Some(shared) = hosted else { return Vec::new() };
        let cores = node.domain.as_ref().map_or(&[0][..], |it| &it.cores);
        let cpu = |core: &u16| shared.cpus.get(usize::from(*core)).copied();
        // With fewer CPUs than cores, cores without one run anywhere.
        cores.iter().map(cpu).collect::<Option<_>>().unwrap_or_default()
    }

    /// Whether the nodes' disks go with the cluster.
    pub fn has_passing_disks(&self) -> bool {
        self.disk.as_ref().is_some_and(|disk| disk.goes || disk.folder.is_none())
    }

    /// Bytes of the largest frame: what the switch takes if all nodes have links that do, else what
    /// every Ethernet has.
    pub fn max_frame(&self) -> usize {
        const MOST: usize = u16::MAX as usize;
        let all_do = self.direct && self.nodes.iter().all(|node| node.machine == Kind::Hosted);
        if all_do { MOST } else { STANDARD_FRAME }
    }
}

fn one() -> u16 {
    1
}

/// A disk that each node of a cluster has, or a domain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Disk {
    /// Its bytes, if it was not there before.
    pub bytes: u64,
    /// How many such disks each node has.
    #[serde(default = "one")]
    pub count: u16,
    /// The folder, absolutely, that it is in; else it is in the cluster's.
    #[serde(with = "optional")]
    pub folder: Option<PathBuf>,
    /// Whether that folder goes with the cluster.
    #[serde(default)]
    pub goes: bool,
}

/// A path that there may be.
mod optional {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    struct Given(#[serde(with = "crate::path")] PathBuf);

    pub fn serialize<S: Serializer>(path: &Option<PathBuf>, to: S) -> Result<S::Ok, S::Error> {
        path.clone().map(Given).serialize(to)
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<PathBuf>, D::Error> {
        Ok(Option::<Given>::deserialize(from)?.map(|Given(path)| path))
    }
}

/// One node of a cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Which: 3 is n3.
    pub id: u32,
    /// What it runs on.
    pub machine: Kind,
    /// The generation that it was started with last.
    pub generation: u32,
    /// The domain that it is, if it is one.
    #[serde(default)]
    pub domain: Option<Domain>,
}

impl Node {
    /// Its number.
    pub fn node(&self) -> NodeId {
        NodeId(self.id)
    }

    /// Whether it is a domain that has not all the cores that it can have.
    pub fn has_cores_away(&self) -> bool {
        self.domain.as_ref().is_some_and(|it| it.cores.len() < usize::from(it.bounds.1))
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.node().to_string()
    }
}

/// A cluster's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// The right to change a cluster, which one command has at a time.
pub struct Claim {
    _folder: File,
}

impl Folder {
    /// The folder of the cluster that is meant, whether it is there or not.
    pub fn of(which: &Which) -> Result<Folder, Failure> {
        let name =
            which.cluster.clone().or_else(|| env::var(VARIABLE).ok().filter(|it| !it.is_empty()));
        let name = name.unwrap_or_else(|| {
            env::var_os(ROOT).map_or_else(|| USUAL.into(), |root| of_checkout(Path::new(&root)))
        });
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
        if name.is_empty() || name.len() > 32 || !name.chars().all(plain) {
            return Err(Failure::request(format!(
                "`{name}` is no name for a cluster; use up to 32 letters, digits, - and _"
            )));
        }
        let root = root();
        // Its processes are found by this name: it is the same however one comes here.
        let root = root.canonicalize().unwrap_or(root);
        let path = root.join(name);
        if path.as_os_str().len() + SOCKET_NAME > SOCKET_PATH {
            return Err(Failure::request(format!(
                "{} is too long for sockets; set XDG_RUNTIME_DIR to a shorter folder",
                path.display()
            )));
        }
        Ok(Folder { path })
    }

    /// The folder of a cluster, which is known to be there.
    pub fn at(path: &Path) -> Folder {
        Folder { path: path.into() }
    }

    /// Makes the folder. Fails if there is one: a cluster has it.
    pub fn create(which: &Which) -> Result<(Folder, Claim), Failure> {
        let root = root();
        let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        for _ in 0..TRIES {
            match private(&root) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(cannot(&root, &error));
                }
                _ => check_private(&root)?,
            }
            let folder = Folder::of(which)?;
            match private(&folder.path) {
                Ok(()) => {
                    let claim = folder.claim()?.ok_or_else(|| gone(&folder.path))?;
                    return Ok((folder, claim));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return Err(Failure::request(format!(
                        "a cluster is up already in {}; end it with `{}`, or give this one \
                         another name with --cluster",
                        folder.path.display(),
                        advice::named(which, "down", &[])
                    )));
                }
                // Another cluster has just gone, and took the root with it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(cannot(&folder.path, &error)),
            }
        }
        Err(gone(&root))
    }

    /// The folder of a cluster that is up, and what that consists of.
    pub fn open(which: &Which) -> Result<(Folder, Record), Failure> {
        let folder = Folder::of(which)?;
        if !folder.path.exists() {
            return Err(Failure::request(format!(
                "no cluster is up ({} is not there); start one with `{}`",
                folder.path.display(),
                advice::named(which, "up", &[])
            )));
        }
        let record = folder.record()?;
        Ok((folder, record))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The log of a part of the cluster, which goes on where it ended.
    pub fn log(&self, part: &str) -> Result<File, Failure> {
        let path = self.log_path(part);
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        file.map_err(|error| cannot(&path, &error))
    }

    /// Where that log is.
    pub fn log_path(&self, part: &str) -> PathBuf {
        self.file(&format!("{part}.log"))
    }

    /// Waits for whoever is at work on the cluster, and takes its place. `None` if the cluster is
    /// gone then.
    pub fn claim(&self) -> Result<Option<Claim>, Failure> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(&self.path, &error)),
        };
        let deadline = Instant::now() + PATIENCE;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    if interrupt::requested() {
                        return Err(Failure::Interrupted);
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::failed(format!(
                        "another command is at work on the cluster in {}; end it, or wait",
                        self.path.display()
                    )));
                }
                Err(TryLockError::Error(error)) => return Err(cannot(&self.path, &error)),
            }
        }
        // What was locked may have been removed before, and another be in its place.
        let is_same = fs::metadata(&self.path).ok().zip(file.metadata().ok());
        let is_same = is_same.is_some_and(|(now, then)| now.ino() == then.ino());
        Ok(is_same.then_some(Claim { _folder: file }))
    }

    /// Writes what the cluster consists of, at once or not at all.
    pub fn set_record(&self, record: &Record) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(record)
            .map_err(|error| cannot(&self.file(RECORD), &error.into()))?;
        self.write(RECORD, &text)
    }

    /// What the cluster consists of.
    pub fn record(&self) -> Result<Record, Failure> {
        let path = self.file(RECORD);
        let read = fs::read_to_string(&path).and_then(|text| Ok(serde_json::from_str(&text)?));
        read.map_err(|error| {
            Failure::failed(format!(
                "the cluster was not started wholly, or is damaged ({}: {error}); end it with \
                 `{}`",
                path.display(),
                advice::on(self, "down", &[])
            ))
        })
    }

    /// Writes a file that only this user can read, in place of the one before.
    pub fn write(&self, name: &str, text: &str) -> Result<(), Failure> {
        let path = self.file(name);
        let mut file =
            tempfile::NamedTempFile::new_in(&self.path).map_err(|error| cannot(&path, &error))?;
        let written = file.write_all(text.as_bytes());
        written.map_err(|error| cannot(&path, &error))?;
        file.persist(&path).map_err(|error| cannot(&path, &error.error))?;
        Ok(())
    }

    /// The cluster's key; `None` if it has none.
    pub fn key(&self, record: &Record) -> Result<Option<ClusterKey>, Failure> {
        if !record.sealed {
            return Ok(None);
        }
        let path = self.file(KEY);
        let text = fs::read_to_string(&path).map_err(|error| cannot(&path, &error))?;
        let mut key = [0; 32];
        let digits = text.trim().as_bytes();
        let mut pairs = digits
            .chunks_exact(2)
            .filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        for byte in &mut key {
            let damaged = || Failure::failed(format!("{} is no key", path.display()));
            *byte = pairs.next().ok_or_else(damaged)?;
        }
        Ok(Some(ClusterKey(key)))
    }

    /// Removes the folder with all that is in it, disks that go with the cluster, and the folder
    /// that all clusters of this user are in, if this was the last.
    pub fn remove(self, claim: Claim) -> Result<(), Failure> {
        // Without a record, nothing says that there is such a folder.
        let disk = self.record().ok().and_then(|record| record.disk);
        if let Some(Disk { folder: Some(folder), goes: true, .. }) = disk
            && let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(cannot(&folder, &error));
        }
        if let Err(error) = fs::remove_dir_all(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(cannot(&self.path, &error));
        }
        drop(claim);
        if let Some(root) = self.path.parent() {
            // It fails while another cluster is in it.
            let _ = fs::remove_dir(root);
        }
        Ok(())
    }
}

impl Record {
    /// The node of this number. Says which there are if there is no such.
    pub fn node(&self, node: NodeId) -> Result<&Node, Failure> {
        self.nodes.iter().find(|it| it.node() == node).ok_or_else(|| {
            let names: Vec<String> = self.nodes.iter().map(Node::name).collect();
            let names = names.iter().map(String::as_str);
            Failure::request(format!("no node `{node}`; {}", suggestion(&node.to_string(), names)))
        })
    }
}

impl Record {
    /// The node that a domain is. Says which domains there are if there is no such.
    pub fn domain(&self, name: &str) -> Result<&Node, Failure> {
        let domains = || self.nodes.iter().filter_map(|node| Some((node, node.domain.as_ref()?)));
        let found = domains().find(|(_, domain)| domain.name == name);
        found.map(|(node, _)| node).ok_or_else(|| {
            let names: Vec<&str> = domains().map(|(_, domain)| &*domain.name).collect();
            Failure::request(format!("no domain `{name}`; {}", suggestion(name, names)))
        })
    }
}

/// What a cluster consists of, and its key in hexadecimal digits.
const RECORD: &str = "cluster.json";
pub const KEY: &str = "key";

const TRIES: usize = 10;

/// What the cluster of the source tree at `root` is called if nobody says: as its folder is, and
/// no other's of this user.
fn of_checkout(root: &Path) -> String {
    let root = root.canonicalize().unwrap_or_else(|_| root.into());
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = name.chars().take(CHECKOUT).map(plain).collect();
    format!("{name}-{:08x}", checksum::portable(0, root.as_os_str().as_bytes()))
}

/// Where the folders of all clusters of this user are.
fn root() -> PathBuf {
    let given = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let base = given.filter(|path| path.is_absolute() && path.is_dir());
    base.unwrap_or_else(env::temp_dir).join(format!("nile-{}", getuid().as_raw()))
}

/// Others must not be able to put anything where the key will be.
fn check_private(path: &Path) -> Result<(), Failure> {
    let found = fs::symlink_metadata(path).map_err(|error| cannot(path, &error))?;
    let is_ours = found.is_dir() && found.uid() == getuid().as_raw();
    match is_ours && found.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(Failure::request(format!(
            "{} is not a folder of this user alone; remove it, or set XDG_RUNTIME_DIR",
            path.display()
        ))),
    }
}

fn gone(path: &Path) -> Failure {
    Failure::failed(format!("{} was removed by another command; try again", path.display()))
}

fn cannot(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_checkout_has_a_cluster_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let checkout = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(&path).unwrap();
            path
        };
        let (one, two) = (checkout("a/nile"), checkout("b/nile"));
        let names = [of_checkout(&one), of_checkout(&two)];
        assert_ne!(names[0], names[1]);
        assert!(names[0].starts_with("nile-"), "{names:?}");
        assert_eq!(of_checkout(&two.join("../../a/nile")), names[0], "it is the same folder");
        let odd = checkout("a checkout of ünusual name");
        let which = Which { cluster: Some(of_checkout(&odd)) };
        assert!(Folder::of(&which).is_ok(), "{which:?}");
    }
}
