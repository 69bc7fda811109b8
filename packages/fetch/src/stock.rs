//! With smoltcp's own interface and socket.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use nile_abi::{Instant, MacAddress};
use nile_interfaces::frames::FramesClient;
use nile_net::own::{LINK_BITS, link_address};
use nile_net::{Queues, engine_time};
use nile_stl::CallResult;
use nile_user::Services;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr};

use crate::{BROKEN, Had, WRONG, Wanted, link};

/// Bytes of each of the socket's buffers.
const BUFFER: usize = 32 << 10;

/// How long it waits for frames before it looks at its timers.
const LOOK: Duration = Duration::from_millis(50);

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long it waits for the other side's end, and until that knows of its own, when all has come:
/// each time that is lost such a socket waits twice as long before it says so again.
const LINGERS: Duration = Duration::from_secs(5);

/// Has what is wanted; the exit code.
pub async fn fetch(services: &Services, wanted: &Wanted<'_>) -> CallResult<u64> {
    let stl = services.stl().with_patience(PATIENCE);
    let host = stl.host().clone();
    let frames = FramesClient::find(&stl).await?;
    let attached = frames.attach().await?;
    let Some(other) = wanted.address() else { return Ok(WRONG) };
    let [_, _, mac @ ..] = attached.mac.to_be_bytes();
    let (own, prefix) = match wanted.is_v6 {
        true => (IpAddr::V6(link_address(MacAddress(mac))), LINK_BITS),
        false => (Ipv4Addr::from_bits(attached.address).into(), attached.prefix),
    };
    let mut link = Queues::of_frames((attached.max_frame as usize).min(1514), usize::MAX);
    let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(MacAddress(mac).0)));
    config.random_seed = attached.seed;
    let now = || engine_time(host.now());
    let mut interface = Interface::new(config, &mut link, now());
    interface.update_ip_addrs(|all| {
        let _ = all.push(IpCidr::new(own.into(), prefix));
    });
    let buffer = || SocketBuffer::new(vec![0; BUFFER]);
    let mut socket = Socket::new(buffer(), buffer());
    let port = 49152 + (attached.salt % 16000) as u16;
    let to = (other, wanted.port);
    if socket.connect(interface.context(), to, port).is_err() {
        return Ok(BROKEN);
    }
    let mut sockets = SocketSet::new(Vec::new());
    let handle = sockets.add(socket);
    let request = format!("GET /data/{} HTTP/1.0\r\n\r\n", wanted.name);
    let mut asked = 0;
    let mut had = Had::default();
    let mut closed = None;
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
        if had.is_body && had.bytes == wanted.bytes || had.is_wrong {
            socket.close();
            closed.get_or_insert(host.now());
        }
        let state = socket.state();
        interface.poll(now(), &mut link, &mut sockets);
        let patience = wait(&mut interface, host.now(), &sockets);
        link::exchange(&mut link, &frames, attached.ticket, patience).await?;
        let is_over = closed.is_some_and(|closed| host.now().since(closed) >= LINGERS);
        if is_over || matches!(state, State::Closed | State::TimeWait) {
            return Ok(had.end(wanted.bytes));
        }
    }
}

/// How long there is nothing to do.
fn wait(interface: &mut Interface, now: Instant, sockets: &SocketSet<'_>) -> Duration {
    let delay = interface.poll_delay(engine_time(now), sockets);
    delay.map_or(LOOK, |delay| Duration::from_micros(delay.total_micros())).min(LOOK)
}
