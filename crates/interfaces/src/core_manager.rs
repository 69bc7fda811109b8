//! What each core of the node is for and what it has done; the end of a package, or of any core's
//! incarnation; cores that leave and come back.

use alloc::string::String;
use alloc::vec::Vec;

use nile_abi::{CorePhase as Phase, Role, RoleSet};
use nile_bosml::Bytes;
use nile_stl::{CallResult, Record, service};

/// What a core can be for.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoreRole {
    /// It manages the node.
    Management,
    /// It moves frames between the node and its network.
    Network,
    /// It reads and writes the node's disks.
    Disk,
    /// It runs jobs.
    Worker,
}

impl CoreRole {
    /// As it is called.
    pub fn name(self) -> &'static str {
        Role::from(self).name()
    }

    /// Those of a set.
    pub fn all_of(roles: RoleSet) -> Vec<CoreRole> {
        roles.iter().map(CoreRole::from).collect()
    }

    /// The set of these.
    pub fn set(roles: &[CoreRole]) -> RoleSet {
        roles.iter().copied().map(Role::from).collect()
    }
}

impl From<Role> for CoreRole {
    fn from(role: Role) -> CoreRole {
        match role {
            Role::Management => CoreRole::Management,
            Role::Network => CoreRole::Network,
            Role::Disk => CoreRole::Disk,
            Role::Worker => CoreRole::Worker,
        }
    }
}

impl From<CoreRole> for Role {
    fn from(role: CoreRole) -> Role {
        match role {
            CoreRole::Management => Role::Management,
            CoreRole::Network => Role::Network,
            CoreRole::Disk => Role::Disk,
            CoreRole::Worker => Role::Worker,
        }
    }
}

/// How far a core has come.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub enum CorePhase {
    /// It is not started.
    Offline,
    /// It is started, and its loop does not run yet.
    Starting,
    /// Its loop runs.
    Running,
    /// Its incarnation ended in a fault, and the next one is being prepared.
    Restarting,
    /// Its loop has ended for good.
    Stopped,
    /// It is about to end as planned, and takes no calls any more.
    Leaving,
    /// It has left, and begins anew when it is called back.
    Away,
}

impl CorePhase {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            CorePhase::Offline => Phase::Offline,
            CorePhase::Starting => Phase::Starting,
            CorePhase::Running => Phase::Running,
            CorePhase::Restarting => Phase::Restarting,
            CorePhase::Stopped => Phase::Stopped,
            CorePhase::Leaving => Phase::Leaving,
            CorePhase::Away => Phase::Away,
        }
        .name()
    }
}

impl From<Phase> for CorePhase {
    fn from(phase: Phase) -> CorePhase {
        match phase {
            Phase::Offline => CorePhase::Offline,
            Phase::Starting => CorePhase::Starting,
            Phase::Running => CorePhase::Running,
            Phase::Restarting => CorePhase::Restarting,
            Phase::Stopped => CorePhase::Stopped,
            Phase::Leaving => CorePhase::Leaving,
            Phase::Away => CorePhase::Away,
        }
    }
}

/// A core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CoreEntry {
    /// Its number in the node.
    pub core: u16,
    /// What it is for.
    pub roles: Vec<CoreRole>,
    /// Its incarnation.
    pub generation: u32,
    /// How far it has come.
    pub phase: CorePhase,
}

/// What a core is and what it has done since the node started, in all its incarnations.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CoreStatistics {
    /// Which core.
    pub entry: CoreEntry,
    /// Its name in the machine: APIC id, thread or process id.
    pub hardware_id: u64,
    /// Interrupts by cause.
    pub interrupts: Vec<Interrupts>,
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
    /// What waits.
    pub queues: Vec<QueueDepth>,
}

