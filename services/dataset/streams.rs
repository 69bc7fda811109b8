//! Drafts: blocks on their way to the disk, several at once, and bytes that gather in a buffer
//! until a block is full.

use alloc::boxed::Box;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;

use nile_abi::{CoreId, Generation, Instant, NodeId, Status};
use nile_order::SortedMap;
use nile_stl::node::Buffer;
use nile_stl::{CallError, CallResult, all};
use nile_store::{DraftId, Manifest, Name, Owner, RECORDS, Version};
use nile_sync::{Notify, OneShot};

use super::keeper::Keeper;
use super::travel::refused;
use nile_interfaces::dataset::records::InFile;

/// For how long a draft of another node's may be left alone before it ends when somebody begins
/// another.
const PATIENCE: Duration = Duration::from_secs(120);

/// The most blocks that are taken out of a file at once.
const MOST_TAKEN: u64 = 16;

/// The most drafts of other nodes at a time: each may hold a buffer.
const MOST_STRANGE: usize = 64;

/// The most drafts at a time.
const MOST_DRAFTS: usize = 1024;

/// Above these bits the number of a draft says on which of its core's disks it is; between them, of
/// which incarnation of its core: the store's own numbers begin anew with each.
const DISK_BITS: u32 = 60;
const LIFE_BITS: u32 = 32;

/// On which of its core's disks a draft is.
pub fn disk_of(draft: u64) -> usize {
    (draft >> DISK_BITS) as usize
}

/// The drafts of a store.
pub struct Streams {
    disk: u64,
    drafts: RefCell<SortedMap<u64, Rc<Stream>>>,
}

/// A draft, and what of its present block has come.
pub struct Stream {
    name: Name,
    version: Version,
    id: DraftId,
    /// The core of this node that began it, and its incarnation: the draft ends with that.
    writer: Option<(CoreId, Generation)>,
    /// Bytes of each block that is filled piece by piece.
    block_bytes: usize,
    state: RefCell<Written>,
    /// Notified when no block is under way any more.
    rest: Notify,
}

struct Written {
    /// Bytes that have come, from the dataset's start.
    bytes: u64,
    /// The next block, and how much of it has gathered.
    block: u32,
    filled: usize,
    buffer: Option<Buffer>,
    /// Blocks on their way to the disk.
    under_way: u32,
    /// Why nothing more can be added.
    failed: Option<CallError>,
    /// Nobody wants it any more: its space is free when no block is under way.
    is_over: bool,
    /// It takes no more bytes: it becomes a dataset, or nobody wants it.
    is_closed: bool,
    touched: Instant,
}

impl Streams {
    /// Those on a disk of this core, by its place among these.
    pub fn on(disk: usize) -> Streams {
        Streams { disk: disk as u64, drafts: RefCell::default() }
    }

    /// Begins a draft; those that were left alone end.
    pub fn create(
        &self,
        keeper: &Rc<Keeper>,
        key: (Name, Version),
        owner: Owner,
        writer: Option<CoreId>,
        block_bytes: usize,
    ) -> CallResult<u64> {
        self.sweep(keeper);
        let strange = self.drafts.borrow().values().filter(|it| it.writer.is_none()).count();
        let is_full = writer.is_none() && strange >= MOST_STRANGE;
        if is_full || self.drafts.borrow().len() >= MOST_DRAFTS {
            let message = format!("{strange} datasets are being written; try again later");
            return Err(CallError::new(Status::Busy, message));
        }
        let host = keeper.stl.host();
        let writer = writer.map(|core| (core, host.generation_of(core)));
        let stream = Stream::begin(keeper, key, owner, writer, block_bytes)?;
        let life = u64::from(host.generation_of(host.core()).0);
        let id = self.number(life, stream.id.0);
        self.drafts.borrow_mut().insert(id, stream);
        Ok(id)
    }

    /// What others call a draft. Whoever has that of an earlier incarnation finds none.
    fn number(&self, life: u64, id: u64) -> u64 {
        let (life, id) = (life % (1 << (DISK_BITS - LIFE_BITS)), id % (1 << LIFE_BITS));
        self.disk << DISK_BITS | life << LIFE_BITS | id
    }

    /// Ends what was left alone: by another node for long, or by a core that has ended.
    pub fn sweep(&self, keeper: &Rc<Keeper>) {
        let host = keeper.stl.host();
        let now = host.now();
        let is_left = |stream: &Stream| match stream.writer {
            Some((core, generation)) => host.generation_of(core) != generation,
            None => now.since(stream.state.borrow().touched) > PATIENCE,
        };
        let drafts = &mut *self.drafts.borrow_mut();
        for (_, stream) in drafts.extract(|_, stream| is_left(stream)) {
            stream.give_up(keeper);
        }
    }

    /// A draft.
    pub fn find(&self, id: u64) -> CallResult<Rc<Stream>> {
        let stream = self.drafts.borrow().get(&id).cloned();
        let none = || CallError::new(Status::NotFound, format!("no draft {id}, or it has ended"));
        stream.ok_or_else(none)
    }

