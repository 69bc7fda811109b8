//! One node of a cluster: its configuration and its process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nile_abi::{MacAddress, NodeId, Role};
use nile_kernel::Config;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::Deserialize;
use serde::de::IgnoredAny;
use toml::Spanned;

use super::args::Kind;
use super::folder::{Disk, Folder, KEY, Node, Record, Shared};
use super::{identity, keepers, pin, process};
use crate::disk::{self, Bus, Connected};
use crate::domain::ledger;
use crate::failure::Failure;
use crate::size::Bytes;
use crate::{boot, config, needs, packages};

/// What a node of a cluster does once it is up.
pub const PROGRAM: &str = "serve";

/// The most interfaces that a node in QEMU drives.
const MOST_CABLES: usize = 8;

/// What users' configurations are kept as, for nodes that are started later.
pub const COMMON: &str = "nile.toml";

/// The text of the configuration `file`. Refuses what the cluster itself has to say.
pub fn common_config(file: Option<&config::File>) -> Result<String, Failure> {
    /// What each node gets from the cluster.
    #[derive(Deserialize)]
    struct Ours {
        node: Option<Spanned<IgnoredAny>>,
        network: Option<Spanned<IgnoredAny>>,
    }
    let Some(file) = file else { return Ok(String::new()) };
    config::no_supervisor(Some(file.path()), &config::read(Some(file))?)?;
    let shown = file.path().display();
    let place = |what: &dyn std::fmt::Display| Failure::request(format!("{shown}{what}"));
    let text = file.text()?;
    let ours: Ours = toml::from_str(text).map_err(|error| place(&format!(": {error}")))?;
    for (name, table) in [("node", ours.node), ("network", ours.network)] {
        if let Some(table) = table {
            let line = 1 + text[..table.span().start].matches('\n').count();
            return Err(place(&format!(
                ":{line}: [{name}] is written by `nile up` for each node; leave it out"
            )));
        }
    }
    Ok(text.into())
}

/// The same configuration with a pool of buffers for the nodes' disks, an eighth of the memory and
/// at most 64 MiB, unless it says something of a pool. Buffers have the usual size, or a smaller
/// one if there were too few of them for jobs on so many nodes and cores.
pub fn with_pool(text: String, memory: Bytes, nodes: usize, cores: u16) -> String {
    if has_pool(&text) {
        return text;
    }
    const USUAL: u64 = 256 << 10;
    let pool = ((memory.0 / 8) >> 21).clamp(1, 32) << 21;
    with_buffers(text, pool, of_pieces(nodes, cores), USUAL)
}

/// The same configuration with a pool of so many bytes, in whole 2 MiB; a wrong request if it has
/// a pool itself. Its buffers are as large as jobs like them if there are enough of them then for a
/// node with so many `cores`: each of what is on its way takes a buffer, however little of it
/// there is. Larger ones are of use where `nodes` send them to each other.
pub fn with_own_pool(
    text: String,
    pool: Bytes,
    nodes: usize,
    cores: u16,
) -> Result<String, Failure> {
    // Whoever merges what was put on disk has two for each run. A node alone that
    // `nile run` makes has five cores or more.
    let (most, of_core) = if nodes > 1 { (2560 << 10, 40) } else { (1536 << 10, 80) };
    let enough = of_core * u64::from(cores.max(5));
    if has_pool(&text) {
        return Err(Failure::request("the configuration has a [pool]; leave --pool out"));
    }
    let pool = (pool.0 >> 21).max(1) << 21;
    Ok(with_buffers(text, pool, enough.max(of_pieces(nodes, cores)), most))
}

/// Buffers that a node of a job wants at least. All workers of the cluster make outputs, most of
/// them more than one, and each worker of the node takes a piece of every output at once. Besides,
/// a worker has what it works on.
fn of_pieces(nodes: usize, cores: u16) -> u64 {
    const WORKING: u64 = 14;
    let workers = u64::from(if cores > 2 { cores - 2 } else { cores });
    let outputs = 2 * workers * nodes as u64;
    workers * (if nodes > 1 { outputs } else { 0 } + WORKING)
}

