//! What profiles of a core are made of.

use alloc::vec::Vec;

/// The most samples of a core in a second.
pub const MOST_HERTZ: u32 = 1000;

/// What a core was found doing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Samples {
    /// For each sample a word with how many frames follow, in the lower half, and what was
    /// interrupted, in the upper; then these frames. Both are as `nile_platform::samples` has them
    /// in rings.
    pub words: Vec<u64>,
    /// The number of the next one.
    pub next: u64,
    /// Samples that were written over before they were read.
    pub lost: u64,
}
