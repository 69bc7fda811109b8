//! The buffers of the node's pool as the system calls see them: what `pool` asks and gives.
//! Everything is little-endian words of fixed places, and decoding is total: what makes no sense
//! is `None`.

use super::channel::{pack, unpack};
use crate::VirtAddr;

/// What the `pool` call asks: its input, [`PoolCall::BYTES`] long. The call's word is not looked
/// at.
///
/// A package that [may use the pool](super::UserSlot::pool) has buffers of its own, named by their
/// numbers. A buffer that it passes is not its own any more: the [`PoolHandle`] goes with a call to
/// another service, whose owner claims it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolCall {
    /// A free buffer, with what its last owner left in it. Gives a [`PoolPlace`]; `Busy` if none
    /// is free now.
    Take,
    /// Gives a buffer back to the pool.
    Free {
        /// Its number.
        buffer: u32,
    },
    /// Gives a buffer up for a handle to its first bytes. Gives a [`PoolHandle`].
    Pass {
        /// Its number.
        buffer: u32,
        /// Bytes of it that are meant, cut to the buffer's size.
        bytes: u32,
    },
    /// Takes a buffer that somebody passed. Gives a [`PoolPlace`]; `NotFound` if the handle names
    /// no buffer that is on its way, or was claimed before.
    Claim(PoolHandle),
    /// Where a buffer is that somebody else of this node owns, to be read while that one keeps it.
    /// Gives a [`PoolPlace`] without the buffer becoming the package's. Only that there is such a
    /// buffer is looked at, not whose it is, nor the generation: what is there is the owner's word,
    /// and changes if it breaks that or ends. `NotFound` if the pool has no such buffer or it has
    /// not so many bytes.
    View(PoolHandle),
}

/// A buffer on its way to its next owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolHandle {
    /// The pool's number.
    pub pool: u16,
    /// The buffer's place in the pool.
    pub index: u32,
    /// How often that buffer had been sent.
    pub generation: u32,
    /// Bytes of it that are meant.
    pub bytes: u32,
}

/// Where a buffer is: the output of [`PoolCall::Take`], [`PoolCall::Claim`] and [`PoolCall::View`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolPlace {
    /// The buffer's number.
    pub buffer: u32,
    /// Its first byte in user memory.
    pub at: VirtAddr,
    /// Bytes that are meant; all of a buffer that was taken.
    pub bytes: u64,
}

impl PoolCall {
    /// Bytes of an encoded call.
    pub const BYTES: usize = 24;

    /// The input of the system call.
    pub fn encode(self) -> [u8; PoolCall::BYTES] {
        pack(match self {
            PoolCall::Take => [0, 0, 0],
            PoolCall::Free { buffer } => [1, u64::from(buffer), 0],
            PoolCall::Pass { buffer, bytes } => [2, u64::from(buffer), u64::from(bytes)],
            PoolCall::Claim(handle) => handle.named_by(3),
            PoolCall::View(handle) => handle.named_by(4),
        })
    }

    /// The call that an input asks for.
    pub fn decode(input: &[u8]) -> Option<PoolCall> {
        let [operation, first, second] = unpack(input)?;
        Some(match (operation & 0xffff_ffff, u16::try_from(operation >> 32).ok()?) {
            (0, 0) if first == 0 && second == 0 => PoolCall::Take,
            (1, 0) if second == 0 => PoolCall::Free { buffer: u32::try_from(first).ok()? },
            (2, 0) => PoolCall::Pass {
                buffer: u32::try_from(first).ok()?,
                bytes: u32::try_from(second).ok()?,
            },
            (3, pool) => PoolCall::Claim(PoolHandle::of(pool, [first, second])?),
            (4, pool) => PoolCall::View(PoolHandle::of(pool, [first, second])?),
            _ => return None,
        })
    }
}

impl PoolHandle {
    /// Bytes of an encoded handle.
    pub const BYTES: usize = 24;

    fn words(self) -> [u64; 2] {
        [u64::from(self.generation) << 32 | u64::from(self.index), u64::from(self.bytes)]
    }

    /// The words of a call by its number.
    fn named_by(self, call: u64) -> [u64; 3] {
        let [first, second] = self.words();
        [call | u64::from(self.pool) << 32, first, second]
    }

    fn of(pool: u16, [names, bytes]: [u64; 2]) -> Option<PoolHandle> {
        let (index, generation) = (names as u32, (names >> 32) as u32);
        Some(PoolHandle { pool, index, generation, bytes: u32::try_from(bytes).ok()? })
    }

    /// The output of the system call.
    pub fn encode(self) -> [u8; PoolHandle::BYTES] {
        let [names, bytes] = self.words();
        pack([u64::from(self.pool), names, bytes])
    }

    /// The handle that an output tells.
    pub fn decode(output: &[u8]) -> Option<PoolHandle> {
        let [pool, names, bytes] = unpack(output)?;
        PoolHandle::of(u16::try_from(pool).ok()?, [names, bytes])
    }
}

impl PoolPlace {
    /// Bytes of an encoded place.
    pub const BYTES: usize = 24;

    /// The output of the system call.
    pub fn encode(self) -> [u8; PoolPlace::BYTES] {
        pack([u64::from(self.buffer), self.at.0, self.bytes])
    }

    /// The place that an output tells.
    pub fn decode(output: &[u8]) -> Option<PoolPlace> {
        let [buffer, at, bytes] = unpack(output)?;
        Some(PoolPlace { buffer: u32::try_from(buffer).ok()?, at: VirtAddr(at), bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: PoolHandle =
        PoolHandle { pool: 0xfedc, index: u32::MAX, generation: 0x8765_4321, bytes: u32::MAX };

    #[test]
    fn calls_and_answers_survive() {
        for call in [
            PoolCall::Take,
            PoolCall::Free { buffer: u32::MAX },
            PoolCall::Pass { buffer: 7, bytes: u32::MAX },
            PoolCall::Claim(HANDLE),
            PoolCall::View(HANDLE),
        ] {
            assert_eq!(PoolCall::decode(&call.encode()), Some(call));
        }
        assert_eq!(PoolHandle::decode(&HANDLE.encode()), Some(HANDLE));
        let place = PoolPlace { buffer: 9, at: VirtAddr(u64::MAX), bytes: 1 << 40 };
        assert_eq!(PoolPlace::decode(&place.encode()), Some(place));
    }

    #[test]
    fn what_makes_no_sense_is_nothing() {
        for input in [&[][..], &[0; 23], &[0; 25], &[5; 24], &[0xff; 24]] {
            assert_eq!(PoolCall::decode(input), None);
        }
        for words in [[0, 1, 0], [1, 0, 1], [1, 1 << 32, 0], [2, 0, 1 << 32], [1 | 1 << 32, 0, 0]] {
            assert_eq!(PoolCall::decode(&pack(words)), None, "{words:?}");
        }
        assert_eq!(PoolHandle::decode(&pack([1 << 16, 0, 0])), None);
        assert_eq!(PoolPlace::decode(&pack([1 << 32, 0, 0])), None);
    }
}
