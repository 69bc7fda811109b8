//! The words of a cell: how what requests, replies and events name is written in them.

use nile_abi::{ChannelId, CoreId, PhysAddr, Status, VirtAddr};
use nile_platform::Grant;
use nile_platform::user::Access;

use super::{BYTES, End};

/// All words of a cell but the first.
pub type Words = [u64; 6];

/// A channel and one of its ends in one word: the end is bit 32.
pub fn channel_word(channel: ChannelId, end: End) -> u64 {
    u64::from(end == End::Receiver) << 32 | u64::from(channel.0)
}

/// What such a word says.
pub fn channel_end(word: u64) -> (ChannelId, End) {
    let end = if word >> 32 == 0 { End::Sender } else { End::Receiver };
    (ChannelId(word as u32), end)
}

/// Where a grant is in the user half.
pub fn place_words(grant: Grant, at: VirtAddr, access: Access) -> Words {
    let access = match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::Execute => 2,
    };
    [grant.start.0, grant.bytes, at.0, access, 0, 0]
}

/// What such a word says of access.
pub fn access(word: u64) -> Option<Access> {
    [Access::Read, Access::Write, Access::Execute].get(usize::try_from(word).ok()?).copied()
}

/// A grant of two words.
pub fn grant(start: u64, bytes: u64) -> Grant {
    Grant { start: PhysAddr(start), bytes }
}

/// A core of a word.
pub fn core(word: u64) -> Option<CoreId> {
    narrow(word).map(CoreId)
}

/// A word that is to fit into less.
pub fn narrow<T: TryFrom<u64>>(word: u64) -> Option<T> {
    T::try_from(word).ok()
}

/// The content of a cell.
pub fn encode(operation: u8, status: Status, number: u64, words: Words) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&(number << 16).to_le_bytes());
    bytes[0] = operation;
    bytes[1] = status.code() as u8;
    for (place, word) in bytes[8..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The operation, status, number and words of a cell.
pub fn decode(bytes: &[u8]) -> Option<(u8, Status, u64, Words)> {
    let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
    let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |w, b| w << 8 | u64::from(*b));
    let words = [8, 16, 24, 32, 40, 48].map(word);
    Some((bytes[0], Status::from_code(u16::from(bytes[1]))?, word(0) >> 16, words))
}
