//! What can go wrong with sockets.

use alloc::string::String;
use core::fmt;
use core::net::SocketAddr;

use nile_net::lookup::NameError;
use nile_stl::CallError;

use crate::KeepError;

/// Why an operation on a socket has failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetError {
    /// Somebody has the port.
    PortTaken(u16),
    /// All ports for connections to this peer are in use.
    NoPort(SocketAddr),
    /// The other side takes no connections there.
    Refused(SocketAddr),
    /// Nobody answers there.
    NoAnswer(SocketAddr),
    /// The name has no address.
    Name(String, NameError),
    /// Nobody is known who could be asked for a name: the network has no address yet, or no
    /// resolver.
    NoResolver,
    /// The connection has failed: the other side says so, or says nothing any more.
    Reset,
    /// This side has said that it sends no more.
    Shut,
    /// The other side has sent all that it sends, and that is too little.
    TooShort,
    /// It has taken longer than the socket's timeout.
    TimedOut,
    /// A datagram has at most so many bytes.
    TooLong(usize),
    /// The memory of connections cannot be had.
    Keep(KeepError),
    /// A service that the network needs has failed.
    Call(CallError),
}

impl From<CallError> for NetError {
    fn from(error: CallError) -> NetError {
        NetError::Call(error)
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NetError::PortTaken(port) => write!(f, "port {port} is taken: close its socket first"),
            NetError::NoPort(to) => write!(f, "all ports for connections to {to} are in use"),
            NetError::Refused(to) => write!(f, "{to} takes no connections: nobody listens there"),
            NetError::NoAnswer(to) => write!(f, "{to} does not answer"),
            NetError::Name(name, why) => write!(f, "`{name}`: {why}"),
            NetError::NoResolver => write!(f, "nobody is known who could be asked for a name"),
            NetError::Reset => write!(f, "the connection has failed at the other side"),
            NetError::Shut => write!(f, "the connection was shut by this side"),
            NetError::TooShort => write!(f, "the other side has ended the connection too early"),
            NetError::TimedOut => write!(f, "it has taken longer than the socket's timeout"),
            NetError::TooLong(most) => write!(f, "a datagram has at most {most} bytes here"),
            NetError::Keep(error) => write!(f, "no memory for connections: {error}"),
            NetError::Call(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for NetError {}