/// The configuration with a pool of `bytes` in at least `enough` buffers of at most `most` bytes,
/// in whole 64 KiB each; in smaller ones there is no gain.
fn with_buffers(text: String, bytes: u64, enough: u64, most: u64) -> String {
    const UNIT: u64 = 64 << 10;
    let buffer = (bytes / enough / UNIT * UNIT).clamp(UNIT, most);
    format!("{text}\n[pool]\nbytes = \"{}M\"\nbuffer = \"{}K\"\n", bytes >> 20, buffer >> 10)
}

/// Whether a configuration, which was checked before, says something of a pool.
fn has_pool(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Said {
        pool: Option<IgnoredAny>,
    }
    toml::from_str::<Said>(text).is_ok_and(|said| said.pool.is_some())
}

/// Keeps what all nodes' configurations have in common.
pub fn keep_common_config(folder: &Folder, text: &str) -> Result<(), Failure> {
    folder.write(COMMON, text)
}

/// What they have in common.
pub fn kept_config(folder: &Folder) -> Result<Config, Failure> {
    config::read(Some(&folder.file(COMMON).into_os_string().into()))
}

/// A generation after `last`: by the clock, so that it is also after those of a cluster that was
/// up before; see `nile_kernel`'s membership.
pub fn next_generation(last: u32) -> u32 {
    const YEAR_2025: u64 = 1_735_689_600;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let since = since.saturating_sub(Duration::from_secs(YEAR_2025));
    // It wraps in 2059, as the kernel's does.
    let quarters = (since.as_millis() / 250) as u32;
    quarters.max(last.wrapping_add(1)).max(1)
}

/// A node that can be started.
pub struct Prepared {
    name: String,
    command: Command,
    cpus: Vec<usize>,
}

impl Prepared {
    /// Starts the node's process.
    pub fn start(self, folder: &Folder) -> Result<Child, Failure> {
        let Prepared { name, command, cpus } = self;
        let log = folder.log(&name)?;
        let start = || process::start(folder.path(), &name, &command, &log);
        pin::on(&cpus, start).map_err(|error| {
            let program = command.get_program().display();
            Failure::failed(format!("{name} cannot be started ({program}): {error}"))
        })
    }
}

/// Looks after all that the start of a node needs. It serves, or runs the scenario `program`, which
/// other kernels are built with.
pub fn prepare(
    folder: &Folder,
    record: &Record,
    node: &Node,
    program: Option<&str>,
) -> Result<Prepared, Failure> {
    let config = write_config(folder, record, node)?;
    let disks = disks_of(folder, record, node)?;
    let command = match node.machine {
        Kind::Qemu => qemu(folder, record, node, program, &config, &disks)?,
        Kind::Hosted => {
            let mut command = Command::new(hosted(program.is_some())?);
            if program.is_some() {
                let archive = folder.file(&archive(node));
                packages::write_own(&archive, None)?;
                command.arg("--packages").arg(archive);
            }
            let program = program.unwrap_or(PROGRAM);
            let (cores, memory) = (record.cores_of(node), record.memory_of(node));
            boot::hosted::arguments(&mut command, cores, memory, program);
            let most = record.most_memory_of(node);
            if most > memory {
                command.args(["--max-memory", &most.to_string()]);
            }
            command.arg("--config").arg(&config);
            command.arg("--switch").arg(folder.file(crate::switch::sockets::SWITCH));
            for disk in &disks {
                disk::hosted(&mut command, disk);
            }
            command.arg("--files").arg(folder.file(&files(node.node())));
            if node.domain.is_some() {
                command.arg("--shared-memory").arg(ledger::shared(folder));
            }
            if record.has_passing_disks() {
                disk::passing(&mut command);
            }
            if let Some(rate) = record.sample_rate {
                command.arg("--samples").arg(samples(folder.path(), node.node()));
                command.args(["--sample-rate", &rate.to_string()]);
            }
            if record.direct {
                let frame = record.max_frame().to_string();
                command.arg("--direct").arg(folder.path()).args(["--max-frame", &frame]);
            }
            command
        }
    };
    Ok(Prepared { name: node.name(), command, cpus: record.cpus_of(node) })
}

