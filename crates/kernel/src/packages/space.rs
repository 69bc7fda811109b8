//! A package's memory: what it has, how much it may have, and how it gets more.
//!
//! A piece of it begins as memory of the kernel's, zeroed, which is filled there; then it moves to
//! the user half. Whatever is there goes back all at once when the package has ended, but for text
//! that waits there for the next one (`text`).

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::iter;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nile_abi::call::UserSlot;
use nile_abi::{PageSize, Status, VirtAddr};
use nile_platform::user::{Access, BadAddress};
use nile_platform::{Machine, User};
use nile_stl::all;

use super::layout::{END, HEAP, IMAGE, PAGE};
use super::turns::next_pass;
use crate::control::Request;
use crate::core::Core;
use crate::memory::Frame;

/// How many pieces are on their way to the user half at once: a part of what a core may ask.
const MOST_MOVING: usize = 16;

/// The memory of one package.
pub(super) struct Space<M: Machine> {
    core: Core<M>,
    slot: UserSlot,
    /// There from the load to the end.
    user: RefCell<Option<M::User>>,
    limit: u64,
    used: Cell<u64>,
    most_used: Cell<u64>,
    refused: Cell<bool>,
    heap_end: Cell<VirtAddr>,
    /// Where shared memory was, and how many bytes each time.
    free: RefCell<Vec<(VirtAddr, u64)>>,
    /// Growths and holds under way.
    growing: Cell<u32>,
    closed: Cell<bool>,
    /// Whether the node's pool is, or is about to be, in the tables.
    pooled: Cell<bool>,
}

/// Memory that is not the package's yet.
pub(super) struct Piece<M: Machine> {
    at: VirtAddr,
    access: Access,
    frame: Frame<M>,
}

impl<M: Machine> Piece<M> {
    /// Where it is to be.
    pub fn at(&self) -> VirtAddr {
        self.at
    }
}

impl<M: Machine> Space<M> {
    /// Room for at most `limit` bytes in a slot.
    pub fn new(core: &Core<M>, slot: UserSlot, limit: u64) -> Space<M> {
        Space {
            core: core.clone(),
            slot,
            user: RefCell::new(None),
            limit,
            used: Cell::new(0),
            most_used: Cell::new(0),
            refused: Cell::new(false),
            heap_end: Cell::new(VirtAddr(slot.base().0 + HEAP)),
            free: RefCell::default(),
            growing: Cell::new(0),
            closed: Cell::new(false),
            pooled: Cell::new(false),
        }
    }

    /// Takes the slot of this core's user half, in which nothing is usable yet.
    pub fn open(&self) -> Result<(), Status> {
        *self.user.borrow_mut() = Some(self.core.machine().user(self.slot)?);
        Ok(())
    }

    /// Where something is that is so far behind the base of the slot.
    pub fn at(&self, offset: u64) -> VirtAddr {
        VirtAddr(self.slot.base().0 + offset)
    }

    /// Its slot.
    pub fn slot(&self) -> UserSlot {
        self.slot
    }

    /// The bytes that the package has.
    pub fn used(&self) -> u64 {
        self.used.get()
    }

    /// The most bytes that the package had at once.
    pub fn most_used(&self) -> u64 {
        self.most_used.get()
    }

    /// Whether memory was refused to it while it ran.
    pub fn refused(&self) -> bool {
        self.refused.get()
    }

    /// Does something with the user half. `Dead` when there is none.
    pub fn with_user<T>(&self, act: impl FnOnce(&mut M::User) -> T) -> Result<T, Status> {
        self.user.borrow_mut().as_mut().map(act).ok_or(Status::Dead)
    }

    /// Copies `bytes` bytes from the package, at most what its caller has bounded.
    pub fn read(&self, from: VirtAddr, bytes: usize) -> Result<Vec<u8>, Status> {
        let mut copy = alloc::vec![0; bytes];
        if bytes > 0 {
            self.with_user(|user| user.read(from, &mut copy))?.map_err(bad_address)?;
        }
        Ok(copy)
    }

