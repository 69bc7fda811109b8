//! A package that joins connections: each that comes to its port with one that it opens to another
//! address, until both sides have sent all that they had. What passes is not looked at, so any
//! protocol over TCP goes through it.
//!
//! Its argument is `PORT TO`: the port, and `HOST:PORT` with a name, an address of IPv4, or one of
//! IPv6 in brackets. The connections end with the package, as its next incarnation could not tell
//! which of them were joined.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::rc::Rc;
use alloc::string::String;
use core::convert::Infallible;

use nile_abi::call::System;
use nile_user::log;
use nile_user::net::{self, NetResult, Network, TcpListener, TcpStream};

/// Bytes that go on at once.
const PIECE: usize = 4096;

/// Serves until it is stopped.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some((port, to)) = parse(argument) else {
        let _ = log!(system, "the argument is to be a port and HOST:PORT, as 2222 10.42.0.1:22");
        return net::NO_PORT;
    };
    net::run(system, "relay", net::CONNECTIONS, |network, _| serve(network, port, to))
}

fn parse(argument: &[u8]) -> Option<(u16, &str)> {
    let mut words = core::str::from_utf8(argument).ok()?.split_whitespace();
    let (port, to) = (words.next()?.parse().ok()?, words.next()?);
    let is_place = to.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    (port > 0 && is_place && words.next().is_none()).then_some((port, to))
}

fn serve(network: &Network<'_>, port: u16, to: &str) -> NetResult<Infallible> {
    let listener = TcpListener::bind(network, port)?;
    loop {
        let came = listener.accept()?;
        let (network, to) = (network.clone(), String::from(to));
        // What fails has ended, at both ends.
        network.clone().runtime().spawn(move |_| join(&network, came, &to));
    }
}

/// Joins a connection that came with one to another address.
fn join<'s>(network: &Network<'s>, came: TcpStream<'s>, to: &str) {
    let log = came.log();
    // An earlier incarnation has joined it.
    let is_new = log.consumed() == 0 && log.produced() == 0;
    let Some(opened) = is_new.then(|| TcpStream::connect(network, to).ok()).flatten() else {
        return came.abort();
    };
    let ends = Rc::new((came, opened));
    let others = ends.clone();
    network.runtime().spawn(move |_| pass(&others.1, &others.0));
    pass(&ends.0, &ends.1);
}

/// Passes on what comes from one end to the other, and then that nothing comes any more.
fn pass(from: &TcpStream<'_>, to: &TcpStream<'_>) {
    if copy(from, to).is_ok() {
        return to.shutdown();
    }
    from.abort();
    to.abort();
}

fn copy(from: &TcpStream<'_>, to: &TcpStream<'_>) -> NetResult<()> {
    let mut bytes = [0; PIECE];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            count => to.write_all(&bytes[..count])?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_a_port_and_a_place() {
        assert_eq!(parse(b"2222 10.42.0.1:22"), Some((2222, "10.42.0.1:22")));
        assert_eq!(parse(b" 80  [fd42::1]:8080 "), Some((80, "[fd42::1]:8080")));
        assert_eq!(parse(b"80 n1.nile:80"), Some((80, "n1.nile:80")));
        for wrong in ["", "80", "0 a:1", "80 a", "80 a:b", "80 a:1 2", "65536 a:1", "a a:1"] {
            assert_eq!(parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(parse(&[0xff]), None);
    }
}
