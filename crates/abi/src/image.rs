//! Kernel images that a core runs in place of the one that its node was started with.

/// Why a core does not get another kernel image. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageRefused {
    /// No file was handed to the node under this name, or not all of it.
    NoFile,
    /// The file is no kernel image of this machine.
    NotAnImage,
    /// The image and the node's do not agree on what cores share.
    OtherAbi,
    /// The image is larger than a core may have.
    TooLarge,
    /// The node has no memory for it.
    NoMemory,
    /// The core runs in the same process as others, or is not for work alone, or the machine has
    /// one image for all cores.
    Stays,
}

/// Bytes of the beginning of an image that comes in pieces: the first piece has them all.
pub const IMAGE_HEAD: usize = 4096;

/// A number for what an image consists of, from all of its 64-bit words. It tells images apart, and
/// whether all pieces of one have come; it is no proof against anybody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageDigest(u64);

impl ImageDigest {
    /// That of nothing.
    pub const EMPTY: ImageDigest = ImageDigest(0xcbf2_9ce4_8422_2325);

    /// With one more word.
    #[must_use]
    pub const fn with(self, word: u64) -> ImageDigest {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ImageDigest(mixed ^ mixed >> 29)
    }

    /// The name of an image that consists of this: not zero.
    pub const fn name(self) -> u64 {
        if self.0 == 0 { 1 } else { self.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_word_and_its_place_change_the_name() {
        let name = |words: &[u64]| {
            words.iter().fold(ImageDigest::EMPTY, |digest, word| digest.with(*word)).name()
        };
        let names = [
            name(&[]),
            name(&[0]),
            name(&[0, 0]),
            name(&[1, 0]),
            name(&[0, 1]),
            name(&[1 << 63, 0]),
            name(&[0, 1 << 63]),
        ];
        for (at, one) in names.iter().enumerate() {
            assert!(*one != 0 && !names[..at].contains(one), "{names:x?}");
        }
    }
}