    /// Copies to the package.
    pub fn write(&self, to: VirtAddr, bytes: &[u8]) -> Result<(), Status> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.with_user(|user| user.write(to, bytes))?.map_err(bad_address)
    }

    /// The core that the package is on.
    pub fn core(&self) -> &Core<M> {
        &self.core
    }

    /// Whether it may have `bytes` more, a multiple of 4 KiB; then they count.
    pub fn reserve(&self, bytes: u64) -> Result<(), Status> {
        let used = self.used.get().checked_add(bytes).filter(|used| *used <= self.limit);
        self.used.set(used.ok_or(Status::NoMemory)?);
        self.most_used.set(self.most_used.get().max(self.used.get()));
        Ok(())
    }

    /// What was reserved did not come.
    pub fn unreserve(&self, bytes: u64) {
        self.used.set(self.used.get() - bytes);
    }

    /// Zeroed memory that is to be at `at`, `bytes` bytes rounded up to pages.
    pub async fn allocate(
        &self,
        at: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<Vec<Piece<M>>, Status> {
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Status::NoMemory)?;
        self.reserve(bytes)?;
        let result = self.take_pieces(at, bytes, access).await;
        if result.is_err() {
            self.unreserve(bytes);
        }
        result
    }

    async fn take_pieces(
        &self,
        at: VirtAddr,
        bytes: u64,
        access: Access,
    ) -> Result<Vec<Piece<M>>, Status> {
        let mut pieces = Vec::new();
        for (at, bytes) in piece_places(at, bytes) {
            let frame = match PageSize::ALL.into_iter().find(|size| size.bytes() == bytes) {
                Some(size) => self.core.allocate(size).await?,
                None => self.core.allocate_run(bytes).await?,
            };
            pieces.push(Piece { at, access, frame });
        }
        Ok(pieces)
    }

    /// Makes memory the package's. Many pieces move at once: each has two answers to wait for.
    pub async fn enter(&self, pieces: Vec<Piece<M>>) -> Result<(), Status> {
        let mut pieces = pieces.into_iter().peekable();
        while pieces.peek().is_some() {
            let some = pieces.by_ref().take(MOST_MOVING);
            let moved = some.map(|Piece { at, access, frame }| async move {
                (frame.move_to_user(at, access).await, at, access)
            });
            for (grant, at, access) in all(moved).await {
                let grant = grant?;
                self.with_user(|user| user.map(grant, at, access))??;
            }
        }
        Ok(())
    }

    /// Gives the package the node's pool. `NotFound` if there is none.
    pub async fn enter_pool(&self) -> Result<(), Status> {
        self.pooled.set(true);
        self.show_pool(true).await?;
        Ok(self.with_user(|user| user.map_pool())??)
    }

    /// Whether it has the node's pool.
    pub fn has_pool(&self) -> bool {
        self.pooled.get()
    }

    async fn show_pool(&self, shown: bool) -> Result<(), Status> {
        loop {
            match self.core.request(Request::ShowPool { slot: self.slot, shown }).await {
                // The management core's next incarnation is asked again: it does no harm.
                Err(Status::Dead) => {}
                result => return result.map(|_| ()),
            }
        }
    }

    /// Decides where `bytes` bytes more go, if they may.
    pub fn begin_to_grow(&self, bytes: u64) -> Result<(VirtAddr, u64), Status> {
        if self.closed.get() {
            return Err(Status::Dead);
        }
        let at = self.heap_end.get();
        let bytes = bytes.checked_next_multiple_of(PAGE).filter(|bytes| *bytes > 0);
        let end = bytes.and_then(|bytes| at.checked_add(bytes));
        let end = end.filter(|end| *end <= self.at(END));
        let (Some(bytes), Some(end)) = (bytes, end) else { return Err(Status::Invalid) };
        if self.used.get() + bytes > self.limit {
            self.refused.set(true);
            return Err(Status::NoMemory);
        }
        self.heap_end.set(end);
        self.growing.set(self.growing.get() + 1);
        Ok((at, bytes))
    }

    /// The same for memory that is shared: where some of as many bytes was before, if it was.
    pub fn begin_to_share(&self, bytes: u64) -> Result<(VirtAddr, u64), Status> {
        let bytes = bytes.next_multiple_of(PAGE);
        let before = self.free.borrow().iter().position(|(_, free)| *free == bytes);
        let Some(place) = before.filter(|_| !self.closed.get()) else {
            return self.begin_to_grow(bytes);
        };
        self.growing.set(self.growing.get() + 1);
        Ok(self.free.borrow_mut().swap_remove(place))
    }

    /// Shared memory is not there any more.
    pub fn has_shared(&self, at: VirtAddr, bytes: u64) {
        let bytes = bytes.next_multiple_of(PAGE);
        self.unreserve(bytes);
        self.free.borrow_mut().push((at, bytes));
    }

    /// Decides where a keep of `bytes` bytes, whole pages, goes: where a piece of 2 MiB can begin.
    /// It counts as the package's memory.
    pub fn begin_to_keep(&self, bytes: u64) -> Result<VirtAddr, Status> {
        self.reserve(bytes)?;
        self.begin_to_enter(bytes).inspect_err(|_| self.unreserve(bytes))
    }

    /// The same for a region, which is nobody's.
    pub fn begin_to_enter(&self, bytes: u64) -> Result<VirtAddr, Status> {
        if self.closed.get() {
            return Err(Status::Dead);
        }
        let at = self.heap_end.get().0.next_multiple_of(PageSize::Large.bytes());
        let end = at.checked_add(bytes).filter(|end| *end <= self.at(END).0);
        let end = end.ok_or(Status::Invalid)?;
        self.heap_end.set(VirtAddr(end));
        self.growing.set(self.growing.get() + 1);
        Ok(VirtAddr(at))
    }

    /// Makes what was decided so. What fails leaves addresses without memory, no more.
    pub async fn grow(&self, (at, bytes): (VirtAddr, u64)) -> Result<(), Status> {
        let pieces = self.allocate(at, bytes, Access::Write).await;
        let result = match pieces {
            Ok(pieces) => self.enter(pieces).await,
            Err(status) => Err(status),
        };
        if result == Err(Status::NoMemory) {
            self.refused.set(true);
        }
        result
    }

    /// Nothing is given back until [`Space::has_grown`]. `Dead` when that has begun.
    pub fn begin_to_hold(&self) -> Result<(), Status> {
        if self.closed.get() {
            return Err(Status::Dead);
        }
        self.growing.set(self.growing.get() + 1);
        Ok(())
    }

    /// A growth or a hold is over, one way or the other.
    pub fn has_grown(&self) {
        self.growing.set(self.growing.get() - 1);
    }

    /// Gives everything back, but for the image's text if that is to stay. No turn is taken any
    /// more.
    pub async fn empty(&self, text_stays: bool) {
        self.closed.set(true);
        while self.growing.get() > 0 {
            next_pass(&self.core).await;
        }
        if self.pooled.replace(false) {
            // It fails only where there is no pool.
            let _ = self.show_pool(false).await;
        }
        self.clear(|at, access| text_stays && self.is_text(at, access)).await;
        self.used.set(0);
    }

    /// Whether it is of an image, and not to be written: what the file has, with no address put in.
    fn is_text(&self, at: VirtAddr, access: Access) -> bool {
        (self.at(IMAGE)..self.at(HEAP)).contains(&at) && access != Access::Write
    }

    /// Gives back what is in the slot but for what `stays`, and the slot itself. Whoever has not
    /// opened that leaves it as it is.
    pub async fn clear(&self, stays: impl Fn(VirtAddr, Access) -> bool) {
        if self.user.borrow().is_some() {
            // The tables first: then nothing can bring back a translation that this forgets.
            self.core.empty_slot(self.slot, stays, || drop(self.user.borrow_mut().take())).await;
        }
    }
}

