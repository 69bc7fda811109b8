//! Where records of a fixed length have their keys.

/// Records of a fixed length, each with a key at a fixed place. Keys compare as bytes.
pub trait Layout {
    /// Bytes of a record; at least one.
    const LENGTH: usize;

    /// Where in the record its key begins.
    const KEY_AT: usize;

    /// Bytes of the key, at most [`MOST_KEY_BYTES`].
    const KEY_LENGTH: usize;

    /// Has the processor bring the cache line that `byte` is in, and does not wait for it: where
    /// records lie all over memory, that makes the difference between one wait after the other and
    /// all at once. It does nothing here; who knows the processor overrides it.
    #[inline(always)]
    fn prefetch(_byte: &u8) {}

    /// Does the same for all lines that a stretch of bytes is in.
    #[inline(always)]
    fn prefetch_all(bytes: &[u8]) {
        bytes.iter().step_by(LINE).chain(bytes.last()).for_each(Self::prefetch);
    }

    /// The key of `record`, in the first bytes of a number that compares like the key; the rest is
    /// zero. Panics if the record is shorter than [`Layout::LENGTH`].
    #[inline(always)]
    fn key(record: &[u8]) -> u128 {
        const {
            assert!(Self::KEY_LENGTH <= MOST_KEY_BYTES, "an entry has room for ten bytes of key");
            assert!(Self::KEY_AT + Self::KEY_LENGTH <= Self::LENGTH, "keys lie in their records");
        }
        let mut bytes = [0; 16];
        bytes[..Self::KEY_LENGTH]
            .copy_from_slice(&record[Self::KEY_AT..Self::KEY_AT + Self::KEY_LENGTH]);
        u128::from_be_bytes(bytes)
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// The longest key that an entry has room for.
pub const MOST_KEY_BYTES: usize = 10;

/// The Sort Benchmark's records: 100 bytes, of which the first ten are the key.
#[derive(Clone, Copy, Debug)]
pub struct Tera;

impl Layout for Tera {
    const LENGTH: usize = 100;
    const KEY_AT: usize = 0;
    const KEY_LENGTH: usize = 10;
}
