//! A package that has a dataset of another node over HTTP, and checks its bytes: tests of the
//! network run it with a stock smoltcp interface, as a client whose TCP is not that of
//! `crates/net`, and with the [sockets](nile_user::net) of packages.
//!
//! Its argument is `NODE PORT NAME BYTES CLIENT`, the last either `stock`, `own`, or `named`:
//! that is `own`, which has the node's address by its name; the first two with a `6` behind them
//! for IPv6, between the addresses of the link. The dataset's bytes are those of
//! [`byte`]. It exits with 0 when it has had all of them, and none other. If it has not, it says so
//! in the log and stays: a second attempt would hide the first one.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod link;
mod own;
mod stock;

use alloc::vec::Vec;
use core::net::IpAddr;

use nile_abi::call::System;
use nile_abi::ip::Addresses;
use nile_abi::{CoreId, MacAddress, NodeId};
use nile_net::own::link_address;
use nile_user::net::NetError;
use nile_user::{Runtime, log, with_services};

/// What went wrong: the argument is wrong, a call has failed, the connection has, the head is not
/// that of the dataset, or the bytes are not.
const WRONG: u64 = 1;
const NO_SERVICE: u64 = 2;
const BROKEN: u64 = 3;
const REFUSED: u64 = 4;
const DIFFERENT: u64 = 5;

/// The byte at a place of the dataset that is had.
pub fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

/// Whose TCP it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Client {
    /// That of another project.
    Stock,
    /// That of the sockets of packages.
    Own,
    /// The same, and the node's address is looked up.
    Named,
}

/// What is to be had.
struct Wanted<'a> {
    node: NodeId,
    port: u16,
    name: &'a str,
    bytes: u64,
    client: Client,
    is_v6: bool,
}

impl<'a> Wanted<'a> {
    fn parse(argument: &'a [u8]) -> Option<Wanted<'a>> {
        let mut words = core::str::from_utf8(argument).ok()?.split(' ');
        let (argument, is_v6) = (words.clone().nth(4)?, argument.ends_with(b"6"));
        Some(Wanted {
            node: NodeId(words.next()?.parse().ok()?),
            port: words.next()?.parse().ok()?,
            name: words.next()?,
            bytes: words.next()?.parse().ok()?,
            client: match argument.strip_suffix('6').unwrap_or(argument) {
                "stock" => Client::Stock,
                "own" => Client::Own,
                "named" => Client::Named,
                _ => return None,
            },
            is_v6,
        })
    }

    /// The node's address.
    fn address(&self) -> Option<IpAddr> {
        match self.is_v6 {
            true => Some(link_address(MacAddress::local(self.node, 0)).into()),
            false => Addresses::USUAL.address_of(self.node).map(IpAddr::V4),
        }
    }
}

/// Has what the argument says.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some(wanted) = Wanted::parse(argument) else { return WRONG };
    let runtime = Runtime::new(system);
    with_services(&runtime, CoreId(0), |services| {
        let said = match wanted.client {
            Client::Stock => {
                services.block_on(stock::fetch(services, &wanted)).map_err(NetError::from)
            }
            Client::Own | Client::Named => own::fetch(&runtime, services, &wanted),
        };
        let code = said.unwrap_or_else(|error| {
            let _ = log!(system, "{error}");
            NO_SERVICE
        });
        if code != 0 {
            let _ = log!(system, "it has not had {}: {code}", wanted.name);
            runtime.park();
        }
        code
    })
}

/// What has come.
#[derive(Default)]
struct Had {
    head: Vec<u8>,
    is_body: bool,
    bytes: u64,
    is_wrong: bool,
}

impl Had {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.is_body {
                self.is_wrong |= *byte != self::byte(self.bytes);
                self.bytes += 1;
            } else {
                self.head.push(*byte);
                self.is_body = self.head.ends_with(b"\r\n\r\n");
            }
        }
    }

    /// What it comes to if so many bytes were to be had.
    fn end(&self, bytes: u64) -> u64 {
        match (self.head.starts_with(b"HTTP/1.1 200 "), self.is_wrong) {
            (true, false) if self.bytes == bytes => 0,
            (true, false) => BROKEN,
            (true, true) => DIFFERENT,
            (false, _) if self.head.is_empty() => BROKEN,
            (false, _) => REFUSED,
        }
    }
}
