//! Sockets, like those of `std::net`: [`TcpListener`], [`TcpStream`], [`UdpSocket`]. An operation
//! that has to wait has its thread wait; the others of the package go on.
//!
//! A [`Network`] is that of the package `net` of the node, if there is one when it is opened; else
//! it is the package's own stack (`nile-net`), with the node's frames (docs/network.md). Sending
//! and receiving move bytes between the thread and the connection's memory. With a stack of its
//! own, a thread of the network, the *pump*, has frames exchanged with the kernel by one call for
//! all that goes and all that has come. With `net`, two channels keep that memory the same as the
//! one that `net` has of the connection: there is no system call but to wake who sleeps.
//!
//! Connections live in a [keep](crate::keep), so they survive their package: a listener of its
//! next incarnation takes them from [`accept`](TcpListener::accept) as it takes new ones. What a
//! package has made of a connection survives as far as its [`log`](TcpStream::log) says it.
//! Connections that the earlier incarnation has opened itself are ended: nobody knows what for.
//!
//! The manifest says `uses: ["frames"]`, `publishes: ["sockets"]` and
//! `keeps: ["connections 9558048", "rules 65560", "lease 224"]`.

pub mod apart;
mod error;
mod lookup;
mod own;
mod pump;
pub mod rules;
pub mod shown;
mod tcp;
mod udp;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::{CoreId, Instant, NodeId, Status};
use nile_interfaces::frames::{Attachment, FrameCounts, FramesClient};
use nile_net::apart::{User, Welcome};
use nile_net::{Counts, Datagram, Memory, Own, Progress, Stream};
use nile_stl::{CallError, Stl};

pub use error::NetError;
pub use lookup::{ToSocketAddrs, lookup};
pub use nile_net as stack;
pub use own::{keep_lease, stack as stack_of};
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;

use crate::Services;
use crate::threads::{Runtime, WaitQueue};

/// Connections at once, unless the package asks for others; [`keep_bytes`] says what they take.
pub const CONNECTIONS: usize = 128;

/// The version of what is in the keep.
pub const VERSION: u16 = 2;

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The memory of connections is too small.
fn no_memory() -> CallError {
    CallError::new(Status::NoMemory, "the keep is too small")
}

/// The result of an operation on sockets.
pub type NetResult<T> = Result<T, NetError>;

/// Bytes of a keep for so many connections at once.
pub const fn keep_bytes(connections: usize) -> u64 {
    nile_net::memory::words(connections) as u64 * 8
}

/// The memory of a lease, and of what routers say, if an address follows from either; a package
/// whose manifest has no keep `lease` has none.
pub fn lease_keep<'s>(runtime: &Runtime<'s>, attached: &Attachment) -> &'s [AtomicU64] {
    let keep = || runtime.keep("lease", 2 * nile_net::kept::BYTES as u64, VERSION).ok();
    let is_of_use = attached.leases || attached.advertised;
    is_of_use.then(keep).flatten().map_or(&[], |it| it.words())
}

/// After how many waits for the network the kernel is asked, whatever there is to do.
const WAITS: u32 = 1024;

/// The exit codes of [`serve`]: the argument is no port; the network cannot be had, or fails.
pub const NO_PORT: u64 = 1;
/// See above.
pub const NO_NETWORK: u64 = 3;

