//! What a connection is about, as a note in the connection's own memory: which part of a dataset is
//! being sent. How far that is says the stream. So nothing is lost with this package's code: its
//! next incarnation reads the note and goes on (docs/network.md).
//!
//! The order of stores is what makes this so. The head of an answer, and a page, are staged behind
//! what was given to be sent; then the note is stored, in one step, which says how far the request
//! goes and where the body begins; then what was staged is given to be sent.

use alloc::string::String;

use nile_net::Stream;
use nile_net::memory::NOTE_WORDS;

use crate::answer::{Answer, Body, Piece};

/// The words of a note before the name.
const NAME_AT: usize = 9;

/// What is noted with a connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Note {
    /// Bytes that were read of the stream: the requests up to this answer.
    pub read: u64,
    /// Where the body of a dataset begins in what is sent; behind a page.
    pub base: u64,
    /// The connection ends with this answer.
    pub closes: bool,
    /// What is sent.
    pub piece: Option<Piece>,
}

impl Note {
    /// What is noted with this connection. What is no note, as somebody else has written there, is
    /// `None`.
    pub fn of(stream: &Stream<'_>) -> Option<Note> {
        Note::decode(&stream.note())
    }

    fn decode(words: &[u64; NOTE_WORDS]) -> Option<Note> {
        let [read, base, flags, epoch, attempt, first, bytes, length, check] =
            *words.first_chunk::<NAME_AT>()?;
        if words.iter().all(|word| *word == 0) {
            return Some(Note::default());
        }
        if check != checksum(words) {
            return None;
        }
        let length = usize::try_from(length).ok().filter(|length| *length <= 128)?;
        let name = words[NAME_AT..].iter().flat_map(|word| word.to_le_bytes()).take(length);
        let piece = match length {
            0 => None,
            _ => Some(Piece {
                name: String::from_utf8(name.collect()).ok()?,
                epoch,
                attempt: u32::try_from(attempt).ok()?,
                first,
                bytes,
            }),
        };
        Some(Note { read, base, closes: flags != 0, piece })
    }

    fn encode(&self) -> [u64; NOTE_WORDS] {
        let mut words = [0; NOTE_WORDS];
        words[..3].copy_from_slice(&[self.read, self.base, u64::from(self.closes)]);
        if let Some(Piece { name, epoch, attempt, first, bytes }) = &self.piece {
            let length = name.len() as u64;
            words[3..8].copy_from_slice(&[*epoch, u64::from(*attempt), *first, *bytes, length]);
            let chunks = name.as_bytes().chunks(8);
            for (word, chunk) in words[NAME_AT..].iter_mut().zip(chunks) {
                let mut whole = [0; 8];
                whole[..chunk.len()].copy_from_slice(chunk);
                *word = u64::from_le_bytes(whole);
            }
        }
        words[NAME_AT - 1] = checksum(&words);
        words
    }

    /// Does what an incarnation has noted and not come to do any more.
    pub fn catch_up(&self, stream: &Stream<'_>) {
        stream.consume(self.read);
        if stream.produced() < self.base {
            stream.produce(self.base);
        }
    }

    /// How many bytes of the piece were given to be sent.
    pub fn sent(&self, stream: &Stream<'_>) -> u64 {
        stream.produced().saturating_sub(self.base)
    }

    /// Whether all of the answer was given to be sent.
    pub fn is_done(&self, stream: &Stream<'_>) -> bool {
        self.piece.as_ref().is_none_or(|piece| self.sent(stream) >= piece.bytes)
    }
}

/// Begins to answer a request of so many bytes. `false` if there is no room for it yet.
pub fn begin(
    stream: &Stream<'_>,
    answer: &Answer,
    length: usize,
    stays: bool,
    is_head: bool,
) -> bool {
    let head = answer.head(stays);
    let (page, piece) = match &answer.body {
        _ if is_head => ("", None),
        Body::Page(text) => (text.as_str(), None),
        Body::Dataset(piece) => ("", Some(piece.clone())),
    };
    if stream.room() < head.len() + page.len() {
        return false;
    }
    stream.stage(0, head.as_bytes());
    stream.stage(head.len(), page.as_bytes());
    let note = Note {
        read: stream.consumed() + length as u64,
        base: stream.produced() + (head.len() + page.len()) as u64,
        closes: !stays,
        piece,
    };
    stream.set_note(&note.encode());
    note.catch_up(stream);
    true
}

/// Over all words but that of the checksum.
fn checksum(words: &[u64; NOTE_WORDS]) -> u64 {
    let others = words.iter().enumerate().filter(|(place, _)| *place != NAME_AT - 1);
    others.fold(0x9e37_79b9_7f4a_7c15, |sum, (_, word)| {
        let mixed = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_what_is_none_is_not_believed() {
        let name: String = "n".repeat(128);
        let piece = Piece { name, epoch: 1 << 40, attempt: 7, first: 5, bytes: 1 << 50 };
        for piece in [None, Some(piece)] {
            let note = Note { read: 3, base: 9, closes: true, piece };
            let words = note.encode();
            assert_eq!(Note::decode(&words), Some(note));
            for place in 0..NAME_AT + 16 {
                let mut other = words;
                other[place] ^= 1 << 17;
                assert_eq!(Note::decode(&other), None, "word {place}");
            }
        }
        assert_eq!(Note::decode(&[0; NOTE_WORDS]), Some(Note::default()));
    }
}
