//! The heap of a package (NileOS paper, III.B: the worked example of a service with two halves).
//! The user half serves an arena without a system call; when that is empty it asks the kernel half,
//! which has pages mapped into the package.
//!
//! * `ranges`: what is free and what is not in a set of address ranges.

mod ranges;

use core::cell::{Cell, RefCell};

use nile_abi::Status;
use nile_stl::{CallError, CallResult, Caller, Start, Stl, half, service};

use nile_interfaces::heap::{Grown, HeapClient, HeapKernel, HeapUse, HeapUser};
use ranges::{RangeError, Ranges};

/// What the user half asks for at least, so that it asks seldom.
const GROWTH: u64 = 1 << 20;

/// The kernel half: the package's memory is its state.
pub struct Heap {
    stl: Stl,
}

impl Start for Heap {
    fn start(stl: &Stl) -> Heap {
        Heap { stl: stl.clone() }
    }
}

/// The user half: the memory that a package got by it.
pub struct Arena {
    stl: Stl,
    ranges: RefCell<Ranges>,
    growths: Cell<u64>,
}

impl Start for Arena {
    fn start(stl: &Stl) -> Arena {
        Arena { stl: stl.clone(), ranges: RefCell::default(), growths: Cell::new(0) }
    }
}

#[service(on = every, keywords(memory = 5, heap = 5, allocate = 3, arena = 1), user = Arena)]
impl HeapKernel for Heap {
    async fn grow(&self, caller: &Caller, bytes: u64) -> CallResult<Grown> {
        if !caller.is_package() || caller.core != self.stl.host().core() {
            let what = "the heap grows for a package, by the heap service of its own core";
            return Err(CallError::new(Status::Denied, what));
        }
        let (at, bytes) = self.stl.node()?.grow_package(bytes).await?;
        Ok(Grown { address: at.0, bytes })
    }
}

#[half]
impl HeapUser for Arena {
    async fn allocate(&self, bytes: u64, align: u64) -> CallResult<u64> {
        loop {
            match self.ranges.borrow_mut().allocate(bytes, align) {
                Ok(at) => return Ok(at),
                Err(RangeError::Full) => {}
                Err(error) => return Err(error.into()),
            }
            // Each time there is more, or an error.
            self.ask_for(bytes + align).await?;
        }
    }

    fn free(&self, address: u64) -> CallResult<()> {
        Ok(self.ranges.borrow_mut().free(address)?)
    }

    fn usage(&self) -> HeapUse {
        let ranges = self.ranges.borrow();
        HeapUse {
            total_bytes: ranges.total_bytes(),
            free_bytes: ranges.free_bytes(),
            largest_free: ranges.largest_free(),
            allocations: ranges.allocations() as u64,
            growths: self.growths.get(),
        }
    }
}

impl Arena {
    /// Has the kernel half add memory with `needed` bytes in a row: more than that, if the
    /// package may have so much.
    async fn ask_for(&self, needed: u64) -> CallResult<()> {
        let heap = HeapClient::find(&self.stl).await?;
        let grown = match heap.grow(needed.max(GROWTH)).await {
            Err(error) if error.status == Status::NoMemory && needed < GROWTH => {
                heap.grow(needed).await?
            }
            result => result?,
        };
        if grown.bytes < needed {
            return Err(CallError::new(Status::NoMemory, "the kernel gave less than was needed"));
        }
        self.growths.set(self.growths.get() + 1);
        Ok(self.ranges.borrow_mut().add(grown.address, grown.bytes)?)
    }
}

impl From<RangeError> for CallError {
    fn from(error: RangeError) -> CallError {
        let (status, what) = match error {
            RangeError::Full => (Status::NoMemory, "no free range of the arena is long enough"),
            RangeError::Align => (Status::Invalid, "align is not a power of two"),
            RangeError::NotAllocated => (Status::NotFound, "nothing is allocated at this address"),
            RangeError::Overlap => (Status::Exists, "the memory is in the arena already"),
            RangeError::NoRange => (Status::Invalid, "the memory is nowhere"),
        };
        CallError::new(status, what)
    }
}