/// What a package does that serves a port of the network: gives `body` the network of the package
/// `name` and the port, until that fails; gives the exit code. The argument is the port, or nothing
/// for the `usual` one; behind it there may be how many connections there can be at once.
pub fn serve(
    system: &dyn System,
    (name, usual): (&str, u16),
    argument: &[u8],
    body: impl FnOnce(&Network<'_>, &Services, u16) -> NetResult<Infallible>,
) -> u64 {
    let Some((port, connections)) = port_and_connections(argument, usual) else {
        let _ = crate::log!(system, "the argument is to be the port, or empty");
        return NO_PORT;
    };
    run(system, name, connections, |network, services| body(network, services, port))
}

/// What a package does that has a network: gives `body` that of the package `name`, with so many
/// connections at once, until it fails; says why in the log, and gives the exit code.
pub fn run(
    system: &dyn System,
    name: &str,
    connections: usize,
    body: impl FnOnce(&Network<'_>, &Services) -> NetResult<Infallible>,
) -> u64 {
    let runtime = Runtime::new(system);
    // Only calls between the package's own services would ask which core it is.
    crate::with_services(&runtime, CoreId(0), |services| {
        let network = Network::open(&runtime, services, name, connections);
        let Err(error) = network.and_then(|network| body(&network, services));
        let _ = crate::log!(system, "{error}");
        NO_NETWORK
    })
}

/// A server's argument: its port, or nothing for the usual one; behind it there may be how many
/// connections there can be at once, where there is less memory than a manifest says. `None` if it
/// is anything else.
fn port_and_connections(argument: &[u8], usual: u16) -> Option<(u16, usize)> {
    let mut words = core::str::from_utf8(argument).ok()?.split_whitespace();
    let port = words.next().map_or(Some(usual), |it| it.parse().ok().filter(|port| *port > 0));
    let connections = words.next().map_or(Some(CONNECTIONS), |it| it.parse().ok());
    Some((port?, connections?)).filter(|_| words.next().is_none())
}

/// A package's network. A clone is the same one.
#[derive(Clone)]
pub struct Network<'s>(Rc<Inner<'s>>);

struct Inner<'s> {
    runtime: Runtime<'s>,
    name: String,
    stl: Stl,
    way: Way<'s>,
    /// Threads that wait for anything to happen.
    changed: WaitQueue,
    /// Not long ago.
    now: Cell<Instant>,
    /// Numbers that were drawn.
    drawn: Cell<u64>,
    /// Waits since the kernel was asked for that reason alone.
    waits: Cell<u32>,
    /// Why there is no network any more.
    failure: RefCell<Option<CallError>>,
}

