//! A snapshot, and what is changed in it.

use nile_ring::Word;

use super::member::{COMMITTING, DROPPED, FIRST_CLOCK, HEADER, Member, OPEN, Place};
use crate::seat::Seat;
use crate::words::{get, load, put, store};

/// Why an object cannot be read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Somebody else writes it, or has since the snapshot: abort, and try with a new one.
    Conflict,
    /// The log has no slot left: abort, reclaim, and try again.
    Busy,
    /// There is no such object.
    NoObject,
    /// What the shared words say cannot be.
    Corrupt,
}

/// A snapshot of all objects, and what its owner changes. Dropping it is aborting it.
#[derive(Debug)]
pub struct Section<'a> {
    member: &'a mut Member,
    /// The snapshot's: versions that are younger are not read.
    clock: u64,
    /// Objects that were locked; zero if nothing is open.
    copies: u32,
    is_open: bool,
    /// Why something was refused, so that nothing is committed.
    refused: Option<Refused>,
}

impl<'a> Section<'a> {
    pub(super) fn new(member: &'a mut Member, clock: u64) -> Section<'a> {
        Section { member, clock, copies: 0, is_open: false, refused: None }
    }

    /// When the snapshot was taken, by the clock that [`Section::commit`] tells; without one, some
    /// time before the section began.
    pub fn clock(&self) -> u64 {
        self.member.known - FIRST_CLOCK
    }

    /// Reads the words of an object from the first on, as many as `into` has room for: as the
    /// snapshot has them, or as this section has changed them.
    #[inline]
    pub fn read(&self, object: u32, into: &mut [u64]) -> Result<(), Refused> {
        let words = self.source(object)?;
        for (value, word) in into.iter_mut().zip(&words[HEADER..]) {
            *value = get(word);
        }
        Ok(())
    }

    /// One word of an object; zero beyond its last.
    #[inline]
    pub fn word(&self, object: u32, index: usize) -> Result<u64, Refused> {
        let words = self.source(object)?;
        Ok(words.get(HEADER + index).map_or(0, get))
    }

    /// Where an object's words are to be read.
    #[inline]
    fn source(&self, object: u32) -> Result<&[Word], Refused> {
        let all = &self.member.all;
        if self.copies > 0
            && let Some(place) = self.own(all.object(object).ok_or(Refused::NoObject)?)
        {
            return Ok(all.slot(place));
        }
        all.source(object, self.clock)
    }

    /// This section's copy of an object, if it has locked it.
    #[inline]
    fn own(&self, master: &[Word]) -> Option<Place> {
        let word = load(&master[0]);
        let me = self.member.seat;
        let head = self.log_end();
        let since = ((word >> 32) as u32).wrapping_sub(head as u32);
        let is_mine = Seat::of(word) == Some(me) && since <= self.copies;
        is_mine.then(|| Place { seat: me.number, position: head + u64::from(since) })
    }

    #[inline]
    fn log_end(&self) -> u64 {
        load(self.member.all.of_seat(self.member.seat.number, 1)) >> 1
    }

    /// Locks an object, and gives it a new version of which `change` fills the words. They are at
    /// first as in the newest version, which is not younger than the snapshot.
    pub fn write(
        &mut self,
        object: u32,
        change: impl FnOnce(&mut Draft<'_>),
    ) -> Result<(), Refused> {
        let place = self.lock(object)?;
        change(&mut Draft(&self.member.all.slot(place)[HEADER..]));
        Ok(())
    }

    /// Locks an object without changing it: nobody else changes it before this section ends, and
    /// nobody has since its snapshot.
    pub fn hold(&mut self, object: u32) -> Result<(), Refused> {
        self.lock(object).map(|_| ())
    }

    #[inline]
    fn lock(&mut self, object: u32) -> Result<Place, Refused> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        self.try_lock(object).inspect_err(|refused| self.refused = Some(*refused))
    }

    #[inline]
    fn try_lock(&mut self, object: u32) -> Result<Place, Refused> {
        let seat = self.member.seat;
        if self.copies > 0 {
            let master = self.member.all.object(object).ok_or(Refused::NoObject)?;
            if let Some(place) = self.own(master) {
                return Ok(place);
            }
        }
        let place = self.enter(object)?;
        let all = &self.member.all;
        let master = all.object(object).ok_or(Refused::NoObject)?;
        if !all.lock(master, seat, place.position as u32) {
            return Err(Refused::Conflict);
        }
        let (link, source) = match all.newest(master) {
            None => (0, master),
            Some(newest) if newest.clock > self.clock => return Err(Refused::Conflict),
            Some(newest) => (newest.link, newest.copy),
        };
        let copy = all.slot(place);
        store(&copy[1], link);
        for (to, from) in copy[HEADER..].iter().zip(&source[HEADER..]) {
            put(to, get(from));
        }
        Ok(place)
    }

    /// Enters an object in the log, and opens a set there if none is.
    fn enter(&mut self, object: u32) -> Result<Place, Refused> {
        let all = &self.member.all;
        all.object(object).ok_or(Refused::NoObject)?;
        let seat = self.member.seat.number;
        let head = self.log_end();
        let begin = load(all.of_seat(seat, 2));
        let since = self.copies + 1;
        if head + u64::from(since) - begin >= u64::from(all.shape().log) {
            return Err(Refused::Busy);
        }
        let slot = all.slot(Place { seat, position: head });
        if !self.is_open {
            store(&slot[0], OPEN);
            store(&slot[1], 0);
            store(all.of_seat(seat, 1), head << 1 | 1);
            self.is_open = true;
        }
        let place = Place { seat, position: head + u64::from(since) };
        store(&all.slot(place)[0], u64::from(object) << 32 | u64::from(since));
        store(&slot[1], since.into());
        self.copies = since;
        Ok(place)
    }

    /// Makes what was changed the newest versions, all in one moment; when that was. A section that
    /// changed nothing ends with [its clock](Section::clock), and one that was refused a lock is
    /// aborted.
    pub fn commit(mut self) -> Result<u64, Refused> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        if !self.is_open {
            return Ok(self.clock());
        }
        let all = &self.member.all;
        let head = self.log_end();
        let seat = self.member.seat.number;
        for since in 1..=u64::from(self.copies) {
            let place = Place { seat, position: head + since };
            let object = (load(&all.slot(place)[0]) >> 32) as u32;
            if let Some(master) = all.object(object)
                && self.own(master) == Some(place)
            {
                store(&master[1], place.pack());
            }
        }
        let state = &all.slot(Place { seat, position: head })[0];
        store(state, COMMITTING);
        let clock = all.settled(state);
        self.member.known = clock;
        self.close();
        Ok(clock - FIRST_CLOCK)
    }

