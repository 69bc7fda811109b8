//! The buffers of the node's pool that a package has, and the system call by which it takes them,
//! passes them on and gives them back.
//!
//! A package that may use the pool has all of it mapped. That a buffer is its own is a promise
//! among packages of one node that were given that right, as between kernels: see CAVEATS.md.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem;

use nile_abi::call::{PoolCall, PoolHandle, PoolPlace};
use nile_abi::{Status, VirtAddr};
use nile_order::SortedMap;
use nile_ring::{Buffer, Handle, Pool, PoolId};
use nile_stl::node::left_by_packages;

/// Handles that are remembered before it is looked which of them are on their way still.
const MOST_PASSED: usize = 64;

/// Bytes of the longest answer.
pub(super) const ROOM: usize =
    if PoolPlace::BYTES > PoolHandle::BYTES { PoolPlace::BYTES } else { PoolHandle::BYTES };

/// Whether the call that `input` asks for has an empty answer.
pub(super) fn gives_nothing(input: &[u8]) -> bool {
    matches!(PoolCall::decode(input), Some(PoolCall::Free { .. }))
}

/// The buffers of one package.
#[derive(Default)]
pub(super) struct Buffers(RefCell<Owned>);

#[derive(Default)]
struct Owned {
    /// Those it has, by their numbers in the pool.
    held: SortedMap<u32, Buffer>,
    /// Those that it has passed and that nobody may have claimed yet.
    passed: Vec<Handle>,
    /// How many may be passed before it is looked again who has claimed some.
    room: usize,
    /// The package has ended.
    closed: bool,
}

impl Buffers {
    /// How many it has, in its hands or passed on.
    pub fn count(&self) -> usize {
        self.0.borrow().count()
    }

    /// Answers one call of a package that sees the pool at this address, and that may have at most
    /// `most` of them: what it gives, encoded. `Busy` if no other may be had now.
    pub fn answer(
        &self,
        (pool, seen): (&Pool, VirtAddr),
        most: usize,
        input: &[u8],
    ) -> Result<Vec<u8>, Status> {
        let call = PoolCall::decode(input).ok_or(Status::Invalid)?;
        let owned = &mut *self.0.borrow_mut();
        if owned.closed {
            return Err(Status::Dead);
        }
        match call {
            PoolCall::Take => {
                owned.check_room(pool, most)?;
                let taken = pool.alloc_leaving(left_by_packages(pool));
                Ok(owned.hold(taken.ok_or(Status::Busy)?, seen))
            }
            PoolCall::Claim(handle) => {
                owned.check_room(pool, most)?;
                let PoolHandle { pool: number, index, generation, bytes } = handle;
                let handle = Handle { pool: PoolId(number), index, generation, len: bytes };
                Ok(owned.hold(pool.claim(handle).map_err(|_| Status::NotFound)?, seen))
            }
            PoolCall::View(handle) => {
                let PoolHandle { pool: number, index, bytes, .. } = handle;
                let is_there = (index as usize) < pool.capacity()
                    && bytes as usize <= pool.buffer_size()
                    && PoolId(number) == pool.id();
                if !is_there {
                    return Err(Status::NotFound);
                }
                let at = VirtAddr(seen.0 + pool.offset(index) as u64);
                Ok(PoolPlace { buffer: index, at, bytes: bytes.into() }.encode().into())
            }
            PoolCall::Free { buffer } => {
                owned.held.remove(&buffer).ok_or(Status::NotFound)?;
                Ok(Vec::new())
            }
            PoolCall::Pass { buffer, bytes } => {
                let buffer = owned.held.remove(&buffer).ok_or(Status::NotFound)?;
                let handle = buffer.into_handle(bytes as usize);
                owned.remember(pool, handle);
                let Handle { pool, index, generation, len } = handle;
                let handle = PoolHandle { pool: pool.0, index, generation, bytes: len };
                Ok(handle.encode().into())
            }
        }
    }

