//! User mode: how a core loads a package, runs it, serves its system calls and ends it.
//!
//! A package runs by turns ([`nile_platform::User`]). A turn has the core for itself; between two
//! turns the core's loop goes on, so that a worker in a job drains its channels when the package
//! calls the kernel and when the core's manager signals it (NileOS paper, III.C), which it does
//! when a turn takes long (`manager::watch`). While others of the core wait for their turn, or a
//! timer of its, a turn has an end, by the policy that the package is bound to. However a package
//! ends, all its memory goes back, but for text that may be wanted again, and the core runs the
//! next one.
//!
//! A core has one package, or several that share it, each in a slot of its user half. A package is
//! a task, so they have turns as the executor's policies say; neighbours that wake each other have
//! them one after the other, and no pass between (`lending`).
//!
//! * `layout`: where in user memory everything is.
//! * `limits`: what each may have. `load`: an image, made ready in memory of the kernel's.
//! * `keeps`: memory that stays when the package ends.
//! * `space`: the package's memory: what it has, how much it may have.
//! * `text`: what of the slot's last package is still there, if this is the same one.
//! * `shared`: what it has together with a package of another core.
//! * `turns`: the loop of turns, and the system calls that the kernel answers itself.
//! * `lending`: turns that a neighbour's task takes.

mod keeps;
mod layout;
mod lending;
mod limits;
mod load;
mod outcome;
mod shared;
mod space;
mod text;
mod turns;

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, OnceCell, RefCell};
use core::fmt;
use core::future::Future;
use core::pin::Pin;

use nile_abi::call::{KeepPlace, SystemCall, UserSlot};
use nile_abi::{ChannelId, CoreId, Instant, Role, Status, VirtAddr};
use nile_package::{Image, Manifest};
use nile_platform::board::Keep;
use nile_platform::{Hosting, Machine};
use nile_stl::Allowance;
pub use nile_stl::node::{PackageLimits, PackageUsage};
use nile_sync::{Flag, Notify};

use crate::control::Request;
use crate::core::{Core, PACKAGES};
use lending::Lending;
pub(crate) use lending::Neighbours;
pub(crate) use limits::{Most, PackagesTable};
pub use outcome::{Ended, LoadError, PackageReport};
pub(crate) use shared::Hold;
use space::Space;
use turns::Counters;
pub(crate) use turns::{is_waited_for, next_pass};

/// The most bytes of a system call's input, and of its output: a message of 64 KiB and what stands
/// before it.
pub const MAX_CALL_BYTES: usize = (64 + 4) * 1024;

/// The most bytes of a package's argument.
pub const MAX_ARGUMENT_BYTES: usize = layout::ARGUMENT_BYTES as usize;

/// The number of a package on its core: one more than the number of the one before. The next
/// incarnation of the core begins anew.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PackageId(pub u32);

impl fmt::Display for PackageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A future that stays on its core.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// What answers the system calls that this module does not answer itself: `invoke`, `begin`,
/// `wait`, `wake`, `reply`, `publish`, `channel`, `pool`.
pub trait Calls<M: Machine>: 'static {
    /// Answers a call of `package`: with its value and with what goes to its output, at most
    /// `room` bytes. The package does not run meanwhile, the core does. When the package is
    /// stopped, the future is dropped unfinished.
    fn call(
        &self,
        package: &Package<M>,
        call: SystemCall,
        word: u64,
        input: Vec<u8>,
        room: usize,
    ) -> LocalFuture<Result<(u64, Vec<u8>), Status>>;

    /// Notes for a neighbour, to which this channel leads, that it was woken: its slot. `None` if
    /// nothing was noted; then `wake` is a call like any other.
    fn wake_neighbour(&self, _channel: ChannelId) -> Option<UserSlot> {
        None
    }

    /// What a `wait` gives now, if that is something that happened to a channel.
    fn next_of_channels(&self) -> Option<u64> {
        None
    }

    /// Whether a `wait` waits for channels alone.
    fn waits_for_channels(&self) -> bool {
        false
    }

    /// `package` has ended, and makes no more calls. Its memory is still there.
    fn ended(&self, _package: &Package<M>) {}
}

/// What serves a package that has no business with services: `wait` waits for its moment, and all
/// other calls are `NotFound`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoServices;