fn bad_address(_: BadAddress) -> Status {
    Status::Invalid
}

/// Where the pieces of `bytes` bytes from `at` begin, and how many bytes each has.
pub(super) fn piece_places(at: VirtAddr, bytes: u64) -> impl Iterator<Item = (VirtAddr, u64)> {
    let end = at.0 + bytes;
    let place = move |at: VirtAddr| (at.0 < end).then(|| (at, piece_bytes(at, end - at.0)));
    iter::successors(place(at), move |(at, bytes)| place(VirtAddr(at.0 + bytes)))
}

/// The largest piece of memory to begin at `at`: 2 MiB as a whole, or up to where such a one can
/// begin.
fn piece_bytes(at: VirtAddr, bytes: u64) -> u64 {
    let large = PageSize::Large.bytes();
    bytes.min(large - at.0 % large)
}

/// Copies to memory that is to be the package's, wherever in `pieces` that is; what is in none of
/// them is left out.
pub(super) fn fill<M: Machine>(pieces: &[Piece<M>], at: VirtAddr, bytes: &[u8]) {
    let end = at.0 + bytes.len() as u64;
    // The pieces of one allocation are in rising order, and so are those of an image.
    let first = pieces.partition_point(|piece| piece.at.0 + piece.frame.grant().bytes <= at.0);
    for piece in pieces[first..].iter().take_while(|piece| piece.at.0 < end) {
        let piece_end = piece.at.0 + piece.frame.grant().bytes;
        let (from, to) = (at.0.max(piece.at.0), end.min(piece_end));
        let part = &bytes[(from - at.0) as usize..(to - at.0) as usize];
        put(piece.frame.words(), (from - piece.at.0) as usize, part);
    }
}

