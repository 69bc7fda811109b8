//! The words of objects, seats and logs, and who has a seat.

use nile_ring::{LINE_BYTES, Region, Word};

use super::section::{Refused, Section};
use crate::seat::{Seat, Seats};
use crate::words::{add, exchange, fence, load, store};

/// The head of a set: locks are had and copies are filled.
pub(super) const OPEN: u64 = 0;
/// All copies are linked, and the set's clock is about to be told.
pub(super) const COMMITTING: u64 = 1;
/// The set never was, but some of its copies may be on chains.
pub(super) const ABORTED: u64 = 2;
/// The set never was, and no copy of it was ever on a chain.
pub(super) const DROPPED: u64 = 3;
/// The clock begins here: every smaller value means something else.
pub(super) const FIRST_CLOCK: u64 = 4;

/// A section about to take its snapshot.
pub(super) const ENTERING: u64 = 1;

/// In a lock, in place of a copy's position: the versions of the object are being written back.
pub(super) const RECLAIM: u32 = u32::MAX;

/// In place of a snapshot's clock: the newest versions.
const NEWEST: u64 = u64::MAX;

/// Sections without a snapshot between two looks at the clock.
const LOOKS_EVERY: u8 = 64;

/// Words of an object before its data.
pub(super) const HEADER: usize = 2;

/// How many objects there are, of how many words, and how long the logs are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Objects.
    pub objects: u32,
    /// Words of each.
    pub words: usize,
    /// Slots of each seat's log, a power of two: a set takes one, and one for each object in it.
    pub log: u32,
}

impl Shape {
    pub(super) const fn slot(self) -> usize {
        HEADER + self.words
    }
}

/// Where a copy or a set's head is: a seat's log, and a position that counts on for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    pub seat: u16,
    pub position: u64,
}

impl Place {
    pub fn pack(self) -> u64 {
        (u64::from(self.seat) + 1) << 48 | self.position
    }

    pub fn of(word: u64) -> Option<Place> {
        let seat = ((word >> 48) as u16).checked_sub(1)?;
        Some(Place { seat, position: word & ((1 << 48) - 1) })
    }
}

/// Objects that seats share. Clones name the same.
#[derive(Clone, Debug)]
pub struct Mvrlu {
    region: Region,
    seats: Seats,
    shape: Shape,
    /// The words where the objects begin, and the logs.
    objects_at: usize,
    logs_at: usize,
}

impl Mvrlu {
    /// Bytes of the region for such objects and so many seats.
    pub const fn region_len(shape: Shape, seats: usize) -> usize {
        let slots = shape.objects as usize + seats * shape.log as usize;
        ((1 + seats) * LINE_BYTES + slots * shape.slot() * 8).next_multiple_of(LINE_BYTES)
    }

    /// The objects in `region`, which is zeroed memory or holds such objects; `None` if it is too
    /// small for them, or a log's size is no power of two.
    pub fn attach(region: Region, seats: Seats, shape: Shape) -> Option<Mvrlu> {
        let fits = region.len() >= Mvrlu::region_len(shape, seats.len());
        let objects_at = (1 + seats.len()) * LINE_BYTES / 8;
        let logs_at = objects_at + shape.objects as usize * shape.slot();
        let is_right = fits && shape.log.is_power_of_two();
        is_right.then_some(Mvrlu { region, seats, shape, objects_at, logs_at })
    }

    /// Takes a seat that was [entered](Seats::enter), and undoes or finishes what its former life
    /// was about. One core has it at a time.
    pub fn join(&self, seat: Seat) -> Option<Member> {
        (usize::from(seat.number) < self.seats.len()).then(|| {
            let mut member = Member { all: self.clone(), seat, known: self.now(), looks_in: 0 };
            member.recover();
            member
        })
    }

    /// How the objects are.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Word `word` of seat `seat`.
    #[inline]
    pub(super) fn of_seat(&self, seat: u16, word: usize) -> &Word {
        &self.region.lines()[1 + usize::from(seat)][word]
    }

    /// The words of an object, if there is one of this number.
    #[inline]
    pub(super) fn object(&self, object: u32) -> Option<&[Word]> {
        (object < self.shape.objects).then(|| self.row(self.objects_at, object as usize))
    }

    /// The words of a slot of a log. (A place that nonsense gave is another slot.)
    #[inline]
    pub(super) fn slot(&self, place: Place) -> &[Word] {
        let seat = usize::from(place.seat).min(self.seats.len() - 1);
        let log = self.shape.log as usize;
        self.row(self.logs_at, seat * log + (place.position as usize & (log - 1)))
    }

    #[inline]
    fn row(&self, first: usize, number: usize) -> &[Word] {
        let size = self.shape.slot();
        &self.region.words()[first + number * size..][..size]
    }

    /// The head of the set that a copy is of: its place and its words.
    #[inline]
    pub(super) fn head(&self, place: Place, copy: &[Word]) -> &Word {
        let since = load(&copy[0]) & 0xffff_ffff;
        &self.slot(Place { position: place.position.wrapping_sub(since), ..place })[0]
    }

    #[inline]
    pub(super) fn now(&self) -> u64 {
        load(&self.region.lines()[0][0]) + FIRST_CLOCK
    }

