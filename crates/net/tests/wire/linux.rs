//! Linux as the host: a socket behind a TAP, in a network namespace that has nothing else.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recv, send, shutdown, socket_with, sockopt,
};

use crate::packet::{Ends, byte_at};
use crate::play::Host;
use crate::script::Call;
use crate::tap::{self, Tap};

const HOST: Ipv4Addr = Ipv4Addr::new(10, 42, 0, 1);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// How long a call may take, and how often it is tried meanwhile.
const PATIENCE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_millis(2);

/// Bytes of its buffer for what comes: its window is about half of them.
const RECEIVE_BYTES: usize = 8 << 10;

/// What scripts cannot wait for, or do not mean.
const SETTINGS: [(&str, &str); 11] = [
    ("tcp_invalid_ratelimit", "0"),
    ("tcp_challenge_ack_limit", "100000"),
    ("tcp_early_retrans", "0"),
    ("tcp_moderate_rcvbuf", "0"),
    ("tcp_no_metrics_save", "1"),
    ("tcp_rto_min_us", "500000"),
    ("tcp_syncookies", "0"),
    ("tcp_syn_linear_timeouts", "0"),
    ("tcp_stdurg", "1"),
    ("tcp_ecn", "0"),
    ("icmp_ratelimit", "0"),
];

/// Who hears what goes to which peer.
type Hears = Arc<Mutex<BTreeMap<[u8; 2], Sender<Vec<u8>>>>>;

/// The link of this namespace.
pub struct Link {
    tap: Tap,
    hears: Hears,
}

impl Link {
    pub fn open() -> Link {
        let mac = MAC.map(|it| format!("{it:02x}")).join(":");
        let hears = Hears::default();
        let of_tap = hears.clone();
        let tap = tap::open(&format!("{HOST}/16"), &mac, move |frame| {
            if let Some((peer, 6, packet)) = tap::ipv4_of(frame)
                && let Some(hears) = of_tap.lock().expect("no panic").get(&peer)
            {
                // Its script may be over.
                let _ = hears.send(packet.to_vec());
            }
        });
        for (name, value) in SETTINGS {
            // Not every kernel has all of them.
            let _ = fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
        }
        Link { tap, hears }
    }
}

/// One conversation.
pub struct Linux {
    tap: Tap,
    ends: Ends,
    came: Receiver<Vec<u8>>,
    begun: Instant,
    listener: Option<OwnedFd>,
    socket: Option<OwnedFd>,
    sent: i64,
    read: i64,
}

impl Linux {
    /// That with the peer of this number.
    pub fn new(link: &Link, number: u16) -> Linux {
        let (sends, came) = channel();
        let [high, low] = [1 + (number >> 8) as u8, number as u8];
        link.hears.lock().expect("no panic").insert([high, low], sends);
        let peer = (Ipv4Addr::new(10, 42, high, low), 4000);
        Linux {
            tap: link.tap.clone(),
            ends: Ends { host: (HOST, 1000 + number), peer },
            came,
            begun: Instant::now(),
            listener: None,
            socket: None,
            sent: 0,
            read: 0,
        }
    }

    /// A socket with the host's address.
    fn bound(&self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
        bind(&socket, &SocketAddr::new(self.ends.host.0.into(), self.ends.host.1))?;
        Ok(socket)
    }

    fn socket(&self) -> Result<&OwnedFd, String> {
        self.socket.as_ref().ok_or("no connection".into())
    }

    /// Has data that is urgent lie among the rest, as ours does, and every write leave at once.
    fn set(&mut self, socket: OwnedFd) -> Result<(), Errno> {
        sockopt::set_socket_oobinline(&socket, true)?;
        sockopt::set_tcp_nodelay(&socket, true)?;
        (self.sent, self.read) = (0, 0);
        self.socket = Some(socket);
        Ok(())
    }

    /// Reads at most so many bytes, once something is there.
    fn recv(&self, most: usize) -> Result<Result<Vec<u8>, Errno>, String> {
        let socket = self.socket()?;
        let mut bytes = vec![0; most];
        let had = patient(|| recv(socket, &mut bytes[..], RecvFlags::empty()).map(|it| it.0))?;
        Ok(had.map(|count| bytes[..count].to_vec()))
    }
}

