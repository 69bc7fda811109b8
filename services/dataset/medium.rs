//! The disk that datasets are on, through buffers of the node's pool.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_seal::disk::Cipher;
use nile_stl::node::{Buffer, Handle, Inline, Moved, Pool, PoolDisk};
use nile_stl::{CallError, CallResult, Stl};
use nile_store::label::LABEL_BYTES;
use nile_store::{Block, Range, Step, UNIT};

/// What devices take of a buffer is whole lines.
const LINE: usize = 64;

/// A disk and the buffers that its data go through.
pub struct Medium {
    disk: PoolDisk,
    pool: Pool,
    name: String,
    bytes: u64,
    /// What all behind the label is encrypted with, if it is: on its way, in the buffers that
    /// travel.
    pub cipher: Option<Arc<Cipher>>,
    /// For the store's own records: they go on when all other buffers are in use.
    own: RefCell<Option<Buffer>>,
}

impl Medium {
    /// A disk of this core, by its place among these. `NotFound` if there is none, or the node has
    /// no pool.
    pub fn open(stl: &Stl, place: usize) -> CallResult<Medium> {
        let node = stl.node()?;
        let missing = |what: &'static str| CallError::new(Status::NotFound, what);
        let disk = node.disks().into_iter().nth(place);
        let disk = disk.ok_or_else(|| missing("this node has no disk for datasets"))?;
        let pool = node.pool();
        let pool = pool.ok_or_else(|| {
            missing("this node has no pool of buffers; say [pool] in its nile.toml")
        })?;
        let description = disk.description();
        if !UNIT.is_multiple_of(u64::from(description.sector_bytes)) {
            let (name, bytes) = (&description.name, description.sector_bytes);
            let message =
                format!("{name} has sectors of {bytes} bytes; datasets want 4096 at most");
            return Err(CallError::new(Status::Invalid, message));
        }
        let (name, bytes) = (description.name.clone(), description.bytes);
        let medium = Medium { disk, pool, name, bytes, cipher: None, own: RefCell::new(None) };
        *medium.own.borrow_mut() = Some(medium.buffer()?);
        Ok(medium)
    }

    /// The node's buffers.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// What the machine calls the disk.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of the disk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of a buffer.
    pub fn buffer_bytes(&self) -> usize {
        self.pool.buffer_size()
    }

    /// A free buffer. `Busy` if there is none.
    pub fn buffer(&self) -> CallResult<Buffer> {
        let all = self.pool.capacity();
        let busy = || format!("all {all} buffers of the node's pool are in use; try again");
        self.pool.alloc().ok_or_else(|| CallError::new(Status::Busy, busy()))
    }

    /// A free buffer for a record of a job's, which has the last ones: without it no job could end.
    pub fn last_buffer(&self) -> CallResult<Buffer> {
        self.pool.alloc_any().map_or_else(|| self.buffer(), Ok)
    }

    /// Free buffers, at most so many. `Busy` if there is none.
    pub fn buffers(&self, most: usize) -> CallResult<Vec<Buffer>> {
        let mut buffers = Vec::from([self.buffer()?]);
        buffers.extend((1..most).map_while(|_| self.pool.alloc()));
        Ok(buffers)
    }

    /// The buffer that a call has brought, in its whole length, and how many of its bytes are
    /// meant.
    pub fn claim(&self, handle: Handle) -> CallResult<(Buffer, usize)> {
        let refused = |error| CallError::new(Status::Invalid, format!("{error}"));
        self.whole(self.pool.claim(handle).map_err(refused)?)
    }

    /// The same buffer in its whole length, and how many bytes it had.
    pub fn whole(&self, buffer: Buffer) -> CallResult<(Buffer, usize)> {
        let bytes = buffer.len();
        Ok((self.sized(buffer, self.buffer_bytes())?, bytes))
    }

    /// The same buffer with `bytes` of its bytes. `Invalid` if it has not so many.
    fn sized(&self, buffer: Buffer, bytes: usize) -> CallResult<Buffer> {
        let most = self.buffer_bytes();
        if bytes > most {
            let message = format!("{bytes} bytes are more than a buffer of the pool has, {most}");
            return Err(CallError::new(Status::Invalid, message));
        }
        let refused = |error| CallError::new(Status::Invalid, format!("{error}"));
        self.pool.claim(buffer.into_handle(bytes)).map_err(refused)
    }

    /// Fills a buffer with `bytes` bytes of a file of another program's, from byte `at` on.
    pub async fn read_file(
        &self,
        file: &PoolDisk,
        at: u64,
        buffer: Buffer,
        bytes: usize,
    ) -> CallResult<Buffer> {
        let buffer = self.sized(buffer, bytes.next_multiple_of(LINE))?;
        let buffer = one(file.read(at, Vec::from([buffer]), bytes).await?)?;
        self.sized(buffer, self.buffer_bytes())
    }

