//! How far the answers of a connection are, as a note in the connection's own memory: the next
//! incarnation of the package goes on there (docs/network.md). An answer is staged; then the note
//! is stored, in one step, which says how far the requests go and the answers; then what was staged
//! is given to be sent. So no answer is sent twice or left out, and a request that was done and not
//! answered is done again.

use nile_net::Stream;
use nile_net::memory::NOTE_WORDS;

use crate::answer::Piece;

/// What is noted with a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Note {
    /// Bytes of the requests that were answered: they are passed over when they have come.
    pub read: u64,
    /// Bytes of the answers.
    pub written: u64,
    /// From which of the next request's keys on it is to be answered.
    pub from: u32,
    /// The connection ends.
    pub closes: bool,
}

impl Note {
    /// What is noted with this connection; `None` if that is no note.
    pub fn of(stream: &Stream<'_>) -> Option<Note> {
        Note::decode(&stream.note())
    }

    fn decode(words: &[u64; NOTE_WORDS]) -> Option<Note> {
        let [read, written, rest, check, ..] = *words;
        let note = Note { read, written, from: rest as u32, closes: rest >> 32 != 0 };
        let is_new = words.iter().all(|word| *word == 0);
        (is_new || check == checksum(read, written, rest)).then_some(note)
    }

    fn encode(&self) -> [u64; NOTE_WORDS] {
        let rest = u64::from(self.closes) << 32 | u64::from(self.from);
        let mut words = [0; NOTE_WORDS];
        let check = checksum(self.read, self.written, rest);
        words[..4].copy_from_slice(&[self.read, self.written, rest, check]);
        words
    }

    /// Does what was noted and is not done yet. Whether all requests that were answered have come.
    pub fn catch_up(&self, stream: &Stream<'_>) -> bool {
        if stream.produced() < self.written {
            stream.produce(self.written);
        }
        let come = self.read.min(stream.received());
        if stream.consumed() < come {
            stream.consume(come);
        }
        come == self.read
    }

    /// Answers a request of so many bytes, or a part of it. `false` if there is no room for it yet.
    pub fn answer(&self, stream: &Stream<'_>, piece: &Piece, bytes: u64) -> bool {
        if stream.room() < piece.bytes.len() {
            return false;
        }
        stream.stage(0, &piece.bytes);
        let note = Note {
            read: if piece.next.is_some() { self.read } else { stream.consumed() + bytes },
            written: stream.produced() + piece.bytes.len() as u64,
            from: piece.next.unwrap_or(0),
            closes: piece.closes,
        };
        stream.set_note(&note.encode());
        note.catch_up(stream);
        true
    }
}

fn checksum(read: u64, written: u64, rest: u64) -> u64 {
    [read, written, rest].into_iter().fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        let mixed = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 32)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_comes_back_and_what_is_none_is_not_believed() {
        for from in [0, 7, u32::MAX] {
            let note = Note { read: 1 << 40, written: 9, from, closes: from == 7 };
            let words = note.encode();
            assert_eq!(Note::decode(&words), Some(note));
            for place in 0..4 {
                let mut other = words;
                other[place] ^= 1 << 17;
                assert_eq!(Note::decode(&other), None, "word {place}");
            }
        }
        assert_eq!(Note::decode(&[0; NOTE_WORDS]), Some(Note::default()));
    }
}
