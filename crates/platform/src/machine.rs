//! The traits. [`Machine`] is one core's view: every method is called on that core, and none
//! waits for another core. [`Manager`] is what a management core alone may do to the whole node.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use nile_abi::call::UserSlot;
use nile_abi::{CoreId, Generation, ImageRefused, Instant, PhysAddr, Status, VirtAddr};
use nile_memory::paging::{Mapping, TableMemory};
use nile_ring::{PoolMemory, Region, Signal, Sleep};

use crate::{
    Board, Disk, Domains, Grant, Handoff, ImageMemory, Interface, Line, Seated, TimerSource, User,
};

/// How a sleeping core of this machine is woken (NewtOS 2.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeMode {
    /// By a store to its doorbell: it waits with MONITOR and MWAIT, or it never stops polling.
    Monitored,
    /// By [`Signal::signal`]: an interrupt, a futex.
    Signalled,
}

/// Why a grant cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttachError {
    /// The grant is not inside the node's memory.
    OutOfRange,
    /// The machine refused to map it; its error number.
    Refused(i32),
}

impl From<AttachError> for Status {
    fn from(error: AttachError) -> Status {
        match error {
            AttachError::OutOfRange => Status::Invalid,
            AttachError::Refused(_) => Status::NoMemory,
        }
    }
}

/// How a node ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// What was asked for happened.
    Success,
    /// It started and failed.
    Failure,
}