    /// Writes the first `bytes` bytes of a buffer to such a file, from byte `at` on.
    pub async fn write_file(
        &self,
        file: &PoolDisk,
        at: u64,
        buffer: Buffer,
        bytes: usize,
    ) -> CallResult<()> {
        let buffer = self.sized(buffer, bytes.next_multiple_of(LINE))?;
        file.write(at, Vec::from([buffer]), bytes).await.map(drop)
    }

    /// Reads a block of `bytes` bytes from where it is on the disk; gives also what it is.
    pub async fn read(
        &self,
        from: Range,
        buffer: Buffer,
        bytes: usize,
    ) -> CallResult<(Buffer, Block)> {
        let buffer = Vec::from([self.sized(buffer, from.bytes as usize)?]);
        let Some(cipher) = self.cipher_here(from) else {
            let moved = self.disk.read_inline(from.at, buffer, self.inline(bytes));
            return block(moved.await?, bytes);
        };
        let mut buffer = one(self.disk.read(from.at, buffer, 0).await?)?;
        cipher.decrypt(from.at, &mut buffer);
        let found = Block::of(&buffer[..bytes]);
        Ok((buffer, found))
    }

    /// Writes a block of `bytes` bytes to its place on the disk; gives what it is.
    pub async fn write(&self, to: Range, buffer: Buffer, bytes: usize) -> CallResult<Block> {
        let mut buffer = self.sized(buffer, to.bytes as usize)?;
        if let Some(cipher) = self.cipher_here(to) {
            let block = Block::of(&buffer[..bytes]);
            cipher.encrypt(to.at, &mut buffer);
            self.disk.write(to.at, Vec::from([buffer]), 0).await?;
            return Ok(block);
        }
        let moved = self.disk.write_inline(to.at, Vec::from([buffer]), self.inline(bytes));
        Ok(block(moved.await?, bytes)?.1)
    }

    /// What a block is encrypted with here, by this core: with nothing if the disk does it.
    fn cipher_here(&self, block: Range) -> Option<&Cipher> {
        self.cipher.as_deref().filter(|_| !self.disk.ciphers(block.bytes))
    }

    /// What the disk does with a block of `bytes` bytes as it passes.
    fn inline(&self, bytes: usize) -> Inline {
        Inline { hashed: bytes as u64, cipher: self.cipher.clone() }
    }

    /// The store's own buffer, in its whole length.
    fn own(&self) -> CallResult<Buffer> {
        let own = self.own.borrow_mut().take();
        own.map_or_else(|| self.buffer(), |own| self.sized(own, self.buffer_bytes()))
    }

    /// What bytes at this place are encrypted with: the label is not.
    fn cipher_at(&self, at: u64) -> Option<&Cipher> {
        self.cipher.as_deref().filter(|_| at >= LABEL_BYTES)
    }

    /// Reads bytes, whole units, of the label or of what is behind, through the store's own buffer.
    pub async fn read_bytes(&self, at: u64, bytes: usize) -> CallResult<Vec<u8>> {
        let mut read = Vec::with_capacity(bytes);
        while read.len() < bytes {
            let piece = (bytes - read.len()).min(self.buffer_bytes());
            let (buffer, at) = (self.sized(self.own()?, piece)?, at + read.len() as u64);
            let mut buffer = one(self.disk.read(at, Vec::from([buffer]), 0).await?)?;
            if let Some(cipher) = self.cipher_at(at) {
                cipher.decrypt(at, &mut buffer);
            }
            read.extend_from_slice(&buffer);
            *self.own.borrow_mut() = Some(buffer);
        }
        Ok(read)
    }

    /// Does what a store wants done.
    pub async fn step(&self, step: Step) -> CallResult<()> {
        let (at, bytes) = match step {
            Step::Flush => return self.disk.flush().await,
            Step::Discard(Range { at, bytes }) => return self.disk.discard(at, bytes).await,
            Step::Write { at, bytes } => (at, bytes),
        };
        let mut at = at;
        for piece in bytes.chunks(self.buffer_bytes()) {
            let mut buffer = self.own()?;
            buffer[..piece.len()].copy_from_slice(piece);
            let mut buffer = self.sized(buffer, piece.len())?;
            if let Some(cipher) = self.cipher_at(at) {
                cipher.encrypt(at, &mut buffer);
            }
            let buffer = one(self.disk.write(at, Vec::from([buffer]), 0).await?)?;
            *self.own.borrow_mut() = Some(buffer);
            at += piece.len() as u64;
        }
        Ok(())
    }
}

/// The buffer of a request that had one.
fn one(mut moved: Moved) -> CallResult<Buffer> {
    let lost = || CallError::new(Status::Failed, "the disk has kept a buffer");
    moved.buffers.pop().ok_or_else(lost)
}

/// The buffer of a request for a block, and what block it is.
fn block(moved: Moved, bytes: usize) -> CallResult<(Buffer, Block)> {
    let hash = moved.hash;
    let buffer = one(moved)?;
    let block = match hash {
        Some(hash) => Block::hashed(bytes as u32, hash),
        None => Block::of(&buffer[..bytes]),
    };
    Ok((buffer, block))
}
