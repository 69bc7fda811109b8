//! What an interface keeps for its next incarnation, in memory that outlives it. The memory has two
//! places, in turns: whoever ends in the midst of a store leaves what was there before.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// Words that are kept. The last one is greater the later it ends, or was heard.
pub const WORDS: usize = 6;

/// Words of a place: a checksum before them.
const PLACE: usize = WORDS + 1;

/// Bytes of the memory.
pub const BYTES: usize = 2 * PLACE * 8;

/// What is kept.
pub fn load(words: &[AtomicU64]) -> Option<[u64; WORDS]> {
    last(words).map(|it| it.1)
}

/// Keeps it, and nothing else. Memory that is too small keeps nothing.
pub fn store(words: &[AtomicU64], said: [u64; WORDS]) {
    let former = last(words).map(|it| it.0);
    let place = former.map_or(0, |place| 1 - place);
    let Some((sum, rest)) = places(words).nth(place).and_then(|it| it.split_first()) else {
        return;
    };
    sum.store(0, Relaxed);
    rest.iter().zip(said).for_each(|(word, said)| word.store(said, Relaxed));
    sum.store(checksum(said), Release);
    if let Some(former) = former.and_then(|place| places(words).nth(place)) {
        former[0].store(0, Release);
    }
}

/// Keeps nothing.
pub fn clear(words: &[AtomicU64]) {
    places(words).for_each(|it| it[0].store(0, Release));
}

/// The place of what is there, or of the one of two with the greater last word, and what it says:
/// there are two if an incarnation has ended before it forgot the former one.
fn last(words: &[AtomicU64]) -> Option<(usize, [u64; WORDS])> {
    let all = places(words).enumerate();
    all.filter_map(|(place, it)| Some((place, read(it)?))).max_by_key(|it| it.1[WORDS - 1])
}

fn read(place: &[AtomicU64]) -> Option<[u64; WORDS]> {
    let mut words = [0; WORDS];
    let (sum, said) = place.split_first()?;
    words.iter_mut().zip(said).for_each(|(word, said)| *word = said.load(Relaxed));
    (sum.load(Relaxed) == checksum(words)).then_some(words)
}

fn places(words: &[AtomicU64]) -> impl Iterator<Item = &[AtomicU64]> {
    words.chunks_exact(PLACE).take(2)
}

/// FNV-1a over words; never that of memory that is zero.
fn checksum(words: [u64; WORDS]) -> u64 {
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(23);
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