/// What a core is for, what it drives, and how it has spent its time.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct CoreRoles {
    /// Which core.
    pub core: u16,
    /// What it is for.
    pub roles: Vec<CoreRole>,
    /// How far it has come.
    pub phase: CorePhase,
    /// The kernel image that it begins with, by the digest of its bytes; none: the one that the
    /// node was started with.
    pub image: Option<String>,
    /// Whether it runs that for as long as the node is there.
    pub keeps_image: bool,
    /// The devices that it drives, by the names that reports use.
    pub drives: Vec<String>,
    /// Whether its roles stay as they are: it cannot leave without the node.
    pub is_pinned: bool,
    /// The percent of its last second or so in which it had something to do.
    pub load: u64,
    /// Microseconds in which it had something to do since the node started.
    pub busy_us: u64,
    /// Microseconds in which it had nothing to do.
    pub idle_us: u64,
}

/// Calls that were answered alike.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answers {
    /// They took less than so long: nanoseconds.
    pub within_ns: u64,
    /// How many.
    pub count: u64,
}

/// How much waits on a core.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct QueueDepth {
    /// Of what: tasks for their turn, calls that are served, calls that have not ended.
    pub name: String,
    /// How many.
    pub depth: u64,
}

/// How often a core was interrupted for one cause.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct Interrupts {
    /// The cause.
    pub cause: String,
    /// How often.
    pub count: u64,
}

/// Memory that stays when the package that has it ends.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct KeepEntry {
    /// The package's name, a slash, and the keep's.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// The version of its contents, by the package that made it.
    pub version: u16,
}

/// Memory that packages of several cores share.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct RegionEntry {
    /// Its name.
    pub name: String,
    /// Bytes.
    pub bytes: u64,
    /// Whether other domains of its machine have it, too.
    pub shared: bool,
    /// The packages that have it.
    pub packages: Vec<RegionUser>,
}

/// Memory that a domain shares with others: which, and what its supervisor calls the domain.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct SharedUnits {
    /// The first unit of 2 MiB, as the supervisor numbers them.
    pub first: u32,
    /// The domain's place, from 1.
    pub place: u8,
}

/// A package that has a region.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionUser {
    /// Its core.
    pub core: u16,
    /// Which of its core's places it runs in, from 0 to 3.
    pub slot: u8,
}

/// The cores of the node: roles, states, counts.
#[service(subsystem = "cores", capability = "management", layer = high)]
pub trait CoreManager {
    /// Every core.
    #[stl_k(reply = "cores", allow(package, operator, peer))]
    fn list(&self) -> CallResult<Vec<CoreEntry>>;

    /// What each core is for and drives, and how it has spent its time.
    #[stl_k(reply = "cores", allow(package, operator, peer))]
    fn roles(&self) -> CallResult<Vec<CoreRoles>>;

    /// What one core has done.
    #[stl_k(reply = "statistics", allow(package, operator, peer))]
    fn statistics(&self, core: u16) -> CallResult<CoreStatistics>;

    /// How long the calls of other cores took that this node's worker cores have answered since it
    /// started, from when a core began to look at one: in rising order, without those of which
    /// there were none.
    #[stl_k(reply = "answers", allow(package, operator, peer))]
    fn answers(&self) -> CallResult<Vec<Answers>>;

    /// Ends the package of this number on a core before its next turn; not for packages.
    #[stl_k(allow(operator, peer))]
    async fn stop_package(&self, core: u16, package: u32) -> CallResult<()>;

    /// Ends a core's incarnation as a panic of its kernel does, so that its next one begins; not
    /// for packages. Tests of a cluster break it so.
    #[stl_k(allow(operator, peer))]
    async fn end_core(&self, core: u16) -> CallResult<()>;

