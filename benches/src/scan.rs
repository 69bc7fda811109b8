//! The naive peer of the physical memory service: one bit a frame, and every request searches
//! from the first for a run of frames that are free.

use nile_abi::{PageSize, PhysAddr};

/// Frames of one word of bits.
const WORD_FRAMES: u64 = 64;

/// All frames of a node's memory.
pub struct Scan {
    /// A bit is set while its frame is handed out.
    taken: Vec<u64>,
}

impl Scan {
    /// A node with `bytes` bytes of memory from address zero on, of which the first `used` frames
    /// are handed out: what as many requests would leave, without their searches.
    pub fn with_taken(bytes: u64, used: u64) -> Scan {
        let frames = bytes / PageSize::Small.bytes();
        let mut taken = vec![0; frames.div_ceil(WORD_FRAMES) as usize];
        taken[..(used / WORD_FRAMES) as usize].fill(u64::MAX);
        if let Some(word) = taken.get_mut((used / WORD_FRAMES) as usize) {
            *word = (1 << (used % WORD_FRAMES)) - 1;
        }
        Scan { taken }
    }

    /// Hands out the first free piece of `size`.
    pub fn alloc(&mut self, size: PageSize) -> Option<PhysAddr> {
        let frame = match size.frames() {
            1 => {
                let word = self.taken.iter().position(|word| *word != u64::MAX)?;
                let bit = u64::from(self.taken[word].trailing_ones());
                self.taken[word] |= 1 << bit;
                word as u64 * WORD_FRAMES + bit
            }
            frames => {
                let words = (frames / WORD_FRAMES) as usize;
                let mut pieces = self.taken.chunks_exact_mut(words).enumerate();
                let (at, piece) = pieces.find(|(_, piece)| piece.iter().all(|word| *word == 0))?;
                piece.fill(u64::MAX);
                at as u64 * frames
            }
        };
        Some(PhysAddr(frame * PageSize::Small.bytes()))
    }

    /// Takes a piece back.
    pub fn free(&mut self, at: PhysAddr, size: PageSize) {
        let frame = at.0 / PageSize::Small.bytes();
        let word = (frame / WORD_FRAMES) as usize;
        match size.frames() {
            1 => self.taken[word] &= !(1 << (frame % WORD_FRAMES)),
            frames => self.taken[word..][..(frames / WORD_FRAMES) as usize].fill(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_piece_is_handed_out() {
        let mut scan = Scan::with_taken(8 << 20, 3);
        let small: Vec<_> = (3..65).map(|_| scan.alloc(PageSize::Small).unwrap().0 >> 12).collect();
        assert!(small.into_iter().eq(3..65));
        assert_eq!(scan.alloc(PageSize::Large), Some(PhysAddr(2 << 20)));
        scan.free(PhysAddr(7 << 12), PageSize::Small);
        assert_eq!(scan.alloc(PageSize::Small), Some(PhysAddr(7 << 12)));
        scan.free(PhysAddr(2 << 20), PageSize::Large);
        assert_eq!(scan.alloc(PageSize::Large), Some(PhysAddr(2 << 20)));
        assert_eq!(scan.alloc(PageSize::Huge), None);
    }
}
