//! Which blocks of a transfer have arrived: all before `base`, and some of those after it.

use alloc::boxed::Box;

use crate::wire::WINDOW_BLOCKS;

const WORDS: usize = WINDOW_BLOCKS as usize / 64;

/// The blocks that have arrived. A block is at the same bit for as long as it is in the window.
pub struct Window {
    base: u32,
    /// After the last block that has arrived; not before `base`.
    top: u32,
    bits: Box<[u64; WORDS]>,
}

impl Window {
    /// Nothing has arrived.
    pub fn new() -> Window {
        Window { base: 0, top: 0, bits: Box::new([0; WORDS]) }
    }

    /// The first block that is missing.
    pub fn base(&self) -> u32 {
        self.base
    }

    /// The block after the last one that this window has room for.
    pub fn end(&self) -> u32 {
        self.base.saturating_add(WINDOW_BLOCKS)
    }

    /// Notes that all blocks before this one have arrived, and none after it.
    pub fn fill(&mut self, end: u32) {
        self.bits.fill(0);
        (self.base, self.top) = (end, end);
    }

    /// Whether the block has arrived.
    pub fn contains(&self, block: u32) -> bool {
        block < self.base || (block < self.top && self.bits[word(block)] & bit(block) != 0)
    }

    /// Notes that a block between base and end has arrived.
    pub fn insert(&mut self, block: u32) {
        if self.contains(block) || block >= self.end() {
            return;
        }
        self.bits[word(block)] |= bit(block);
        self.top = self.top.max(block + 1);
        while self.base < self.top && self.bits[word(self.base)] & bit(self.base) != 0 {
            self.bits[word(self.base)] &= !bit(self.base);
            self.base += 1;
        }
    }

    /// The block after the last one that has arrived.
    pub fn top(&self) -> u32 {
        self.top
    }

    /// Bytes of the bitmap of the blocks after base.
    pub fn bitmap_bytes(&self) -> usize {
        (self.top.saturating_sub(self.base + 1) as usize).div_ceil(8)
    }

    /// Writes the bitmap: bit i, from the lowest of the first byte, is the block base + 1 + i.
    pub fn write_bitmap(&self, out: &mut [u8]) {
        for (place, byte) in out.iter_mut().enumerate() {
            let first = self.base.saturating_add(1 + 8 * place as u32);
            let has = |at: &u32| self.contains(first.saturating_add(*at));
            *byte = (0..8).filter(has).fold(0, |byte, at| byte | 1 << at);
        }
    }
}

/// The blocks that a bitmap after `base` names, in order.
pub fn blocks(base: u32, bitmap: &[u8]) -> impl Iterator<Item = u32> {
    let bits = bitmap.iter().enumerate().flat_map(|(place, byte)| {
        (0..8).filter(move |at| byte & 1 << at != 0).map(move |at| 8 * place as u32 + at)
    });
    bits.map(move |bit| base.saturating_add(1).saturating_add(bit))
}

fn word(block: u32) -> usize {
    (block % WINDOW_BLOCKS / 64) as usize
}

fn bit(block: u32) -> u64 {
    1 << (block % 64)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_set_of_blocks(steps in prop::collection::vec(0_u32..64, 0..600)) {
            let mut window = Window::new();
            let mut model = BTreeSet::new();
            for step in steps {
                // Mostly near the base, so that it moves; sometimes near the end.
                let after = if step > 60 { WINDOW_BLOCKS - 64 + step } else { step / 4 };
                let block = window.base() + after;
                if block < window.end() {
                    window.insert(block);
                    model.insert(block);
                }
                let base = (0..).find(|it| !model.contains(it)).unwrap();
                prop_assert_eq!(window.base(), base);
                let after: Vec<u32> = model.iter().copied().filter(|it| *it > base).collect();
                prop_assert_eq!(window.top() > base, !after.is_empty());
                let mut bitmap = vec![0; window.bitmap_bytes()];
                window.write_bitmap(&mut bitmap);
                prop_assert_eq!(blocks(base, &bitmap).collect::<Vec<_>>(), after);
                prop_assert!(bitmap.len() <= WINDOW_BLOCKS as usize / 8);
            }
        }
    }
}
