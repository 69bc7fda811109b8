//! How calls carry handles of buffers.

use nile_ring::{Buffer, Handle, Pool, PoolId};

/// A handle as calls carry it.
pub fn in_call(handle: Handle) -> nile_bosml::Buffer {
    let Handle { pool, index, generation, len } = handle;
    nile_bosml::Buffer { pool: u32::from(pool.0), index, generation, length: len }
}

/// What names a buffer of `pool` to those who [view](nile_abi::call::PoolCall::View) it while its
/// owner keeps it: nobody can claim it by that.
pub fn in_view(pool: &Pool, buffer: &Buffer, bytes: usize) -> nile_bosml::Buffer {
    let length = u32::try_from(bytes.min(pool.buffer_size())).unwrap_or(u32::MAX);
    nile_bosml::Buffer {
        pool: u32::from(pool.id().0),
        index: buffer.index(),
        generation: 0,
        length,
    }
}

/// The handle that a call has brought.
pub fn from_call(buffer: nile_bosml::Buffer) -> Handle {
    let nile_bosml::Buffer { pool, index, generation, length } = buffer;
    // There is no pool of the last number.
    let pool = PoolId(u16::try_from(pool).unwrap_or(u16::MAX));
    Handle { pool, index, generation, len: length }
}
