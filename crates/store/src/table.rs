//! The datasets and notes of a store, as the records of its log leave them. What happens at run
//! time and what recovery does go through the same few methods.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::checkpoint::Sizes;
use crate::entry::{self, NOWHERE};
use crate::error::Error;
use crate::extent::{Extent, Range, UNIT, whole_units};
use crate::manifest::{Manifest, Name, Version};
use crate::note::{self, Notes};
use crate::record::{Kind, Record};
use crate::space::Free;

/// A dataset's name and version: in the order of names, then of epochs.
pub(crate) type Key = (Name, Version);

/// How far a dataset is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Durable here; whether it is committed is its owner's to say.
    Prepared = 1,
    /// Committed.
    Committed = 2,
}

/// What a store has of a dataset: its whole manifest, and those blocks that are here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dataset {
    /// All blocks, here or elsewhere.
    pub manifest: Manifest,
    /// How far it is.
    pub state: State,
    /// The first unit of each block, from where the extent's blocks begin.
    pub(crate) places: Vec<u32>,
}

impl Dataset {
    /// Where a block is on the disk of `extent`; `None` if it is elsewhere.
    pub fn range(&self, extent: &Extent, block: usize) -> Option<Range> {
        let bytes = self.manifest.blocks().get(block)?.bytes;
        let place = *self.places.get(block)?;
        let at = || extent.data() + u64::from(place) * UNIT;
        (place != NOWHERE).then(|| Range { at: at(), bytes: whole_units(bytes.into()) * UNIT })
    }

    /// How many of its blocks are on this disk.
    pub fn blocks_here(&self) -> usize {
        self.places.iter().filter(|place| **place != NOWHERE).count()
    }

    /// The units of every block that is here: the first, and how many.
    pub(crate) fn units(&self) -> impl Iterator<Item = (u32, u32)> {
        let blocks = self.manifest.blocks().iter().zip(&self.places);
        let here = blocks.filter(|(_, place)| **place != NOWHERE);
        here.map(|(block, place)| (*place, whole_units(block.bytes.into()) as u32))
    }

    pub(crate) fn key(&self) -> Key {
        (self.manifest.name.clone(), self.manifest.version)
    }
}

/// The datasets and notes, and the dataset whose manifest is being read.
#[derive(Debug, Default)]
pub(crate) struct Table {
    datasets: BTreeMap<Key, Dataset>,
    /// With the number of blocks that it will have.
    opening: Option<(Dataset, u32)>,
    notes: Notes,
    /// Of all that.
    sizes: Sizes,
}

/// The records contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contradiction;

