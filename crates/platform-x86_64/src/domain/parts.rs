//! Parts of a supervisor's disk that domains have (RainForest 5.4's RFfuse): where their links are,
//! and who has them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use nile_abi::{CoreId, Instant, PageSize, Role};
use nile_platform::Disk;
use nile_platform::board::driver;
use nile_platform::domains::{
    DISK_LINK_BYTES, DiskLink, LedgerWords, LinkedDisk, PART_STATE_BYTES, PartState, Parts,
    Renewal, SharedDisk,
};

use super::{NodeManager, Supervised};
use crate::apic::ApicId;
use crate::layout;
use crate::node::{Frames, Node, region};
use crate::serial;
use crate::vector::Vector;

/// The parts of a supervisor's last disk.
#[derive(Clone, Copy, Debug)]
pub struct DiskParts {
    /// How many there are.
    pub count: u16,
    /// Bytes of each.
    pub bytes: u64,
    /// A link for each, then the states of all, which no domain has.
    pub links: Frames,
}

/// The most parts: their states have a page.
pub const MOST_PARTS: u16 = 62;
const _: () = assert!(MOST_PARTS as u64 * STATE <= STATES);
const LINK: u64 = DISK_LINK_BYTES as u64;
const STATE: u64 = PART_STATE_BYTES as u64;
const STATES: u64 = PageSize::Small.bytes();

impl DiskParts {
    /// Bytes of so many links and their states, whole pages.
    pub fn links_bytes(count: u16) -> u64 {
        u64::from(count) * LINK + STATES
    }

    /// The link of a part.
    fn link(&self, part: u16) -> Option<Frames> {
        (part < self.count).then(|| self.links.part(u64::from(part) * LINK, LINK))
    }

    /// The state of a part.
    fn state(&self, part: u16) -> Option<PartState> {
        let at = u64::from(self.count) * LINK + u64::from(part) * STATE;
        let frames = (part < self.count).then(|| self.links.part(at, STATE))?;
        // SAFETY: a supervisor's managing core and its disk core have all states in their spaces
        // for ever; they are reached as atomics.
        PartState::new(unsafe { region(frames, layout::SHARED_BASE) })
    }
}

/// The link in these frames.
fn seen(frames: Frames) -> Option<DiskLink> {
    // SAFETY: a supervisor's disk core has all links in its space for ever, and a domain's has its
    // own; they are reached as atomics.
    DiskLink::new(unsafe { region(frames, layout::SHARED_BASE) })
}

/// The core that drives the parts: of a supervisor its last disk, and of a domain its first.
pub fn drives_parts(node: &Node) -> Option<CoreId> {
    let last = node.disks.len().saturating_sub(1);
    driver(last, Role::Disk, node.cores.iter().map(|it| it.roles))
}

impl Supervised {
    /// The link of a disk that there is to give, if it is a part.
    pub fn link_of(&self, disk: u16) -> Option<Frames> {
        self.parts?.link(disk.checked_sub(self.disks.len() as u16)?)
    }

    fn state_of(&self, disk: u16) -> Option<PartState> {
        self.parts?.state(disk.checked_sub(self.disks.len() as u16)?)
    }
}

/// Says of a supervisor's parts that there are none: its last disk is not used.
pub fn close(node: &Node) {
    let parts = node.supervised.as_ref().and_then(|it| it.parts);
    for (parts, part) in parts.iter().flat_map(|parts| (0..parts.count).map(move |it| (parts, it)))
    {
        parts.state(part).into_iter().for_each(|state| state.set_there(false));
        parts.link(part).and_then(seen).into_iter().for_each(|link| link.close());
    }
}

/// A disk of this node as it is used, whose last is shared by a supervisor with domains. `now` is
/// the time.
pub fn shared(
    node: &'static Node,
    disk: Box<dyn Disk>,
    (name, wake): (u32, impl Fn(u32) + 'static),
    now: impl Fn() -> Instant + 'static,
) -> Box<dyn Disk> {
    let Some((supervised, parts)) = node.supervised.as_ref().and_then(|it| Some((it, it.parts?)))
    else {
        return disk;
    };
    let link = |part| {
        let frames = parts.link(part)?;
        Some((seen(frames)?, frames.start, parts.state(part)?))
    };
    // A domain says itself who waits: no core but those that there are to give is interrupted.
    let wake_given = move |name| {
        if supervised.parked.contains(&ApicId(name)) {
            wake(name);
        }
    };
    let links: Vec<_> = (0..parts.count).map_while(link).collect();
    // SAFETY: the core that drives the parts has the ledger in its space for ever.
    let ledger = LedgerWords(unsafe { region(supervised.ledger, layout::SHARED_BASE) });
    let (count, bytes) = (parts.count, parts.bytes);
    let parts = Parts { bytes, first: supervised.disks.len() as u16 };
    let own = disk.description().bytes;
    let waking = (name, wake_given);
    let shared = SharedDisk::new(disk, parts, links.into_iter(), ledger, waking, now);
    if !shared.serves_others() {
        serial::log(format_args!(
            "a disk of {own} bytes is too small for {count} parts of {bytes}, or has other \
             sectors: domains have none"
        ));
    }
    Box::new(shared)
}

/// The part that a domain has, if it has one.
pub fn own(node: &Node, waking: (u32, impl Fn(u32) + 'static)) -> Option<Box<dyn Disk>> {
    let link = seen(node.domain?.link?)?;
    let (name, wake) = waking;
    let disk = LinkedDisk::open(link, name, wake);
    if disk.is_none() {
        serial::log(format_args!("the part of a disk is not there: nobody drives that"));
    }
    Some(Box::new(disk?))
}

impl NodeManager {
    /// The state of a disk that there is to give, if it is a part.
    pub(super) fn part_of(&self, disk: u16) -> Option<PartState> {
        self.node().supervised.as_ref()?.state_of(disk)
    }

    /// Whether a part that no domain has is as new.
    pub(super) fn renew_part(&self, disk: u16, part: &PartState) -> bool {
        let wake = |name| {
            if let Some((_, apic)) = self.parking() {
                apic.send_fixed(ApicId(name), Vector::LOOP);
            }
        };
        match part.renew(wake) {
            Renewal::Done => true,
            Renewal::UnderWay => false,
            Renewal::Failed => {
                serial::log(format_args!("disk {disk} for domains, a part, cannot be written"));
                false
            }
        }
    }
}