    /// Advances the clock; what it then is.
    #[inline]
    pub(super) fn advance(&self) -> u64 {
        add(&self.region.lines()[0][0], 1) + 1 + FIRST_CLOCK
    }

    /// What a set's head says, with its clock told if it is about to be.
    #[inline]
    pub(super) fn settled(&self, head: &Word) -> u64 {
        let state = load(head);
        if state != COMMITTING {
            return state;
        }
        // Else somebody else has told it.
        exchange(head, COMMITTING, self.advance()).map_or_else(|told| told, |_| load(head))
    }

    /// The newest version of an object at a snapshot; `None` if the chain is nonsense.
    #[inline]
    pub(super) fn version(&self, object: &[Word], at: u64) -> Option<Version<'_>> {
        let mut link = load(&object[1]);
        let mut above = None;
        for _ in 0..=self.shape.log as usize * self.seats.len() {
            let Some(place) = Place::of(link) else { return Some(Version::Master) };
            let copy = self.slot(place);
            let clock = self.settled(self.head(place, copy));
            if clock >= FIRST_CLOCK && clock <= at {
                return Some(Version::Copy { copy, above });
            }
            above = Some(place);
            link = load(&copy[1]);
        }
        None
    }

    /// Where the words of an object are to be read at a snapshot.
    #[inline]
    pub(super) fn source(&self, object: u32, at: u64) -> Result<&[Word], Refused> {
        let master = self.object(object).ok_or(Refused::NoObject)?;
        match self.version(master, at).ok_or(Refused::Corrupt)? {
            Version::Copy { copy, .. } => Ok(copy),
            Version::Master => Ok(master),
        }
    }

    /// The newest copy of an object whose lock is had, after those that never were have been taken
    /// off the chain.
    #[inline]
    pub(super) fn newest(&self, object: &[Word]) -> Option<Newest<'_>> {
        loop {
            let link = load(&object[1]);
            let place = Place::of(link)?;
            let copy = self.slot(place);
            let head = self.head(place, copy);
            if load(head) == OPEN {
                // Only one who is gone can have left a set open with a copy on the chain.
                let _ = exchange(head, OPEN, ABORTED);
            }
            let clock = self.settled(head);
            if clock != ABORTED {
                return Some(Newest { link, copy, clock });
            }
            store(&object[1], load(&copy[1]));
        }
    }

    /// Whether the lock was taken: it was free, or had by one who is gone.
    #[inline]
    pub(super) fn lock(&self, object: &[Word], me: Seat, position: u32) -> bool {
        let word = load(&object[0]);
        let is_free = Seat::of(word).is_none_or(|holder| self.seats.is_gone(holder));
        is_free && exchange(&object[0], word, u64::from(position) << 32 | me.bits()).is_ok()
    }

    /// The oldest snapshot that anybody reads, or is about to take.
    pub(super) fn oldest_snapshot(&self) -> u64 {
        let now = self.now();
        // Who is not seen below to read takes a snapshot that is not older than this one.
        fence();
        let seats = 0..self.seats.len() as u16;
        let present = seats.filter(|number| !self.seats.is_vacant(*number));
        let sections = present.map(|number| load(self.of_seat(number, 0)));
        sections.filter(|section| *section != 0).fold(now, u64::min)
    }
}

/// The newest copy of an object.
pub(super) struct Newest<'a> {
    /// Its place, packed.
    pub link: u64,
    pub copy: &'a [Word],
    /// When its set was committed.
    pub clock: u64,
}

/// A version of an object, and the copy above it in the chain.
pub(super) enum Version<'a> {
    Copy { copy: &'a [Word], above: Option<Place> },
    Master,
}

/// One who has a seat, and reads and writes by it, one section at a time.
#[derive(Debug)]
pub struct Member {
    pub(super) all: Mvrlu,
    pub(super) seat: Seat,
    /// What the clock was when it was last seen.
    pub(super) known: u64,
    /// Sections without a snapshot until it is looked at again.
    looks_in: u8,
}

impl Member {
    /// Whose seat this is.
    pub fn seat(&self) -> Seat {
        self.seat
    }

    /// Takes a snapshot, in which objects are read, and written until it is committed.
    #[inline]
    pub fn begin(&mut self) -> Section<'_> {
        self.known = self.enter();
        Section::new(self, self.known)
    }

    /// Begins a section without a snapshot, for what is about one object: it reads of each the
    /// newest version that there is then, so that words which are to be of one version are read by
    /// one [`Section::read`]. What it has locked stays as it is. The clock is not looked at, which
    /// is in a line that every writer writes.
    #[inline]
    pub fn begin_newest(&mut self) -> Section<'_> {
        // A clock of long ago would keep old versions.
        if self.looks_in == 0 {
            (self.known, self.looks_in) = (self.all.now(), LOOKS_EVERY);
        }
        self.looks_in -= 1;
        store(self.all.of_seat(self.seat.number, 0), self.known);
        // As in `enter`: what was written back before is seen as that, and what is younger than
        // the known clock is kept.
        fence();
        Section::new(self, NEWEST)
    }

    /// Begins to read; at which clock.
    #[inline]
    pub(super) fn enter(&self) -> u64 {
        let section = self.all.of_seat(self.seat.number, 0);
        store(section, ENTERING);
        // Who does not see that it enters has what it did before seen by it.
        fence();
        let clock = self.all.now();
        store(section, clock);
        clock
    }
}
