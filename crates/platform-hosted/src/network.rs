//! The network interface of a hosted node: a Unix socket to a virtual switch, one packet a frame,
//! or a network outside; and direct links in memory to other nodes of the machine. A frame for a
//! node that there is a direct link with goes by that; the others, and those for all, go to the
//! switch, or outside.
//!
//! The first packet to a switch says which link this is; then frames go both ways. Linux tells
//! the core's thread by a signal that frames have come: that is the device's interrupt, and its
//! handler counts it and rings the core's doorbell. The socket is never waited for, and a switch
//! that has gone is dialled again.

use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use nile_abi::{CoreId, Instant, MacAddress, Part};
use nile_platform::interface::Traffic;
use nile_platform::{Interface, Line};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::thread::gettid;

use crate::direct::{Direct, Filled};
use crate::mesh::Mesh;
use crate::node::{Node, log};
use crate::outside::Outside;
use crate::packets::Packets;
use crate::signals;

/// How often a switch that does not answer is dialled.
const REDIAL: Duration = Duration::from_millis(50);

/// Bytes of frames that Linux keeps for a core which does not take them.
const QUEUE_BYTES: usize = 4 << 20;

/// A network interface that a node is to have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// Where frames go that no direct link takes, if anywhere.
    pub cable: Option<Cable>,
    /// The folder in which nodes find each other for direct links, if they are to.
    pub direct: Option<PathBuf>,
    /// What the switch and the others call this end.
    pub name: String,
    /// The address that frames to this end carry.
    pub address: MacAddress,
    /// Bytes of the largest frame, header included.
    pub max_frame: usize,
}

/// What carries frames to other machines, or to a virtual switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cable {
    /// The socket of a virtual switch.
    Switch(PathBuf),
    /// A device of Linux.
    Outside(Outside),
}

impl fmt::Display for Cable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cable::Switch(path) => write!(f, "switch at {}", path.display()),
            Cable::Outside(outside) => write!(f, "interface {outside}"),
        }
    }
}

/// One end of a link, driven by the thread that made it.
pub(crate) struct Port {
    link: Link,
    line: Option<Line>,
    node: &'static Node,
    core: CoreId,
    socket: RefCell<Option<OwnedFd>>,
    mesh: Option<Arc<Mesh>>,
    /// The direct links, as they were when these changes had been seen.
    directs: RefCell<(u64, Vec<Arc<Direct>>)>,
    /// The one that a frame was put into last.
    last: RefCell<Option<Arc<Direct>>>,
    /// When a lost switch is dialled next.
    redial: Cell<Instant>,
    packets: RefCell<Packets>,
    buffer: RefCell<Vec<u8>>,
    /// A frame that there was no room for.
    held: RefCell<Option<Vec<u8>>>,
    traffic: Cell<Traffic>,
}

/// The direct links that frames have been put into, and how many that are now: the one that was
/// used last is the last.
type Shown = Vec<(Arc<Direct>, u32)>;

/// Where a frame was written.
enum Written {
    /// Into the link that it goes by.
    Went,
    /// Into the buffer, if there was one.
    Buffered(Option<usize>),
}

/// What became of a frame.
enum Sent {
    Went,
    NoRoom,
    Lost,
}

thread_local! {
    /// The core that this thread is, the line of its interface, and whether frames may have come:
    /// what the handler needs.
    static CORE: AtomicUsize = const { AtomicUsize::new(usize::MAX) };
    static LINE: Cell<Option<Line>> = const { Cell::new(None) };
    static ARRIVED: AtomicBool = const { AtomicBool::new(false) };
    /// The direct links of the core that this thread is.
    static DIRECTS: RefCell<Vec<Arc<Direct>>> = const { RefCell::new(Vec::new()) };
}

