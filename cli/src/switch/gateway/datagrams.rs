//! Ports of this machine whose datagrams go to nodes. A *flow* is one client at one such port: it
//! has a port of the gateway, so what the node answers there is the client's. There is no end of a
//! flow but that nothing is said for a minute.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nile_abi::ip::Addresses;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::udp::Socket;
use smoltcp::wire::{IpAddress, IpEndpoint};

use super::services::{LONGEST, port};
use crate::switch::forward::Forward;

/// Flows at once; a new one takes the place of the one that was silent for longest.
const MOST: usize = 128;

/// How long a flow may be silent.
const IDLE: Duration = Duration::from_secs(60);

/// Datagrams that are taken from a port before others have their turn.
const TURN: usize = 64;

/// Datagrams and bytes of them that may wait for a flow, each way.
const WAITING: usize = 32;
const WAITING_BYTES: usize = 32 << 10;

/// Ports that flows have.
const PORTS: std::ops::Range<u16> = 49152..65535;

struct Flow {
    /// Which port of this machine it is at.
    door: usize,
    client: SocketAddr,
    /// Its port of the gateway.
    port: u16,
    handle: SocketHandle,
    node: IpEndpoint,
    last: Instant,
}

/// All ports and flows.
pub struct Datagrams {
    doors: Vec<(Forward, UdpSocket)>,
    flows: Vec<Flow>,
    next_port: u16,
}

impl Datagrams {
    /// These ports, and no flow yet.
    pub fn new(doors: Vec<(Forward, UdpSocket)>) -> Datagrams {
        Datagrams { doors, flows: Vec::new(), next_port: PORTS.start }
    }

    /// Passes on what has come from both sides.
    pub fn turn(&mut self, sockets: &mut SocketSet<'static>, addresses: &Addresses) {
        let now = Instant::now();
        let mut bytes = [0; LONGEST + 1];
        for door in 0..self.doors.len() {
            for _ in 0..TURN {
                let (forward, socket) = &self.doors[door];
                let Ok((count, client)) = socket.recv_from(&mut bytes) else { break };
                // A node that has no address was refused when the cluster was started.
                let Some(address) = addresses.address_of(forward.node) else { continue };
                let node = IpEndpoint::new(IpAddress::Ipv4(address), forward.to);
                if count > LONGEST {
                    continue;
                }
                let flow = self.flow(sockets, (door, client), node, now);
                let socket = sockets.get_mut::<Socket<'_>>(flow.handle);
                // What finds no room is lost, as any datagram may be.
                let _ = socket.send_slice(&bytes[..count], node);
                flow.last = now;
            }
        }
        for flow in &mut self.flows {
            let socket = sockets.get_mut::<Socket<'_>>(flow.handle);
            while let Ok((bytes, from)) = socket.recv() {
                if from.endpoint == flow.node {
                    let _ = self.doors[flow.door].1.send_to(bytes, flow.client);
                    flow.last = now;
                }
            }
        }
        for flow in self.flows.extract_if(.., |it| now.duration_since(it.last) >= IDLE) {
            sockets.remove(flow.handle);
        }
    }

    /// The flow of a client, which may be new.
    fn flow(
        &mut self,
        sockets: &mut SocketSet<'static>,
        (door, client): (usize, SocketAddr),
        node: IpEndpoint,
        now: Instant,
    ) -> &mut Flow {
        let known = self.flows.iter().position(|it| (it.door, it.client) == (door, client));
        if let Some(place) = known {
            return &mut self.flows[place];
        }
        if self.flows.len() >= MOST {
            let silent = (0..MOST).min_by_key(|place| self.flows[*place].last).unwrap_or(0);
            sockets.remove(self.flows.swap_remove(silent).handle);
        }
        let number = loop {
            let next = self.next_port;
            self.next_port = if next + 1 == PORTS.end { PORTS.start } else { next + 1 };
            if self.flows.iter().all(|it| it.port != next) {
                break next;
            }
        };
        let handle = port(sockets, number, (WAITING, WAITING_BYTES));
        self.flows.push(Flow { door, client, port: number, handle, node, last: now });
        let last = self.flows.len() - 1;
        &mut self.flows[last]
    }

    /// The sockets of this machine that datagrams come to.
    pub fn sockets(&self) -> impl Iterator<Item = &UdpSocket> {
        self.doors.iter().map(|it| &it.1)
    }

    /// How long there is nothing to do unless something comes.
    pub fn patience(&self) -> Option<Duration> {
        let first = self.flows.iter().map(|it| it.last).min()?;
        Some((first + IDLE).saturating_duration_since(Instant::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::NodeId;
    use std::net::Ipv4Addr;

    /// A port of this machine, and where it is.
    fn door() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = socket.local_addr().unwrap();
        (socket, at)
    }

    #[test]
    fn flows_are_few_and_end() {
        let (socket, at) = door();
        socket.set_nonblocking(true).unwrap();
        let forward: Forward = format!("{}:n1:7/udp", at.port()).parse().unwrap();
        assert_eq!(forward.node, NodeId(1));
        let mut datagrams = Datagrams::new(vec![(forward, socket)]);
        let mut sockets = SocketSet::new(Vec::new());
        let mut turn = |datagrams: &mut Datagrams| datagrams.turn(&mut sockets, &Addresses::USUAL);
        assert_eq!(datagrams.patience(), None);
        let clients: Vec<_> = (0..MOST + 9).map(|_| door().0).collect();
        for client in &clients {
            client.send_to(b"hello", at).unwrap();
            turn(&mut datagrams);
        }
        assert_eq!(datagrams.flows.len(), MOST);
        let first = clients[0].local_addr().unwrap();
        assert!(datagrams.flows.iter().all(|it| it.client != first), "it was silent for longest");
        clients[MOST + 8].send_to(&[0; LONGEST + 1], at).unwrap();
        clients[MOST + 8].send_to(b"hello", at).unwrap();
        turn(&mut datagrams);
        assert_eq!(datagrams.flows.len(), MOST, "it has one");
        let mut ports: Vec<u16> = datagrams.flows.iter().map(|it| it.port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), MOST);
        assert!(datagrams.patience().is_some_and(|it| it <= IDLE));
        for flow in &mut datagrams.flows {
            flow.last -= IDLE;
        }
        turn(&mut datagrams);
        assert_eq!((datagrams.flows.len(), sockets.iter().count()), (0, 0));
    }
}