impl<M: Machine> Calls<M> for NoServices {
    fn call(
        &self,
        package: &Package<M>,
        call: SystemCall,
        word: u64,
        _: Vec<u8>,
        _: usize,
    ) -> LocalFuture<Result<(u64, Vec<u8>), Status>> {
        let core = package.0.core.clone();
        Box::pin(async move {
            match call {
                SystemCall::Wait => {
                    core.sleep_until(Instant::from_nanos(word)).await;
                    Err(Status::Timeout)
                }
                _ => Err(Status::NotFound),
            }
        })
    }
}

/// How a package that runs here is told to stop.
pub(crate) struct Control {
    id: PackageId,
    slot: UserSlot,
    shares: bool,
    stopped: Flag,
}

impl Control {
    pub(crate) fn new(id: PackageId, slot: UserSlot, shares: bool) -> Control {
        Control { id, slot, shares, stopped: Flag::default() }
    }

    /// Whether others that share may be beside it.
    pub(crate) fn shares(&self) -> bool {
        self.shares
    }

    pub(crate) fn id(&self) -> PackageId {
        self.id
    }

    /// Ends the package before its next turn.
    pub(crate) fn stop(&self) {
        self.stopped.raise();
    }
}

/// A package on this core: a handle, cheap to clone. Dropping it changes nothing.
pub struct Package<M: Machine>(Rc<Running<M>>);

impl<M: Machine> Clone for Package<M> {
    fn clone(&self) -> Package<M> {
        Package(self.0.clone())
    }
}

struct Running<M: Machine> {
    core: Core<M>,
    control: Rc<Control>,
    limits: PackageLimits,
    /// How many buffers of the pool it has, and what it may write to the log.
    buffers: Cell<usize>,
    lines: Allowance,
    /// The text of its manifest, once it is loaded; or the name of what is linked in.
    manifest: OnceCell<Box<str>>,
    linked: OnceCell<&'static str>,
    /// The keeps that it has.
    keeps: RefCell<Vec<(Keep, KeepPlace)>>,
    calls: Rc<dyn Calls<M>>,
    space: Space<M>,
    counters: Counters,
    lending: Lending,
    found_text: Cell<bool>,
    /// Why it exited, if it has said so.
    last_words: RefCell<String>,
    report: Cell<Option<PackageReport>>,
    has_ended: Notify,
}

impl<M: Machine> Core<M> {
    /// The package `name` of those that the node was started with.
    pub fn find_package(&self, name: &str) -> Option<Image> {
        self.packages.find(name)
    }

    /// Starts a package on this core: loads it, and runs it in a task until it ends, which
    /// [`Package::ended`] tells. `calls` answers what the kernel does not answer itself.
    /// `Exists` while there is another package here, until its memory is given back, unless all
    /// [share](PackageLimits::shares) the core and one of its slots is free; `Denied` if the core
    /// is no worker.
    pub fn run_package(
        &self,
        image: Image,
        argument: &[u8],
        limits: PackageLimits,
        calls: impl Calls<M>,
    ) -> Result<Package<M>, Status> {
        if !self.roles().contains(Role::Worker) {
            return Err(Status::Denied);
        }
        let limits = self.package_limits.of(limits);
        let control = self.client.enter_package(limits.shares)?;
        let slot = control.slot;
        self.machine.board().record(self.id()).set_hosting(Hosting::Package);
        let package = Package(Rc::new(Running {
            core: self.clone(),
            control,
            limits,
            buffers: Cell::new(0),
            lines: Allowance::new(limits.log_bytes),
            manifest: OnceCell::new(),
            linked: OnceCell::new(),
            keeps: RefCell::default(),
            calls: Rc::new(calls),
            space: Space::new(self, slot, limits.memory_bytes),
            counters: Counters::default(),
            lending: Lending::default(),
            found_text: Cell::new(false),
            last_words: RefCell::default(),
            report: Cell::new(None),
            has_ended: Notify::default(),
        }));
        let argument = Vec::from(argument);
        let running = package.clone();
        self.serve_package(Some(package.clone()));
        let before = self.executor.act_as(self.executor.subject(PACKAGES[slot.index()]));
        self.spawn(async move { running.live(image, &argument, limits).await });
        self.executor.act_as(before);
        Ok(package)
    }

    /// Ends a package of any core: it makes no further turn, whatever it is doing. Returns when
    /// the core is told, not when the package has ended. An id of the past stops nothing. Fails
    /// with `NotFound` (no such core) or `Dead` (it has stopped).
    pub async fn stop_package(&self, core: CoreId, package: PackageId) -> Result<(), Status> {
        self.request(Request::StopPackage { core, package }).await.map(|_| ())
    }

