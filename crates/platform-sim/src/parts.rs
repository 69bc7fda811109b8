//! The disks of the nodes of a supervised machine: of the supervisor's last one domains have parts,
//! and a domain's disk is such a part ([`nile_platform::domains`]).

use std::cell::RefCell;
use std::rc::Rc;

use nile_abi::{CoreId, PhysAddr, Role, RoleSet};
use nile_platform::board::driver;
use nile_platform::domains::{
    DISK_LINK_BYTES, DiskLink, LinkedDisk, PART_STATE_BYTES, PartState, Parts, SharedDisk,
};
use nile_platform::{Disk, Line};
use nile_ring::Region;

use crate::disk::SimDisk;
use crate::hardware::Hardware;
use crate::state::State;

/// The parts that a supervisor's last disk has for domains.
pub struct DiskParts {
    /// Bytes of each.
    pub bytes: u64,
    /// A link for each, and its state, which no domain has.
    links: Vec<(Region, Region)>,
}

impl DiskParts {
    /// So many parts.
    pub fn new(count: u16, bytes: u64) -> DiskParts {
        let new = |_| (Region::owned(DISK_LINK_BYTES), Region::owned(PART_STATE_BYTES));
        DiskParts { bytes, links: (0..count).map(new).collect() }
    }

    /// How many there are.
    pub fn count(&self) -> u16 {
        self.links.len() as u16
    }

    /// The link of a part.
    pub fn link(&self, part: u16) -> Option<DiskLink> {
        DiskLink::new(self.links.get(usize::from(part))?.0.clone())
    }

    /// The state of a part.
    pub fn state(&self, part: u16) -> Option<PartState> {
        PartState::new(self.links.get(usize::from(part))?.1.clone())
    }
}

/// The disks that a core drives, each at most once in an incarnation.
pub fn disks(state: &Rc<RefCell<State>>, core: CoreId) -> Vec<Box<dyn Disk>> {
    let own = SimDisk::all_of(state, core).into_iter();
    let mut all: Vec<Box<dyn Disk>> = own.map(|disk| Box::new(disk) as Box<dyn Disk>).collect();
    let clock = {
        let state = state.clone();
        move || state.borrow().time_of(core)
    };
    let state = state.borrow();
    let name = state.board.record(core).hardware_id() as u32;
    let waking = |hardware: &Rc<Hardware>| {
        let hardware = hardware.clone();
        move |name| hardware.wake(name)
    };
    if let Some(domain) = &state.domain {
        let roles = state.board.core_ids().map(|core| state.board.record(core).roles());
        let roles: Vec<RoleSet> = roles.collect();
        let drives = driver(0, Role::Disk, roles.into_iter()) == Some(core);
        let link = domain.part.and_then(|part| domain.hardware.parts.link(part));
        let open = |link| LinkedDisk::open(link, name, waking(&domain.hardware));
        let part = link.filter(|_| drives).and_then(open);
        all.extend(part.map(|it| Box::new(it) as Box<dyn Disk>));
    }
    let last = state.drives.len().checked_sub(1).and_then(Line::disk);
    let drives_last = last.and_then(|line| state.board.driver(line)) == Some(core);
    if let Some(hardware) = state.supervises.as_ref().filter(|it| it.parts.count() > 0)
        && drives_last
        && let Some(disk) = all.pop()
    {
        let parts = Parts { bytes: hardware.parts.bytes, first: 0 };
        // A simulated disk is given memory as it is.
        let links: Vec<_> = (0..hardware.parts.count())
            .filter_map(|part| {
                Some((hardware.parts.link(part)?, PhysAddr(0), hardware.parts.state(part)?))
            })
            .collect();
        let (ledger, wake) = (hardware.ledger.clone(), waking(hardware));
        all.push(Box::new(SharedDisk::new(
            disk,
            parts,
            links.into_iter(),
            ledger,
            (name, wake),
            clock,
        )));
    }
    all
}
