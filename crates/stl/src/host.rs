//! What the transport layer needs from the core that it runs on, and from whoever knows where
//! services are.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, NodeId, Status, Window};
use nile_policy::Subject;
use nile_registry::{Caller, Place as At};

use crate::frame::{CallId, Header, ServiceNumber};
use crate::node::Node;
use crate::{CallResult, LocalFuture, Measured, MethodNumber, Origin, Published};

/// The core beneath.
pub trait Host {
    /// Which core this is.
    fn core(&self) -> CoreId;

    /// Its incarnation.
    fn generation(&self) -> Generation;

    /// How many cores the node has.
    fn cores(&self) -> usize;

    /// The present incarnation of any core.
    fn generation_of(&self, core: CoreId) -> Generation;

    /// The time.
    fn now(&self) -> Instant;

    /// Starts a task on this core.
    fn spawn(&self, task: LocalFuture<'static, ()>);

    /// Waits for a moment.
    fn sleep_until(&self, due: Instant) -> LocalFuture<'static, ()>;

    /// Waits until the core is awake in this window, which it is at its end at the latest. A core
    /// that knows no tolerance waits for the beginning.
    fn sleep_in(&self, window: Window) -> LocalFuture<'static, ()> {
        self.sleep_until(window.from())
    }

    /// Waits for `span`, or up to a quarter more: before something is tried or looked at again.
    fn pause(&self, span: Duration) -> LocalFuture<'static, ()> {
        self.sleep_in(Window::within(self.now() + span, span / 4))
    }

    /// Sends a frame to another core, after all that went there before. Never blocks. `NotFound`
    /// if there is no such core, `Dead` if it has stopped for good. That an incarnation has ended
    /// is told by [`Stl::peer_ended`](crate::Stl::peer_ended): of one before the present one, at
    /// the latest before this returns.
    fn send(&self, to: CoreId, header: &Header, data: &[u8]) -> Result<(), Status>;

    /// Writes a line to the node's log.
    fn log(&self, line: fmt::Arguments<'_>);

    /// Says that from now on this core works for another one's call, or for nobody's: who is to
    /// be told [`Status::Panicked`] if the core's incarnation ends now.
    fn working_for(&self, call: Option<(CoreId, CallId)>);

    /// A call of another core or node was answered, so long after this core had begun to look at
    /// it.
    fn answered(&self, _took: Duration) {}

    /// The number of the subject of this name, whom policies serve on this core: a service, or the
    /// core's package.
    fn subject(&self, _name: &str) -> Subject {
        Subject(0)
    }

    /// Whose tasks are started from now on; gives whose they were.
    fn act_as(&self, _subject: Subject) -> Subject {
        Subject(0)
    }

    /// The kernel of this core, for kernel halves of services; none in a package.
    fn node(&self) -> Option<Rc<dyn Node>> {
        None
    }
}

/// Where an instance is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The node that has it; [`Place::HERE`] is this one.
    pub node: NodeId,
    /// The core that runs it.
    pub core: CoreId,
    /// That core's incarnation: a restarted core has none of its old instances. On another node,
    /// the node's.
    pub generation: Generation,
    /// The instance's number on its core; on another node, the number that the node exports it by.
    pub number: ServiceNumber,
}

impl Place {
    /// How a node names itself in places.
    pub const HERE: NodeId = NodeId(0);

    /// Whether it is on this node.
    pub fn is_here(&self) -> bool {
        self.node == Place::HERE
    }
}

/// The way to other nodes.
pub trait Gateway {
    /// Calls a method of an instance on another node for `origin`; over by `deadline`. Fails as a
    /// call does:
    /// `Dead` if that node's incarnation has ended, `Timeout` if nothing was heard in time.
    fn call(
        &self,
        place: Place,
        method: MethodNumber,
        arguments: &[u8],
        origin: Origin,
        deadline: Instant,
    ) -> LocalFuture<'static, CallResult<Vec<u8>>>;
}

/// Whoever knows where services are: the registry's client on a core.
pub trait Directory {
    /// The instance of this name that is nearest to this core. `NotFound` if there is none,
    /// `Denied` if its layer is not for the caller.
    fn find(&self, caller: Caller, name: &str) -> LocalFuture<'static, CallResult<Place>>;

    /// The same for the instance on one core of any node.
    fn find_at(
        &self,
        caller: Caller,
        at: At,
        name: &str,
    ) -> LocalFuture<'static, CallResult<Place>>;

    /// Tells the node of an instance on this core.
    fn publish(&self, published: Published, place: Place) -> LocalFuture<'static, CallResult<()>>;

    /// Whether a name is that of a service that the node itself has, on whichever core: nobody
    /// else publishes one of this name.
    fn is_reserved(&self, _name: &str) -> bool {
        false
    }

    /// Tells the node how instances were found to serve.
    fn observe(&self, _measured: Vec<Measured>) -> LocalFuture<'static, CallResult<()>> {
        Box::pin(async { Ok(()) })
    }

    /// Tells the node that there is no such instance any more.
    fn unpublish(&self, place: Place) -> LocalFuture<'static, CallResult<()>>;
}

/// The kernel's half, as the half in a package calls it: by name, for what a package cannot do.
pub trait Upstream {
    /// Calls a method and waits for its end, so long at most.
    fn relay(
        &self,
        service: &str,
        method: &str,
        arguments: &[u8],
        patience: Duration,
    ) -> CallResult<Vec<u8>>;
}