/// Writes bytes to words, the first to byte `offset` of them.
fn put(words: &[AtomicU64], offset: usize, bytes: &[u8]) {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let (word, first) = (at / 8, at % 8);
        let (now, later) = rest.split_at(rest.len().min(8 - first));
        let mut value = words[word].load(Relaxed).to_ne_bytes();
        value[first..first + now.len()].copy_from_slice(now);
        words[word].store(u64::from_ne_bytes(value), Relaxed);
        (at, rest) = (at + now.len(), later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::array;

    #[test]
    fn pieces_are_whole_large_pages_or_lead_to_one() {
        const LARGE: u64 = 2 << 20;
        assert_eq!(piece_bytes(VirtAddr(LARGE), 3 * LARGE), LARGE);
        assert_eq!(piece_bytes(VirtAddr(LARGE), 4096), 4096);
        assert_eq!(piece_bytes(VirtAddr(LARGE + 4096), 3 * LARGE), LARGE - 4096);
        assert_eq!(piece_bytes(VirtAddr(LARGE - 8192), LARGE), 8192);
    }

    #[test]
    fn bytes_go_where_they_belong_and_nowhere_else() {
        for offset in 0..17 {
            for len in 0..=(32 - offset) {
                let words: [AtomicU64; 4] = array::from_fn(|_| AtomicU64::new(u64::MAX));
                let bytes: Vec<u8> = (0..len as u8).collect();
                put(&words, offset, &bytes);
                let after: Vec<u8> =
                    words.iter().flat_map(|word| word.load(Relaxed).to_ne_bytes()).collect();
                assert_eq!(after[offset..offset + len], bytes);
                assert!(after[..offset].iter().all(|byte| *byte == 255));
                assert!(after[offset + len..].iter().all(|byte| *byte == 255));
            }
        }
    }
}