    /// Ends a draft, and leaves nothing of it; well, if there is none. Waits for blocks that are
    /// under way; whoever stops waiting for that stops nothing.
    pub async fn abort(&self, keeper: &Rc<Keeper>, id: u64) {
        let stream = self.drafts.borrow_mut().remove(&id);
        if let Some(stream) = stream {
            stream.give_up(keeper);
            stream.at_rest().await;
        }
    }

    /// Ends all drafts, and waits for blocks that are under way.
    pub async fn end(&self, keeper: &Rc<Keeper>) {
        let all: Vec<u64> = self.drafts.borrow().keys().copied().collect();
        for id in all {
            self.abort(keeper, id).await;
        }
    }

    /// The draft has become a dataset.
    pub fn forget(&self, id: u64) {
        self.drafts.borrow_mut().remove(&id);
    }
}

impl Stream {
    /// Begins a draft that nobody else knows of.
    pub fn begin(
        keeper: &Keeper,
        (name, version): (Name, Version),
        owner: Owner,
        writer: Option<(CoreId, Generation)>,
        block_bytes: usize,
    ) -> CallResult<Rc<Stream>> {
        let created = keeper.with(|store| store.create(name.clone(), version, owner));
        let id = created.map_err(|error| refused(error, name.as_str()))?;
        let rest = Notify::default();
        let state = RefCell::new(Written {
            bytes: 0,
            block: 0,
            filled: 0,
            buffer: None,
            under_way: 0,
            failed: None,
            is_over: false,
            is_closed: false,
            touched: keeper.stl.host().now(),
        });
        Ok(Rc::new(Stream { name, version, id, writer, block_bytes, state, rest }))
    }

    /// The dataset's name and version, and the store's draft.
    pub fn what(&self) -> (&Name, Version, DraftId) {
        (&self.name, self.version, self.id)
    }

    /// Takes bytes that begin `at` bytes from the dataset's start; gives how many there are now.
    /// What came before is not taken again, so that a call may be repeated. Waits while a block is
    /// under way. `Busy` while bytes before them have yet to come: of several calls that are made
    /// at once, one may have been lost on its way. `NotFound` once the draft ends: no bytes are
    /// taken that would not be in the dataset.
    pub async fn write(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        at: u64,
        bytes: &[u8],
    ) -> CallResult<u64> {
        self.at_rest().await;
        self.check_open()?;
        let there = self.state.borrow().bytes;
        let Some(known) = there.checked_sub(at) else {
            let message = format!("{} has {there} bytes; those from {at} on must wait", self.name);
            return Err(CallError::new(Status::Busy, message));
        };
        self.check()?;
        let mut rest = bytes.get(usize::try_from(known).unwrap_or(usize::MAX)..).unwrap_or(&[]);
        while !rest.is_empty() {
            if self.state.borrow().buffer.is_none() {
                let buffer = match self.name.as_str().starts_with(RECORDS) {
                    true => keeper.medium.last_buffer()?,
                    false => keeper.medium.buffer()?,
                };
                self.state.borrow_mut().buffer = Some(buffer);
            }
            let is_full = {
                let written = &mut *self.state.borrow_mut();
                written.touched = keeper.stl.host().now();
                let Some(buffer) = &mut written.buffer else { break };
                let room = &mut buffer[written.filled..self.block_bytes];
                let (taken, left) = rest.split_at(rest.len().min(room.len()));
                room[..taken.len()].copy_from_slice(taken);
                rest = left;
                written.filled += taken.len();
                written.bytes += taken.len() as u64;
                written.filled == self.block_bytes
            };
            if is_full {
                self.flush(keeper).await?;
            }
        }
        Ok(self.state.borrow().bytes)
    }

    /// Takes a whole block in a buffer, behind all that came before; over when it is on the disk.
    /// Its bytes count as if they had been written. Many may be on their way.
    pub async fn append(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        buffer: Buffer,
        bytes: usize,
    ) -> CallResult<()> {
        self.check()?;
        self.write_gathered(keeper);
        let block = {
            let written = &mut *self.state.borrow_mut();
            written.touched = keeper.stl.host().now();
            written.bytes += bytes as u64;
            written.block += 1;
            written.block - 1
        };
        self.put(keeper, block, buffer, bytes).await
    }

    /// Writes what has gathered as a block, and waits until no block is under way.
    async fn flush(self: &Rc<Self>, keeper: &Rc<Keeper>) -> CallResult<()> {
        self.write_gathered(keeper);
        self.at_rest().await;
        self.check()
    }

    /// Begins to write what has gathered.
    fn write_gathered(self: &Rc<Self>, keeper: &Rc<Keeper>) {
        let taken = {
            let written = &mut *self.state.borrow_mut();
            let buffer = if written.filled > 0 { written.buffer.take() } else { None };
            buffer.map(|buffer| {
                written.block += 1;
                (written.block - 1, buffer, core::mem::take(&mut written.filled))
            })
        };
        if let Some((block, buffer, filled)) = taken {
            // Whoever waits for it waits for all.
            drop(self.put(keeper, block, buffer, filled));
        }
    }

