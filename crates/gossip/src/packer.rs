//! Messages to one receiver that each fit a frame: what does not fit one goes into the next, and
//! what does not fit the last that may be sent is left out. Whoever misses it will ask.

use alloc::vec::Vec;

use nile_bosml::{Blob, Encode, Writer};

use crate::records::size;
use crate::wire::{CHANGES, Changes, EMPTY, Message, POLL, Poll, RANGE, ROW, Range, Row};

/// Messages in the making.
pub(crate) struct Packer {
    limit: usize,
    most: usize,
    done: Vec<Vec<u8>>,
    message: Message,
    bytes: usize,
}

impl Packer {
    /// At most `most` messages of at most `limit` bytes.
    pub fn new(sender: Row, flags: u8, limit: usize, most: usize) -> Packer {
        let message = Message::new(sender, flags);
        Packer { limit, most, done: Vec::new(), message, bytes: EMPTY }
    }

    /// Adds to what sort of messages those from here on are.
    pub fn flag(&mut self, flag: u8) {
        self.message.flags |= flag;
    }

    /// The sender has a new row.
    pub fn sign(&mut self, sender: Row) {
        self.message.sender = sender;
    }

    /// Bytes that are left of the message in the making.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.bytes)
    }

    /// Bytes that a message has for what is in it.
    pub fn whole_room(&self) -> usize {
        self.limit - EMPTY
    }

    /// Whether there is room for so many bytes, if need be in the next message.
    fn make_room(&mut self, bytes: usize) -> bool {
        if bytes > self.room() && self.bytes > EMPTY && self.done.len() + 1 < self.most {
            self.close();
        }
        let fits = bytes <= self.room();
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    fn close(&mut self) {
        let next = Message::new(self.message.sender.clone(), self.message.flags);
        let message = core::mem::replace(&mut self.message, next);
        let mut out = Writer::with_capacity(self.bytes);
        message.encode(&mut out);
        debug_assert_eq!(out.len(), self.bytes, "the parts were counted rightly");
        self.bytes = EMPTY;
        // No part is longer than a message, so no length is beyond what can be said.
        self.done.extend(out.into_bytes());
    }

    pub fn swim(&mut self, packet: Vec<u8>) {
        if self.make_room(packet.len()) {
            self.message.swim = Blob(packet);
        }
    }

    /// A rumour with what changed of its node's directory, which are in one message.
    pub fn news(&mut self, row: Row, changes: Option<Changes>) -> bool {
        let bytes = ROW + changes.as_ref().map_or(0, size);
        let fits = self.make_room(bytes);
        if fits {
            self.message.news.push(row);
            self.message.changes.extend(changes);
        }
        fits
    }

    pub fn row(&mut self, row: &Row) {
        if !self.message.rows.contains(row) && self.make_room(ROW) {
            self.message.rows.push(row.clone());
        }
    }

    pub fn range(&mut self, range: Range) -> bool {
        let fits = self.make_room(RANGE);
        if fits {
            self.message.ranges.push(range);
        }
        fits
    }

    /// A range with all its rows, which are in one message.
    pub fn listing(&mut self, range: Range, rows: &[Row]) {
        if self.make_room(RANGE + rows.len() * ROW) {
            self.message.ranges.push(Range { listed: true, ..range });
            self.message.rows.extend_from_slice(rows);
        }
    }

    pub fn poll(&mut self, poll: Poll) -> bool {
        let fits = self.make_room(POLL);
        if fits {
            self.message.polls.push(poll);
        }
        fits
    }

    /// What `changes` gives for the room that there is: that of this message, or that of the next.
    pub fn changes(&mut self, changes: impl Fn(usize) -> Option<Changes>) {
        let here = if self.room() > CHANGES { changes(self.room()) } else { None };
        let is_whole = here.as_ref().is_some_and(|it| it.version == it.latest);
        let found = if is_whole { here } else { changes(self.whole_room()).or(here) };
        if let Some(found) = found
            && self.make_room(size(&found))
        {
            self.message.changes.push(found);
        }
    }

    /// The messages. None if nothing is to be said.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        if self.bytes > EMPTY {
            self.close();
        }
        self.done
    }

    /// The messages, and one that says only who sends it if there is none.
    pub fn finish_anyway(mut self) -> Vec<Vec<u8>> {
        if self.bytes > EMPTY || self.done.is_empty() {
            self.close();
        }
        self.done
    }
}