impl Port {
    /// The end of `link` for the calling thread, which is `core`. It interrupts by `line`; if the
    /// thread has several, all do by the last one's, as Linux does not tell which it was.
    pub fn new(node: &'static Node, core: CoreId, link: Link, line: Option<Line>) -> Port {
        static HANDLER: Once = Once::new();
        // SAFETY: the handler only touches atomics that live as long as its thread or the node.
        HANDLER.call_once(|| unsafe { signals::handle(libc::SIGIO, arrived) });
        LINE.set(line);
        CORE.with(|it| it.store(core.index(), Ordering::Relaxed));
        signals::unblock(libc::SIGIO);
        let buffer = RefCell::new(vec![0; link.max_frame]);
        let packets = RefCell::new(Packets::new(link.max_frame));
        let mesh = mesh_of(node, core, &link);
        let port = Port {
            link,
            line,
            node,
            core,
            socket: RefCell::default(),
            mesh,
            directs: RefCell::default(),
            last: RefCell::default(),
            redial: Cell::new(Instant::START),
            packets,
            buffer,
            held: RefCell::default(),
            traffic: Cell::default(),
        };
        port.dial();
        port
    }

    /// The direct links there are now.
    fn directs(&self) -> Ref<'_, Vec<Arc<Direct>>> {
        if let Some(mesh) = &self.mesh {
            let mut directs = self.directs.borrow_mut();
            if let Some(news) = mesh.news(&mut directs.0) {
                directs.1.clone_from(&news);
                DIRECTS.set(news);
            }
        }
        Ref::map(self.directs.borrow(), |(_, directs)| directs)
    }

    /// The direct link that frames were put into last, and how many, if it is still there.
    fn last_direct(&self) -> Option<(Arc<Direct>, u32)> {
        let last = self.last.borrow().clone()?;
        let is_there = self.directs().iter().any(|direct| Arc::ptr_eq(direct, &last));
        is_there.then(|| (last.clone(), last.put_before()))
    }

    /// Has the next frame written into the direct link that the last one went by, since several
    /// mostly go the same way; into `buffer` if there is none, or it goes elsewhere.
    fn fill_directly(
        &self,
        fill: &mut dyn FnMut(&mut [u8]) -> Option<usize>,
        buffer: &mut [u8],
        shown: &mut Shown,
    ) -> Written {
        let Some((direct, put)) = shown.last_mut() else { return Written::Buffered(fill(buffer)) };
        let mut length = None;
        let mut other = |frame: &[u8]| {
            buffer[..frame.len()].copy_from_slice(frame);
            length = Some(frame.len());
        };
        match direct.fill(put, fill, &mut other) {
            Filled::Put(length) => {
                self.count_sent(length);
                Written::Went
            }
            Filled::Other | Filled::Nothing => Written::Buffered(length),
            Filled::NoRoom => Written::Buffered(fill(buffer)),
        }
    }

    fn count_sent(&self, bytes: usize) {
        self.count(|it| {
            it.sent += 1;
            it.sent_bytes += bytes as u64;
        });
    }

    /// Puts a frame where it goes.
    fn send(&self, frame: &[u8], shown: &mut Shown) -> Sent {
        let to = frame.first_chunk().map_or(MacAddress::BROADCAST, |to| MacAddress(*to));
        let directs = self.directs();
        let alone = self.link.cable.is_none();
        let mut sent = Sent::Lost;
        for direct in directs.iter().filter(|it| it.peer == to || (alone && to.is_group())) {
            let known = shown.iter().position(|(it, _)| Arc::ptr_eq(it, direct));
            let mut link = match known {
                Some(place) => shown.remove(place),
                None => (direct.clone(), direct.put_before()),
            };
            sent = match direct.put(frame, &mut link.1) {
                true => Sent::Went,
                // What goes to all is told again anyway; one that is slow holds up nobody else.
                false if to.is_group() => Sent::Lost,
                false => Sent::NoRoom,
            };
            shown.push(link);
            if !to.is_group() {
                return sent;
            }
        }
        drop(directs);
        if alone { sent } else { self.send_to_cable(frame) }
    }

    fn send_to_cable(&self, frame: &[u8]) -> Sent {
        self.dial();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let socket = self.socket.borrow();
        let sent = match socket.as_ref() {
            Some(socket) if self.is_file() => rustix::io::write(socket, frame),
            Some(socket) => net::send(socket, frame, flags),
            None => Err(Errno::NOTCONN),
        };
        drop(socket);
        match sent {
            Ok(_) => Sent::Went,
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::INTR) => Sent::NoRoom,
            // Longer than the device takes by now.
            Err(Errno::MSGSIZE) => Sent::Lost,
            Err(_) => {
                self.hang_up();
                Sent::Lost
            }
        }
    }

    /// Whether frames are read and written as those of a file.
    fn is_file(&self) -> bool {
        matches!(self.link.cable, Some(Cable::Outside(Outside::Tap(_))))
    }

    /// Connects to the switch, or opens the device, unless that was tried just now.
    fn dial(&self) {
        let now = self.node.record.clock.now();
        let Some(cable) = &self.link.cable else { return };
        if self.socket.borrow().is_some() || now < self.redial.get() {
            return;
        }
        self.redial.set(now + REDIAL);
        let opened = match cable {
            Cable::Switch(path) => connect(path, &self.link.name),
            Cable::Outside(outside) => outside.open(),
        };
        let opened = opened.and_then(|socket| ask_for_signals(&socket).map(|()| socket));
        match opened {
            Ok(socket) => {
                *self.socket.borrow_mut() = Some(socket);
                // What came before the signal was asked for is told by nobody.
                ARRIVED.with(|it| it.store(true, Ordering::Relaxed));
            }
            Err(error) if self.traffic.get().dropped == 0 => {
                let (who, name) = (self.core.to_string(), &self.link.name);
                log(&who, format_args!("link {name}: no {cable}: {error}"));
                self.count(|it| it.dropped += 1);
            }
            // It was told once.
            Err(_) => {}
        }
    }

    fn receive_directs(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let mut dropped = 0;
        let mut taken = 0;
        for direct in self.directs().iter() {
            let mut counted = |frame: &[u8]| {
                self.count(|it| {
                    it.received += 1;
                    it.received_bytes += frame.len() as u64;
                });
                take(frame);
            };
            taken += direct.receive(limit - taken, &mut counted, &mut dropped);
        }
        self.count(|it| it.dropped += dropped);
        taken
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

/// The direct links of a node: made once, whichever incarnation of the core drives them.
fn mesh_of(node: &'static Node, core: CoreId, link: &Link) -> Option<Arc<Mesh>> {
    static MESHES: Mutex<Vec<(String, Arc<Mesh>)>> = Mutex::new(Vec::new());
    let folder = link.direct.as_ref()?;
    let mut meshes = MESHES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, mesh)) = meshes.iter().find(|(name, _)| *name == link.name) {
        return Some(mesh.clone());
    }
    let Link { name, address, max_frame, .. } = link.clone();
    match Mesh::start(node, core, folder.clone(), name, address, max_frame) {
        Ok(mesh) => {
            meshes.push((link.name.clone(), mesh.clone()));
            Some(mesh)
        }
        Err(error) => {
            log(
                &core.to_string(),
                format_args!("no direct links in {}: {error}", folder.display()),
            );
            None
        }
    }
}