    /// The package has ended: what it had, and what it had passed and nobody has claimed, is free.
    pub fn end(&self, pool: Option<&Pool>) {
        let owned = mem::take(&mut *self.0.borrow_mut());
        self.0.borrow_mut().closed = true;
        if let Some(pool) = pool {
            owned.passed.into_iter().for_each(|handle| drop(pool.claim(handle)));
        }
    }
}

impl Owned {
    fn count(&self) -> usize {
        self.held.len() + self.passed.len()
    }

    /// `Busy` if it has `most` buffers.
    fn check_room(&mut self, pool: &Pool, most: usize) -> Result<(), Status> {
        if self.count() >= most {
            self.passed.retain(|handle| pool.is_in_flight(*handle));
        }
        if self.count() < most { Ok(()) } else { Err(Status::Busy) }
    }

    fn hold(&mut self, buffer: Buffer, seen: VirtAddr) -> Vec<u8> {
        let place = PoolPlace {
            buffer: buffer.index(),
            at: VirtAddr(seen.0 + buffer.offset() as u64),
            bytes: buffer.len() as u64,
        };
        self.held.insert(buffer.index(), buffer);
        place.encode().into()
    }

    fn remember(&mut self, pool: &Pool, handle: Handle) {
        if self.passed.len() >= self.room.max(MOST_PASSED) {
            self.passed.retain(|handle| pool.is_in_flight(*handle));
            // A package that passes many that nobody claims is not made to look at each time.
            self.room = 2 * self.passed.len();
        }
        self.passed.push(handle);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::CoreId;
    use nile_abi::call::UserSlot;
    use nile_ring::HeapPool;

    const BYTES: u64 = 4096;
    const SEEN: VirtAddr = UserSlot::FIRST.pool();

    /// The most buffers of a package.
    const MOST: usize = 12;

    fn pool() -> Pool {
        let memory = HeapPool::new(64 << 10).right_of(CoreId(1));
        Pool::open(memory, PoolId(0), BYTES as usize).expect("it is not formatted yet")
    }

    fn ask(buffers: &Buffers, pool: &Pool, call: PoolCall) -> Result<Vec<u8>, Status> {
        buffers.answer((pool, SEEN), MOST, &call.encode())
    }

    fn place(answer: Result<Vec<u8>, Status>) -> PoolPlace {
        PoolPlace::decode(&answer.expect("the call succeeds")).expect("the answer is a place")
    }

    fn place_of(answer: Vec<u8>) -> PoolPlace {
        place(Ok(answer))
    }

    fn handle(answer: Result<Vec<u8>, Status>) -> PoolHandle {
        PoolHandle::decode(&answer.expect("the call succeeds")).expect("the answer is a handle")
    }

    #[test]
    fn a_buffer_goes_from_package_to_package() {
        let (pool, one, other) = (pool(), Buffers::default(), Buffers::default());
        let free = pool.free_buffers();
        let taken = place(ask(&one, &pool, PoolCall::Take));
        assert!(taken.at >= SEEN && taken.bytes == BYTES);
        let PoolPlace { buffer, .. } = taken;
        let passed = handle(ask(&one, &pool, PoolCall::Pass { buffer, bytes: 100 }));
        assert_eq!(ask(&one, &pool, PoolCall::Free { buffer }), Err(Status::NotFound));
        let claimed = place(ask(&other, &pool, PoolCall::Claim(passed)));
        assert_eq!((claimed.at, claimed.bytes), (taken.at, 100));
        assert_eq!(ask(&one, &pool, PoolCall::Claim(passed)), Err(Status::NotFound));
        assert_eq!(ask(&one, &pool, PoolCall::Pass { buffer, bytes: 1 }), Err(Status::NotFound));
        assert_eq!(ask(&other, &pool, PoolCall::Free { buffer }), Ok(Vec::new()));
        assert_eq!(pool.free_buffers(), free);
        assert_eq!(one.answer((&pool, SEEN), MOST, &[9; 24]), Err(Status::Invalid));
    }

    #[test]
    fn a_view_is_of_any_buffer_that_there_is_and_owns_none() {
        let (pool, owner, viewer) = (pool(), Buffers::default(), Buffers::default());
        let PoolPlace { buffer, at, .. } = place(ask(&owner, &pool, PoolCall::Take));
        let named = PoolHandle { pool: 0, index: buffer, generation: 7, bytes: 100 };
        let seen = place(ask(&viewer, &pool, PoolCall::View(named)));
        assert_eq!((seen.at, seen.bytes), (at, 100));
        assert_eq!(ask(&viewer, &pool, PoolCall::Free { buffer }), Err(Status::NotFound));
        viewer.end(Some(&pool));
        let view = |named| ask(&owner, &pool, PoolCall::View(named)).map(|_| ());
        assert_eq!(view(PoolHandle { bytes: BYTES as u32, ..named }), Ok(()));
        for wrong in [
            PoolHandle { bytes: BYTES as u32 + 1, ..named },
            PoolHandle { pool: 1, ..named },
            PoolHandle { index: pool.capacity() as u32, ..named },
            PoolHandle { index: u32::MAX, ..named },
        ] {
            assert_eq!(view(wrong), Err(Status::NotFound), "{wrong:?}");
        }
        assert_eq!(ask(&owner, &pool, PoolCall::Free { buffer }), Ok(Vec::new()));
    }

    #[test]
    fn nothing_is_left_of_a_package_that_has_ended() {
        let (pool, one, other) = (pool(), Buffers::default(), Buffers::default());
        let free = pool.free_buffers();
        let take = |buffers| place(ask(buffers, &pool, PoolCall::Take)).buffer;
        let pass = |buffer| handle(ask(&one, &pool, PoolCall::Pass { buffer, bytes: 1 }));
        take(&one);
        pass(take(&one));
        let claimed = pass(take(&one));
        place(ask(&other, &pool, PoolCall::Claim(claimed)));
        one.end(Some(&pool));
        assert_eq!(pool.free_buffers(), free - 1, "the other has one");
        assert_eq!(ask(&one, &pool, PoolCall::Take), Err(Status::Dead));
        other.end(Some(&pool));
        assert_eq!(pool.free_buffers(), free);
    }

    #[test]
    fn what_was_claimed_is_not_remembered_for_ever() {
        let (pool, one) = (pool(), Buffers::default());
        for _ in 0..10 * MOST_PASSED {
            let PoolPlace { buffer, .. } = place(ask(&one, &pool, PoolCall::Take));
            let passed = handle(ask(&one, &pool, PoolCall::Pass { buffer, bytes: 1 }));
            let PoolPlace { buffer, .. } = place(ask(&one, &pool, PoolCall::Claim(passed)));
            ask(&one, &pool, PoolCall::Free { buffer }).expect("it has the buffer");
            assert!(one.0.borrow().passed.len() <= MOST_PASSED);
        }
        let mut all = Vec::new();
        while let Ok(place) = ask(&one, &pool, PoolCall::Take) {
            all.push(place);
        }
        assert_eq!(ask(&one, &pool, PoolCall::Take), Err(Status::Busy));
        assert_eq!(all.len(), MOST, "of those that it has passed all are claimed");
        one.end(Some(&pool));
        assert_eq!(pool.free_buffers(), pool.capacity());
    }

    #[test]
    fn packages_leave_some_whatever_each_may_have() {
        let (pool, all) = (pool(), [Buffers::default(), Buffers::default()]);
        let take =
            |buffers: &Buffers| buffers.answer((&pool, SEEN), usize::MAX, &PoolCall::Take.encode());
        for buffers in &all {
            while let Ok(place) = take(buffers) {
                // One that it has passed is as good as one that it has.
                let PoolPlace { buffer, .. } = place_of(place);
                handle(buffers.answer(
                    (&pool, SEEN),
                    usize::MAX,
                    &PoolCall::Pass { buffer, bytes: 1 }.encode(),
                ));
            }
        }
        assert_eq!(pool.free_buffers(), left_by_packages(&pool));
        assert!(pool.alloc().is_some(), "a service gets one");
    }
}
