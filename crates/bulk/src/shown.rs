//! Where all of a transfer lies in its sender's memory, for a receiver that can read it there.

use alloc::vec::Vec;

use nile_abi::Part;

/// Bytes of the memory's name, and of each part.
const NAME_BYTES: usize = 8;
const PART_BYTES: usize = 16;

/// The most parts.
pub const MOST_PARTS: usize = 256;

/// The bytes of a transfer where its sender has them. They stay so until the transfer is over at
/// the sender.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// By which name the sender has shown the memory to those whom it has shown it to.
    pub memory: u64,
    /// The bytes, one part after the other: at least one and at most [`MOST_PARTS`], none empty.
    pub parts: Vec<Part>,
}

impl Shown {
    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.bytes)).sum()
    }

    /// Whether the data of an announcement can have so many bytes.
    pub fn fits(bytes: usize) -> bool {
        let parts = bytes.saturating_sub(NAME_BYTES);
        bytes == 0
            || (parts > 0 && parts.is_multiple_of(PART_BYTES) && parts / PART_BYTES <= MOST_PARTS)
    }

    /// The data of an announcement; none unless it has [as many bytes](Shown::fits) as it can.
    pub fn write(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(NAME_BYTES + PART_BYTES * self.parts.len());
        data.extend_from_slice(&self.memory.to_be_bytes());
        for Part { index, generation, start, bytes } in &self.parts {
            for word in [index, generation, start, bytes] {
                data.extend_from_slice(&word.to_be_bytes());
            }
        }
        if !Shown::fits(data.len()) {
            data.clear();
        }
        data
    }

    /// What the data of an announcement say; `None` if there are none.
    pub fn parse(data: &[u8]) -> Option<Shown> {
        let (memory, parts) = data.split_first_chunk::<NAME_BYTES>()?;
        let part = |words: &[u8; PART_BYTES]| {
            let [index, generation, start, bytes] = core::array::from_fn(|at| {
                u32::from_be_bytes(core::array::from_fn(|byte| words[4 * at + byte]))
            });
            Part { index, generation, start, bytes }
        };
        let parts: Vec<Part> = parts.as_chunks().0.iter().map(part).collect();
        Some(Shown { memory: u64::from_be_bytes(*memory), parts })
    }
}
