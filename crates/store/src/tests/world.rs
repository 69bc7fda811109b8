//! A node with one disk that does one thing after the other, and what it must have afterwards.
//! Before every step of the disk a copy of it loses power, and is looked at.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use super::disk::{Disk, below};
use super::{NODE, OWNER, formatted, mount, name, small};
use crate::{
    Action, Block, Dataset, DraftId, Error, Extent, Name, State, Step, Store, Ticket, Version,
};

/// Which flushes the disk answers without doing them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    Never,
    Always,
    /// Those that make blocks durable before their manifest.
    Blocks,
    /// Those that make records durable.
    Records,
}

/// What blocks contain.
type Blocks = Vec<Vec<u8>>;

/// What a store has.
#[derive(Clone, PartialEq, Eq, Default)]
struct Content {
    /// Every dataset: how far it is, and its blocks.
    datasets: BTreeMap<(Name, Version), (State, Blocks)>,
    notes: BTreeMap<Name, Vec<u8>>,
}

/// A draft, and what was written to its blocks.
type Drafted = (DraftId, Blocks);

/// The end of something.
type Ended = (Ticket, Result<(), Error>);

pub struct World {
    random: Xoshiro256PlusPlus,
    lie: Lie,
    extent: Extent,
    disk: Disk,
    /// What has happened; and what is happening would lead to.
    content: Content,
    after: Option<Content>,
    version: u64,
    pub probes: usize,
}

impl World {
    pub fn new(seed: u64, lie: Lie) -> World {
        let extent = small(10, 24);
        World {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            lie,
            extent,
            disk: formatted(&extent),
            content: Content::default(),
            after: None,
            version: 0,
            probes: 0,
        }
    }

    /// From a mount to a loss of power.
    pub fn live(&mut self, operations: usize) -> Result<(), String> {
        let mut store = mount(&self.disk, &self.extent).map_err(|it| format!("{it:?}"))?;
        self.settle(&mut store)?;
        for _ in 0..operations {
            self.operate(&mut store)?;
        }
        // Something that power loss interrupts.
        let end = below(&mut self.random, 8);
        self.begin(&mut store)?;
        for _ in 0..end {
            match store.poll() {
                Some(Action::Disk(step)) => self.step(&mut store, &step)?,
                Some(Action::Done(_, Ok(()))) => self.happened(),
                Some(Action::Done(_, Err(_))) => self.after = None,
                None => break,
            }
        }
        self.disk.lose_power(&mut self.random);
        self.content = self.look(&self.disk)?;
        self.after = None;
        Ok(())
    }

    fn happened(&mut self) {
        if let Some(after) = self.after.take() {
            self.content = after;
        }
    }

    fn operate(&mut self, store: &mut Store) -> Result<(), String> {
        let Some(ticket) = self.begin(store)? else { return Ok(()) };
        match self.settle(store)? {
            Some((ended, Ok(()))) if ended == ticket => self.happened(),
            Some((ended, Err(Error::CatalogueFull { .. }))) if ended == ticket => {}
            other => return Err(format!("{ticket:?} ended as {other:?}")),
        }
        self.after = None;
        Ok(())
    }

    /// Asks for something; notes what it leads to.
    fn begin(&mut self, store: &mut Store) -> Result<Option<Ticket>, String> {
        let keys: Vec<(Name, Version)> = self.content.datasets.keys().cloned().collect();
        let mut after = self.content.clone();
        let chosen = keys.get(below(&mut self.random, keys.len())).cloned();
        let ticket = match (below(&mut self.random, 7), chosen) {
            (0, Some(key)) => {
                after.datasets.remove(&key);
                store.remove(&key.0, key.1)
            }
            (1, Some(key)) => {
                commit(&mut after, &key);
                store.commit(&key.0, key.1)
            }
            (5 | 6, _) => {
                let key = name(["u", "v", "w"][below(&mut self.random, 3)]);
                let mut value =
                    alloc::vec![0; below(&mut self.random, 1025) * below(&mut self.random, 2)];
                self.random.fill_bytes(&mut value);
                after.notes.insert(key.clone(), value.clone());
                after.notes.retain(|_, value| !value.is_empty());
                store.note(key, &value)
            }
            (kind, _) => {
                let state = if kind == 2 { State::Prepared } else { State::Committed };
                self.version += 1;
                let key = (
                    name(["a", "b", "c"][below(&mut self.random, 3)]),
                    Version::new(self.version, 0),
                );
                let Some((draft, blocks)) = self.draft(store, &key)? else { return Ok(None) };
                after.datasets.insert(key.clone(), (state, blocks));
                let manifest = store.manifest(draft, &[NODE]).map_err(|it| format!("{it}"))?;
                if state == State::Committed {
                    commit(&mut after, &key);
                    store.commit_alone(draft, manifest)
                } else {
                    store.prepare(draft, manifest)
                }
            }
        };
        self.after = Some(after);
        ticket.map(Some).map_err(|it| format!("{it}"))
    }

