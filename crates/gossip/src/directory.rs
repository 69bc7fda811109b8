//! One node's directory: its cores and instances, each with the version in which it changed last.
//! What has changed since any version is found by that, whoever holds the directory, so that a
//! directory of any size travels in pages of which nobody keeps a cursor.

use alloc::vec::Vec;

use nile_order::SortedMap;

use crate::records::{Core, Gone, Instance, Refused, Update, size};
use crate::wire::{CHANGES, Changes};

/// A directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Directory {
    version: u32,
    cores: SortedMap<u16, Core>,
    instances: SortedMap<u16, Instance>,
    /// Numbers that were used, as ranges that neither meet nor touch, in order.
    gone: Vec<Gone>,
    /// Of everything, in the binary form.
    bytes: usize,
}

/// What a change did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Applied {
    Core(Core),
    Published(Instance),
    Moved(Instance),
    Unpublished(Instance),
}

/// What a directory may grow to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Cores, instances and ranges of former instances.
    pub entries: usize,
    /// Bytes of one instance.
    pub instance: usize,
    /// Bytes of the directory.
    pub bytes: usize,
}

impl Directory {
    /// How many changes there were.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The cores by number. One without roles is not there any more.
    pub fn cores(&self) -> impl Iterator<Item = &Core> {
        self.cores.values()
    }

    /// The instances by number.
    pub fn instances(&self) -> impl Iterator<Item = &Instance> {
        self.instances.values()
    }

