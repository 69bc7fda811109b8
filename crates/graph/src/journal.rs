//! Where a graph is kept: a generation, and a log of records that are not in it, in *slots* of a
//! [`Shelf`], each of which is changed only by who knows what it has been. So a graph can be opened
//! by anybody at any time, and whoever had it before finds that out before it has said that
//! anything more is in.
//!
//! **Slots.** One has the generation, [`SLOTS`] others the records, by their numbers in turn. The
//! generation says which record is the first that it lacks, the *cut*. Each slot has a *stamp* that
//! every change raises.
//!
//! **Why it is right.** A record has its place: the slot of its number, with the stamp that the
//! slot had before any record could be behind the one before. So of two that put a record of one
//! number, one puts it and the other is told. Whoever opens a graph reads the generation, the
//! records from the cut on up to the first that is missing, and puts an empty one there, the
//! *seal*. If the generation then still has its stamp, no record was cut meanwhile, so those that
//! were read are all that there are; and who had the graph cannot put the next one any more. A
//! generation replaces only the one that its maker knows of, so no cut goes back.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::future::Future;

use crate::bytes::{Damaged, Read};
use crate::generation::{Keeping, Loading, Saving};
use crate::graph::Graph;
use crate::live::Live;
use crate::segment::Segment;

/// How many slots records have.
const SLOTS: u64 = 128;

/// Slots that are left to those who open the graph: each needs one for its seal.
const SEALS: u64 = 16;

/// The most records between two generations.
pub const MOST_RECORDS: u64 = SLOTS - SEALS;

/// A place of a shelf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Slot {
    /// The generation.
    Generation,
    /// A record.
    Record(u32),
}

/// What a slot is at one time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Held {
    /// How often it has changed.
    pub stamp: u64,
    /// Whether anything is in it.
    pub is_there: bool,
}

/// How putting something in a slot has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Put {
    /// It is there, for ever: the slot has this stamp now.
    Done(u64),
    /// It is not, and will not be: the slot has changed before.
    Changed,
    /// Nobody knows.
    Unknown,
}

/// Where a graph is kept.
pub trait Shelf {
    /// Why something could not be done.
    type Error;

    /// What a slot is now.
    fn look(&self, slot: Slot) -> impl Future<Output = Result<Held, Self::Error>>;

    /// Hands what is in a slot, as it was looked at, to `sink`, in order.
    fn read(
        &self,
        slot: Slot,
        held: Held,
        sink: &mut dyn FnMut(&[u8]) -> Read<()>,
    ) -> impl Future<Output = Result<(), Self::Error>>;

    /// Puts bytes in a slot if it has this stamp, and makes them durable. An error says that they
    /// are not there, and will not be.
    fn put(
        &self,
        slot: Slot,
        stamp: u64,
        bytes: &mut dyn FnMut() -> Option<Vec<u8>>,
    ) -> impl Future<Output = Result<Put, Self::Error>>;

    /// Empties a slot if it has this stamp.
    fn clear(&self, slot: Slot, stamp: u64) -> impl Future<Output = Result<Put, Self::Error>>;
}

/// Why nothing was done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Broken<E> {
    /// There is no such graph, or there is one already.
    No,
    /// Somebody else has opened the graph: it is to be opened again, or left to them.
    Superseded,
    /// There are as many records as may be: a generation is needed first.
    Full,
    /// What is there is not what was put.
    Damaged(Damaged),
    /// The shelf says so; it may be tried again.
    Shelf(E),
}

impl<E> From<Damaged> for Broken<E> {
    fn from(damaged: Damaged) -> Broken<E> {
        Broken::Damaged(damaged)
    }
}

/// The log of a graph that is open here.
pub struct Journal<S> {
    shelf: S,
    keeping: Cell<Keeping>,
    /// The stamp of the generation, and whether it is being replaced.
    generation: Cell<u64>,
    is_replaced: Cell<bool>,
    next: Cell<u64>,
    /// The stamps of slots as far as they are known; of the next record's it always is.
    stamps: RefCell<[Option<u64>; SLOTS as usize]>,
}

