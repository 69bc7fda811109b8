//! A table over versioned objects.
//!
//! ```text
//! objects   buckets      word 0   how many entries
//!                        word 1   the bucket that goes on, or 0
//!                        then     entries: hash 32 | object 32
//!           parts        word 0   version           (of a record's first)
//!                        word 1   key bytes 32 | value bytes 32
//!                        word 2   whose it is 32 | the next part, or 0 32
//!                        then     key, padded to words, and value; goes on in the next part
//! ```
//!
//! What a writer changes it changes in one section of [`nile_sync::mvrlu`], and so it is there for
//! others in one moment, or not at all. A part that was freed is used again at once: those who
//! read older snapshots see its older version.
//!
//! Whoever frees a part has it, also if another seat's writer has used it: the part says so, in the
//! same section. So the next life of a seat finds the parts that it has, which are those that say
//! so and that no bucket leads to.

mod bytes;
mod owned;
mod view;

use alloc::vec::Vec;

use nile_ring::Region;
use nile_sync::mvrlu::{Member, Mvrlu, Refused, Section, Shape};
use nile_sync::{Seat, Seats};

use crate::operation::{Operation, Outcome, Record, Wrong, check};
use bytes::{Object, PART_BYTES, WORDS, parts_of};
pub use view::{Bucket, Scan, View};

/// Entries of a bucket.
const ENTRIES: usize = WORDS - 2;

/// How often a writer tries that others are in the way of.
const TRIES: usize = 100;

/// How large a table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Buckets at first, a power of two: one for some 16 records.
    pub buckets: u32,
    /// Parts of records, of some 200 bytes, and further buckets, for each writer.
    pub parts: u32,
    /// Those who may write, of the first seats.
    pub writers: u16,
    /// Parts and buckets that one writer may change at once, and that are kept for snapshots; a
    /// power of two.
    pub log: u32,
}

impl Sizes {
    fn shape(self) -> Shape {
        let objects = self.buckets + self.parts * u32::from(self.writers);
        Shape { objects, words: WORDS, log: self.log }
    }
}

/// One who has a seat at a table, and reads and writes it.
#[derive(Debug)]
pub struct Shared {
    member: Member,
    sizes: Sizes,
    /// Parts that this writer may use.
    free: Vec<u32>,
    /// Which it has used, and freed, in the section that is open.
    used: Vec<u32>,
    freed: Vec<u32>,
}

impl Shared {
    /// Bytes of the region of such a table for so many seats.
    pub const fn region_len(sizes: Sizes, seats: usize) -> usize {
        let objects = sizes.buckets + sizes.parts * sizes.writers as u32;
        Mvrlu::region_len(Shape { objects, words: WORDS, log: sizes.log }, seats)
    }

    /// Takes a seat at the table in `region`, which is zeroed memory or holds one; a former life of
    /// the seat may have ended at any moment. A writer looks through the whole table. `None` if the
    /// region or a size does not fit, or what is there is no table.
    pub fn join(region: Region, seats: Seats, sizes: Sizes, seat: Seat) -> Option<Shared> {
        let fits = sizes.buckets.is_power_of_two();
        let all = Mvrlu::attach(region, seats, sizes.shape()).filter(|_| fits)?;
        let mut member = all.join(seat)?;
        let free = match seat.number < sizes.writers {
            true => owned::free_parts(&member.begin(), sizes, seat.number).ok()?,
            false => Vec::new(),
        };
        let (used, freed) = Default::default();
        Some(Shared { member, sizes, free, used, freed })
    }

    /// Parts that this writer may use.
    #[cfg(test)]
    pub(crate) fn free_parts(&self) -> usize {
        self.free.len()
    }

    /// Does one operation.
    pub fn apply(&mut self, key: &[u8], operation: &Operation) -> Result<Outcome, Wrong> {
        let outcomes = self.many(&[(key, operation)])?;
        outcomes.into_iter().next().ok_or(Wrong::Busy)
    }