    /// Bytes of everything in the binary form.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn entries(&self) -> usize {
        self.cores.len() + self.instances.len() + self.gone.len()
    }

    /// Changes the directory of this node; gives the version before. Fails if it has no room.
    pub(crate) fn update(&mut self, update: Update, room: Room) -> Result<u32, Refused> {
        let (before, changed) = (self.version, self.version.wrapping_add(1));
        match update {
            Update::Core(core) => {
                if !self.cores.contains_key(&core.core) && self.entries() >= room.entries {
                    return Err(Refused::Full { entries: self.entries() });
                }
                self.put_core(Core { changed, ..core });
            }
            Update::Publish(instance) => {
                let bytes = size(&instance);
                if bytes > room.instance {
                    return Err(Refused::TooLarge { bytes, most: room.instance });
                }
                let known = self.instances.contains_key(&instance.number);
                if !known && self.entries() >= room.entries {
                    return Err(Refused::Full { entries: self.entries() });
                }
                self.put_instance(Instance { changed, ..instance });
            }
            Update::Unpublish(number) => {
                if !self.instances.contains_key(&number) {
                    return Err(Refused::Unknown { number });
                }
                self.put_gone(&Gone { first: number, last: number, changed });
            }
            Update::Move { number, core, generation } => {
                let Some(instance) = self.instances.get_mut(&number) else {
                    return Err(Refused::Unknown { number });
                };
                (instance.core, instance.generation, instance.changed) =
                    (core, generation, changed);
            }
        }
        self.version = changed;
        Ok(before)
    }

    /// What changed last after `since`, in the order of the changes, as much as `room` bytes hold.
    /// `None` if nothing did, or if not even the first change fits.
    pub(crate) fn changes(
        &self,
        node: u32,
        generation: u32,
        since: u32,
        room: usize,
    ) -> Option<Changes> {
        enum Item<'a> {
            Core(&'a Core),
            Instance(&'a Instance),
            Gone(&'a Gone),
        }
        let cores = self.cores.values().map(|it| (it.changed, Item::Core(it)));
        let instances = self.instances.values().map(|it| (it.changed, Item::Instance(it)));
        let gone = self.gone.iter().map(|it| (it.changed, Item::Gone(it)));
        let mut items: Vec<(u32, Item<'_>)> =
            cores.chain(instances).chain(gone).filter(|(changed, _)| *changed > since).collect();
        if items.is_empty() {
            return None;
        }
        nile_order::sort_by_key(&mut items, |(changed, _)| *changed);
        let mut changes = Changes {
            node,
            generation,
            base: since,
            version: since,
            latest: self.version,
            cores: Vec::new(),
            instances: Vec::new(),
            gone: Vec::new(),
        };
        let mut left = room.checked_sub(CHANGES)?;
        for (changed, item) in items {
            let bytes = match item {
                Item::Core(core) => size(core),
                Item::Instance(instance) => size(instance),
                Item::Gone(gone) => size(gone),
            };
            let Some(rest) = left.checked_sub(bytes) else {
                return (changes.version > since).then_some(changes);
            };
            left = rest;
            changes.version = changed;
            match item {
                Item::Core(core) => changes.cores.push(core.clone()),
                Item::Instance(instance) => changes.instances.push(instance.clone()),
                Item::Gone(gone) => changes.gone.push(gone.clone()),
            }
        }
        changes.version = self.version;
        Some(changes)
    }

    /// Takes over changes that begin at this version or before, and says what they did. Gives how
    /// many of them were refused, because they are beyond `room` or contradict themselves: they
    /// are lost here, and the directory goes on without them.
    pub(crate) fn apply(
        &mut self,
        changes: Changes,
        room: Room,
        mut told: impl FnMut(Applied),
    ) -> u64 {
        let (held, version) = (self.version, changes.version);
        let is_new = |changed: u32| changed > held && changed <= version;
        let mut refused = 0;
        for gone in changes.gone.iter().filter(|gone| is_new(gone.changed)) {
            if gone.first > gone.last || self.entries() >= room.entries {
                refused += 1;
                continue;
            }
            self.put_gone(gone).into_iter().for_each(|it| told(Applied::Unpublished(it)));
        }
        for core in changes.cores {
            if !is_new(core.changed) {
                continue;
            }
            if !self.cores.contains_key(&core.core) && !self.has_room(size(&core), room) {
                refused += 1;
                continue;
            }
            self.put_core(core.clone());
            told(Applied::Core(core));
        }
        for instance in changes.instances {
            if !is_new(instance.changed) {
                continue;
            }
            let bytes = size(&instance);
            let old = self.instances.get(&instance.number);
            let more = bytes.saturating_sub(old.map_or(0, size));
            let fits = match old {
                Some(_) => self.bytes + more <= room.bytes,
                None => self.has_room(bytes, room),
            };
            if bytes > room.instance || !fits {
                refused += 1;
                continue;
            }
            let is_moved = old.is_some_and(|old| is_same_but_moved(old, &instance));
            self.put_instance(instance.clone());
            told(if is_moved { Applied::Moved(instance) } else { Applied::Published(instance) });
        }
        self.version = version;
        refused
    }

    fn has_room(&self, bytes: usize, room: Room) -> bool {
        self.entries() < room.entries && self.bytes + bytes <= room.bytes
    }

    fn put_core(&mut self, core: Core) {
        self.bytes += size(&core);
        let old = self.cores.insert(core.core, core);
        self.bytes -= old.as_ref().map_or(0, size);
    }

    fn put_instance(&mut self, instance: Instance) {
        let number = instance.number;
        self.revive(number);
        self.bytes += size(&instance);
        let old = self.instances.insert(number, instance);
        self.bytes -= old.as_ref().map_or(0, size);
    }

    /// Ends the instances in the range; gives those that there were. The range is joined with
    /// those that it meets or touches: numbers are used once, so there is one range at last.
    fn put_gone(&mut self, gone: &Gone) -> Vec<Instance> {
        let numbers: Vec<u16> =
            self.instances.range(gone.first..=gone.last).map(|(number, _)| *number).collect();
        let ended: Vec<Instance> =
            numbers.iter().filter_map(|number| self.instances.remove(number)).collect();
        self.bytes -= ended.iter().map(size).sum::<usize>();
        let mut joined = gone.clone();
        self.gone.retain(|other| {
            let is_apart = u32::from(other.last) + 1 < u32::from(joined.first)
                || u32::from(joined.last) + 1 < u32::from(other.first);
            if !is_apart {
                joined.first = joined.first.min(other.first);
                joined.last = joined.last.max(other.last);
                joined.changed = joined.changed.max(other.changed);
            }
            is_apart
        });
        let place = self.gone.partition_point(|other| other.first < joined.first);
        self.gone.insert(place, joined);
        ended
    }

    /// A number that is used again, which it should not be, is not among those that are gone.
    fn revive(&mut self, number: u16) {
        let covers = |gone: &&mut Gone| (gone.first..=gone.last).contains(&number);
        let Some(gone) = self.gone.iter_mut().find(covers) else { return };
        let (below, above) = (
            Gone { last: number.wrapping_sub(1), ..gone.clone() },
            Gone { first: number.wrapping_add(1), ..gone.clone() },
        );
        let parts = [(below, gone.first < number), (above, number < gone.last)];
        self.gone.retain(|gone| !(gone.first..=gone.last).contains(&number));
        self.gone.extend(parts.into_iter().filter_map(|(part, is_any)| is_any.then_some(part)));
        nile_order::sort_by_key(&mut self.gone, |gone| gone.first);
    }
}

fn is_same_but_moved(old: &Instance, new: &Instance) -> bool {
    let (core, generation, changed) = (new.core, new.generation, new.changed);
    let is_elsewhere = (old.core, old.generation) != (core, generation);
    is_elsewhere && Instance { core, generation, changed, ..old.clone() } == *new
}

#[cfg(test)]
mod tests;