fn slot(number: u64) -> Slot {
    Slot::Record((number % SLOTS) as u32)
}

fn place(number: u64) -> usize {
    (number % SLOTS) as usize
}

/// Makes a graph, which is kept as it is said. `No` if there is one.
pub async fn create<S: Shelf>(
    shelf: S,
    mut graph: Graph,
    keeping: Keeping,
) -> Result<(Live, Journal<S>), Broken<S::Error>> {
    let held = shelf.look(Slot::Generation).await.map_err(Broken::Shelf)?;
    if held.is_there {
        return Err(Broken::No);
    }
    let first = shelf.look(slot(0)).await.map_err(Broken::Shelf)?;
    let keeping = Keeping { cut: 0, ..keeping };
    // Somebody else may make one, too: the one who comes later is told.
    match put_generation(&shelf, held.stamp, &mut graph, keeping).await? {
        Some(stamp) => {
            let journal = Journal::new(shelf, keeping, stamp, 0);
            journal.stamps.borrow_mut()[0] = Some(first.stamp);
            Ok((Live::new(graph, keeping.graph), journal))
        }
        None => Err(Broken::No),
    }
}

/// Opens a graph: reads all that is kept of it, and sees to it that nobody else adds anything. Who
/// has it open loses it. `No` if there is none.
pub async fn open<S: Shelf>(shelf: S, now: u64) -> Result<(Live, Journal<S>), Broken<S::Error>> {
    loop {
        let base = shelf.look(Slot::Generation).await.map_err(Broken::Shelf)?;
        if !base.is_there {
            return Err(Broken::No);
        }
        let found = open_once(&shelf, base, now).await;
        let Ok(Some(found)) = found else {
            let again = shelf.look(Slot::Generation).await.map_err(Broken::Shelf)?;
            match found {
                // What is missing may have been in the next generation.
                Err(broken) if again.stamp == base.stamp => return Err(broken),
                _ => continue,
            }
        };
        let journal = Journal::new(shelf, found.keeping, found.generation, found.next);
        journal.stamps.replace(found.stamps);
        return Ok((Live::new(found.graph, found.keeping.graph), journal));
    }
}

struct Found {
    graph: Graph,
    keeping: Keeping,
    generation: u64,
    next: u64,
    stamps: [Option<u64>; SLOTS as usize],
}

/// `None` if others were there meanwhile.
async fn open_once<S: Shelf>(
    shelf: &S,
    base: Held,
    now: u64,
) -> Result<Option<Found>, Broken<S::Error>> {
    let mut loading = Loading::default();
    let mut add = |bytes: &[u8]| loading.add(bytes);
    shelf.read(Slot::Generation, base, &mut add).await.map_err(Broken::Shelf)?;
    let (mut graph, mut keeping) = loading.finish()?;
    graph.hear(now);
    let (mut generation, mut next) = (base.stamp, keeping.cut);
    let mut stamps = [None; SLOTS as usize];
    loop {
        if next - keeping.cut == SLOTS {
            // There is no slot for a seal: a generation that has all does the same.
            keeping.cut = next;
            let put = put_generation(shelf, base.stamp, &mut graph, keeping).await?;
            let Some(stamp) = put else { return Ok(None) };
            generation = stamp;
            let Some(stamp) = stamp_of(shelf, next, generation).await? else { return Ok(None) };
            stamps[place(next)] = Some(stamp);
            break;
        }
        let held = shelf.look(slot(next)).await.map_err(Broken::Shelf)?;
        if held.is_there {
            let mut bytes = Vec::new();
            let mut add = |more: &[u8]| {
                bytes.extend_from_slice(more);
                Ok(())
            };
            shelf.read(slot(next), held, &mut add).await.map_err(Broken::Shelf)?;
            let record = Segment::decode(&bytes)?;
            if (record.graph, record.number) == (keeping.graph, next) {
                for mut call in record.calls {
                    graph.offer(now, &mut call);
                }
                stamps[place(next)] = Some(held.stamp);
                next += 1;
                continue;
            }
        }
        let Some(behind) = stamp_of(shelf, next + 1, generation).await? else { return Ok(None) };
        let seal = Segment { graph: keeping.graph, number: next, calls: Vec::new() }.encode();
        let mut seal = Some(seal);
        match shelf.put(slot(next), held.stamp, &mut || seal.take()).await {
            Ok(Put::Done(stamp)) => {
                stamps[place(next)] = Some(stamp);
                stamps[place(next + 1)] = Some(behind);
                next += 1;
                break;
            }
            // Somebody else has put a record, or it is ours: it is read.
            Ok(Put::Changed | Put::Unknown) => {}
            Err(error) => return Err(Broken::Shelf(error)),
        }
    }
    let again = shelf.look(Slot::Generation).await.map_err(Broken::Shelf)?;
    let found = Found { graph, keeping, generation, next, stamps };
    Ok((again.stamp == generation).then_some(found))
}

