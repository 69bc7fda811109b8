//! Transfers that take the hash of what they move, by plain calls, piece after piece: each piece is
//! in the caches of whoever copies it when its hash is taken.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::slice;

use libc::iovec;
use rapidhash::v3::{DEFAULT_RAPID_SECRETS, RapidStreamHasherV3};

/// Bytes of a piece. It and what Linux copies it from, or to, have room in a second-level cache.
const PIECE: usize = 256 << 10;

/// Memory that a transfer moves.
pub struct Memory<'a>(Vec<&'a mut [u8]>);

impl<'a> Memory<'a> {
    /// The memory that a list of so many parts points at.
    ///
    /// # Safety
    ///
    /// The list and what it points at are there, and nobody else's, as long as this is.
    pub unsafe fn new(parts: *const iovec, count: u32) -> Memory<'a> {
        // SAFETY: the caller's.
        let parts = unsafe { slice::from_raw_parts(parts, count as usize) };
        // SAFETY: the caller's.
        let part =
            |it: &iovec| unsafe { slice::from_raw_parts_mut(it.iov_base.cast(), it.iov_len) };
        Memory(parts.iter().map(part).collect())
    }

    /// Fills all of it from byte `at` of the file on; how many bytes, and the hash of the first
    /// `hashed`.
    pub fn read(self, file: &File, at: u64, hashed: u64) -> io::Result<(usize, u64)> {
        let mut passed = Passed::new(hashed);
        for piece in self.pieces() {
            file.read_exact_at(piece, at + passed.bytes as u64)?;
            passed.take(piece);
        }
        Ok((passed.bytes, passed.hash.finish()))
    }

    /// Has `put` write it, each piece with its place from byte `at` on; the same of it. A piece is
    /// in the caches by then.
    pub fn write(
        self,
        at: u64,
        hashed: u64,
        put: impl Fn(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<(usize, u64)> {
        let mut passed = Passed::new(hashed);
        for piece in self.pieces() {
            let at = at + passed.bytes as u64;
            passed.take(piece);
            put(piece, at)?;
        }
        Ok((passed.bytes, passed.hash.finish()))
    }

    fn pieces(self) -> impl Iterator<Item = &'a mut [u8]> {
        self.0.into_iter().flat_map(|part| part.chunks_mut(PIECE))
    }
}

/// What of a transfer was looked at.
struct Passed {
    bytes: usize,
    /// How many the hash is still to take.
    left: usize,
    hash: RapidStreamHasherV3<'static>,
}

impl Passed {
    fn new(hashed: u64) -> Passed {
        let left = usize::try_from(hashed).unwrap_or(usize::MAX);
        Passed { bytes: 0, left, hash: RapidStreamHasherV3::new(&DEFAULT_RAPID_SECRETS) }
    }

    fn take(&mut self, piece: &[u8]) {
        let hashed = self.left.min(piece.len());
        self.hash.write(&piece[..hashed]);
        self.left -= hashed;
        self.bytes += piece.len();
    }
}
