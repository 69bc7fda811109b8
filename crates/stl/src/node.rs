//! What the kernel half of a service may ask of the kernel beneath it: memory, the state of the
//! cores, packages. A package's transport layer has none of it.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use nile_abi::ip::{Addresses, Wide};
use nile_abi::{
    CoreId, CorePhase, Generation, ImageRefused, Instant, KeepName, NodeId, PageSize, PhysAddr,
    RoleSet, Status, VirtAddr,
};

pub use nile_device::disk::Inline;
pub use nile_device::domains;
pub use nile_device::{
    Domains, DrivenInterface, Gate, Grant, Interface, Line, LineState, Seated, TimerSource,
};
pub use nile_ring::{Buffer, Handle, Message, Pool, PoolId};

pub use crate::handles::{from_call, in_call, in_view};
pub use crate::pool_disk::{Moved, Moving, PoolDisk};
use crate::{CallError, CallResult, LocalFuture, Stl};

pub use crate::samples::{MOST_HERTZ, Samples};
pub use crate::usage::{PackageUsage, RegionShare, RegionUse};

/// What a request to the kernel gives.
pub type NodeFuture<T> = LocalFuture<'static, Result<T, Status>>;

/// The kernel of one core, and through it the node. Whatever waits is complete in itself: a future
/// that is dropped leaves nothing half done.
pub trait Node {
    /// How much memory the node has. Waits for the management core.
    fn memory(&self) -> NodeFuture<Memory>;

    /// The `index`th region of the node's memory; `NotFound` after the last. Waits for the
    /// management core.
    fn region(&self, index: u64) -> NodeFuture<Region>;

    /// Gives up so many free collections of 2 MiB, which nobody has then: all of them, or none
    /// (`NoMemory`). Waits for the management core.
    fn give_up_memory(&self, collections: u64) -> NodeFuture<Vec<Grant>>;

    /// This memory is the node's from now on; what is so already stays as it is. Waits for the
    /// management core. `Invalid` (not in whole 2 MiB), `NotFound` (no memory that it can have).
    fn get_memory(&self, grant: Grant) -> NodeFuture<()>;

    /// So many collections of 2 MiB that were given up are the node's again, whichever: how many
    /// were. Waits for the management core.
    fn call_back_memory(&self, collections: u64) -> NodeFuture<u64>;

    /// A zeroed frame, mapped on this core. Waits for the management core. Fails with `NoMemory`
    /// (no free collection of the size) or `NoTables`.
    fn allocate(&self, size: PageSize) -> NodeFuture<Box<dyn Frame>>;

    /// The next channel that a package of another core opens to `tag`, a
    /// [kernel's](nile_abi::call::is_kernels), on this core. Waits for one. `Invalid` (a tag of
    /// packages), `NoTables`, `NoMemory`.
    fn accept_package(&self, tag: u32) -> NodeFuture<Box<dyn FromPackage>>;

    /// A channel to the package on core `to` that accepts `tag`, a kernel's, with room for `cells`
    /// messages, a power of two up to 16384. Does not wait for the acceptor. `Invalid` (such a
    /// number, a tag of packages, or this core), `NotFound` (no such core), `Dead` (it has
    /// stopped), `NoMemory`, `NoTables`.
    fn open_package(&self, to: CoreId, tag: u32, cells: u32) -> NodeFuture<Box<dyn ToPackage>>;

    /// The buffers that all cores of the node share; `None` if it has none.
    fn pool(&self) -> Option<Pool>;

    /// Where the bytes of a buffer are for a device of this machine; `None` if the node has no
    /// pool.
    fn address_of(&self, buffer: &Buffer) -> Option<PhysAddr>;

    /// Who binds this core's subjects, its services and its package, to policies.
    fn policies(&self) -> Rc<dyn nile_policy::Manager>;

    /// What a core is doing, without disturbing it; `None` if there is no such core.
    fn state_of(&self, core: CoreId) -> Option<CoreState>;

