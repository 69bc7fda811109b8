//! Buffers of the node's pool in the hands of a package whose manifest says `uses pool`: taken,
//! filled, and passed by a handle in a call to whoever has them next, without a copy.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use nile_abi::Status;
use nile_abi::call::{PoolCall, PoolHandle, PoolPlace, System, SystemCall};
use nile_bosml::Buffer;

use crate::Runtime;

/// A buffer of this package's. Dropping it gives the buffer back.
pub struct PoolBuffer<'s> {
    runtime: Runtime<'s>,
    number: u32,
    passed: bool,
    start: NonNull<u8>,
    bytes: usize,
}

/// A buffer that somebody else of this node owns, to be read. Dropping it costs nothing.
///
/// Its bytes are what that one has put there before it gave the buffer's name away, and they stay
/// so as long as it keeps the buffer unchanged: that is its promise, which nobody checks. If its
/// core ends meanwhile the pool gives the buffer to others, and the bytes change while they are
/// read; then whoever arranged for the view learns of that end. Until then the reader must take any
/// bytes: what it reads here and then relies on, an index or a length, it copies first and checks
/// afterwards.
pub struct PoolView<'s> {
    start: NonNull<u8>,
    bytes: usize,
    system: PhantomData<&'s dyn System>,
}

impl<'s> Runtime<'s> {
    /// A free buffer of the pool, with whatever its last owner left in it. `Busy` if none is free
    /// now, `Denied` if the package may not use the pool or the node has none.
    pub fn take_buffer(&self) -> Result<PoolBuffer<'s>, Status> {
        self.buffer(PoolCall::Take)
    }

    /// The buffer that a handle names, as long as the handle says. `NotFound` if somebody has
    /// claimed it, or nobody ever passed it; `Denied` as for [`take_buffer`](Self::take_buffer).
    pub fn claim_buffer(&self, handle: Buffer) -> Result<PoolBuffer<'s>, Status> {
        self.buffer(PoolCall::Claim(named(handle)?))
    }

    /// The bytes of a buffer that somebody else owns, as many as `buffer` says. `NotFound` if the
    /// pool has no such buffer; `Denied` as for [`take_buffer`](Self::take_buffer).
    pub fn view_buffer(&self, buffer: Buffer) -> Result<PoolView<'s>, Status> {
        let (_, start, bytes) = self.place(PoolCall::View(named(buffer)?))?;
        Ok(PoolView { start, bytes, system: PhantomData })
    }

    fn buffer(&self, call: PoolCall) -> Result<PoolBuffer<'s>, Status> {
        let (number, start, bytes) = self.place(call)?;
        Ok(PoolBuffer { runtime: self.clone(), number, passed: false, start, bytes })
    }

    /// A buffer's number, where it is, and its bytes.
    fn place(&self, call: PoolCall) -> Result<(u32, NonNull<u8>, usize), Status> {
        let mut place = [0; PoolPlace::BYTES];
        self.call(SystemCall::Pool, 0, &call.encode(), &mut place).result()?;
        let place = PoolPlace::decode(&place).ok_or(Status::Invalid)?;
        let start = self.memory(place.at, place.bytes).ok_or(Status::Invalid)?;
        let bytes = usize::try_from(place.bytes).map_err(|_| Status::Invalid)?;
        Ok((place.buffer, start, bytes))
    }
}

/// The buffer that a call's handle names.
fn named(buffer: Buffer) -> Result<PoolHandle, Status> {
    let Buffer { pool, index, generation, length } = buffer;
    let pool = u16::try_from(pool).map_err(|_| Status::NotFound)?;
    Ok(PoolHandle { pool, index, generation, bytes: length })
}

impl PoolBuffer<'_> {
    /// Gives the buffer up for a handle to its first `bytes` bytes, cut to its size, which goes to
    /// its next owner in a call. A handle that could not be sent can be claimed back. What nobody
    /// has claimed when this package ends is free again: whoever passes data waits for an answer.
    pub fn pass(mut self, bytes: usize) -> Result<Buffer, Status> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let call = PoolCall::Pass { buffer: self.number, bytes };
        let mut handle = [0; PoolHandle::BYTES];
        // If it fails the buffer is still this package's, and is dropped.
        self.runtime.call(SystemCall::Pool, 0, &call.encode(), &mut handle).result()?;
        self.passed = true;
        let PoolHandle { pool, index, generation, bytes } =
            PoolHandle::decode(&handle).ok_or(Status::Invalid)?;
        Ok(Buffer { pool: pool.into(), index, generation, length: bytes })
    }
}

impl Drop for PoolBuffer<'_> {
    fn drop(&mut self) {
        if !self.passed {
            // The kernel knows every buffer that it has given.
            let call = PoolCall::Free { buffer: self.number };
            let _ = self.runtime.call(SystemCall::Pool, 0, &call.encode(), &mut []);
        }
    }
}

impl Deref for PoolBuffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel has mapped so many bytes there, and they are this package's until it
        // gives the buffer up; any bytes are bytes.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for PoolBuffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for PoolBuffer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolBuffer({}, {} bytes)", self.number, self.bytes)
    }
}

impl Deref for PoolView<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the kernel has mapped so many bytes there, for as long as the package runs. Their
        // owner promises not to change them while it keeps the buffer. If its core has ended they
        // may change: the reader then sees some bytes or others, which it is told to expect.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for PoolView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolView({} bytes)", self.bytes)
    }
}
