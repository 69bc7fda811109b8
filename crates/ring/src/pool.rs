//! Buffers in shared memory that change owner with a message.
//!
//! A buffer is owned by one core, or *in flight*: named by a [`Handle`] that travels in a cell.
//! Whoever [claims](Pool::claim) the handle owns the buffer; a handle works once.
//!
//! ```text
//! line 0    count 32 | size 32: written once, when the pool is formatted
//! line 1    free list: first free buffer's number 32 | tag 32; how many are free, about
//! then      a word per buffer: state 2 | owner or next free 30 | generation 32
//! then      the buffers, each a multiple of a line; if whole pages, from a whole page on
//! ```
//!
//! The tag changes with every change of the list's head, so that a core which was slow to take
//! the first buffer fails if the list has moved on meanwhile, even if the same buffer is first
//! again. A buffer's generation changes whenever its owner gives it up, so an old handle, or a made
//! up one, names no buffer.

mod memory;
#[cfg(not(loom))]
mod reader;

use core::fmt;
#[cfg(not(loom))]
use core::ptr::NonNull;

use nile_abi::CoreId;

use crate::buffer::{Buffer, Handle, PoolId};
use crate::region::{LINE_BYTES, Region};
use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

pub use memory::{HeapPool, PoolMemory};
#[cfg(not(loom))]
pub use reader::{GivenUp, Reader};

/// Lines before the state words.
const HEADER_LINES: usize = 2;

/// Words of a line.
const LINE_WORDS: usize = LINE_BYTES / 8;

/// The most buffers that a state word's 30 bits can link.
const MAX_BUFFERS: usize = (1 << 30) - 1;

/// The largest buffer: 32 bits count its bytes.
const MAX_SIZE: usize = 1 << 31;

/// Buffers of whole pages begin on one, counted from the pool's beginning: devices ask for that.
const PAGE: usize = 4096;

/// The region is no pool of this shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolError {
    /// Buffers are between one line and 2 GiB, in whole lines.
    BadSize,
    /// The region holds not one buffer of that size, or was never formatted.
    TooSmall,
    /// Somebody else is formatting the region, or ended in the midst of it.
    Unfinished,
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PoolError::BadSize => "a pool's buffers have whole lines, at most 2 GiB",
            PoolError::TooSmall => "the region is too small for the pool's buffers",
            PoolError::Unfinished => "the region's format was begun and never finished",
        })
    }
}

/// The handle gives its bearer no buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClaimError {
    /// It names a buffer of another pool.
    WrongPool,
    /// It names no buffer of this pool, or more bytes than a buffer has.
    OutOfRange,
    /// It was claimed before, its buffer was reclaimed, or nobody ever made it.
    Stale,
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClaimError::WrongPool => "the handle is of another pool",
            ClaimError::OutOfRange => "the handle names no buffer of the pool",
            ClaimError::Stale => "the handle's buffer is not in flight",
        })
    }
}

/// What a buffer's word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// In the free list, before the buffer with this number (zero: the last).
    Free { next: u32 },
    /// In the hands of a core.
    Owned(CoreId),
    /// Named by a handle that nobody has claimed; its last owner answers for it.
    InFlight(CoreId),
}

/// A buffer's word: its state and how often it was given up, put in flight or freed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word {
    state: State,
    generation: u32,
}

impl Word {
    fn pack(self) -> u64 {
        let (tag, link) = match self.state {
            State::Free { next } => (0, next),
            State::Owned(owner) => (1, u32::from(owner.0)),
            State::InFlight(owner) => (2, u32::from(owner.0)),
        };
        tag | u64::from(link) << 2 | u64::from(self.generation) << 32
    }

    fn unpack(word: u64) -> Word {
        let link = (word as u32) >> 2;
        let state = match word & 3 {
            0 => State::Free { next: link },
            1 => State::Owned(CoreId(link as u16)),
            _ => State::InFlight(CoreId(link as u16)),
        };
        Word { state, generation: (word >> 32) as u32 }
    }
}

/// One core's access to a pool. Clones belong to the same core.
#[derive(Clone, Debug)]
pub struct Pool {
    control: Region,
    #[cfg(not(loom))]
    buffers: Region,
    id: PoolId,
    owner: CoreId,
    count: usize,
    size: usize,
    /// How many free buffers `alloc` leaves.
    reserve: usize,
}

