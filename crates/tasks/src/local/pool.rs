//! The pool of the agent in memory: its buffers as the package and the agent have them.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::ptr::NonNull;

use nile_abi::call::{PoolCall, PoolHandle, PoolPlace, UserSlot};
use nile_abi::{CoreId, Status, VirtAddr};
use nile_bosml::Buffer as Named;
use nile_ring::{Buffer, Handle, HeapPool, Pool, PoolId};

/// Where the package sees it.
const POOL: VirtAddr = UserSlot::FIRST.pool();

pub struct Buffers {
    memory: HeapPool,
    pool: Pool,
    /// What the package has.
    held: RefCell<BTreeMap<u32, Buffer>>,
    most: Cell<usize>,
    /// What is more than there is to be.
    spare: Vec<Buffer>,
}

impl Buffers {
    pub fn new(count: usize, bytes: usize) -> Result<Buffers, String> {
        // Some room for what the pool knows of its buffers.
        let memory = HeapPool::new((bytes + 64) * count + (64 << 10));
        let pool = Pool::open(memory.right_of(CoreId::BOOT), PoolId(0), bytes)
            .map_err(|error| format!("{count} buffers of {bytes} bytes: {error}"))?;
        let mut spare = Vec::new();
        while pool.free_buffers() > count {
            spare.extend(pool.alloc());
        }
        Ok(Buffers { memory, pool, held: RefCell::default(), most: Cell::new(0), spare })
    }

    /// Bytes of a buffer.
    pub fn size(&self) -> usize {
        self.pool.buffer_size()
    }

    /// A buffer of the agent's.
    pub fn take(&self) -> Option<Buffer> {
        let buffer = self.pool.alloc();
        self.most.set(self.most.get().max(self.used()));
        buffer
    }

    /// The most buffers that were in use at once.
    pub fn most(&self) -> usize {
        self.most.get()
    }

    /// How many are in use.
    pub fn used(&self) -> usize {
        self.pool.capacity() - self.spare.len() - self.pool.free_buffers()
    }

    /// Whether the package has given all that it had.
    pub fn holds_none(&self) -> bool {
        self.held.borrow().is_empty()
    }

    /// Gives a buffer to the package.
    pub fn give(buffer: Buffer, bytes: usize) -> Named {
        let Handle { pool, index, generation, len } = buffer.into_handle(bytes);
        Named { pool: pool.0.into(), index, generation, length: len }
    }

    /// Takes a buffer that the package gives.
    pub fn claim(&self, named: &Named) -> Result<Buffer, Status> {
        let Named { pool, index, generation, length } = *named;
        let pool = PoolId(u16::try_from(pool).map_err(|_| Status::Invalid)?);
        let handle = Handle { pool, index, generation, len: length };
        self.pool.claim(handle).map_err(|_| Status::Invalid)
    }

    /// The name of a buffer of the agent's, for the package to look at.
    pub fn view(buffer: &Buffer) -> Named {
        Named { pool: 0, index: buffer.index(), generation: 0, length: buffer.len() as u32 }
    }

    /// Answers the package's system call.
    pub fn answer(&self, input: &[u8]) -> Result<Vec<u8>, Status> {
        let mut held = self.held.borrow_mut();
        let mut hold = |buffer: Buffer| {
            let place = self.place(buffer.index(), buffer.len());
            held.insert(buffer.index(), buffer);
            Ok(place)
        };
        match PoolCall::decode(input).ok_or(Status::Invalid)? {
            PoolCall::Take => hold(self.take().ok_or(Status::Busy)?),
            PoolCall::Claim(PoolHandle { pool, index, generation, bytes }) => {
                let handle = Handle { pool: PoolId(pool), index, generation, len: bytes };
                hold(self.pool.claim(handle).map_err(|_| Status::NotFound)?)
            }
            PoolCall::View(handle) => Ok(self.place(handle.index, handle.bytes as usize)),
            PoolCall::Free { buffer } => {
                held.remove(&buffer).ok_or(Status::NotFound)?;
                Ok(Vec::new())
            }
            PoolCall::Pass { buffer, bytes } => {
                let buffer = held.remove(&buffer).ok_or(Status::NotFound)?;
                let Handle { pool, index, generation, len } = buffer.into_handle(bytes as usize);
                Ok(PoolHandle { pool: pool.0, index, generation, bytes: len }.encode().into())
            }
        }
    }

    fn place(&self, index: u32, bytes: usize) -> Vec<u8> {
        let at = VirtAddr(POOL.0 + self.pool.offset(index) as u64);
        PoolPlace { buffer: index, at, bytes: bytes as u64 }.encode().into()
    }

    /// Where the package finds that.
    pub fn memory(&self, at: VirtAddr, bytes: u64) -> Option<NonNull<u8>> {
        let offset = usize::try_from(at.0.checked_sub(POOL.0)?).ok()?;
        self.memory.part(offset, usize::try_from(bytes).ok()?)
    }
}
