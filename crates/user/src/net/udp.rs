//! Datagrams.

use core::cell::Cell;
use core::net::SocketAddrV4;
use core::time::Duration;

use nile_net::OWN_PORTS;

use super::{NetError, NetResult, Network};

/// A port for datagrams; it is free again with the value. Datagrams that come while the package
/// begins anew may be lost, as any may.
pub struct UdpSocket<'s> {
    network: Network<'s>,
    port: u16,
    timeout: Cell<Option<Duration>>,
}

impl<'s> UdpSocket<'s> {
    /// Takes datagrams to `port`, or to one that is free for 0. [`NetError::PortTaken`] if there
    /// is a socket. Does not block.
    pub fn bind(network: &Network<'s>, port: u16) -> NetResult<UdpSocket<'s>> {
        let mut stack = network.0.stack.borrow_mut();
        let mut free = OWN_PORTS;
        let bound = match port {
            0 => free.find(|port| stack.bind(*port)),
            port => stack.bind(port).then_some(port),
        };
        let port = bound.ok_or(NetError::PortTaken(port))?;
        Ok(UdpSocket { network: network.clone(), port, timeout: Cell::new(None) })
    }

    /// How long an operation may wait: for ever, unless it is said.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.timeout.set(timeout);
    }

    /// The address and the port.
    pub fn local_addr(&self) -> SocketAddrV4 {
        SocketAddrV4::new(self.network.address(), self.port)
    }

    /// Takes the next datagram: how many bytes, and who has sent it. What does not fit is lost.
    /// Waits for one.
    pub fn recv_from(&self, bytes: &mut [u8]) -> NetResult<(usize, SocketAddrV4)> {
        self.network.wait(self.timeout.get(), |stack, _| {
            let datagram = stack.take(self.port)?;
            let count = datagram.bytes.len().min(bytes.len());
            bytes[..count].copy_from_slice(&datagram.bytes[..count]);
            Some(Ok((count, datagram.from)))
        })
    }

    /// Sends a datagram. [`NetError::TooLong`] if it does not go in one packet. Waits while many
    /// frames wait to be sent.
    pub fn send_to(&self, bytes: &[u8], to: SocketAddrV4) -> NetResult<()> {
        self.network.wait(self.timeout.get(), |stack, now| {
            if stack.waiting() >= WAITING {
                return None;
            }
            let most = stack.max_datagram();
            let sent = stack.send(now, self.port, to, bytes);
            Some(if sent { Ok(()) } else { Err(NetError::TooLong(most)) })
        })
    }
}

/// Frames that may wait to be sent before a socket waits.
const WAITING: usize = 64;

impl Drop for UdpSocket<'_> {
    fn drop(&mut self) {
        self.network.0.stack.borrow_mut().unbind(self.port);
    }
}
