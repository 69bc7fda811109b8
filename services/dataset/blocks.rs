//! Blocks read from the disk, and believed only if their checksum holds.

use alloc::format;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use nile_abi::Status;
use nile_stl::node::Buffer;
use nile_stl::{CallError, CallResult, all};
use nile_store::{Block, Name, Range, Version};
use nile_sync::Notify;

use super::keeper::Keeper;
use super::streams::Stream;
use super::travel::refused;
use nile_interfaces::dataset::records::{BlockRange, Copied, InFile, Verified};

/// Blocks that are copied at once.
const MOST_COPIED: u32 = 16;

/// The block that was read last, for those who read a dataset in small pieces, a few of them at
/// once.
#[derive(Default)]
pub struct Last {
    held: RefCell<Option<Held>>,
    /// Whether the next one is on its way: who wants another waits until it is there.
    is_reading: Cell<bool>,
    read: Notify,
}

struct Held {
    name: Name,
    version: Version,
    /// Which block, where in the dataset it begins, and its bytes.
    number: usize,
    start: u64,
    bytes: usize,
    buffer: Buffer,
}

/// A block that is on its way, until this is dropped.
struct Reading<'a>(&'a Last);

impl Reading<'_> {
    fn begin(last: &Last) -> Reading<'_> {
        last.is_reading.set(true);
        Reading(last)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.is_reading.set(false);
        self.0.read.notify();
    }
}

fn not_here(name: &Name) -> CallError {
    CallError::new(Status::NotFound, format!("{name}: no such dataset here"))
}

/// What is to be read of a block; `NotFound` if the dataset or the block is not here.
fn place(
    keeper: &Keeper,
    name: &Name,
    version: Version,
    number: usize,
) -> CallResult<(Block, Range)> {
    keeper.with(|store| {
        let dataset = store.get(name, version).ok_or_else(|| not_here(name))?;
        let block = dataset.manifest.blocks().get(number).copied();
        let range = dataset.range(store.extent(), number);
        block.zip(range).ok_or_else(|| {
            CallError::new(Status::NotFound, format!("{name}: block {number} is not on this node"))
        })
    })
}

/// Reads a block; gives its buffer and its length. `Failed` names the block and the disk if its
/// checksum does not hold.
pub async fn read(
    keeper: &Keeper,
    name: &Name,
    version: Version,
    number: usize,
) -> CallResult<(Buffer, usize)> {
    read_with(keeper, name, version, number, keeper.medium.buffer()?).await
}

/// Reads a block with this buffer, as above.
pub async fn read_with(
    keeper: &Keeper,
    name: &Name,
    version: Version,
    number: usize,
    buffer: Buffer,
) -> CallResult<(Buffer, usize)> {
    read_at(keeper, name, number, buffer, || place(keeper, name, version, number)).await
}

/// Reads a block of a draft, as above.
pub async fn read_draft(
    keeper: &Keeper,
    stream: &Stream,
    number: u32,
) -> CallResult<(Buffer, usize)> {
    let (name, _, id) = stream.what();
    let place = || {
        let there = keeper.with(|store| store.drafted(id, number));
        there.map_err(|error| refused(error, name.as_str()))
    };
    read_at(keeper, name, number as usize, keeper.medium.buffer()?, place).await
}

async fn read_at(
    keeper: &Keeper,
    name: &Name,
    number: usize,
    buffer: Buffer,
    place: impl Fn() -> CallResult<(Block, Range)>,
) -> CallResult<(Buffer, usize)> {
    let (block, range) = place()?;
    let bytes = block.bytes as usize;
    let (buffer, found) = keeper.medium.read(range, buffer, bytes).await?;
    if found == block {
        return Ok((buffer, bytes));
    }
    // Its space is somebody else's if it was removed meanwhile.
    place()?;
    let disk = keeper.medium.name();
    let message = format!(
        "{name}: block {number} at byte {} of {disk} is damaged: its checksum does not hold",
        range.at
    );
    Err(CallError::new(Status::Failed, message))
}

impl Last {
    /// `length` bytes from byte `at` of a dataset on; fewer at its end.
    pub async fn piece(
        &self,
        keeper: &Keeper,
        name: &Name,
        version: Version,
        at: u64,
        length: usize,
    ) -> CallResult<Vec<u8>> {
        let mut piece = Vec::new();
        while piece.len() < length {
            let (at, rest) = (at + piece.len() as u64, length - piece.len());
            let part = self.part(keeper, (name, version), at, rest).await?;
            if part.is_empty() {
                break;
            }
            piece.extend(part);
        }
        Ok(piece)
    }