    /// How many calls of other cores the worker cores have answered since the node started, by how
    /// long that took: less than each time, and no less than the one before.
    fn answers(&self) -> Vec<(Duration, u64)>;

    /// What this core's timers do, and by when the next ones fire, at most so many.
    fn timers(&self, most: usize) -> TimerState;

    /// The timers that can end this core's sleep, and the place of the one that it has among them.
    fn timer_sources(&self) -> (Vec<TimerSource>, usize);

    /// Takes another of them; no deadline is lost, and the core may be woken once too early.
    /// `NotFound` if there is none at this place, `Failed` if the machine refuses it.
    fn take_timer_source(&self, place: usize) -> Result<(), Status>;

    /// The line of a device of the node, without disturbing it; `None` if there is none.
    fn line_of(&self, line: Line) -> Option<DeviceLine>;

    /// Has the line of a device that this core drives interrupt this core or another, which wakes
    /// this one then. `NotFound` if this core does not drive it, or there is no such core;
    /// `Denied` where the machine cannot.
    fn route_line(&self, line: Line, core: CoreId) -> Result<(), Status>;

    /// Has it interrupt nobody, and the core look at the device from time to time; or somebody
    /// again. `NotFound` if this core does not drive it.
    fn mask_line(&self, line: Line, is_masked: bool) -> Result<(), Status>;

    /// Gives the package that runs on this core at least `bytes` more bytes of zeroed memory:
    /// where they are in it, and how many. Waits for the management core. `NotFound` if none
    /// runs, `NoMemory` beyond its limit, `NoTables`, `Invalid` for no bytes or too many.
    fn grow_package(&self, bytes: u64) -> NodeFuture<(VirtAddr, u64)>;

    /// What this node is in a cluster, as its network core; `None` if it is alone.
    fn member(&self) -> Option<Member>;

    /// The network interfaces that this core drives: the same ones whenever it is asked.
    fn interfaces(&self) -> Vec<Rc<DrivenInterface>>;

    /// The disks that this core drives: the same ones whenever it is asked.
    fn disks(&self) -> Vec<PoolDisk>;

    /// The open file that another program of this machine has handed to the node under this name,
    /// as a disk without end and without sectors: of the buffers of a transfer, whole lines of 64
    /// bytes, it moves as many bytes as are to be hashed, and takes no hash. `None` if there is
    /// none, or no longer, or this core is in another process.
    fn file(&self, name: u64) -> Option<PoolDisk> {
        let _ = name;
        None
    }

    /// What this node may do to its machine, if it supervises that, on the managing core.
    fn domains(&self) -> Option<&dyn Domains> {
        None
    }

    /// What this node shares with its supervisor, if it is a domain, on the managing core.
    fn seated(&self) -> Option<Seated> {
        None
    }

