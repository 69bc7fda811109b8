//! Lists of collections by how many pieces each still has free, so that the fullest one that
//! still has a piece is found without a search.
//!
//! A collection has up to 512 pieces (frames of a 2 MiB collection, 2 MiB collections of a 1 GiB
//! one). Bucket *n* lists those with *n* free pieces; a collection without any is in no list.
//! The lists run through one array of links, and a bit per bucket says which are not empty, so
//! every operation takes a fixed number of steps whatever the size of the memory.

use alloc::vec;
use alloc::vec::Vec;

/// Pieces of a whole collection.
pub(super) const PIECES: usize = 512;

/// One collection's place in the list of its bucket. Neighbours are indices plus one, and zero
/// is the end of the list, so that fresh links are zeroed memory.
#[derive(Clone, Copy, Default)]
struct Link {
    previous: u32,
    next: u32,
    free: u16,
}

/// Collections listed by their free pieces.
pub(super) struct Buckets {
    heads: Vec<u32>,
    occupied: [u64; PIECES / 64 + 1],
    links: Vec<Link>,
}

impl Buckets {
    /// Lists for `collections` collections, all of them without a free piece.
    pub(super) fn new(collections: usize) -> Buckets {
        Buckets {
            heads: vec![0; PIECES + 1],
            occupied: [0; PIECES / 64 + 1],
            links: vec![Link::default(); collections],
        }
    }

    /// Free pieces of `collection`.
    pub(super) fn free(&self, collection: usize) -> usize {
        usize::from(self.links[collection].free)
    }

    /// Says that `collection` has `free` free pieces now.
    pub(super) fn set_free(&mut self, collection: usize, free: usize) {
        debug_assert!(free <= PIECES);
        let old = self.links[collection];
        if old.free > 0 {
            self.unlink(old);
        }
        self.links[collection] = Link { free: free as u16, ..Link::default() };
        if free > 0 {
            self.link(collection, free);
        }
    }

    /// The fewest free pieces, but at least one, that any collection has.
    pub(super) fn fewest(&self) -> Option<usize> {
        let word = self.occupied.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.occupied[word].trailing_zeros() as usize)
    }

    /// The fullest collection that still has a free piece; of several the one that changed last.
    pub(super) fn fullest(&self) -> Option<usize> {
        self.with_free(self.fewest()?)
    }

    /// A collection with exactly `free` free pieces; of several the one that changed last.
    pub(super) fn with_free(&self, free: usize) -> Option<usize> {
        (self.heads[free] as usize).checked_sub(1)
    }

    fn link(&mut self, collection: usize, free: usize) {
        let mark = collection as u32 + 1;
        let next = core::mem::replace(&mut self.heads[free], mark);
        self.links[collection].next = next;
        match next {
            0 => self.occupied[free / 64] |= 1 << (free % 64),
            next => self.links[next as usize - 1].previous = mark,
        }
    }

    fn unlink(&mut self, link: Link) {
        let free = usize::from(link.free);
        if link.next != 0 {
            self.links[link.next as usize - 1].previous = link.previous;
        }
        if link.previous != 0 {
            self.links[link.previous as usize - 1].next = link.next;
        } else {
            self.heads[free] = link.next;
            if link.next == 0 {
                self.occupied[free / 64] &= !(1 << (free % 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

        #[test]
        fn the_fullest_is_what_a_search_finds(
            changes in proptest::collection::vec((0usize..20, 0usize..=PIECES), 1..200),
        ) {
            let mut buckets = Buckets::new(20);
            let mut naive = [0; 20];
            for (collection, free) in changes {
                buckets.set_free(collection, free);
                naive[collection] = free;
                let fewest = naive.iter().copied().filter(|free| *free > 0).min();
                prop_assert_eq!(buckets.fewest(), fewest);
                prop_assert_eq!(buckets.fullest().map(|fullest| naive[fullest]), fewest);
                prop_assert_eq!(buckets.with_free(PIECES).is_some(), naive.contains(&PIECES));
            }
        }
    }
}