/// Calls `wait` with what a sleeping core is woken by besides its doorbell: the futexes of its
/// direct links, each to be waited for while it is 1, unless their line is masked. It is not called
/// if a frame has come.
pub(crate) fn wait_with_directs(node: &Node, wait: impl FnOnce(&[&AtomicU32])) {
    if LINE.get().is_some_and(|line| node.is_masked(line)) {
        return wait(&[]);
    }
    DIRECTS.with_borrow(|directs| {
        let live = directs.iter().filter(|direct| !direct.dead.load(Ordering::Acquire));
        let words: Option<Vec<&AtomicU32>> = live.map(|direct| direct.prepare()).collect();
        if let Some(words) = words {
            wait(&words);
        }
        directs.iter().for_each(|direct| direct.awake());
    });
}

/// The line of the calling thread's interface.
pub(crate) fn line_of_thread() -> Option<Line> {
    LINE.get()
}

fn connect(switch: &Path, name: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    net::sockopt::set_socket_send_buffer_size(&socket, QUEUE_BYTES)?;
    net::connect(&socket, &SocketAddrUnix::new(switch)?)?;
    net::send(&socket, name.as_bytes(), SendFlags::NOSIGNAL)?;
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
    // The owner comes last: a TAP device names one of its own when signals are turned on.
    // SAFETY: the socket is open, and the owner lives through the call that reads it.
    let set = unsafe {
        let flags = libc::fcntl(number, libc::F_GETFL) | libc::O_ASYNC | libc::O_NONBLOCK;
        libc::fcntl(number, libc::F_SETFL, flags) == 0
            && libc::fcntl(number, F_SETOWN_EX, &raw const owner) == 0
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
        node.interrupt(CoreId(core as u16), LINE.get());
    }
}