    /// Does operations one after the other, all in one moment: all of them, or none.
    pub fn many(&mut self, all: &[(&[u8], &Operation)]) -> Result<Vec<Outcome>, Wrong> {
        all.iter().try_for_each(|(key, operation)| check(key, operation))?;
        for _ in 0..TRIES {
            match self.attempt(all) {
                Ok(outcomes) => {
                    self.free.append(&mut self.freed);
                    self.used.clear();
                    if self.member.log_used() * 2 > u64::from(self.sizes.log) {
                        self.member.reclaim();
                    }
                    return Ok(outcomes);
                }
                Err(why) => {
                    self.free.append(&mut self.used);
                    self.freed.clear();
                    match why {
                        Failed::Full => return Err(Wrong::Full),
                        Failed::Refused(Refused::Corrupt | Refused::NoObject) => {
                            return Err(Wrong::Full);
                        }
                        // Two grace periods.
                        Failed::Refused(Refused::Busy | Refused::Conflict) => {
                            self.member.reclaim();
                            self.member.reclaim();
                        }
                    }
                }
            }
        }
        Err(Wrong::Busy)
    }

    fn attempt(&mut self, all: &[(&[u8], &Operation)]) -> Result<Vec<Outcome>, Failed> {
        let mut open = Open {
            seat: self.member.seat().number,
            sizes: self.sizes,
            section: self.member.begin(),
            free: &mut self.free,
            used: &mut self.used,
            freed: &mut self.freed,
        };
        let outcomes = all.iter().map(|(key, operation)| open.apply(key, operation));
        let outcomes = outcomes.collect::<Result<Vec<_>, _>>()?;
        open.section.commit()?;
        Ok(outcomes)
    }

    /// How many records there are, and bytes that this writer's have; zero while others have them.
    pub fn holds(&mut self) -> (u64, u64) {
        let used = self.sizes.parts as usize - self.free.len().min(self.sizes.parts as usize);
        let section = self.member.begin();
        let count = |mut bucket| {
            let mut count = 0;
            loop {
                count += section.word(bucket, 0)?;
                match section.word(bucket, 1)? as u32 {
                    0 => return Ok(count),
                    next => bucket = next,
                }
            }
        };
        let counts = (0..self.sizes.buckets).map(count);
        (counts.sum::<Result<u64, Refused>>().unwrap_or(0), (used * PART_BYTES) as u64)
    }

    /// All records as of now, until it is given back; meanwhile this seat does nothing else.
    pub fn view(self) -> View {
        View::new(self.member, self.sizes.buckets)
    }
}

/// Why a try failed.
enum Failed {
    Full,
    Refused(Refused),
}

impl From<Refused> for Failed {
    fn from(refused: Refused) -> Failed {
        Failed::Refused(refused)
    }
}

/// A section, and the parts that its writer has.
struct Open<'a> {
    seat: u16,
    sizes: Sizes,
    section: Section<'a>,
    free: &'a mut Vec<u32>,
    used: &'a mut Vec<u32>,
    freed: &'a mut Vec<u32>,
}

/// Where a record is: in an entry of a bucket.
struct Place {
    bucket: u32,
    entry: usize,
    part: u32,
}

