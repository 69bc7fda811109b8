//! Bytes in memory that cores share, named for whoever is to read them where they are.

/// Bytes of a buffer that its owner keeps, and neither changes nor gives up before it knows that
/// whoever was told of them has read them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Which buffer of its pool.
    pub index: u32,
    /// The buffer's generation: another one says that its owner has given it up since.
    pub generation: u32,
    /// Where they begin in the buffer.
    pub start: u32,
    /// How many.
    pub bytes: u32,
}
