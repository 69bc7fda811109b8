//! Datagrams.

use core::cell::Cell;
use core::net::{Ipv6Addr, SocketAddr};
use core::time::Duration;

use nile_net::OWN_PORTS;
use nile_net::apart::Asked;

use super::{NetError, NetResult, Network, Way};

/// A port for datagrams; it is free again with the value. Datagrams that come while the package
/// begins anew may be lost, as any may.
pub struct UdpSocket<'s> {
    network: Network<'s>,
    port: u16,
    timeout: Cell<Option<Duration>>,
}

impl<'s> UdpSocket<'s> {
    /// Takes datagrams to `port` of IPv4 and IPv6, or to one that is free for 0.
    /// [`NetError::PortTaken`] if there is a socket. Waits for `net`, if the network is its own.
    pub fn bind(network: &Network<'s>, port: u16) -> NetResult<UdpSocket<'s>> {
        let bound = match &network.0.way {
            Way::Own(own) => {
                let mut stack = own.stack.borrow_mut();
                let mut free = OWN_PORTS;
                match port {
                    0 => free.find(|port| stack.bind(*port)),
                    port => stack.bind(port).then_some(port),
                }
            }
            Way::Apart(apart) => {
                let request = apart.user.borrow_mut().bind(port);
                network.wait(None, |_| match apart.user.borrow_mut().asked(request) {
                    (Asked::Waits, _) => None,
                    (Asked::Done, port) => Some(Ok(Some(port as u16))),
                    _ => Some(Ok(None)),
                })?
            }
        };
        let port = bound.ok_or(NetError::PortTaken(port))?;
        Ok(UdpSocket { network: network.clone(), port, timeout: Cell::new(None) })
    }

    /// How long an operation may wait: for ever, unless it is said.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.timeout.set(timeout);
    }

    /// The port, of all addresses.
    pub fn local_addr(&self) -> SocketAddr {
        SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), self.port)
    }

    /// Takes the next datagram: how many bytes, and who has sent it. What does not fit is lost.
    /// Waits for one.
    pub fn recv_from(&self, bytes: &mut [u8]) -> NetResult<(usize, SocketAddr)> {
        self.network.wait(self.timeout.get(), |_| {
            let datagram = self.network.0.take(self.port)?;
            let count = datagram.bytes.len().min(bytes.len());
            bytes[..count].copy_from_slice(&datagram.bytes[..count]);
            Some(Ok((count, datagram.from)))
        })
    }

    /// Sends a datagram. [`NetError::TooLong`] if it does not go in one packet. Waits while many
    /// frames wait to be sent.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddr) -> NetResult<()> {
        self.network.wait(self.timeout.get(), |_| self.network.0.send(self.port, to, bytes))
    }
}

impl Drop for UdpSocket<'_> {
    fn drop(&mut self) {
        self.network.0.unbind(self.port);
    }
}
