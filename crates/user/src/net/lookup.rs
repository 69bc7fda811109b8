//! Addresses of names: what the network's resolver says.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, SocketAddrV4};
use core::time::Duration;

use nile_net::lookup::{NameError, PORT, Question};

use super::{NetError, NetResult, Network, UdpSocket};

/// How long a question may wait for its answer before it is asked again, each in its turn.
const TRIES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// How long it is waited for an address to ask from.
const BEGINS: Duration = Duration::from_secs(10);

/// Bytes of the longest answer that is taken.
const LONGEST: usize = 1500;

/// The IPv4 addresses of a name, at least one: those that it is itself, or that the network's
/// resolver says. Waits for the answer, and before that for an address to ask from.
pub fn lookup(network: &Network<'_>, name: &str) -> NetResult<Vec<Ipv4Addr>> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let wrong = |why| NetError::Name(name.to_string(), why);
    let question = Question::new(name, network.draw() as u16).map_err(wrong)?;
    let known = |_| network.resolver().filter(|_| !network.address().is_unspecified()).map(Ok);
    let resolver = network.wait(Some(BEGINS), known).map_err(|error| match error {
        NetError::TimedOut => NetError::NoResolver,
        other => other,
    })?;
    let server = SocketAddrV4::new(resolver, PORT);
    let socket = UdpSocket::bind(network, 0)?;
    let mut bytes = vec![0; LONGEST];
    for patience in TRIES {
        socket.set_timeout(Some(patience));
        socket.send_to(question.bytes(), server)?;
        loop {
            match socket.recv_from(&mut bytes) {
                Ok((count, from)) if from == server => {
                    if let Some(said) = question.answer(&bytes[..count]) {
                        return said.map_err(wrong);
                    }
                }
                Ok(_) => {}
                Err(NetError::TimedOut) => break,
                Err(error) => return Err(error),
            }
        }
    }
    Err(NetError::NoAnswer(server))
}

/// What names an address and a port, as `std::net` has it: `("n2", 80)`, `"n2.cluster:80"`.
pub trait ToSocketAddrs {
    /// The addresses, at least one. Waits for the answer if a name is to be looked up.
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddrV4>>;
}

impl ToSocketAddrs for SocketAddrV4 {
    fn to_socket_addrs(&self, _: &Network<'_>) -> NetResult<Vec<SocketAddrV4>> {
        Ok(vec![*self])
    }
}

impl ToSocketAddrs for (Ipv4Addr, u16) {
    fn to_socket_addrs(&self, _: &Network<'_>) -> NetResult<Vec<SocketAddrV4>> {
        Ok(vec![SocketAddrV4::new(self.0, self.1)])
    }
}

impl ToSocketAddrs for (&str, u16) {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddrV4>> {
        let found = lookup(network, self.0)?;
        Ok(found.into_iter().map(|it| SocketAddrV4::new(it, self.1)).collect())
    }
}

impl ToSocketAddrs for str {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddrV4>> {
        let parts = self.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
        let wrong = || NetError::Name(self.into(), NameError::Malformed);
        parts.ok_or_else(wrong)?.to_socket_addrs(network)
    }
}

impl ToSocketAddrs for String {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddrV4>> {
        self.as_str().to_socket_addrs(network)
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddrV4>> {
        (**self).to_socket_addrs(network)
    }
}
