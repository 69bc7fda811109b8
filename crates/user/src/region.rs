//! Regions: memory that packages of several cores of a node have at once (FENCE, sections 3 and 4).
//!
//! A region is made by the node's configuration (`[region.NAME]`) or by
//! `core_manager.make_region`, is zero then, and stays as long as the node or until it is dropped.
//! A package whose manifest says `uses region NAME` has it; who shares it works with what
//! `nile_sync` has, each by the seat of his own.

use core::fmt;
use core::marker::PhantomData;

use nile_abi::call::{KeepPlace, System, SystemCall, UserSlot};
use nile_abi::{CoreId, Status};
use nile_ring::{LINE_BYTES, Region};

use crate::Runtime;

/// A region of this node's, which the package has for as long as it runs. What is there, others may
/// change at any moment, and may have left between any two stores.
pub struct SharedRegion<'s> {
    region: Region,
    first: u16,
    seat: u16,
    system: PhantomData<&'s dyn System>,
}

impl<'s> Runtime<'s> {
    /// The region `name`. `Denied` if the manifest does not name it, `NotFound` if there is none,
    /// `Exists` if two other packages of this core have it, `NoMemory` if the node has not enough
    /// for it any more; `Denied` for what domains share on cores from c64 on.
    pub fn region(&self, name: &str) -> Result<SharedRegion<'s>, Status> {
        let mut place = [0; KeepPlace::BYTES];
        self.call(SystemCall::Region, 0, name.as_bytes(), &mut place).result()?;
        let place = KeepPlace::decode(&place).ok_or(Status::Invalid)?;
        let KeepPlace { at: Some(at), bytes, version: domain, core, .. } = place else {
            return Err(Status::Invalid);
        };
        let slot = UserSlot::of(at, bytes).ok_or(Status::Invalid)?;
        // A simulation has no more than one piece of memory in a row.
        let start = self.memory(at, bytes).ok_or(Status::NoMemory)?;
        if !start.addr().get().is_multiple_of(LINE_BYTES) {
            return Err(Status::Invalid);
        }
        // SAFETY: the kernel has mapped so many bytes there, aligned to a page, to be written, for
        // as long as the package runs, which the system outlives; all reach them as atomics.
        let region = unsafe { Region::from_raw(start, bytes as usize) };
        // What domains share has seats for each of them.
        if domain > 0 && core.0 >= CORES_OF_DOMAIN {
            return Err(Status::Denied);
        }
        let first = domain * SEATS_OF_DOMAIN;
        let seat = first + seat_of(core, slot);
        Ok(SharedRegion { region, first, seat, system: PhantomData })
    }
}

/// Seats in a region that domains share: for each of them as many as such cores have, and none for
/// packages of cores beyond them.
pub const SEATS_OF_DOMAIN: u16 = CORES_OF_DOMAIN * UserSlot::COUNT as u16;
const CORES_OF_DOMAIN: u16 = 64;

/// The seat of the packages of a core's slot, one after the other.
pub fn seat_of(core: CoreId, slot: UserSlot) -> u16 {
    core.0 * UserSlot::COUNT as u16 + slot.index() as u16
}

impl SharedRegion<'_> {
    /// All of it. It is not to be used when this is gone.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Whether packages of other domains of the machine have it, too.
    pub fn is_shared(&self) -> bool {
        self.first > 0
    }

    /// The first of the seats that this node's packages have, one for each slot of each core: zero
    /// but in what domains share.
    pub fn first_seat(&self) -> u16 {
        self.first
    }

    /// The core that the package runs on.
    pub fn core(&self) -> CoreId {
        CoreId((self.seat - self.first) / UserSlot::COUNT as u16)
    }

    /// The package's seat: of no other package that runs on the node, and in a region that domains
    /// share of none of theirs.
    pub fn seat(&self) -> u16 {
        self.seat
    }
}

impl fmt::Debug for SharedRegion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRegion({} bytes, seat {})", self.region.len(), self.seat)
    }
}
