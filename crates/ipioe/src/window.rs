//! Which sequences have come: a frame is accepted once, and none that is too old to tell.

/// Sequences below the highest that are told apart.
pub const SPAN: u64 = 1024;

const WORDS: usize = SPAN as usize / 64;

/// The sequences that were accepted under one key.
#[derive(Clone, Debug)]
pub struct Window {
    /// One above the highest that was accepted.
    next: u64,
    /// One bit for each of the last [`SPAN`] sequences, by their remainder.
    seen: [u64; WORDS],
}

impl Window {
    /// Accepts sequences from `first` on.
    pub fn starting_at(first: u64) -> Window {
        Window { next: first, seen: [u64::MAX; WORDS] }
    }

    /// One above the highest that was accepted.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether this sequence would be new.
    pub fn is_new(&self, sequence: u64) -> bool {
        if sequence >= self.next {
            return sequence < u64::MAX;
        }
        let (word, bit) = place(sequence);
        self.next - sequence <= SPAN && self.seen[word] & bit == 0
    }

    /// Notes a new sequence of a frame that was found genuine.
    pub fn note(&mut self, sequence: u64) {
        if sequence >= self.next {
            if sequence - self.next >= SPAN {
                self.seen = [0; WORDS];
            } else {
                for passed in self.next..sequence {
                    let (word, bit) = place(passed);
                    self.seen[word] &= !bit;
                }
            }
            self.next = sequence + 1;
        }
        let (word, bit) = place(sequence);
        self.seen[word] |= bit;
    }
}

fn place(sequence: u64) -> (usize, u64) {
    let bit = sequence % SPAN;
    ((bit / 64) as usize, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set that remembers everything.
        #[test]
        fn accepts_each_sequence_once(
            first in 0u64..3000,
            steps in proptest::collection::vec((-1500i64..3000, 1u8..4), 1..400),
        ) {
            let (mut window, mut seen) = (Window::starting_at(first), BTreeSet::new());
            let mut at = first as i64;
            for (step, repeats) in steps {
                at = (at + step / i64::from(repeats)).max(0);
                let sequence = at as u64;
                let next = seen.last().map_or(first, |last| last + 1).max(first);
                let is_new = sequence >= first && !seen.contains(&sequence)
                    && (sequence >= next || next - sequence <= SPAN);
                prop_assert_eq!(window.is_new(sequence), is_new);
                if is_new {
                    window.note(sequence);
                    seen.insert(sequence);
                }
            }
        }
    }
}