/// Whose stack it is.
enum Way<'s> {
    Own(Box<own::Own<'s>>),
    Apart(Box<apart::Apart<'s>>),
}

/// An attempt to open a connection.
#[derive(Clone, Copy)]
enum Attempt {
    Own(nile_net::Peer),
    Apart(u32),
}

impl<'s> Network<'s> {
    /// The network of the package `name`, with the connections that its keep `connections` has,
    /// which is made for so many: that of `net`, if the node has one, else one of its own, of which
    /// the service `sockets` tells. From now on calls have only the calling thread wait if it is
    /// that of `net`. Waits for that. Fails if the keep or the frames cannot be had.
    pub fn open(
        runtime: &Runtime<'s>,
        services: &Services,
        name: &str,
        connections: usize,
    ) -> NetResult<Network<'s>> {
        let keep = runtime.keep("connections", keep_bytes(connections), VERSION);
        let words = keep.map_err(NetError::Keep)?.words();
        let stl = services.stl().with_patience(PATIENCE);
        services.wait_alone(true);
        let is_apart = apart::is_there(runtime, &stl)?;
        services.wait_alone(is_apart);
        let now = stl.host().now();
        let way = match is_apart {
            true => {
                let memory = Memory::new(words, [0; 2]).ok_or_else(no_memory)?;
                Way::Apart(Box::new(apart::Apart::new(User::new(name, memory))))
            }
            false => Way::Own(Box::new(runtime.block_on(own::Own::attach(&stl, words, runtime))?)),
        };
        let network = Network(Rc::new(Inner {
            runtime: runtime.clone(),
            name: name.into(),
            stl: stl.clone(),
            way,
            changed: WaitQueue::new(),
            now: Cell::new(now),
            drawn: Cell::new(0),
            waits: Cell::new(0),
            failure: RefCell::default(),
        }));
        match is_apart {
            true => apart::start(&network, &stl)?,
            false => {
                shown::publish(services)?;
                pump::start(&network, services)?;
            }
        }
        Ok(network)
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        match &self.0.way {
            Way::Own(own) => own.node,
            Way::Apart(_) => NodeId(self.0.welcome().map_or(0, |it| it.node)),
        }
    }

    /// Its address of IPv4; unspecified while it has none.
    pub fn address(&self) -> Ipv4Addr {
        self.own().map_or(Ipv4Addr::UNSPECIFIED, |it| it.v4)
    }

    /// All its addresses, once they are known.
    pub fn own(&self) -> Option<Own> {
        match &self.0.way {
            Way::Own(own) => Some(own.stack.borrow().own()),
            Way::Apart(_) => self.0.welcome().map(|it| it.own),
        }
    }

    /// Which of them speaks to another one.
    fn own_to(&self, other: IpAddr) -> IpAddr {
        self.own().map_or(Ipv4Addr::UNSPECIFIED.into(), |it| it.to(other))
    }

    /// Who is asked for the addresses of names, if anybody is.
    pub fn resolver(&self) -> Option<Ipv4Addr> {
        match &self.0.way {
            Way::Own(own) => own.stack.borrow().settings().resolver,
            Way::Apart(_) => self.0.welcome().and_then(|it| it.resolver),
        }
    }

    /// What the package's own stack has counted; `None` if it has none.
    pub fn counts(&self) -> Option<Counts> {
        match &self.0.way {
            Way::Own(own) => Some(own.stack.borrow().counts()),
            Way::Apart(_) => None,
        }
    }

    /// What the kernel has counted of the node's frames.
    pub fn frame_counts(&self) -> NetResult<FrameCounts> {
        let stl = &self.0.stl;
        Ok(self.0.runtime.block_on(async { FramesClient::find(stl).await?.counts().await })?)
    }

    /// How many connections the package has.
    pub fn connections(&self) -> usize {
        match &self.0.way {
            Way::Own(own) => own.stack.borrow().streams().count(),
            Way::Apart(apart) => apart.user.borrow().connections(),
        }
    }

    /// The runtime whose threads wait here.
    pub fn runtime(&self) -> &Runtime<'s> {
        &self.0.runtime
    }

    /// A number that nobody can predict.
    fn draw(&self) -> u64 {
        let secret = match &self.0.way {
            Way::Own(own) => own.secret,
            Way::Apart(_) => [self.0.welcome().map_or(0, |it| it.seed), 0],
        };
        self.0.drawn.set(self.0.drawn.get() + 1);
        nile_net::siphash::hash(secret, [self.0.drawn.get(), self.0.now.get().as_nanos()])
    }

    /// What `look` finds, which is asked whenever something has happened. `timeout` is told apart
    /// to within a few ten milliseconds.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut look: impl FnMut(Instant) -> Option<NetResult<T>>,
    ) -> NetResult<T> {
        self.0.beat();
        let begun = self.0.now.get();
        loop {
            let now = self.0.now.get();
            let found = look(now);
            // What was changed before, and what the look has changed.
            self.0.flush();
            if let Some(found) = found {
                return found;
            }
            if let Some(failure) = &*self.0.failure.borrow() {
                return Err(NetError::Call(failure.clone()));
            }
            if timeout.is_some_and(|timeout| now.since(begun) > timeout) {
                return Err(NetError::TimedOut);
            }
            self.0.changed.wait(&self.0.runtime);
        }
    }

    /// Whether the package still runs. What a package has is dropped where it is stopped in a
    /// simulation, and then its connections are its next incarnation's.
    fn is_alive(&self) -> bool {
        self.0.runtime.call(SystemCall::Now, 0, &[], &mut []).result().is_ok()
    }
}