/// The socket, in the folder of its cluster, at which a hosted node takes files.
pub fn files(node: NodeId) -> String {
    format!("{node}.files")
}

/// Whether the process of a hosted node is there: its socket for files is of no use without.
pub fn listens(folder: &Folder, node: NodeId) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let address = SocketAddrUnix::new(folder.file(&files(node)));
    let connected = socket.and_then(|socket| connect(&socket, &address?));
    // One that is slow has no room for more who want to give it files.
    matches!(connected, Ok(()) | Err(Errno::AGAIN))
}

/// The packages of a node that runs a scenario, in the folder of its cluster.
fn archive(node: &Node) -> String {
    format!("{}.tar", node.name())
}

/// The program of a hosted node that serves, or runs a scenario.
pub fn hosted(scenario: bool) -> Result<PathBuf, Failure> {
    needs::provided(if scenario { needs::HOSTED_SCENARIOS } else { needs::HOSTED })
}

/// Where samples of what a hosted node's cores do are found, in the folder of its cluster.
pub fn samples(folder: &Path, node: NodeId) -> PathBuf {
    folder.join(format!("{node}.samples"))
}

/// The cables of a node that is a machine, by their names at the switch: one for each network
/// core, of which the first is called what the node is.
pub fn cables(folder: &Folder, record: &Record, node: &Node) -> Result<Vec<String>, Failure> {
    let config = kept_config(folder)?;
    let roles = config::roles(Some(&folder.file(COMMON)), &config, record.cores_of(node))?;
    let drivers = roles.iter().filter(|roles| roles.contains(Role::Network)).count();
    let name = |index| if index == 0 { node.name() } else { format!("{}.{index}", node.name()) };
    Ok((0..drivers.min(MOST_CABLES)).map(name).collect())
}

/// Writes the configuration of a node, which begins with what all have in common; where it is.
pub fn write_config(folder: &Folder, record: &Record, node: &Node) -> Result<PathBuf, Failure> {
    let read = |name: &str| {
        let path = folder.file(name);
        fs::read_to_string(&path)
            .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    };
    let protection = match folder.file(KEY).exists() {
        true => format!("key = \"{}\"", read(KEY)?.trim()),
        false => "unsealed = true".into(),
    };
    let Node { id, generation, .. } = node;
    let keepers = keepers::setting(&record.keepers);
    let identity = identity::setting(record.identity);
    let plain = if record.encrypted { "" } else { "plain_disk = true\n" };
    let own = format!(
        "[node]\nid = {id}\ngeneration = {generation}\n{keepers}\n{identity}{plain}\n\
         [network]\n{protection}\n"
    );
    let mut common = read(COMMON)?;
    if record.shared.is_some() && record.disk_of(node).is_some() {
        // Nodes that share a machine differ in memory.
        let (memory, cores) = (Bytes(record.memory_of(node)), record.cores_of(node));
        common = with_pool(common, memory, record.nodes.len(), cores);
    }
    let without_guard = "\n[domain]\nguard = false\n";
    let roles = match &node.domain {
        Some(domain) => {
            let roles = roles_of_domain(folder, &common, domain.bounds)?;
            let is_open = node.machine == Kind::Qemu && !domain.is_guarded;
            roles + if is_open { without_guard } else { "" }
        }
        None if record.shared.is_some() && node.machine == Kind::Qemu => {
            let (cores, memory) = (record.cores, record.memory >> 20);
            let disks = record.disk.as_ref().map_or(0, |disk| disk.count);
            let parts = record.shared.as_ref().and_then(Shared::parts).map(|disk| {
                let (count, mebibytes) = (disk.count, disk.bytes >> 20);
                format!("disk_parts = {count}\ndisk_part = \"{mebibytes}M\"\n")
            });
            let parts = parts.unwrap_or_default();
            format!(
                "\n[supervisor]\ncores = {cores}\nmemory = \"{memory}M\"\ndisks = {disks}\n{parts}"
            )
        }
        None => String::new(),
    };
    let name = format!("{}.toml", node.name());
    folder.write(&name, &format!("{common}\n{own}{roles}"))?;
    Ok(folder.file(&name))
}