impl Open<'_> {
    fn apply(&mut self, key: &[u8], operation: &Operation) -> Result<Outcome, Failed> {
        let place = self.find(key)?;
        let record = match &place {
            Some(place) => Some(self.section.record(place.part)?.1),
            None => None,
        };
        let version = record.as_ref().map_or(0, |it| it.version);
        let found = record.map_or(Outcome::Missing, Outcome::Found);
        let value = match operation {
            Operation::Get => return Ok(found),
            Operation::Remove => {
                let Some(place) = place else { return Ok(Outcome::Missing) };
                self.free_parts(place.part)?;
                self.take_entry(&place)?;
                return Ok(Outcome::Removed);
            }
            Operation::Compare(wanted, _) if *wanted != version => return Ok(found),
            Operation::Compare(_, value) | Operation::Put(value) => value,
        };
        // A later section of this key begins after this one is committed.
        let version = (self.section.clock() + 1).max(version + 1);
        let part = self.write_parts(key, &Record { version, value: value.clone() })?;
        match place {
            Some(place) => {
                self.free_parts(place.part)?;
                let entry = u64::from(hash(key)) << 32 | u64::from(part);
                self.section.write(place.bucket, |words| words.set(2 + place.entry, entry))?;
            }
            None => self.add_entry(key, part)?,
        }
        Ok(Outcome::Stored(version))
    }

    /// The record of a key.
    fn find(&self, key: &[u8]) -> Result<Option<Place>, Refused> {
        let (hash, mut bucket) = (hash(key), hash(key) & (self.sizes.buckets - 1));
        loop {
            let count = self.section.word(bucket, 0)?;
            for entry in 0..ENTRIES.min(count as usize) {
                let word = self.section.word(bucket, 2 + entry)?;
                let part = word as u32;
                if (word >> 32) as u32 == hash && self.section.record(part)?.0 == key {
                    return Ok(Some(Place { bucket, entry, part }));
                }
            }
            match self.section.word(bucket, 1)? as u32 {
                0 => return Ok(None),
                next => bucket = next,
            }
        }
    }

    fn add_entry(&mut self, key: &[u8], part: u32) -> Result<(), Failed> {
        let mut bucket = hash(key) & (self.sizes.buckets - 1);
        while self.section.word(bucket, 0)? as usize >= ENTRIES {
            let next = match self.section.word(bucket, 1)? as u32 {
                0 => {
                    let next = self.use_part()?;
                    self.section.write(next, |words| (0..2).for_each(|at| words.set(at, 0)))?;
                    self.section.write(bucket, |words| words.set(1, next.into()))?;
                    next
                }
                next => next,
            };
            bucket = next;
        }
        let entry = u64::from(hash(key)) << 32 | u64::from(part);
        self.section.write(bucket, |words| {
            let count = words.word(0);
            words.set(2 + count as usize, entry);
            words.set(0, count + 1);
        })?;
        Ok(())
    }

    /// The last entry of the bucket comes in the place of one that goes.
    fn take_entry(&mut self, place: &Place) -> Result<(), Failed> {
        self.section.write(place.bucket, |words| {
            let last = words.word(0).saturating_sub(1);
            words.set(2 + place.entry, words.word(2 + last as usize));
            words.set(0, last);
        })?;
        Ok(())
    }

    fn use_part(&mut self) -> Result<u32, Failed> {
        let part = self.free.pop().ok_or(Failed::Full)?;
        self.used.push(part);
        Ok(part)
    }

    /// Writes a record; its first part.
    fn write_parts(&mut self, key: &[u8], record: &Record) -> Result<u32, Failed> {
        let bytes = bytes::encode(key, &record.value);
        let mut next = 0;
        for (index, piece) in bytes.chunks(PART_BYTES).enumerate().rev() {
            let part = self.use_part()?;
            self.section.write(part, |words| {
                words.set(0, if index == 0 { record.version } else { 0 });
                words.set(1, (key.len() as u64) << 32 | record.value.len() as u64);
                words.set(2, owned::by(self.seat, next));
                bytes::put(words, piece);
            })?;
            next = part;
        }
        Ok(next)
    }

    fn free_parts(&mut self, first: u32) -> Result<(), Failed> {
        let sizes = self.section.word(first, 1)?;
        let (mut part, mut left) = (first, parts_of(sizes));
        while left > 0 {
            // Two who free the same part have one who is refused.
            let word = self.section.word(part, 2)?;
            match owned::owner(word, part, self.sizes) == self.seat {
                true => self.section.hold(part)?,
                false => {
                    let taken = owned::by(self.seat, word as u32);
                    self.section.write(part, |words| words.set(2, taken))?;
                }
            }
            self.freed.push(part);
            part = word as u32;
            left -= 1;
        }
        Ok(())
    }
}

/// FNV-1a, with its upper bits mixed in.
fn hash(key: &[u8]) -> u32 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, mix);
    (hash ^ hash >> 32) as u32
}