impl<'s> Inner<'s> {
    fn apart(&self) -> Option<&apart::Apart<'s>> {
        match &self.way {
            Way::Apart(apart) => Some(apart),
            Way::Own(_) => None,
        }
    }

    /// Asks the kernel now and then, though there may always be something to do: who sleeps is
    /// woken, and the package is not taken for one that hangs.
    fn beat(&self) {
        let waits = self.waits.get() + 1;
        self.waits.set(waits % WAITS);
        if waits == WAITS {
            let now = self.stl.host().now();
            self.now.set(now);
            self.runtime.look(now);
        }
    }

    /// What `net` has said of the node.
    fn welcome(&self) -> Option<Welcome> {
        self.apart()?.user.borrow().welcome()
    }

    /// Tells `net` what was changed; the pump looks for itself.
    fn flush(&self) {
        if let Way::Apart(apart) = &self.way {
            apart.flush();
        }
    }

    /// A connection to a port that nobody has taken.
    fn accept(&self, port: u16) -> Option<Stream<'s>> {
        match &self.way {
            Way::Own(own) => own.backlogs.borrow_mut().get_mut(&port)?.pop_front(),
            Way::Apart(apart) => apart.user.borrow_mut().accept(port),
        }
    }

    /// Takes no more connections to a port.
    fn unlisten(&self, port: u16) {
        match &self.way {
            Way::Own(own) => own.unlisten(port),
            Way::Apart(apart) => {
                let mut user = apart.user.borrow_mut();
                user.unlisten(port);
                core::iter::from_fn(|| user.accept(port)).for_each(|stream| stream.abort());
            }
        }
        self.flush();
    }

    /// Begins to open a connection.
    fn connect(&self, to: SocketAddr) -> NetResult<Attempt> {
        match &self.way {
            Way::Own(own) => {
                let begun = own.stack.borrow_mut().connect(self.now.get(), to);
                begun.map(Attempt::Own).ok_or(NetError::NoPort(to))
            }
            Way::Apart(apart) => Ok(Attempt::Apart(apart.user.borrow_mut().connect(to))),
        }
    }

    /// How that stands; `None` while nothing has come of it.
    fn progress(&self, attempt: Attempt, to: SocketAddr) -> Option<NetResult<Stream<'s>>> {
        let progress = match (&self.way, attempt) {
            (Way::Own(own), Attempt::Own(peer)) => own.stack.borrow_mut().progress(peer),
            (Way::Apart(apart), Attempt::Apart(request)) => {
                return apart.progress(request, to);
            }
            _ => Progress::NoAnswer,
        };
        match progress {
            Progress::Waits => None,
            Progress::Open(stream) => Some(Ok(stream)),
            Progress::Refused => Some(Err(NetError::Refused(to))),
            Progress::NoAnswer => Some(Err(NetError::NoAnswer(to))),
        }
    }

    /// Gives a port for datagrams back.
    fn unbind(&self, port: u16) {
        match &self.way {
            Way::Own(own) => own.stack.borrow_mut().unbind(port),
            Way::Apart(apart) => apart.user.borrow_mut().unbind(port),
        }
        self.flush();
    }

    /// The first datagram that waits at a port.
    fn take(&self, port: u16) -> Option<Datagram> {
        match &self.way {
            Way::Own(own) => own.stack.borrow_mut().take(port),
            Way::Apart(apart) => apart.user.borrow_mut().receive(port),
        }
    }

    /// Sends a datagram; `None` while too much waits to be sent.
    fn send(&self, port: u16, to: SocketAddr, bytes: &[u8]) -> Option<NetResult<()>> {
        let (sent, most) = match &self.way {
            Way::Own(own) => {
                let mut stack = own.stack.borrow_mut();
                if stack.waiting() >= own::WAITING {
                    return None;
                }
                (stack.send(self.now.get(), port, to, bytes), stack.max_datagram(to.ip()))
            }
            Way::Apart(apart) => {
                let mut user = apart.user.borrow_mut();
                if user.waiting() >= own::WAITING {
                    return None;
                }
                let most = user.welcome().map_or(0, |it| it.own.max_datagram(to.ip()));
                (user.send(port, to, bytes), most)
            }
        };
        Some(if sent { Ok(()) } else { Err(NetError::TooLong(most)) })
    }
}