    /// Ends the set: unlocks what it has locked.
    fn close(&mut self) {
        let all = &self.member.all;
        let (head, seat) = (self.log_end(), self.member.seat.number);
        for since in 1..=u64::from(self.copies) {
            let object = (load(&all.slot(Place { seat, position: head + since })[0]) >> 32) as u32;
            if let Some(master) = all.object(object)
                && self.own(master).is_some()
            {
                store(&master[0], 0);
            }
        }
        store(all.of_seat(seat, 1), (head + u64::from(self.copies) + 1) << 1);
        (self.copies, self.is_open) = (0, false);
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        if self.is_open {
            let all = &self.member.all;
            let place = Place { seat: self.member.seat.number, position: self.log_end() };
            store(&all.slot(place)[0], DROPPED);
            self.close();
        }
        store(self.member.all.of_seat(self.member.seat.number, 0), 0);
    }
}

/// The words of a version that is being made.
#[derive(Debug)]
pub struct Draft<'a>(&'a [Word]);

impl Draft<'_> {
    /// A word; zero beyond the last.
    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).map_or(0, get)
    }

    /// Sets a word; nothing happens beyond the last.
    pub fn set(&mut self, index: usize, value: u64) {
        if let Some(word) = self.0.get(index) {
            put(word, value);
        }
    }
}
