//! Memory that outlives its package as the system calls see it: what `keep` gives.

use super::channel::{pack, unpack};
use crate::{CoreId, VirtAddr};

/// What there is of a keep: the output of the `keep` call, [`KeepPlace::BYTES`] long. The call's
/// word is how many bytes it is to have in its lower 40 bits, and above them which version its
/// contents are; the input is its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeepPlace {
    /// Its first byte in user memory. None if the package has not got it: a package of another core
    /// has it, or what there is has another size or version.
    pub at: Option<VirtAddr>,
    /// Bytes that it has.
    pub bytes: u64,
    /// The version of its contents.
    pub version: u16,
    /// The core that has it.
    pub core: CoreId,
    /// Whether it was there before this call, with what an earlier package has left in it.
    pub is_found: bool,
}

/// Bits of a size in the call's word.
const SIZE_BITS: u32 = 40;

/// The word of a call.
pub fn keep_word(bytes: u64, version: u16) -> Option<u64> {
    (bytes >> SIZE_BITS == 0).then_some(u64::from(version) << SIZE_BITS | bytes)
}

/// The bytes and the version that it says.
pub fn keep_wants(word: u64) -> (u64, u16) {
    (word & ((1 << SIZE_BITS) - 1), (word >> SIZE_BITS) as u16)
}

impl KeepPlace {
    /// Bytes of an encoded place.
    pub const BYTES: usize = 24;

    /// The output of the system call.
    pub fn encode(self) -> [u8; KeepPlace::BYTES] {
        let facts = u64::from(self.is_found) << 32 | u64::from(self.version) << 16;
        pack([self.at.map_or(0, |at| at.0), self.bytes, facts | u64::from(self.core.0)])
    }

    /// The place that an output tells.
    pub fn decode(output: &[u8]) -> Option<KeepPlace> {
        let [at, bytes, facts] = unpack(output)?;
        Some(KeepPlace {
            at: (at != 0).then_some(VirtAddr(at)),
            bytes,
            version: (facts >> 16) as u16,
            core: CoreId(facts as u16),
            is_found: facts >> 32 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_words_survive() {
        for (at, is_found) in [(None, false), (Some(VirtAddr(u64::MAX)), true)] {
            let (version, core) = (u16::MAX, CoreId(7));
            let place = KeepPlace { at, bytes: 1 << 20, version, core, is_found };
            assert_eq!(KeepPlace::decode(&place.encode()), Some(place));
        }
        assert_eq!(KeepPlace::decode(&[0; 23]), None);
        let word = keep_word((1 << 40) - 1, u16::MAX).unwrap();
        assert_eq!(keep_wants(word), ((1 << 40) - 1, u16::MAX));
        assert_eq!(keep_word(1 << 40, 0), None);
    }
}