    /// Ends a core's incarnation, whatever it runs, when it next looks around. `NotFound` or
    /// `Dead` as above.
    pub async fn end_core(&self, core: CoreId) -> Result<(), Status> {
        self.request(Request::EndCore { core }).await.map(|_| ())
    }
}

impl<M: Machine> Package<M> {
    /// Its number on this core.
    pub fn id(&self) -> PackageId {
        self.0.control.id
    }

    /// What it says of itself, once it is loaded; a linked program says nothing.
    pub fn manifest(&self) -> Option<Manifest<'_>> {
        let text = self.0.manifest.get()?;
        Manifest::parse(text.as_bytes()).ok()
    }

    /// Whether it says that it serves a network; a linked program may.
    pub fn uses_frames(&self) -> bool {
        self.manifest().is_none_or(|manifest| manifest.uses_frames())
    }

    /// Its name, once it is loaded.
    fn name(&self) -> &str {
        let manifest = self.manifest().map(|it| it.name());
        manifest.or(self.0.linked.get().copied()).unwrap_or_default()
    }

    /// What it may have.
    pub(crate) fn limits(&self) -> &PackageLimits {
        &self.0.limits
    }

    /// What it has now, and has had of its core.
    pub fn usage(&self) -> PackageUsage {
        let Running { space, counters, .. } = &*self.0;
        PackageUsage {
            memory_bytes: space.used(),
            busy: counters.busy.get(),
            system_calls: counters.calls.get().iter().sum(),
        }
    }

    /// How many buffers of the pool it has.
    pub(crate) fn kept_buffers(&self) -> usize {
        self.0.buffers.get()
    }

    pub(crate) fn keep_buffers(&self, count: usize) {
        self.0.buffers.set(count);
    }

    /// Its slot of the core's user half.
    pub(crate) fn slot(&self) -> UserSlot {
        self.0.control.slot
    }

    /// Whether it has the node's pool of buffers in its memory.
    pub(crate) fn has_pool(&self) -> bool {
        self.0.space.has_pool()
    }

    /// Ends it before its next turn. From another core: [`Core::stop_package`].
    pub fn stop(&self) {
        self.0.control.stop();
    }

    /// What it said when it exited, on one line: of one that panicked what and where.
    pub fn last_words(&self) -> String {
        self.0.last_words.borrow().clone()
    }

    /// Waits until it has ended and everything that it had is given back.
    pub async fn ended(&self) -> PackageReport {
        self.0.has_ended.until(|| self.0.report.get()).await
    }

    /// Gives the package at least `bytes` more bytes of zeroed memory: where they are, and how
    /// many. Waits for the management core. `NoMemory` if that is more than its limit or nobody
    /// has so much, `NoTables`, `Invalid` for no bytes or more than there are addresses; `Dead`
    /// when it has ended.
    pub async fn grow(&self, bytes: u64) -> Result<(VirtAddr, u64), Status> {
        let grown = self.0.space.begin_to_grow(bytes)?;
        let package = self.clone();
        // A task of its own: when the caller is dropped, the memory is still in order.
        let task = self.0.core.spawn(async move {
            let result = package.0.space.grow(grown).await;
            package.0.space.has_grown();
            result
        });
        task.await.map(|()| grown)
    }

    /// From the first byte of the image to the last byte given back.
    async fn live(&self, image: Image, argument: &[u8], limits: PackageLimits) {
        let Running { core, space, counters, calls, .. } = &*self.0;
        let ended = match self.load(&image, argument, limits).await {
            Ok(()) => Ok(self.take_turns().await),
            Err(error) => Err(Ended::NotLoaded(error)),
        };
        calls.ended(self);
        self.tell_refused(self.0.lines.refused());
        match image {
            // What was shipped here is the code of jobs, and comes again with the next one.
            Image::Shipped(file) if ended.is_ok() => {
                space.empty(true).await;
                self.leave_text(file);
            }
            _ => space.empty(false).await,
        }
        let ended = ended.unwrap_or_else(|error| error);
        let report = PackageReport {
            ended: outcome::judge(ended, space.refused()),
            calls: counters.calls.get(),
            bad_calls: counters.bad.get(),
            interruptions: counters.interruptions.get(),
            found_text: self.0.found_text.get(),
            memory_bytes: space.most_used(),
            limit_bytes: limits.memory_bytes,
        };
        core.client.leave_package(space.slot());
        if core.client.packages() == 0 {
            core.serve_package(None);
            core.machine.board().record(core.id()).set_hosting(Hosting::Nothing);
        }
        self.0.report.set(Some(report));
        self.0.has_ended.notify();
    }
}