    /// Waits for a knock of this domain's supervisor, on the managing core, by one task at a time.
    fn knocked(&self) -> LocalFuture<'static, ()> {
        Box::pin(core::future::pending())
    }

    /// Fills `bytes` with what nobody can predict; `false` if the machine has no source of it.
    fn entropy(&self, bytes: &mut [u8]) -> bool;

    /// Ends the node, which cannot do what it is for. On the management core only.
    fn give_up(&self) {}

    /// Ends the node, as whoever started it wants. On the management core only.
    fn end(&self) {}

    /// The machine's CRC-32C, if it has an instruction for it: continues a checksum, zero at
    /// first, over more bytes.
    fn checksum(&self) -> Option<fn(u32, &[u8]) -> u32>;

    /// Takes `hertz` samples per second of this core's busy time from now on; 0 disables. Waits
    /// for the management core. `Invalid` (more than [`MOST_HERTZ`]), `Denied` (this
    /// machine cannot), `NoMemory`, `NoTables`.
    fn sample(&self, hertz: u32) -> NodeFuture<()>;

    /// The samples of this core from the number `from` on: at most so many.
    fn samples(&self, from: u64, most: usize) -> Samples;

    /// Starts a package on this core: loads it and runs it until it ends. Its calls of services
    /// are served as those of any package. Nothing waits. `NotFound` if the node was started
    /// without a package of this name, `Exists` while there is another package here, until its
    /// memory is given back; `Denied` if the core is no worker. What is wrong with a file is its
    /// [end](RunningPackage::ended).
    fn run_package(
        &self,
        source: PackageSource<'_>,
        argument: &[u8],
        limits: PackageLimits,
    ) -> Result<Rc<dyn RunningPackage>, Status>;

    /// The keeps of the node, memory of packages that stays when they end: names, bytes, and the
    /// versions of their contents.
    fn keeps(&self) -> Vec<(KeepName, u64, u16)>;

    /// The regions of the node, as its management core knows them; others know no packages that
    /// have them.
    fn regions(&self) -> Vec<RegionUse>;

    /// Makes a region of whole pages, of the node's memory or, on its management core, of what it
    /// shares with other domains. Waits for that core. `Exists` if there is another of this name,
    /// `Invalid` for a name, size or memory that none can have, `NoMemory`, and `Denied` for what
    /// the supervisor does not have the node share.
    fn make_region(&self, name: String, bytes: u64, share: Option<RegionShare>) -> NodeFuture<()>;

    /// Forgets a keep or a region. Waits for the management core. `NotFound`; `Exists` while a
    /// package has it.
    fn drop_keep(&self, name: KeepName) -> NodeFuture<()>;

    /// A package that stays has run on this core for the last time: its services end, and calls
    /// that wait for it.
    fn end_stay(&self, _stay: Stay) {}

    /// Whether packages may run on this core, if it is a worker.
    fn may_run_packages(&self) -> bool {
        true
    }

    /// Ends a package of a core before its next turn; a number of the past ends nothing. Waits
    /// for the management core. `NotFound` (no such core) or `Dead` (it has stopped).
    fn stop_package(&self, core: CoreId, package: u32) -> NodeFuture<()>;

    /// Ends a core's incarnation, as a panic of its kernel does, when it next looks around: its
    /// next one begins. Waits for the management core, not for the end. `NotFound` (no such core)
    /// or `Dead` (it has stopped for good).
    fn end_core(&self, core: CoreId) -> NodeFuture<()>;

    /// Has another core leave as planned, once what it works on is done: its services are
    /// withdrawn, and what it has not begun its callers take elsewhere. Then its next incarnation
    /// begins, at once or, if it is to be away, when it is called back. Waits for that. `Busy`: it
    /// was not done within `patience`, and the core stays; `NotFound` (no such core), `Denied`
    /// (the core that manages the node), `Dead` (it has stopped, or is away).
    fn leave_core(&self, core: CoreId, patience: Duration, is_away: bool) -> NodeFuture<()>;

    /// Has a core that is away begin its next incarnation, and waits until that runs. `NotFound`
    /// (no such core), `Timeout` (it does not begin: it has stopped for good).
    fn call_back_core(&self, core: CoreId) -> NodeFuture<()>;

    /// The hardware of a core was taken from this node, which is a domain: the core is away, and
    /// what it worked on is lost, as if its incarnation had died. On the management core only
    /// (`Denied`). `NotFound` where that cannot be.
    fn lose_core(&self, core: CoreId) -> Result<(), Status> {
        let _ = core;
        Err(Status::NotFound)
    }

    /// The service that says which core gets which roles while the node runs; `None` if each keeps
    /// what it has.
    fn role_policy(&self) -> Option<String>;

    /// What a core that is away is for when it comes back. Waits for the management core.
    /// `NotFound` (no such core), `Invalid` (it is not away).
    fn assign_core(&self, core: CoreId, roles: RoleSet) -> NodeFuture<()>;

    /// The image that a core begins with, by its name; zero: the node's. Its manager knows it.
    fn image_of(&self, _core: CoreId) -> u64 {
        0
    }

    /// Whether a core's machine lets it run another kernel image. Its node's manager knows it.
    fn may_have_image(&self, _core: CoreId) -> bool {
        false
    }

    /// Has a core run another kernel image from its next incarnation on: the file that was handed
    /// to the node under this name, all of which is read. Gives the image's name. A core that fails
    /// within ten seconds from then has its former image again. On the node's manager alone.
    fn load_image(&self, _core: CoreId, _file: u64) -> Result<u64, ImageRefused> {
        Err(ImageRefused::Stays)
    }

    /// Takes back an [image](Node::load_image) that a core has yet to run.
    fn unload_image(&self, _core: CoreId) {}

    /// Takes a piece of an image of `bytes` bytes that is to be [loaded](Node::load_image) for a
    /// core, where images come so and not as files: the bytes from `at` on, each piece in its turn,
    /// in whole words of 64 bits. The first begins with the image's
    /// [head](nile_abi::IMAGE_HEAD). The name of what has come whole is its
    /// [digest](nile_abi::ImageDigest). `NoFile`: it is not the next piece. On the manager alone.
    fn take_image(
        &self,
        _core: CoreId,
        _bytes: u64,
        _at: u64,
        _piece: &[u8],
    ) -> LocalFuture<'static, Result<(), ImageRefused>> {
        Box::pin(async { Err(ImageRefused::Stays) })
    }

    /// Has a core that is away begin its next incarnation with the image that was
    /// [loaded](Node::load_image) for it, and waits until that runs, or its former one if that
    /// failed. On the core that manages the node alone. Fails as
    /// [`call_back_core`](Node::call_back_core), and with `NoTables`; then the core begins as it
    /// was.
    fn begin_image(&self, core: CoreId) -> NodeFuture<()> {
        self.call_back_core(core)
    }

    /// Has this core, which manages the node, end once nothing is under way on it, and begin anew
    /// with the image that was [loaded](Node::load_image) for it, if one was; does not wait for
    /// that. If it takes longer than `patience`, it stays and forgets the image. `Busy`: it is to
    /// end already; `Denied`: it does not manage the node.
    fn renew_own(&self, _patience: Duration) -> Result<(), Status> {
        Err(Status::Denied)
    }

    /// The core that drives the device of a line; `None` if there is no such device.
    fn driver_of(&self, line: Line) -> Option<CoreId>;

    /// Has another core drive a device of the node from its next incarnation on; both cores are
    /// away, or `Invalid`. Waits for the management core. `NotFound` (no such device or core),
    /// `Denied` (this device cannot be driven by another core), `NoTables`; then nothing has
    /// changed.
    fn move_device(&self, line: Line, core: CoreId) -> NodeFuture<()>;
}

