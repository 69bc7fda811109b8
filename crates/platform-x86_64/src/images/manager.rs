//! What the managing core does with images.

use alloc::vec::Vec;

use nile_abi::{CoreId, ImageRefused, Instant, PageSize, PhysAddr, Status};
use nile_memory::paging::Mapping;
use nile_platform::image_memory::{Change, Other};
use nile_platform::{Grant, ImageMemory, Manager as _};

use super::choice::{Choice, Placed};
use super::head::Head;
use super::own;
use crate::machine::NodeManager;
use crate::space;

impl NodeManager {
    /// The images of a core that may have another than the machine's.
    pub(crate) fn choice(&self, core: CoreId) -> Result<Choice, ImageRefused> {
        match self.may_have_image(core) {
            true => Ok(Choice::of(self.node(), core)),
            false => Err(ImageRefused::Stays),
        }
    }

    fn time(&self) -> Instant {
        self.node().clock.now()
    }

    fn mappings(&self, core: CoreId, image: Option<&Placed>) -> Vec<Mapping> {
        match image {
            Some(image) => image.head.mappings(&image.memory, &Head::own()),
            None => space::own_image(core, self.node().core(core).private, false),
        }
    }

    fn all(&self) -> impl Iterator<Item = Choice> + '_ {
        let cores = (0..self.node().cores.len() as u16).map(CoreId);
        cores.map(|core| Choice::of(self.node(), core))
    }
}

impl ImageMemory for NodeManager {
    fn needs(&self, core: CoreId, head: &[u8], bytes: u64) -> Result<u64, ImageRefused> {
        self.choice(core)?;
        let head = Head::read(head)?;
        head.judge(&Head::own(), bytes)?;
        Ok(head.memory_bytes())
    }

    fn settle(&self, core: CoreId) {
        Choice::of(self.node(), core).settle();
    }

    fn stage(&self, core: CoreId, head: &[u8], memory: &[Grant]) {
        if let (Ok(choice), Ok(head)) = (self.choice(core), Head::read(head)) {
            choice.stage(&head, memory.iter().map(|it| it.start));
        }
    }

    fn change(&self, core: CoreId, to: Other) -> Option<Change> {
        let choice = Choice::of(self.node(), core);
        let other = choice.other(to)?;
        Some(Change {
            from: self.mappings(core, choice.now().as_ref()),
            to: self.mappings(core, other.as_ref()),
        })
    }

    fn changed(&self, core: CoreId, to: Other) {
        Choice::of(self.node(), core).enter(to);
    }

    fn prepare(&self) -> Result<(), Status> {
        let choice = Choice::of(self.node(), CoreId::BOOT);
        if let Some(image) = choice.other(Other::Loaded).flatten() {
            own::prepare(self.node(), &mut self.tables(), &image)?;
            choice.prepare();
        }
        Ok(())
    }

    fn is_on_trial(&self, core: CoreId) -> bool {
        Choice::of(self.node(), core).is_on_trial(self.time())
    }

    fn take_away(&self, core: CoreId) {
        let node = self.node();
        if let Some((parking, apic)) = self.parking() {
            // SAFETY: the kernel has decided that nobody needs what the core does.
            unsafe { parking.park(&[node.core(core).apic], node.start_page, &apic, &node.clock) }
        }
    }

    fn memory(&self) -> Vec<Grant> {
        self.all().flat_map(|it| it.memory().map(piece).collect::<Vec<_>>()).collect()
    }

    fn unused(&self) -> Vec<Grant> {
        let now = self.time();
        self.all().flat_map(|it| it.unused(now).map(piece).collect::<Vec<_>>()).collect()
    }
}

fn piece(start: PhysAddr) -> Grant {
    Grant { start, bytes: PageSize::Large.bytes() }
}
