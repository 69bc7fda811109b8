//! The memory of a node's pool as one incarnation of a core has it, so that code which may not be
//! `unsafe` opens it.
//!
//! The right to open it comes once in an incarnation, from whoever knows that the last one has
//! ended: the machine. Opening takes back what that one left behind.

use alloc::vec::Vec;
use core::ptr::NonNull;

use nile_abi::CoreId;
#[cfg(not(loom))]
use nile_abi::Part;

#[cfg(not(loom))]
use super::reader::{self, GivenUp, Reader};
use super::{Pool, PoolError};
use crate::buffer::PoolId;
use crate::region::{Region, Word};
use crate::sync::Ordering::{Acquire, Relaxed};

/// In place of the format's word while the rest is written.
const FORMATTING: u64 = 1 << 63;

/// The right of a core's incarnation to open its node's pool, once.
#[derive(Debug)]
pub struct PoolMemory {
    region: Region,
    owner: CoreId,
    /// Whether the owner's earlier incarnations are known to hold no buffer.
    alone: bool,
}

impl PoolMemory {
    /// The right of the present incarnation of `owner`. `region` is zero before its pool is first
    /// opened; a zero first line is enough.
    ///
    /// # Safety
    ///
    /// The region is reached only through pools, as [`Pool::attach`] has it; no code of an earlier
    /// incarnation of `owner` ever runs again, no device writes for it, and this is the only right
    /// of the present one.
    pub unsafe fn new(region: Region, owner: CoreId) -> PoolMemory {
        PoolMemory { region, owner, alone: true }
    }

    /// Bytes of the pool's memory.
    pub fn bytes(&self) -> usize {
        self.region.len()
    }

    /// Frees what the core owned or had in flight, as [`Pool::join`] does, and leaves the pool.
    pub fn give_back(self) -> Result<(), PoolError> {
        Pool::join(self, PoolId(0)).map(drop)
    }

    fn is_formatted(&self) -> Result<bool, PoolError> {
        match self.region.words().first().ok_or(PoolError::TooSmall)?.load(Acquire) {
            0 => Ok(false),
            FORMATTING => Err(PoolError::Unfinished),
            _ => Ok(true),
        }
    }
}

impl Pool {
    /// Opens a pool, which is formatted now if it never was, with buffers of `size` bytes. What
    /// the core's earlier incarnations owned or had in flight is free again.
    pub fn open(memory: PoolMemory, id: PoolId, size: usize) -> Result<Pool, PoolError> {
        if memory.is_formatted()? {
            return Pool::join(memory, id);
        }
        let first = &memory.region.words()[0];
        // One of those who try formats it, and nobody attaches before that is done.
        if first.compare_exchange(0, FORMATTING, Acquire, Relaxed).is_err() {
            return Err(PoolError::Unfinished);
        }
        // SAFETY: whoever made the memory promised what `attach` asks for, and there was no format
        // to attach to.
        let made = unsafe { Pool::format(memory.region.clone(), id, memory.owner, size) };
        if made.is_err() {
            first.store(0, Relaxed);
        }
        made
    }

    /// Opens a pool that was formatted before. What the core's earlier incarnations owned or had
    /// in flight is free again. `TooSmall` if it was not formatted.
    pub fn join(memory: PoolMemory, id: PoolId) -> Result<Pool, PoolError> {
        if !memory.is_formatted()? {
            return Err(PoolError::TooSmall);
        }
        // SAFETY: whoever made the memory promised it.
        let pool = unsafe { Pool::attach(memory.region, id, memory.owner)? };
        if memory.alone {
            // SAFETY: no earlier incarnation runs, and this one has no other way to the pool.
            unsafe { pool.reclaim(memory.owner) };
        } else {
            pool.recall();
        }
        Ok(pool)
    }
}

/// Words of the first page, which says what is formatted.
const FIRST_WORDS: usize = 4096 / 8;

fn copy_words<'a>(from: impl Iterator<Item = &'a Word>, to: impl Iterator<Item = &'a Word>) {
    from.zip(to).for_each(|(from, to)| to.store(from.load(Relaxed), Relaxed));
}

/// Heap memory for a pool of cores that share a process and end by being dropped, as those of a
/// simulation do.
#[derive(Clone, Debug)]
pub struct HeapPool(Region);

impl HeapPool {
    /// Memory of at least `bytes` bytes.
    pub fn new(bytes: usize) -> HeapPool {
        HeapPool(Region::owned(bytes))
    }

    /// Memory that holds what these have, one after the other, but that no pool is formatted there.
    pub fn holding(parts: impl Iterator<Item = Region>) -> HeapPool {
        let parts: Vec<Region> = parts.collect();
        let pool = HeapPool::new(parts.iter().map(Region::len).sum());
        let words = parts.iter().flat_map(|part| part.words()).skip(FIRST_WORDS);
        copy_words(words, pool.0.words().iter().skip(FIRST_WORDS));
        pool
    }

    /// Copies what it holds to these, one after the other, whoever owns its buffers.
    pub fn copy_to(&self, parts: impl Iterator<Item = Region>) {
        let parts: Vec<Region> = parts.collect();
        copy_words(self.0.words().iter(), parts.iter().flat_map(|part| part.words()));
    }

    /// Bytes of it.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Where `bytes` bytes of it are, `offset` bytes from its beginning: for a package, which
    /// reaches its own buffers alone; `None` if it has not so many.
    pub fn part(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        let whole = NonNull::from(self.0.words()).cast::<u8>();
        (end <= self.0.len()).then(|| whole.map_addr(|at| at.saturating_add(offset)))
    }

    /// Fills `into` with a part's first bytes, whoever owns its buffer.
    #[cfg(not(loom))]
    pub fn read(&self, part: Part, into: &mut [u8]) -> Result<(), GivenUp> {
        let reader = Reader::attach(self.0.clone()).map_err(|_| GivenUp)?;
        reader.read(part, 0, into, |place, into| {
            reader::copy(self.0.words(), place, into);
            true
        })
    }

    /// The right of a core to open it. A buffer that an earlier incarnation owned is free when it
    /// is dropped, not sooner: nobody here can know that it is gone.
    pub fn right_of(&self, owner: CoreId) -> PoolMemory {
        PoolMemory { region: self.0.clone(), owner, alone: false }
    }
}
