//! A package that has a dataset of another node over HTTP, with a stock smoltcp interface, and
//! checks its bytes: tests of the network run it as a client whose TCP is not that of `crates/net`.
//!
//! Its argument is `NODE PORT NAME BYTES`: the dataset's bytes are those of [`byte`]. It exits with
//! 0 when it has had all of them, and none other. If it has not, it says so in the log and stays: a
//! second attempt would hide the first one.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod link;

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::call::System;
use nile_abi::{CoreId, Instant, MacAddress, NodeId, ip};
use nile_interfaces::frames::FramesClient;
use nile_net::{Queues, engine_time};
use nile_stl::CallResult;
use nile_user::{Runtime, Services, log, with_services};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

/// What went wrong: the argument is wrong, a call has failed, the connection has, the head is not
/// that of the dataset, or the bytes are not.
const WRONG: u64 = 1;
const NO_SERVICE: u64 = 2;
const BROKEN: u64 = 3;
const REFUSED: u64 = 4;
const DIFFERENT: u64 = 5;

/// Bytes of each of the socket's buffers.
const BUFFER: usize = 32 << 10;

/// How long it waits for frames before it looks at its timers.
const LOOK: Duration = Duration::from_millis(50);

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The byte at a place of the dataset that is had.
pub fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

/// What is to be had.
struct Wanted<'a> {
    node: NodeId,
    port: u16,
    name: &'a str,
    bytes: u64,
}

impl<'a> Wanted<'a> {
    fn parse(argument: &'a [u8]) -> Option<Wanted<'a>> {
        let mut words = core::str::from_utf8(argument).ok()?.split(' ');
        Some(Wanted {
            node: NodeId(words.next()?.parse().ok()?),
            port: words.next()?.parse().ok()?,
            name: words.next()?,
            bytes: words.next()?.parse().ok()?,
        })
    }
}

/// Has what the argument says.
pub fn main(system: &dyn System, argument: &[u8]) -> u64 {
    let Some(wanted) = Wanted::parse(argument) else { return WRONG };
    let runtime = Runtime::new(system);
    with_services(&runtime, CoreId(0), |services| {
        let code = services.block_on(fetch(services, &wanted)).unwrap_or_else(|error| {
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

async fn fetch(services: &Services, wanted: &Wanted<'_>) -> CallResult<u64> {
    let stl = services.stl().with_patience(PATIENCE);
    let host = stl.host().clone();
    let frames = FramesClient::find(&stl).await?;
    let attached = frames.attach().await?;
    let addresses = (ip::address_of(NodeId(attached.node)), ip::address_of(wanted.node));
    let (Some(own), Some(other)) = addresses else { return Ok(WRONG) };
    let [_, _, mac @ ..] = attached.mac.to_be_bytes();
    let mut link = Queues::of_frames((attached.max_frame as usize).min(1514), usize::MAX);
    let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(MacAddress(mac).0)));
    config.random_seed = attached.seed;
    let now = || engine_time(host.now());
    let mut interface = Interface::new(config, &mut link, now());
    interface.update_ip_addrs(|all| {
        let _ = all.push(IpCidr::new(IpAddress::Ipv4(own), ip::PREFIX));
    });
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    let port = 49152 + (attached.salt % 16000) as u16;
    let to = (IpAddress::Ipv4(other), wanted.port);
    if socket.connect(interface.context(), to, port).is_err() {
        return Ok(BROKEN);
    }
    let mut sockets = SocketSet::new(Vec::new());
    let handle = sockets.add(socket);
    let request = format!("GET /data/{} HTTP/1.0\r\n\r\n", wanted.name);
    let mut asked = 0;
    let mut had = Had { head: Vec::new(), is_body: false, bytes: 0, is_right: true };
    loop {
        interface.poll(now(), &mut link, &mut sockets);
        let socket = sockets.get_mut::<Socket<'static>>(handle);
        if socket.may_send() && asked < request.len() {
            asked += socket.send_slice(&request.as_bytes()[asked..]).unwrap_or(0);
        }
        while socket.can_recv() {
            let _ = socket.recv(|bytes| {
                had.take(bytes);
                (bytes.len(), ())
            });
        }
        if had.is_body && had.bytes == wanted.bytes || !had.is_right {
            socket.close();
        }
        let state = socket.state();
        interface.poll(now(), &mut link, &mut sockets);
        let patience = wait(&mut interface, host.now(), &sockets);
        link::exchange(&mut link, &frames, attached.ticket, patience).await?;
        if matches!(state, State::Closed | State::TimeWait) {
            return Ok(had.end(wanted.bytes));
        }
    }
}

/// How long there is nothing to do.
fn wait(interface: &mut Interface, now: Instant, sockets: &SocketSet<'_>) -> Duration {
    let delay = interface.poll_delay(engine_time(now), sockets);
    delay.map_or(LOOK, |delay| Duration::from_micros(delay.total_micros())).min(LOOK)
}

/// What has come.
struct Had {
    head: Vec<u8>,
    is_body: bool,
    bytes: u64,
    is_right: bool,
}

impl Had {
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if self.is_body {
                self.is_right &= *byte == self::byte(self.bytes);
                self.bytes += 1;
            } else {
                self.head.push(*byte);
                self.is_body = self.head.ends_with(b"\r\n\r\n");
            }
        }
    }

    /// What it comes to if so many bytes were to be had.
    fn end(&self, bytes: u64) -> u64 {
        match (self.head.starts_with(b"HTTP/1.1 200 "), self.is_right) {
            (true, true) if self.bytes == bytes => 0,
            (true, true) => BROKEN,
            (true, false) => DIFFERENT,
            (false, _) if self.head.is_empty() => BROKEN,
            (false, _) => REFUSED,
        }
    }
}
