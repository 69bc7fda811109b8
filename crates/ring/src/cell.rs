//! A cell: one message in one cache line.
//!
//! ```text
//! word 0   sequence 32 | kind 8 | length 8 | generation 16
//! word 1-7 payload, 56 bytes
//! ```
//!
//! The sequence says for which position of the stream the cell is full, so a receiver polls the
//! line that brings the message itself, and no other line travels per message.

use core::fmt;

use crate::region::Line;
use crate::sync::Ordering::{Acquire, Relaxed, Release};

/// Words of a cell after its header. A model needs no more than two to see a torn message.
const PAYLOAD_WORDS: usize = if cfg!(loom) { 2 } else { 7 };

/// The most bytes a message carries inside its cell.
pub const PAYLOAD_BYTES: usize = 8 * PAYLOAD_WORDS;

/// A small message. What its kind and bytes mean is between sender and receiver; a large message
/// carries the [`Handle`](crate::Handle) of a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Message {
    kind: u8,
    len: u8,
    payload: Payload,
}

/// Aligned so that it moves as words.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
struct Payload([u8; PAYLOAD_BYTES]);

/// The payload does not fit a cell; send a buffer's handle instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong;

impl Message {
    /// A message of at most [`PAYLOAD_BYTES`] bytes.
    #[inline]
    pub fn new(kind: u8, payload: &[u8]) -> Result<Message, TooLong> {
        let mut bytes = [0; PAYLOAD_BYTES];
        bytes.get_mut(..payload.len()).ok_or(TooLong)?.copy_from_slice(payload);
        Ok(Message { kind, len: payload.len() as u8, payload: Payload(bytes) })
    }

    /// What the sender says this message is.
    #[inline]
    pub fn kind(&self) -> u8 {
        self.kind
    }

    /// The bytes that came with it.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.payload.0[..usize::from(self.len)]
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message(kind {}, {:02x?})", self.kind, self.payload())
    }
}

/// The first word of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The position that the cell is full for, plus one; zeroed memory is full for none.
    pub sequence: u32,
    pub kind: u8,
    pub len: u8,
    /// Low bits of the receiver's incarnation that the sender meant.
    pub generation: u16,
}

impl Header {
    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.sequence)
            | u64::from(self.kind) << 32
            | u64::from(self.len) << 40
            | u64::from(self.generation) << 48
    }

    #[inline]
    fn unpack(word: u64) -> Header {
        Header {
            sequence: word as u32,
            kind: (word >> 32) as u8,
            len: (word >> 40) as u8,
            generation: (word >> 48) as u16,
        }
    }

    /// The header that `cell` shows now; what it announces can be read after this.
    #[inline]
    pub fn load(cell: &Line) -> Header {
        Header::unpack(cell[0].load(Acquire))
    }
}

/// Fills `cell` and makes it full for `position`.
#[inline]
pub(crate) fn publish(cell: &Line, position: u32, generation: u16, message: &Message) {
    let (words, _) = message.payload.0.as_chunks::<8>();
    for (word, bytes) in cell[1..].iter().zip(words) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    let header = Header {
        sequence: position.wrapping_add(1),
        kind: message.kind,
        len: message.len,
        generation,
    };
    cell[0].store(header.pack(), Release);
}

/// The message that `header` announced in `cell`, unless its length is impossible.
#[inline]
pub(crate) fn read(cell: &Line, header: Header) -> Option<Message> {
    if usize::from(header.len) > PAYLOAD_BYTES {
        return None;
    }
    let mut payload = Payload([0; PAYLOAD_BYTES]);
    let (words, _) = payload.0.as_chunks_mut::<8>();
    for (bytes, word) in words.iter_mut().zip(&cell[1..]) {
        *bytes = word.load(Relaxed).to_le_bytes();
    }
    Some(Message { kind: header.kind, len: header.len, payload })
}

#[cfg(not(loom))]
const _: () = assert!(PAYLOAD_BYTES == 56 && 8 + PAYLOAD_BYTES == size_of::<Line>());

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_up_to_56_bytes() {
        let bytes = [9; PAYLOAD_BYTES + 1];
        assert_eq!(Message::new(1, &bytes), Err(TooLong));
        let message = Message::new(1, &bytes[1..]).unwrap();
        assert_eq!((message.kind(), message.payload()), (1, &bytes[1..]));
        assert_eq!(Message::new(2, &[]).unwrap().payload(), &[]);
    }

    #[test]
    fn a_header_is_one_word() {
        let header = Header { sequence: 0xfedc_ba98, kind: 0x76, len: 0x54, generation: 0x3210 };
        assert_eq!(header.pack(), 0x3210_5476_fedc_ba98);
        assert_eq!(Header::unpack(header.pack()), header);
    }
}
