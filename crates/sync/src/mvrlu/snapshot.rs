//! A snapshot that is kept, for those who read for long.

use super::member::{HEADER, Member};
use super::section::Refused;
use crate::words::{get, store};

/// All objects as they were at one moment. It has a seat, and what it may read is kept, until it
/// is dropped.
#[derive(Debug)]
pub struct Snapshot {
    member: Member,
    clock: u64,
}

impl Member {
    /// Takes a snapshot for as long as it is wanted.
    pub fn snapshot(self) -> Snapshot {
        let clock = self.enter();
        Snapshot { member: self, clock }
    }
}

impl Snapshot {
    /// One word of an object; zero beyond its last.
    #[inline]
    pub fn word(&self, object: u32, index: usize) -> Result<u64, Refused> {
        let words = self.member.all.source(object, self.clock)?;
        Ok(words.get(HEADER + index).map_or(0, get))
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        store(self.member.all.of_seat(self.member.seat.number, 0), 0);
    }
}
