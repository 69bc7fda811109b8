//! A package that gives back what it is sent (RFC 862), over TCP and UDP: the smallest server. Each
//! byte of a connection comes back once, whenever the package is stopped: what was given back is
//! what was taken, and both are in the connection's memory.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

use core::convert::Infallible;

use nile_abi::call::System;
use nile_user::net::{self, NetResult, Network, TcpListener, TcpStream, UdpSocket};

/// The port if the argument names none.
const PORT: u16 = 7;

/// Bytes that go back at once; the longest datagram is shorter.
const PIECE: usize = 2048;

/// Serves until it is stopped. The argument is the port, or nothing for 7; behind it there may be
/// how many connections there can be at once.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    net::serve(system, ("echo", PORT), argument, |network, _, port| serve(network, port))
}

fn serve(network: &Network<'_>, port: u16) -> NetResult<Infallible> {
    let socket = UdpSocket::bind(network, port)?;
    network.runtime().spawn(move |_| {
        let mut bytes = [0; PIECE];
        // The network fails for the listener, too, which says so.
        while let Ok((count, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&bytes[..count], from);
        }
    });
    let listener = TcpListener::bind(network, port)?;
    loop {
        let stream = listener.accept()?;
        // What fails has ended.
        network.runtime().spawn(move |_| give_back(&stream).ok());
    }
}

/// Gives back all that comes. That as much was given back as was taken is all its state.
fn give_back(stream: &TcpStream<'_>) -> NetResult<()> {
    let mut bytes = [0; PIECE];
    loop {
        let count = stream.wait(|log| {
            log.consume(log.produced());
            let room = log.room().min(PIECE);
            let count = log.peek(&mut bytes[..room]);
            (count > 0 || log.has_ended() && log.readable() == 0).then_some(count)
        })?;
        if count == 0 {
            return Ok(());
        }
        stream.write_all(&bytes[..count])?;
    }
}