impl Pool {
    /// Bytes of the region that a pool of `count` buffers of `size` bytes takes.
    pub const fn region_len(count: usize, size: usize) -> usize {
        Pool::first_buffer(count, size) + count * size
    }

    /// Where the buffers begin.
    const fn first_buffer(count: usize, size: usize) -> usize {
        let control = (HEADER_LINES + count.div_ceil(LINE_WORDS)) * LINE_BYTES;
        if size.is_multiple_of(PAGE) { control.next_multiple_of(PAGE) } else { control }
    }

    /// Makes a pool of buffers of `size` bytes in heap memory, for one process.
    pub fn owned(id: PoolId, owner: CoreId, count: usize, size: usize) -> Result<Pool, PoolError> {
        if !is_size(size) {
            return Err(PoolError::BadSize);
        }
        if count == 0 || count > MAX_BUFFERS {
            return Err(PoolError::TooSmall);
        }
        // SAFETY: nobody else knows this memory, and no incarnation ran on it before.
        unsafe { Pool::format(Region::owned(Pool::region_len(count, size)), id, owner, size) }
    }

    /// Makes a pool of as many buffers of `size` bytes as `region` holds.
    ///
    /// # Safety
    ///
    /// As for [`Pool::attach`], and no pool is attached to the region yet.
    pub unsafe fn format(
        region: Region,
        id: PoolId,
        owner: CoreId,
        size: usize,
    ) -> Result<Pool, PoolError> {
        if !is_size(size) {
            return Err(PoolError::BadSize);
        }
        let bytes = region.len().saturating_sub(HEADER_LINES * LINE_BYTES);
        // Each buffer takes its bytes and one word, but the words fill whole lines.
        let mut count = (bytes / (size + LINE_WORDS)).min(MAX_BUFFERS);
        while count > 0 && Pool::region_len(count, size) > region.len() {
            count -= 1;
        }
        let words = region.words();
        if count == 0 {
            return Err(PoolError::TooSmall);
        }
        for index in 0..count {
            let next = if index + 1 < count { index as u32 + 2 } else { 0 };
            let word = Word { state: State::Free { next }, generation: 0 };
            words[HEADER_LINES * LINE_WORDS + index].store(word.pack(), Relaxed);
        }
        words[LINE_WORDS].store(1, Relaxed);
        words[LINE_WORDS + 1].store(count as u64, Relaxed);
        words[0].store(count as u64 | (size as u64) << 32, Release);
        // SAFETY: the caller's promise is the same.
        unsafe { Pool::attach(region, id, owner) }
    }

    /// The pool that was formatted in `region`, used on behalf of core `owner`.
    ///
    /// # Safety
    ///
    /// Until the last pool and buffer on it is gone, the region is reached only through pools,
    /// here and on every core and in every process that maps it. (A buffer gives out plain
    /// bytes, so a pool is shared only with those who are trusted to keep this rule.)
    pub unsafe fn attach(region: Region, id: PoolId, owner: CoreId) -> Result<Pool, PoolError> {
        let (count, size) = Pool::shape(&region)?;
        let bytes = count.checked_mul(size).ok_or(PoolError::TooSmall)?;
        let first = Pool::first_buffer(count, size);
        let control = region.slice(0, first).ok_or(PoolError::TooSmall)?;
        let buffers = region.slice(first, bytes).ok_or(PoolError::TooSmall)?;
        #[cfg(loom)]
        drop(buffers);
        Ok(Pool {
            control,
            #[cfg(not(loom))]
            buffers,
            id,
            owner,
            count,
            size,
            reserve: 0,
        })
    }

    /// How many buffers of how many bytes the pool has that was formatted in `region`.
    fn shape(region: &Region) -> Result<(usize, usize), PoolError> {
        let format = region.words().first().ok_or(PoolError::TooSmall)?.load(Acquire);
        let (count, size) = (format as u32 as usize, (format >> 32) as usize);
        if count == 0 || count > MAX_BUFFERS {
            return Err(PoolError::TooSmall);
        }
        if is_size(size) { Ok((count, size)) } else { Err(PoolError::BadSize) }
    }

    /// The same pool, of which [`alloc`](Pool::alloc) leaves about so many buffers to those who
    /// cannot wait for others: who fills buffers and sends them away must not take those that
    /// somebody needs to receive, or nobody receives and nobody's buffers come back.
    #[must_use]
    pub fn leaving(self, reserve: usize) -> Pool {
        Pool { reserve, ..self }
    }

