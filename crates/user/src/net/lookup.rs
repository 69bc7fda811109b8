//! Addresses of names: what the network's resolver says.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use core::time::Duration;

use nile_net::lookup::{Kind, NameError, PORT, Question};

use super::{NetError, NetResult, Network, UdpSocket};

/// How long a question may wait for its answer before it is asked again, each in its turn.
const TRIES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];

/// How long it is waited for an address to ask from.
const BEGINS: Duration = Duration::from_secs(10);

/// Bytes of the longest answer that is taken.
const LONGEST: usize = 1500;

/// The addresses of a name, at least one: those that it is itself, or that the network's resolver
/// says. Those of IPv6 are behind the others, and are asked for by a network that has one to speak
/// from. Waits for the answers, and before that for an address to ask from.
pub fn lookup(network: &Network<'_>, name: &str) -> NetResult<Vec<IpAddr>> {
    if let Ok(address) = name.parse() {
        return Ok(vec![address]);
    }
    let wrong = |why| NetError::Name(name.to_string(), why);
    let ask = |kind| Question::new(name, kind, network.draw() as u16).map_err(wrong);
    let question = ask(Kind::V4)?;
    let known = |_| network.resolver().filter(|_| !network.address().is_unspecified()).map(Ok);
    let resolver = network.wait(Some(BEGINS), known).map_err(|error| match error {
        NetError::TimedOut => NetError::NoResolver,
        other => other,
    })?;
    let server = SocketAddr::new(resolver.into(), PORT);
    let socket = UdpSocket::bind(network, 0)?;
    let found = answer(&socket, server, &question)?.map_err(wrong);
    if network.own().is_none_or(|it| it.wide.is_unspecified()) {
        return found;
    }
    // What the resolver does not say of one kind is no reason to have none of the other.
    let others = answer(&socket, server, &ask(Kind::V6)?).ok().and_then(Result::ok);
    match (found, others) {
        (Ok(found), others) => Ok(found.into_iter().chain(others.into_iter().flatten()).collect()),
        (Err(_), Some(others)) => Ok(others),
        (Err(error), None) => Err(error),
    }
}

/// What a server says to a question; it is asked again while it says nothing.
fn answer(
    socket: &UdpSocket<'_>,
    server: SocketAddr,
    question: &Question,
) -> NetResult<Result<Vec<IpAddr>, NameError>> {
    let mut bytes = vec![0; LONGEST];
    for patience in TRIES {
        socket.set_timeout(Some(patience));
        socket.send_to(question.bytes(), server)?;
        loop {
            match socket.recv_from(&mut bytes) {
                Ok((count, from)) if from == server => {
                    if let Some(said) = question.answer(&bytes[..count]) {
                        return Ok(said);
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

/// What names an address and a port, as `std::net` has it: `("n2", 80)`, `"n2.cluster:80"`,
/// `"[fd42::2]:80"`.
pub trait ToSocketAddrs {
    /// The addresses, at least one. Waits for the answer if a name is to be looked up.
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddr>>;
}

impl ToSocketAddrs for SocketAddr {
    fn to_socket_addrs(&self, _: &Network<'_>) -> NetResult<Vec<SocketAddr>> {
        Ok(vec![*self])
    }
}

/// What is an address and a port itself.
macro_rules! are_addresses {
    ($($kind:ty),*) => {$(
        impl ToSocketAddrs for $kind {
            fn to_socket_addrs(&self, _: &Network<'_>) -> NetResult<Vec<SocketAddr>> {
                Ok(vec![SocketAddr::from(*self)])
            }
        }
    )*};
}

are_addresses!(SocketAddrV4, SocketAddrV6, (IpAddr, u16), (Ipv4Addr, u16), (Ipv6Addr, u16));

impl ToSocketAddrs for (&str, u16) {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddr>> {
        let found = lookup(network, self.0)?;
        Ok(found.into_iter().map(|it| SocketAddr::new(it, self.1)).collect())
    }
}

impl ToSocketAddrs for str {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddr>> {
        if let Ok(address) = self.parse::<SocketAddr>() {
            return Ok(vec![address]);
        }
        let parts = self.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?)));
        let wrong = || NetError::Name(self.into(), NameError::Malformed);
        parts.ok_or_else(wrong)?.to_socket_addrs(network)
    }
}

impl ToSocketAddrs for String {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddr>> {
        self.as_str().to_socket_addrs(network)
    }
}

impl<T: ToSocketAddrs + ?Sized> ToSocketAddrs for &T {
    fn to_socket_addrs(&self, network: &Network<'_>) -> NetResult<Vec<SocketAddr>> {
        (**self).to_socket_addrs(network)
    }
}
