//! A service as the transport layer sees it: what `#[service]` generates. An [`Interface`] and its
//! [`Methods`] say what a service does; a [`Registration`] says who does it, and where.

pub mod declared;
pub mod wire;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::any::Any;
use core::future::Future;
use core::pin::Pin;

use nile_abi::{CoreId, Instant, RoleSet, Status};
use nile_bosml::schema;
use nile_bosml::schema::CallerKind;
use nile_policy::Scheduling;
use nile_registry::{Attribute, Layer, ServiceType};

use crate::published::Fingerprint;
use crate::{CallError, CallResult, MethodNumber, Place, Stl};

/// A future of one core.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Who calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The core that the call came from.
    pub core: CoreId,
    /// Who asks there.
    pub origin: Origin,
    /// When the caller stops waiting.
    pub deadline: Instant,
}

impl Caller {
    /// Handed to methods that do not ask who calls.
    #[doc(hidden)]
    pub const UNKNOWN: Caller =
        Caller { core: CoreId(u16::MAX), origin: Origin::Kernel, deadline: Instant::START };

    /// Whether a package asks, of whatever node, and not a kernel.
    pub fn is_package(&self) -> bool {
        self.origin.is_package()
    }

    /// The core of this node that asks, for methods that act on the calling core. `Denied` if
    /// another node asks: the core that the call came from only passes it on.
    pub fn own_core(&self) -> CallResult<CoreId> {
        match self.origin {
            Origin::Kernel | Origin::Package => Ok(self.core),
            Origin::Peer | Origin::Operator | Origin::PeersPackage => {
                Err(CallError::new(Status::Denied, "this is for cores of this node"))
            }
        }
    }
}

/// Who makes a call. The numbers are fixed: they travel in cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Origin {
    /// The kernel of a core, or a service on it.
    Kernel = 0,
    /// The package that a core runs.
    Package = 1,
    /// The kernel of another node, for which a network core passes the call on.
    Peer = 2,
    /// Whoever operates the cluster, likewise.
    Operator = 3,
    /// A package of another node, likewise.
    PeersPackage = 4,
}

impl Origin {
    /// The origin of this number.
    pub fn from_number(number: u8) -> Option<Origin> {
        let all =
            [Origin::Kernel, Origin::Package, Origin::Peer, Origin::Operator, Origin::PeersPackage];
        all.get(usize::from(number)).copied()
    }

    /// Whether it is a package, of whatever node.
    pub fn is_package(self) -> bool {
        self.kind() == Some(CallerKind::Package)
    }

    /// What declarations call it; nothing for a kernel of the own node, which may call everything.
    pub fn kind(self) -> Option<CallerKind> {
        match self {
            Origin::Kernel => None,
            Origin::Package | Origin::PeersPackage => Some(CallerKind::Package),
            Origin::Peer => Some(CallerKind::Peer),
            Origin::Operator => Some(CallerKind::Operator),
        }
    }
}

/// What a dispatched method came to.
pub enum Dispatched {
    /// It is over: the encoded reply, or why there is none.
    Done(CallResult<Vec<u8>>),
    /// It goes on.
    Later(LocalFuture<'static, CallResult<Vec<u8>>>),
}

/// One half of a service on one core, called by numbers and encoded arguments.
pub trait Service: Any {
    /// Decodes the arguments, calls the method, encodes its reply. A method that this half has
    /// not is `Denied`, one that there is not `NotFound`, wrong arguments are `Invalid`.
    fn dispatch(&self, caller: &Caller, method: MethodNumber, arguments: &[u8]) -> Dispatched;
}

/// What a service's state is made from, on the core where the service runs.
pub trait Start: Sized {
    /// The state at first. It may find other services with `stl`.
    fn start(stl: &Stl) -> Self;
}

/// The methods of one half, `dyn NameKernel` or `dyn NameUser` of a service `Name`: what a client
/// calls on the same core, whoever implements them.
pub trait Methods: 'static {
    /// The interface that they are of.
    const INTERFACE: &'static Interface;