    /// Begins to write a block by its number; over when it is on the disk. Whoever stops waiting
    /// for it does not stop it: until it has ended, its space is in use.
    pub fn put(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        block: u32,
        buffer: Buffer,
        bytes: usize,
    ) -> impl Future<Output = CallResult<()>> + use<> {
        let end = OneShot::default();
        self.state.borrow_mut().under_way += 1;
        let (stream, keeper, told) = (self.clone(), keeper.clone(), end.clone());
        keeper.stl.host().clone().spawn(Box::pin(async move {
            let result = stream.write_block(&keeper, block, buffer, bytes).await;
            stream.has_ended(&keeper, &result);
            told.give(result);
        }));
        end
    }

    async fn write_block(
        &self,
        keeper: &Keeper,
        block: u32,
        mut buffer: Buffer,
        filled: usize,
    ) -> CallResult<()> {
        let failed = |error| refused(error, self.name.as_str());
        let bytes = filled as u32;
        let range = keeper.with(|store| store.reserve(self.id, block, bytes)).map_err(failed)?;
        // What an earlier owner left in the buffer is nobody's business.
        buffer[filled..range.bytes as usize].fill(0);
        let written = keeper.write(range, buffer, filled).await?;
        keeper.with(|store| store.written(self.id, block, written.checksum)).map_err(failed)
    }

    /// A block is not under way any more.
    fn has_ended(&self, keeper: &Keeper, result: &CallResult<()>) {
        let written = &mut *self.state.borrow_mut();
        written.under_way -= 1;
        if let (Err(error), None) = (result, &written.failed) {
            written.failed = Some(error.clone());
        }
        if written.under_way == 0 {
            if written.is_over {
                keeper.with(|store| store.abort(self.id));
            }
            self.rest.notify();
        }
    }

    /// Nobody wants it any more: nothing is left of it once no block is under way.
    pub fn give_up(&self, keeper: &Keeper) {
        let written = &mut *self.state.borrow_mut();
        (written.is_over, written.is_closed) = (true, true);
        written.buffer = None;
        if written.under_way == 0 {
            keeper.with(|store| store.abort(self.id));
        }
    }

    /// Waits until no block is under way.
    async fn at_rest(&self) {
        self.rest.until(|| (self.state.borrow().under_way == 0).then_some(())).await;
    }

    /// `NotFound` once the draft ends.
    fn check_open(&self) -> CallResult<()> {
        match self.state.borrow().is_closed {
            true => {
                let message = format!("{}: the draft has ended", self.name);
                Err(CallError::new(Status::NotFound, message))
            }
            false => Ok(()),
        }
    }

    /// Why nothing more can be added, if that is so.
    fn check(&self) -> CallResult<()> {
        self.state.borrow().failed.clone().map_or(Ok(()), Err)
    }

    /// Takes blocks out of a file of another program's, which begin `at` bytes from the dataset's
    /// start: as many of `bytes` bytes as there are free buffers for; how many bytes that
    /// were. `Busy` if there is none, `Invalid` if no block begins there.
    pub async fn take_from(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        (at, bytes): (u64, u64),
        from: InFile,
    ) -> CallResult<u64> {
        let file = keeper.file(from.file)?;
        self.check()?;
        let length = self.block_bytes as u64;
        if !at.is_multiple_of(length) || self.state.borrow().filled > 0 {
            let message = format!("{}: no block begins at byte {at}", self.name);
            return Err(CallError::new(Status::Invalid, message));
        }
        let many = |_| CallError::new(Status::Invalid, format!("{}: too many blocks", self.name));
        let first = u32::try_from(at / length).map_err(many)?;
        let most = bytes.div_ceil(length).min(MOST_TAKEN) as usize;
        let buffers = keeper.medium.buffers(most)?;
        let taken = bytes.min(length * buffers.len() as u64);
        let taking = (first..).zip(buffers).zip((0..taken).step_by(self.block_bytes));
        let taking = taking.map(|((block, buffer), passed)| {
            let bytes = length.min(taken - passed) as usize;
            let (stream, keeper, file) = (self.clone(), keeper.clone(), file.clone());
            async move {
                let from = from.at.saturating_add(passed);
                let buffer = keeper.medium.read_file(&file, from, buffer, bytes).await?;
                stream.check_open()?;
                stream.put(&keeper, block, buffer, bytes).await
            }
        });
        all(taking).await.into_iter().collect::<CallResult<()>>()?;
        let written = &mut *self.state.borrow_mut();
        written.touched = keeper.stl.host().now();
        written.bytes = written.bytes.max(at + taken);
        written.block = written.block.max(first + taken.div_ceil(length) as u32);
        Ok(taken)
    }

    /// Writes what is left, and gives the manifest of a dataset that all of `nodes` have whole.
    pub async fn finish(
        self: &Rc<Self>,
        keeper: &Rc<Keeper>,
        nodes: &[NodeId],
    ) -> CallResult<Manifest> {
        self.state.borrow_mut().is_closed = true;
        self.flush(keeper).await?;
        let manifest = keeper.with(|store| store.manifest(self.id, nodes));
        manifest.map_err(|error| refused(error, self.name.as_str()))
    }
}