/// One core's view of its machine.
pub trait Machine: Signal + 'static {
    /// What a management core may do besides.
    type Manager: Manager;
    /// How packages run here.
    type User: User;

    /// This core.
    fn core(&self) -> CoreId;

    /// This core's incarnation.
    fn generation(&self) -> Generation;

    /// The time, the same on all cores of the node within the machine's stated error.
    fn now(&self) -> Instant;

    /// The regions that all cores share.
    fn board(&self) -> &Board;

    /// How sleeping cores are woken here.
    fn wake_mode(&self) -> WakeMode;

    /// Starts the periodic timer of this core, or stops it. It interrupts whatever runs and is
    /// counted as [`Cause::Tick`](crate::Cause::Tick); it does nothing else.
    fn set_tick(&self, period: Option<Duration>);

    /// Has each tick of this core note in `ring`, of [`samples::RING_BYTES`](crate::samples), what
    /// it interrupts, unless the core sleeps; without a ring, no more. `false` where a machine does
    /// not do that.
    fn sample(&self, ring: Option<&'static Region>) -> bool {
        ring.is_none()
    }

    /// The timers that can end this core's sleep: first the one that it has until it takes another.
    fn timer_sources(&self) -> Vec<TimerSource>;

    /// The one that it has, as a place in that list.
    fn timer_source(&self) -> usize;

    /// Takes another one, by its place in that list. What the core is to be woken for stays, and
    /// it may be woken once too early. `NotFound` if there is none at this place, `Failed` if the
    /// machine refuses it; then the core has the one before.
    fn take_timer_source(&self, place: usize) -> Result<(), Status>;

    /// Between two passes of a busy loop that polls: lets a sibling run (`pause`), or in a
    /// simulator lets virtual time pass.
    fn relax(&self);

    /// The ring memory between this core and the management core: `peer` is the core itself, or,
    /// on the management core, any core. Zeroed once at the node's start; [`CONTROL_BYTES`] long.
    fn control(&self, peer: CoreId) -> Region;

    /// Makes a grant usable on this core. The management core has entered it in this core's
    /// tables. Its content is zero when it is first granted.
    fn attach(&self, grant: Grant) -> Result<Region, AttachError>;

    /// Forgets a grant on this core: after this no stale translation of it is left here, and
    /// touching it faults. The caller holds no [`Region`] of it any more.
    fn detach(&self, grant: Grant);

    /// Forgets every translation that this core's tables no longer have, whichever they are.
    fn flush(&self);

    /// Writes one line to the node's log.
    fn log(&self, line: fmt::Arguments<'_>);

    /// Does nothing but compute, for about `span`: no call, no poll, no memory shared.
    /// It is the measuring stick of the tickless promise.
    fn compute(&self, span: Duration);

    /// A user half of this core, empty. `Denied` where packages may not run; `Exists` while there
    /// is one already in this slot.
    fn user(&self, slot: UserSlot) -> Result<Self::User, Status>;

    /// Whether packages may run on this core, as far as the machine is concerned.
    fn may_run_packages(&self) -> bool {
        true
    }

    /// The network interfaces that this core drives, each at most once in an incarnation: the
    /// first of the node's interfaces belongs to its first network core, and so on in turns. What
    /// an earlier incarnation had begun to send or receive is gone.
    fn interfaces(&self) -> Vec<Box<dyn Interface>> {
        Vec::new()
    }

    /// The memory that all cores of the node have for buffers, where devices find it, and this
    /// incarnation's right to it; once in an incarnation, and `None` if the node has none. Its
    /// first line was zero at the node's start. No device that an earlier incarnation drove
    /// writes to it any more.
    fn pool(&self) -> Option<(PhysAddr, PoolMemory)> {
        None
    }

    /// The disks that this core drives, each at most once in an incarnation: the first of the
    /// node's disks belongs to its first disk core, and so on in turns. Once this has returned,
    /// no request of an earlier incarnation touches memory any more; the core asks before its
    /// memory becomes anybody else's.
    fn disks(&self) -> Vec<Box<dyn Disk>> {
        Vec::new()
    }

    /// An open file that another program of this machine has handed to the node under this name:
    /// a disk without end and with [sectors of a byte](crate::disk::Description::sector_bytes).
    /// `None` if there is none, or [no longer](Machine::has_file).
    fn file(&self, name: u64) -> Option<Box<dyn Disk>> {
        let _ = name;
        None
    }

    /// Has the line of a device that this core drives interrupt `core` from now on, one of the
    /// node's, which wakes this one then; at first it interrupts this one. An incarnation that
    /// opens its devices begins anew. `Denied` where that cannot be.
    fn route(&self, line: Line, core: CoreId) -> Result<(), Status> {
        let _ = line;
        if core == self.core() { Ok(()) } else { Err(Status::Denied) }
    }

    /// Has the line of a device that this core drives interrupt nobody, or somebody again. What it
    /// would have told meanwhile, the core looks for.
    fn mask(&self, line: Line, is_masked: bool) {
        let _ = (line, is_masked);
    }

    /// Whether such a file is still handed to the node. When one no longer is, cores look around.
    fn has_file(&self, name: u64) -> bool {
        let _ = name;
        false
    }

    /// Fills `bytes` with what nobody can predict; `false` if this machine has no source of it.
    fn entropy(&self, bytes: &mut [u8]) -> bool {
        let _ = bytes;
        false
    }

    /// The machine's CRC-32C, if it has an instruction for it: continues a checksum, zero at
    /// first, over more bytes.
    fn checksum(&self) -> Option<fn(u32, &[u8]) -> u32> {
        None
    }

    /// The time since 1970, if the machine has a calendar.
    fn calendar(&self) -> Option<Duration> {
        None
    }

    /// What this node, which is a domain, shares with its supervisor, on its managing core; `None`
    /// where it is none.
    fn seated(&self) -> Option<Seated> {
        None
    }

    /// The memory of which this node, which is a domain, may share units with other domains, as its
    /// supervisor numbers them; `None` where it is none.
    fn shared_memory(&self) -> Option<Grant> {
        self.seated().map(|seated| seated.memory)
    }

    /// Ends this core's incarnation as planned: it has nothing under way, and nothing of it runs
    /// again. No fault is told but [`Fault::LEFT`](crate::Fault::LEFT). The next incarnation
    /// begins at once, or, if the managing core's record says that this one is to be
    /// [away](crate::Record::is_away), when it is [called back](Manager::call_back); a core that is
    /// away has no buffers. Not on the core that manages the node.
    fn leave(&self) -> !;

    /// The node's management, on the core that manages it; `None` elsewhere.
    fn manager(&self) -> Option<&Self::Manager>;
}