    /// How many buffers [`alloc`](Pool::alloc) leaves.
    pub fn reserve(&self) -> usize {
        self.reserve
    }

    /// The pool's name in handles.
    pub fn id(&self) -> PoolId {
        self.id
    }

    /// How many buffers the pool has.
    pub fn capacity(&self) -> usize {
        self.count
    }

    /// Bytes of each buffer.
    pub fn buffer_size(&self) -> usize {
        self.size
    }

    /// Where the buffer with this index begins, in bytes from the pool's beginning.
    pub fn offset(&self, index: u32) -> usize {
        Pool::first_buffer(self.count, self.size) + index as usize * self.size
    }

    /// How many buffers are free now. It looks at each: for reports.
    pub fn free_buffers(&self) -> usize {
        let is_free = |index: &u32| {
            let word = self.word(*index).map(|word| Word::unpack(word.load(Relaxed)).state);
            matches!(word, Some(State::Free { .. }))
        };
        (0..self.count as u32).filter(is_free).count()
    }

    /// About how many buffers are free now, by a count that may be wrong by one for each core.
    pub fn about_free(&self) -> usize {
        self.free_count().load(Relaxed) as usize
    }

    /// Takes a free buffer, if there is one [to take](Pool::leaving). Its bytes are what its last
    /// owner left. Never blocks.
    pub fn alloc(&self) -> Option<Buffer> {
        self.alloc_leaving(self.reserve)
    }

    /// Takes a free buffer, if about `left` others are then free.
    pub fn alloc_leaving(&self, left: usize) -> Option<Buffer> {
        if left > 0 && self.about_free() <= left { None } else { self.alloc_any() }
    }

    /// Takes a free buffer, if there is one at all. (A core that stops in the middle of this call
    /// takes the buffer with it.)
    pub fn alloc_any(&self) -> Option<Buffer> {
        let list = self.free_list();
        let mut head = list.load(Acquire);
        let index = loop {
            let index = (head as u32).checked_sub(1)?;
            let first = Word::unpack(self.word(index)?.load(Relaxed));
            // Not free: another core has taken it since, and the exchange below will fail.
            let next = if let State::Free { next } = first.state { next } else { 0 };
            match list.compare_exchange(head, replaced(head, next), Acquire, Acquire) {
                Ok(_) => break index,
                Err(changed) => head = changed,
            }
        };
        let word = self.word(index)?;
        let generation = Word::unpack(word.load(Relaxed)).generation;
        word.store(Word { state: State::Owned(self.owner), generation }.pack(), Relaxed);
        self.count_free(u64::MAX);
        Some(Buffer::new(self.clone(), index, self.size))
    }

    /// Takes over the buffer that `handle` names. Never blocks.
    pub fn claim(&self, handle: Handle) -> Result<Buffer, ClaimError> {
        if handle.pool != self.id {
            return Err(ClaimError::WrongPool);
        }
        let word = self.word(handle.index).ok_or(ClaimError::OutOfRange)?;
        let len = handle.len as usize;
        if len > self.size {
            return Err(ClaimError::OutOfRange);
        }
        let generation = handle.generation;
        let seen = word.load(Relaxed);
        let State::InFlight(_) = Word::unpack(seen).state else { return Err(ClaimError::Stale) };
        if Word::unpack(seen).generation != generation {
            return Err(ClaimError::Stale);
        }
        let mine = Word { state: State::Owned(self.owner), generation };
        // Of several claims of one handle, one makes the exchange.
        word.compare_exchange(seen, mine.pack(), Acquire, Relaxed)
            .map_err(|_| ClaimError::Stale)?;
        Ok(Buffer::new(self.clone(), handle.index, len))
    }

    /// Frees every buffer that `dead` owned or had put in flight, after the core has stopped;
    /// returns how many. Handles of them that still travel become stale.
    ///
    /// # Safety
    ///
    /// No code that holds a [`Buffer`] as `dead` ever runs again, and `dead` is not attached
    /// anew before this returns.
    pub unsafe fn reclaim(&self, dead: CoreId) -> usize {
        self.free_those(|state| state == State::Owned(dead) || state == State::InFlight(dead))
    }

    /// Whether the handle's buffer is on its way: nobody has claimed or reclaimed it.
    pub fn is_in_flight(&self, handle: Handle) -> bool {
        let word = self.word(handle.index).map(|word| Word::unpack(word.load(Relaxed)));
        let matches = |word: Word| {
            matches!(word.state, State::InFlight(_)) && word.generation == handle.generation
        };
        handle.pool == self.id && word.is_some_and(matches)
    }

