//! The domains of a machine that a node supervises: nodes of their own on cores and memory that
//! this one hands out and takes back (RainForest 5.2: the user's end of *supcon*).

use alloc::string::String;
use alloc::vec::Vec;

use nile_stl::{CallResult, Record, service};

/// What a domain is to have.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct DomainWanted {
    /// What it is called.
    pub name: String,
    /// Cores.
    pub cores: u16,
    /// Memory, in units of 2 MiB.
    pub units: u32,
    /// The fewest cores that it can be left with, and the most that it can be given.
    pub least_cores: u16,
    /// As above.
    pub most_cores: u16,
    /// The most memory that it can be given, in units of 2 MiB.
    pub most_units: u32,
    /// When no core is free, it gets cores of domains with a lower number.
    pub priority: u8,
    /// Whether it gets a disk of the machine: whichever is free.
    pub disk: bool,
}

/// What a domain that runs is to have of its own. What is not said stays as it is.
#[derive(Record, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DomainChange {
    /// Cores.
    pub cores: Option<u16>,
    /// Memory, in units of 2 MiB.
    pub units: Option<u32>,
    /// Cores that it keeps are taken, and what they work on is lost.
    pub force: bool,
    /// What follows is said of its part of a disk, and not of what it sends.
    pub of_disk: bool,
    /// Bytes that it may move a second in the long run; zero for as many as there is room for.
    pub rate: Option<u64>,
    /// Bytes that it may move at once after a while without.
    pub burst: Option<u64>,
    /// How much it gets beside others that wait, too: twice as much as one with half of it.
    pub weight: Option<u64>,
}

/// What a domain may have a device of its supervisor do, and what that has done for it.
#[derive(Record, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TollEntry {
    /// The limit, as in [`DomainChange`].
    pub rate: u64,
    /// As there.
    pub burst: u64,
    /// As there.
    pub weight: u64,
    /// Frames that it sent, or requests of a disk, that went on.
    pub passed: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that it sent, and that were dropped: beyond the limit or its share of another
    /// domain's loop, without room at the other end, or with another's sender. Requests that were
    /// refused.
    pub dropped: u64,
    /// How long they kept the core busy that moved them: microseconds.
    pub busy_us: u64,
}

/// A domain, or what one would be.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct DomainEntry {
    /// What it is called.
    pub name: String,
    /// Its place among the domains of the machine, from 1.
    pub place: u8,
    /// Which of those that have had the place.
    pub generation: u32,
    /// What it does: `building`, `starting`, `running`, `resizing`, `draining` or `dead`.
    pub state: String,
    /// The machine's cores that it has.
    pub cores: Vec<u16>,
    /// Memory, in units of 2 MiB.
    pub units: u32,
    /// The disks that it has, of those that the machine has for domains.
    pub disks: Vec<u16>,
    /// The fewest cores that it can be left with.
    pub least_cores: u16,
    /// The most cores that it can be given.
    pub most_cores: u16,
    /// The most memory that it can be given, in units of 2 MiB.
    pub most_units: u32,
    /// Before whom it goes.
    pub priority: u8,
    /// What its managing core has said last when it failed; else empty.
    pub last_words: String,
    /// How long it has been there: microseconds.
    pub age_us: u64,
    /// For how long it had cores since then: a core for a second is a million.
    pub core_us: u64,
    /// The same of units of memory.
    pub unit_us: u64,
    /// Whether its disks reach its own memory alone, whatever they are told: the machine has an
    /// IOMMU that they go through. So it is without disks.
    pub isolated: bool,
    /// From how many accesses to other memory they were kept.
    pub kept_off: u64,
    /// What it may send, and has sent.
    pub sent: TollEntry,
    /// The same of its part of a disk.
    pub disk: TollEntry,
}

/// What a machine has to give, and to whom it has.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct DomainsOfMachine {
    /// The domains, in the order of their places.
    pub domains: Vec<DomainEntry>,
    /// Cores that nobody has.
    pub free_cores: Vec<u16>,
    /// Memory that nobody has, in units of 2 MiB.
    pub free_units: u32,
    /// Disks that nobody has.
    pub free_disks: Vec<u16>,
    /// Memory that domains share.
    pub shared: Vec<SharedEntry>,
    /// Cores that domains have from others.
    pub lent: Vec<LentEntry>,
}

/// A core that a domain has from another one.
#[derive(Record, Clone, Copy, PartialEq, Eq, Debug)]
pub struct LentEntry {
    /// Which of the machine's.
    pub core: u16,
    /// The place of whose it is.
    pub lender: u8,
    /// That of who has it.
    pub borrower: u8,
}

/// Memory that domains share.
#[derive(Record, Clone, PartialEq, Eq, Debug)]
pub struct SharedEntry {
    /// What it is called.
    pub name: String,
    /// Its first unit of 2 MiB, of those that the machine has to give.
    pub first: u32,
    /// How many units.
    pub units: u32,
    /// The places of the domains that have it.
    pub places: Vec<u8>,
}

/// The domains of this machine, on the node that supervises it. What cannot be is refused with the
/// numbers (`invalid`) and changes nothing; what fails later (`failed`) is undone.
#[service(subsystem = "domains", capability = "supervision", layer = high)]
pub trait Domains {
    /// All domains, and what is free.
    #[stl_k(reply = "machine", allow(operator, peer))]
    fn list(&self) -> CallResult<DomainsOfMachine>;

    /// What a domain would get. Changes nothing.
    #[stl_k(reply = "domain", allow(operator, peer))]
    fn plan(&self, wanted: DomainWanted) -> CallResult<DomainEntry>;

    /// Makes a domain, whose node serves with this configuration, and waits until it runs. Its
    /// place is the one that `plan` said, or `busy`: another has it by now.
    #[stl_k(reply = "domain", allow(operator, peer))]
    async fn create(
        &self,
        wanted: DomainWanted,
        place: u8,
        config: String,
    ) -> CallResult<DomainEntry>;

    /// Gives a domain that runs so many cores and so much memory of its own, or takes some: it is
    /// asked for them, and keeps a core that works on something, or that its node needs, unless
    /// they are to be forced, and memory that is not free. Waits until it is done. What it may
    /// send is another first.
    #[stl_k(reply = "domain", allow(operator, peer))]
    async fn resize(&self, name: String, change: DomainChange) -> CallResult<DomainEntry>;

    /// Has domains that run share memory of the machine, besides those that do: so many units of
    /// 2 MiB, zero at first. Each is to be told (`core_manager.make_region`).
    #[stl_k(reply = "shared", allow(operator, peer))]
    fn share(&self, name: String, units: u32, domains: Vec<String>) -> CallResult<SharedEntry>;

    /// These domains, or all if none is said, have let go of shared memory: they were told to drop
    /// its region. What nobody has is zeroed, and free.
    #[stl_k(allow(operator, peer))]
    fn unshare(&self, name: String, domains: Vec<String>) -> CallResult<()>;

    /// Has a domain that runs have cores of another one for so many milliseconds, and waits until
    /// it has them. They come back when that is over, at `recall`, and with the end of either.
    #[stl_k(allow(operator, peer))]
    async fn lend(&self, from: String, to: String, cores: u16, millis: u32) -> CallResult<()>;

    /// Gives back what a domain has from others, and waits until they have it.
    #[stl_k(allow(operator, peer))]
    async fn recall(&self, name: String) -> CallResult<()>;

    /// Ends a domain and waits until nothing of it is left. It is asked to end, and taken by force
    /// if it does not; with `force` it is not asked.
    #[stl_k(allow(operator, peer))]
    async fn destroy(&self, name: String, force: bool) -> CallResult<()>;
}
