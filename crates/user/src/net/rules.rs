//! The rules of a stack's packet filter: those of the node's configuration, until somebody says
//! others. Those are kept, so that the next incarnation has them, too.
//!
//! The keep has two places for a text, in turns. Its first word says which one counts, and is
//! stored last: whoever ends between any two stores leaves either the former rules or the new ones.

use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

use nile_abi::Instant;
use nile_net::Stack;
use nile_net::filter::Rules;
use nile_net::filter::rule::MOST_BYTES;

use super::shown::Shown;
use crate::Runtime;

/// Words of a place: a checksum, and the text.
const PLACE: usize = 1 + MOST_BYTES / 8;

/// Bytes of the keep `rules`.
pub const KEEP_BYTES: u64 = (1 + 2 * PLACE as u64) * 8;

/// The version of what is in it.
const VERSION: u16 = 1;

/// Where rules are kept and from where others come.
pub struct Kept<'s> {
    words: &'s [AtomicU64],
    shown: Rc<Shown>,
}

impl<'s> Kept<'s> {
    /// Gives the stack the rules that were kept, or those that are `usual`. A package whose
    /// manifest has no keep `rules` keeps none.
    pub fn open(
        runtime: &Runtime<'s>,
        shown: Rc<Shown>,
        (stack, now): (&mut Stack<'_>, Instant),
        usual: &str,
    ) -> Kept<'s> {
        let keep = runtime.keep("rules", KEEP_BYTES, VERSION);
        let words = keep.map_or(&[][..], |keep| keep.words());
        // The kernel has checked the usual ones with the same parser.
        let rules = load(words).or_else(|| usual.parse().ok()).unwrap_or_default();
        let kept = Kept { words, shown };
        kept.set(now, stack, rules);
        kept
    }

    fn set(&self, now: Instant, stack: &mut Stack<'_>, rules: Rules) {
        self.shown.filter.borrow_mut().rules = format!("{rules}");
        stack.set_rules(now, rules);
    }

    /// Gives the stack the rules that were set meanwhile: before it gets what comes behind them.
    pub fn apply(&self, now: Instant, stack: &mut Stack<'_>) {
        let set = self.shown.wanted.borrow_mut().take();
        if let Some(rules) = set {
            store(self.words, &format!("{rules}"));
            self.set(now, stack, rules);
            self.shown.applied.notify();
        }
    }
}

/// FNV-1a.
fn checksum(text: &[u8]) -> u64 {
    let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    text.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// The place that counts, and the bytes of its text; `None` if none does.
fn counts(words: &[AtomicU64]) -> Option<(usize, usize)> {
    let word = words.first()?.load(Relaxed);
    let length = usize::try_from(word >> 1).ok()?.checked_sub(1)?;
    (length <= MOST_BYTES).then_some((word as usize & 1, length))
}

fn load(words: &[AtomicU64]) -> Option<Rules> {
    let (place, length) = counts(words)?;
    let (sum, text) = words.get(1 + place * PLACE..)?.get(..PLACE)?.split_first()?;
    let mut bytes = vec![0; length];
    for (bytes, word) in bytes.chunks_mut(8).zip(text) {
        bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes()[..bytes.len()]);
    }
    let is_whole = checksum(&bytes) == sum.load(Relaxed);
    String::from_utf8(bytes).ok().filter(|_| is_whole)?.parse().ok()
}

fn store(words: &[AtomicU64], rules: &str) {
    let place = counts(words).map_or(0, |(place, _)| 1 - place);
    let behind = words.get(1 + place * PLACE..).and_then(|it| it.get(..PLACE));
    let Some((sum, text)) = behind.and_then(|it| it.split_first()) else { return };
    for (bytes, word) in rules.as_bytes().chunks(8).zip(text) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(whole), Relaxed);
    }
    sum.store(checksum(rules.as_bytes()), Relaxed);
    words[0].store((rules.len() as u64 + 1) << 1 | place as u64, Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn keep() -> Vec<AtomicU64> {
        (0..KEEP_BYTES / 8).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn the_last_rules_are_kept_whole_or_the_former_ones() {
        let words = keep();
        assert_eq!(load(&words), None);
        let texts = ["deny in\n", "", "allow in tcp to port 80\ndeny in\n"];
        for text in texts {
            store(&words, text);
            assert_eq!(load(&words), text.parse().ok(), "{text}");
        }
        // The other place is half written when the package ends.
        let (place, _) = counts(&words).unwrap();
        words[1 + (1 - place) * PLACE + 1].store(u64::MAX, Relaxed);
        assert_eq!(load(&words), texts[2].parse().ok());
        store(&[], "deny in");
        assert_eq!(load(&[]), None);
    }

    #[test]
    fn what_somebody_else_has_written_is_no_rules() {
        for at in [0, 1, 2] {
            for bits in [1, 1 << 40, u64::MAX] {
                let words = keep();
                store(&words, "deny in tcp to port 80");
                words[at].fetch_xor(bits, Relaxed);
                let loaded = load(&words);
                assert!(loaded.is_none(), "{at} {bits}: {loaded:?}");
            }
        }
    }
}
