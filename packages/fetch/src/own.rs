//! The same by the sockets of packages, whose TCP is that of `crates/net`.

use alloc::format;

use nile_user::net::{NetError, NetResult, Network, TcpStream};
use nile_user::{Runtime, Services};

use crate::{BROKEN, Client, Had, REFUSED, WRONG, Wanted};

/// Connections that it has memory for: one, and those of incarnations before that are not over.
const CONNECTIONS: usize = 4;

/// Bytes that are taken at once.
const PIECE: usize = 4 << 10;

/// Has what is wanted; the exit code.
pub fn fetch(runtime: &Runtime<'_>, services: &Services, wanted: &Wanted<'_>) -> NetResult<u64> {
    let network = Network::open(runtime, services, "fetch", CONNECTIONS)?;
    let opened = match wanted.client {
        Client::Named => {
            let name = format!("{}.cluster", wanted.node);
            TcpStream::connect(&network, (&*name, wanted.port))
        }
        Client::Stock | Client::Own => {
            let Some(address) = wanted.address() else { return Ok(WRONG) };
            TcpStream::connect(&network, (address, wanted.port))
        }
    };
    let stream = match opened {
        Err(NetError::Refused(_) | NetError::NoAnswer(_)) => return Ok(REFUSED),
        opened => opened?,
    };
    stream.write_all(format!("GET /data/{} HTTP/1.0\r\n\r\n", wanted.name).as_bytes())?;
    // It asks for no more, and reads on.
    stream.shutdown();
    let mut had = Had::default();
    let mut bytes = [0; PIECE];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(had.end(wanted.bytes)),
            Ok(count) => had.take(&bytes[..count]),
            Err(NetError::Reset) => return Ok(BROKEN),
            Err(error) => return Err(error),
        }
    }
}