/// The stamp of a record's slot, if the generation had its own when that was looked at: what is in
/// the slot is not of a later graph of this name.
async fn stamp_of<S: Shelf>(
    shelf: &S,
    number: u64,
    generation: u64,
) -> Result<Option<u64>, Broken<S::Error>> {
    let held = shelf.look(slot(number)).await.map_err(Broken::Shelf)?;
    let base = shelf.look(Slot::Generation).await.map_err(Broken::Shelf)?;
    Ok((base.stamp == generation).then_some(held.stamp))
}

/// Puts a generation of all that is in the graph. `None` if there is another.
async fn put_generation<S: Shelf>(
    shelf: &S,
    stamp: u64,
    graph: &mut Graph,
    keeping: Keeping,
) -> Result<Option<u64>, Broken<S::Error>> {
    // No sweep is under way in a graph that nobody has yet.
    graph.want_generation(keeping);
    graph.finish_generation();
    let Some(mut saving) = graph.take_generation() else { return Ok(None) };
    let put = shelf.put(Slot::Generation, stamp, &mut || saving.next(graph)).await;
    graph.end_generation();
    match put.map_err(Broken::Shelf)? {
        Put::Done(stamp) => Ok(Some(stamp)),
        Put::Changed | Put::Unknown => Ok(None),
    }
}

impl<S: Shelf> Journal<S> {
    fn new(shelf: S, keeping: Keeping, generation: u64, next: u64) -> Journal<S> {
        Journal {
            shelf,
            keeping: Cell::new(keeping),
            generation: Cell::new(generation),
            is_replaced: Cell::new(false),
            next: Cell::new(next),
            stamps: RefCell::new([None; SLOTS as usize]),
        }
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.next.get()
    }

    /// A number that is higher each time that the graph is opened: who opens it puts a seal, or a
    /// generation.
    pub fn life(&self) -> u64 {
        self.generation.get() + self.next.get() + 1
    }

    /// Looks whether somebody else has opened the graph since; only while no record is put.
    pub async fn look(&self) -> Result<(), Broken<S::Error>> {
        let (number, generation) = (self.next.get(), self.generation.get());
        let stamp = self.stamps.borrow()[place(number)];
        let next = self.shelf.look(slot(number)).await.map_err(Broken::Shelf)?;
        let base = self.shelf.look(Slot::Generation).await.map_err(Broken::Shelf)?;
        let is_same = (self.next.get(), self.generation.get()) == (number, generation);
        let is_base = base.stamp == generation || self.is_replaced.get() || !is_same;
        match is_base && (stamp.is_none_or(|it| it == next.stamp) || !is_same) {
            true => Ok(()),
            false => Err(Broken::Superseded),
        }
    }

