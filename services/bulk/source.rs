//! The bytes of a transfer at its sender.

use alloc::vec::Vec;

use nile_abi::Part;
use nile_bulk::{Gone, Shown};
use nile_stl::node::{Buffer, Pool};

/// What is sent.
pub enum Source {
    /// A buffer, which goes with the transfer.
    Buffer(Buffer),
    /// Parts of buffers that others own.
    Parts(Vec<Part>),
}

impl Source {
    /// Bytes in all.
    pub fn bytes(&self) -> u64 {
        match self {
            Source::Buffer(buffer) => buffer.len() as u64,
            Source::Parts(parts) => parts.iter().map(|part| u64::from(part.bytes)).sum(),
        }
    }

    /// Where they are, for those to whom the pool is shown by this name.
    pub fn shown(&self, memory: u64) -> Shown {
        let parts = match self {
            Source::Buffer(buffer) => buffer.part(0, buffer.len()).into_iter().collect(),
            Source::Parts(parts) => parts.clone(),
        };
        Shown { memory, parts }
    }

    /// Fills `into` with the bytes from `offset` on.
    pub fn read(&self, pool: &Pool, offset: u64, into: &mut [u8]) -> Result<(), Gone> {
        let offset = usize::try_from(offset).map_err(|_| Gone)?;
        match self {
            Source::Buffer(buffer) => {
                let bytes = buffer.get(offset..).and_then(|it| it.get(..into.len()));
                into.copy_from_slice(bytes.ok_or(Gone)?);
                Ok(())
            }
            Source::Parts(parts) => read(parts, pool, offset, into),
        }
    }
}

/// Fills `into` with the bytes of parts, one after the other, from `offset` on.
fn read(parts: &[Part], pool: &Pool, offset: usize, into: &mut [u8]) -> Result<(), Gone> {
    let (mut skip, mut rest) = (offset, into);
    for part in parts {
        let bytes = part.bytes as usize;
        if skip >= bytes {
            skip -= bytes;
            continue;
        }
        let (here, after) = rest.split_at_mut((bytes - skip).min(rest.len()));
        pool.read(*part, skip, here).map_err(|_| Gone)?;
        (skip, rest) = (0, after);
        if rest.is_empty() {
            return Ok(());
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(Gone) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nile_abi::CoreId;
    use nile_stl::node::PoolId;

    #[test]
    fn parts_are_read_as_one_row_of_bytes() {
        let pool = Pool::owned(PoolId(0), CoreId(1), 2, 4096).unwrap();
        let mut buffers: Vec<Buffer> = (0..2).map(|_| pool.alloc().unwrap()).collect();
        for (at, buffer) in buffers.iter_mut().enumerate() {
            buffer
                .iter_mut()
                .zip(0..)
                .for_each(|(byte, k): (_, u32)| *byte = (k * 3 + at as u32) as u8);
        }
        let ranges = [(1, 5, 100), (0, 0, 1), (0, 77, 4019), (1, 9, 30)];
        let parts = ranges.map(|(at, start, bytes)| buffers[at].part(start, bytes).unwrap());
        let row: Vec<u8> = ranges
            .iter()
            .flat_map(|(at, start, bytes): &(usize, usize, usize)| {
                &buffers[*at][*start..start + bytes]
            })
            .copied()
            .collect();
        let source = Source::Parts(parts.into());
        assert_eq!(source.bytes(), row.len() as u64);
        for (offset, bytes) in [(0, row.len()), (99, 3), (100, 1), (101, 4019), (4119, 31), (7, 0)]
        {
            let mut into = alloc::vec![0; bytes];
            assert_eq!(source.read(&pool, offset as u64, &mut into), Ok(()));
            assert_eq!(into, row[offset..offset + bytes], "{offset}");
        }
        let end = row.len() as u64;
        assert_eq!(source.read(&pool, end - 1, &mut [0; 2]), Err(Gone), "beyond the end");
        let shown = source.shown(9);
        assert_eq!((shown.memory, &shown.parts[..]), (9, &parts[..]));
        buffers.truncate(1);
        assert_eq!(source.read(&pool, 0, &mut [0; 1]), Err(Gone), "given up");
        let whole = Source::Buffer(buffers.remove(0));
        assert_eq!((whole.bytes(), whole.shown(1).parts[0].bytes), (4096, 4096));
        assert_eq!(whole.read(&pool, 4095, &mut [0; 2]), Err(Gone));
    }
}
