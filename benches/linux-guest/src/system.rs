//! What the first process of a Linux system has to do, and what threads are pinned with.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::thread;

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::mount::{MountFlags, mount as mount_at};
use rustix::net::netdevice::name_to_index;
use rustix::net::{SocketType, socket};
use rustix::system::{RebootCommand, finit_module, reboot, uname};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::Outcome;

/// What Linux calls the only network card.
const CARD: &str = "eth0";

/// Tells over the serial line what is done next: the last that is heard of a machine that stands
/// still.
pub fn say(what: &str) {
    println!("linux: {what}");
}

/// Mounts what processes find out about the system by.
pub fn mount() -> Outcome<()> {
    for (kind, at) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        fs::create_dir_all(at)?;
        mount_at(kind, at, kind, MountFlags::empty(), None)
            .map_err(|error| format!("{kind} cannot be mounted on {at}: {error}"))?;
    }
    Ok(())
}

/// Loads the modules of `/modules`, in the order of their names.
pub fn load_modules() -> Outcome<()> {
    let entries = fs::read_dir("/modules")?.collect::<io::Result<Vec<_>>>()?;
    let mut paths: Vec<PathBuf> = entries.iter().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        finit_module(File::open(&path)?, c"", 0)
            .map_err(|error| format!("{} cannot be loaded: {error}", path.display()))?;
    }
    Ok(())
}

/// Gives the machine's network card an address in a network of 256, and switches it on.
pub fn join_network(address: Ipv4Addr) -> Outcome<()> {
    let index = index_of(CARD)?;
    let mut link = LinkMessage::default();
    link.header.index = index;
    (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
    ask_linux(RouteNetlinkMessage::SetLink(link), "be switched on")?;
    let mut message = AddressMessage::default();
    (message.header.family, message.header.index) = (AddressFamily::Inet, index);
    message.header.prefix_len = 24;
    let address = address.into();
    message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
    ask_linux(RouteNetlinkMessage::NewAddress(message), "have an address")
}

/// Linux's number of a network card.
fn index_of(card: &str) -> Outcome<u32> {
    let socket = socket(rustix::net::AddressFamily::INET, SocketType::DGRAM, None)?;
    name_to_index(&socket, card).map_err(|error| format!("there is no {card}: {error}").into())
}

/// Has Linux change something of the network card.
fn ask_linux(wanted: RouteNetlinkMessage, what: &str) -> Outcome<()> {
    let mut message = NetlinkMessage::from(wanted);
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    let socket = Socket::new(NETLINK_ROUTE)?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&bytes, 0)?;
    let (answer, _) = socket.recv_from_full()?;
    let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)?;
    match answer.payload {
        NetlinkPayload::Error(answer) if answer.code.is_none() => Ok(()),
        other => Err(format!("{CARD} cannot {what}: {other:?}").into()),
    }
}

/// The CPUs that there are, also those that Linux keeps apart.
pub fn cpus() -> Outcome<usize> {
    let stat = fs::read_to_string("/proc/stat")?;
    let is_cpu = |line: &str| line.starts_with("cpu") && !line.starts_with("cpu ");
    Ok(stat.lines().filter(|line| is_cpu(line)).count().max(1))
}

/// Has this thread run on these CPUs alone.
pub fn pin(cpus: &[usize]) -> Outcome<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(None, &set)
        .map_err(|error| format!("a thread cannot be pinned to {cpus:?}: {error}").into())
}

/// Which Linux it is.
pub fn kernel() -> String {
    let name = uname();
    format!("{} {}", name.release().to_string_lossy(), name.version().to_string_lossy())
}

/// Ends the machine; gives why it could not.
pub fn power_off() -> io::Error {
    // The serial line has a buffer.
    thread::sleep(std::time::Duration::from_millis(100));
    match reboot(RebootCommand::PowerOff) {
        Ok(()) => io::Error::other("Linux went on"),
        Err(error) => error.into(),
    }
}