impl Interface for Port {
    fn address(&self) -> MacAddress {
        self.link.address
    }

    fn line(&self) -> Option<Line> {
        self.line
    }

    fn max_frame(&self) -> usize {
        self.link.max_frame
    }

    fn is_ready(&self) -> bool {
        ARRIVED.with(|it| it.load(Ordering::Acquire))
            || self.directs().iter().any(|direct| direct.is_ready())
    }

    fn receive(&self, limit: usize, take: &mut dyn FnMut(&[u8])) -> usize {
        let mut taken = self.receive_directs(limit, take);
        if !ARRIVED.with(|it| it.load(Ordering::Acquire)) {
            return taken;
        }
        // Cleared before the socket is looked at: what comes later sets it again.
        ARRIVED.with(|it| it.store(false, Ordering::SeqCst));
        let mut packets = self.packets.borrow_mut();
        while taken < limit {
            let socket = self.socket.borrow();
            let Some(socket) = socket.as_ref() else { return taken };
            let came = match self.is_file() {
                true => packets.read(socket.as_fd(), limit - taken),
                false => packets.receive(socket.as_fd(), limit - taken),
            };
            let more = match came {
                Ok(more) => more,
                Err(Errno::AGAIN) => return taken,
                Err(Errno::INTR) => continue,
                Err(_) => break,
            };
            let mut ended = false;
            for packet in packets.iter() {
                match packet {
                    Some([]) => ended = true,
                    Some(frame) => {
                        self.count(|it| {
                            it.received += 1;
                            it.received_bytes += frame.len() as u64;
                        });
                        taken += 1;
                        take(frame);
                    }
                    None => self.count(|it| it.dropped += 1),
                }
            }
            match ended {
                true => break,
                // There was nothing more, and what came since has told so.
                false if !more => return taken,
                false => {}
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
        let mut buffer = self.buffer.borrow_mut();
        let mut shown: Shown = self.last_direct().into_iter().collect();
        let mut held = self.held.borrow_mut();
        loop {
            let length = match held.take() {
                Some(frame) => {
                    buffer[..frame.len()].copy_from_slice(&frame);
                    Some(frame.len())
                }
                None => match self.fill_directly(fill, &mut buffer, &mut shown) {
                    Written::Went => continue,
                    Written::Buffered(length) => length,
                },
            };
            let Some(length) = length else { break };
            match self.send(&buffer[..length], &mut shown) {
                Sent::Went => self.count_sent(length),
                Sent::Lost => self.count(|it| it.dropped += 1),
                Sent::NoRoom => {
                    *held = Some(buffer[..length].to_vec());
                    break;
                }
            }
        }
        for (direct, put) in shown {
            if put != direct.put_before() {
                direct.show(put);
                *self.last.borrow_mut() = Some(direct);
            }
        }
        held.is_none()
    }

    fn shows_pool(&self) -> Option<u64> {
        self.mesh.as_ref()?.shows_pool()
    }

    fn read_pool(&self, of: MacAddress, name: u64, parts: &[Part], into: &mut [u8]) -> bool {
        let directs = self.directs();
        let pools = directs.iter().filter(|it| it.peer == of).filter_map(|it| it.pool.as_ref());
        pools.filter(|pool| pool.name == name).any(|pool| pool.read(parts, into))
    }

    fn traffic(&self) -> Traffic {
        self.traffic.get()
    }
}