    /// How many buffers this core has put in flight that nobody has claimed. It looks at each.
    pub fn in_flight(&self) -> usize {
        let is_on_its_way = |index: &u32| {
            let word = self.word(*index).map(|word| Word::unpack(word.load(Relaxed)).state);
            word == Some(State::InFlight(self.owner))
        };
        (0..self.count as u32).filter(is_on_its_way).count()
    }

    /// Frees every buffer that this core had put in flight and nobody has claimed; returns how
    /// many. Handles of them become stale.
    pub fn recall(&self) -> usize {
        self.free_those(|state| state == State::InFlight(self.owner))
    }

    /// Frees the buffers in these states, which nobody holds.
    fn free_those(&self, meant: impl Fn(State) -> bool) -> usize {
        let mut freed = 0;
        for index in 0..self.count as u32 {
            let Some(word) = self.word(index) else { break };
            let seen = word.load(Relaxed);
            let Word { state, generation } = Word::unpack(seen);
            if !meant(state) {
                continue;
            }
            // A receiver may be claiming it just now; then it is the receiver's.
            let taken = Word { state: State::Owned(self.owner), generation };
            if word.compare_exchange(seen, taken.pack(), Acquire, Relaxed).is_ok() {
                self.free(index);
                freed += 1;
            }
        }
        freed
    }

    /// Puts an owned buffer in flight: the generation of its handle.
    pub(crate) fn launch(&self, index: u32) -> u32 {
        let Some(word) = self.word(index) else { return 0 };
        let generation = Word::unpack(word.load(Relaxed)).generation.wrapping_add(1);
        // Release: who claims the handle sees the bytes.
        word.store(Word { state: State::InFlight(self.owner), generation }.pack(), Release);
        generation
    }

    /// Puts an owned buffer in the free list.
    pub(crate) fn free(&self, index: u32) {
        let Some(word) = self.word(index) else { return };
        let list = self.free_list();
        let generation = Word::unpack(word.load(Relaxed)).generation.wrapping_add(1);
        let mut head = list.load(Relaxed);
        loop {
            let state = State::Free { next: head as u32 };
            word.store(Word { state, generation }.pack(), Relaxed);
            // Release: the next owner writes only after this one is done.
            let new = replaced(head, index + 1);
            match list.compare_exchange(head, new, Release, Relaxed) {
                Ok(_) => {
                    self.count_free(1);
                    return;
                }
                Err(changed) => head = changed,
            }
        }
    }

    /// The first byte of a buffer.
    #[cfg(not(loom))]
    pub(crate) fn bytes(&self, index: u32) -> NonNull<u8> {
        debug_assert!((index as usize) < self.count);
        // SAFETY: buffers are made by `alloc` and `claim`, for indices below `count`, and
        // `buffers` has `count` times `size` bytes.
        unsafe { self.buffers.base().add(index as usize * self.size) }
    }

    fn free_list(&self) -> &AtomicU64 {
        &self.control.lines()[1][0]
    }

    /// Adds to the count of free buffers, wrapping around. Models leave it out: it decides nothing
    /// in them, and each of its accesses would multiply their interleavings.
    fn count_free(&self, change: u64) {
        #[cfg(not(loom))]
        self.free_count().fetch_add(change, Relaxed);
        #[cfg(loom)]
        let _ = change;
    }

    /// Changed after the list was, so that it may be wrong by one for each core.
    fn free_count(&self) -> &AtomicU64 {
        &self.control.lines()[1][1]
    }

    fn word(&self, index: u32) -> Option<&AtomicU64> {
        word(&self.control, self.count, index)
    }
}

/// The word of a buffer of a pool of `count`.
fn word(control: &Region, count: usize, index: u32) -> Option<&AtomicU64> {
    let words = &control.words()[HEADER_LINES * LINE_WORDS..];
    words[..count].get(index as usize)
}

/// The free list's word after `head`, with buffer number `first` (one more than its index) in
/// front.
fn replaced(head: u64, first: u32) -> u64 {
    let tag = (head >> 32).wrapping_add(1);
    tag << 32 | u64::from(first)
}

fn is_size(size: usize) -> bool {
    size != 0 && size <= MAX_SIZE && size.is_multiple_of(LINE_BYTES)
}

#[cfg(all(test, not(loom)))]
mod tests;