    /// How many records there are since the generation.
    pub fn records(&self) -> u64 {
        self.next.get() - self.keeping.get().cut
    }

    /// Beside the next generation, if it is begun now.
    pub fn keeping(&self) -> Keeping {
        Keeping { cut: self.next.get(), ..self.keeping.get() }
    }

    /// Puts the next record; gives its bytes. When this is over, what is in it is in for ever.
    pub async fn append(&self, record: &Segment) -> Result<usize, Broken<S::Error>> {
        if self.records() >= MOST_RECORDS {
            return Err(Broken::Full);
        }
        let number = record.number;
        self.know(number + 1).await?;
        let stamp = self.stamps.borrow()[place(number)].ok_or(Broken::Superseded)?;
        let bytes = record.encode();
        let length = bytes.len();
        let mut bytes = Some(bytes);
        let put = self.shelf.put(slot(number), stamp, &mut || bytes.take()).await;
        match put.map_err(Broken::Shelf)? {
            Put::Done(stamp) => {
                self.stamps.borrow_mut()[place(number)] = Some(stamp);
                self.next.set(number + 1);
                Ok(length)
            }
            Put::Changed | Put::Unknown => Err(Broken::Superseded),
        }
    }

    /// Knows the stamp of a record's slot before there can be a record of this number.
    async fn know(&self, number: u64) -> Result<(), Broken<S::Error>> {
        while self.stamps.borrow()[place(number)].is_none() {
            let generation = self.generation.get();
            let stamp = stamp_of(&self.shelf, number, generation).await?;
            match stamp {
                Some(stamp) => self.stamps.borrow_mut()[place(number)] = Some(stamp),
                // It is this journal that replaces the generation.
                None if self.is_replaced.get() || self.generation.get() != generation => {}
                None => return Err(Broken::Superseded),
            }
        }
        Ok(())
    }

    /// Replaces the generation by one that was begun when [`Journal::keeping`] was this, and cuts
    /// the log. Records may be put meanwhile.
    pub async fn replace(
        &self,
        mut saving: Saving,
        keeping: Keeping,
        next: &mut dyn FnMut(&mut Saving) -> Option<Vec<u8>>,
    ) -> Result<(), Broken<S::Error>> {
        self.is_replaced.set(true);
        let mut bytes = || next(&mut saving);
        let put = self.shelf.put(Slot::Generation, self.generation.get(), &mut bytes).await;
        if let Ok(Put::Done(stamp)) = put {
            self.generation.set(stamp);
        }
        self.is_replaced.set(false);
        let Put::Done(_) = put.map_err(Broken::Shelf)? else { return Err(Broken::Superseded) };
        for number in self.keeping.get().cut..keeping.cut {
            let Some(stamp) = self.stamps.borrow()[place(number)] else { continue };
            // What cannot be emptied now is put over later.
            let cleared = self.shelf.clear(slot(number), stamp).await;
            let stamp = match cleared {
                Ok(Put::Done(stamp)) => Some(stamp),
                Ok(Put::Changed) => return Err(Broken::Superseded),
                Ok(Put::Unknown) | Err(_) => None,
            };
            self.stamps.borrow_mut()[place(number)] = stamp;
        }
        self.keeping.set(keeping);
        Ok(())
    }

    /// The graph is no more, whoever has it open.
    pub async fn remove(&self) -> Result<(), Broken<S::Error>> {
        let cleared = self.shelf.clear(Slot::Generation, self.generation.get()).await;
        match cleared.map_err(Broken::Shelf)? {
            Put::Done(_) => {}
            Put::Changed | Put::Unknown => return Err(Broken::Superseded),
        }
        for number in self.keeping.get().cut..self.next.get() {
            let stamp = self.stamps.borrow()[place(number)];
            if let Some(stamp) = stamp {
                // A record that is left is of no graph.
                let _ = self.shelf.clear(slot(number), stamp).await;
            }
        }
        Ok(())
    }
}
