//! Connections.

use core::cell::Cell;
use core::fmt;
use core::net::{Ipv6Addr, SocketAddr};
use core::time::Duration;

use nile_net::apart::Asked;
use nile_net::{Peer, Stream};

use super::{NetError, NetResult, Network, ToSocketAddrs, Way};

/// A port that connections are taken to; the port is free again with the value.
pub struct TcpListener<'s> {
    network: Network<'s>,
    port: u16,
}

/// A connection. It is closed with the value: what was written is still sent, and what has come is
/// dropped. An operation that waits has only the calling thread wait.
pub struct TcpStream<'s> {
    network: Network<'s>,
    stream: Stream<'s>,
    serial: u64,
    peer: Peer,
    timeout: Cell<Option<Duration>>,
}

impl<'s> TcpListener<'s> {
    /// Takes connections to `port` of IPv4 and IPv6. [`NetError::PortTaken`] if there is a
    /// listener. Waits for `net`, if the network is its own.
    pub fn bind(network: &Network<'s>, port: u16) -> NetResult<TcpListener<'s>> {
        let is_free = match &network.0.way {
            Way::Own(own) => own.listen(port),
            Way::Apart(apart) => {
                let is_new = apart.user.borrow().listens(port).is_none();
                if is_new {
                    apart.user.borrow_mut().listen(port);
                }
                let asked = |_| match apart.user.borrow().listens(port) {
                    Some(Asked::Waits) => None,
                    other => Some(Ok(other == Some(Asked::Done))),
                };
                let has_it = is_new && network.wait(None, asked)?;
                if is_new && !has_it {
                    apart.user.borrow_mut().unlisten(port);
                }
                has_it
            }
        };
        match is_free {
            true => Ok(TcpListener { network: network.clone(), port }),
            false => Err(NetError::PortTaken(port)),
        }
    }

    /// The next connection. Waits for one.
    pub fn accept(&self) -> NetResult<TcpStream<'s>> {
        self.network.wait(None, |_| {
            let stream = self.network.0.accept(self.port)?;
            Some(Ok(TcpStream::of(&self.network, stream)))
        })
    }

    /// The port, of all addresses.
    pub fn local_addr(&self) -> SocketAddr {
        SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), self.port)
    }
}

impl Drop for TcpListener<'_> {
    fn drop(&mut self) {
        if self.network.is_alive() {
            self.network.0.unlisten(self.port);
        }
    }
}

impl<'s> TcpStream<'s> {
    fn of(network: &Network<'s>, stream: Stream<'s>) -> TcpStream<'s> {
        let (serial, peer) = (stream.serial(), stream.peer());
        TcpStream { network: network.clone(), stream, serial, peer, timeout: Cell::new(None) }
    }

    /// Opens a connection to the first of the addresses of `to` that takes it: an address, or a
    /// name that is [looked up](super::lookup). Waits until the other side takes it, refuses it
    /// ([`NetError::Refused`]), or has not answered for about 15 seconds
    /// ([`NetError::NoAnswer`]).
    pub fn connect(network: &Network<'s>, to: impl ToSocketAddrs) -> NetResult<TcpStream<'s>> {
        let all = to.to_socket_addrs(network)?;
        let (last, others) = all.split_last().expect("there is at least one");
        for to in others {
            if let Ok(stream) = TcpStream::open(network, *to) {
                return Ok(stream);
            }
        }
        TcpStream::open(network, *last)
    }

    fn open(network: &Network<'s>, to: SocketAddr) -> NetResult<TcpStream<'s>> {
        let attempt = network.0.connect(to)?;
        let stream = network.wait(None, |_| network.0.progress(attempt, to))?;
        Ok(TcpStream::of(network, stream))
    }

    /// How long an operation may wait: for ever, unless it is said.
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.timeout.set(timeout);
    }

    /// The other side's address and port.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer.remote()
    }

    /// This side's.
    pub fn local_addr(&self) -> SocketAddr {
        SocketAddr::new(self.network.own_to(self.peer.address), self.peer.local)
    }

    /// The connection's memory: for packages whose next incarnation goes on with it. It is this
    /// connection's until [`wait`](Self::wait) says that it has failed.
    pub fn log(&self) -> Stream<'s> {
        self.stream
    }

    /// Waits until `look` finds something in the connection's memory. [`NetError::Reset`] if the
    /// connection fails, [`NetError::TimedOut`] after the socket's timeout.
    pub fn wait<T>(&self, mut look: impl FnMut(&Stream<'s>) -> Option<T>) -> NetResult<T> {
        self.network.wait(self.timeout.get(), |_| match self.stream.serial() == self.serial {
            true => look(&self.stream).map(Ok),
            false => Some(Err(NetError::Reset)),
        })
    }

    /// Takes what has come, as much as there is room for; how many bytes, 0 if the other side
    /// sends no more. Waits for the first one.
    pub fn read(&self, bytes: &mut [u8]) -> NetResult<usize> {
        self.wait(|stream| {
            let count = stream.peek(bytes);
            stream.consume(stream.consumed() + count as u64);
            (count > 0 || bytes.is_empty() || stream.has_ended()).then_some(count)
        })
    }

    /// Fills `bytes`. [`NetError::TooShort`] if less comes.
    pub fn read_exact(&self, bytes: &mut [u8]) -> NetResult<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.read(&mut bytes[done..])? {
                0 => return Err(NetError::TooShort),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Gives bytes to be sent, as many as there is room for; how many. Waits for room.
    pub fn write(&self, bytes: &[u8]) -> NetResult<usize> {
        self.wait(|stream| {
            if stream.is_closed() {
                return Some(Err(NetError::Shut));
            }
            let count = stream.stage(0, bytes);
            stream.produce(stream.produced() + count as u64);
            (count > 0 || bytes.is_empty()).then_some(Ok(count))
        })?
    }

    /// Gives all of `bytes` to be sent.
    pub fn write_all(&self, bytes: &[u8]) -> NetResult<()> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.write(&bytes[done..])?;
        }
        Ok(())
    }

    /// Sends no more behind what was written; what comes can still be read. Does not block.
    pub fn shutdown(&self) {
        if self.stream.serial() == self.serial {
            self.stream.shut();
            self.network.0.flush();
        }
    }

    /// Ends the connection at once: the other side is told that it has failed.
    pub fn abort(&self) {
        if self.stream.serial() == self.serial {
            self.stream.abort();
            self.network.0.flush();
        }
    }
}

impl Drop for TcpStream<'_> {
    fn drop(&mut self) {
        if self.stream.serial() == self.serial && self.network.is_alive() {
            self.stream.close();
            self.network.0.flush();
        }
    }
}

impl fmt::Debug for TcpStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TcpStream({} to {})", self.local_addr(), self.peer_addr())
    }
}