    /// Whether any method asks who calls.
    const ASKS_CALLER: bool;

    /// As [`Service::dispatch`].
    fn dispatch(
        methods: &Rc<Self>,
        caller: &Caller,
        method: MethodNumber,
        arguments: &[u8],
    ) -> Dispatched;
}

/// Methods that are called by number.
pub(crate) struct Bound<M: ?Sized>(pub Rc<M>);

impl<M: Methods + ?Sized> Service for Bound<M> {
    fn dispatch(&self, caller: &Caller, method: MethodNumber, arguments: &[u8]) -> Dispatched {
        M::dispatch(&self.0, caller, method, arguments)
    }
}

/// One half of a service on one core.
pub struct Half {
    /// What is called by numbers.
    pub service: Rc<dyn Service>,
    /// Whether any method asks who calls: to find that out for nobody costs more than the call.
    pub asks_caller: bool,
}

impl Half {
    /// The half of these methods: typed clients on the same core call them directly.
    pub fn of<M: Methods + ?Sized>(methods: Rc<M>) -> Half {
        Half { service: Rc::new(Bound(methods)), asks_caller: M::ASKS_CALLER }
    }

    /// The methods themselves, if they are of this interface.
    pub(crate) fn methods<M: Methods + ?Sized>(&self) -> Option<Rc<M>> {
        let service: Rc<dyn Any> = self.service.clone();
        let bound: Rc<Bound<M>> = service.downcast().ok()?;
        Some(bound.0.clone())
    }
}

/// Which cores a service runs on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// The core that manages the node.
    Manager,
    /// All cores that have one of these roles.
    Roles(RoleSet),
    /// Every core.
    Every,
}

/// What a service says, apart from who does it: all that a caller links.
#[derive(Clone, Copy)]
pub struct Interface {
    /// The service's name.
    pub name: &'static str,
    /// Its name, its methods.
    pub schema: &'static schema::Service<'static>,
    /// That of the schema.
    pub fingerprint: Fingerprint,
    /// Its type, if more is said of it than that it is this service's: by this one, or by
    /// another of which this is one more instance.
    pub ty: Option<&'static ServiceType>,
    /// The subsystem that its type belongs to.
    pub subsystem: &'static str,
    /// The task that its type performs.
    pub capability: &'static str,
    /// How far above the hardware it is.
    pub layer: Layer,
}

/// A service as its implementation declares it: the metadata of Dhara's descriptors (III.C), and
/// how to make its halves.
#[derive(Clone, Copy)]
pub struct Registration {
    /// What it says.
    pub interface: &'static Interface,
    /// How this implementation works, in a line.
    pub working: &'static str,
    /// What characterizes it, each with its weight.
    pub keywords: &'static [(&'static str, u32)],
    /// What its type and whoever chooses among instances want to know of it.
    pub attributes: &'static [Attribute],
    /// Where its kernel half runs, unless the node's configuration says otherwise.
    pub on: On,
    /// Makes the half of the methods tagged `stl_k`, if there are any.
    pub kernel: Option<fn(&Stl) -> Half>,
    /// Makes the half of the methods tagged `stl_u`, if there are any.
    pub user: Option<fn(&Stl) -> Half>,
    /// Makes the object that decides on a core, if it is a scheduling policy.
    pub policy: Option<fn() -> Box<dyn Scheduling>>,
}

impl Registration {
    /// The service's name.
    pub const fn name(&self) -> &'static str {
        self.interface.name
    }
}

/// A typed client, as `#[service]` makes it of an interface. That of the service which declares a
/// type speaks to every instance of that type: they all begin with its methods.
pub trait Client: Sized {
    /// The interface that it was made for.
    const INTERFACE: &'static Interface;

    /// Speaks to the instance at a place, which was found before. If it is not there, calls are
    /// `Dead`.
    fn at(stl: &Stl, place: Place) -> Self;
}
