//! A network interface of a hosted node: a Unix socket to a virtual switch, one packet a frame.
//! The first packet says which link this is; then frames go both ways.
//!
//! Linux tells the core's thread by a signal that frames have come: that is the device's
//! interrupt, and its handler counts it and rings the core's doorbell. The socket is never waited
//! for, and a switch that has gone is dialled again.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nile_abi::{CoreId, Instant, MacAddress};
use nile_platform::network::Traffic;
use nile_platform::{Cause, Interface};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use rustix::thread::gettid;

use crate::node::{Node, log};
use crate::signals;

/// How often a switch that does not answer is dialled.
const REDIAL: Duration = Duration::from_millis(50);

/// Bytes of frames that Linux keeps for a core which does not take them.
const QUEUE_BYTES: usize = 4 << 20;

/// A link to a virtual switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The switch's socket.
    pub socket: String,
    /// What the switch calls the link.
    pub name: String,
    /// The address that frames to this end carry.
    pub address: MacAddress,
    /// Bytes of the largest frame, header included.
    pub max_frame: usize,
}

/// One end of a link, driven by the thread that made it.
pub(crate) struct Port {
    link: Link,
    node: &'static Node,
    core: CoreId,
    socket: RefCell<Option<OwnedFd>>,
    /// When a lost switch is dialled next.
    redial: Cell<Instant>,
    buffer: RefCell<Vec<u8>>,
    traffic: Cell<Traffic>,
}

thread_local! {
    /// The core that this thread is, and whether frames may have come: what the handler needs.
    static CORE: AtomicUsize = const { AtomicUsize::new(usize::MAX) };
    static ARRIVED: AtomicBool = const { AtomicBool::new(false) };
}

impl Port {
    /// The end of `link` for the calling thread, which is `core`.
    pub fn new(node: &'static Node, core: CoreId, link: Link) -> Port {
        static HANDLER: Once = Once::new();
        // SAFETY: the handler only touches atomics that live as long as its thread or the node.
        HANDLER.call_once(|| unsafe { signals::handle(libc::SIGIO, arrived) });
        CORE.with(|it| it.store(core.index(), Ordering::Relaxed));
        signals::unblock(libc::SIGIO);
        let buffer = RefCell::new(vec![0; link.max_frame]);
        let (socket, traffic) = (RefCell::default(), Cell::default());
        let redial = Cell::new(Instant::START);
        let port = Port { link, node, core, socket, redial, buffer, traffic };
        port.dial();
        port
    }

    /// Connects to the switch, unless that was tried just now.
    fn dial(&self) {
        let now = self.node.record.clock.now();
        if self.socket.borrow().is_some() || now < self.redial.get() {
            return;
        }
        self.redial.set(now + REDIAL);
        match connect(&self.link) {
            Ok(socket) => {
                *self.socket.borrow_mut() = Some(socket);
                // What came before the signal was asked for is told by nobody.
                ARRIVED.with(|it| it.store(true, Ordering::Relaxed));
            }
            Err(error) if self.traffic.get().dropped == 0 => {
                let Link { socket, name, .. } = &self.link;
                let who = self.core.to_string();
                log(&who, format_args!("link {name}: no switch at {socket}: {error}"));
                self.count(|it| it.dropped += 1);
            }
            // It was told once.
            Err(_) => {}
        }
    }

    fn hang_up(&self) {
        self.socket.take();
    }

    fn count(&self, change: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        change(&mut traffic);
        self.traffic.set(traffic);
    }
}

fn connect(link: &Link) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    net::sockopt::set_socket_send_buffer_size(&socket, QUEUE_BYTES)?;
    net::connect(&socket, &SocketAddrUnix::new(link.socket.as_str())?)?;
    net::send(&socket, link.name.as_bytes(), SendFlags::NOSIGNAL)?;
    ask_for_signals(&socket)?;
    Ok(socket)
}

/// Has Linux send SIGIO to the calling thread whenever something has come.
fn ask_for_signals(socket: &OwnedFd) -> io::Result<()> {
    /// As Linux has it; the C library's bindings have not.
    #[repr(C)]
    struct Owner {
        kind: libc::c_int,
        thread: libc::pid_t,
    }
    const F_SETOWN_EX: libc::c_int = 15;
    const F_OWNER_TID: libc::c_int = 0;
    let owner = Owner { kind: F_OWNER_TID, thread: gettid().as_raw_nonzero().get() };
    let number = socket.as_fd().as_raw_fd();
    // SAFETY: the socket is open, and the owner lives through the call that reads it.
    let set = unsafe {
        libc::fcntl(number, F_SETOWN_EX, &raw const owner) == 0
            && libc::fcntl(number, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) == 0
    };
    if set { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Counts the device's interrupt and has the core look around. Anyone may send the signal: the
/// core then looks for nothing.
extern "C" fn arrived(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    ARRIVED.with(|it| it.store(true, Ordering::Release));
    let core = CORE.with(|it| it.load(Ordering::Relaxed));
    if let Some(node) = Node::get()
        && core < node.board.cores()
    {
        let core = CoreId(core as u16);
        node.board.record(core).count_interrupt(Cause::Device);
        node.wake(core);
    }
}

impl Interface for Port {
    fn address(&self) -> MacAddress {
        self.link.address
    }

    fn max_frame(&self) -> usize {
        self.link.max_frame
    }

    fn is_ready(&self) -> bool {
        ARRIVED.with(|it| it.load(Ordering::Acquire))
    }

    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        // Cleared before the socket is looked at: what comes later sets it again.
        ARRIVED.with(|it| it.store(false, Ordering::SeqCst));
        let mut buffer = self.buffer.borrow_mut();
        let mut taken = 0;
        while taken < limit {
            let socket = self.socket.borrow();
            let Some(socket) = socket.as_ref() else { return taken };
            match net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT | RecvFlags::TRUNC) {
                Ok((0, 0)) => break,
                Ok((_, whole)) if whole > buffer.len() => self.count(|it| it.dropped += 1),
                Ok((length, _)) => {
                    self.count(|it| {
                        it.received += 1;
                        it.received_bytes += length as u64;
                    });
                    taken += 1;
                    take(&buffer[..length]);
                }
                Err(Errno::AGAIN) => return taken,
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if taken == limit {
            ARRIVED.with(|it| it.store(true, Ordering::Relaxed));
        } else {
            self.hang_up();
        }
        taken
    }

    fn transmit(&self, fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> bool {
        self.dial();
        let mut buffer = self.buffer.borrow_mut();
        while let Some(length) = fill(&mut buffer) {
            let sent = match self.socket.borrow().as_ref() {
                Some(socket) => {
                    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                    net::send(socket, &buffer[..length], flags)
                }
                None => Err(Errno::NOTCONN),
            };
            match sent {
                Ok(_) => self.count(|it| {
                    it.sent += 1;
                    it.sent_bytes += length as u64;
                }),
                // As a full queue of a device: whoever needs the frame sends it again.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => {
                    self.count(|it| it.dropped += 1);
                    return false;
                }
                Err(_) => {
                    self.count(|it| it.dropped += 1);
                    self.hang_up();
                }
            }
        }
        true
    }

    fn traffic(&self) -> Traffic {
        self.traffic.get()
    }
}