/// Where a package comes from.
#[derive(Clone, Debug)]
pub enum PackageSource<'a> {
    /// From those that the node was started with, by its name.
    Named(&'a str),
    /// An ELF file that has come from somewhere, unchecked. It is kept as long as its text may be
    /// of use to the next package. (A simulation has the program that is linked in by the name in
    /// the file's manifest instead.)
    File(Rc<[u8]>),
}

/// What a package may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackageLimits {
    /// Bytes of memory, all of its own included: image, stack, arena, what it asks for later. The
    /// buffers of the node's pool do not count.
    pub memory_bytes: u64,
    /// Bytes of its stack; at most 8 MiB.
    pub stack_bytes: u64,
    /// Bytes of its first heap memory.
    pub arena_bytes: u64,
    /// Buffers of the node's pool that it may have at once, in its hands or passed on and claimed
    /// by nobody. However many that are, it gets none of the [last ones](left_by_packages).
    pub buffers: u32,
    /// Bytes of lines that it may write to the node's log in a second, and at once. What is beyond
    /// is left out and counted.
    pub log_bytes: u32,
    /// If it stays: its services, and calls that it has not seen, are for the core's next package
    /// with the same number when it ends, until [`Node::end_stay`]; and it may keep memory beyond
    /// its end.
    pub stays: Option<Stay>,
    /// Whether others may be on the core beside it that share, too.
    pub shares: bool,
}