/// A machine whose cores run their loops by themselves, and therefore sleep. (The simulator steps
/// loops instead, see [`Loop`](crate::Loop).)
pub trait Sleeper: Machine {
    /// Waits until `sleep` is over, or `until` has come, or for any reason less; the caller looks
    /// around after every return. If `sleep` was over before the call, it returns at once: the
    /// check and the wait leave no window between them (that makes the idle protocol lossless).
    fn sleep(&self, sleep: &Sleep<'_>, until: Option<Instant>);
}

/// Bytes of the control region of one core: a ring to the management core, a ring from it.
pub const CONTROL_BYTES: usize = 16 * 1024;

/// What a management core alone may do to the whole node.
pub trait Manager {
    /// How this machine keeps page tables.
    type Tables: TableMemory;

    /// Where a core's tables have a grant: at this address plus the grant's physical address, so
    /// that all cores that share it have it at one place. A machine without an MMU of its own
    /// keeps its emulated tables by the same rule.
    const SHARED_BASE: VirtAddr;

    /// The same for a grant that [is huge](Grant::is_huge), which one entry of a table above maps;
    /// `None` where the machine has no such pages and a huge grant is like any other.
    fn huge_base(&self) -> Option<VirtAddr>;

    /// What the boot path found. The first incarnation takes what was built; a later one takes
    /// what could be recovered, so that frames given out stay given out.
    fn handoff(&self) -> Handoff<Self::Tables>;

    /// Whether memory that is not the node's own may be in its tables: as a domain, it shares that.
    fn shares(&self, grant: Grant) -> bool {
        let _ = grant;
        true
    }

    /// Fills frames with zeros. They are mapped nowhere but, perhaps, here.
    fn zero(&self, grant: Grant);

    /// The node has given these frames up, which are mapped nowhere: whoever has them next finds
    /// whatever the machine likes.
    fn given_up(&self, grant: Grant) {
        let _ = grant;
    }

    /// Prints one machine-readable document for the program that started the node.
    fn report(&self, document: &str);

    /// Has a core that is away begin its next incarnation, now that this core's record no longer
    /// says that it is to be. One that is not away is not disturbed.
    fn call_back(&self, core: CoreId);

    /// Whether a core has left its tables alone, and does nothing: it has said that it is away, or
    /// has failed before it began.
    fn is_gone(&self, core: CoreId) -> bool {
        let _ = core;
        true
    }

    /// The hardware of a core of this node, which is a domain, was taken from it: it is away, and
    /// what it did and had is lost. `NotFound` where that cannot be.
    fn lose(&self, core: CoreId) -> Result<(), Status> {
        let _ = core;
        Err(Status::NotFound)
    }

    /// What a core's tables have so that it can drive the device of a line, which is not to move
    /// while the core that drives it runs; `None` if the device cannot be driven by another core.
    fn mappings(&self, line: Line) -> Option<Vec<Mapping>> {
        let _ = line;
        Some(Vec::new())
    }

    /// The kernel image that a core of the node begins with, by its name; zero: the one that the
    /// node was started with.
    fn image(&self, core: CoreId) -> u64 {
        let _ = core;
        0
    }

    /// Whether a core can run another kernel image than the one that the node was started with.
    fn may_have_image(&self, core: CoreId) -> bool {
        let _ = core;
        false
    }

    /// Has a core of the node run another kernel image from its next incarnation on: the
    /// [file](Machine::file) of this name, all of which is read. Gives the image's name. If the
    /// core fails in the image's first ten seconds, it runs its [former one](crate::Images) again.
    fn load_image(&self, core: CoreId, file: u64) -> Result<u64, ImageRefused> {
        let _ = (core, file);
        Err(ImageRefused::Stays)
    }

    /// Takes back an [image](Manager::load_image) that a core has yet to run.
    fn unload_image(&self, core: CoreId) {
        let _ = core;
    }

    /// The images of the node's cores, if they lie in its memory: what is loaded then has come in
    /// pieces before, and the name of its file is its own.
    fn images(&self) -> Option<&dyn ImageMemory> {
        None
    }

    /// What this node, which supervises its machine, may do to it; `None` if it has all of its
    /// machine, or is on one without domains.
    fn domains(&self) -> Option<&dyn Domains> {
        None
    }

    /// Ends the node. Every other loop has stopped or will be stopped by this. On real machines
    /// it does not return.
    fn power_off(&self, outcome: Outcome);
}