/// Tries until it need not wait any more.
fn patient<T>(mut work: impl FnMut() -> Result<T, Errno>) -> Result<Result<T, Errno>, String> {
    let until = Instant::now() + PATIENCE;
    loop {
        match work() {
            Err(Errno::AGAIN | Errno::ALREADY | Errno::INPROGRESS) if Instant::now() < until => {
                thread::sleep(PAUSE);
            }
            Err(Errno::AGAIN | Errno::ALREADY | Errno::INPROGRESS) => {
                return Err("the program waits for ever".into());
            }
            ended => return Ok(ended),
        }
    }
}

fn told(error: Errno) -> String {
    error.to_string()
}

impl Host for Linux {
    fn ends(&self) -> Ends {
        self.ends
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn give(&mut self, packet: &[u8]) {
        self.tap.send(tap::frame(MAC, packet));
    }

    fn next(&mut self, within: Duration) -> Option<Vec<u8>> {
        self.came.recv_timeout(within).ok()
    }

    fn call(&mut self, call: Call) -> Result<(), String> {
        match call {
            Call::Listen => {
                let socket = self.bound().map_err(told)?;
                listen(&socket, 16).map_err(told)?;
                self.listener = Some(socket);
            }
            Call::Unlisten => self.listener = None,
            Call::Connect => {
                let socket = self.bound().map_err(told)?;
                let to = SocketAddr::new(self.ends.peer.0.into(), self.ends.peer.1);
                match connect(&socket, &to) {
                    Ok(()) | Err(Errno::INPROGRESS) => {}
                    Err(error) => return Err(told(error)),
                }
                self.set(socket).map_err(told)?;
            }
            Call::Connected | Call::Refused => {
                let to = SocketAddr::new(self.ends.peer.0.into(), self.ends.peer.1);
                let socket = self.socket()?;
                let said = patient(|| connect(socket, &to))?;
                match (call, said) {
                    (Call::Connected, Ok(()) | Err(Errno::ISCONN)) => {}
                    (Call::Refused, Err(Errno::CONNREFUSED)) => {}
                    _ => return Err(format!("{call:?} is not so: {said:?}")),
                }
            }
            Call::Accept => {
                let listener = self.listener.as_ref().ok_or("it does not listen")?;
                let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
                let socket = patient(|| accept_with(listener, flags))?.map_err(told)?;
                self.set(socket).map_err(told)?;
            }
            Call::Send(count) => {
                let bytes: Vec<u8> = (self.sent..self.sent + count as i64).map(byte_at).collect();
                let sent = send(self.socket()?, &bytes, SendFlags::NOSIGNAL).map_err(told)?;
                if sent != count {
                    return Err("no room for what it sends".into());
                }
                self.sent += count as i64;
            }
            Call::Read(count) => {
                let to = self.read + count.unwrap_or(0) as i64;
                while self.read < to {
                    let bytes = self.recv((to - self.read) as usize)?.map_err(told)?;
                    if bytes.is_empty() {
                        return Err("the stream has ended".into());
                    }
                    if !(self.read..).zip(&bytes).all(|(at, byte)| byte_at(at) == *byte) {
                        return Err(format!("what is read from {} on is wrong", self.read));
                    }
                    self.read += bytes.len() as i64;
                }
            }
            Call::ReadEnd => match self.recv(1)? {
                Ok(bytes) if bytes.is_empty() => {}
                other => return Err(format!("no end: {other:?}")),
            },
            Call::ReadReset => match self.recv(1)? {
                Err(Errno::CONNRESET | Errno::TIMEDOUT) => {}
                other => return Err(format!("not broken: {other:?}")),
            },
            Call::Shut => shutdown(self.socket()?, Shutdown::Write).map_err(told)?,
            Call::Close => self.socket = None,
            Call::Abort => {
                let at_once = Some(Duration::ZERO);
                sockopt::set_socket_linger(self.socket()?, at_once).map_err(told)?;
                self.socket = None;
            }
            Call::KeepAlive => {
                let socket = self.socket()?;
                let second = Duration::from_secs(1);
                sockopt::set_socket_keepalive(socket, true).map_err(told)?;
                sockopt::set_tcp_keepidle(socket, second).map_err(told)?;
                sockopt::set_tcp_keepintvl(socket, second).map_err(told)?;
            }
        }
        Ok(())
    }
}
