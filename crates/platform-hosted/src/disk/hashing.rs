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

impl Memory<'_> {
    /// The memory that a list of so many parts points at.
    ///
    /// # Safety
    ///
    /// The list and what it points at are there, and nobody else's, as long as this is.
    pub unsafe fn new<'a>(parts: *const iovec, count: u32) -> Memory<'a> {
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
        self.hashing(at, hashed, |piece, at| file.read_exact_at(piece, at))
    }

    /// The same, and writes it.
    pub fn write(self, file: &File, at: u64, hashed: u64) -> io::Result<(usize, u64)> {
        self.hashing(at, hashed, |piece, at| file.write_all_at(piece, at))
    }

    fn hashing(
        self,
        at: u64,
        hashed: u64,
        mut carry: impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<(usize, u64)> {
        let mut hash = RapidStreamHasherV3::new(&DEFAULT_RAPID_SECRETS);
        let (mut moved, mut hashed) = (0, usize::try_from(hashed).unwrap_or(usize::MAX));
        for piece in self.0.into_iter().flat_map(|part| part.chunks_mut(PIECE)) {
            carry(piece, at + moved as u64)?;
            let first = hashed.min(piece.len());
            hash.write(&piece[..first]);
            hashed -= first;
            moved += piece.len();
        }
        Ok((moved, hash.finish()))
    }
}
