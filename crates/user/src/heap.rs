//! The heap of a package: first the arena that its kernel gives it, then what it asks for.

use core::alloc::{GlobalAlloc, Layout};
use core::sync::atomic::{AtomicBool, Ordering};

use nile_abi::VirtAddr;
use spinning_top::RawSpinlock;
use talc::TalcLock;
use talc::base::Talc;
use talc::base::binning::Binning;
use talc::source::Source;

/// Where more memory comes from: takes the bytes that are needed at least, gives an address and
/// how many bytes are there, or nothing. The memory is the heap's from then on. It is called in the
/// middle of an allocation and must not allocate.
pub type Grow = fn(u64) -> Option<(VirtAddr, u64)>;

/// What the allocator needs beside a request's own bytes, generously.
const OVERHEAD: usize = 4096;

/// The global allocator of a package. It makes no system call as long as it has room.
pub struct Heap {
    free: TalcLock<RawSpinlock, OnDemand>,
    /// Whether the last request found nothing.
    empty: AtomicBool,
}

/// The source of the allocator's memory.
#[derive(Debug)]
struct OnDemand(Option<Grow>);

// SAFETY: it touches the allocator through its argument alone, and `Grow` must not allocate.
unsafe impl Source for OnDemand {
    fn acquire<B: Binning>(talc: &mut Talc<Self, B>, layout: Layout) -> Result<(), ()> {
        let needed = layout.size().checked_add(layout.align()).ok_or(())?;
        let needed = needed.checked_add(OVERHEAD).ok_or(())? as u64;
        let grow = talc.source.0.ok_or(())?;
        // Less than was asked for would be asked for again without end.
        let (at, bytes) = grow(needed).filter(|(_, bytes)| *bytes >= needed).ok_or(())?;
        // SAFETY: `Grow` gives the memory away.
        unsafe { talc.claim(at.0 as *mut u8, bytes as usize) }.map(|_| ()).ok_or(())
    }
}

impl Heap {
    /// A heap without memory.
    #[expect(clippy::new_without_default, reason = "it is always a static")]
    pub const fn new() -> Heap {
        Heap { free: TalcLock::new(OnDemand(None)), empty: AtomicBool::new(false) }
    }

    /// Gives the heap memory. A range too small to be of use is left alone.
    ///
    /// # Safety
    /// The range is readable, writable and used by nothing else from now on.
    pub unsafe fn claim(&self, at: VirtAddr, bytes: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.free.lock().claim(at.0 as *mut u8, bytes as usize) };
    }

    /// Says where more memory comes from when the heap is empty.
    pub fn grow_by(&self, grow: Grow) {
        self.free.lock().source.0 = Some(grow);
    }

    /// Whether the last request failed for want of memory.
    pub fn is_empty(&self) -> bool {
        self.empty.load(Ordering::Relaxed)
    }

    fn note(&self, pointer: *mut u8) -> *mut u8 {
        self.empty.store(pointer.is_null(), Ordering::Relaxed);
        pointer
    }
}

// SAFETY: the methods are the inner allocator's, which keeps the contract.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        self.note(unsafe { self.free.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        unsafe { self.free.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: the caller keeps `GlobalAlloc`'s contract.
        self.note(unsafe { self.free.realloc(pointer, layout, bytes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::boxed::Box;
    use alloc::vec;
    use core::cell::Cell;

    std::thread_local! {
        static ASKED: Cell<u64> = const { Cell::new(0) };
    }

    fn memory(bytes: u64) -> (VirtAddr, u64) {
        let memory = Box::leak(vec![0u64; bytes as usize / 8].into_boxed_slice());
        (VirtAddr(memory.as_mut_ptr() as u64), bytes)
    }

    fn grow(bytes: u64) -> Option<(VirtAddr, u64)> {
        ASKED.set(ASKED.get() + 1);
        (bytes < 1 << 20).then(|| memory(bytes.next_multiple_of(4096)))
    }

    fn stingy(bytes: u64) -> Option<(VirtAddr, u64)> {
        ASKED.set(ASKED.get() + 1);
        Some(memory(bytes / 2))
    }

    #[test]
    fn the_heap_serves_its_arena_and_then_asks_for_more() {
        let heap = Heap::new();
        let layout = Layout::from_size_align(1000, 64).unwrap();
        // SAFETY: each pointer is used within its layout and given back once.
        unsafe {
            assert!(heap.alloc(layout).is_null() && heap.is_empty(), "no memory at all");
            let (at, bytes) = memory(1 << 16);
            heap.claim(at, bytes);
            let first = heap.alloc(layout);
            assert!(!first.is_null() && !heap.is_empty());
            assert!(
                (at.0..at.0 + bytes).contains(&(first as u64)) && (first as u64).is_multiple_of(64)
            );
            first.write_bytes(7, 1000);
            heap.grow_by(grow);
            let large = Layout::from_size_align(1 << 17, 4096).unwrap();
            let second = heap.alloc(large);
            assert!(!second.is_null() && (second as u64).is_multiple_of(4096));
            assert_eq!(ASKED.replace(0), 1);
            second.write_bytes(8, 1 << 17);
            assert!((0..1000).all(|i| *first.add(i) == 7), "nothing overlaps");
            heap.dealloc(first, layout);
            heap.dealloc(second, large);
            assert!(!heap.alloc(large).is_null());
            assert_eq!(ASKED.get(), 0, "freed memory is served again");
            assert!(heap.alloc(Layout::from_size_align(1 << 21, 8).unwrap()).is_null());
            assert!(heap.is_empty());
        }
    }

    #[test]
    fn too_little_more_is_a_failure_and_no_loop() {
        let heap = Heap::new();
        heap.grow_by(stingy);
        // SAFETY: nothing is used.
        unsafe { assert!(heap.alloc(Layout::new::<[u64; 4096]>()).is_null()) };
        assert_eq!(ASKED.replace(0), 1);
    }
}
