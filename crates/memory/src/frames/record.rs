//! The truth about one region's frames, in words that outlive a restart of the manager core.
//!
//! ```text
//! 4 words    header: magic, first byte, length in bytes, flags
//! 1 word     per 1 GiB collection: 0, or handed out whole and to whom
//! 1 word     per 2 MiB collection: wholly free, split into frames, away, or handed out whole and
//!            to whom
//! 8 words    per 2 MiB collection: a bit per frame, set while it is handed out (or not there)
//! 64 words   per 2 MiB collection: a byte per frame, the core that has it
//! ```
//!
//! That is 292 KiB per GiB of memory, 0.03%. The frame bits and bytes of a collection mean
//! something only while it is split; those of the wholly free ones are never touched, so that a
//! fresh region costs one store per 2 MiB.
//!
//! Every hand-out and every return takes effect by one store, the last one. What precedes it
//! (the byte that names the owner, the bits of a collection about to be split) has no meaning
//! until then. So a manager that stops between two stores loses at most the piece it was about
//! to name, which the record counts as its owner's, and no piece is ever given twice.

use super::buckets::PIECES;
use core::sync::atomic::{AtomicU64, Ordering};
use nile_abi::{CoreId, MAX_CORES, PageSize, PhysAddr};

/// Words that keep the truth. Stores must take effect in program order for whoever reads them
/// after this core was interrupted.
pub trait Words {
    /// How many words there are; never changes.
    fn count(&self) -> usize;

    /// The word at `index`, which is below [`Words::count`].
    fn load(&self, index: usize) -> u64;

    /// Replaces the word at `index`, which is below [`Words::count`].
    fn store(&mut self, index: usize, value: u64);
}

impl<T: AsRef<[AtomicU64]>> Words for T {
    fn count(&self) -> usize {
        self.as_ref().len()
    }

    fn load(&self, index: usize) -> u64 {
        self.as_ref()[index].load(Ordering::Relaxed)
    }

    /// A releasing store keeps the compiler, too, from moving an earlier store behind it.
    fn store(&mut self, index: usize, value: u64) {
        self.as_ref()[index].store(value, Ordering::Release);
    }
}

const MAGIC: u64 = u64::from_le_bytes(*b"NileFrm1");
const HEADER_WORDS: usize = 4;
const BITMAP_WORDS: usize = PIECES / 64;
const OWNER_WORDS: usize = PIECES / 8;
const DRAINING: u64 = 1;

// A frame's owner is one byte.
const _: () = assert!(MAX_CORES <= 256);

/// Where a frame is: its 1 GiB collection, its 2 MiB collection, both counted from the region's
/// first, and its index in the latter.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) huge: usize,
    pub(super) large: usize,
    pub(super) frame: usize,
}

/// A region's extent and with it which collections it has and where their words are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) start: PhysAddr,
    pub(super) bytes: u64,
}

impl Layout {
    pub(super) fn end(&self) -> u64 {
        self.start.0 + self.bytes
    }

    pub(super) fn contains(&self, address: PhysAddr) -> bool {
        address >= self.start && address.0 < self.end()
    }

    fn collections(&self, size: PageSize) -> usize {
        let first = self.start.0 / size.bytes();
        (self.end().div_ceil(size.bytes()) - first) as usize
    }

    pub(super) fn larges(&self) -> usize {
        self.collections(PageSize::Large)
    }

    pub(super) fn huges(&self) -> usize {
        self.collections(PageSize::Huge)
    }

    pub(super) fn words(&self) -> usize {
        HEADER_WORDS + self.huges() + self.larges() * (1 + BITMAP_WORDS + OWNER_WORDS)
    }

    pub(super) fn place(&self, address: PhysAddr) -> Place {
        let large = address.0 / PageSize::Large.bytes();
        let huge = address.0 / PageSize::Huge.bytes();
        let frame = address.0 / PageSize::Small.bytes();
        Place {
            huge: (huge - self.start.0 / PageSize::Huge.bytes()) as usize,
            large: (large - self.start.0 / PageSize::Large.bytes()) as usize,
            frame: frame as usize % PIECES,
        }
    }

    pub(super) fn large_address(&self, large: usize) -> PhysAddr {
        PhysAddr(self.start.align_down(PageSize::Large).0 + large as u64 * PageSize::Large.bytes())
    }

