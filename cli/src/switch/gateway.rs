//! The gateway: what a cluster's network is connected with this machine by, without any right
//! that a user does not have. A thread of the switch's process with a port of the switch, behind
//! which smoltcp has the address of the gateway; connections to ports of this machine are spliced
//! to connections to nodes ([`super::splice`]), and datagrams are passed on ([`datagrams`]).
//!
//! It serves nodes, too ([`services`]): [`dhcp`] lends them addresses, [`dns`] and [`names`] answer
//! for the cluster's own names, and [`upstream`] asks the resolver of this machine for others.

mod datagrams;
mod dhcp;
mod dns;
mod names;
mod services;
#[cfg(test)]
mod tests;
mod upstream;

use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Instant as Clock;

use nile_abi::ethernet::STANDARD_FRAME;
use nile_abi::ip::{Addresses, FirstOfMany};
use nile_abi::{MacAddress, NodeId};
use nile_net::Queues;
use nile_net::own::{LINK_BITS, link_address};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

use self::datagrams::Datagrams;
use self::names::Names;
use self::services::Services;
use super::forward::{Door, Forward};
use super::sockets;
use super::splice::Splice;
use crate::failure::Failure;

/// Connections at once; others wait until one of them is over.
const MOST: usize = 128;

/// Frames that are taken from the switch before connections have their turn.
const TURN: usize = 64;

/// Frames that may wait until the switch takes them.
const WAITING: usize = 256;

/// How often it is looked for connections that nobody answers.
const LOOK: Duration = Duration::from_secs(1);

/// Ports that connections to nodes come from.
const PORTS: std::ops::Range<u16> = 49152..65535;

/// What a gateway is told.
pub struct Settings<'a> {
    /// Ports of this machine that lead to nodes.
    pub forwards: &'a [Forward],
    /// The network.
    pub addresses: Addresses,
    /// The addresses of IPv6, if they follow from the nodes' numbers.
    pub wide: Option<FirstOfMany>,
    /// The cluster's folder.
    pub folder: &'a Path,
    /// Whether it lends nodes their addresses.
    pub lends: bool,
    /// What its numbers are drawn from.
    pub seed: u64,
}

/// Starts the gateway; gives the switch's end of its cable. It ends when that is closed.
pub fn start(settings: &Settings<'_>) -> Result<OwnedFd, Failure> {
    let (mut listeners, mut doors) = (Vec::new(), Vec::new());
    for forward in settings.forwards {
        match forward.open()? {
            Door::Tcp(listener) => listeners.push((*forward, listener)),
            Door::Udp(socket) => doors.push((*forward, socket)),
        }
    }
    let cannot = |error: io::Error| Failure::failed(format!("no gateway can be started: {error}"));
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let pair = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let (ours, theirs) = pair.map_err(|error| cannot(error.into()))?;
    sockets::limit(&ours);
    sockets::limit(&theirs);
    let gateway = Gateway::new(theirs, listeners, doors, settings);
    let thread = std::thread::Builder::new().name("gateway".into());
    thread.spawn(move || gateway.run()).map_err(cannot)?;
    Ok(ours)
}

struct Gateway {
    cable: Cable,
    interface: Interface,
    sockets: SocketSet<'static>,
    listeners: Vec<(Forward, TcpListener)>,
    addresses: Addresses,
    services: Services,
    datagrams: Datagrams,
    splices: Vec<Splice>,
    next_port: u16,
    start: Clock,
}

