//! One connection as its user sees it: memory, and nothing else. What the user changes there, the
//! next turn of the stack acts upon.

use core::sync::atomic::Ordering::Relaxed;

use crate::memory::{Field, NOTE_WORDS, SEND_BYTES, Slot};
use crate::peer::Peer;

/// How a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Both sides may send.
    Open,
    /// The peer sends no more.
    PeerClosed,
    /// The user sends no more.
    Closing,
}

impl Phase {
    /// As people read it.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::PeerClosed => "peer closed",
            Phase::Closing => "closing",
        }
    }
}

/// A connection. Offsets count the bytes of each direction from its beginning.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'m> {
    slot: Slot<'m>,
}

/// What the user wants of the connection's end, as it stands in the slot.
pub(crate) const CLOSED: u64 = 1;
pub(crate) const ABORTED: u64 = 2;
pub(crate) const SHUT: u64 = 3;

impl<'m> Stream<'m> {
    pub(crate) fn of(slot: Slot<'m>) -> Stream<'m> {
        Stream { slot }
    }

    pub(crate) fn slot(&self) -> Slot<'m> {
        self.slot
    }

    /// Its number: no other connection ever has it.
    pub fn serial(&self) -> u64 {
        self.slot.get(Field::Serial)
    }

    /// Whose it is.
    pub fn peer(&self) -> Peer {
        Peer::decode(self.slot.peer())
    }

    /// How it stands.
    pub fn phase(&self) -> Phase {
        match (self.slot.get(Field::Closed), self.has_ended()) {
            (0, false) => Phase::Open,
            (0, true) => Phase::PeerClosed,
            _ => Phase::Closing,
        }
    }

    /// Bytes that have come and are not consumed.
    pub fn readable(&self) -> usize {
        self.received().saturating_sub(self.consumed()) as usize
    }

    /// Bytes that have come.
    pub fn received(&self) -> u64 {
        self.slot.get(Field::Received)
    }

    /// Bytes of them that were consumed.
    pub fn consumed(&self) -> u64 {
        self.slot.get(Field::Consumed)
    }

    /// Copies what has come and is not consumed, as much as there is room for; how many bytes.
    pub fn peek(&self, bytes: &mut [u8]) -> usize {
        let count = self.readable().min(bytes.len());
        self.slot.received().read(self.consumed(), &mut bytes[..count]);
        count
    }

    /// Copies what has come from the offset `at` on, which was not consumed; how many bytes.
    pub(crate) fn peek_at(&self, at: u64, bytes: &mut [u8]) -> usize {
        let at = at.max(self.consumed());
        let count = (self.received().saturating_sub(at) as usize).min(bytes.len());
        self.slot.received().read(at, &mut bytes[..count]);
        count
    }

    /// Copies what was given to be sent from the offset `at` on, which nobody has acknowledged; how
    /// many bytes.
    pub(crate) fn produced_at(&self, at: u64, bytes: &mut [u8]) -> usize {
        let count = (self.produced().saturating_sub(at) as usize).min(bytes.len());
        self.slot.sent().read(at, &mut bytes[..count]);
        count
    }

    /// How the user has ended it; 0 if he has not.
    pub(crate) fn closed(&self) -> u64 {
        self.slot.get(Field::Closed)
    }

    /// Gives the room of everything before the offset `to` back to the peer.
    pub fn consume(&self, to: u64) {
        self.slot.set(Field::Consumed, to.clamp(self.consumed(), self.received()));
    }

    /// Whether nothing comes any more behind what has come.
    pub fn has_ended(&self) -> bool {
        self.slot.get(Field::Finished) != 0
    }

    /// Bytes that were given to be sent.
    pub fn produced(&self) -> u64 {
        self.slot.get(Field::Produced)
    }

    /// Bytes of them that the peer has acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.slot.get(Field::Acknowledged)
    }

    /// Bytes that can be given to be sent now.
    pub fn room(&self) -> usize {
        (SEND_BYTES as u64).saturating_sub(self.produced().saturating_sub(self.acknowledged()))
            as usize
    }

    /// Stores bytes behind what was given to be sent, `ahead` bytes from there, as far as there is
    /// room; how many. They are not given yet.
    pub fn stage(&self, ahead: usize, bytes: &[u8]) -> usize {
        let count = self.room().saturating_sub(ahead).min(bytes.len());
        self.slot.sent().write(self.produced() + ahead as u64, &bytes[..count]);
        count
    }

    /// Gives what is staged before the offset `to` to be sent.
    pub fn produce(&self, to: u64) {
        let most = self.produced() + self.room() as u64;
        self.slot.set(Field::Produced, to.clamp(self.produced(), most));
    }

    /// Sends no more behind what was given, and takes no more: the connection's memory is free
    /// once the peer has ended it, too.
    pub fn close(&self) {
        if matches!(self.slot.get(Field::Closed), 0 | SHUT) {
            self.slot.set(Field::Closed, CLOSED);
        }
    }

    /// Sends no more behind what was given. What comes is there until it is [closed](Self::close).
    pub fn shut(&self) {
        if self.slot.get(Field::Closed) == 0 {
            self.slot.set(Field::Closed, SHUT);
        }
    }

    /// Ends the connection at once: the peer is told that it has failed.
    pub fn abort(&self) {
        self.slot.set(Field::Closed, ABORTED);
    }

    /// Whether the user has closed it, shut it, or given it up.
    pub fn is_closed(&self) -> bool {
        self.slot.get(Field::Closed) != 0
    }

    /// What the user has noted with the connection; zeros at its beginning.
    pub fn note(&self) -> [u64; NOTE_WORDS] {
        let words = self.slot.note(true);
        core::array::from_fn(|index| words[index].load(Relaxed))
    }

    /// Notes something else: whoever ends meanwhile has noted all of it or nothing.
    pub fn set_note(&self, note: &[u64; NOTE_WORDS]) {
        let words = self.slot.note(false);
        words.iter().zip(note).for_each(|(word, value)| word.store(*value, Relaxed));
        self.slot.set(Field::Note, self.slot.get(Field::Note) ^ 1);
    }
}