    /// Has a core leave and begin anew, once what it works on is done. Callers of its services
    /// find others meanwhile. Waits until its next incarnation runs. `busy`: what it works on is
    /// not done within `patience_ms`, and the core goes on as it was. The core that manages the
    /// node answers before it leaves: its next generation in `list` says that it has.
    #[stl_k(allow(operator, peer))]
    async fn renew(&self, core: u16, #[range(1..=60000)] patience_ms: u32) -> CallResult<()>;

    /// Takes a piece of a kernel image of so many bytes that is to be deployed on a core of a node
    /// that is a PC: the bytes from `at` on, whole words of 64 bits, each piece in its turn
    /// (docs/files.md). One image comes at a time. `invalid`: it is no image, or one with another
    /// ABI than the node. `not found`: it is not the next piece.
    #[stl_k(allow(operator, peer))]
    async fn take_image(
        &self,
        core: u16,
        bytes: u64,
        at: u64,
        #[range(1..=49152)] piece: Bytes<'_>,
    ) -> CallResult<()>;

    /// Renews a core in the same way, but with another kernel image: on a hosted node the file of
    /// this name that a program of the node's machine has handed to it, on a PC what has come in
    /// pieces and has this digest. Gives the image's name. `invalid`: the file is no image, or one
    /// with another ABI than the node. `failed`: it ended at once, and the core runs its former
    /// image again, as it does by itself if the image fails in its first ten seconds.
    #[stl_k(reply = "image", allow(operator, peer))]
    async fn deploy(
        &self,
        core: u16,
        file: u64,
        #[range(1..=60000)] patience_ms: u32,
    ) -> CallResult<String>;

    /// Has a worker core leave in the same way, and stay away: the machine has its processor and
    /// its buffers until it is called back. One worker stays.
    #[stl_k(allow(operator, peer))]
    async fn send_away(&self, core: u16, #[range(1..=60000)] patience_ms: u32) -> CallResult<()>;

    /// Has a core that is away begin anew, and waits until it runs; one that is there stays as it
    /// is.
    #[stl_k(allow(operator, peer))]
    async fn call_back(&self, core: u16) -> CallResult<()>;

    /// Gives a core other roles: it leaves as planned and comes back with them, and devices go to
    /// their new cores whole, which leave for that, too. A core that has not done what it works on
    /// within `patience_ms` has the others come back as they were. The last core of a role, those
    /// that manage the node and its link to a cluster stay as they are.
    #[stl_k(allow(operator, peer))]
    async fn assign(
        &self,
        core: u16,
        roles: Vec<CoreRole>,
        #[range(1..=60000)] patience_ms: u32,
    ) -> CallResult<()>;

    /// The memory that packages of this node keep when they end.
    #[stl_k(reply = "keeps", allow(package, operator, peer))]
    fn keeps(&self) -> CallResult<Vec<KeepEntry>>;

    /// Forgets one, whose name is PACKAGE/KEEP, and frees its memory; not while a package has it.
    #[stl_k(allow(operator, peer))]
    async fn drop_keep(&self, name: String) -> CallResult<()>;

    /// The regions of this node, and the packages that have them.
    #[stl_k(reply = "regions", allow(package, operator, peer))]
    fn regions(&self) -> CallResult<Vec<RegionEntry>>;

    /// Makes a region of so many bytes, whole pages of 4 KiB and at most 256 MiB, for packages
    /// whose manifests name it. One of this size may be there. It is zero, and stays until it is
    /// dropped or the node ends. In a domain it may be memory that the supervisor has other domains
    /// have, too: then it is as these left it, and this one may be there.
    #[stl_k(allow(operator, peer))]
    async fn make_region(
        &self,
        name: String,
        bytes: u64,
        shared: Option<SharedUnits>,
    ) -> CallResult<()>;

    /// Forgets a region, and frees its memory; not while a package has it.
    #[stl_k(allow(operator, peer))]
    async fn drop_region(&self, name: String) -> CallResult<()>;

    /// The instance of `role_assignment` that the node's cores get their roles by, as
    /// `[roles] policy` names it; none: they keep those that they have.
    #[stl_k(reply = "policy", allow(package, operator, peer))]
    fn role_policy(&self) -> CallResult<Option<String>>;
}
