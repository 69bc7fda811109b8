//! Kernel images that a core runs in place of the one that its node was started with.

/// Why a core does not get another kernel image. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ImageRefused {
    /// No file was handed to the node under this name.
    NoFile,
    /// The file is no kernel image of this machine.
    NotAnImage,
    /// The image and the node's do not agree on what cores share.
    OtherAbi,
    /// The core runs in the same process as others, or the machine has one image for all cores.
    Stays,
}