impl Table {
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        self.datasets.values()
    }

    pub fn get(&self, key: &Key) -> Option<&Dataset> {
        self.datasets.get(key)
    }

    /// The value of a note, empty if there is none.
    pub fn note(&self, key: &Name) -> &[u8] {
        self.notes.get(key).map_or(&[], |value| value)
    }

    /// Notes in the order of keys, those behind `key`.
    pub fn notes_after(&self, key: Option<&Name>) -> impl Iterator<Item = (&Name, &Box<[u8]>)> {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.notes.range::<Name, _>((from, Bound::Unbounded))
    }

    /// What a checkpoint of all this has.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    fn of_name(&self, name: &Name) -> impl Iterator<Item = &Dataset> {
        let first = (name.clone(), Version::default());
        let range = self.datasets.range(first..);
        range.map(|it| it.1).take_while(move |it| it.manifest.name == *name)
    }

    /// The committed one of a name: there is at most one.
    pub fn committed(&self, name: &Name) -> Option<&Dataset> {
        self.of_name(name).find(|it| it.state == State::Committed)
    }

    /// Whether a version is too late: its epoch, or one after it, is committed with another.
    pub fn fence(&self, name: &Name, version: Version) -> Result<(), Error> {
        match self.committed(name).map(|it| it.manifest.version) {
            Some(committed) if committed != version && committed.epoch >= version.epoch => {
                Err(Error::Fenced { committed })
            }
            _ => Ok(()),
        }
    }

    /// Adds a dataset; gives those that it takes the place of.
    pub fn insert(&mut self, dataset: Dataset) -> Result<Vec<Dataset>, Contradiction> {
        let key = dataset.key();
        if self.datasets.contains_key(&key) || self.fence(&key.0, key.1).is_err() {
            return Err(Contradiction);
        }
        let is_committed = dataset.state == State::Committed;
        self.sizes.add(&dataset);
        self.datasets.insert(key.clone(), dataset);
        Ok(if is_committed { self.retire(&key) } else { Vec::new() })
    }

    /// Commits a prepared dataset; gives those that it takes the place of.
    pub fn commit(&mut self, key: &Key) -> Result<Vec<Dataset>, Contradiction> {
        self.fence(&key.0, key.1).map_err(|_| Contradiction)?;
        self.datasets.get_mut(key).ok_or(Contradiction)?.state = State::Committed;
        Ok(self.retire(key))
    }

    pub fn remove(&mut self, key: &Key) -> Option<Dataset> {
        let dataset = self.datasets.remove(key)?;
        self.sizes.remove(&dataset);
        Some(dataset)
    }

    /// Gives notes their values; those with an empty one are removed.
    pub fn set_notes(&mut self, notes: Notes) -> Result<(), Contradiction> {
        for (key, value) in notes {
            let mut sizes = self.sizes;
            sizes.note(&key, self.note(&key), &value);
            self.sizes = sizes;
            match value.is_empty() {
                true => drop(self.notes.remove(&key).ok_or(Contradiction)?),
                false => drop(self.notes.insert(key, value)),
            }
        }
        Ok(())
    }

    /// Takes out what can never be committed any more, or was and is replaced.
    fn retire(&mut self, by: &Key) -> Vec<Dataset> {
        let older = self.of_name(&by.0).map(|it| it.manifest.version);
        let older = older.filter(|it| *it != by.1 && it.epoch <= by.1.epoch);
        let older: Vec<Version> = older.collect();
        older.into_iter().filter_map(|it| self.remove(&(by.0.clone(), it))).collect()
    }

    /// Does what a record of the log says.
    pub fn replay(&mut self, record: &Record<'_>) -> Result<(), Contradiction> {
        match (record.kind, self.opening.take()) {
            (Kind::Manifest, None) => {
                let mut rest = record.payload;
                // There is at least one.
                while rest.len() == record.payload.len() || !rest.is_empty() {
                    let (dataset, blocks, behind) =
                        entry::read_manifest(rest).ok_or(Contradiction)?;
                    if dataset.places.len() < blocks as usize {
                        self.opening = Some((dataset, blocks));
                        return Ok(());
                    }
                    self.insert(dataset)?;
                    rest = behind;
                }
            }
            (Kind::Blocks, Some((mut dataset, blocks))) => {
                entry::read_blocks(record.payload, &mut dataset).ok_or(Contradiction)?;
                self.opening = Some((dataset, blocks));
            }
            (Kind::Commit, None) => {
                self.commit(&entry::read_key_payload(record.payload).ok_or(Contradiction)?)?;
            }
            (Kind::Remove, None) => {
                let key = entry::read_key_payload(record.payload).ok_or(Contradiction)?;
                self.remove(&key).ok_or(Contradiction)?;
            }
            (Kind::Notes, None) => {
                self.set_notes(note::read(record.payload).ok_or(Contradiction)?)?;
            }
            (Kind::Sealed, None) => {}
            _ => return Err(Contradiction),
        }
        let is_whole = |it: &mut (Dataset, u32)| it.0.places.len() >= it.1 as usize;
        if let Some((dataset, blocks)) = self.opening.take_if(is_whole) {
            if dataset.places.len() > blocks as usize {
                return Err(Contradiction);
            }
            self.insert(dataset)?;
        }
        Ok(())
    }

    /// The space that the datasets leave free of `units`; `None` if two share some, or one is
    /// where there is none.
    pub fn free(&self, units: u32) -> Option<Free> {
        let mut free = Free::new(units);
        let mut used = self.datasets().flat_map(Dataset::units);
        used.all(|(start, units)| free.claim(start, units)).then_some(free)
    }

    /// Forgets a manifest that was not read to its end: power failed while it was written.
    pub fn close(&mut self) {
        self.opening = None;
    }
}