    pub(super) fn huge_address(&self, huge: usize) -> PhysAddr {
        PhysAddr(self.start.align_down(PageSize::Huge).0 + huge as u64 * PageSize::Huge.bytes())
    }

    pub(super) fn frame_address(&self, large: usize, frame: usize) -> PhysAddr {
        PhysAddr(self.large_address(large).0 + frame as u64 * PageSize::Small.bytes())
    }

    /// Whether the region has all frames of `large`.
    pub(super) fn is_whole(&self, large: usize) -> bool {
        let start = self.large_address(large);
        start >= self.start && start.0 + PageSize::Large.bytes() <= self.end()
    }

    /// The 1 GiB collection that `large` is in, and its index there.
    pub(super) fn in_huge(&self, large: usize) -> (usize, usize) {
        let number = self.start.0 / PageSize::Large.bytes() + large as u64;
        let first = self.start.0 / PageSize::Huge.bytes();
        ((number / PIECES as u64 - first) as usize, number as usize % PIECES)
    }

    /// Bits of those frames in bitmap word `word` of `large` that the region does not have.
    fn absent(&self, large: usize, word: usize) -> u64 {
        if self.is_whole(large) {
            return 0;
        }
        (0..64)
            .filter(|bit| !self.contains(self.frame_address(large, word * 64 + bit)))
            .fold(0, |bits, bit| bits | 1 << bit)
    }
}

/// What the record says of a 2 MiB collection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LargeState {
    Free,
    Split,
    Whole(CoreId),
    /// It is not the node's now.
    Away,
}

impl LargeState {
    fn encode(self) -> u64 {
        match self {
            LargeState::Free => 0,
            LargeState::Split => 1,
            LargeState::Whole(owner) => 2 | u64::from(owner.0) << 8,
            LargeState::Away => 3,
        }
    }

    fn decode(word: u64) -> Result<LargeState, Corrupt> {
        match word {
            0 => Ok(LargeState::Free),
            1 => Ok(LargeState::Split),
            3 => Ok(LargeState::Away),
            _ => decode_owner(word).map(LargeState::Whole),
        }
    }
}

fn decode_owner(word: u64) -> Result<CoreId, Corrupt> {
    let owner = u16::try_from(word >> 8).map_err(|_| Corrupt)?;
    let sensible = word & 0xff == 2 && usize::from(owner) < MAX_CORES;
    if sensible { Ok(CoreId(owner)) } else { Err(Corrupt) }
}

/// A word says what this module never writes there.
#[derive(Debug)]
pub(super) struct Corrupt;

/// The words of one region, by what they mean.
pub(super) struct Record<W> {
    words: W,
    pub(super) layout: Layout,
    // Where the parts begin, kept because every request needs it.
    larges: usize,
    bitmaps: usize,
    owners: usize,
}

impl<W: Words> Record<W> {
    /// Writes the record of a region that is wholly free. `words` has at least `layout.words()`.
    pub(super) fn create(words: W, layout: Layout) -> Record<W> {
        let mut record = Record::over(words, layout);
        record.words.store(0, 0);
        record.words.store(1, layout.start.0);
        record.words.store(2, layout.bytes);
        record.words.store(3, 0);
        for huge in 0..layout.huges() {
            record.set_huge(huge, None);
        }
        for large in 0..layout.larges() {
            record.set_large(large, LargeState::Free);
            if !layout.is_whole(large) {
                record.split(large);
            }
        }
        // Only now is it a record: an interrupted creation leaves none.
        record.words.store(0, MAGIC);
        record
    }

    /// The record that `words` hold, if they hold one.
    pub(super) fn open(words: W) -> Result<Record<W>, W> {
        if words.count() < HEADER_WORDS || words.load(0) != MAGIC {
            return Err(words);
        }
        let layout = Layout { start: PhysAddr(words.load(1)), bytes: words.load(2) };
        if !super::is_extent(layout.start, layout.bytes) || words.count() < layout.words() {
            return Err(words);
        }
        Ok(Record::over(words, layout))
    }

    fn over(words: W, layout: Layout) -> Record<W> {
        let larges = HEADER_WORDS + layout.huges();
        let bitmaps = larges + layout.larges();
        let owners = bitmaps + layout.larges() * BITMAP_WORDS;
        Record { words, layout, larges, bitmaps, owners }
    }

