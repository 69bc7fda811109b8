//! Keeps: memory that outlives the package that had it, and regions, which many have at once. Which
//! there are, and where, is on the board, so that the next incarnation of the management core knows
//! it, which alone writes it.
//!
//! A keep is in pieces, of 2 MiB each but for the last one; half a word has the number of a piece's
//! first page. An entry counts once its last word, which is written last, says so.

use core::sync::atomic::Ordering;

use nile_abi::{KeepName, PageSize, PhysAddr};

use super::{Board, KEEPS};

/// The most keeps and regions of a node.
pub const MOST_KEEPS: usize = 32;

/// Words of an entry: the name, the bytes, the version, and where each piece is.
pub(super) const WORDS: usize = 72;
const BYTES: usize = 4;
const VERSION: usize = 5;
const PIECES: usize = 7;
const IS_THERE: usize = WORDS - 1;

/// Pieces of a keep.
const MOST_PIECES: usize = (IS_THERE - PIECES) * 2;

/// One keep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keep {
    /// Its name.
    pub name: KeepName,
    /// Bytes that it has, whole pages.
    pub bytes: u64,
    /// The version of its contents, by the package that made it. Of a region of memory that the
    /// node shares with other domains: its place among these, else zero.
    pub version: u16,
}

impl Keep {
    /// The most bytes of a keep.
    pub const MOST_BYTES: u64 = MOST_PIECES as u64 * PageSize::Large.bytes();

    /// Whether it is memory that the node shares with other domains.
    pub fn is_shared(&self) -> bool {
        self.version > 0 && self.name.as_region().is_some()
    }

    /// How many bytes each of its pieces has.
    pub fn pieces(&self) -> impl Iterator<Item = u64> + use<> {
        let (bytes, piece) = (self.bytes, PageSize::Large.bytes());
        (0..bytes).step_by(piece as usize).map(move |at| piece.min(bytes - at))
    }
}

impl Board {
    /// The keep with this number, if there is one.
    pub fn keep(&self, number: usize) -> Option<Keep> {
        if number >= MOST_KEEPS || self.keep_word(number, IS_THERE) == 0 {
            return None;
        }
        Some(Keep {
            name: KeepName::from_words([0, 1, 2, 3].map(|word| self.keep_word(number, word)))?,
            bytes: self.keep_word(number, BYTES),
            version: self.keep_word(number, VERSION) as u16,
        })
    }

    /// All keeps with their numbers.
    pub fn keeps(&self) -> impl Iterator<Item = (usize, Keep)> {
        (0..MOST_KEEPS).filter_map(|number| Some((number, self.keep(number)?)))
    }

    /// Makes or removes one. Management core only.
    pub fn set_keep(&self, number: usize, keep: Option<Keep>) {
        self.set_keep_word(number, IS_THERE, 0);
        let Some(keep) = keep else { return };
        for (word, value) in keep.name.words().into_iter().enumerate() {
            self.set_keep_word(number, word, value);
        }
        self.set_keep_word(number, BYTES, keep.bytes);
        self.set_keep_word(number, VERSION, keep.version.into());
        (PIECES..IS_THERE).for_each(|word| self.set_keep_word(number, word, 0));
        self.set_keep_word(number, IS_THERE, 1);
    }

    /// Where a piece of a keep is, once it was needed.
    pub fn keep_piece(&self, number: usize, piece: usize) -> Option<PhysAddr> {
        let page = self.keep_word(number, PIECES + piece / 2) >> half_of(piece);
        (page as u32 != 0).then(|| PhysAddr(u64::from(page as u32) * PageSize::Small.bytes()))
    }

    /// Says it; frame zero is never used. A page whose number has more than 32 bits, beyond the
    /// first 16 TiB, is not said. Management core only.
    pub fn set_keep_piece(&self, number: usize, piece: usize, start: PhysAddr) {
        let page = u32::try_from(start.0 / PageSize::Small.bytes()).unwrap_or_default();
        let others = self.keep_word(number, PIECES + piece / 2) & !(MASK << half_of(piece));
        self.set_keep_word(number, PIECES + piece / 2, others | u64::from(page) << half_of(piece));
    }

    fn keep_word(&self, number: usize, word: usize) -> u64 {
        self.node_word(KEEPS + number * WORDS + word).load(Ordering::Acquire)
    }

    fn set_keep_word(&self, number: usize, word: usize, value: u64) {
        self.node_word(KEEPS + number * WORDS + word).store(value, Ordering::Release);
    }
}

/// The lower half of a word.
const MASK: u64 = u32::MAX as u64;

/// From which bit of its word on a piece is.
fn half_of(piece: usize) -> usize {
    piece % 2 * 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use nile_ring::{Doorbells, Region};

    #[test]
    fn keeps_are_found_by_their_numbers() {
        let board = Board::in_memory(1, Region::owned(Doorbells::region_len(1)));
        assert_eq!(board.keeps().count(), 0);
        let name = KeepName::new("counter", "state").unwrap();
        let keep = Keep { name, bytes: Keep::MOST_BYTES, version: 3 };
        board.set_keep(31, Some(keep));
        assert_eq!(board.keeps().collect::<Vec<_>>(), [(31, keep)]);
        assert_eq!(keep.pieces().count(), 128);
        assert_eq!(board.keep_piece(31, 127), None);
        let last = PhysAddr(u64::from(u32::MAX) * 4096);
        for (piece, start) in [(126, last), (127, PhysAddr(4096)), (126, PhysAddr(8192))] {
            board.set_keep_piece(31, piece, start);
            assert_eq!(board.keep_piece(31, piece), Some(start));
        }
        assert_eq!(board.keep_piece(31, 127), Some(PhysAddr(4096)));
        assert_eq!(board.keep(31), Some(keep));
        board.set_keep(31, None);
        assert_eq!((board.keep(31), board.keep(32)), (None, None));
        board.set_keep(31, Some(keep));
        assert_eq!(board.keep_piece(31, 127), None, "another one begins with nothing");
        let small = Keep { bytes: (2 << 20) + 4096, ..keep };
        assert_eq!(small.pieces().collect::<Vec<_>>(), [2 << 20, 4096]);
    }
}
