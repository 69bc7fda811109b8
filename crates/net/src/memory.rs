//! The memory that connections live in: words that are handed in, and that may outlive whoever
//! works on them. Only the words that commit something are stored with release order; what they
//! commit was stored before. So whoever ends between any two stores leaves memory that can be read.
//!
//! | words    | what                                                                            |
//! | -------- | ------------------------------------------------------------------------------- |
//! | 0        | [`MAGIC`], stored last                                                          |
//! | 1, 2     | the secret that initial sequence numbers and the hash of half-open ones come from |
//! | 3        | the number of the next connection                                               |
//! | 4..772   | half-open connections, six words each                                           |
//! | 772..    | slots, [`SLOT_WORDS`] each                                                      |

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// What tells this layout from any other.
const MAGIC: u64 = u64::from_le_bytes(*b"NILENET2");

/// Half-open connections that can be at once.
pub const HALF_OPEN: usize = 128;
pub(crate) const HALF_OPEN_WORDS: usize = 6;

/// Bytes of the ring of what has come and is not consumed.
pub const RECEIVE_BYTES: usize = 8 << 10;

/// Bytes of the ring of what is sent and not acknowledged.
pub const SEND_BYTES: usize = 64 << 10;

/// Words that the user of a connection may keep with it.
pub const NOTE_WORDS: usize = 48;

const HEAD_WORDS: usize = 16;
const RECEIVE_AT: usize = HEAD_WORDS + 2 * NOTE_WORDS;
const SEND_AT: usize = RECEIVE_AT + RECEIVE_BYTES / 8;

/// Words of a slot.
pub const SLOT_WORDS: usize = SEND_AT + SEND_BYTES / 8;

const SLOTS_AT: usize = 4 + HALF_OPEN * HALF_OPEN_WORDS;

/// Words of all of it, for so many connections at once.
pub const fn words(slots: usize) -> usize {
    SLOTS_AT + slots * SLOT_WORDS
}

/// Memory of connections.
#[derive(Clone, Copy, Debug)]
pub struct Memory<'m>(&'m [AtomicU64]);

impl<'m> Memory<'m> {
    /// The memory in `words`, for as many connections as find room. What an earlier user has left
    /// there is found there; else it is made, with `seed`, which nobody can predict. `None` if it
    /// is too short for one.
    pub fn new(words: &'m [AtomicU64], seed: [u64; 2]) -> Option<Memory<'m>> {
        if words.len() < self::words(1) {
            return None;
        }
        if words[0].load(Relaxed) != MAGIC {
            words[4..SLOTS_AT].iter().for_each(|word| word.store(0, Relaxed));
            let memory = Memory(words);
            (0..memory.slots()).for_each(|index| memory.slot(index).set(Field::Serial, 0));
            words[1].store(seed[0], Relaxed);
            words[2].store(seed[1], Relaxed);
            words[3].store(1, Relaxed);
            words[0].store(MAGIC, Release);
        }
        Some(Memory(words))
    }

    /// Connections that can be at once.
    pub fn slots(&self) -> usize {
        (self.0.len() - SLOTS_AT) / SLOT_WORDS
    }

    pub(crate) fn secret(&self) -> [u64; 2] {
        [self.0[1].load(Relaxed), self.0[2].load(Relaxed)]
    }

    /// A number that no connection has had.
    pub(crate) fn next_serial(&self) -> u64 {
        self.0[3].fetch_add(1, Relaxed).max(1)
    }

    pub(crate) fn half_open(&self, index: usize) -> &'m [AtomicU64] {
        let at = 4 + index * HALF_OPEN_WORDS;
        &self.0[at..at + HALF_OPEN_WORDS]
    }

    pub(crate) fn slot(&self, index: usize) -> Slot<'m> {
        let at = SLOTS_AT + index * SLOT_WORDS;
        Slot(&self.0[at..at + SLOT_WORDS])
    }
}

/// A word at the beginning of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Field {
    /// The connection's number, stored last and cleared first; 0: the slot is free.
    Serial = 0,
    /// Whose it is: the ports, and the [peer's address](crate::Peer).
    Ports,
    /// See above.
    PeerHigh,
    /// See above.
    PeerLow,
    /// Both initial sequence numbers, the peer's in the upper half.
    Sequences,
    /// The peer's largest segment, window scale and abilities.
    Options,
    /// What the five words before are to be.
    Checksum,
    /// Bytes that have come in order; never less than what the peer was told.
    Received,
    /// Whether the peer sends no more.
    Finished,
    /// Bytes of them that the user has taken.
    Consumed,
    /// Bytes that the user has given to be sent.
    Produced,
    /// Bytes of them that the peer has acknowledged; it may lag.
    Acknowledged,
    /// Whether the user sends no more.
    Closed,
    /// The peer's window as it said it last.
    Window,
    /// Which of the two notes counts: the lowest bit.
    Note,
}

/// The memory of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot<'m>(&'m [AtomicU64]);

impl<'m> Slot<'m> {
    pub fn get(&self, field: Field) -> u64 {
        self.0[field as usize].load(Relaxed)
    }

    /// Commits what was stored before.
    pub fn set(&self, field: Field, value: u64) {
        #[cfg(test)]
        crate::tests::steps::step();
        self.0[field as usize].store(value, Release);
    }