/// Whether a configuration, which was checked before, says roles.
pub fn says_roles(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Said {
        roles: Option<IgnoredAny>,
    }
    toml::from_str::<Said>(text).is_ok_and(|said| said.roles.is_some())
}

/// The roles of a domain's cores, unless the common configuration says them: those that it always
/// has are a node's, and the others are workers, which come and go.
fn roles_of_domain(
    folder: &Folder,
    common: &str,
    (least, most): (u16, u16),
) -> Result<String, Failure> {
    if says_roles(common) {
        return Ok(String::new());
    }
    let path = folder.file(COMMON);
    let config = config::read(Some(&path.clone().into_os_string().into()))?;
    let always = config::roles(Some(&path), &config, least)?;
    let has = |core: u16, role| match always.get(usize::from(core)) {
        Some(roles) => roles.contains(role),
        None => role == Role::Worker,
    };
    let line = |role: Role| {
        let cores: Vec<u16> = (0..most).filter(|core| has(*core, role)).collect();
        format!("{} = {cores:?}\n", role.name())
    };
    Ok(format!("\n[roles]\n{}", Role::ALL.map(line).concat()))
}

/// Where the disks of a node are, with the bytes of each.
pub fn disk_files(folder: &Folder, record: &Record, node: &Node) -> Vec<(PathBuf, u64)> {
    let Some(disk) = record.disk_of(node) else { return Vec::new() };
    let name = |number: u16| match number {
        1 => format!("{}.disk", node.name()),
        _ => format!("{}.disk{number}", node.name()),
    };
    let folder = disk.folder.as_deref().unwrap_or(folder.path());
    (1..=disk.count).map(|number| (folder.join(name(number)), disk.bytes)).collect()
}

/// Where the disks are that a PC has for its domains, with the bytes of each, in the order of their
/// numbers.
fn files_for_domains(folder: &Folder, record: &Record) -> Vec<(PathBuf, u64)> {
    let disks = record.shared.as_ref().and_then(Shared::whole_disks);
    let file = |disk: &Disk, number| (folder.file(&format!("domains.disk{number}")), disk.bytes);
    disks.iter().flat_map(|disk| (1..=disk.count).map(|number| file(disk, number))).collect()
}

/// What the disks are called that a PC has for its domains, with the bytes of each, in the order of
/// their numbers.
pub fn disks_for_domains(folder: &Folder, record: &Record) -> Vec<(String, u64)> {
    let whole = files_for_domains(folder, record).into_iter();
    let whole = whole.map(|(path, bytes)| (path.display().to_string(), bytes));
    let parts = record.shared.as_ref().and_then(Shared::parts);
    let part = |disk: &Disk, number| (format!("part {number} of the supervisor's"), disk.bytes);
    let parts = parts.iter().flat_map(|disk| (1..=disk.count).map(|number| part(disk, number)));
    whole.chain(parts).collect()
}

/// The disks of a node and of its domains. One that was there before is as it was.
fn disks_of(folder: &Folder, record: &Record, node: &Node) -> Result<Vec<PathBuf>, Failure> {
    let made = |(path, bytes): (PathBuf, u64)| {
        disk::make(&path, Some(Bytes(bytes)))?;
        Ok(path)
    };
    let all = disk_files(folder, record, node).into_iter();
    all.chain(files_for_domains(folder, record)).map(made).collect()
}

