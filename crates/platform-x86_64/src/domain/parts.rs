//! Parts of a supervisor's disk that domains have (RainForest 5.4's RFfuse): where their links are,
//! and who has them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use nile_abi::{CoreId, Instant, Role};
use nile_platform::Disk;
use nile_platform::board::driver;
use nile_platform::domains::{DISK_LINK_BYTES, DiskLink, LedgerWords, LinkedDisk, Parts};
use nile_platform::domains::{Renewal, SharedDisk};

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
    /// A link for each.
    pub links: Frames,
}

impl DiskParts {
    /// Bytes of so many links, whole pages.
    pub fn links_bytes(count: u16) -> u64 {
        u64::from(count) * DISK_LINK_BYTES as u64
    }

    /// The link of a part.
    fn link(&self, part: u16) -> Option<Frames> {
        let bytes = DISK_LINK_BYTES as u64;
        (part < self.count).then(|| self.links.part(u64::from(part) * bytes, bytes))
    }
}

/// The link in these frames.
fn seen(frames: Frames) -> Option<DiskLink> {
    // SAFETY: a supervisor's managing core and its disk core have all links in their spaces for
    // ever, and a domain's have its own; they are reached as atomics.
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
}

/// A disk of this node as it is used, whose last is shared by a supervisor with domains. `now` is
/// the time.
pub fn shared(
    node: &'static Node,
    disk: Box<dyn Disk>,
    waking: (u32, impl Fn(u32) + 'static),
    now: impl Fn() -> Instant + 'static,
) -> Box<dyn Disk> {
    let Some((supervised, parts)) = node.supervised.as_ref().and_then(|it| Some((it, it.parts?)))
    else {
        return disk;
    };
    let link = |part| {
        let frames = parts.link(part)?;
        Some((seen(frames)?, frames.start))
    };
    let links: Vec<_> = (0..parts.count).map_while(link).collect();
    // SAFETY: the core that drives the parts has the ledger in its space for ever.
    let ledger = LedgerWords(unsafe { region(supervised.ledger, layout::SHARED_BASE) });
    let parts = Parts { bytes: parts.bytes, first: supervised.disks.len() as u16 };
    Box::new(SharedDisk::new(disk, parts, links.into_iter(), ledger, waking, now))
}

/// The part that a domain has, if it has one.
pub fn own(node: &Node, waking: (u32, impl Fn(u32) + 'static)) -> Option<Box<dyn Disk>> {
    let link = seen(node.domain?.link?)?;
    let (name, wake) = waking;
    let disk = LinkedDisk::open(link, name, wake)?;
    Some(Box::new(disk))
}

impl NodeManager {
    /// The link of a disk that there is to give, if it is a part.
    pub(super) fn link_of(&self, disk: u16) -> Option<DiskLink> {
        seen(self.node().supervised.as_ref()?.link_of(disk)?)
    }

    /// Whether a part that no domain has is as new.
    pub(super) fn renew_part(&self, disk: u16, link: &DiskLink) -> bool {
        let wake = |name| {
            if let Some((_, apic)) = self.parking() {
                apic.send_fixed(ApicId(name), Vector::LOOP);
            }
        };
        match link.renew(wake) {
            Renewal::Done => true,
            Renewal::UnderWay => false,
            Renewal::Failed => {
                serial::log(format_args!("disk {disk} for domains, a part, cannot be written"));
                false
            }
        }
    }
}