/// The number that those packages of a core have in common of which one follows the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stay(pub u32);

impl Default for PackageLimits {
    fn default() -> PackageLimits {
        PackageLimits {
            memory_bytes: 64 << 20,
            stack_bytes: 1 << 20,
            arena_bytes: 2 << 20,
            buffers: u32::MAX,
            log_bytes: 64 << 10,
            stays: None,
            shares: false,
        }
    }
}

/// How many free buffers of a pool packages leave: what all others do, and an eighth, at most
/// eight. So the node's services go on, whatever packages keep.
pub fn left_by_packages(pool: &Pool) -> usize {
    pool.reserve() + (pool.capacity() / 8).min(8)
}

/// A package that was started on this core. Dropping this changes nothing.
pub trait RunningPackage {
    /// Its number on this core, as [`Node::stop_package`] takes it.
    fn id(&self) -> u32;

    /// Ends it before its next turn, whatever it waits for.
    fn stop(&self);

    /// How many buffers of the node's pool it has, in its hands or passed on.
    fn buffers(&self) -> usize;

    /// Whether its manifest says that it uses frames of the network.
    fn uses_frames(&self) -> bool;

    /// What it has now, and has had of its core since it began.
    fn usage(&self) -> PackageUsage;

    /// It gets no more calls to its services; if it stays, its next incarnation gets them.
    fn pause(&self);

    /// How many calls to its services it has seen and not answered.
    fn works_on(&self) -> usize;

    /// Waits until it has ended and everything that it had is given back. It may be asked again.
    fn ended(&self) -> LocalFuture<'static, PackageEnd>;
}

/// How a package ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackageEnd {
    /// What it exited with, if it did so by itself.
    pub code: Option<u64>,
    /// The kind of end by the name that reports use: `exited`, `stopped`, `out of memory`, `not
    /// loaded`, or that of a fault.
    pub kind: &'static str,
    /// What happened, and where.
    pub text: String,
    /// The most bytes of memory that it had at once.
    pub memory_bytes: u64,
}

/// What a node is in a cluster.
#[derive(Clone)]
pub struct Member {
    /// Its name.
    pub node: NodeId,
    /// Its incarnation, as long as the core that was asked is in its present one.
    pub generation: Generation,
    /// The cluster's key; `None` if frames are not sealed.
    pub key: Option<[u8; 32]>,
    /// The nodes that keep the names of datasets, in the order of their numbers: one or three.
    pub keepers: Vec<NodeId>,
    /// The cluster's identity, which its disks have; zero if it has none.
    pub cluster: u64,
    /// Whether a new disk is not encrypted, though there is a key.
    pub plain_disk: bool,
    /// The addresses of its network.
    pub addresses: Addresses,
    /// Whether it has its own address lent, whatever these say.
    pub leases: bool,
    /// Where it has an address of IPv6.
    pub wide: Wide,
    /// The rules of its packet filter, one a line.
    pub rules: Arc<str>,
}

/// The receiving end of a channel that a package has opened to a service of this kernel. What the
/// package says is to be believed as little as the arguments of its calls. Dropping it closes the
/// channel.
pub trait FromPackage {
    /// The core of the package.
    fn from(&self) -> CoreId;

    /// The next message, if there is one. `Dead` when the package has closed its end, or is gone,
    /// and all was received; `Invalid` if it has written what is no message.
    fn try_receive(&self) -> Result<Option<Message>, Status>;

    /// The next message. Waits for it, without a turn of the core's; fails as
    /// [`FromPackage::try_receive`] does. One task at a time can wait.
    fn receive(&self) -> LocalFuture<'_, Result<Message, Status>>;
}

/// The sending end of a channel from a service of this kernel to a package. Dropping it closes the
/// channel; what was sent can still be received.
pub trait ToPackage {
    /// The core of the package.
    fn to(&self) -> CoreId;

