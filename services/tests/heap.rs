//! The user half of the heap in a package, over a kernel that counts how often it is called.

mod package;

use std::cell::Cell;
use std::rc::Rc;

use nile_abi::Status;
use nile_bosml::{Decode, Encode, Reader, Writer};
use nile_interfaces::heap::{Grown, HeapClient, HeapUse};
use nile_services::heap;
use nile_stl::CallResult;
use package::now;

/// What the user half asks for at least.
const GROWTH: u64 = 1 << 20;

/// A kernel that gives memory in whole pages, up to a limit.
struct Kernel {
    calls: Cell<u64>,
    left: Cell<u64>,
    next: Cell<u64>,
}

impl Kernel {
    fn grow(&self, arguments: &[u8]) -> CallResult<Vec<u8>> {
        self.calls.set(self.calls.get() + 1);
        let bytes = u64::decode(&mut Reader::new(arguments))?.next_multiple_of(4096);
        let left = self.left.get().checked_sub(bytes).ok_or(Status::NoMemory)?;
        self.left.set(left);
        let address = self.next.replace(self.next.get() + bytes);
        let mut out = Writer::new();
        Grown { address, bytes }.encode(&mut out);
        Ok(out.into_bytes()?)
    }
}

fn package(limit: u64) -> (HeapClient, Rc<Kernel>) {
    let (calls, left, next) = (Cell::new(0), Cell::new(limit), Cell::new(0x40_0000_0000));
    let kernel = Rc::new(Kernel { calls, left, next });
    let beneath = kernel.clone();
    let stl = package::with(&heap::REGISTRATION, move |service, method, arguments| {
        assert_eq!((service, method), ("heap", "grow"));
        beneath.grow(arguments)
    });
    (now(HeapClient::find(&stl)).unwrap(), kernel)
}

#[test]
fn an_arena_is_served_without_the_kernel_until_it_is_empty() {
    let (heap, kernel) = package(4 << 20);
    let pieces: Vec<u64> = (0..1000).map(|_| now(heap.allocate(100, 8)).unwrap()).collect();
    assert_eq!(kernel.calls.get(), 1);
    for piece in &pieces {
        now(heap.free(*piece)).unwrap();
    }
    for _ in 0..100_000 {
        let piece = now(heap.allocate(1000, 64)).unwrap();
        now(heap.free(piece)).unwrap();
    }
    assert_eq!(kernel.calls.get(), 1);
    let left = now(heap.usage()).unwrap();
    let all = HeapUse {
        total_bytes: GROWTH,
        free_bytes: GROWTH,
        largest_free: GROWTH,
        allocations: 0,
        growths: 1,
    };
    assert_eq!(left, all);
    // Together with what the alignment may need, this is more than the limit.
    let refused = now(heap.allocate(3 << 20, 4096)).map_err(|error| error.status);
    assert_eq!(refused, Err(Status::NoMemory));
    let large = now(heap.allocate(2 << 20, 4096)).unwrap();
    assert_eq!(large % 4096, 0);
}

#[test]
fn the_last_memory_is_given_though_it_is_less_than_usual() {
    let (heap, kernel) = package(8192);
    let piece = now(heap.allocate(5000, 16)).unwrap();
    assert_eq!((kernel.calls.get(), kernel.left.get()), (2, 0));
    let status = |result: CallResult<u64>| result.map_err(|error| error.status);
    assert_eq!(status(now(heap.allocate(5000, 16))), Err(Status::NoMemory));
    now(heap.free(piece)).unwrap();
    assert!(now(heap.allocate(8192, 16)).is_ok());
}

#[test]
fn wrong_requests_are_told() {
    let (heap, kernel) = package(1 << 30);
    for (bytes, align) in [(0, 8), (u64::MAX, 8), (8, 0), (8, 3), (8, 1 << 22)] {
        let error = now(heap.allocate(bytes, align)).unwrap_err();
        assert_eq!(error.status, Status::Invalid, "{bytes} {align}");
    }
    assert_eq!(kernel.calls.get(), 0);
    let piece = now(heap.allocate(64, 16)).unwrap();
    for address in [0, piece + 16, u64::MAX] {
        assert_eq!(now(heap.free(address)).unwrap_err().status, Status::NotFound);
    }
    now(heap.free(piece)).unwrap();
    assert_eq!(now(heap.free(piece)).unwrap_err().status, Status::NotFound);
}
