//! Blocks read from the disk, and believed only if their checksum holds.

use alloc::format;
use alloc::vec::Vec;
use core::cell::RefCell;

use nile_abi::Status;
use nile_stl::node::Buffer;
use nile_stl::{CallError, CallResult};
use nile_store::{Block, Name, Range, Version};

use super::keeper::Keeper;
use super::records::refused;
use super::streams::Stream;

/// The block that was read last, for those who read a dataset in small pieces.
#[derive(Default)]
pub struct Last(RefCell<Option<Held>>);

struct Held {
    name: Name,
    version: Version,
    /// Which block, where in the dataset it begins, and its bytes.
    number: usize,
    start: u64,
    bytes: usize,
    buffer: Buffer,
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
    read_at(keeper, name, number, || place(keeper, name, version, number)).await
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
    read_at(keeper, name, number as usize, place).await
}

async fn read_at(
    keeper: &Keeper,
    name: &Name,
    number: usize,
    place: impl Fn() -> CallResult<(Block, Range)>,
) -> CallResult<(Buffer, usize)> {
    let (block, range) = place()?;
    let buffer =
        keeper.medium.read(range.at, keeper.medium.buffer()?, range.bytes as usize).await?;
    let bytes = block.bytes as usize;
    if block.holds(&buffer[..bytes]) {
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
    /// At most `length` bytes from byte `at` of a dataset on, from one block; none at its end.
    pub async fn piece(
        &self,
        keeper: &Keeper,
        name: &Name,
        version: Version,
        at: u64,
        length: usize,
    ) -> CallResult<Vec<u8>> {
        let from_held = |held: &Held| {
            let offset = at.checked_sub(held.start).filter(|it| *it < held.bytes as u64)? as usize;
            let end = held.bytes.min(offset + length);
            let is_it = held.name == *name && held.version == version;
            is_it.then(|| held.buffer[offset..end].to_vec())
        };
        if let Some(piece) = self.0.borrow().as_ref().and_then(from_held) {
            // It may have been removed since.
            keeper
                .with(|store| store.get(name, version).map(|_| ()))
                .ok_or_else(|| not_here(name))?;
            return Ok(piece);
        }
        let Some((number, start)) = self.locate(keeper, name, version, at)? else {
            return Ok(Vec::new());
        };
        // Its buffer is free for the next.
        *self.0.borrow_mut() = None;
        let (buffer, bytes) = read(keeper, name, version, number).await?;
        let held = Held { name: name.clone(), version, number, start, bytes, buffer };
        let piece = from_held(&held).unwrap_or_default();
        *self.0.borrow_mut() = Some(held);
        Ok(piece)
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
        let held = self.0.borrow();
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