    /// Ends the record and gives its words back.
    pub(super) fn close(mut self) -> W {
        self.words.store(0, 0);
        self.words
    }

    pub(super) fn is_draining(&self) -> bool {
        self.words.load(3) & DRAINING != 0
    }

    pub(super) fn set_draining(&mut self, draining: bool) {
        self.words.store(3, if draining { DRAINING } else { 0 });
    }

    fn large_word(&self, large: usize) -> usize {
        self.larges + large
    }

    fn bitmap_word(&self, large: usize, word: usize) -> usize {
        self.bitmaps + large * BITMAP_WORDS + word
    }

    fn owner_word(&self, large: usize, frame: usize) -> usize {
        self.owners + large * OWNER_WORDS + frame / 8
    }

    /// Who has the whole 1 GiB collection.
    pub(super) fn huge(&self, huge: usize) -> Result<Option<CoreId>, Corrupt> {
        match self.words.load(HEADER_WORDS + huge) {
            0 => Ok(None),
            word => decode_owner(word).map(Some),
        }
    }

    pub(super) fn set_huge(&mut self, huge: usize, owner: Option<CoreId>) {
        let word = owner.map_or(0, |owner| LargeState::Whole(owner).encode());
        self.words.store(HEADER_WORDS + huge, word);
    }

    /// The state of a 2 MiB collection.
    pub(super) fn large(&self, large: usize) -> Result<LargeState, Corrupt> {
        LargeState::decode(self.words.load(self.large_word(large)))
    }

    pub(super) fn set_large(&mut self, large: usize, state: LargeState) {
        self.words.store(self.large_word(large), state.encode());
    }

    /// Makes a wholly free collection one of single frames, all of them free.
    pub(super) fn split(&mut self, large: usize) {
        for word in 0..BITMAP_WORDS {
            let bits = self.layout.absent(large, word);
            self.words.store(self.bitmap_word(large, word), bits);
        }
        self.set_large(large, LargeState::Split);
    }

    /// The first free frame of a split collection.
    pub(super) fn first_free(&self, large: usize) -> Option<usize> {
        (0..BITMAP_WORDS).find_map(|word| {
            let bits = self.words.load(self.bitmap_word(large, word));
            (bits != u64::MAX).then(|| word * 64 + bits.trailing_ones() as usize)
        })
    }

    /// Free frames of a split collection.
    pub(super) fn count_free(&self, large: usize) -> Result<usize, Corrupt> {
        (0..BITMAP_WORDS).try_fold(0, |free, word| {
            let bits = self.words.load(self.bitmap_word(large, word));
            // A frame that is not there must never look free.
            let there = self.layout.absent(large, word) & !bits == 0;
            if there { Ok(free + bits.count_zeros() as usize) } else { Err(Corrupt) }
        })
    }

    /// Who has a frame of a split collection.
    pub(super) fn frame(&self, large: usize, frame: usize) -> Option<CoreId> {
        let bits = self.words.load(self.bitmap_word(large, frame / 64));
        let owners = self.words.load(self.owner_word(large, frame));
        let owner = owners.to_le_bytes()[frame % 8];
        (bits >> (frame % 64) & 1 != 0).then_some(CoreId(u16::from(owner)))
    }

    /// The frames of a split collection that are handed out, with their owners.
    pub(super) fn taken(&self, large: usize) -> impl Iterator<Item = (usize, CoreId)> {
        (0..PIECES).filter_map(move |frame| {
            let there = self.layout.contains(self.layout.frame_address(large, frame));
            Some((frame, self.frame(large, frame).filter(|_| there)?))
        })
    }

    /// Hands out a free frame of a split collection. `owner` is below [`MAX_CORES`].
    pub(super) fn take_frame(&mut self, large: usize, frame: usize, owner: CoreId) {
        let at = self.owner_word(large, frame);
        let mut owners = self.words.load(at).to_le_bytes();
        owners[frame % 8] = owner.0 as u8;
        self.words.store(at, u64::from_le_bytes(owners));
        let at = self.bitmap_word(large, frame / 64);
        self.words.store(at, self.words.load(at) | 1 << (frame % 64));
    }

    /// Takes back a frame of a split collection.
    pub(super) fn free_frame(&mut self, large: usize, frame: usize) {
        let at = self.bitmap_word(large, frame / 64);
        self.words.store(at, self.words.load(at) & !(1 << (frame % 64)));
    }
}
