//! The virtual memory service (NileOS paper, III.B): zeroed memory mapped on a core, in pages of
//! 4 KiB, 2 MiB or 1 GiB, and how many last-level tables are left. Each core has an instance, and
//! what it maps is that core's: it goes back when the core unmaps it or restarts.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use core::cell::RefCell;

use nile_abi::{Status, VirtAddr};
use nile_interfaces::virtual_memory::VirtualMemoryKernel;
use nile_stl::node::{Frame, page_size};
use nile_stl::{CallError, CallResult, Start, Stl, service};

/// What is mapped on this core.
pub struct VirtualMemory {
    stl: Stl,
    mapped: RefCell<BTreeMap<VirtAddr, Box<dyn Frame>>>,
}

impl Start for VirtualMemory {
    fn start(stl: &Stl) -> VirtualMemory {
        VirtualMemory { stl: stl.clone(), mapped: RefCell::default() }
    }
}

#[service(on = every, keywords(memory = 5, map = 3, page = 3, table = 1))]
impl VirtualMemoryKernel for VirtualMemory {
    async fn map(&self, size: u64) -> CallResult<u64> {
        let frame = self.stl.node()?.allocate(page_size(size)?).await?;
        let at = frame.at();
        self.mapped.borrow_mut().insert(at, frame);
        Ok(at.0)
    }

    async fn unmap(&self, address: u64) -> CallResult<()> {
        let frame = self.mapped.borrow_mut().remove(&VirtAddr(address));
        let missing = || {
            let core = self.stl.host().core();
            let what = format!("no page at {address:#x} was mapped by this service on core {core}");
            CallError::new(Status::NotFound, what)
        };
        Ok(frame.ok_or_else(missing)?.release().await?)
    }

    async fn tables(&self) -> CallResult<u64> {
        Ok(self.stl.node()?.memory().await?.free_tables)
    }
}