    /// Writes a draft's blocks; gives nothing if the disk is full or the draft was given up.
    fn draft(
        &mut self,
        store: &mut Store,
        key: &(Name, Version),
    ) -> Result<Option<Drafted>, String> {
        let draft = store.create(key.0.clone(), key.1, OWNER).map_err(|it| format!("{it}"))?;
        let mut blocks = Vec::new();
        for number in 0..below(&mut self.random, 4) as u32 {
            let mut bytes = alloc::vec![0; 1 + below(&mut self.random, 9000)];
            self.random.fill_bytes(&mut bytes);
            match store.reserve(draft, number, bytes.len() as u32) {
                Ok(range) => {
                    // In several writes, as a caller with small buffers does it.
                    let mut padded = bytes.clone();
                    padded.resize(range.bytes as usize, 0);
                    for (at, piece) in (range.at..).step_by(4096).zip(padded.chunks(4096)) {
                        self.disk.write(at, piece);
                    }
                    let sum = Block::of(&bytes).checksum;
                    store.written(draft, number, sum).map_err(|it| format!("{it}"))?;
                    blocks.push(bytes);
                }
                Err(Error::Full { .. }) => {
                    store.abort(draft);
                    return Ok(None);
                }
                Err(other) => return Err(format!("{other}")),
            }
        }
        if below(&mut self.random, 6) == 0 {
            store.abort(draft);
            return Ok(None);
        }
        Ok(Some((draft, blocks)))
    }

    fn settle(&mut self, store: &mut Store) -> Result<Option<Ended>, String> {
        let mut last = None;
        while let Some(action) = store.poll() {
            match action {
                Action::Disk(step) => self.step(store, &step)?,
                Action::Done(ticket, result) => last = Some((ticket, result)),
            }
        }
        Ok(last)
    }

    /// One step of the disk, after power was lost once before and once after it.
    fn step(&mut self, store: &mut Store, step: &Step) -> Result<(), String> {
        self.probe()?;
        let is_lie = match self.lie {
            Lie::Never => false,
            Lie::Always => true,
            Lie::Blocks => self.wrote_block(),
            Lie::Records => !self.wrote_block(),
        };
        if *step != Step::Flush || !is_lie {
            self.disk.step(step);
        }
        self.probe()?;
        store.completed(Ok(()));
        Ok(())
    }

    /// Whether no record was written after the last flush.
    fn wrote_block(&self) -> bool {
        let log = self.extent.start..self.extent.data();
        !self.disk.cached().any(|at| log.contains(&at))
    }

    fn probe(&mut self) -> Result<(), String> {
        self.probes += 1;
        let mut disk = self.disk.clone();
        disk.lose_power(&mut self.random);
        self.look(&disk).map(|_| ())
    }

    /// Mounts a store that must have what was acknowledged, whole, and perhaps what was under way.
    fn look(&self, disk: &Disk) -> Result<Content, String> {
        let store = mount(disk, &self.extent).map_err(|it| format!("{it:?}"))?;
        let read = |dataset: &Dataset| {
            let blocks = dataset.manifest.blocks().iter().enumerate();
            let blocks = blocks.map(|(at, block)| {
                let range = dataset.range(&self.extent, at).ok_or("a block is elsewhere")?;
                let mut bytes = disk.read(range.at, range.bytes as usize);
                bytes.truncate(block.bytes as usize);
                block.holds(&bytes).then_some(bytes).ok_or("a block is not whole")
            });
            let key = (dataset.manifest.name.clone(), dataset.manifest.version);
            Ok((key, (dataset.state, blocks.collect::<Result<Vec<_>, &str>>()?)))
        };
        let datasets = store.datasets().map(read).collect::<Result<BTreeMap<_, _>, &str>>()?;
        let notes = store.notes().map(|(key, value)| (key.clone(), value.to_vec())).collect();
        let found = Content { datasets, notes };
        if found != self.content && Some(&found) != self.after.as_ref() {
            let keys = |it: &Content| {
                let datasets = it.datasets.iter().map(|(key, value)| (key.clone(), value.0));
                let notes = it.notes.iter().map(|(key, value)| (key.clone(), value.len()));
                (datasets.collect::<Vec<_>>(), notes.collect::<Vec<_>>())
            };
            return Err(format!("{:?} instead of {:?}", keys(&found), keys(&self.content)));
        }
        let blocks = found.datasets.values().flat_map(|(_, blocks)| blocks);
        let used: u64 = blocks.map(|it| (it.len() as u64).next_multiple_of(crate::UNIT)).sum();
        let space = store.space();
        (space.total - space.free == used).then_some(found).ok_or("space has leaked".into())
    }
}

/// What committing a dataset does to all.
fn commit(content: &mut Content, key: &(Name, Version)) {
    if let Some(it) = content.datasets.get_mut(key) {
        it.0 = State::Committed;
    }
    content.datasets.retain(|it, _| it.0 != key.0 || it.1 == key.1 || it.1.epoch > key.1.epoch);
}
