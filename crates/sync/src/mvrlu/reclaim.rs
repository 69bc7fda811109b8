//! What becomes of old versions, and of what a seat's former life has left.

use nile_ring::Word;

use super::member::{ABORTED, DROPPED, HEADER, Member, OPEN, Place, RECLAIM, Version};
use crate::seat::Seat;
use crate::words::{exchange, get, load, put, store};

impl Member {
    /// Slots of the log that are in use.
    pub fn log_used(&self) -> u64 {
        let word = |word| load(self.all.of_seat(self.seat.number, word));
        (word(1) >> 1) - word(2)
    }

    /// Writes versions back that nobody needs apart from their masters, and frees the slots of
    /// those that were written back when the last such reader has ended. Never waits; two calls
    /// while nobody reads empty the log. How many slots are free then.
    pub fn reclaim(&mut self) -> u64 {
        let seat = self.seat.number;
        let word = |word| self.all.of_seat(seat, word);
        let oldest = self.all.oldest_snapshot();
        if oldest >= load(word(4)) {
            store(word(2), load(word(3)));
        }
        let end = load(word(1)) >> 1;
        let from = load(word(3));
        let mut retired = from;
        while retired < end && self.retire(retired, oldest) {
            let head = self.all.slot(Place { seat, position: retired });
            retired += 1 + load(&head[1]);
        }
        if retired != from {
            store(word(4), u64::MAX);
            store(word(3), retired);
            store(word(4), self.all.advance());
        }
        u64::from(self.all.shape().log) - self.log_used()
    }

    /// Takes a set's copies off their chains; `false` if somebody may need them.
    fn retire(&self, head: u64, oldest: u64) -> bool {
        let seat = self.seat.number;
        let set = self.all.slot(Place { seat, position: head });
        let clock = self.all.settled(&set[0]);
        let mut copies = 1..=load(&set[1]);
        let is_needed = clock != ABORTED && clock > oldest;
        clock == DROPPED
            || !is_needed
                && copies.all(|since| {
                    let copy = self.all.slot(Place { seat, position: head + since });
                    let object = self.all.object((load(&copy[0]) >> 32) as u32);
                    object.is_none_or(|master| self.write_back(master, oldest))
                })
    }

    /// Makes the newest version that every snapshot sees an object's master; `false` if somebody
    /// writes the object.
    fn write_back(&self, master: &[Word], oldest: u64) -> bool {
        if !self.all.lock(master, self.seat, RECLAIM) {
            return false;
        }
        self.all.newest(master);
        if let Some(Version::Copy { copy, above }) = self.all.version(master, oldest) {
            for (to, from) in master[HEADER..].iter().zip(&copy[HEADER..]) {
                put(to, get(from));
            }
            let link = above.map_or(&master[1], |above| &self.all.slot(above)[1]);
            store(link, 0);
        }
        store(&master[0], 0);
        true
    }

    /// Undoes the set that the seat's former life has left open, or finishes it.
    pub(super) fn recover(&mut self) {
        let seat = self.seat.number;
        store(self.all.of_seat(seat, 0), 0);
        if load(self.all.of_seat(seat, 4)) == u64::MAX {
            store(self.all.of_seat(seat, 4), self.all.advance());
        }
        let end = load(self.all.of_seat(seat, 1));
        if end & 1 == 0 {
            return;
        }
        let head = end >> 1;
        let set = self.all.slot(Place { seat, position: head });
        let _ = exchange(&set[0], OPEN, ABORTED);
        self.all.settled(&set[0]);
        let copies = load(&set[1]);
        for since in 1..=copies {
            let copy = self.all.slot(Place { seat, position: head + since });
            let Some(master) = self.all.object((load(&copy[0]) >> 32) as u32) else { continue };
            let is_left = Seat::of(load(&master[0])).is_some_and(|it| it.number == seat);
            if is_left && self.all.lock(master, self.seat, RECLAIM) {
                self.all.newest(master);
                store(&master[0], 0);
            }
        }
        // The slots are free when nobody reads who has seen them on a chain.
        store(self.all.of_seat(seat, 1), (head + 1 + copies) << 1);
    }
}
