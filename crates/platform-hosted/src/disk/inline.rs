//! Transfers that take the hash of what they move, and encrypt it for the disk, by plain calls,
//! piece after piece: each piece is in the caches of whoever copies it when that is done.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::slice;

use libc::iovec;
use nile_platform::disk::Inline;
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

    /// Fills all of it from byte `at` of the file on; how many bytes, and their hash, if that is
    /// wanted.
    pub fn read(self, file: &File, at: u64, inline: &Inline) -> io::Result<(usize, Option<u64>)> {
        let mut passed = Passed::new(inline);
        for piece in self.pieces() {
            let at = at + passed.bytes as u64;
            file.read_exact_at(piece, at)?;
            if let Some(cipher) = &inline.cipher {
                cipher.decrypt(at, piece);
            }
            passed.take(piece);
        }
        Ok(passed.ended())
    }

    /// Has `put` write it, each piece with its place from byte `at` on; the same of it. A piece is
    /// in the caches by then.
    pub fn write(
        self,
        at: u64,
        inline: &Inline,
        put: impl Fn(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<(usize, Option<u64>)> {
        let mut passed = Passed::new(inline);
        for piece in self.pieces() {
            let at = at + passed.bytes as u64;
            passed.take(piece);
            if let Some(cipher) = &inline.cipher {
                cipher.encrypt(at, piece);
            }
            put(piece, at)?;
        }
        Ok(passed.ended())
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
    hash: Option<RapidStreamHasherV3<'static>>,
}

impl Passed {
    fn new(inline: &Inline) -> Passed {
        let left = usize::try_from(inline.hashed).unwrap_or(usize::MAX);
        let hash = (left > 0).then(|| RapidStreamHasherV3::new(&DEFAULT_RAPID_SECRETS));
        Passed { bytes: 0, left, hash }
    }

    fn take(&mut self, piece: &[u8]) {
        let hashed = self.left.min(piece.len());
        if let Some(hash) = &mut self.hash {
            hash.write(&piece[..hashed]);
        }
        self.left -= hashed;
        self.bytes += piece.len();
    }

    fn ended(self) -> (usize, Option<u64>) {
        (self.bytes, self.hash.map(|hash| hash.finish()))
    }
}