impl Gateway {
    fn new(
        socket: OwnedFd,
        listeners: Vec<(Forward, TcpListener)>,
        doors: Vec<(Forward, UdpSocket)>,
        settings: &Settings<'_>,
    ) -> Gateway {
        let &Settings { addresses, wide, folder, lends, seed, .. } = settings;
        let mut frames = Queues::of_frames(STANDARD_FRAME, WAITING);
        // No node has this number.
        let mac = MacAddress::local(NodeId(u32::MAX), 0);
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac.0)));
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut frames, Instant::ZERO);
        interface.update_ip_addrs(|own| {
            let wide = wide.map(|it| (it.gateway().into(), it.prefix()));
            let all = [
                Some((addresses.gateway().into(), addresses.prefix())),
                Some((link_address(mac).into(), LINK_BITS)),
                wide,
            ];
            for (address, bits) in all.into_iter().flatten() {
                // There is room for all.
                let _ = own.push(IpCidr::new(address, bits));
            }
        });
        let mut sockets = SocketSet::new(Vec::new());
        let services = Services::new(&mut sockets, Names::new(addresses, wide, folder), lends);
        let cable = Cable { socket, frames, gone: false };
        let (splices, start) = (Vec::new(), Clock::now());
        let next_port = PORTS.start;
        Gateway {
            cable,
            interface,
            sockets,
            listeners,
            addresses,
            services,
            datagrams: Datagrams::new(doors),
            splices,
            next_port,
            start,
        }
    }

    fn now(&self) -> Instant {
        Instant::from_micros(i64::try_from(self.start.elapsed().as_micros()).unwrap_or(i64::MAX))
    }

    fn run(mut self) {
        while !self.cable.gone {
            self.cable.take(TURN);
            self.welcome();
            self.poll();
            let sockets = &mut self.sockets;
            self.services.turn(sockets);
            self.datagrams.turn(sockets, &self.addresses);
            self.splices.retain_mut(|splice| splice.turn(sockets));
            self.poll();
            self.cable.give();
            self.wait();
        }
    }

    fn poll(&mut self) {
        let now = self.now();
        self.interface.poll(now, &mut self.cable.frames, &mut self.sockets);
    }

    /// Takes connections in, as many as there is room for.
    fn welcome(&mut self) {
        for (forward, listener) in &self.listeners {
            while self.splices.len() < MOST {
                let Ok((stream, _)) = listener.accept() else { break };
                let port = self.next_port;
                self.next_port = if port + 1 == PORTS.end { PORTS.start } else { port + 1 };
                // A node that has no address was refused when the cluster was started.
                let Some(address) = self.addresses.address_of(forward.node) else { continue };
                let to = (IpAddress::Ipv4(address), forward.to);
                let context = self.interface.context();
                // One that cannot be begun is closed, and its peer sees that.
                self.splices.extend(Splice::begin(stream, &mut self.sockets, context, to, port));
            }
        }
    }

    /// Waits until there is something to do.
    fn wait(&mut self) {
        let delay = self.interface.poll_delay(self.now(), &self.sockets);
        let delay = match self.splices.is_empty() {
            true => delay,
            false => Some(delay.map_or(LOOK, |it| it.min(LOOK))),
        };
        let patience = [self.services.patience(), self.datagrams.patience()];
        let patience = patience.into_iter().flatten().map(Duration::from);
        let delay = patience.chain(delay).min();
        let delay = delay.map(|it| it.total_micros()).map(|micros| Timespec {
            tv_sec: (micros / 1_000_000) as i64,
            tv_nsec: (micros % 1_000_000 * 1000) as _,
        });
        let mut waits = Vec::with_capacity(1 + self.listeners.len() + self.splices.len());
        let cable = match self.cable.frames.goes.is_empty() {
            true => PollFlags::IN,
            false => PollFlags::IN | PollFlags::OUT,
        };
        waits.push(PollFd::new(&self.cable.socket, cable));
        if self.splices.len() < MOST {
            let listeners = self.listeners.iter();
            waits.extend(listeners.map(|(_, listener)| PollFd::new(listener, PollFlags::IN)));
        }
        for splice in &self.splices {
            let wants = splice.waits_for(&self.sockets);
            if !wants.is_empty() {
                waits.push(PollFd::from_borrowed_fd(splice.stream.as_fd(), wants));
            }
        }
        let sockets = self.services.sockets().chain(self.datagrams.sockets());
        waits.extend(sockets.map(|it| PollFd::new(it, PollFlags::IN)));
        // An error here would be one of memory; then it looks again soon.
        let _ = poll(&mut waits, delay.as_ref());
    }
}

/// The gateway's end of its cable: each packet of the socket is a frame.
struct Cable {
    socket: OwnedFd,
    frames: Queues,
    /// The switch has ended.
    gone: bool,
}

impl Cable {
    fn take(&mut self, most: usize) {
        let mut frame = [0; STANDARD_FRAME + 1];
        while self.frames.came.len() < most {
            match rustix::io::read(&self.socket, &mut frame) {
                Ok(0) => {
                    self.gone = true;
                    return;
                }
                // What is longer is of others: nodes are told the length of frames.
                Ok(bytes) if bytes <= STANDARD_FRAME => {
                    self.frames.came.push_back(frame[..bytes].into());
                }
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return,
                Err(_) => {
                    self.gone = true;
                    return;
                }
            }
        }
    }

    fn give(&mut self) {
        while let Some(frame) = self.frames.goes.front() {
            if rustix::io::write(&self.socket, frame) == Err(rustix::io::Errno::AGAIN) {
                return;
            }
            self.frames.goes.pop_front();
        }
    }
}