    /// At most `length` bytes, of one block; none at the dataset's end.
    async fn part(
        &self,
        keeper: &Keeper,
        (name, version): (&Name, Version),
        at: u64,
        length: usize,
    ) -> CallResult<Vec<u8>> {
        let from_held = |held: &Held| {
            let offset = at.checked_sub(held.start).filter(|it| *it < held.bytes as u64)? as usize;
            let end = held.bytes.min(offset + length);
            let is_it = held.name == *name && held.version == version;
            is_it.then(|| held.buffer[offset..end].to_vec())
        };
        self.read.until(|| (!self.is_reading.get()).then_some(())).await;
        if let Some(part) = self.held.borrow().as_ref().and_then(from_held) {
            // It may have been removed since.
            keeper
                .with(|store| store.get(name, version).map(|_| ()))
                .ok_or_else(|| not_here(name))?;
            return Ok(part);
        }
        let Some((number, start)) = self.locate(keeper, name, version, at)? else {
            return Ok(Vec::new());
        };
        // Its buffer is free for the next.
        *self.held.borrow_mut() = None;
        let reading = Reading::begin(self);
        let (buffer, bytes) = read(keeper, name, version, number).await?;
        let held = Held { name: name.clone(), version, number, start, bytes, buffer };
        let part = from_held(&held).unwrap_or_default();
        *self.held.borrow_mut() = Some(held);
        drop(reading);
        Ok(part)
    }

    /// The block that byte `at` is in, and where that begins; none behind the end. It looks from
    /// the last one on, if that is before.
    fn locate(
        &self,
        keeper: &Keeper,
        name: &Name,
        version: Version,
        at: u64,
    ) -> CallResult<Option<(usize, u64)>> {
        let held = self.held.borrow();
        let near = held
            .as_ref()
            .filter(|held| held.name == *name && held.version == version && held.start <= at);
        let (first, mut start) = near.map_or((0, 0), |held| (held.number, held.start));
        keeper.with(|store| {
            let dataset = store.get(name, version).ok_or_else(|| not_here(name))?;
            for (number, block) in dataset.manifest.blocks().iter().enumerate().skip(first) {
                let end = start + u64::from(block.bytes);
                if at < end {
                    return Ok(Some((number, start)));
                }
                start = end;
            }
            Ok(None)
        })
    }
}

/// Blocks that are read again at most before it is told how they are, and for how long.
const MOST_VERIFIED: u32 = 256;
const AT_ONCE: Duration = Duration::from_secs(1);

/// Reads blocks again, from the `skip`-th on.
pub async fn verify(
    keeper: &Keeper,
    (name, version): (&Name, Version),
    skip: u32,
) -> CallResult<Verified> {
    let blocks = keeper.with(|store| {
        let dataset = store.get(name, version).ok_or_else(|| not_here(name))?;
        Ok::<u32, CallError>(dataset.manifest.blocks().len() as u32)
    })?;
    let host = keeper.stl.host();
    let begun = host.now();
    let mut verified = Verified { looked: 0, damaged: Vec::new() };
    for number in (skip..blocks).take(MOST_VERIFIED as usize) {
        if verified.looked > 0 && host.now().since(begun) > AT_ONCE {
            break;
        }
        match read(keeper, name, version, number as usize).await {
            Err(error) if error.status == Status::Failed => verified.damaged.push(number),
            // It is elsewhere.
            Ok(_) => {}
            Err(error) if error.status == Status::NotFound => {
                keeper.with(|store| store.get(name, version).map(drop)).ok_or(error)?;
            }
            Err(error) => return Err(error),
        }
        verified.looked += 1;
    }
    Ok(verified)
}

/// Copies blocks, as many of them as there are free buffers for and up to the first that fails, to
/// a file of another program's, in which the dataset's first byte is to be at `base`.
pub async fn copy(
    keeper: &Keeper,
    (name, version): (&Name, Version),
    BlockRange { first, count }: BlockRange,
    base: InFile,
) -> CallResult<Copied> {
    let file = &keeper.file(base.file)?;
    let first_byte = keeper.with(|store| {
        let dataset = store.get(name, version).ok_or_else(|| not_here(name))?;
        let before = dataset.manifest.blocks().iter().take(first as usize);
        Ok::<u64, CallError>(before.map(|block| u64::from(block.bytes)).sum())
    })?;
    let buffers = keeper.medium.buffers(count.min(MOST_COPIED) as usize)?;
    let mut start = first_byte;
    let mut copying = Vec::new();
    for (number, buffer) in (first as usize..).zip(buffers) {
        let (at, block) = (start, place(keeper, name, version, number));
        start += block.as_ref().map_or(0, |(block, _)| u64::from(block.bytes));
        copying.push(async move {
            block?;
            let (buffer, bytes) = read_with(keeper, name, version, number, buffer).await?;
            keeper.medium.write_file(file, base.at.wrapping_add(at), buffer, bytes).await?;
            Ok(bytes as u64)
        });
    }
    let mut copied = Copied { blocks: 0, bytes: 0 };
    for end in all(copying).await {
        match end {
            Ok(bytes) => {
                copied.blocks += 1;
                copied.bytes += bytes;
            }
            // Whoever asks for it as the first is told.
            Err(error) if copied.blocks == 0 => return Err(error),
            Err(_) => break,
        }
    }
    Ok(copied)
}