fn qemu(
    folder: &Folder,
    record: &Record,
    node: &Node,
    program: Option<&str>,
    config: &Path,
    disks: &[PathBuf],
) -> Result<Command, Failure> {
    let mut command = Command::new(boot::qemu::program()?);
    let (cores, memory) = record.machine_of(node);
    boot::qemu::machine(&mut command, cores, memory, false);
    // Disks of domains are to reach the memory of their domains alone.
    let has_iommu = record.shared.as_ref().is_some_and(|it| it.whole_disks().is_some());
    if has_iommu {
        boot::qemu::iommu(&mut command);
    }
    let mut module = config.to_path_buf();
    let (image, program) = match program {
        None => (needs::KERNEL, PROGRAM),
        Some(program) => {
            module = folder.file(&archive(node));
            let text = fs::read_to_string(config)
                .map_err(|error| Failure::failed(format!("{}: {error}", config.display())))?;
            packages::write_own(&module, Some(&text))?;
            (needs::SCENARIOS, program)
        }
    };
    boot::qemu::kernel(&mut command, image, program, Some(&module))?;
    for (index, name) in cables(folder, record, node)?.into_iter().enumerate() {
        let socket = folder.file(&format!("{name}.qemu"));
        // A socket that a killed machine left behind.
        let _ = fs::remove_file(&socket);
        let address = MacAddress::local(node.node(), index as u8);
        boot::qemu::card(&mut command, index, &socket, address);
    }
    for (number, disk) in disks.iter().enumerate() {
        let connected = Connected { bus: Bus::Virtio, has_iommu };
        disk::qemu(&mut command, number, disk, connected, record.has_passing_disks());
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_grow_with_the_clock_and_by_count() {
        let now = next_generation(0);
        assert!(now > 4 * 86_400 * 365, "{now}");
        assert!((1..=1000).contains(&(next_generation(now) - now)));
        assert_eq!(next_generation(now + 5000), now + 5001);
    }

    #[test]
    fn tables_of_the_cluster_are_refused_with_their_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let said = |text: &str| {
            fs::write(&file, text).unwrap();
            common_config(Some(&file.path().as_os_str().to_os_string().into()))
        };
        let text = "[timer]\ntick_hz = 5\n";
        assert_eq!(said(text).unwrap(), text);
        for (wrong, line) in [
            ("[timer]\ntick_hz = 5\n[network]\nunsealed = true\n", 3),
            ("\n\n[node]\ngeneration = 4\n", 3),
        ] {
            let Err(Failure::Request(message)) = said(wrong) else { panic!("{wrong}") };
            assert!(message.contains(&format!(":{line}: [n")), "{message}");
        }
    }

    #[test]
    fn nodes_with_disks_have_a_pool() {
        let pools = [
            (64, 1, 4, 8, 256),
            (64, 3, 3, 8, 256),
            (512, 1, 4, 64, 256),
            (512, 3, 4, 64, 256),
            (8192, 3, 4, 64, 256),
            // Of each of 24 x 2 workers and more comes a piece for each of two here.
            (192, 24, 4, 24, 64),
            (8192, 24, 4, 64, 256),
            (8192, 64, 4, 64, 64),
            (4, 1, 1, 2, 128),
        ];
        for (memory, nodes, cores, pool, buffer) in pools {
            let text = "[timer]\ntick_hz = 5\n".into();
            let text = with_pool(text, Bytes::mebi(memory), nodes, cores);
            let config = nile_kernel::Config::parse(&text).unwrap();
            assert_eq!(config.pool_bytes(1 << 40).unwrap(), pool << 20, "{memory} MiB");
            let own = config.pool.unwrap().buffer;
            assert_eq!(own, buffer << 10, "{memory} MiB, {nodes} nodes, {cores} cores");
        }
        let said = "[pool]\nbytes = \"4M\"\n";
        assert_eq!(with_pool(said.into(), Bytes::mebi(512), 1, 4), said);
        assert!(with_own_pool(said.into(), Bytes::mebi(512), 1, 5).is_err());
        let pools = [
            (1, 1, 5, 2, 64 << 10),
            (65, 1, 3, 64, 128 << 10),
            (497, 1, 5, 496, 1216 << 10),
            (1025, 1, 5, 1024, 1536 << 10),
            (1025, 1, 19, 1024, 640 << 10),
            (497, 3, 3, 496, 2496 << 10),
            (1025, 2, 5, 1024, 2560 << 10),
            (65, 48, 4, 64, 128 << 10),
        ];
        for (asked, nodes, cores, pool, buffer) in pools {
            let text = with_own_pool(String::new(), Bytes::mebi(asked), nodes, cores).unwrap();
            let config = nile_kernel::Config::parse(&text).unwrap().pool.unwrap();
            assert_eq!((config.bytes, config.buffer), (pool << 20, buffer), "{asked} MiB");
        }
    }
}