    /// The note that counts, or the other one.
    pub fn note(&self, counts: bool) -> &'m [AtomicU64] {
        let which = (self.get(Field::Note) & 1) ^ u64::from(!counts);
        let at = HEAD_WORDS + which as usize * NOTE_WORDS;
        &self.0[at..at + NOTE_WORDS]
    }

    pub fn received(&self) -> Ring<'m> {
        Ring(&self.0[RECEIVE_AT..SEND_AT])
    }

    pub fn sent(&self) -> Ring<'m> {
        Ring(&self.0[SEND_AT..])
    }

    /// Whose it is, in words.
    pub fn peer(&self) -> [u64; 3] {
        [Field::Ports, Field::PeerHigh, Field::PeerLow].map(|field| self.get(field))
    }

    /// Makes it the slot of a connection that has just come about.
    pub fn open(&self, serial: u64, peer: [u64; 3], [sequences, options]: [u64; 2], window: u64) {
        self.set(Field::Serial, 0);
        for (field, word) in [Field::Ports, Field::PeerHigh, Field::PeerLow].into_iter().zip(peer) {
            self.set(field, word);
        }
        self.set(Field::Sequences, sequences);
        self.set(Field::Options, options);
        self.set(Field::Checksum, checksum(peer, [sequences, options]));
        for field in [
            Field::Received,
            Field::Finished,
            Field::Consumed,
            Field::Produced,
            Field::Acknowledged,
            Field::Closed,
            Field::Note,
        ] {
            self.set(field, 0);
        }
        self.note(true).iter().for_each(|word| word.store(0, Relaxed));
        self.set(Field::Window, window);
        self.set(Field::Serial, serial);
    }

    /// Whether what it says can be of a connection: that somebody else has written to it costs
    /// that connection alone.
    pub fn is_sound(&self) -> bool {
        let said = [Field::Sequences, Field::Options].map(|field| self.get(field));
        let held = |from: Field, to: Field, most: usize| {
            self.get(to).checked_sub(self.get(from)).is_some_and(|held| held <= most as u64)
        };
        self.get(Field::Checksum) == checksum(self.peer(), said)
            && held(Field::Consumed, Field::Received, RECEIVE_BYTES)
            && held(Field::Acknowledged, Field::Produced, SEND_BYTES)
    }
}

/// Splitmix's finish over five words: what no stray write leaves by chance.
fn checksum(peer: [u64; 3], said: [u64; 2]) -> u64 {
    peer.into_iter().chain(said).fold(MAGIC, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) ^ (mixed >> 29)
    })
}

/// Bytes in words: a power of two of them. The byte of offset `n` of a stream is in place `n` mod
/// the ring's length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'m>(&'m [AtomicU64]);

impl Ring<'_> {
    pub fn bytes(&self) -> usize {
        self.0.len() * 8
    }

    /// Stores bytes at an offset of the stream.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.pieces(at, bytes.len(), |word, within, range| {
            let piece = &bytes[range];
            let mut whole = match piece.len() {
                8 => [0; 8],
                _ => word.load(Relaxed).to_le_bytes(),
            };
            whole[within..within + piece.len()].copy_from_slice(piece);
            word.store(u64::from_le_bytes(whole), Relaxed);
        });
    }

    /// Fills `bytes` with what is at an offset of the stream.
    pub fn read(&self, at: u64, bytes: &mut [u8]) {
        self.pieces(at, bytes.len(), |word, within, range| {
            let whole = word.load(Relaxed).to_le_bytes();
            let piece = &mut bytes[range];
            piece.copy_from_slice(&whole[within..within + piece.len()]);
        });
    }

    /// Each word of a range of the stream: where the range's piece begins in it, and which piece.
    fn pieces(
        &self,
        at: u64,
        length: usize,
        mut each: impl FnMut(&AtomicU64, usize, core::ops::Range<usize>),
    ) {
        let mut done = 0;
        let mut place = (at as usize) & (self.bytes() - 1);
        while done < length {
            let within = place % 8;
            let piece = (8 - within).min(length - done);
            each(&self.0[place / 8], within, done..done + piece);
            done += piece;
            place = (place + piece) & (self.bytes() - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_ring_gives_what_was_stored_wherever_it_lies() {
        let words: Vec<AtomicU64> = (0..8).map(|_| AtomicU64::new(0)).collect();
        let ring = Ring(&words);
        for at in (0..200).chain([u64::MAX - 70]) {
            for length in 0..=64 {
                let bytes: Vec<u8> = (0..length).map(|it| (it as u64 + at) as u8).collect();
                ring.write(at, &bytes);
                let mut found = std::vec![0; length];
                ring.read(at, &mut found);
                assert_eq!(found, bytes, "{length} bytes at {at}");
            }
        }
    }

    #[test]
    fn what_was_left_is_found_and_what_is_damaged_is_not_sound() {
        let words: Vec<AtomicU64> = (0..words(6)).map(|_| AtomicU64::new(u64::MAX)).collect();
        assert!(Memory::new(&words[..super::words(1) - 1], [1, 2]).is_none());
        assert_eq!(Memory::new(&words, [1, 2]).map(|it| it.slots()), Some(6));
        let memory = Memory::new(&words, [1, 2]).unwrap();
        assert_eq!(memory.slot(5).get(Field::Serial), 0);
        memory.slot(5).open(7, [1, 2, 3], [4, 5], 4);
        let memory = Memory::new(&words, [3, 4]).unwrap();
        assert_eq!((memory.secret(), memory.next_serial()), ([1, 2], 1));
        let slot = memory.slot(5);
        assert!(slot.get(Field::Serial) == 7 && slot.is_sound());
        for (field, value) in [
            (Field::Ports, 2),
            (Field::PeerLow, 2),
            (Field::Sequences, 0),
            (Field::Options, 1 << 40),
            (Field::Consumed, 1),
            (Field::Produced, SEND_BYTES as u64 + 1),
        ] {
            let was = slot.get(field);
            slot.set(field, value);
            assert!(!slot.is_sound(), "{field:?}");
            slot.set(field, was);
        }
        assert!(slot.is_sound());
    }
}
