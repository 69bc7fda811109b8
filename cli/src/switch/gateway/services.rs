//! What the gateway answers itself: DHCP, and questions for names.

use std::net::UdpSocket;
use std::time::Duration;

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::udp::{PacketBuffer, PacketMetadata, Socket};
use smoltcp::wire::{DHCP_CLIENT_PORT, DHCP_SERVER_PORT, IpEndpoint};

use super::dhcp;
use super::dns::{self, Reply};
use super::names::Names;
use super::upstream::{self, Upstream};

/// The port that names are asked at.
const DNS: u16 = 53;

/// Datagrams and bytes of them that may wait at a port, each way; more are dropped.
const WAITING: (usize, usize) = (64, 64 << 10);

/// Bytes of a datagram that goes in one packet.
pub const LONGEST: usize = 1472;

/// The services, with their ports.
pub struct Services {
    names: Names,
    upstream: Upstream,
    dns: SocketHandle,
    /// None where another server lends addresses.
    dhcp: Option<SocketHandle>,
}

impl Services {
    /// Those of a cluster with these names; whether addresses are lent, too.
    pub fn new(sockets: &mut SocketSet<'static>, names: Names, lends: bool) -> Services {
        Services {
            names,
            upstream: Upstream::new(upstream::servers),
            dns: port(sockets, DNS, WAITING),
            dhcp: lends.then(|| port(sockets, DHCP_SERVER_PORT, WAITING)),
        }
    }

    /// Answers what has come.
    pub fn turn(&mut self, sockets: &mut SocketSet<'static>) {
        if let Some(handle) = self.dhcp {
            let socket = sockets.get_mut::<Socket<'_>>(handle);
            let addresses = &self.names.addresses;
            each(socket, |message, _| {
                let (to, answer) = dhcp::answer(addresses, message)?;
                Some((IpEndpoint::new(to.into(), DHCP_CLIENT_PORT), answer))
            });
        }
        let socket = sockets.get_mut::<Socket<'_>>(self.dns);
        let (names, upstream) = (&self.names, &mut self.upstream);
        each(socket, |query, from| {
            let answer = match dns::reply(query, |name| names.find(name)) {
                Reply::Say(answer) => Some(answer),
                Reply::Forward => upstream.ask(query, from),
                Reply::Ignore => None,
            };
            Some((from, answer?))
        });
        for (to, answer) in self.upstream.answers() {
            // The node asks again if there is no room.
            let _ = socket.send_slice(&answer, to);
        }
    }

    /// The sockets of this machine that answers come to.
    pub fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.upstream.sockets()
    }

    /// How long there is nothing to do unless something comes.
    pub fn patience(&self) -> Option<Duration> {
        self.upstream.patience()
    }
}

/// A port for datagrams, of which so many with so many bytes may wait each way.
pub fn port(
    sockets: &mut SocketSet<'static>,
    port: u16,
    (most, bytes): (usize, usize),
) -> SocketHandle {
    let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; most], vec![0; bytes]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.bind(port).expect("a new socket takes any port but 0");
    sockets.add(socket)
}

/// Takes all datagrams of a port, and sends what is said to each.
fn each(
    socket: &mut Socket<'_>,
    mut say: impl FnMut(&[u8], IpEndpoint) -> Option<(IpEndpoint, Vec<u8>)>,
) {
    while let Ok((bytes, from)) = socket.recv() {
        if let Some((to, answer)) = say(bytes, from.endpoint) {
            // Whoever is not answered asks again.
            let _ = socket.send_slice(&answer, to);
        }
    }
}