    /// Sends a message, and wakes the package if it sleeps. Never blocks. `Busy` when there is no
    /// room, `Dead` when the package has closed its end, or is gone.
    fn try_send(&self, message: &Message) -> Result<(), Status>;

    /// Sends a message, waiting while there is no room.
    fn send<'a>(&'a self, message: &'a Message) -> LocalFuture<'a, Result<(), Status>>;
}

/// A frame that is mapped on this core. Dropping it gives it back without waiting.
pub trait Frame {
    /// Where it is in the machine's memory.
    fn start(&self) -> PhysAddr;

    /// Where it is mapped on this core.
    fn at(&self) -> VirtAddr;

    /// How long it is.
    fn size(&self) -> PageSize;

    /// Gives it back; over when it is free again.
    fn release(self: Box<Self>) -> NodeFuture<()>;
}

/// How much memory the node has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Usable bytes.
    pub total_bytes: u64,
    /// Bytes of them that nobody has.
    pub free_bytes: u64,
    /// Requests that could be met now, by size: 4 KiB, 2 MiB, 1 GiB.
    pub free: [u64; 3],
    /// Last-level tables that no core uses.
    pub free_tables: u64,
}

/// A region of the node's memory, as firmware names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its first byte.
    pub start: PhysAddr,
    /// Its length in bytes.
    pub bytes: u64,
    /// Whether it can be given out.
    pub usable: bool,
}

/// What a core is doing, and has done since the node started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoreState {
    /// What it is for.
    pub roles: RoleSet,
    /// Its name in the machine: APIC id, thread or process id.
    pub hardware_id: u64,
    /// Its incarnation.
    pub generation: Generation,
    /// How far it has come.
    pub phase: CorePhase,
    /// Interrupts by the cause's name.
    pub interrupts: Vec<(&'static str, u64)>,
    /// Those of them that came while it slept, and broke into nothing.
    pub wakes: u64,
    /// Passes of its loop.
    pub turns: u64,
    /// Times it went to sleep.
    pub sleeps: u64,
    /// Polls of its tasks.
    pub polls: u64,
    /// System calls of its packages.
    pub system_calls: u64,
    /// The percent of its last second or so in which it had something to do.
    pub load: u64,
    /// How long it was busy since the node started, in all its incarnations.
    pub busy: Duration,
    /// How long it had nothing to do.
    pub idle: Duration,
    /// How long its queues are, by name.
    pub queues: Vec<(&'static str, u64)>,
}

/// How a device interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLine {
    /// The core that drives it.
    pub driver: CoreId,
    /// What that core says of it.
    pub state: LineState,
    /// Its interrupts since the node started, of all cores.
    pub interrupts: u64,
}

/// What the timers of a core do.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TimerState {
    /// Timers that this incarnation has armed.
    pub armed: u64,
    /// Those that have fired.
    pub fired: u64,
    /// Those of them that have fired before their end.
    pub coalesced: u64,
    /// Those that wait.
    pub waiting: u64,
    /// Interrupts by the core's timer since the node started.
    pub interrupts: u64,
    /// Interrupts of any cause that came while it slept.
    pub wakes: u64,
    /// By when the next ones fire, the first one first.
    pub ends: Vec<Instant>,
}

impl Stl {
    /// The kernel beneath. `Denied` in a package.
    pub fn node(&self) -> CallResult<Rc<dyn Node>> {
        let denied = || CallError::new(Status::Denied, "a package does not reach the kernel so");
        self.host().node().ok_or_else(denied)
    }
}

/// The page size of `bytes` bytes. `Invalid` if there is none.
pub fn page_size(bytes: u64) -> CallResult<PageSize> {
    let size = PageSize::ALL.into_iter().find(|size| size.bytes() == bytes);
    size.ok_or_else(|| {
        let sizes = PageSize::ALL.map(PageSize::bytes);
        CallError::new(Status::Invalid, format!("size is {bytes}, which is not one of {sizes:?}"))
    })
}
