//! Memory that several cores share on purpose.
//!
//! A [`Region`] is a range of whole cache lines: frames mapped on several cores (bare), a memfd
//! mapped in several processes (hosted) or plain heap memory (simulator, tests). Everything in
//! this crate that two cores share is reached through [`Region::words`], as atomics, so that a
//! peer which writes nonsense causes wrong values at worst and never undefined behaviour.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::array;
use core::fmt;
use core::ptr::NonNull;
use core::slice;

use crate::sync::AtomicU64;

/// Bytes of a cache line, the unit in which cores exchange memory.
pub const LINE_BYTES: usize = 64;

/// An atomic word of shared memory: the machine's, or the model's when loom runs.
pub type Word = AtomicU64;

/// One cache line as eight atomic words.
pub type Line = [Word; 8];

/// Heap memory at a line's alignment (loom's atomics are larger and need none).
#[cfg_attr(not(loom), repr(C, align(64)))]
#[cfg_attr(loom, repr(C))]
struct OwnedLine(Line);

const _: () = assert!(size_of::<OwnedLine>() == size_of::<Line>());
#[cfg(not(loom))]
const _: () = assert!(size_of::<Line>() == LINE_BYTES && align_of::<OwnedLine>() == LINE_BYTES);

/// Held by everyone who has a [`Region`] that was made with it.
#[cfg(not(loom))]
#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Vec<OwnedLine>>);

#[cfg(not(loom))]
impl Shared {
    /// Whether nobody has a region that was made with this. What they did there is over then.
    pub(crate) fn is_alone(&mut self) -> bool {
        Arc::get_mut(&mut self.0).is_some()
    }
}

/// A handle to a range of shared memory that was zero when it was made. Clones name the same
/// memory.
#[derive(Clone)]
pub struct Region {
    base: NonNull<Line>,
    lines: usize,
    /// Keeps heap memory alive; nothing for memory that someone else keeps.
    owner: Option<Arc<Vec<OwnedLine>>>,
}

// SAFETY: the memory is only reached as atomics, which any number of threads may share, and
// lives as long as the handle: `owner` holds it or `from_raw`'s caller promised it.
unsafe impl Send for Region {}
// SAFETY: as above; a shared handle gives out nothing but shared atomics.
unsafe impl Sync for Region {}

impl Region {
    /// The region of `len` bytes at `base`, for frames and mappings.
    ///
    /// # Safety
    ///
    /// `base` is a multiple of [`LINE_BYTES`]; the `len` bytes from it are mapped for reading and
    /// writing and stay so until the last clone is gone (a mapping that is read-only suffices for
    /// a [`ReceiverMap`](crate::ReceiverMap)); nobody in this address space reaches them other
    /// than as atomics, except for a [`Pool`](crate::Pool)'s buffers.
    #[cfg(not(loom))]
    pub unsafe fn from_raw(base: NonNull<u8>, len: usize) -> Region {
        Region { base: base.cast(), lines: len / LINE_BYTES, owner: None }
    }

    /// The region of `len` bytes at `base`, whose clones and parts all hold `shared`; `None` unless
    /// both are multiples of [`LINE_BYTES`].
    ///
    /// # Safety
    ///
    /// As for [`Region::from_raw`], as long as anybody holds `shared` besides the caller.
    #[cfg(not(loom))]
    pub(crate) unsafe fn shared(base: NonNull<u8>, len: usize, shared: Shared) -> Option<Region> {
        let whole = base.addr().get().is_multiple_of(LINE_BYTES) && len.is_multiple_of(LINE_BYTES);
        let (base, lines) = (base.cast(), len / LINE_BYTES);
        whole.then_some(Region { base, lines, owner: Some(shared.0) })
    }

    /// Zeroed heap memory of at least `len` bytes (rounded up to whole lines), freed with its
    /// last handle.
    pub fn owned(len: usize) -> Region {
        let memory: Vec<OwnedLine> = (0..len.div_ceil(LINE_BYTES))
            .map(|_| OwnedLine(array::from_fn(|_| AtomicU64::new(0))))
            .collect();
        let base = NonNull::from(memory.as_slice()).cast();
        Region { base, lines: memory.len(), owner: Some(Arc::new(memory)) }
    }

    /// Bytes of the region, a multiple of [`LINE_BYTES`].
    pub fn len(&self) -> usize {
        self.lines * LINE_BYTES
    }

    /// Whether the region has no byte.
    pub fn is_empty(&self) -> bool {
        self.lines == 0
    }

    /// The `len` bytes from `offset`, if both are multiples of [`LINE_BYTES`] and inside.
    pub fn slice(&self, offset: usize, len: usize) -> Option<Region> {
        if !offset.is_multiple_of(LINE_BYTES) || !len.is_multiple_of(LINE_BYTES) {
            return None;
        }
        let (first, lines) = (offset / LINE_BYTES, len / LINE_BYTES);
        let part = self.lines().get(first..first.checked_add(lines)?)?;
        Some(Region { base: NonNull::from(part).cast(), lines, owner: self.owner.clone() })
    }

    /// The region as cache lines.
    #[inline]
    pub fn lines(&self) -> &[Line] {
        // SAFETY: `base` and `lines` name mapped memory that outlives `self` (see `from_raw`,
        // `owned`, `slice`), aligned for atomics, any bytes of which are valid atomics.
        unsafe { slice::from_raw_parts(self.base.as_ptr(), self.lines) }
    }

    /// The region as 64-bit atomic words, for records that cores share.
    #[inline]
    pub fn words(&self) -> &[AtomicU64] {
        self.lines().as_flattened()
    }

    /// The region's first byte, for those who own the bytes they reach through it.
    #[cfg(not(loom))]
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base.cast()
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({:p}, {} bytes)", self.base, self.len())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sync::Ordering::Relaxed;

    #[test]
    fn owned_memory_is_zero_aligned_and_whole_lines() {
        let region = Region::owned(65);
        assert_eq!(region.len(), 128);
        assert_eq!(region.base().as_ptr() as usize % LINE_BYTES, 0);
        assert!(region.words().iter().all(|word| word.load(Relaxed) == 0));
    }

    #[test]
    fn a_slice_is_the_same_memory_and_keeps_it_alive() {
        let whole = Region::owned(256);
        let part = whole.slice(64, 128).unwrap();
        whole.words()[8].store(7, Relaxed);
        drop(whole);
        assert_eq!(part.words()[0].load(Relaxed), 7);
        assert_eq!(part.len(), 128);
    }

    #[test]
    fn a_slice_outside_or_across_lines_is_refused() {
        let region = Region::owned(256);
        assert!(region.slice(0, 256).is_some());
        assert!(region.slice(256, 0).is_some());
        for (offset, len) in [(8, 64), (0, 65), (64, 256), (320, 0), (64, usize::MAX - 63)] {
            assert!(region.slice(offset, len).is_none(), "{offset} {len}");
        }
    }
}
/// A region as a row of words, for those who keep records in it.
impl AsRef<[AtomicU64]> for Region {
    fn as_ref(&self) -> &[AtomicU64] {
        self.words()
    }
}
