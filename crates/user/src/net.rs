//! Sockets, like those of `std::net`: [`TcpListener`], [`TcpStream`], [`UdpSocket`]. An operation
//! that has to wait has its thread wait; the others of the package go on.
//!
//! A [`Network`] is the package's own stack (`nile-net`), with the node's frames
//! (docs/network.md). Sending and receiving move bytes between the thread and the connection's
//! memory, without a system call; a thread of the network, the *pump*, has frames exchanged with
//! the kernel by one call for all that goes and all that has come.
//!
//! Connections live in a [keep](crate::keep), so they survive their package: a listener of its
//! next incarnation takes them from [`accept`](TcpListener::accept) as it takes new ones. What a
//! package has made of a connection survives as far as its [`log`](TcpStream::log) says it.
//! Connections that the earlier incarnation has opened itself are ended: nobody knows what for.
//!
//! The manifest says `uses: ["frames"]`, `publishes: ["sockets"]` and
//! `keeps: ["connections 9556000"]`.

mod error;
mod pump;
mod shown;
mod tcp;
mod udp;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::net::Ipv4Addr;
use core::sync::atomic::AtomicU64;
use core::time::Duration;

use nile_abi::call::{System, SystemCall};
use nile_abi::ethernet::HEADER_BYTES;
use nile_abi::{Instant, MacAddress, NodeId, Status, ip};
use nile_interfaces::frames::{FrameCounts, FramesClient};
use nile_net::{Counts, Memory, Settings, Stack, Stream};
use nile_stl::CallError;

pub use error::NetError;
pub use nile_net as stack;
pub use tcp::{TcpListener, TcpStream};
pub use udp::UdpSocket;

use crate::Services;
use crate::threads::{Runtime, WaitQueue};

/// Connections at once, unless the package asks for others; [`keep_bytes`] says what they take.
pub const CONNECTIONS: usize = 128;

/// The version of what is in the keep.
const VERSION: u16 = 1;

/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// The result of an operation on sockets.
pub type NetResult<T> = Result<T, NetError>;

/// Bytes of a keep for so many connections at once.
pub const fn keep_bytes(connections: usize) -> u64 {
    nile_net::memory::words(connections) as u64 * 8
}

/// A server's argument: its port, or nothing for the usual one; behind it there may be how many
/// connections there can be at once, where there is less memory than a manifest says. `None` if it
/// is anything else.
pub fn port_and_connections(argument: &[u8], usual: u16) -> Option<(u16, usize)> {
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
    node: NodeId,
    frames: FramesClient,
    /// What the package names itself by to the service.
    ticket: u64,
    stack: RefCell<Stack<'s>>,
    /// Connections that nobody has accepted, by port, for those with a listener.
    backlogs: RefCell<BTreeMap<u16, VecDeque<Stream<'s>>>>,
    /// Connections to ports without a listener, which an earlier incarnation had, and since when.
    unclaimed: RefCell<Vec<(Instant, Stream<'s>)>>,
    /// Threads that wait for anything to happen.
    changed: WaitQueue,
    /// Not long ago.
    now: Cell<Instant>,
    /// Why there are no frames any more.
    failure: RefCell<Option<CallError>>,
}

impl<'s> Network<'s> {
    /// The network of the package `name`, with the connections that its keep `connections` has,
    /// which is made for so many. Publishes the service `sockets`, which tells of them. Fails if
    /// the keep or the frames cannot be had.
    pub fn open(
        runtime: &Runtime<'s>,
        services: &Services,
        name: &str,
        connections: usize,
    ) -> NetResult<Network<'s>> {
        let keep = runtime.keep("connections", keep_bytes(connections), VERSION);
        let words = keep.map_err(NetError::Keep)?.words();
        let network = runtime.block_on(Network::attach(runtime, services, name, words))?;
        shown::publish(services, &network)?;
        pump::start(&network, services);
        Ok(network)
    }

    async fn attach(
        runtime: &Runtime<'s>,
        services: &Services,
        name: &str,
        words: &'s [AtomicU64],
    ) -> NetResult<Network<'s>> {
        let stl = services.stl().with_patience(PATIENCE);
        let frames = FramesClient::find(&stl).await?;
        let attached = frames.attach().await?;
        let no_memory = || CallError::new(Status::NoMemory, "the keep is too small");
        let memory = Memory::new(words, [attached.seed, attached.salt]).ok_or_else(no_memory)?;
        let node = NodeId(attached.node);
        let no_address = || CallError::new(Status::Invalid, "this node has no address");
        let address = ip::address_of(node).ok_or_else(no_address)?;
        let [_, _, mac @ ..] = attached.mac.to_be_bytes();
        let settings = Settings {
            mac: MacAddress(mac),
            address,
            prefix: ip::PREFIX,
            gateway: Some(ip::GATEWAY),
            max_packet: (attached.max_frame as usize).saturating_sub(HEADER_BYTES).clamp(576, 1500),
        };
        let now = stl.host().now();
        Ok(Network(Rc::new(Inner {
            runtime: runtime.clone(),
            name: name.into(),
            node,
            frames,
            ticket: attached.ticket,
            stack: RefCell::new(Stack::new(settings, memory, now)),
            backlogs: RefCell::default(),
            unclaimed: RefCell::default(),
            changed: WaitQueue::new(),
            now: Cell::new(now),
            failure: RefCell::default(),
        })))
    }

    /// The node.
    pub fn node(&self) -> NodeId {
        self.0.node
    }

    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.0.stack.borrow().address()
    }

    /// What the stack has counted.
    pub fn counts(&self) -> Counts {
        self.0.stack.borrow().counts()
    }

    /// What the kernel has counted of its frames.
    pub fn frame_counts(&self) -> NetResult<FrameCounts> {
        Ok(self.0.runtime.block_on(self.0.frames.counts())?)
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.0.stack.borrow().streams().count()
    }

    /// The runtime whose threads wait here.
    pub fn runtime(&self) -> &Runtime<'s> {
        &self.0.runtime
    }

    /// What `look` finds, which is asked whenever something has happened. `timeout` is told apart
    /// to within a few ten milliseconds.
    fn wait<T>(
        &self,
        timeout: Option<Duration>,
        mut look: impl FnMut(&mut Stack<'s>, Instant) -> Option<NetResult<T>>,
    ) -> NetResult<T> {
        let begun = self.0.now.get();
        loop {
            let now = self.0.now.get();
            if let Some(found) = look(&mut self.0.stack.borrow_mut(), now) {
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
